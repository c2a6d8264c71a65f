"""Private recursive least squares: phase 2 of `algo:PP_RLS`, from releases alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import numpy as np
import scipy

from privest.arrays import (
    AnyArray,
    Array,
    ArrayLike,
    as_array,
    as_count,
    as_flag,
    as_kind,
    fingerprint_of,
    plural,
)
from privest.bounds import parameter_list
from privest.errors import (
    CheckpointError,
    InfiniteInformation,
    InvalidInput,
    NotIdentifiable,
    NumericalFailure,
)
from privest.estimator._step_rows import StepRows, Steps, under
from privest.estimator.inference._errors import (
    DOUBTFUL,
    Scatter,
    less_noise_p,
    stated_p,
    unknown_errors,
)
from privest.estimator.result import Estimate
from privest.linalg.running import RunningLeastSquares, require_squares, tall_triangle
from privest.linalg.tolerances import LARGEST_ROOT, rank_tolerance
from privest.noise import JointNoise, Noise, as_joint
from privest.privacy import PrivacyLevel, StreamLevel, as_stream_level
from privest.reading import state_array, state_count
from privest.release import Release

FACTS = ("steps", "measurements", "simulated", "_alike", "_gaussian", "_largest")  # beside the sums


class PrivateRLS:
    """Recursive least squares from the releases of a stream: phase 2 of `algo:PP_RLS`.

        θ̂_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ ζ_j ,   [G, ζ] = C⁻¹[A H̄, z̃] ,   C Cᵀ = A Σ̄ Aᵀ + I

    level       as in the mechanism (a number: of every measurement).
    parameters  n.
    noise       distribution of w at one step, or its variance; independent between steps.
    classical   keep Σ_CR too (always there with one level and one distribution for all).

    Unbiased; for Gaussian noise `covariance` is Σ_PPCR,k, the bound for every mechanism within the
    level (`thm:opt`). NotIdentifiable until the releases determine θ. Cost: O(1) a step for U = 0,
    O(b²) with b lags, O(k²) for a dense level.

    >>> import privest as pv
    >>> level, rng = pv.StreamLevel.constant(4.0), np.random.default_rng(0)
    >>> mechanism = pv.StreamMechanism(level)
    >>> rls = PrivateRLS(level, 1, noise=pv.noise.Gaussian(cov=0.25))
    >>> for y in [1.0, 1.2, 0.8]:
    ...     rls.update(mechanism.simulate(y, rng), [1.0])
    >>> rls.steps, rls.estimate.covariance.round(12).tolist()  # (1/4 + 1/4) / 3
    (3, [[0.166666666667]])
    """

    steps: int
    measurements: int
    simulated: bool

    def __init__(
        self,
        level: StreamLevel | PrivacyLevel | float,
        parameters: int,
        noise: Noise,
        *,
        classical: bool = False,
    ) -> None:
        self.level: StreamLevel = as_stream_level(level)
        classical = as_flag(classical, "classical")
        self.parameters: int = as_count(parameters, "parameters", least=1)
        self.noise: JointNoise = as_joint(noise)
        block = self.level.block
        if self.noise.size not in (None, block):
            raise InvalidInput(
                f"The noise has {self.noise.size} components; a step of this stream has "
                f"{'a changing number of' if block is None else block} measurements."
            )
        self.steps, self.measurements = 0, 0
        self.simulated = False  # whether some release was
        self._largest: float | None = None  # variance of the noise of the releases so far
        widest = block or max(self.level.sizes_between(0, self.level.steps or 0))
        tolerance = rank_tolerance(max(self.parameters, widest))
        self._fit = RunningLeastSquares(self.parameters, tolerance)
        # H in units of its noise, for Σ_CR.
        self._open = RunningLeastSquares(self.parameters, tolerance) if classical else None
        self._rows = StepRows(self.level, self.parameters + 1, widest)
        # One measurement a step, U = 0: a row of numbers, without the machinery.
        self._one: tuple[float, float] | None = None
        if self.level.form == "independent" and block == 1:
            variance, mean = self.noise.covariance(1).diagonal(), self.noise.expectation(1)
            self._one = (float(variance[0]), float(np.ravel(mean)[0]))
        # Whether all measurements had one level and one law: covariances are multiples of one.
        self._alike = self._one is not None and self.level.steps is None
        self._gaussian = self.noise.gaussian
        self._work = np.empty((1, self.parameters + 1))

    # --- updates ------------------------------------------------------------------------------

    def update(self, release: Release, rows: ArrayLike, *, noise: Noise | None = None) -> None:
        """Use the release of the next step or steps; `rows` are their H, (n,) or (values, n).

        `noise`: of this release, if not the usual one. Where this raises, nothing changed.
        """
        as_kind(release, Release, "update takes a Release, as a mechanism gives")
        if release.start != self.steps or release.fingerprint != self.level.fingerprint:
            release.require(self.level.fingerprint)
            raise InvalidInput(
                f"The next step is {self.steps}; this release starts at step {release.start}. "
                "Every release is used once, in order."
            )
        if release.steps == 1 and self._one is not None and noise is None:
            self._update_one(release, rows)
            return
        self._require_whole(release)
        H = self._matrix(rows, len(release.values))
        law = self.noise if noise is None else as_joint(noise)
        steps = Steps(release, self.level, law, noise is not None)
        with self._whole_or_nothing():
            floor = self._open_triangle(steps, H)
            if not self._add_independent(steps, H):
                self._add_mixed(steps, H)
            if self._open is not None and floor is not None:
                self._open.add(floor)
        self._alike &= noise is None
        self._gaussian &= law.gaussian
        self.steps += release.steps
        self.measurements += len(release.values)
        self._rows.measurements = self.measurements
        self._see(release)

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """Where the block raises, everything is as it was before."""
        facts = {name: getattr(self, name) for name in FACTS}
        every: tuple[Any, ...] = (self._fit, self._rows, self._open)
        parts = [part for part in every if part is not None]
        marks = [part.mark() for part in parts]
        try:
            yield
        except BaseException:
            vars(self).update(facts)
            for part, mark in zip(parts, marks):
                part.rollback(mark)
            self._rows.measurements = self.measurements
            raise

    def _update_one(self, release: Release, rows: ArrayLike) -> None:
        """One scalar measurement, U = 0: x = h √s/√(1 + sσ²)."""
        n, k, work = self.parameters, self.steps, self._work
        h = rows if type(rows) is np.ndarray and rows.shape == (n,) else self._matrix(rows, 1)[0]
        last = self.level.steps
        if len(release.values) != 1 or (last is not None and k >= last):
            self._require_whole(release)
        shown = release.missing is None or not release.missing[0]
        if shown:
            self._whiten_one(release, h)
            if self._open is not None:  # first what can fail
                floor = self.noise.inverse_information(1).diagonal()[0]
                self._open.add(np.append(h, 0.0)[None] / math.sqrt(floor))
            self._fit.add_row(work)
        self.steps = k + 1
        self.measurements += 1
        self._see(release)

    def _whiten_one(self, release: Release, h: Array) -> None:
        assert self._one is not None
        n, work, (variance, mean) = self.parameters, self._work, self._one
        s = self.level.pointwise(self.steps, self.steps + 1)
        root = math.sqrt(s)  # type: ignore[arg-type] # one number
        deviation = math.sqrt(release.unit_variance + s * variance)  # type: ignore[operator]
        _require_finite(deviation)
        np.multiply(h, root / deviation, out=work[0, :n])
        work[0, n] = (release.values[0] - root * mean) / deviation
        if not scipy.linalg.blas.dnrm2(work[0]) < LARGEST_ROOT:
            self._matrix(h, 1)  # names what is not finite
            as_array(release.values, "the release")
            require_squares(work)

    def _add_independent(self, steps: Steps, H: Array) -> bool:
        """U = 0 and independent noise: one pass over H and z. False where it is not so."""
        level = self.level.pointwise(steps.release.start, steps.stop)
        variance = None if level is None else steps.covariance.pointwise
        if level is None or variance is None:
            return False
        root = np.sqrt(level) * steps.unit
        level = root * root
        with np.errstate(over="ignore"):
            deviation = np.sqrt(1.0 + level * variance)
        _require_finite(float(np.max(deviation, initial=0.0)))
        weight, unit, shift = root / deviation, 1.0 / deviation, root * steps.mean / deviation
        if steps.absent is not None:
            seen = ~steps.absent
            weight, unit, shift = weight * seen, unit * seen, shift * seen
        triangle = tall_triangle(H, steps.values, weight, unit, shift)
        if not np.isfinite(triangle).all():  # looked for afterwards: a look is a pass by itself
            _require_numbers(steps, H)
        self._fit.add(triangle)
        return True

    def _add_mixed(self, steps: Steps, H: Array) -> None:
        """Measurements or noise that are mixed: whitened as they come."""
        _require_numbers(steps, H)
        white, natural = self._rows.whiten(steps, H, natural=not self._fit.full)
        self._fit.add(white, None if natural is None else natural[:, :-1])

    def _open_triangle(self, steps: Steps, H: Array) -> Array | None:
        """The triangle of H in units of its noise, where Σ_CR is wanted."""
        if self._open is None:
            return None
        variance = steps.floor.pointwise
        if variance is None or not np.all(np.asarray(variance) > 0):
            raise InvalidInput(
                "classical=True is for noise that is independent between measurements and nowhere "
                "zero; `bound` takes any."
            )
        weight = 1.0 / np.sqrt(variance)
        if steps.absent is not None:
            weight = weight * ~steps.absent
        # With any measurements: only the part of H is wanted.
        return tall_triangle(H, steps.values, weight, weight, 0.0)

    def _require_whole(self, release: Release) -> None:
        """Values and flags for exactly the steps that the release says, and that the level has."""
        level, stop = self.level, release.start + release.steps
        if level.steps is not None and stop > level.steps:
            raise InvalidInput(
                f"The level ends after {level.steps} steps; this release reaches step {stop - 1}."
            )
        size = (
            sum(level.sizes_between(release.start, stop))
            if level.block is None
            else release.steps * level.block
        )
        flags = release.steps if release.missing is None else release.missing.size
        if len(release.values) != size or flags not in (release.steps, size):
            raise InvalidInput(
                f"A release of {plural(release.steps, 'step')} of this stream has "
                f"{plural(size, 'value')}; received {len(release.values)} (and {flags} flags)."
            )

    def _matrix(self, rows: ArrayLike, size: int) -> Array:
        H = np.asarray(rows)
        if H.dtype != np.float64 or H.ndim != 2:  # others are looked through with their triangle
            H = as_array(rows, "the rows of H", ndim=(0, 1, 2))
        if H.ndim < 2 and size == 1:
            H = H.reshape(1, -1)
        elif H.ndim == 1 and self.parameters == 1:
            H = H.reshape(-1, 1)
        if H.shape != (size, self.parameters):
            raise InvalidInput(
                f"the rows of H must have shape {(size, self.parameters)}; received {H.shape}."
            )
        return H

    # --- what is known so far --------------------------------------------------------------------

    @property
    def unit_variance(self) -> float:
        """The largest variance of the noise on a release, `Release.unit_variance`."""
        return self._largest or 1.0

    @property
    def identifiable(self) -> bool:
        return self._fit.full

    @property
    def hidden_directions(self) -> Array:
        """Orthonormal basis (n, h) of what the releases do not show yet."""
        return self._fit.root().hidden if not self._fit.full else np.zeros((self.parameters, 0))

    @property
    def estimate(self) -> Estimate:
        return self.result()

    @property
    def value(self) -> Array:
        self._require()
        return self._fit.solution()

    @property
    def covariance(self) -> Array:
        """cov θ̂_k: Σ_PPCR,k for Gaussian noise."""
        self._require()
        return self._fit.inverse()

    @property
    def standard_error(self) -> Array:
        return np.sqrt(np.diagonal(self.covariance))

    def result(self, names: Sequence[str] = ()) -> Estimate:
        """The estimate at this step.

        With one level s and one distribution of variance σ² and information I every covariance is a
        multiple of one: sampling σ², classical 1/I, bound 1/I + 1/s against σ² + 1/s.
        """
        covariance = self.covariance
        classical = None if self._open is None else self._open.inverse()
        # A release with noise of variance v > 1 has at most v times the least covariance.
        sampling, bound = None, covariance / self.unit_variance if self._gaussian else None
        if self._alike and self._one is not None:
            level, own = self._one_level / self.unit_variance, self._one[0]
            unit = level / (1.0 + level * own)
            sampling = unit * own * covariance
            with suppress(InfiniteInformation):  # a law that jumps: there is no floor above 0
                floor = float(self.noise.inverse_information(1).diagonal()[0])
                classical = unit * floor * covariance
                least = (floor + 1.0 / self._one_level) * unit
                whole = floor == own and self.unit_variance == 1.0
                bound = covariance if whole else least * covariance
        return Estimate(
            value=self.value,
            covariance=covariance,
            sampling=sampling,
            classical=classical,
            bound=bound,
            names=tuple(names),
            simulated=self.simulated,
        )

    def result_unknown(self, names: Sequence[str], shown: int) -> Estimate:
        """The estimate where σ² is unknown, for an estimator made with noise 0.

        With one level Student's t from the residuals of the `shown` values, errors not below those
        of the privacy noise; elsewhere, or without a value to spare, the covariance is NaN.
        """
        errors: dict[str, Any] = {"covariance": np.full_like(self.covariance, np.nan)}
        if self._common_level is not None and shown > self.parameters:
            scatter = self._scatter(shown)
            errors = unknown_errors(self.covariance / scatter.added, scatter).fields()
        return Estimate(value=self.value, names=tuple(names), simulated=self.simulated, **errors)

    def _scatter(self, shown: int) -> Scatter:
        """Residuals of the `shown` values at one level, for an estimator made with noise 0."""
        assert self._common_level is not None
        added = self.unit_variance / self._common_level
        return Scatter(self.misfit * added, shown - self.parameters, added)

    def doubts(self, shown: int, *, known: bool = True) -> list[str]:
        """Evidence of the `shown` values against the release or a `known` σ², in sentences."""
        freedom = shown - self.parameters
        if freedom < 1:
            return []
        own = float(self.noise.covariance(self.noise.size or 1).diagonal()[0])
        privacy = 0.0 if known else 1.0  # the part of it in the variance of a whitened row
        if self._common_level is not None:
            added = self.unit_variance / self._common_level
            privacy = added / (own + added)
        if privacy and less_noise_p(self.misfit, freedom, privacy) < DOUBTFUL:
            return [
                "The releases vary less than their own noise would, whatever the measurements are: "
                "they hold less noise than they say, or were smoothed. Ask the data owner."
            ]
        if not known or stated_p(self.misfit, freedom, 1.0) >= DOUBTFUL:
            return []
        return [
            f"The releases vary {self.misfit / freedom:.3g} times as much as the residual variance "
            f"{own:.3g} and the level imply (by chance with a probability below {DOUBTFUL:g}): "
            "that variance is wrong, or the model is, or a few measurements are wild."
        ]

    @property
    def _common_level(self) -> float | None:
        """s, where all measurements had one level and one distribution; else None."""
        return self._one_level if self._alike and self._one is not None else None

    @property
    def _one_level(self) -> float:
        return float(np.ravel(self.level.pointwise(0, 1))[0])  # type: ignore[arg-type]

    @property
    def information(self) -> Array:
        """PI_k, also before θ is identifiable."""
        return self._fit.root().information

    @property
    def misfit(self) -> float:
        """‖Gθ̂ − ζ‖²: χ² with (values shown − n) degrees of freedom under the model."""
        self._require()
        return self._fit.misfit

    def _require(self) -> None:
        if not self._fit.full:
            hidden = self._fit.root().hidden
            raise NotIdentifiable(
                f"After {self.steps} steps θ is not yet identifiable: {hidden.shape[1]} of "
                f"{self.parameters} directions are hidden ({parameter_list(hidden)}).",
                hidden,
            )

    def _see(self, release: Release) -> None:
        """Note the kind of a release: covariances of two kinds are no multiples of one."""
        variance = release.unit_variance
        if variance != self._largest:
            self._alike &= self._largest is None
            self._largest = max(variance, self.unit_variance)
        self.simulated |= release.simulated

    # --- put down and taken up ------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Identifies the assumptions: level, n, and the noise of a step."""
        size = self.noise.size or 1
        noise = self.noise.covariance(size).dense()
        mean = np.asarray(self.noise.expectation(size), dtype=float)
        floor = np.zeros_like(noise)  # what a law of infinite information has
        with suppress(InfiniteInformation):
            floor = self.noise.inverse_information(size).dense()
        own = fingerprint_of(str(self.parameters), noise, floor, mean)
        return f"{self.level.fingerprint}/{own}"

    def state(self) -> dict[str, AnyArray]:
        """State for the next steps, as arrays; public: made of releases only."""
        result: dict[str, AnyArray] = {
            "steps": np.array(self.steps),
            "readings": np.array(self.measurements),
            "facts": np.array([self.simulated, self._alike, self._gaussian]),
            "noise": np.array([self._largest or 0.0]),
        }
        result |= self._rows.state()
        for prefix, part in (("fit", self._fit), ("open", self._open)):
            if part is not None:
                result |= {f"{prefix}.{name}": array for name, array in part.state().items()}
        return {name: array.copy() for name, array in result.items()}

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Restore a `state`, all of it or nothing; InvalidInput for one of another estimator."""
        kept = {name: array.copy() for name, array in self.state().items()}
        try:
            self._take(state)
        except (InvalidInput, CheckpointError):
            self._take(kept)
            raise

    def _take(self, state: Mapping[str, AnyArray]) -> None:
        steps, measurements = state_count(state, "steps"), state_count(state, "readings")
        if self.level.measurements_before(steps) != measurements:
            raise InvalidInput(
                f"{steps} steps at this level do not have {measurements} measurements."
            )
        self.steps, self.measurements = steps, measurements
        facts = state_array(state, "facts", (3,), "b")
        self.simulated, self._alike, self._gaussian = facts.tolist()
        largest = float(state_array(state, "noise", (1,))[0])
        if largest != 0 and not 1.0 <= largest <= 2.0:
            raise InvalidInput("the state 'noise' must be the variance of the noise of releases.")
        self._largest = largest or None
        self._fit.restore(under(state, "fit."))
        if self._open is not None:
            self._open.restore(under(state, "open."))
        self._rows.measurements = self.measurements
        self._rows.restore(state)

    def __copy__(self) -> PrivateRLS:
        return deepcopy(self)

    def __repr__(self) -> str:
        when = "identifiable" if self._fit.full else "not yet identifiable"
        return f"PrivateRLS({self.parameters} parameters, after {self.steps} steps, {when})"


def _require_numbers(steps: Steps, H: Array) -> None:
    as_array(H, "the rows of H")
    as_array(steps.values, "the release")


def _require_finite(scaled: float) -> None:
    if not math.isfinite(scaled):
        raise NumericalFailure(
            "the level times the variance of the noise is too large for a number: choose other "
            "units of the measurements."
        )

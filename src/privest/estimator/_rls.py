"""Private recursive least squares: phase 2 of `algo:PP_RLS`, from releases alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import AnyArray, Array, Flags, Index, as_array
from privest.bounds._classical import parameter_list
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._step_noise import step_covariance, step_mean
from privest.linalg import PSD
from privest.linalg import _compiled as machine
from privest.linalg._appending import BandedAppend, DenseAppend
from privest.linalg._columns import StoredColumns
from privest.linalg._cumulative import numpy_kernel
from privest.linalg._running import RunningLeastSquares
from privest.linalg._stream_solutions import every_step
from privest.linalg._tall import tall_triangle
from privest.linalg.batched import rank_tolerance
from privest.noise import JointNoise, ScalarLaw, as_joint
from privest.privacy import SequentialLevel
from privest.privacy._level import fingerprint_of
from privest.release import StreamRelease

LONG = 8192  # entries of H that are looked through before they are used, not after


@dataclass(frozen=True, eq=False)
class StreamHistory:
    """θ̂_k (K, n) and its covariance (K, n, n) for the steps k = first, first + 1, …"""

    first: int
    estimates: Array
    covariances: Array

    def __len__(self) -> int:
        return len(self.estimates)


class PrivateRLS:
    """The learner's side of a stream: θ̂_k and its covariance after every release.

        θ̂_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ ζ_j ,   [G, ζ] = C⁻¹[A H̄, z̃] ,   C Cᵀ = A Σ̄ Aᵀ + I

    Symbols: `level` as in the mechanism, `parameters` = n, `noise` the law of w at one step
    (independent between steps; for noise that changes give `noise` to `update`); `compiled`:
    machine code for long blocks, see `bounds.stream_bound`.
    Guarantees: unbiased, and for Gaussian noise efficient: `covariance` is Σ_PPCR,k, the floor for
    every mechanism within the level (`thm:opt`). For other noise it is the covariance with cov w.
    Raises NotIdentifiable, with the hidden directions, until θ is identifiable.
    Numerics: rows are whitened as they come (`linalg.appending`) and added to a triangle by QR;
    O(1) a step for U = 0, O(b²) and a fixed memory for a level that looks back b steps, O(k²) for
    a dense one.
    Source: `algo:PP_RLS`, `thm:opt`; the recursion itself is ours (docs/theory.md 6).

    >>> import privest as pv
    >>> level, rng = pv.EndlessLevel(4.0), np.random.default_rng(0)
    >>> mechanism = pv.StreamMechanism(level)
    >>> rls = PrivateRLS(level, 1, noise=pv.noise.Gaussian(cov=0.25))
    >>> for y in [1.0, 1.2, 0.8]:
    ...     rls.update(mechanism.simulate(y, rng), [1.0])
    >>> rls.steps, rls.covariance.round(12).tolist()  # (1/4 + 1/4) / 3
    (3, [[0.166666666667]])
    """

    def __init__(
        self,
        level: SequentialLevel,
        parameters: int,
        noise: ScalarLaw | JointNoise | Sequence[ScalarLaw],
        *,
        compiled: bool | None = None,
    ) -> None:
        if not isinstance(level, SequentialLevel):
            raise InvalidInput(
                f"level must be a StreamLevel or an EndlessLevel; received {type(level).__name__}."
            )
        if not isinstance(parameters, int | np.integer) or parameters < 1:
            raise InvalidInput("parameters must be a whole number ≥ 1: the length of θ.")
        self.level, self.parameters = level, int(parameters)
        self.noise, self.compiled = as_joint(noise), compiled
        if self.noise.size is not None and self.noise.size != level.block:
            raise InvalidInput(
                f"The noise has {self.noise.size} components; a step of this stream has "
                f"{'a changing number of' if level.block is None else level.block} readings."
            )
        self.steps, self.readings = 0, 0
        widest = level.block or max(level.sizes_between(0, level.steps or 0))
        self._fit = RunningLeastSquares(
            self.parameters, rank_tolerance(max(self.parameters, widest))
        )
        # Missing readings that later rows look back to: steps of the window, or all (dense).
        self._window: Flags = np.zeros(0, dtype=bool)
        self._absent: Index = np.zeros(0, dtype=np.intp)
        self._rows: BandedAppend | DenseAppend | None = None
        columns = self.parameters + 1
        if level.form == "dense":
            self._rows = DenseAppend(widest, columns)
        elif level.block is not None:
            self._rows = BandedAppend(level.reach, level.block, columns)
            self._window = np.zeros(level.reach, dtype=bool)
        # One reading a step, U = 0: a row of numbers, without the machinery.
        self._one: tuple[float, float] | None = None
        if level.form == "independent" and level.block == 1:
            variance, mean = self.noise.covariance(1).diagonal(), self.noise.expectation(1)
            self._one = (float(variance[0]), float(np.ravel(mean)[0]))
        self._work = np.empty((1, columns))

    # --- updates ------------------------------------------------------------------------------

    def update(
        self,
        release: StreamRelease,
        rows: ArrayLike,
        *,
        noise: ScalarLaw | JointNoise | Sequence[ScalarLaw] | None = None,
    ) -> None:
        """Use the release of the next step or steps; `rows` are their H, (n,) or (readings, n).

        `noise` is the law of all readings of this release, if it is not the usual one.
        """
        if not isinstance(release, StreamRelease):
            raise InvalidInput(
                f"update takes a StreamRelease, as a mechanism gives; received "
                f"{type(release).__name__}."
            )
        if release.start != self.steps or release.fingerprint != self.level.fingerprint:
            self._refuse(release)
        if release.steps == 1 and self._one is not None and noise is None:
            return self._update_one(release, rows)
        self._require_whole(release)
        H = self._matrix(rows, len(release.values))
        law = self.noise if noise is None else as_joint(noise)
        start, stop = self.steps, self.steps + release.steps
        s = self.level.pointwise(start, stop)
        if s is not None:
            sigma = step_covariance(law, noise is not None, release, self.level)
            if sigma.pointwise is not None:
                mean = step_mean(law, noise is not None, release)
                self._add_independent(release, H, s, sigma.pointwise, mean)
                return self._advance(release)
        self._require_finite(H, release)
        whitened, natural = self._whiten(release, H, law, noise is not None)
        self._fit.add(whitened, None if natural is None else natural[:, :-1])
        return self._advance(release)

    def _update_one(self, release: StreamRelease, rows: ArrayLike) -> None:
        """One scalar reading, U = 0: x = h √s/√(1 + sσ²)."""
        assert self._one is not None
        n, k = self.parameters, self.steps
        h = rows if type(rows) is np.ndarray and rows.shape == (n,) else self._matrix(rows, 1)[0]
        last = self.level.steps
        if len(release.values) != 1 or (last is not None and k >= last):
            self._require_whole(release)
        if release.missing is None or not release.missing[0]:
            variance, mean = self._one
            s = self.level.pointwise(k, k + 1)
            root = math.sqrt(s)  # type: ignore[arg-type] # one number
            deviation = math.sqrt(1.0 + s * variance)  # type: ignore[operator]
            work, z = self._work, release.values[0]
            np.multiply(h, root / deviation, out=work[0, :n])
            work[0, n] = (z - root * mean) / deviation
            if not math.isfinite(work[0].dot(work[0])):
                self._matrix(rows, 1)  # names what is not finite
                as_array(release.values, "the release")
            self._fit.add_row(work)
        self.steps = k + 1
        self.readings += 1

    def _add_independent(
        self,
        release: StreamRelease,
        H: Array,
        level: Array | float,
        variance: Array | float,
        mean: Array | float,
    ) -> None:
        """U = 0 with nothing mixed: one pass over H and z."""
        root = np.sqrt(level)
        deviation = np.sqrt(1.0 + np.multiply(level, variance))
        weight, unit, shift = root / deviation, 1.0 / deviation, root * mean / deviation
        values = self._shown_values(release)
        if release.missing is not None:
            seen = ~self._absent_readings(release)
            weight, unit, shift = weight * seen, unit * seen, shift * seen
        triangle = tall_triangle(H, values, weight, unit, shift, compiled=self.compiled)
        if not np.isfinite(triangle).all():  # looked for afterwards: a look is a pass by itself
            as_array(H, "the rows of H")
            as_array(values, "the release")
        self._fit.add_triangle(triangle)

    def _whiten(
        self, release: StreamRelease, H: Array, law: JointNoise, given: bool
    ) -> tuple[Array, Array | None]:
        """[G, ζ] of these steps, and their size had nothing cancelled (while that is asked)."""
        level, start, stop = self.level, self.steps, self.steps + release.steps
        size = len(H)
        right = np.empty((size, self.parameters + 1))
        right[:, :-1], right[:, -1] = H, -np.asarray(step_mean(law, given, release))
        shown = np.zeros_like(right)
        shown[:, -1] = self._shown_values(release)
        sigma = step_covariance(law, given, release, level)
        sizes = level.sizes_between(start, stop)
        wanted = not self._fit.full
        if isinstance(self._rows, DenseAppend):
            rows = level.dense_rows(start, stop)
            hidden = self._hidden(release, sizes)
            if len(hidden):
                rows = rows.copy()
                rows[:, hidden] = 0.0
                rows[hidden[hidden >= self.readings] - self.readings] = 0.0
            scalar = level.block == 1 and sigma.pointwise is not None
            halves = np.sqrt(sigma.diagonal()) if scalar else sigma.blocks(sizes).lowers()
            result = self._rows.extend(rows, halves, right, shown, natural=wanted)
            self._absent = hidden
            return result
        missing = release.missing if release.missing is not None else np.zeros(len(sizes), bool)
        if self._rows is None:
            return self._changing(sizes, missing, sigma, right, shown)
        blocks, flags = level.blocks(start, stop), np.concatenate([self._window, missing])
        if flags.any():
            blocks = _without(blocks, flags)
        m = sizes[0]
        stack = sigma.blocks(sizes).groups[0][1] if m > 1 else sigma.diagonal()[:, None, None]
        result = self._rows.extend(blocks, stack, right, shown, natural=wanted)
        self._window = flags[len(flags) - level.reach :]
        return result

    def _absent_readings(self, release: StreamRelease) -> Flags:
        """Which readings of a release are missing, one flag a reading."""
        assert release.missing is not None
        sizes = self.level.sizes_between(release.start, release.start + release.steps)
        return np.repeat(release.missing, sizes)

    def _shown_values(self, release: StreamRelease) -> Array:
        """z̃ with 0 in place of what is missing."""
        if release.missing is None:
            return release.values
        return np.where(self._absent_readings(release), 0.0, release.values)

    def _hidden(self, release: StreamRelease, sizes: tuple[int, ...]) -> Index:
        """The numbers of all missing readings so far: a dense level looks back to every one."""
        if release.missing is None:
            return self._absent
        fresh = np.flatnonzero(np.repeat(release.missing, sizes)) + self.readings
        return np.concatenate([self._absent, fresh])

    def _changing(
        self, sizes: tuple[int, ...], missing: Flags, sigma: PSD, right: Array, shown: Array
    ) -> tuple[Array, Array]:
        """U = 0 and m_k that changes: every step by itself."""
        parts, at = [], 0
        for k, (size, absent, own) in enumerate(
            zip(sizes, missing, sigma.blocks(sizes).matrices), start=self.steps
        ):
            blocks = self.level.blocks(k, k + 1) * (0.0 if absent else 1.0)
            one = slice(at, at + size)
            alone = BandedAppend(0, size, right.shape[1])
            parts.append(alone.extend(blocks, own[None], right[one], shown[one]))
            at += size
        white, natural = zip(*parts)
        return np.concatenate(white), np.concatenate(natural)

    def _require_finite(self, H: Array, release: StreamRelease) -> None:
        if H.size > LONG:  # shorter ones were looked through when they came
            as_array(H, "the rows of H")
        values = self._shown_values(release)
        if len(values) > 1 or not math.isfinite(values[0]):
            as_array(values, "the release")

    def _require_whole(self, release: StreamRelease) -> None:
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
        flags = release.steps if release.missing is None else len(release.missing)
        if len(release.values) != size or flags != release.steps:
            raise InvalidInput(
                f"A release of {release.steps} steps of this stream has {size} values; received "
                f"{len(release.values)} (and {flags} flags)."
            )

    def _matrix(self, rows: ArrayLike, size: int) -> Array:
        """H of a release, (size, n). Finite where it is not too long to look twice."""
        H = np.asarray(rows)
        if H.dtype != np.float64 or H.ndim != 2 or H.size <= LONG:
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

    def _refuse(self, release: StreamRelease) -> None:
        if release.fingerprint != self.level.fingerprint:
            raise InvalidInput(
                "This release was made with another level. Both sides must use the same; a level "
                "of matrices travels by its save and privacy.load_level."
            )
        raise InvalidInput(
            f"The next step is {self.steps}; this release starts at step {release.start}. "
            "Every release is used once, in order."
        )

    def _advance(self, release: StreamRelease) -> None:
        self.steps += release.steps
        self.readings += len(release.values)

    def follow(self, release: StreamRelease, rows: ArrayLike) -> StreamHistory:
        """Like `update`, and returns the estimate and its covariance after every step of the block.

        One pass over the block (`linalg.everystep`), memory of the block: a stream of any length
        is followed in blocks. Steps before θ is identifiable are taken one by one.
        """
        if release.start != self.steps or release.fingerprint != self.level.fingerprint:
            self._refuse(release)
        self._require_whole(release)
        H, stop = self._matrix(rows, len(release.values)), release.start + release.steps
        sizes = self.level.sizes_between(release.start, stop)
        self._require_finite(H, release)
        done, used = 0, 0
        while not self.identifiable and done < release.steps:
            end = used + sizes[done]
            self.update(release.part(done, done + 1, sizes), H[used:end])
            done, used = done + 1, end
        n = self.parameters
        estimates: Array = np.zeros((0, n))
        covariances: Array = np.zeros((0, n, n))
        first = self.steps
        if done and self.identifiable:
            first -= 1
            estimates, covariances = self.estimate[None], self.covariance[None]
        if done < release.steps:
            rest = release.part(done, release.steps, sizes) if done else release
            after = self._follow(rest, H[used:], sizes[done:])
            covariances = np.concatenate([covariances, after[0]]) if done else after[0]
            estimates = np.concatenate([estimates, after[1]]) if done else after[1]
        return StreamHistory(first, estimates, covariances)

    def _follow(
        self, release: StreamRelease, H: Array, sizes: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """Covariances and estimates after each step, θ being identifiable before the first."""
        n = self.parameters
        before = self._fit.triangle[:n].copy()  # [R q]: the rows of everything so far
        rows, window, absent = self._rows, self._window, self._absent
        mark = None if rows is None else rows.mark()
        white, _ = self._whiten(release, H, self.noise, False)
        columns = StoredColumns(np.concatenate([before, white]).T)
        scalar = self.level.block == 1
        ends = None if scalar else np.concatenate([[n], n + np.cumsum(sizes)])
        kernel = machine.kernel if machine.wanted(self.compiled, len(H)) else numpy_kernel
        try:
            covariances, estimates = every_step(columns, ends, n, n if scalar else 1, kernel)
        except NumericalFailure:
            if rows is not None:
                rows.rollback(mark)
            self._window, self._absent = window, absent
            raise
        assert estimates is not None
        self._fit.add(white, None)
        self._advance(release)
        return covariances, estimates

    # --- what is known ------------------------------------------------------------------------

    @property
    def identifiable(self) -> bool:
        """Whether the releases so far show all of θ."""
        return self._fit.full

    @property
    def hidden_directions(self) -> Array:
        """Orthonormal basis (n, h) of what the releases do not show yet."""
        return self._fit.root().hidden if not self._fit.full else np.zeros((self.parameters, 0))

    @property
    def estimate(self) -> Array:
        """θ̂_k."""
        self._require()
        return self._fit.solution()

    @property
    def covariance(self) -> Array:
        """The covariance of θ̂_k: Σ_PPCR,k for Gaussian noise."""
        self._require()
        return self._fit.inverse()

    @property
    def standard_error(self) -> Array:
        """√ of the diagonal of the covariance."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def information(self) -> Array:
        """PI_k, also before θ is identifiable."""
        return self._fit.root().information

    @property
    def misfit(self) -> float:
        """‖Gθ̂ − ζ‖²: χ² with (readings shown − n) degrees of freedom if the model is right."""
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

    # --- put down and taken up ------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Tells estimators apart by what they assume: level, n, and the noise of a step."""
        size = self.noise.size or 1
        noise = self.noise.covariance(size).dense()
        mean = np.asarray(self.noise.expectation(size), dtype=float)
        return f"{self.level.fingerprint}/{fingerprint_of(str(self.parameters), noise, mean)}"

    def state(self) -> dict[str, AnyArray]:
        """What the next steps need, as arrays. Public: made of releases only."""
        result: dict[str, AnyArray] = {
            "steps": np.array(self.steps),
            "readings": np.array(self.readings),
            "window": self._window,
            "absent": self._absent,
        }
        result |= {f"fit.{name}": array for name, array in self._fit.state().items()}
        if self._rows is not None:
            result |= {f"rows.{name}": array for name, array in self._rows.state().items()}
        return result

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Take up a state again."""
        self.steps, self.readings = int(state["steps"]), int(state["readings"])
        self._window, self._absent = state["window"].copy(), state["absent"].copy()
        self._fit.restore(_under(state, "fit."))
        if self._rows is not None:
            self._rows.restore(_under(state, "rows."))

    def __repr__(self) -> str:
        when = "identifiable" if self._fit.full else "not yet identifiable"
        return f"PrivateRLS({self.parameters} parameters, after {self.steps} steps, {when})"


def _under(state: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    return {name[len(prefix) :]: a for name, a in state.items() if name.startswith(prefix)}


def _without(blocks: Array, hidden: Flags) -> Array:
    """Rows of missing steps and what later steps take from them, set to zero.

    `hidden` has the flags of the steps before these, then of these.
    """
    kept = blocks.copy()
    count, reach = blocks.shape[1], len(blocks) - 1
    for lag in range(reach + 1):
        first = reach - lag
        kept[lag, hidden[first : first + count]] = 0.0
    kept[:, hidden[reach:]] = 0.0
    return kept

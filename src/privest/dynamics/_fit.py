"""Maximum likelihood of a state-space family from releases alone, and what a fit says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, Flags, as_choice, as_confidence, as_count
from privest.dynamics._diagnosis import Diagnosis, diagnose
from privest.dynamics._families import Family, as_family, as_parameters
from privest.dynamics._filter import Filtered, filter_linear, smooth
from privest.dynamics._forecast import Forecast, forecast
from privest.dynamics._intervals import (
    METHODS,
    WELL_KNOWN,
    Intervals,
    profile_intervals,
    wald_intervals,
)
from privest.dynamics._kalman import first_state
from privest.dynamics._maximum import Maximum, Objective, maximise
from privest.dynamics._parameter_bound import (
    NULL,
    WEAK,
    estimate_covariance,
    exact_bound,
    expected_information,
    exposure,
    require_level,
)
from privest.dynamics._releases import Data, Level, SeriesRelease, data_of
from privest.dynamics._steps import stack
from privest.dynamics._system import StateSpace, system_of
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.records import Estimated, Record
from privest.release import StreamRelease

NAMED = 0.2  # of the largest entry: parts of a flat direction that are named


def fit(
    family: str | Family, release: StreamRelease | SeriesRelease, *, level: Level | None = None,
    inputs: ArrayLike | None = None, start: ArrayLike | None = None,
) -> Fit:  # fmt: skip
    """The parameters of a state-space family, by maximum likelihood from releases alone.

        θ̂ = argmax ℓ(z̃; θ) ,   z̃_k = L_kᵀ y_k + e_k ,   cov e = I known

    Post-processing: it costs no further privacy. `family` is one, or a text as "ar2" (see
    `as_family`). The release carries its level; one that was read from a record needs `level`.
    `inputs` (K, p) are public, `start` is a θ to begin from, besides those that the family finds.
    Numerics: ℓ by the square-root filter, its gradient by the adjoint recursion (any rank of Q, R,
    cov0), L-BFGS on a scale on which every model is stable, Newton's steps at the end.
    """
    width = 0 if inputs is None or np.ndim(inputs) == 0 else (*np.shape(inputs), 1)[1]
    family = as_family(family, inputs=width)
    given = data_of(level, release, inputs, family.readings)
    data = [family.regressors(own) for own in given]
    _require_steps(family, data)
    shown = exposure(data[0].level, data[0].steps)
    require_level(shown)
    family = family.prepared(data)
    objective = Objective(family, data)
    starts = family.starts(data)
    if start is not None:
        starts = [family.working(as_parameters(family, start, "start")), *starts]
    count = sum(own.shown for own in data)
    top = maximise(objective, starts, family.limits(data), count, family.searches)
    covariance = estimate_covariance(
        top.curvature, family.natural_slopes(top.t), top.at_limit, family.transformed
    )
    return Fit(
        estimate=family.natural(top.t), covariance=covariance, names=family.names,
        simulated=any(own.simulated for own in data), family=family, log_likelihood=top.value,
        working=top.t, curvature=top.curvature, steps=max(own.steps for own in data),
        observations=count, converged=top.converged, evaluations=objective.evaluations,
        exposure=shown, at_limit=top.at_limit, _objective=objective, _maximum=top,
        _inputs=given[0].inputs, _release=release,
    )  # fmt: skip


def _require_steps(family: Family, data: list[Data]) -> None:
    count = max(int((~np.atleast_2d(own.missing.T).all(axis=0)).sum()) for own in data)
    if count < family.least_steps():
        raise InvalidInput(
            f"{family!r} has {family.size} parameters: it needs at least {family.least_steps()} "
            f"steps that show something; the release has {count}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Signal(Estimated, Record):
    """C x_k + D u_k from all releases: measurements without their white error (none where R = 0).

    estimate (…, K, m), covariance (K, m, m), for the fitted parameters as if they were known.
    """

    estimate: Array
    covariance: Array
    simulated: bool

    def __repr__(self) -> str:
        return f"Signal({self.estimate.shape[-2]} steps{', simulated' * self.simulated})"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fit(Result):
    """Maximum likelihood of a family from releases alone.

    estimate, covariance   θ̂ in natural parameters, and from −∇²ℓ (infinite where ℓ is flat, NaN at
                           a limit, and where the error of log θ or artanh θ is above 1: such an
                           error of θ means nothing; `intervals` say what is known).
    bound                  the private Cramér-Rao bound of θ for these K steps, at θ̂; exact. Where
                           θ moves what an unknown x_0 does later (ARX) x_0 counts as parameters.
    classical              the same from the measurements themselves. Both are found when first
                           asked for; parameters at a limit are taken for known.
    log_likelihood         of the releases, at θ̂.
    working                t̂ with θ̂ = natural(t̂), unbounded.
    steps, observations    K, and how many numbers were released.
    converged              the maximum is within 1e-4 standard errors.
    exposure               λmax(S̄): what the releases reveal of a direction in which many
                           measurements move together; above the privacy level where they look back.
    """

    bound: Array | None = field(init=False)  # see below the class
    classical: Array | None = field(init=False)
    family: Family
    log_likelihood: float
    working: Array
    curvature: Array
    steps: int
    observations: int
    converged: bool
    evaluations: int
    exposure: float
    at_limit: Flags
    _objective: Objective
    _maximum: Maximum
    _inputs: Array
    _release: StreamRelease | SeriesRelease

    DERIVED: ClassVar[tuple[str, ...]] = (*Result.DERIVED, "aic", "bic", "flat")

    def __post_init__(self) -> None:
        """The family has made names and shapes; the bounds are not looked at yet."""

    def _exact_bound(self, private: bool) -> Array | None:
        data = self._objective.data
        return exact_bound(self.family, self.working, data, self.at_limit, private=private)

    @property
    def parameters(self) -> int:
        """How many were fitted: θ, and the directions of x_0 of which nothing was known."""
        starts = int(self.family.matrices(self.working).diffuse.shape[1])
        return len(self.names) + starts * sum(own.series for own in self._objective.data)

    @property
    def aic(self) -> float:
        """−2ℓ + 2·parameters, as in statsmodels (diffuse states count); smaller is better.

        ℓ is of releases in units of their noise: compare fits of the same release only.
        """
        return 2.0 * self.parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """−2ℓ + log(observations)·parameters; as in statsmodels where nothing is missing."""
        return math.log(self.observations) * self.parameters - 2.0 * self.log_likelihood

    @cached_property
    def flat(self) -> tuple[FlatDirection, ...]:
        """Combinations of parameters that these releases hardly determine, or not at all.

        By the expected information at θ̂ (the curvature where that cannot be computed).
        """
        data, matrices = self._objective.data, self.family.matrices(self.working)
        starts = [partial(first_state, matrices, own) for own in data]
        every = np.ones(self.family.size, dtype=bool)
        known = expected_information(self.family, self.working, data, every, starts)
        information = self.curvature if known is None else known
        return flat_directions(information, self.family.labels, self.family.transformed)

    def intervals(self, confidence: float = CONFIDENCE, method: str = "profile") -> Intervals:
        """The interval of each parameter, by profile likelihood (default) or by "wald".

            {v : 2(ℓ̂ − max ℓ over θ_j = v) ≤ χ²_1}

        Asymptotic: 95 % intervals covered .93-.96 in simulations from 200 steps on; Wald's .87 at
        low levels. Ends that no value meets are open and told in the notes. About ten evaluations
        of ℓ for each end, hundreds where standard errors are large: then ends are looked for from
        other maxima too. One that takes too long is Wald's, and the notes say so. What was found is
        kept: asking again costs nothing.
        """
        confidence = as_confidence(confidence)
        as_choice(method, METHODS, "method")
        if (confidence, method) not in self._intervals:
            self._intervals[confidence, method] = (
                wald_intervals(self.family, self._maximum, confidence)
                if method == "wald"
                else profile_intervals(
                    self._objective, self.family, self._maximum, confidence, self.observations,
                    self._other_starts(),
                )
            )  # fmt: skip
        return self._intervals[confidence, method]

    @cached_property
    def _intervals(self) -> dict[tuple[float, str], Intervals]:
        """Those that were asked for: a profile costs more than the fit."""
        return {}

    def _other_starts(self) -> list[Array]:
        """Where other maxima are looked for: nowhere if the curvature says that all is well known.

        The starts of the family, and the estimate with the sign of each correlation turned.
        """
        limits = self._maximum.limits
        spread = np.sqrt(self._maximum.covariance().diagonal())
        bounded = np.isfinite(limits).all(axis=1)
        if (spread[bounded] <= WELL_KNOWN).all():
            return []
        turned = [
            self.working * np.where(np.arange(len(spread)) == j, -1.0, 1.0)
            for j in np.flatnonzero((limits[:, 0] == -limits[:, 1]) & bounded)
        ]
        return [*self.family.starts(self._objective.data), *turned]

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(p, 2): the ends of the profile intervals (`intervals` says which of them are open)."""
        return self.intervals(confidence).ends

    def forecast(
        self, ahead: int, *, inputs: ArrayLike | None = None, release: bool = False,
        method: str = "mixture",
    ) -> Forecast:  # fmt: skip
        """y_K, …, y_{K+ahead−1}, the measurements after the last release.

        A mixture of the forecasts of all θ, weighted by their likelihood (the prior is flat in
        coefficients and roots of variances); "plug-in" takes θ̂ for the truth. `inputs` (ahead, p)
        of these steps, K to K + ahead − 1, as in `predict`. With `release` the privacy noise of the
        next releases is counted too.
        """
        return forecast(
            self._objective, self._maximum, as_count(ahead, "ahead", least=1), self._inputs, inputs,
            release=release, method=method,
        )  # fmt: skip

    @cached_property
    def system(self) -> StateSpace:
        """The model at θ̂; its inputs are those given and a column of ones where it has a mean."""
        return system_of(self.family.matrices(self.working))

    def filtered(self) -> Filtered:
        """The states from the releases up to each step, under the model at θ̂."""
        data = self._objective.data[0]
        inputs = data.inputs if self.system.inputs else None
        return filter_linear(self.system, data.level, self._release, inputs)

    def signal(self) -> Signal:
        """The series itself from all releases, under the model at θ̂: C x_k + D u_k."""
        system, found, inputs = self.system, smooth(self.filtered()), self._objective.data[0].inputs
        C = stack(system.C)
        added = (stack(system.matrices.D) @ inputs[:, :, None])[..., 0] if system.inputs else 0.0
        estimate = (C @ found.estimate[..., None])[..., 0] + added
        covariance = C @ found.covariance @ C.swapaxes(-1, -2)
        return Signal(np.asarray(estimate), np.asarray(covariance), found.simulated)

    def diagnose(self, *, lags: int | None = None, confidence: float = CONFIDENCE) -> Diagnosis:
        """Whether the innovations at θ̂ are white and normal (`dynamics.diagnose`).

        Degrees of freedom are taken off for parameters that shape how measurements depend on those
        before: all but coefficients of means and inputs, and but one variance, which is scale.
        """
        shaping = max(int(self.family.transformed.sum()) - 1, 0)
        return diagnose(
            self.filtered(), lags=lags, parameters=shaping, confidence=confidence, fitted=True
        )

    def _heading(self) -> list[str]:
        said = f"{self.family!r}, {self.steps} steps, log-likelihood {self.log_likelihood:.2f}"
        return [*super()._heading(), said]

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.names, self.estimate))
        return f"Fit({self.family!r}: {found})"


# The bounds cost as much as a fit: found when first asked for. (A dataclass cannot say so of a
# field that it inherits.)
for _name, _private in (("bound", True), ("classical", False)):
    _found = cached_property(partial(Fit._exact_bound, private=_private))
    _found.__set_name__(Fit, _name)
    setattr(Fit, _name, _found)


# --- flat directions of the likelihood ---


@dataclass(frozen=True, eq=False, repr=False)
class FlatDirection(Record):
    """A combination of working parameters that the releases hardly determine, or not at all.

    direction        (p,) unit vector in working scale: ℓ changes little along it.
    standard_error   of the combination; ∞ where nothing is known of it.
    words            "log q − log r is not determined by these releases".
    """

    labels: tuple[str, ...]
    direction: Array
    standard_error: float
    words: str

    def __repr__(self) -> str:
        return f"FlatDirection({self.words})"


def flat_directions(
    information: Array, labels: Sequence[str], transformed: Flags
) -> tuple[FlatDirection, ...]:
    """The directions of an information matrix (p, p) in working scale that are flat.

    Null: eigenvalues below NULL of the largest after scaling to unit diagonal. Weak: a standard
    error λ^−½ > WEAK in the information of the `transformed` parameters (logarithms, artanh), what
    is shared with the others taken off: a mean has units of its own, in which 1 says nothing.
    """
    p, diagonal = len(information), information.diagonal()
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    kept = np.flatnonzero(diagonal > 0)  # the others are null by themselves
    values, vectors = np.linalg.eigh((information / np.outer(size, size))[np.ix_(kept, kept)])
    scaled = np.eye(p)[:, kept] @ vectors / size[:, None]
    flat = values <= NULL * values.max(initial=0.0)
    null = np.hstack([np.delete(np.eye(p), kept, axis=1), scaled[:, flat]])
    null = null / np.linalg.norm(null, axis=0)
    found = [_flat_direction(direction, math.inf, labels) for direction in null.T]
    basis = np.diag(1 / size)
    if null.shape[1]:
        basis = np.linalg.qr(null, mode="complete")[0][:, null.shape[1] :]
    covariance = basis @ np.linalg.inv(basis.T @ information @ basis) @ basis.T
    variances, parts = np.linalg.eigh(covariance[np.ix_(transformed, transformed)])
    for variance, part in zip(variances[::-1], parts.T[::-1]):
        if not variance > WEAK**2:
            break
        direction = np.zeros(p)
        direction[transformed] = part
        found.append(_flat_direction(direction, math.sqrt(variance), labels))
    return tuple(found)


def _flat_direction(direction: Array, error: float, labels: Sequence[str]) -> FlatDirection:
    size = np.abs(direction)
    order = np.argsort(-np.round(size / size.max(), 6), kind="stable")  # equal ones as they come
    first = direction[order[0]]
    parts: list[str] = []
    for i in order:
        share = direction[i] / first
        if abs(share) < NAMED:
            break
        times = "" if abs(abs(share) - 1) < 0.05 else f"{abs(share):.2g}·"
        sign = (" + " if share > 0 else " − ") if parts else ""
        parts.append(f"{sign}{times}{labels[i]}")
    how = (
        "is not determined by these releases" if math.isinf(error)
        else f"is hardly determined by these releases (standard error {error:.2g})"
    )  # fmt: skip
    unit = direction / np.linalg.norm(direction) * math.copysign(1.0, first)
    return FlatDirection(tuple(labels), unit, error, f"{''.join(parts)} {how}")

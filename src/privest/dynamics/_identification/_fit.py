"""What a fit found: the parameters, how well they are known, and the floor under their error."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, Flags, as_choice, as_confidence, as_count
from privest.dynamics._diagnosis import Diagnosis, diagnose
from privest.dynamics._filter import Filtered, filter_linear
from privest.dynamics._identification._constrained import Peak, safe_inverse
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._flat import FlatDirection, flat_directions
from privest.dynamics._identification._floors import expected_information, floor, long_floor
from privest.dynamics._identification._forecast import Forecast, forecast_of
from privest.dynamics._identification._intervals import (
    METHODS,
    Intervals,
    profile_intervals,
    wald_intervals,
)
from privest.dynamics._kalman import first_state
from privest.dynamics._identification._objective import Objective
from privest.dynamics._identification._signal import Signal, signal_of
from privest.dynamics._identification._wald import TRUSTED
from privest.dynamics._releases import SeriesRelease
from privest.dynamics._system import StateSpace, system_of
from privest.estimator.result import Result
from privest.release import StreamRelease


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fit(Result):
    """Maximum likelihood of a family from releases alone.

    estimate, covariance   θ̂ in natural parameters, and from −∇²ℓ (infinite where ℓ is flat, NaN at
                           a limit, and where the error of log θ or artanh θ is above 1: such an
                           error of θ means nothing; `intervals` say what is known).
    bound                  the private Cramér-Rao bound of θ for these K steps, at θ̂; exact. Where
                           θ moves what an unknown x_0 does later (ARX) x_0 counts as parameters.
    classical              the same from the readings themselves. Both are found when first asked
                           for; parameters at a limit are taken for known.
    log_likelihood         of the releases, at θ̂.
    working                t̂ with θ̂ = natural(t̂), unbounded.
    steps, observations    K, and how many numbers were released.
    converged              the maximum is within 1e-4 standard errors.
    exposure               λmax(S̄): what the releases show of a direction in which many readings
                           move together; larger than the level of a reading where they look back.
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
    _limits: Array
    _inputs: Array
    _release: StreamRelease | SeriesRelease

    DERIVED: ClassVar[tuple[str, ...]] = (*Result.DERIVED, "aic", "bic", "flat")

    def __post_init__(self) -> None:
        """The family has made names and shapes; the floors are not looked at yet."""

    @cached_property
    def whittle(self) -> Array:
        """The private bound as if K were large: Whittle's formula with the Wiener gain, (p, p)."""
        return long_floor(self.family, self.working, self._objective.data, self.at_limit)

    def _floor(self, private: bool) -> Array | None:
        return floor(
            self.family, self.working, self._objective.data, self.at_limit, private=private
        )  # fmt: skip

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
        return flat_directions(
            self.curvature if known is None else known, self.family.labels, self.family.bent
        )

    def intervals(self, confidence: float = CONFIDENCE, method: str = "profile") -> Intervals:
        """The interval of each parameter, by profile likelihood (default) or by "wald".

            {v : 2(ℓ̂ − max ℓ over θ_j = v) ≤ χ²_1}

        Asymptotic: 95 % intervals covered .93-.96 in trials from 200 steps on; Wald's .87 at low
        levels. Ends that no value meets are open and told in the notes. Ten to forty evaluations of
        ℓ for each end, some hundred where standard errors are large: then other maxima over all
        else are looked for at each end. One that takes more than some 150 is given up, Wald's is
        taken for it, and the notes say so. What was found is kept: asking again costs nothing.
        """
        confidence = as_confidence(confidence)
        as_choice(method, METHODS, "method")
        if (confidence, method) not in self._intervals:
            self._intervals[confidence, method] = self._found_intervals(confidence, method)
        return self._intervals[confidence, method]

    @cached_property
    def _intervals(self) -> dict[tuple[float, str], Intervals]:
        """Those that were asked for: a profile costs more than the fit."""
        return {}

    def _found_intervals(self, confidence: float, method: str) -> Intervals:
        if method == "wald":
            return wald_intervals(self.family, self._peak, self.names, confidence)
        return profile_intervals(
            self._objective, self.family, self._peak, self.names, confidence, self.observations,
            self._elsewhere(),
        )  # fmt: skip

    def _elsewhere(self) -> list[Array]:
        """Where other peaks are looked for: nowhere if the curvature says that all is well known.

        The starts of the family, and the estimate with the sign of each bounded coordinate turned.
        """
        spread = np.sqrt(safe_inverse(self.curvature).diagonal())
        scaled = np.isfinite(self._limits).all(axis=1)
        if (spread[scaled] <= TRUSTED).all():
            return []
        turned = [
            self.working * np.where(np.arange(len(spread)) == j, -1.0, 1.0)
            for j in np.flatnonzero((self._limits[:, 0] == -self._limits[:, 1]) & scaled)
        ]
        return [*self.family.starts(self._objective.data), *turned]

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(p, 2): the ends of the profile intervals (`intervals` says which of them are open)."""
        return self.intervals(confidence).ends

    def forecast(
        self, ahead: int, *, inputs: ArrayLike | None = None, release: bool = False,
        method: str = "mixture",
    ) -> Forecast:  # fmt: skip
        """y_K, …, y_{K+ahead−1}, the readings after the last release, with all that is not known.

        A mixture of the forecasts of all θ, weighted by their likelihood (the prior is flat in
        coefficients and roots of variances); "plug-in" takes θ̂ for the truth. `inputs` (ahead, p)
        of these steps, K to K + ahead − 1, as in `predict`. With `release` the noise of the next
        releases is counted too.
        """
        return forecast_of(
            self._objective, self._peak, as_count(ahead, "ahead", least=1), self._inputs, inputs,
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
        return signal_of(self.filtered(), self._objective.data[0].inputs)

    def diagnose(self, *, lags: int | None = None, confidence: float = CONFIDENCE) -> Diagnosis:
        """Whether the innovations at θ̂ are white and normal (`dynamics.diagnose`).

        Degrees of freedom are taken off for parameters that shape how readings depend on those
        before: all but coefficients of means and inputs, and but one variance, which is scale.
        """
        shaping = int(self.family.bent.sum()) - 1
        return diagnose(
            self.filtered(), lags=lags, parameters=max(shaping, 0), confidence=confidence,
            fitted=True,
        )  # fmt: skip

    @property
    def _peak(self) -> Peak:
        return Peak(self.working, self.log_likelihood, self.curvature, self._limits)

    def _heading(self) -> list[str]:
        seen = f"{self.family!r}, {self.steps} steps, log-likelihood {self.log_likelihood:.2f}"
        return [*super()._heading(), seen]

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.names, self.estimate))
        return f"Fit({self.family!r}: {found})"


# The floors cost as much as a fit: found when first asked for. (A dataclass cannot say so of a
# field that it inherits.)
for _name, _private in (("bound", True), ("classical", False)):
    _found = cached_property(partial(Fit._floor, private=_private))
    _found.__set_name__(Fit, _name)
    setattr(Fit, _name, _found)

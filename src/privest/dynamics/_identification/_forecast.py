"""Forecasts that know how little is known of the parameters: a mixture over the posterior.

    y_{K+h} | z̃ ~ Σ_i w_i N(C x̂_i + D u, C P_i Cᵀ + R)      (all of the i-th θ, h steps on)

A forecast at θ̂ alone takes its variances for known: 95 % intervals from 200 steps at a low level
cover 90 % (a q̂ near 0 is the reason, which first-order errors of θ̂ do not see).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_choice, as_confidence
from privest.dynamics._identification._ahead import Ahead, ahead_of
from privest.dynamics._identification._constrained import Higher, Peak
from privest.dynamics._releases import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._intervals import AGAIN, taken_up
from privest.dynamics._identification._linear import integrated, linear_parameters
from privest.dynamics._steps import Matrices
from privest.dynamics._identification._objective import Objective
from privest.dynamics._identification._points import Posterior, Visit
from privest.dynamics._identification._posterior import posterior
from privest.errors import InvalidInput, NumericalFailure
from privest.records import Record

METHODS = ("mixture", "plug-in")
BISECTIONS = 60  # of a bracket of the width of the mixture: to the last digit


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Record):
    """The readings y_K, …, y_{K+h−1} after the last release, as the releases foresee them.

    estimate         (h, m), or (series, h, m): the mean of the mixture.
    standard_error   the same shape: its deviation, parameters, states and noise of y included; with
                     release=True that of the release too, in units of a reading.
    states, state_error   (…, h, n): of the states.
    method           "mixture" or "plug-in", at θ̂ alone.
    effective        how many points count (1/Σw²; for a grid all), of `points`.
    notes            what a reader should know, in words.
    """

    estimate: Array
    standard_error: Array
    states: Array
    state_error: Array
    method: str
    effective: float
    points: int
    notes: tuple[str, ...]
    _weights: Array
    _means: Array
    _deviations: Array

    DERIVED: ClassVar[tuple[str, ...]] = ()

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(…, h, m, 2): equal tails of the mixture, for each reading by itself."""
        tail = (1 - as_confidence(confidence)) / 2
        return np.stack([self.quantile(tail), self.quantile(1 - tail)], axis=-1)

    def quantile(self, probability: float) -> Array:
        """(…, h, m): x with P(y ≤ x) = probability under the mixture, by bisection."""
        p = as_confidence(probability, "probability")
        z = float(scipy.special.ndtri(p))
        each = self._means + z * self._deviations
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                away = (middle - self._means) / self._deviations
            # A reading that is known exactly is at its mean.
            away = np.where(np.isnan(away), 0.0, away)
            below = np.tensordot(self._weights, scipy.special.ndtr(away), axes=1) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def __repr__(self) -> str:
        return f"Forecast({self.estimate.shape[-2]} steps ahead, {self.method})"


def mixture(found: Posterior, added: Array, *, one: bool, method: str) -> Forecast:
    """Mean, deviations and quantiles of a mixture of forecasts; `added` (m,) is further variance.

    `one`: of a single series, without an axis of series.
    """
    weights, parts = found.weights, found.found
    means = np.array([part.readings for part in parts])
    variance = np.array([_variances(part.reading_covariance) for part in parts]) + added
    states = np.array([part.states for part in parts])
    own = np.array([_variances(part.state_covariance) for part in parts])
    estimate, spread = _moments(weights, means, variance)
    state, state_spread = _moments(weights, states, own)
    deviations = np.broadcast_to(np.sqrt(variance)[..., None], means.shape)

    def turned(values: Array) -> Array:
        return values[..., 0] if one else np.moveaxis(values, -1, -3)

    return Forecast(
        turned(estimate), turned(spread), turned(state), turned(state_spread), method,
        found.effective, found.points, found.notes, weights, turned(means),
        turned(deviations),
    )  # fmt: skip


def _variances(covariance: Array) -> Array:
    return np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)


def _moments(weights: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """(h, m, series): mean and deviation of the mixture; means (N, h, m, series)."""
    mean = np.tensordot(weights, means, axes=1)
    between = np.tensordot(weights, np.square(means - mean), axes=1)
    within = np.tensordot(weights, variances, axes=1)[..., None]
    return mean, np.sqrt(within + between)


def forecast_of(
    objective: Objective, peak: Peak, ahead: int, past: Array, inputs: ArrayLike | None,
    *, release: bool, method: str,
) -> Forecast:  # fmt: skip
    """The forecast after the data of an objective; `past` (K, p) are its inputs as given."""
    as_choice(method, METHODS, "method")
    family, data = objective.family, _only(objective.data)
    _require_constant(family.matrices(peak.t))
    u = _future(family, data, past, ahead, inputs)
    added = release_variance(data) if release else np.zeros(1)

    def visit(t: Array) -> tuple[float, Ahead]:
        return ahead_of(family.matrices(t), data, u)

    if method == "plug-in":
        found = Posterior(np.ones(1), [visit(peak.t)[1]], 1.0, 1)
    else:
        found = _posterior(objective, visit, peak)
    return mixture(found, added, one=data.series == 1, method=method)


def _posterior(objective: Objective, look: Visit, peak: Peak) -> Posterior:
    """Taken up again from a higher point where the profiles find one."""
    count = sum(own.shown for own in objective.data)
    linear = linear_parameters(objective.family, peak.t)

    def visit(t: Array) -> tuple[float, Ahead | None]:
        try:
            if not linear.any():
                return look(t)
            return integrated(objective, lambda at: look(at)[1], t, linear)
        except NumericalFailure:
            return -math.inf, None

    for _ in range(AGAIN):
        try:
            return posterior(objective, visit, objective.family, peak, ~linear)
        except Higher as higher:
            peak = taken_up(objective, higher.t, peak.limits, count)
    raise NumericalFailure("The fit is no maximum: fit with another `start`.")


def _only(every: list[Data]) -> Data:
    if len(every) > 1:
        raise InvalidInput(
            "The series miss different steps: forecasts are of series with one pattern of gaps "
            "(SeriesRelease.by_pattern), or of a single release."
        )
    return every[0]


def _require_constant(matrices: Matrices) -> None:
    """A forecast needs the matrices of steps that have not come."""
    parts = (*matrices[:4], matrices.B, matrices.D)
    if any(part.ndim == 3 for part in parts):
        raise InvalidInput(
            "The model changes with time and says nothing of the steps after the last release: "
            "forecasts are of models whose matrices do not change."
        )


def _future(family: Family, data: Data, past: Array, ahead: int, inputs: ArrayLike | None) -> Array:
    """(1 + ahead, p): what the model asks for at the last step and those that follow."""
    wanted = (ahead, past.shape[1])
    u = np.zeros((ahead, 0)) if inputs is None else as_array(inputs, "inputs", ndim=(1, 2))
    u = u[:, None] if u.ndim == 1 else u
    if u.shape != wanted:
        raise InvalidInput(
            f"inputs of the steps ahead must have shape {wanted}; received {u.shape}."
        )
    whole = np.concatenate([past, u])
    steps = np.zeros((len(whole), *data.values.shape[1:]))
    flags = np.zeros((len(whole), *data.missing.shape[1:]), dtype=bool)
    longer = data._replace(values=steps, missing=flags, inputs=whole)
    return family.regressors(longer).inputs[-1 - ahead :]


def release_variance(data: Data) -> Array:
    """(m,): the variance of the noise of a release like the last, in units of the readings."""
    if data.level.reach:
        raise InvalidInput(
            "The releases look back: the next one is no reading with noise. Forecast the readings."
        )
    shown = data.level.blocks(data.steps - 1, data.steps)[0, 0]
    try:
        back = np.linalg.inv(shown)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "The level hides some of the readings: the release is not one of all of them."
        ) from None
    return np.asarray(np.square(back).sum(axis=1) / data.unit**2)

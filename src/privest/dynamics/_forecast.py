"""Forecasts with uncertain parameters: a mixture over their posterior distribution.

    y_{K+h} | z̃ ~ Σ_i w_i N(C x̂_i + D u, C P_i Cᵀ + R)      (all of the i-th θ, h steps on)

At θ̂ alone 95% intervals from 200 steps at a low level cover 90%. The prior is flat in natural
parameters and in roots of variances: flat in log q would put all its mass at q → 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, Flags, as_choice, as_confidence
from privest.dynamics._families import Family
from privest.dynamics._intervals import Region, at_highest
from privest.dynamics._kalman import last_state
from privest.dynamics._maximum import Maximum, Objective
from privest.dynamics._releases import Data
from privest.dynamics._steps import Matrices
from privest.dynamics._system import known_inputs
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.records import Record

BISECTIONS = 60  # of a bracket of the width of the mixture: to the last digit
REACH = 20.0  # 2(ℓ̂ − ℓ) at the ends by which the first draws spread
DRAWS = 400
ROUNDS = 4
ENOUGH = 250  # effective draws, and no further round is made
FEWEST = 50  # effective draws, below which weights are made more even
WIDER = 1.2  # of the deviations of a distribution to draw from
FREEDOM = 5  # of Student's distributions
PRIOR_DRAWS = 3.0  # a parameter, that the distribution before counts for in the next
NEGLIGIBLE = 1e-9  # of all weight: points that are left out
ROUNDING = 1e-6  # of the slopes of a forecast
NULL = 1e-8  # of the largest eigenvalue of an information with unit diagonal


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Record):
    """The measurements y_K, …, y_{K+h−1} after the last release.

    value            (h, m), or (series, h, m): the mean of the mixture; standard_error its sd.
    method           "mixture", or "plug-in" at θ̂ alone.
    effective        effective number of draws of the parameters, 1/Σw².
    """

    value: Array
    standard_error: Array
    method: str
    effective: float
    notes: tuple[str, ...]
    _weights: Array
    _means: Array
    _deviations: Array

    DERIVED: ClassVar[tuple[str, ...]] = ()

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(…, h, m, 2): equal tails of the mixture, for each measurement by itself."""
        tail = (1 - as_confidence(confidence)) / 2
        return np.stack([self.quantile(tail), self.quantile(1 - tail)], axis=-1)

    def quantile(self, probability: float) -> Array:
        """(…, h, m): x with P(y ≤ x) = probability under the mixture, by bisection."""
        p = as_confidence(probability, "probability")
        each = self._means + float(scipy.special.ndtri(p)) * self._deviations
        low = each.min(axis=0)
        high = each.max(axis=0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                away = (middle - self._means) / self._deviations
            # A measurement that is known exactly is at its mean.
            away = np.where(np.isnan(away), 0.0, away)
            below = np.tensordot(self._weights, scipy.special.ndtr(away), axes=1) < p
            low = np.where(below, middle, low)
            high = np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def __repr__(self) -> str:
        return f"Forecast({self.value.shape[-2]} steps ahead, {self.method})"


class Predictive(NamedTuple):
    """y_{K+h} under one θ: means (h, m, series), covariances (h, m, m)."""

    mean: Array
    covariance: Array


class Posterior(NamedTuple):
    """log weights (N,), the predictive distribution at each point (if any), 1/Σw², notes."""

    logs: Array
    found: list[Predictive | None]
    effective: float
    notes: tuple[str, ...] = ()


Visit = Callable[[Array], tuple[float, Predictive | None]]  # t ↦ ℓ and the prediction there


def forecast(
    objective: Objective, top: Maximum, steps: int, past: Array, inputs: ArrayLike | None,
    method: str,
) -> Forecast:  # fmt: skip
    as_choice(method, ("mixture", "plug-in"), "method")
    if len(objective.data) > 1:
        raise InvalidInput(
            "The series miss different steps: forecasts are of series with one pattern of gaps, or "
            "of a single release."
        )
    family = objective.family
    data = objective.data[0]
    matrices = family.matrices(top.t)
    if any(part.ndim == 3 for part in (*matrices[:4], matrices.B, matrices.D)):
        raise InvalidInput(
            "The matrices of the model change with time and are not known after the last release: "
            "forecasts are of models whose matrices do not change."
        )
    later = known_inputs(inputs, steps, past.shape[1])
    u = family.regressors(np.concatenate([past, later]))[-1 - steps :]  # those of K − 1 first
    linear = linear_parameters(family, top.t)

    def predict(t: Array) -> tuple[float, Predictive]:
        return predictive(family.matrices(t), data, u)

    def visit(t: Array) -> tuple[float, Predictive | None]:
        try:
            return integrated(objective, predict, t, linear) if linear.any() else predict(t)
        except NumericalFailure:
            return -math.inf, None

    found = Posterior(np.zeros(1), [predict(top.t)[1]], 1.0)
    if method == "mixture":
        found, _ = at_highest(
            objective, top, data.shown, lambda top: posterior(objective, visit, top, ~linear)
        )
    return mixture(found, one=data.series == 1, method=method)


def predictive(matrices: Matrices, data: Data, inputs: Array) -> tuple[float, Predictive]:
    """ℓ, and the next steps under one model; inputs (1 + h, p), those of step K − 1 first."""
    value, mean, P = last_state(matrices, data)
    A, C, Q, R = matrices[:4]
    driven = inputs @ matrices.B.T
    added = inputs @ matrices.D.T
    h = len(inputs) - 1
    series = mean.shape[1]
    m = len(C)
    found = Predictive(np.empty((h, m, series)), np.empty((h, m, m)))
    for k in range(h):
        mean = A @ mean + driven[k, :, None]
        P = A @ P @ A.T + Q
        found.mean[k] = C @ mean + added[k + 1, :, None]
        found.covariance[k] = C @ P @ C.T + R
    return value, found


def mixture(found: Posterior, *, one: bool, method: str) -> Forecast:
    weights = scipy.special.softmax(found.logs)
    kept = [(w, one) for w, one in zip(weights, found.found) if w > NEGLIGIBLE and one is not None]
    weights = np.array([w for w, _ in kept])
    weights = weights / weights.sum()
    means = np.array([part.mean for _, part in kept])  # (N, h, m, series)
    covariances = np.array([part.covariance for _, part in kept])
    variance = np.maximum(np.diagonal(covariances, axis1=2, axis2=3), 0.0)[..., None]
    mean = np.tensordot(weights, means, axes=1)
    error = np.sqrt(np.tensordot(weights, variance + np.square(means - mean), axes=1))
    deviations = np.broadcast_to(np.sqrt(variance), means.shape)

    def series_first(values: Array) -> Array:
        return values[..., 0] if one else np.moveaxis(values, -1, -3)

    return Forecast(
        series_first(mean), series_first(error), method, found.effective, found.notes, weights,
        series_first(means), series_first(deviations),
    )  # fmt: skip


# --- the posterior of the parameters ---


class Coordinates:
    """ψ (d,) of the `free` parameters: roots of variances, regular at 0, and t for all else.

    t carries the density |∂θ/∂t| of a prior that is flat in θ; negative roots are folded.
    """

    def __init__(self, family: Family, top: Maximum, free: Flags) -> None:
        self.family = family
        self.top = top
        self.places = np.flatnonzero(free)
        self.variance = family.positive[self.places]
        self.other = self.places[~self.variance]

    def of(self, t: Array) -> Array:
        own = t[self.places]
        return np.where(self.variance, np.exp(np.where(self.variance, own, 0.0) / 2), own)

    def working(self, psi: Array) -> Array | None:
        t = self.top.t.copy()
        with np.errstate(divide="ignore"):
            t[self.places] = np.where(self.variance, np.log(np.square(psi)), psi)
        low, high = self.top.limits.T
        own = self.places[self.variance]
        t[own] = np.maximum(t[own], low[own])  # nothing changes below
        return t if ((t >= low) & (t <= high)).all() else None

    def log_density(self, t: Array) -> float:
        """log|∂θ/∂t| of all but variances."""
        slopes = self.family.natural_slopes(t)[np.ix_(self.other, self.other)]
        return float(np.linalg.slogdet(slopes)[1]) if len(self.other) else 0.0

    def folded(self, points: Array) -> Array:
        return np.where(self.variance, np.abs(points), points)

    def log_pdf(self, points: Array, mean: Array, root: Array) -> Array:
        student = scipy.stats.multivariate_t(mean, root @ root.T, df=FREEDOM)
        choices = [(1.0, -1.0) if own else (1.0,) for own in self.variance]
        signs = itertools.product(*choices)
        return np.asarray(np.logaddexp.reduce([student.logpdf(points * sign) for sign in signs]))

    def covariance(self) -> Array:
        slopes = np.where(self.variance, self.of(self.top.t) / 2, 1.0)
        covariance = self.top.covariance()[np.ix_(self.places, self.places)]
        return np.asarray(covariance * np.outer(slopes, slopes))

    def visited(self, visit: Visit, points: Array) -> tuple[Array, list[Predictive | None]]:
        heights = np.full(len(points), -np.inf)
        found = []
        for i, psi in enumerate(points):
            t = self.working(psi)
            value, there = (-math.inf, None) if t is None else visit(t)
            if t is not None and math.isfinite(value):
                heights[i] = value + self.log_density(t)
            found.append(there)
        return heights, found


def posterior(objective: Objective, visit: Visit, top: Maximum, free: Flags) -> Posterior:
    """Points and weights of the `free` parameters; the visit integrates the others out.

    Importance draws on a fixed lattice, first as wide as the profiles, then fitted to all draws so
    far.
    """
    if not free.any():
        return Posterior(np.zeros(1), [visit(top.t)[1]], 1.0)
    coordinates = Coordinates(objective.family, top, free)
    unit = _lattice(len(coordinates.places))
    proposals = [_first_proposal(objective, coordinates)]
    points = np.empty((0, unit.shape[1]))
    heights = np.empty(0)
    found: list[Predictive | None] = []
    for _ in range(ROUNDS):
        fresh = coordinates.folded(proposals[-1][0] + unit @ proposals[-1][1].T)
        more, there = coordinates.visited(visit, fresh)
        points = np.concatenate([points, fresh])
        heights = np.concatenate([heights, more])
        found += there
        if not np.isfinite(heights).any():
            said = "no draw of the parameters has a likelihood: the forecast is at the estimates."
            return Posterior(np.zeros(1), [visit(top.t)[1]], 1.0, (said,))
        densities = [coordinates.log_pdf(points, *one) for one in proposals]
        logs = heights - np.logaddexp.reduce(densities)
        effective = _effective(logs)
        if effective >= ENOUGH:
            break
        proposals.append(_next_proposal(points, logs, *proposals[-1]))
    if effective >= FEWEST:
        return Posterior(logs, found, effective)
    said = (
        f"only {effective:.0f} of {len(points)} draws of the parameters count: their weights were "
        "made more even, and the forecast is rough."
    )
    return Posterior(_tempered(logs), found, effective, (said,))


def _lattice(p: int) -> Array:
    """Unit draws (N, p) of Student's distribution: i·α mod 1, α powers of 1/g, g^{p+2} = g + 1."""
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (p + 2))
    u = np.mod(0.5 + np.arange(1, DRAWS + 1)[:, None] * g ** -np.arange(1.0, p + 2), 1.0)
    scale = np.sqrt(FREEDOM / scipy.stats.chi2(FREEDOM).ppf(u[:, p]))
    return np.asarray(scipy.special.ndtri(u[:, :p]) * scale[:, None])


def _first_proposal(objective: Objective, coordinates: Coordinates) -> tuple[Array, Array]:
    """Mean and root: correlations by the curvature, deviations by the ends of profiles."""
    top = coordinates.top
    mean = coordinates.of(coordinates.top.t)
    ends = []
    region = Region(objective, objective.family, top, REACH)
    for j in coordinates.places.tolist():
        for side in (-1, 1):
            end = region.end(j, side)
            if not math.isfinite(end.value) and not np.isfinite(top.limits[j]).any():
                raise NotIdentifiable(
                    f"{objective.family.names[j]} is not determined by these releases: there is "
                    "no forecast without it."
                )
            ends.append(coordinates.of(end.t))
    spread = np.abs(np.array(ends) - mean).max(axis=0) / math.sqrt(REACH)
    covariance = coordinates.covariance()
    size = np.sqrt(covariance.diagonal())
    scaled = covariance / np.outer(size, size) * np.outer(spread, spread)
    return mean, WIDER * np.linalg.cholesky(scaled)


def _next_proposal(points: Array, logs: Array, mean: Array, root: Array) -> tuple[Array, Array]:
    logs = _tempered(logs)
    weights = scipy.special.softmax(logs)
    count = _effective(logs)
    share = count / (count + PRIOR_DRAWS * points.shape[1])
    centre = weights @ points
    off = points - centre
    covariance = (off * weights[:, None]).T @ off
    scale = share * WIDER**2 * covariance + (1 - share) * root @ root.T
    return share * centre + (1 - share) * mean, np.linalg.cholesky(scale)


def _effective(logs: Array) -> float:
    weights = scipy.special.softmax(logs)
    return 1 / float(weights @ weights)


def _tempered(logs: Array) -> Array:
    """γ·logs with the largest γ ≤ 1 at which FEWEST draws count."""
    if _effective(logs) >= FEWEST or np.isfinite(logs).sum() <= FEWEST:
        return logs

    def off(power: float) -> float:
        return _effective(power * logs) - FEWEST

    return np.asarray(scipy.optimize.brentq(off, 1e-9, 1.0, xtol=1e-6) * logs)


# --- means and coefficients of inputs ---


def linear_parameters(family: Family, t: Array) -> Flags:
    """(p,): which working parameters enter B, D and mean0 alone, and these linearly."""

    def moves(slopes: Array) -> Flags:
        return np.asarray((slopes.reshape(len(slopes), -1) != 0).any(axis=1))

    here = family.slopes(t)
    found = ~np.any([moves(part) for part in (*here[:4], here.cov0)], axis=0)
    there = family.slopes(np.where(found, t + 1.0, t))
    for own, other in ((here.B, there.B), (here.D, there.D), (here.mean0, there.mean0)):
        found &= ~moves(other - own)
    return np.asarray(found)


def integrated(
    objective: Objective, predict: Callable[[Array], tuple[float, Predictive]], t: Array,
    linear: Flags,
) -> tuple[float, Predictive | None]:  # fmt: skip
    """ℓ with the linear parameters β integrated out, and the forecast with β unknown.

        ∫ exp ℓ(β) dβ ∝ exp(ℓ(β̂)) |S|^{−½} ,     β | rest ~ N(β̂, S⁻¹) ,     S = −∂²ℓ/∂β²

    ℓ is quadratic in β and forecasts are linear in it: differences over one unit are exact.
    """
    unit = np.eye(len(t))[linear]
    value, here = predict(t)
    near = [predict(t + own) for own in unit]
    rise = np.array([own - value for own, _ in near])
    S: Array = np.empty((len(unit), len(unit)))
    for i, j in itertools.combinations_with_replacement(range(len(unit)), 2):
        both = objective.value(t + unit[i] + unit[j])
        S[i, j] = S[j, i] = rise[i] + rise[j] + value - both
    try:
        back, blind, logs = _half_inverse(S)
    except np.linalg.LinAlgError:
        return -math.inf, None
    slope = rise + S.diagonal() / 2
    step = back.T @ (back @ slope)
    mean = here.mean + np.tensordot(step, [one.mean - here.mean for _, one in near], axes=1)
    # (h, m, β) of the first series, as of all
    slopes = np.stack([(one.mean - here.mean)[:, :, 0] for _, one in near], axis=-1)
    if (np.abs(slopes @ blind) > ROUNDING * (np.abs(slopes) @ np.abs(blind))).any():
        raise NotIdentifiable(
            "The forecast depends on a mean or on coefficients of inputs that these releases do "
            "not determine (`flat` of the fit names them). Leave them out of the family, or "
            "forecast for inputs like those of the fit."
        )
    half = slopes @ back.T
    added = Predictive(mean, here.covariance + half @ half.swapaxes(1, 2))
    return value + float(slope @ step) / 2 - logs, added


def _half_inverse(S: Array) -> tuple[Array, Array, float]:
    """`back` with S⁻¹ = backᵀback beside directions (p, q) without information; ½ log|S|."""
    size = np.sqrt(np.where(S.diagonal() > 0, S.diagonal(), 1.0))
    values, vectors = np.linalg.eigh(S / np.outer(size, size))
    if values[0] < -ROUNDING:
        raise np.linalg.LinAlgError("no model nearby: ℓ was not quadratic")
    blind = vectors[:, values <= NULL] / size[:, None]
    basis = np.linalg.qr(blind, mode="complete")[0][:, blind.shape[1] :]
    root = np.linalg.cholesky(basis.T @ S @ basis)
    return np.linalg.solve(root, basis.T), blind, float(np.log(root.diagonal()).sum())

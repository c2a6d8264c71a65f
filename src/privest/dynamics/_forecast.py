"""Forecasts with uncertain parameters: a mixture over their posterior distribution.

    y_{K+h} | z̃ ~ Σ_i w_i N(C x̂_i + D u, C P_i Cᵀ + R)      (all of the i-th θ, h steps on)

A forecast at θ̂ alone takes its variances for known: 95 % intervals from 200 steps at a low level
cover 90 % (a q̂ near 0 is the reason, which first-order errors of θ̂ do not see). The prior is flat
in natural parameters and in roots of variances: flat in log q would put all its mass at q → 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, Flags, as_array, as_choice, as_confidence
from privest.dynamics._families import Family
from privest.dynamics._intervals import Region, at_highest
from privest.dynamics._kalman import last_state
from privest.dynamics._maximum import Maximum, Objective
from privest.dynamics._releases import Data
from privest.dynamics._steps import Matrices
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.records import Record

METHODS = ("mixture", "plug-in")
BISECTIONS = 60  # of a bracket of the width of the mixture: to the last digit
REACH = 20.0  # 2(ℓ̂ − ℓ) at the ends by which the first draws spread
DRAWS, ROUNDS = 400, 4
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

    estimate         (h, m), or (series, h, m): the mean of the mixture.
    standard_error   the same shape: its sd, by parameters, states and noise of y; with release=True
                     privacy noise too, in units of a measurement.
    states, state_error   (…, h, n): of the states.
    method           "mixture" or "plug-in", at θ̂ alone.
    effective        how many draws of the parameters count (1/Σw²), of `points`.
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
        """(…, h, m, 2): equal tails of the mixture, for each measurement by itself."""
        tail = (1 - as_confidence(confidence)) / 2
        return np.stack([self.quantile(tail), self.quantile(1 - tail)], axis=-1)

    def quantile(self, probability: float) -> Array:
        """(…, h, m): x with P(y ≤ x) = probability under the mixture, by bisection."""
        p = as_confidence(probability, "probability")
        each = self._means + float(scipy.special.ndtri(p)) * self._deviations
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                away = (middle - self._means) / self._deviations
            # A measurement that is known exactly is at its mean.
            away = np.where(np.isnan(away), 0.0, away)
            below = np.tensordot(self._weights, scipy.special.ndtr(away), axes=1) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def __repr__(self) -> str:
        return f"Forecast({self.estimate.shape[-2]} steps ahead, {self.method})"


class Predictive(NamedTuple):
    """x_{K+h} and y_{K+h} under one θ: means (h, n or m, series), covariances (h, n or m, …)."""

    states: Array
    state_covariance: Array
    values: Array
    covariance: Array


class Posterior(NamedTuple):
    """Weights (N,) that sum to one and the predictive distribution at each point; 1/Σw²."""

    weights: Array
    found: list[Predictive]
    effective: float
    points: int
    notes: tuple[str, ...] = ()


Visit = Callable[[Array], tuple[float, Predictive | None]]  # t ↦ ℓ and the prediction there


def forecast(
    objective: Objective, top: Maximum, ahead: int, past: Array, inputs: ArrayLike | None,
    *, release: bool, method: str,
) -> Forecast:  # fmt: skip
    """The forecast after the data of an objective; `past` (K, p) are its inputs as given."""
    as_choice(method, METHODS, "method")
    if len(objective.data) > 1:
        raise InvalidInput(
            "The series miss different steps: forecasts are of series with one pattern of gaps "
            "(SeriesRelease.by_pattern), or of a single release."
        )
    family, data = objective.family, objective.data[0]
    matrices = family.matrices(top.t)
    if any(part.ndim == 3 for part in (*matrices[:4], matrices.B, matrices.D)):
        raise InvalidInput(
            "The model changes with time and says nothing of the steps after the last release: "
            "forecasts are of models whose matrices do not change."
        )
    u = _future_inputs(family, data, past, ahead, inputs)
    if method == "plug-in":
        found = Posterior(np.ones(1), [predictive(matrices, data, u)[1]], 1.0, 1)
    else:
        found = _restarted_posterior(objective, top, u)
    added = privacy_variance(data) if release else np.zeros(1)
    return mixture(found, added, one=data.series == 1, method=method)


def predictive(matrices: Matrices, data: Data, inputs: Array) -> tuple[float, Predictive]:
    """ℓ, and the next steps under one model; inputs (1 + h, p), those of step K − 1 first."""
    value, mean, P = last_state(matrices, data)
    A, C, Q, R = matrices[:4]
    driven, added = inputs @ matrices.B.T, inputs @ matrices.D.T
    h, (n, series), m = len(inputs) - 1, mean.shape, len(C)
    found = Predictive(
        np.empty((h, n, series)), np.empty((h, n, n)), np.empty((h, m, series)), np.empty((h, m, m))
    )
    for k in range(h):
        mean, P = A @ mean + driven[k, :, None], A @ P @ A.T + Q
        found.states[k], found.state_covariance[k] = mean, P
        found.values[k] = C @ mean + added[k + 1, :, None]
        found.covariance[k] = C @ P @ C.T + R
    return value, found


def mixture(found: Posterior, added: Array, *, one: bool, method: str) -> Forecast:
    """Mean, sd and quantiles of a mixture; `added` (m,) is further variance.

    `one`: of a single series, without an axis of series.
    """
    weights, parts = found.weights, found.found

    def variances(covariances: list[Array]) -> Array:
        return np.maximum(np.diagonal(np.array(covariances), axis1=2, axis2=3), 0.0)

    def moments(means: Array, variance: Array) -> tuple[Array, Array]:
        mean = np.tensordot(weights, means, axes=1)
        between = np.tensordot(weights, np.square(means - mean), axes=1)
        within = np.tensordot(weights, variance, axes=1)[..., None]
        return mean, np.sqrt(within + between)

    def series_first(values: Array) -> Array:
        return values[..., 0] if one else np.moveaxis(values, -1, -3)

    means = np.array([part.values for part in parts])
    variance = variances([part.covariance for part in parts]) + added
    states = moments(
        np.array([part.states for part in parts]),
        variances([part.state_covariance for part in parts]),
    )
    deviations = np.broadcast_to(np.sqrt(variance)[..., None], means.shape)
    estimate, error = moments(means, variance)
    return Forecast(
        series_first(estimate), series_first(error), series_first(states[0]),
        series_first(states[1]), method, found.effective, found.points, found.notes, weights,
        series_first(means), series_first(deviations),
    )  # fmt: skip


def _future_inputs(
    family: Family, data: Data, past: Array, ahead: int, inputs: ArrayLike | None
) -> Array:
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


def privacy_variance(data: Data) -> Array:
    """(m,): the variance of the privacy noise of a release like the last, for measurements."""
    if data.level.reach:
        raise InvalidInput(
            "The releases look back: the next one is no measurement with noise. Forecast the "
            "measurements."
        )
    shown = data.level.blocks(data.steps - 1, data.steps)[0, 0]
    try:
        back = np.linalg.inv(shown)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "The level hides some of the measurements: the release is not one of all of them."
        ) from None
    return np.asarray(np.square(back).sum(axis=1) / data.unit**2)


# --- the posterior of the parameters ---


def _restarted_posterior(objective: Objective, top: Maximum, u: Array) -> Posterior:
    """The posterior, begun again from a higher maximum where the profiles find one."""
    family, data = objective.family, objective.data[0]
    linear = linear_parameters(family, top.t)

    def predict(t: Array) -> tuple[float, Predictive]:
        return predictive(family.matrices(t), data, u)

    def visit(t: Array) -> tuple[float, Predictive | None]:
        try:
            return integrated(objective, predict, t, linear) if linear.any() else predict(t)
        except NumericalFailure:
            return -math.inf, None

    count = sum(own.shown for own in objective.data)
    return at_highest(objective, top, count, lambda top: posterior(objective, visit, top, ~linear))[
        0
    ]


class Coordinates:
    """ψ (d,) of the `free` parameters: roots of variances, t for all else.

    A root is regular at 0, where a logarithm is not; t carries the density |∂θ/∂t| of a prior that
    is flat in θ. Draws of negative roots are folded to positive ones: every draw is a model.
    """

    def __init__(self, family: Family, top: Maximum, free: Flags) -> None:
        self.family, self.top, self.places = family, top, np.flatnonzero(free)
        pairs = list(zip(family.names, family.labels))
        self.variance = np.array([label == f"log {name}" for name, label in pairs])[self.places]
        self.other = self.places[~self.variance]

    def of(self, t: Array) -> Array:
        """ψ."""
        own = t[self.places]
        return np.where(self.variance, np.exp(np.where(self.variance, own, 0.0) / 2), own)

    def working(self, psi: Array) -> Array | None:
        """t of ψ, the others as at the top; None beyond the limits of t."""
        t = self.top.t.copy()
        with np.errstate(divide="ignore"):
            t[self.places] = np.where(self.variance, np.log(np.square(psi)), psi)
        low, high = self.top.limits.T
        own = self.places[self.variance]
        t[own] = np.maximum(t[own], low[own])  # nothing changes below
        return t if ((t >= low) & (t <= high)).all() else None

    def log_density(self, t: Array) -> float:
        """log|∂θ/∂t| of what is not a variance."""
        if not len(self.other):
            return 0.0
        slopes = self.family.natural_slopes(t)[np.ix_(self.other, self.other)]
        return float(np.linalg.slogdet(slopes)[1])

    def folded(self, points: Array) -> Array:
        """Points (N, d) with roots made positive."""
        return np.where(self.variance, np.abs(points), points)

    def log_law(self, points: Array, mean: Array, root: Array) -> Array:
        """log density of folded draws of Student's distribution."""
        law = scipy.stats.multivariate_t(mean, root @ root.T, df=FREEDOM)
        choices = [(1.0, -1.0) if own else (1.0,) for own in self.variance]
        signs = itertools.product(*choices)
        return np.asarray(np.logaddexp.reduce([law.logpdf(points * sign) for sign in signs]))

    def covariance(self) -> Array:
        """Of ψ, by the curvature at the top."""
        slopes = np.where(self.variance, self.of(self.top.t) / 2, 1.0)
        covariance = self.top.covariance()[np.ix_(self.places, self.places)]
        return np.asarray(covariance * np.outer(slopes, slopes))

    def visited(self, visit: Visit, points: Array) -> tuple[Array, list[Predictive | None]]:
        """log posterior at points (N, d), −∞ where there is no model, and the predictions."""
        heights, found = np.full(len(points), -np.inf), []
        for i, psi in enumerate(points):
            t = self.working(psi)
            value, there = (-math.inf, None) if t is None else visit(t)
            if t is not None and math.isfinite(value):
                heights[i] = value + self.log_density(t)
            found.append(there)
        return heights, found


def posterior(objective: Objective, visit: Visit, top: Maximum, free: Flags) -> Posterior:
    """Points and weights of the parameters that are `free`; the visit takes care of the others.

    Importance draws at the points of a fixed lattice (nothing is random), from Student's
    distributions: the first as wide as the profiles say, the next fitted to all draws so far;
    weights exp ℓ over the density of all of them, until enough count. Raises HigherMaximum where a
    profile finds more than the top, NotIdentifiable where a parameter without limits is not
    determined at all.
    """
    if not free.any():
        return _posterior(np.zeros(1), [visit(top.t)[1]], 1.0)
    coordinates = Coordinates(objective.family, top, free)
    unit = _lattice(len(coordinates.places))
    laws = [_first_law(objective, coordinates)]
    points, heights = np.empty((0, unit.shape[1])), np.empty(0)
    found: list[Predictive | None] = []
    for _ in range(ROUNDS):
        fresh = coordinates.folded(laws[-1][0] + unit @ laws[-1][1].T)
        more, there = coordinates.visited(visit, fresh)
        points, heights = np.concatenate([points, fresh]), np.concatenate([heights, more])
        found += there
        if not np.isfinite(heights).any():
            said = "no draw of the parameters has a likelihood: the estimates are taken for true."
            return _posterior(np.zeros(1), [visit(top.t)[1]], 1.0, (said,))
        logs = heights - np.logaddexp.reduce([coordinates.log_law(points, *law) for law in laws])
        effective = _effective(logs)
        if effective >= ENOUGH:
            break
        laws.append(_next_law(points, logs, *laws[-1]))
    if effective >= FEWEST:
        return _posterior(logs, found, effective)
    said = (
        f"only {effective:.0f} of {len(points)} draws of the parameters count: their weights were "
        "made more even, and the forecast is rough."
    )
    return _posterior(_tempered(logs), found, effective, (said,))


def _posterior(
    logs: Array, found: list[Predictive | None], effective: float, notes: tuple[str, ...] = ()
) -> Posterior:
    """Weights exp(logs) to a sum of one, those that are negligible left out."""
    weights = scipy.special.softmax(logs)
    kept = [(w, one) for w, one in zip(weights, found) if w > NEGLIGIBLE and one is not None]
    own = np.array([w for w, _ in kept])
    return Posterior(own / own.sum(), [one for _, one in kept], effective, len(logs), notes)


def _lattice(p: int) -> Array:
    """Unit draws (N, p) of Student's distribution: i·α mod 1, α powers of 1/g, g^{p+2} = g + 1."""
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (p + 2))
    u = np.mod(0.5 + np.arange(1, DRAWS + 1)[:, None] * g ** -np.arange(1.0, p + 2), 1.0)
    scale = np.sqrt(FREEDOM / scipy.stats.chi2(FREEDOM).ppf(u[:, p]))
    return np.asarray(scipy.special.ndtri(u[:, :p]) * scale[:, None])


def _first_law(objective: Objective, coordinates: Coordinates) -> tuple[Array, Array]:
    """Correlations by the curvature, deviations by the farthest ends of the profiles: the
    curvature knows nothing of a long tail or a boundary.
    """
    top, mean = coordinates.top, coordinates.of(coordinates.top.t)
    ends, region = [], Region(objective, objective.family, top, REACH)
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


def _next_law(points: Array, logs: Array, mean: Array, root: Array) -> tuple[Array, Array]:
    """Mean and covariance of the draws, and of the law before as if it were some more of them."""
    logs = _tempered(logs)
    weights, count = scipy.special.softmax(logs), _effective(logs)
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

    Given all else ℓ is quadratic in β, and forecasts are linear in it, with the same slopes for all
    series. (A mean next to φ → 1 is hardly known: draws of it would miss its tails.)
    """
    places = np.flatnonzero(linear)
    value, slope = objective(t)
    if not math.isfinite(value):
        return -math.inf, None
    unit = np.eye(len(t))[places]
    S = np.array([(slope - objective(t + own)[1])[places] for own in unit])
    try:
        back, blind, logs = _half_inverse(S)
    except np.linalg.LinAlgError:
        return -math.inf, None
    step = back.T @ (back @ slope[places])
    best = t + step @ unit
    value += float(slope[places] @ step) / 2 - logs
    here = predict(best)[1]
    further = [predict(best + own)[1] for own in unit]
    # slopes (h, n, β) of the first series, as of all
    states, values = (
        np.stack([(getattr(one, part) - getattr(here, part))[:, :, 0] for one in further], axis=-1)
        for part in ("states", "values")
    )
    if (np.abs(values @ blind) > ROUNDING * (np.abs(values) @ np.abs(blind))).any():
        raise NotIdentifiable(
            "The forecast depends on a mean or on coefficients of inputs that these releases do "
            "not determine (`flat` of the fit names them). Leave them out of the family, or "
            "forecast for inputs like those of the fit."
        )
    states, values = states @ back.T, values @ back.T
    return value, here._replace(
        state_covariance=here.state_covariance + states @ states.swapaxes(1, 2),
        covariance=here.covariance + values @ values.swapaxes(1, 2),
    )


def _half_inverse(S: Array) -> tuple[Array, Array, float]:
    """`back` with S⁻¹ = backᵀback beside the directions (p, q) of which S says nothing; ½ log|S|.

    These directions are the same for every model, those that the inputs do not show, and so is the
    basis of what is left, in which |S| is taken.
    """
    S = (S + S.T) / 2
    size = np.sqrt(np.where(S.diagonal() > 0, S.diagonal(), 1.0))
    values, vectors = np.linalg.eigh(S / np.outer(size, size))
    if values[0] < -ROUNDING:
        raise np.linalg.LinAlgError("no model nearby: ℓ was not quadratic")
    blind = vectors[:, values <= NULL] / size[:, None]
    basis = np.linalg.qr(blind, mode="complete")[0][:, blind.shape[1] :]
    root = np.linalg.cholesky(basis.T @ S @ basis)
    return np.linalg.solve(root, basis.T), blind, float(np.log(root.diagonal()).sum())

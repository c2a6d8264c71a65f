"""What the releases leave open of the parameters, as points with weights: the posterior of a prior
that is flat in the natural parameters and in the roots of variances.

    weight(ψ) ∝ exp ℓ(ψ) ,   ψ_j = √θ_j for a variance, θ_j for all else

Flat in log q would put all its mass at q → 0 wherever q = 0 is not excluded; flat in √q covers in
trials what it says. ψ is regular at a variance of 0, where its logarithm is not. Up to two
parameters: a grid. Else importance draws at the points of a fixed lattice (nothing is random): half
uniform in a box, half of Student's law about the maximum, then of Student's laws that are fitted to
all draws so far, weighted by exp ℓ over the density of all laws drawn from, until enough count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.dynamics._identification._constrained import Function, Peak, Scale, safe_inverse
from privest.dynamics._identification._profile import profile
from privest.errors import InvalidInput, NotIdentifiable

REACH = 20.0  # 2(ℓ̂ − ℓ_p) at the edge of the grid: what is beyond has a chance of 1e-5
SPACING = 0.6  # of a conditional standard error: the midpoint rule errs by e^{−2π²/0.36}
LEAST, MOST = 12, 40  # points a parameter
DRAWS, FREEDOM, ROUNDS = 512, 5.0, 6
ENOUGH = 300  # effective draws, and no further round is made
ADAPTED = 50  # draws to which the next law is fitted, effectively: weights^γ with the largest γ ≤ 1
WIDER = 1.3  # of the deviations of the proposal
NOTHING = 1e-9  # of all weight: points that are left out


class Chart(Scale, Protocol):
    """A Family, as far as it is needed here."""

    names: tuple[str, ...]
    labels: tuple[str, ...]

    def working(self, theta: Array) -> Array:
        """t of θ; InvalidInput where no t leads there."""


Visit = Callable[[Array], tuple[float, Any]]  # t ↦ ℓ and what is wanted there


class Posterior(NamedTuple):
    """Weights (N,) that sum to one and what was found at each point; how many count, of `points`.

    effective = 1/Σw² for draws; for a grid it is the number of its points.
    """

    weights: Array
    found: list[Any]
    effective: float
    points: int


class Roots:
    """ψ of t: natural parameters, of variances their roots; the `free` ones, others as at t."""

    def __init__(self, chart: Chart, t: Array, free: Flags) -> None:
        self.chart, self.free = chart, np.flatnonzero(free)
        self.variance = variances(chart)
        self.rest = chart.natural(t)

    def of(self, t: Array) -> Array:
        """ψ."""
        theta = self.chart.natural(t)
        return np.where(self.variance, np.sqrt(np.abs(theta)), theta)[self.free]

    def covariance(self, peak: Peak) -> Array:
        """Of ψ, by the curvature at the peak."""
        theta = self.chart.natural(peak.t)
        root = np.sqrt(np.maximum(np.abs(theta), 1e-300))
        factor = np.where(self.variance, 0.5 / root, 1.0)[:, None]
        slopes = (factor * self.chart.natural_slopes(peak.t))[self.free]
        return np.asarray(slopes @ safe_inverse(peak.curvature) @ slopes.T)

    def ends(self, ends: Array) -> Array:
        """ψ of ends (p, 2) of θ."""
        variance = self.variance[:, None]
        return np.where(variance, np.sqrt(np.where(variance, ends, 0.0)), ends)[self.free]

    def working(self, psi: Array) -> Array | None:
        """t of ψ; None where there is no such model."""
        if (psi[self.variance[self.free]] <= 0).any():
            return None
        theta = self.rest.copy()
        theta[self.free] = np.where(self.variance[self.free], np.square(psi), psi)
        try:
            return self.chart.working(theta)
        except InvalidInput:
            return None


def variances(chart: Chart) -> Flags:
    """Which natural parameters are worked with as logarithms."""
    pairs = zip(chart.names, chart.labels)
    return np.array([label == f"log {name}" for name, label in pairs], dtype=bool)


def posterior(function: Function, visit: Visit, chart: Chart, peak: Peak, free: Flags) -> Posterior:
    """Points and weights of the parameters that are `free`; the visit takes care of the others.

    A point costs one visit, the edges of a grid some ten of `function`. Raises Higher where a
    profile finds more than the peak, NotIdentifiable where a parameter without limits is not
    determined at all.
    """
    if not free.any():
        return Posterior(np.ones(1), [visit(peak.t)[1]], 1.0, 1)
    roots = Roots(chart, peak.t, free)
    edges = roots.ends(profile(function, chart, peak, REACH).ends)
    for j in roots.free[~np.isfinite(edges).all(axis=1)].tolist():
        raise NotIdentifiable(
            f"{chart.names[j]} is not determined by these releases: there is no forecast "
            "without it."
        )
    return (_grid if len(edges) <= 2 else _draws)(visit, roots, peak, edges)


def _grid(visit: Visit, roots: Roots, peak: Peak, edges: Array) -> Posterior:
    """The midpoint rule on a box."""
    conditional = 1 / np.sqrt(np.linalg.inv(roots.covariance(peak)).diagonal())
    width = edges[:, 1] - edges[:, 0]
    counts = np.clip(np.ceil(width / (SPACING * conditional)), LEAST, MOST).astype(int)
    axes = [
        low + size * (np.arange(count) + 0.5) / count
        for low, size, count in zip(edges[:, 0], width, counts.tolist())
    ]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    heights, found = _visited(visit, roots, points)
    weights = _normed(heights)
    return _thinned(Posterior(weights, found, float(len(points)), len(points)))


class Law(NamedTuple):
    """Student's law: mean and lower-triangular root of its scale."""

    mean: Array
    root: Array

    def log_density(self, points: Array) -> Array:
        """Up to a constant that all laws of one dimension share."""
        p = len(self.mean)
        unit = scipy.linalg.solve_triangular(self.root, (points - self.mean).T, lower=True)
        size = np.log(np.abs(self.root.diagonal())).sum() - _student_constant(p)
        return np.asarray(
            -(FREEDOM + p) / 2 * np.log1p(np.square(unit).sum(axis=0) / FREEDOM) - size
        )


def _student_constant(p: int) -> float:
    """The logarithm of the density of the unit law at 0."""
    gamma = scipy.special.gammaln
    return float(
        gamma((FREEDOM + p) / 2) - gamma(FREEDOM / 2) - p / 2 * math.log(FREEDOM * math.pi)
    )


def _draws(visit: Visit, roots: Roots, peak: Peak, edges: Array) -> Posterior:
    """Adaptive importance draws, weighted against the mixture of all laws."""
    p, width = len(edges), edges[:, 1] - edges[:, 0]
    uniform, unit = _lattice(p)
    points = edges[:, 0] + width * uniform
    heights, found = _visited(visit, roots, points)
    laws = [_first_law(roots, peak, edges)]
    for _ in range(ROUNDS):
        fresh = laws[-1].mean + unit @ laws[-1].root.T
        more, there = _visited(visit, roots, fresh)
        points, heights = np.concatenate([points, fresh]), np.concatenate([heights, more])
        found += there
        inside = ((points >= edges[:, 0]) & (points <= edges[:, 1])).all(axis=1)
        box = np.where(inside, -np.log(width).sum(), -np.inf)
        drawn = np.logaddexp.reduce([box, *(law.log_density(points) for law in laws)])
        weights = _normed(heights - drawn)
        effective = 1 / float(weights @ weights)
        if effective >= ENOUGH:
            break
        laws.append(_fitted(points, weights))
    return _thinned(Posterior(weights, found, effective, len(points)))


def _first_law(roots: Roots, peak: Peak, edges: Array) -> Law:
    """Deviations by the farther edge: the curvature knows nothing of a long tail or a boundary."""
    covariance, mean = roots.covariance(peak), roots.of(peak.t)
    size = np.sqrt(covariance.diagonal())
    spread = np.abs(edges - mean[:, None]).max(axis=1) / math.sqrt(REACH)
    scaled = covariance / np.outer(size, size) * np.outer(spread, spread)
    return Law(mean, WIDER * np.linalg.cholesky(scaled))


def _fitted(points: Array, weights: Array) -> Law:
    """By mean and covariance of the draws, weights made so even that ADAPTED of them count."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    power, step = 1.0, 0.5
    tempered = weights
    for _ in range(20):
        enough = 1 / float(tempered @ tempered) >= ADAPTED
        if enough and power == 1.0:
            break
        power += step if enough else -step
        step /= 2
        tempered = _normed(power * logs)
    mean = tempered @ points
    off = points - mean
    covariance = (off * tempered[:, None]).T @ off
    return Law(mean, WIDER * np.linalg.cholesky(covariance))


def _lattice(p: int) -> tuple[Array, Array]:
    """Points (N, p) even in the unit cube, and unit draws of Student's law: i·α mod 1, α the powers
    of 1/g with g^{d+1} = g + 1.
    """
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (p + 2))
    u = np.mod(0.5 + np.arange(1, DRAWS + 1)[:, None] * g ** -np.arange(1.0, p + 2), 1.0)
    scale = np.sqrt(FREEDOM / (2 * scipy.special.gammaincinv(FREEDOM / 2, u[:, p])))
    return u[:, :p], np.asarray(scipy.special.ndtri(u[:, :p]) * scale[:, None])


def _visited(visit: Visit, roots: Roots, points: Array) -> tuple[Array, list[Any]]:
    """ℓ at the points, −∞ where there is no model, and what was found there."""
    heights, found = np.full(len(points), -np.inf), []
    for i, psi in enumerate(points):
        t = roots.working(psi)
        value, there = (-math.inf, None) if t is None else visit(t)
        found.append(there)
        if math.isfinite(value):
            heights[i] = value
    return heights, found


def _normed(logs: Array) -> Array:
    """exp, to a sum of one."""
    top = logs.max()
    if not np.isfinite(top):
        raise NotIdentifiable("No point near the maximum has a likelihood.")
    weights = np.exp(logs - top)
    return np.asarray(weights / weights.sum())


def _thinned(found: Posterior) -> Posterior:
    """Without the points that weigh nothing."""
    kept = np.flatnonzero(found.weights > NOTHING)
    weights = found.weights[kept]
    return found._replace(
        weights=weights / weights.sum(), found=[found.found[i] for i in kept.tolist()]
    )

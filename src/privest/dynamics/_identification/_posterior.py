"""What the releases leave open of the parameters, as points with weights: the posterior of a prior
that is flat in the natural parameters and in the roots of variances.

    weight(ψ) ∝ exp ℓ(ψ) ,   ψ_j = √θ_j for a variance, θ_j for all else

Flat in log q would put all its mass at q → 0 wherever q = 0 is not excluded; flat in √q covers in
trials what it says. ψ is regular at a variance of 0, where its logarithm is not. Up to two
parameters: a grid. Else importance draws at the points of a fixed lattice (nothing is random): half
uniform in a box, half of Student's law about the maximum, then of Student's laws that are fitted to
all draws so far, weighted by exp ℓ over the density of all laws drawn from, until enough count. Of
more than FEW parameters, or where few draws count, they are in the working scale
(`_working_draws`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._identification._constrained import Function, Peak, safe_inverse
from privest.dynamics._identification._laws import Law, evened, lattice, normed
from privest.dynamics._identification._points import Chart, Posterior, Visit, thinned, variances
from privest.dynamics._identification._profile import MOST, profile
from privest.dynamics._identification._working_draws import FEWEST, working_draws
from privest.errors import InvalidInput, NotIdentifiable

REACH = 20.0  # 2(ℓ̂ − ℓ_p) at the edge of the grid: what is beyond has a chance of 1e-5
SPACING = 0.6  # of a conditional standard error: the midpoint rule errs by e^{−2π²/0.36}
EDGE = 50  # evaluations an edge of the box of draws, which may be rough
LEAST_POINTS, MOST_POINTS = 12, 40  # a parameter
DRAWS, ROUNDS = 512, 3
ENOUGH = 300  # effective draws, and no further round is made
FEW = 4  # parameters up to which draws in ψ and a box do
ADAPTED = 50  # draws to which the next law is fitted, effectively: weights^γ with the largest γ ≤ 1
WIDER = 1.3  # of the deviations of the proposal


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


def posterior(function: Function, visit: Visit, chart: Chart, peak: Peak, free: Flags) -> Posterior:
    """Points and weights of the parameters that are `free`; the visit takes care of the others.

    A point costs one visit, the edges of a grid some ten of `function`. Raises Higher where a
    profile finds more than the peak, NotIdentifiable where a parameter without limits is not
    determined at all.
    """
    if not free.any():
        return Posterior(np.ones(1), [visit(peak.t)[1]], 1.0, 1)
    if free.sum() > FEW:
        return working_draws(visit, chart, peak, free)
    roots = Roots(chart, peak.t, free)
    most = MOST if len(roots.free) <= 2 else EDGE  # draws are made beyond the edges, too
    edges = roots.ends(profile(function, chart, peak, REACH, most).ends)
    for j in roots.free[~np.isfinite(edges).all(axis=1)].tolist():
        raise NotIdentifiable(
            f"{chart.names[j]} is not determined by these releases: there is no forecast "
            "without it."
        )
    if len(edges) <= 2:
        return _grid(visit, roots, peak, edges)
    try:
        found = _draws(visit, roots, peak, edges)
    except (NotIdentifiable, np.linalg.LinAlgError):  # nearly all points are no models
        found = None
    if found is not None and found.effective >= FEWEST:
        return found
    return working_draws(visit, chart, peak, free)


def _grid(visit: Visit, roots: Roots, peak: Peak, edges: Array) -> Posterior:
    """The midpoint rule on a box."""
    conditional = 1 / np.sqrt(np.linalg.inv(roots.covariance(peak)).diagonal())
    width = edges[:, 1] - edges[:, 0]
    counts = np.clip(np.ceil(width / (SPACING * conditional)), LEAST_POINTS, MOST_POINTS).astype(
        int
    )
    axes = [
        low + size * (np.arange(count) + 0.5) / count
        for low, size, count in zip(edges[:, 0], width, counts.tolist())
    ]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    heights, found = _visited(visit, roots, points)
    weights = normed(heights)
    return thinned(Posterior(weights, found, float(len(points)), len(points)))


def _draws(visit: Visit, roots: Roots, peak: Peak, edges: Array) -> Posterior:
    """Adaptive importance draws, weighted against the mixture of all laws."""
    p, width = len(edges), edges[:, 1] - edges[:, 0]
    uniform, unit = lattice(p, DRAWS)
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
        logs = heights - drawn
        weights = normed(logs)
        effective = 1 / float(weights @ weights)
        if effective >= ENOUGH:
            break
        laws.append(_fitted(points, logs))
    return thinned(Posterior(weights, found, effective, len(points)))


def _fitted(points: Array, logs: Array) -> Law:
    """By mean and covariance of the draws, weights made so even that ADAPTED of them count."""
    tempered = evened(logs, ADAPTED)
    mean = tempered @ points
    off = points - mean
    covariance = (off * tempered[:, None]).T @ off
    return Law(mean, WIDER * np.linalg.cholesky(covariance))


def _first_law(roots: Roots, peak: Peak, edges: Array) -> Law:
    """Deviations by the farther edge: the curvature knows nothing of a long tail or a boundary."""
    covariance, mean = roots.covariance(peak), roots.of(peak.t)
    size = np.sqrt(covariance.diagonal())
    spread = np.abs(edges - mean[:, None]).max(axis=1) / math.sqrt(REACH)
    scaled = covariance / np.outer(size, size) * np.outer(spread, spread)
    return Law(mean, WIDER * np.linalg.cholesky(scaled))


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

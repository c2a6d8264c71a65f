"""What the releases leave open of the parameters, as points with weights: the posterior of a prior
that is flat in the natural parameters and in the roots of variances.

    weight(ψ) ∝ exp ℓ(ψ) ,   ψ_j = √θ_j for a variance, θ_j for all else

Flat in log q would put all its mass at q → 0 wherever q = 0 is not excluded; flat in √q covers in
trials what it says. ψ is regular at a variance of 0, where its logarithm is not. Up to two
parameters: a grid. Else importance draws from Student's law about the maximum, at the points of a
fixed lattice (nothing is random), adapted until enough of them count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
DRAWS, FREEDOM, ROUNDS = 1024, 5.0, 4
ENOUGH = 0.25  # of the draws, effectively, and no further round is made
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
    """ψ of t: a family's natural parameters, of variances their roots."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.variance = variances(chart)

    def of(self, t: Array) -> Array:
        """ψ."""
        theta = self.chart.natural(t)
        return np.where(self.variance, np.sqrt(np.abs(theta)), theta)

    def slopes(self, t: Array) -> Array:
        """∂ψ/∂t (p, p)."""
        factor = np.where(self.variance, 0.5 / np.maximum(self.of(t), 1e-150), 1.0)
        return np.asarray(factor[:, None] * self.chart.natural_slopes(t))

    def of_value(self, j: int, theta: float) -> float:
        """ψ_j of θ_j."""
        return math.sqrt(theta) if self.variance[j] else theta

    def working(self, psi: Array) -> Array | None:
        """t of ψ; None where there is no such model."""
        if (psi[self.variance] <= 0).any():
            return None
        try:
            return self.chart.working(np.where(self.variance, np.square(psi), psi))
        except InvalidInput:
            return None


def variances(chart: Chart) -> Flags:
    """Which natural parameters are worked with as logarithms."""
    pairs = zip(chart.names, chart.labels)
    return np.array([label == f"log {name}" for name, label in pairs], dtype=bool)


def posterior(function: Function, visit: Visit, chart: Chart, peak: Peak) -> Posterior:
    """Points and weights; a point costs one visit, the edges of a grid some ten of `function`.

    Raises Higher where a profile finds more than the peak, NotIdentifiable where a parameter that
    has no limits is not determined at all.
    """
    p = len(peak.t)
    if p == 0:
        return Posterior(np.ones(1), [visit(peak.t)[1]], 1.0, 1)
    roots = Roots(chart)
    edges = _edges(function, roots, peak)
    if p <= 2:
        return _grid(visit, roots, peak, edges)
    return _draws(visit, roots, peak, edges)


def _edges(function: Function, roots: Roots, peak: Peak) -> Array:
    """(p, 2): ψ beyond which nothing counts."""
    ends = profile(function, roots.chart, peak, REACH).ends
    found = np.array([[roots.of_value(j, end) for end in pair] for j, pair in enumerate(ends)])
    for j in np.flatnonzero(~np.isfinite(found).all(axis=1)):
        raise NotIdentifiable(
            f"{roots.chart.names[j]} is not determined by these releases: there is no forecast "
            "without it."
        )
    return found


def _inverse(roots: Roots, peak: Peak) -> Array:
    """The covariance of ψ by the curvature at the peak."""
    slopes = roots.slopes(peak.t)
    return np.asarray(slopes @ safe_inverse(peak.curvature) @ slopes.T)


def _grid(visit: Visit, roots: Roots, peak: Peak, edges: Array) -> Posterior:
    """The midpoint rule on a box."""
    conditional = 1 / np.sqrt(np.linalg.inv(_inverse(roots, peak)).diagonal())
    width = edges[:, 1] - edges[:, 0]
    counts = np.clip(np.ceil(width / (SPACING * conditional)), LEAST, MOST).astype(int)
    axes = [
        low + size * (np.arange(count) + 0.5) / count
        for low, size, count in zip(edges[:, 0], width, counts.tolist())
    ]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return _weighed(visit, roots, peak, points, np.zeros(len(points)), grid=True)


def _draws(visit: Visit, roots: Roots, peak: Peak, edges: Array) -> Posterior:
    """Importance draws; each round takes mean and covariance from the one before."""
    p = len(peak.t)
    inverse = _inverse(roots, peak)
    size = np.sqrt(inverse.diagonal())
    mean = roots.of(peak.t)
    # Deviations by the farther edge: the curvature knows nothing of a long tail or a boundary.
    spread = np.abs(edges - mean[:, None]).max(axis=1) / math.sqrt(REACH)
    covariance = inverse / np.outer(size, size) * np.outer(spread, spread)
    unit, tail = _student(p)
    for _ in range(ROUNDS):
        root = WIDER * np.linalg.cholesky(covariance)
        points = mean + unit @ root.T
        found = _weighed(visit, roots, peak, points, tail, grid=False)
        if found.effective >= ENOUGH * DRAWS or found.effective < 2 * p:
            break
        kept = found.weights
        mean = kept @ points
        off = points - mean
        covariance = (off * kept[:, None]).T @ off
    return _thinned(found)


def _student(p: int) -> tuple[Array, Array]:
    """Unit draws (N, p) of Student's law and minus the logarithm of their density, up to a
    constant: at the points i·α mod 1 of a lattice, α the powers of the root of g^{d+1} = g + 1.
    """
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (p + 2))
    steps = np.arange(1, DRAWS + 1)[:, None] * g ** -np.arange(1.0, p + 2)
    u = np.mod(0.5 + steps, 1.0)
    normal = scipy.special.ndtri(u[:, :p])
    scale = np.sqrt(FREEDOM / (2 * scipy.special.gammaincinv(FREEDOM / 2, u[:, p])))
    unit = normal * scale[:, None]
    far = np.square(unit).sum(axis=1)
    return unit, np.asarray((FREEDOM + p) / 2 * np.log1p(far / FREEDOM))


def _weighed(
    visit: Visit, roots: Roots, peak: Peak, points: Array, rarity: Array, *, grid: bool
) -> Posterior:
    """exp(ℓ − ℓ̂) over the density of the points."""
    logs, found = np.full(len(points), -np.inf), []
    for i, (value, there) in enumerate(_visited(visit, roots, points)):
        found.append(there)
        logs[i] = value - peak.height + rarity[i]
    if not np.isfinite(logs).any():
        raise NotIdentifiable("No point near the maximum has a likelihood.")
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    effective = float(len(points)) if grid else 1 / float(weights @ weights)
    result = Posterior(weights, found, effective, len(points))
    return _thinned(result) if grid else result


def _visited(visit: Visit, roots: Roots, points: Array) -> Iterator[tuple[float, Any]]:
    for psi in points:
        t = roots.working(psi)
        if t is None:
            yield -math.inf, None
            continue
        value, there = visit(t)
        yield (value, there) if math.isfinite(value) else (-math.inf, None)


def _thinned(found: Posterior) -> Posterior:
    """Without the points that weigh nothing."""
    kept = np.flatnonzero(found.weights > NOTHING)
    weights = found.weights[kept]
    return found._replace(
        weights=weights / weights.sum(), found=[found.found[i] for i in kept.tolist()]
    )

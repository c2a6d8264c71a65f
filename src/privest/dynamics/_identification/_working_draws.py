"""The posterior of many parameters: importance draws in the working scale, where every point is a
model; and what is left where draws do not do.

    weight(t) ∝ exp ℓ(t) |∂ψ/∂t| / density of all laws drawn from

The laws are Student's, the first by the curvature at the peak, the next fitted to all draws so far.
Where few count in the end, weights are evened until some do (a wider posterior, between the true
one and the laws). Where none has a likelihood, 2p points t̂ ± √p·(columns of a root of H⁻¹), which
have its mean and covariance, say to first order what errors of t̂ do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.dynamics._identification._constrained import LONGEST, Peak, safe_inverse
from privest.dynamics._identification._laws import Law, evened, lattice, normed
from privest.dynamics._identification._points import Chart, Posterior, Visit, thinned, variances

ROUNDS, DRAWS = 3, 256  # a model with many parameters takes its time
ENOUGH = 150  # effective draws, and no further round is made
FEWEST = 50  # effective draws, below which weights are evened
WIDER = 1.1  # of the deviations of a law: its volume has this to the power p
SHARED = 3.0  # draws a parameter that the law before counts for in the next


def working_draws(
    visit: Visit, chart: Chart, peak: Peak, free: Flags, rounds: int = ROUNDS
) -> Posterior:
    """At most rounds·DRAWS visits."""
    places = np.flatnonzero(free)
    covariance = _spread(peak, places)
    unit = lattice(len(places), DRAWS)[1]
    laws = [Law(peak.t[places], WIDER * np.linalg.cholesky(covariance))]
    points, heights, found = np.empty((0, len(places))), np.empty(0), []
    for _ in range(rounds):
        fresh = laws[-1].mean + unit @ laws[-1].root.T
        low, high = peak.limits[places].T
        fresh = fresh[((fresh >= low) & (fresh <= high)).all(axis=1)]
        more, there = _visited(visit, chart, peak.t, places, fresh)
        points, heights = np.concatenate([points, fresh]), np.concatenate([heights, more])
        found += there
        if not np.isfinite(heights).any():
            return _first_order(visit, peak, places, covariance)
        drawn = np.logaddexp.reduce([law.log_density(points) for law in laws])
        logs = heights - drawn
        weights = normed(logs)
        effective = 1 / float(weights @ weights)
        if effective >= ENOUGH:
            break
        laws.append(_next_law(points, logs, laws[-1]))
    if effective >= FEWEST:
        return thinned(Posterior(weights, found, effective, len(points)))
    said = (
        f"only {effective:.0f} of {len(points)} draws of the parameters count: their weights were "
        "evened, and the forecast is rough."
    )
    return thinned(Posterior(evened(logs, FEWEST), found, effective, len(points), (said,)))


def _spread(peak: Peak, places: Index) -> Array:
    """Of t by the curvature, no deviation larger than a step that is taken at once."""
    covariance = safe_inverse(peak.curvature)[np.ix_(places, places)]
    sizes = np.sqrt(covariance.diagonal())
    bounded = np.isfinite(peak.limits[places]).all(axis=1)
    factor = np.where(bounded, np.minimum(1.0, LONGEST / 2 / sizes), 1.0)
    return np.asarray(covariance * np.outer(factor, factor))


def _next_law(points: Array, logs: Array, law: Law) -> Law:
    """Mean and covariance of the draws, and of the law before as if it were some more of them."""
    tempered = evened(logs, FEWEST)
    count = 1 / float(tempered @ tempered)
    share = count / (count + SHARED * points.shape[1])
    mean = tempered @ points
    off = points - mean
    covariance = (off * tempered[:, None]).T @ off
    scale = share * WIDER**2 * covariance + (1 - share) * law.root @ law.root.T
    return Law(share * mean + (1 - share) * law.mean, np.linalg.cholesky(scale))


def _visited(
    visit: Visit, chart: Chart, t: Array, places: Index, points: Array
) -> tuple[Array, list[Any]]:
    """ℓ + log|∂ψ/∂t| at the points, −∞ where there is no model, and what was found there."""
    heights, found = np.full(len(points), -np.inf), []
    own = variances(chart)[places]
    for i, point in enumerate(points):
        moved = t.copy()
        moved[places] = point
        value, there = visit(moved)
        found.append(there)
        theta = np.abs(chart.natural(moved)[places])
        _, size = np.linalg.slogdet(chart.natural_slopes(moved)[np.ix_(places, places)])
        with np.errstate(divide="ignore"):
            total = value + size - 0.5 * float(np.log(theta[own]).sum())
        if math.isfinite(total):
            heights[i] = total
    return heights, found


def _first_order(visit: Visit, peak: Peak, places: Index, covariance: Array) -> Posterior:
    """Points with the mean and covariance of t̂, those that have a likelihood; else t̂ alone."""
    root = math.sqrt(len(places)) * np.linalg.cholesky(covariance)
    found = []
    for step in [*root.T, *-root.T]:
        moved = peak.t.copy()
        moved[places] += step
        value, there = visit(np.clip(moved, *peak.limits.T))
        if math.isfinite(value):
            found.append(there)
    said = "no draw of the parameters has a likelihood: their errors count to first order only."
    if not found:
        found = [visit(peak.t)[1]]
        said = "no draw of the parameters has a likelihood: the estimates are taken for the truth."
    weights = np.full(len(found), 1 / len(found))
    return Posterior(weights, found, float(len(found)), len(found), (said,))

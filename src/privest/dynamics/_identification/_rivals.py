"""Other explanations of a far value of a mean or a coefficient: a root next to the unit circle.

Far from the estimate of a mean the releases may be explained best by an autoregression that hardly
moves, φ → 1 with any variance: its level then takes up the difference, and 2(ℓ̂ − ℓ_p) grows with
the logarithm of the distance only. A walk along the mean does not see it: at the peak there is no
such branch. So where an end is met, the best point of a coarse grid is climbed from, too.
"""

from __future__ import annotations

import itertools

import numpy as np

from privest.arrays import Array, Index
from privest.dynamics._identification._constrained import Point, Walk
from privest.dynamics._identification._wald import TRUSTED

STEEP = 4.0  # artanh of a root: .9993
HEIGHTS = 12  # of a variance, evenly in its logarithm between its limits


def has_rivals(walk: Walk) -> bool:
    """Whether θ_j has no limits, while roots are so little known that one may be next to 1."""
    low, high = walk.peak.limits.T
    if np.isfinite([low[walk.pivot], high[walk.pivot]]).any():
        return False
    return bool((walk.inverse.diagonal()[_roots(walk)] > TRUSTED**2).any())


def rival(walk: Walk, met: Point) -> Point | None:
    """The maximum at the same w, climbed to from the best point of the grid; None without one."""
    low, high = walk.peak.limits.T
    logs = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (low != -high))
    best: tuple[float, Array] | None = None
    for root, turned, own in itertools.product(_roots(walk), (STEEP, -STEEP), logs):
        for height in np.linspace(low[own], high[own], HEIGHTS):
            t = met.t.copy()
            t[root], t[own] = turned, height
            value = walk.value_of(t)
            if np.isfinite(value) and (best is None or value > best[0]):
                best = value, t
    return None if best is None else walk.climb(met.w, met._replace(t=best[1]), None)


def _roots(walk: Walk) -> Index:
    low, high = walk.peak.limits.T
    return np.flatnonzero(np.isfinite(low) & (low == -high))

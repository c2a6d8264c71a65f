"""Where parameters stand for one another: a variance of 0, of which no correlation is known, and a
correlation of almost 1, which makes of a process a level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._identification._climbing import ascend
from privest.dynamics._identification._constrained import Function, Peak, Walk, safe_inverse
from privest.dynamics._identification._wald import TRUSTED

# ℓ that changes by less than this part of χ² as a parameter moves does not know it.
UNSEEN = 1e-2
FAR = 20.0  # beyond the threshold: what is so low before the others have climbed stays excluded
STEEPER = 3.0  # that of a correlation of almost 1
STEEP = 2.0  # |artanh| of correlations up to which a variance at its limit makes nothing


def lost_where_nothing(
    function: Function, walks: Sequence[Walk], i: int, moved: Sequence[Sequence[Array]],
    threshold: float,
) -> list[int] | None:  # fmt: skip
    """The θ_j of which ℓ knows nothing where θ_i = 0; None where θ_i cannot be 0 or is excluded.

    Correlations stay away from ±1, where the least variance of what drives a process makes much of
    it. `walks` are along each θ_j, `moved` two points of each, to which coordinates without such
    limits are moved.
    """
    walk, peak = walks[i], walks[i].peak
    if not (walk.simple and np.isfinite(walk.farthest[0]) and walk.limit(-1, peak.t) == 0.0):
        return None
    limits, even = peak.limits.copy(), _even(peak.limits)
    limits[even] = np.clip(limits[even], -STEEP, STEEP)
    limits[walk.pivot] = walk.sign * walk.farthest[0]
    nothing = np.clip(peak.t, *limits.T)
    if not 2 * (peak.height - function(nothing)[0]) <= threshold + FAR:
        return None
    nothing = ascend(function, nothing, limits, 1)
    height = function(nothing)[0]
    if not 2 * (peak.height - height) <= threshold:
        return None
    lost = []
    for j, other in enumerate(walks):
        own = other.own(nothing) & (np.arange(len(nothing)) != walk.pivot)
        points = [
            np.where(own, np.clip(np.where(even, end, t), *limits.T), nothing)
            for end, t in zip((-STEEP, STEEP), moved[j])
        ]
        differ = any((point != nothing).any() for point in points)
        heights = [function(point)[0] for point in points]
        if differ and max(abs(one - height) for one in heights) <= UNSEEN * threshold:
            lost.append(j)
    return lost


def _even(limits: Array) -> Flags:
    """Coordinates with limits ±c: correlations."""
    return np.asarray(np.isfinite(limits[:, 0]) & (limits[:, 0] == -limits[:, 1]))


def has_loose_roots(peak: Peak) -> bool:
    """Whether a correlation is so little known that it may be next to ±1."""
    return bool((safe_inverse(peak.curvature).diagonal()[_even(peak.limits)] > TRUSTED**2).any())


def steepened(t: Array, limits: Array) -> list[Array]:
    """t with a correlation almost ±1 and the variance that it drives kept: q/(1 − φ²) is.

    So a process becomes a level of its own, which may stand for a mean or an input.
    """
    even, own = _even(limits), np.arange(len(t))
    variances = np.isfinite(limits).all(axis=1) & ~even
    narrower = 2 * (np.logaddexp(t, -t) - np.logaddexp(STEEPER, -STEEPER))  # log of 1 − tanh²
    return [
        np.where(own == j, side, t + variances * narrower[j])
        for j in np.flatnonzero(even)
        for side in (-STEEPER, STEEPER)
    ]

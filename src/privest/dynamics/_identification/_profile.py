"""Profile-likelihood intervals: the ends of {θ_j : 2(ℓ̂ − ℓ_p(θ_j)) ≤ χ²_1(confidence)}.

    ℓ_p(v) = max ℓ(t) over all working t with θ_j(t) = v

The signed root r(v) = √(2(ℓ̂ − ℓ_p(v))) is nearly straight in v, with slope −ℓ_p'(v)/r, and ℓ_p' is
the gradient at the maximum: Newton on r, inside a bracket, meets the end in three or four values of
v. At each the other coordinates climb by BFGS from where they were (`_constrained`), beginning with
the curvature at the peak. An end that is never met is open: it is reported as the limit of θ_j.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._identification._constrained import (
    LONGEST,
    Function,
    Peak,
    Point,
    Scale,
    Walk,
)

# The end is where r is within this of √χ²; a Newton step follows, so that its error is the square.
MET = 1e-4
WIDER = 3.0  # how much farther than before the walk may go at once
WALKS = 60
RISING = 0.01  # of r in a first step: ℓ that rises on the way out is more than rounding
# ℓ that changes by less than this part of χ² as a parameter moves does not know it.
UNSEEN = 1e-2
EDGE = 1e-9  # of w: a bracket this narrow holds a jump


class End(NamedTuple):
    """One end of an interval: θ_j there, whether it is open, and the working point."""

    value: float
    is_open: bool
    t: Array


def profile_end(
    function: Function, scale: Scale, peak: Peak, j: int, side: int, threshold: float
) -> End:
    """The end of θ_j on one side (−1 or 1), where 2(ℓ̂ − ℓ_p) = `threshold`.

    Raises Higher where a larger ℓ is found on the way. Some ten evaluations for two parameters.
    """
    walk, wanted = Walk(function, scale, peak, j), math.sqrt(threshold)
    start, farthest = walk.at(peak.t), float(walk.farthest[(side + 1) // 2])
    first = wanted * walk.spread
    if math.isfinite(farthest):
        first = min(first, LONGEST)
    inside = Point(start, 0.0, math.inf, peak.t)
    outside: Point | None = None
    w = start + side * first
    for _ in range(WALKS):
        w = side * min(side * w, side * farthest)
        point = walk.climb(w, inside, outside)
        if abs(point.root - wanted) <= MET:
            end = point.w + (wanted - point.root) / point.slope if point.slope else point.w
            return End(walk.value_at(end, point.t), False, point.t)
        if point.root < wanted:
            inside = point
            if w == farthest:
                break
        else:
            outside = point
        if outside is not None and abs(outside.w - inside.w) <= EDGE * max(1.0, abs(inside.w)):
            # A fall of ℓ_p where θ_j goes on; else the edge of what it can be.
            fall = math.isfinite(outside.root)
            return End(walk.value_at(inside.w, inside.t), not fall, inside.t)
        w = _next(inside, outside, point, wanted, side * first, start)
    return End(walk.limit(side, inside.t), True, inside.t)


def _next(
    inside: Point, outside: Point | None, point: Point, wanted: float, first: float, start: float
) -> float:
    """Newton from the last point where it stays inside the bracket, else its middle, or farther."""
    towards = point.slope * first  # how much r rises in a first step outwards
    newton = math.nan
    if math.isfinite(point.root) and towards > 0:
        newton = point.w + (wanted - point.root) / point.slope
    if outside is None:
        if towards < -RISING:
            return inside.w + first  # ℓ rises again: not past what may be a higher peak
        most = inside.w + (WIDER - 1) * (inside.w - start)
        return most if math.isnan(newton) else (min if first > 0 else max)(newton, most)
    gap = outside.w - inside.w
    return newton if 0.0 < (newton - inside.w) / gap < 1.0 else inside.w + gap / 2


class Profiled(NamedTuple):
    """ends (p, 2), open_ends (p, 2), and pairs (j, i): of θ_j nothing is known where θ_i ends."""

    ends: Array
    open_ends: Flags
    undefined: tuple[tuple[int, int], ...]


def profile(function: Function, scale: Scale, peak: Peak, threshold: float) -> Profiled:
    """Both ends of every natural parameter.

    Where the lower end of θ_i is open because ℓ no longer changes (a variance of 0), and ℓ there is
    the same for all θ_j (a correlation of nothing), every θ_j is compatible with the releases: its
    interval is all it can be, whatever the walk along it met.
    """
    p = len(peak.t)
    found = [
        [profile_end(function, scale, peak, j, side, threshold) for side in (-1, 1)]
        for j in range(p)
    ]
    ends = np.array([[end.value for end in pair] for pair in found])
    is_open = np.array([[end.is_open for end in pair] for pair in found])
    gone = [i for i in range(p) if is_open[i, 0] and ends[i, 0] == 0.0]
    undefined = [
        (j, i)
        for i in gone
        for j in range(p)
        if i != j and j not in gone and _unseen(function, peak, i, found[i][0], found[j], threshold)
    ]
    for j, _ in undefined:
        walk = Walk(function, scale, peak, j)
        ends[j] = [walk.limit(side, peak.t) for side in (-1, 1)]
        is_open[j] = True
    return Profiled(ends, is_open, tuple(undefined))


def _unseen(
    function: Function, peak: Peak, i: int, vanished: End, ends: list[End], threshold: float
) -> bool:
    """Whether, with θ_i as good as 0 and nothing else changed, the peak is not excluded and ℓ is
    the same at the ends of another parameter (those that were met, where there are).
    """
    met = [end.t for end in ends if not end.is_open] or [end.t for end in ends]
    points = np.array([peak.t, *met])
    points[:, i] = vanished.t[i]
    heights = [function(t)[0] for t in points]
    excluded = not 2 * (peak.height - heights[0]) <= threshold
    return not excluded and max(heights) - min(heights) <= UNSEEN * threshold

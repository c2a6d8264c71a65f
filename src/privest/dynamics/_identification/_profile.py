"""Profile-likelihood intervals: the ends of {θ_j : 2(ℓ̂ − ℓ_p(θ_j)) ≤ χ²_1(confidence)}.

    ℓ_p(v) = max ℓ(t) over all working t with θ_j(t) = v

The signed root r(v) = √(2(ℓ̂ − ℓ_p(v))) is nearly straight in v, with slope −ℓ_p'(v)/r, and ℓ_p' is
the gradient at the maximum: Newton on r, inside a bracket, meets the end in three or four values of
v. At each the other coordinates climb by BFGS (`_constrained`), beginning with the curvature at the
peak and carrying on what was learnt of it. An end that is never met is open: it is reported as the
limit of θ_j. One that takes too long is given up, and is Wald's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from privest.dynamics._identification._rivals import has_rivals, rival
from privest.dynamics._identification._wald import wald_end

# The end is where r is within this of √χ²; a Newton step follows, so that its error is the square.
MET = 1e-4
WIDER = 3.0  # how much farther than before the walk may go at once
WALKS = 60
RISING = 0.01  # of r in a first step: ℓ that rises on the way out is more than rounding
# ℓ that changes by less than this part of χ² as a parameter moves does not know it.
UNSEEN = 1e-2
FAR = 10.0  # first steps, after which a search that is given up says that nothing is known
EDGE = 1e-9  # of w: a bracket this narrow holds the edge of what there is
JUMP = 1e-4  # of the first step: a bracket this narrow, whose outside was seen from near, a fall
NEAR = 0.3  # of the first step: what was found low from farther is looked at again
MOST = 150  # evaluations an end


class End(NamedTuple):
    """One end of an interval: θ_j there, whether it is open, the working point, and whether the
    search was given up (the value is then Wald's, or where the search came if that is farther).
    """

    value: float
    is_open: bool
    t: Array
    given_up: bool = False


class Search:
    """The walk to one end, a climb at a time."""

    def __init__(
        self, function: Function, scale: Scale, peak: Peak, j: int, side: int, threshold: float,
        most: int = MOST,
    ) -> None:  # fmt: skip
        self.side, self.wanted = side, math.sqrt(threshold)
        self.walk = Walk(function, scale, peak, j, self.wanted)
        self.start, self.farthest = self.walk.at(peak.t), float(self.walk.farthest[(side + 1) // 2])
        first = self.wanted * self.walk.spread
        self.first = side * (min(first, LONGEST) if math.isfinite(self.farthest) else first)
        self.inside = Point(self.start, 0.0, math.inf, peak.t)
        self.outside: Point | None = None
        self.next = self.start + self.first
        self.most, self.walks, self.looked_again = most, 0, False
        self.rivals = has_rivals(self.walk)

    def step(self) -> End | None:
        """One more climb; the end when it is found."""
        walk, w = self.walk, self.side * min(self.side * self.next, self.side * self.farthest)
        self.walks += 1
        point = walk.climb(w, self.inside, self.outside)
        if abs(point.root - self.wanted) <= MET:
            if self._is_rivalled(point):
                return None
            end = point.w + (self.wanted - point.root) / point.slope if point.slope else point.w
            return End(walk.value_at(end, point.t), False, point.t)
        if point.root < self.wanted:
            self.inside = point
        else:
            self.outside, self.looked_again = point, False
        if (w == self.farthest and self.outside is None) or self.walks >= WALKS:
            return End(walk.limit(self.side, self.inside.t), True, self.inside.t)
        if walk.count > self.most:
            return self._given_up()
        self._look_again()
        if self._is_narrow():
            # A fall of ℓ_p where θ_j goes on; else the edge of what it can be.
            fall = self.outside is not None and math.isfinite(self.outside.root)
            inside = self.inside
            return End(walk.value_at(inside.w, inside.t), not fall, inside.t)
        self.next = _next(
            self.inside, self.outside, point, self.wanted, self.first, self.start
        )  # fmt: skip
        return None

    def _is_rivalled(self, met: Point) -> bool:
        """Whether another branch is higher where the end is met; the walk then goes on along it."""
        if not self.rivals:
            return False
        self.rivals = False
        other = rival(self.walk, met)
        if other is None or not other.root < self.wanted - MET:
            return False
        self.inside, self.outside, self.most = other, None, self.walk.count + self.most
        self.next = met.w + self.first
        return True

    def _look_again(self) -> None:
        """A point that was found too low may have been climbed to on another slope, from afar: it
        is looked at once more from near, where the slope of r inside foresees less.
        """
        outside, inside = self.outside, self.inside
        if self.looked_again or outside is None or not math.isfinite(outside.root):
            return
        gap = outside.w - inside.w
        if abs(gap) > NEAR * abs(self.first) or not inside.root + inside.slope * gap < self.wanted:
            return
        self.looked_again = True
        point = self.walk.climb(outside.w, inside, None)
        if point.root < self.wanted:
            self.inside, self.outside = point, None
        elif point.root < outside.root:
            self.outside = point

    def _is_narrow(self) -> bool:
        if self.outside is None:
            return False
        gap = abs(self.outside.w - self.inside.w)
        jump = JUMP * abs(self.first) if math.isfinite(self.outside.root) else 0.0
        return gap <= max(jump, EDGE * max(1.0, abs(self.inside.w)))

    def _given_up(self) -> End:
        """Wald's end, or how far the walk came; open where ℓ did not change all the way."""
        far = abs(self.inside.w - self.start) >= FAR * abs(self.first)
        if far and self.inside.root**2 <= UNSEEN * self.wanted**2:
            return End(self.walk.limit(self.side, self.inside.t), True, self.inside.t)
        came = self.walk.value_at(self.inside.w, self.inside.t)
        wald = wald_end(self.walk.scale, self.walk.peak, self.walk.j, self.side * self.wanted)
        value = max(came, wald) if self.side > 0 else min(came, wald)
        return End(value, False, self.inside.t, True)


def profile_end(
    function: Function, scale: Scale, peak: Peak, j: int, side: int, threshold: float
) -> End:
    """The end of θ_j on one side (−1 or 1), where 2(ℓ̂ − ℓ_p) = `threshold`.

    Raises Higher where a larger ℓ is found on the way. Ten to forty evaluations, at most MOST or a
    few more.
    """
    (end,) = _together([Search(function, scale, peak, j, side, threshold)])
    return end


def _together(searches: Sequence[Search]) -> list[End]:
    """All ends, a climb of each in turn: a higher peak is met before much is spent on this one."""
    ends: list[End | None] = [None] * len(searches)
    while None in ends:
        for i, search in enumerate(searches):
            if ends[i] is None:
                ends[i] = search.step()
    return [end for end in ends if end is not None]


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
    """ends (p, 2), open_ends (p, 2), pairs (j, i): of θ_j nothing is known where θ_i ends, and
    given_up (p, 2): the search took too long and the end is Wald's.
    """

    ends: Array
    open_ends: Flags
    undefined: tuple[tuple[int, int], ...]
    given_up: Flags


def profile(
    function: Function, scale: Scale, peak: Peak, threshold: float, most: int = MOST
) -> Profiled:
    """Both ends of every natural parameter; each is given up after `most` evaluations.

    Where the lower end of θ_i is open because ℓ no longer changes (a variance of 0), and ℓ there is
    the same for all θ_j (a correlation of nothing), every θ_j is compatible with the releases: its
    interval is all it can be, whatever the walk along it met.
    """
    p = len(peak.t)
    searches = [
        Search(function, scale, peak, j, side, threshold, most)
        for j in range(p)
        for side in (-1, 1)
    ]
    met = _together(searches)
    found = [met[2 * j : 2 * j + 2] for j in range(p)]
    ends = np.array([[end.value for end in pair] for pair in found])
    is_open = np.array([[end.is_open for end in pair] for pair in found])
    given_up = np.array([[end.given_up for end in pair] for pair in found])
    gone = [i for i in range(p) if is_open[i, 0] and ends[i, 0] == 0.0]
    undefined = [
        (j, i)
        for i in gone
        for j in range(p)
        if i != j
        and j not in gone
        and _unseen(searches[2 * j].walk, peak, i, found[i][0], found[j], threshold)
    ]
    for j, _ in undefined:
        walk = Walk(function, scale, peak, j)
        ends[j] = [walk.limit(side, peak.t) for side in (-1, 1)]
        is_open[j] = True
        given_up[j] = False
    return Profiled(ends, is_open, tuple(undefined), given_up)


def _unseen(
    walk: Walk, peak: Peak, i: int, vanished: End, ends: list[End], threshold: float
) -> bool:
    """Whether, with θ_i as good as 0 and the rest as is best there, ℓ is the same at other values
    of the parameter that is walked along: roots at ±.76, all else at the ends that were met.

    (Roots at ±1 would make much of what is left of θ_i.)
    """
    own = walk.own(vanished.t) & (np.arange(len(peak.t)) != i)
    root = own & (peak.limits[:, 0] == -peak.limits[:, 1])
    far = [end.t for end in ends if not end.is_open] or [end.t for end in ends]
    points = np.array([vanished.t, *far, *far])
    points[1:] = np.where(own, points[1:], vanished.t)
    points[1:, root] = np.repeat([1.0, -1.0], len(far))[:, None]
    heights = [walk.value_of(t) for t in points]
    excluded = not 2 * (peak.height - heights[0]) <= threshold
    return bool(own.any()) and not excluded and max(heights) - min(heights) <= UNSEEN * threshold

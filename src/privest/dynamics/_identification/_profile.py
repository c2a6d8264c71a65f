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
from privest.dynamics._identification._vanished import (
    UNSEEN,
    has_loose_roots,
    lost_where_nothing,
    steepened,
)
from privest.dynamics._identification._wald import wald_end

# The end is where r is within this of √χ²; a Newton step follows, so that its error is the square.
MET = 1e-4
WIDER = 3.0  # how much farther than before the walk may go at once
WALKS = 60
RISING = 0.01  # of r in a first step: ℓ that rises on the way out is more than rounding
FAR = 10.0  # first steps, after which a search that is given up says that nothing is known
EDGE = 1e-9  # of w: a bracket this narrow holds the edge of what there is
JUMP = 1e-4  # of the first step: a bracket this narrow, whose outside was seen from near, a fall
NEAR = 0.3  # of the first step: what was found low from farther is looked at again
MOST = 150  # evaluations an end
APART = 0.005  # of r: a maximum higher by less is the same
AGAIN = 3  # times that ends are looked at from those of others


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
        self.place: float | None = None  # where the end was met, or what lies beyond excluded

    def step(self) -> End | None:
        """One more climb; the end when it is found."""
        walk, w = self.walk, self.side * min(self.side * self.next, self.side * self.farthest)
        self.walks += 1
        point = walk.climb(w, self.inside, self.outside)
        if abs(point.root - self.wanted) <= MET:
            end = point.w + (self.wanted - point.root) / point.slope if point.slope else point.w
            self.place = point.w
            return End(walk.value_at(end, point.t), False, point.t)
        if point.root < self.wanted:
            self.inside = point
        else:
            self.outside, self.looked_again, self.place = point, False, point.w
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

    def checked(self, end: End, guesses: Sequence[Sequence[Array]]) -> End:
        """The same end, or the one beyond it to which another branch of maxima leads: with all else
        begun from elsewhere θ_j may be less excluded there, or at its limit.
        """
        if self.place is not None:
            point = self.walk.climb_afresh(self.place, guesses)
            if point is not None and point.root < self.wanted - APART:
                return self._resumed(point)
        if math.isfinite(self.farthest):
            point = self.walk.climb_afresh(self.farthest, guesses)
            if point is not None and point.root <= self.wanted:
                return End(self.walk.limit(self.side, point.t), True, point.t)
        return end

    def _resumed(self, point: Point) -> End:
        """The end of the branch on which a point is."""
        self.inside, self.outside, self.place = point, None, None
        self.walk.count, self.walks, self.looked_again = -self.most, 0, False  # bent: twice as long
        self.next = _next(point, None, point, self.wanted, self.first, self.start)
        (end,) = together([self])
        return end

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


def together(searches: Sequence[Search]) -> list[End]:
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
    function: Function, scale: Scale, peak: Peak, threshold: float, most: int = MOST,
    beside: Sequence[Array] = (),
) -> Profiled:  # fmt: skip
    """Both ends of every natural parameter; each is given up after `most` evaluations.

    Where θ_i = 0 (a variance) is not excluded, and ℓ there is the same for all θ_j (a correlation
    of nothing), every θ_j is compatible with the releases: its interval is all it can be, whatever
    the walk along it met. From the points `beside`, if there are any or a root is not well known,
    other maxima over all else are looked for at each end: it is one only if all are excluded there.
    """
    p = len(peak.t)
    searches = [
        Search(function, scale, peak, j, side, threshold, most)
        for j in range(p)
        for side in (-1, 1)
    ]
    met = together(searches)
    points = [[end.t for end in met[2 * j : 2 * j + 2]] for j in range(p)]
    walks = [search.walk for search in searches[::2]]
    suspect = bool(beside) or has_loose_roots(peak)
    vanished = {
        i: lost
        for i in range(p)
        if (suspect or met[2 * i].is_open)
        and (lost := lost_where_nothing(function, walks, i, points, threshold)) is not None
    }
    undefined = [(j, i) for i in vanished for j in vanished[i] if j not in vanished]
    for j, side in [(i, -1) for i in vanished] + [(j, k) for j, _ in undefined for k in (-1, 1)]:
        place = 2 * j + (side + 1) // 2
        met[place] = End(searches[place].walk.limit(side, peak.t), True, met[place].t)
    if suspect:
        met = _beyond(searches, met, beside)
    ends, is_open, given_up = (
        np.array([end[part] for end in met]).reshape(p, 2) for part in (0, 1, 3)
    )
    return Profiled(ends, is_open, tuple(undefined), given_up)


def _beyond(searches: Sequence[Search], met: list[End], beside: Sequence[Array]) -> list[End]:
    """The ends, those farther out where others of the points lead to a maximum not excluded.

    An end that moved leads elsewhere too: from there the others are looked at again.
    """
    met, limits = list(met), searches[0].walk.peak.limits
    moved = set(range(len(met)))
    for _ in range(AGAIN):
        before, last, moved = list(met), moved, set()
        own = [[end.t, *steepened(end.t, limits)] for end in before]
        new = [list(kind) for kind in zip(*(own[i] for i in sorted(last)))]
        every = [list(kind) for kind in zip(*own)]
        every[0] += beside
        for i, search in enumerate(searches):
            if not met[i].is_open:
                met[i] = search.checked(met[i], every if i in last else new)
                moved |= {i} if met[i] is not before[i] else set()
        if not moved:
            break
    return met

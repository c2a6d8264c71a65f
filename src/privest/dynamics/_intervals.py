"""Intervals of fitted parameters: by profile likelihood, or Wald's in the working scale.

    {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²_1(confidence)} ,   ℓ_p(v) = max ℓ(t) over all working t with θ_j(t) = v

The signed root r(v) = √(2(ℓ̂ − ℓ_p(v))) is nearly straight in v, with slope −ℓ_p'(v)/r, and ℓ_p' is
the gradient at the constrained maximum: Newton on r, inside a bracket, finds an end in three or
four values of v. At each the other coordinates climb by L-BFGS from where the last ones ended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import scipy

from privest.arrays import Array, Flags, as_confidence
from privest.dynamics._maximum import Function, Maximum, ascend, newton
from privest.errors import NumericalFailure
from privest.records import Record, quantile

METHODS = ("profile", "wald")
# The end is where r is within this of √χ²; a Newton step follows, so that its error is the square.
ROOT_ERROR = 1e-4
WIDER = 3.0  # how much farther than before the search may go at once
MOST_POINTS = 60
MOST_EVALUATIONS = 300  # an end
LONGEST = 3.0  # first step in a bounded working coordinate: tanh from 0 to .995
HIGHER = 1e-6  # ℓ above ℓ̂ by this (and by 1e-9 of it) is a higher maximum and no rounding
RESTARTS = 10  # from a higher maximum
RISING = 0.01  # of r in a first step: ℓ that rises on the way out is more than rounding
NARROW = 1e-9  # of w: a bracket this narrow is the edge of what θ_j can be
JUMP = 1e-4  # of the first step: a bracket this narrow is a fall of ℓ_p
LOWER = 0.5  # of r: where the tangent leads lower by this than foreseen, other guesses are tried
FLAT = 1e-2  # of χ²: ℓ that changes by less as a parameter moves does not determine it
WELL_KNOWN = 0.2  # standard error in working scale up to which Wald's intervals cover
BRANCH = 0.005  # of r: a maximum higher by less is the same
BRANCH_ROUNDS = 3  # times that ends are checked from those of other parameters
FIRST_ITERATIONS = 40  # of a search for another maximum, after which
PROMISING = 20.0  # 2(ℓ̂ − ℓ) is no more than this beyond the threshold, or it is left
STEEP, STEEPER = 2.0, 3.0  # |artanh| of correlations: .96 and .995


class Parameters(Protocol):
    """Natural parameters of the working ones; a Family."""

    names: tuple[str, ...]

    def natural(self, t: Array) -> Array:
        """θ (p,)."""

    def natural_slopes(self, t: Array) -> Array:
        """∂θ/∂t (p, p)."""


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Record):
    """The interval of each natural parameter.

    estimate      θ̂ (p,), about which they are.
    low, high     (p,): the ends. One that is open is the limit of what the parameter can be.
    open_ends     (p, 2): no value up to the limit is excluded on that side.
    method        "profile": {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²}; "wald": by the curvature at θ̂, in the
                  working scale.
    notes         what a reader should know, in words.
    """

    names: tuple[str, ...]
    estimate: Array
    low: Array
    high: Array
    open_ends: Flags
    confidence: float
    method: str
    notes: tuple[str, ...]

    DERIVED: ClassVar[tuple[str, ...]] = ()

    @property
    def ends(self) -> Array:
        """(p, 2)."""
        return np.stack([self.low, self.high], axis=-1)

    def __repr__(self) -> str:
        return f"Intervals({self.confidence:.4g} {self.method}: {', '.join(self.words())})"

    def words(self) -> list[str]:
        """Each interval as people write it: "φ 0.8 in [0.71, 0.88]"; ( and ) are open ends."""
        return [
            f"{name} {value:.4g} in {'(' if first else '['}{low:.4g}, {high:.4g}"
            f"{')' if last else ']'}"
            for name, value, low, high, (first, last) in zip(
                self.names, self.estimate, self.low, self.high, self.open_ends
            )
        ]


# --- Wald ---


def wald_end(family: Parameters, top: Maximum, j: int, deviations: float) -> float:
    """θ_j at t̂_i + deviations·sd (towards larger θ_j) where it depends on one coordinate t_i, at
    most at its limit; else θ̂_j + deviations·sd of it.
    """
    covariance, row = top.covariance(), _row(family, top.t, j)
    own = np.flatnonzero(row)
    if len(own) != 1:
        return float(family.natural(top.t)[j] + deviations * np.sqrt(row @ covariance @ row))
    (i,) = own
    moved = top.t.copy()
    moved[i] += np.sign(row[i]) * deviations * np.sqrt(covariance[i, i])
    return float(family.natural(np.clip(moved, *top.limits.T))[j])


def wald_intervals(family: Parameters, top: Maximum, confidence: float) -> Intervals:
    """t̂ ± q·sd in the working scale where θ_j depends on one coordinate, else θ̂_j ± q·sd.

    Good where the sd in working scale is below WELL_KNOWN (coverage .945-.968 of 95 % in
    simulations); the notes name those where it is not.
    """
    q, names = quantile(confidence), family.names
    spread = np.sqrt(top.covariance().diagonal())
    low, high = (
        np.array([wald_end(family, top, j, side * q) for j in range(len(names))])
        for side in (-1, 1)
    )
    here, there = (family.natural_slopes(t) for t in (top.t, top.t + WELL_KNOWN))
    curved = ~np.isclose(here, there, rtol=1e-6, atol=0.0)
    wide = [name for name, row in zip(names, curved) if not (spread[row] <= WELL_KNOWN).all()]
    said = f"the errors of {', '.join(wide)} are too large for Wald's intervals: use the profile."
    estimate, shut = np.asarray(family.natural(top.t)), np.zeros((len(names), 2), dtype=bool)
    return Intervals(
        names, estimate, low, high, shut, confidence, "wald", (said,) if wide else ()
    )  # fmt: skip


# --- the likelihood along one parameter ---


class Point(NamedTuple):
    """r = √(2(ℓ̂ − ℓ_p)) at a value w of the profile, dr/dw, and the maximum t there."""

    w: float
    root: float
    slope: float
    t: Array


class End(NamedTuple):
    """An end of an interval: θ_j, whether it is open, the maximum t there, a point outside, and
    whether the search took too long (the value is then Wald's, or where it came if farther).
    """

    value: float
    is_open: bool
    t: Array
    outside: float | None = None
    rough: bool = False


class HigherMaximum(Exception):
    """A point above the maximum: the fit must begin again from there."""

    def __init__(self, t: Array) -> None:
        super().__init__("the profile found a higher likelihood")
        self.t = t


class Profile:
    """ℓ_p along θ_j, as a function of a coordinate w.

    Where θ_j depends on one working coordinate i alone (`simple`) w is ±t_i, which rises with θ_j,
    and its limits are those of t_i. Else w is θ_j itself, and t_i, on which it depends the most, is
    solved for (Newton; θ costs next to nothing).
    """

    def __init__(
        self, function: Function, family: Parameters, top: Maximum, j: int, threshold: float
    ) -> None:
        self._function, self.family, self.top, self.j = function, family, top, j
        self.wanted, self.evaluations = math.sqrt(threshold), 0
        inverse, row = top.covariance(), _row(family, top.t, j)
        self.pivot = int(np.argmax(np.abs(row) * np.sqrt(inverse.diagonal())))
        # A slope may vanish by chance at one point, so another is looked at.
        beside = np.delete(np.abs(row) + np.abs(_row(family, top.t + 0.1, j)), self.pivot)
        self.simple = not beside.any()
        self.others = np.delete(np.arange(len(row)), self.pivot)
        self.sign = math.copysign(1.0, row[self.pivot])
        self.limits = np.array([-math.inf, math.inf])
        if self.simple:
            self.limits = np.sort(self.sign * top.limits[self.pivot])
        # The path of maxima leaves the top along H⁻¹∇w.
        rises = self._rises(top.t)
        along = inverse @ rises
        self.error = math.sqrt(float(rises @ along))  # the standard error of w
        self.tangent = along / self.error**2
        self.size = np.sqrt(inverse.diagonal())[self.others]
        self.start = self.at(top.t)

    def function(self, t: Array) -> tuple[float, Array]:
        """ℓ, ∂ℓ/∂t; counted."""
        self.evaluations += 1
        return self._function(t)

    def at(self, t: Array) -> float:
        """w."""
        return self.sign * float(t[self.pivot]) if self.simple else self.value(t)

    def value(self, t: Array) -> float:
        """θ_j."""
        return float(self.family.natural(t)[self.j])

    def value_at(self, w: float, t: Array) -> float:
        """θ_j where w is a little farther than t."""
        return self.value(self._with_pivot(t, self.sign * w)) if self.simple else w

    def limit(self, side: int, t: Array) -> float:
        """θ_j as its coordinate goes to ±∞ if that is all it depends on; else its value at t."""
        if self.simple:
            with np.errstate(all="ignore"):
                far = self.value(self._with_pivot(t, self.sign * side * math.inf))
            if not math.isnan(far):
                return far
        return self.value(t)

    def _rises(self, t: Array) -> Array:
        """∂w/∂t (p,)."""
        if self.simple:
            return self._with_pivot(np.zeros(len(t)), self.sign)
        return _row(self.family, t, self.j)

    def _with_pivot(self, t: Array, own: float) -> Array:
        moved = t.copy()
        moved[self.pivot] = own
        return moved

    def _placed(self, w: float, t: Array) -> Array | None:
        """t with a pivot at which θ_j has the value of w; None where there is none."""
        if self.simple:
            return self._with_pivot(t, self.sign * w)
        low, high = self.top.limits[self.pivot]
        moved = t.copy()
        for _ in range(30):
            off = w - self.value(moved)
            if abs(off) <= 1e-12 * max(1.0, abs(w)):
                return moved
            rate = _row(self.family, moved, self.j)[self.pivot]
            if not rate or not math.isfinite(off):
                return None
            moved[self.pivot] = min(max(moved[self.pivot] + off / rate, low), high)
        return None

    def _evaluated(self, w: float, guess: Array) -> tuple[float, Array, Array] | None:
        """ℓ, t and ∂ℓ/∂t at w with all else as in a guess; None where there is no model."""
        t = self._placed(w, np.clip(guess, *self.top.limits.T))
        if t is None:
            return None
        value, gradient = self.function(t)
        return (value, t, gradient) if math.isfinite(value) else None

    def climb(self, w: float, guesses: Sequence[Array], foreseen: float = 0.0) -> Point:
        """The maximum at w from the best guess; the first if r is no more than foreseen there."""
        best = None
        for guess in guesses:
            found = self._evaluated(w, guess)
            if found is not None and (best is None or found[0] > best[0]):
                best = found
            if best is not None and 2 * (self.top.value - best[0]) <= foreseen**2:
                break
        if best is None:
            return Point(w, math.inf, 0.0, guesses[0])
        value, t, gradient = self._maximised(w, best)
        if value > self.top.value + max(HIGHER, 1e-9 * abs(self.top.value)):
            raise HigherMaximum(t)
        rises = self._rises(t)
        rate = float(gradient[self.pivot] / rises[self.pivot])  # ∂ℓ_p/∂w (envelope theorem)
        root = math.sqrt(2 * max(self.top.value - value, 0.0))
        return Point(w, root, -rate / root if root else 0.0, t)

    def _maximised(
        self, w: float, best: tuple[float, Array, Array]
    ) -> tuple[float, Array, Array]:  # fmt: skip
        """ℓ, t and ∂ℓ/∂t at the maximum over the others, in units of their standard errors."""
        start, limits = best[1], self.top.limits[self.others] / self.size[:, None]
        if not len(self.others):
            return best

        def cost(u: Array) -> tuple[float, Array]:
            nonlocal best
            moved = start.copy()
            moved[self.others] = u * self.size
            found = self._evaluated(w, moved)
            if found is None:
                return 1e10, np.zeros_like(u)
            best = max(best, found, key=lambda one: one[0])
            value, t, gradient = found
            rises = self._rises(t)
            along = gradient - gradient[self.pivot] / rises[self.pivot] * rises
            return -value, -along[self.others] * self.size

        search: Any = scipy.optimize.minimize
        options = {"maxiter": 200, "ftol": 1e-12, "gtol": 1e-4}
        search(
            cost, start[self.others] / self.size, jac=True, method="L-BFGS-B", bounds=limits,
            options=options,
        )  # fmt: skip
        return best

    # --- the search for an end ---

    def end(self, side: int, inside: Point | None = None, most: int = MOST_EVALUATIONS) -> End:
        """The end on one side (−1, 1), from a point that is not excluded."""
        farthest = float(self.limits[(side + 1) // 2])
        longest = LONGEST if math.isfinite(farthest) else math.inf
        first = side * min(self.wanted * self.error, longest)
        inside = inside or Point(self.start, 0.0, 1.0 / (side * self.error), self.top.t)
        outside: Point | None = None
        point, last = inside, self.evaluations + most
        for _ in range(MOST_POINTS):
            w = self._next(inside, outside, point, first)
            w = side * min(side * w, side * farthest)
            point = self._ahead(w, inside, outside)
            if abs(point.root - self.wanted) <= ROOT_ERROR:
                return self._met(point)
            if point.root < self.wanted:
                inside = point
                if w == farthest and outside is None:
                    break
            else:
                outside = point
            if self.evaluations > last:
                return self._rough_end(side, inside, first)
            if outside is None or not self._is_narrow(inside, outside, first):
                continue
            again = self.climb(outside.w, [inside.t])  # it was perhaps on another branch
            if again.root >= self.wanted:
                # A fall of ℓ_p where θ_j goes on; else the edge of what it can be.
                fall = math.isfinite(outside.root)
                return End(self.value_at(inside.w, inside.t), not fall, inside.t, outside.w)
            inside, outside = again, None
        return End(self.limit(side, inside.t), True, inside.t)

    def _met(self, point: Point) -> End:
        """The end a Newton step from a point next to it."""
        w = point.w + ((self.wanted - point.root) / point.slope if point.slope else 0.0)
        return End(self.value_at(w, point.t), False, point.t, point.w)

    def _ahead(self, w: float, inside: Point, outside: Point | None) -> Point:
        """The maximum at w from where the tangent leads; where that is low from both neighbours."""
        foreseen = inside.root + abs(inside.slope * (w - inside.w)) + LOWER
        guesses = [inside.t + (w - inside.w) * self.tangent, inside.t]
        point = self.climb(w, guesses if outside is None else [*guesses, outside.t], foreseen)
        if w != inside.w and math.isfinite(point.root):
            self.tangent = (point.t - inside.t) / (w - inside.w)
        return point

    def _next(self, inside: Point, outside: Point | None, point: Point, first: float) -> float:
        """Newton from the last point where it stays in the bracket, else its middle, or farther."""
        towards = point.slope * first  # how much r rises in a first step outwards
        newton = math.nan
        if math.isfinite(point.root) and towards > 0:
            newton = point.w + (self.wanted - point.root) / point.slope
        if outside is None:
            if inside.w == self.start or towards < -RISING:
                return inside.w + first  # ℓ rises again: not past what may be a higher maximum
            most = inside.w + (WIDER - 1) * (inside.w - self.start)
            return most if math.isnan(newton) else (min if first > 0 else max)(newton, most)
        gap = outside.w - inside.w
        return newton if 0.0 < (newton - inside.w) / gap < 1.0 else inside.w + gap / 2

    def _is_narrow(self, inside: Point, outside: Point, first: float) -> bool:
        jump = JUMP * abs(first) if math.isfinite(outside.root) else 0.0
        gap = abs(outside.w - inside.w)
        return gap <= max(jump, NARROW * max(1.0, abs(inside.w)))

    def _rough_end(self, side: int, inside: Point, first: float) -> End:
        """Wald's end, or how far the search came; open where ℓ did not change all the way."""
        far = abs(inside.w - self.start) >= 10 * abs(first)
        if far and inside.root**2 <= FLAT * self.wanted**2:
            return End(self.limit(side, inside.t), True, inside.t)
        came = self.value_at(inside.w, inside.t)
        wald = wald_end(self.family, self.top, self.j, side * self.wanted)
        value = max(came, wald) if side > 0 else min(came, wald)
        return End(value, False, inside.t, rough=True)

    def beyond(self, end: End, side: int, guesses: Sequence[Sequence[Array]]) -> End:
        """The same end, or the one beyond it to which another branch of maxima leads.

        At the end, and at the limit of θ_j, all else climbs from the best guess of each kind.
        """
        self.tangent = np.zeros_like(self.tangent)
        if end.outside is not None:
            point = self._highest(end.outside, guesses)
            if point.root < self.wanted - BRANCH:
                return self.end(side, point, 2 * MOST_EVALUATIONS)
        farthest = float(self.limits[(side + 1) // 2])
        if math.isfinite(farthest):
            point = self._highest(farthest, guesses)
            if point.root <= self.wanted:
                return End(self.limit(side, point.t), True, point.t)
        return end

    def _highest(self, w: float, guesses: Sequence[Sequence[Array]]) -> Point:
        return min((self.climb(w, kind) for kind in guesses), key=lambda point: point.root)


def _row(family: Parameters, t: Array, j: int) -> Array:
    """∂θ_j/∂t (p,), rounding left out."""
    row = family.natural_slopes(t)[j]
    return np.where(np.abs(row) > 1e-9 * np.abs(row).max(), row, 0.0)


# --- all parameters ---


class ProfileEnds(NamedTuple):
    """ends, open_ends, rough (p, 2); undefined (j, i): where θ_i ends, at 0, ℓ does not depend on
    θ_j; apart (j, θ_j) of another maximum that is not excluded.
    """

    ends: Array
    open_ends: Flags
    rough: Flags
    undefined: tuple[tuple[int, int], ...]
    apart: tuple[tuple[int, float], ...]


def _profile_ends(
    function: Function, family: Parameters, top: Maximum, threshold: float,
    starts: Sequence[Array], others: Sequence[Array],
) -> ProfileEnds:  # fmt: skip
    """Both ends of every natural parameter.

    Where θ_i = 0 (a variance) is not excluded, and ℓ there is the same for all θ_j (a correlation
    of nothing), every θ_j is compatible with the releases: its interval is all it can be. If a
    correlation is not well known, or with `starts`, each end is checked for other maxima over all
    else: it is one only if all are excluded there. `others` are maxima that are not excluded.
    """
    profiles = [Profile(function, family, top, j, threshold) for j in range(len(top.t))]
    ends = [[one.end(side) for side in (-1, 1)] for one in profiles]
    spread = top.covariance().diagonal()[_correlations(top.limits)]
    loose = bool(len(starts)) or bool((spread > WELL_KNOWN**2).any())
    undefined = _open_at_zero(profiles, ends, threshold, loose)
    apart = []
    for t, (j, side) in itertools.product(others, np.ndindex(len(ends), 2)):
        value, sign = profiles[j].value(t), 2 * side - 1
        if sign * value > sign * ends[j][side].value:
            apart.append((j, value))
            ends[j][side] = profiles[j].end(sign, profiles[j].climb(profiles[j].at(t), [t]))
    if loose:
        _check_branches(profiles, ends, starts)
    values, is_open, rough = (
        np.array([[end[part] for end in pair] for pair in ends]) for part in (0, 1, 4)
    )
    return ProfileEnds(values, is_open, rough, undefined, tuple(apart))


def _open_at_zero(
    profiles: Sequence[Profile], ends: list[list[End]], threshold: float, loose: bool
) -> tuple[tuple[int, int], ...]:
    """Opens the ends of variances that may be 0, and of what means nothing there: pairs (j, i)."""
    zero: dict[int, list[int]] = {}
    for i in range(len(ends)):
        if loose or ends[i][0].is_open:
            lost = _undetermined_at_zero(profiles, i, ends, threshold)
            zero |= {} if lost is None else {i: lost}
    undefined = tuple((j, i) for i, lost in zero.items() for j in lost if j not in zero)
    opened = [(i, 0) for i in zero] + [(j, side) for j, _ in undefined for side in (0, 1)]
    for j, side in opened:
        limit = profiles[j].limit(2 * side - 1, profiles[j].top.t)
        ends[j][side] = End(limit, True, ends[j][side].t)
    return undefined


def _correlations(limits: Array) -> Flags:
    """Coordinates with limits ±c."""
    return np.asarray(np.isfinite(limits[:, 0]) & (limits[:, 0] == -limits[:, 1]))


def _undetermined_at_zero(
    profiles: Sequence[Profile], i: int, ends: list[list[End]], threshold: float
) -> list[int] | None:
    """The θ_j on which ℓ does not depend where θ_i = 0; None if θ_i cannot be 0 or it is excluded.

    Correlations stay away from ±1, where the least variance of what drives a process makes much of
    it. Coordinates without such limits move to where the ends of θ_j are.
    """
    own, top, function = profiles[i], profiles[i].top, profiles[i].function
    if not (own.simple and np.isfinite(own.limits[0]) and own.limit(-1, top.t) == 0.0):
        return None
    limits, even = top.limits.copy(), _correlations(top.limits)
    limits[even] = np.clip(limits[even], -STEEP, STEEP)
    limits[own.pivot] = own.sign * own.limits[0]
    at_zero = np.clip(top.t, *limits.T)
    if not 2 * (top.value - function(at_zero)[0]) <= threshold + PROMISING:
        return None
    at_zero = ascend(function, at_zero, limits, 1)
    value = function(at_zero)[0]
    if not 2 * (top.value - value) <= threshold:
        return None
    found = []
    for j, other in enumerate(profiles):
        depends = _row(other.family, at_zero, j) != 0
        depends[own.pivot] = False
        points = [
            np.where(depends, np.clip(np.where(even, far, end.t), *limits.T), at_zero)
            for far, end in zip((-STEEP, STEEP), ends[j])
        ]
        changes = [abs(function(point)[0] - value) for point in points]
        moved = any((point != at_zero).any() for point in points)
        if moved and max(changes) <= FLAT * threshold:
            found.append(j)
    return found


def _check_branches(
    profiles: Sequence[Profile], ends: list[list[End]], starts: Sequence[Array]
) -> None:
    """Moves ends farther out where another branch of maxima is not excluded.

    An end that moved is a guess for the others, so that they are checked again from there.
    """
    limits = profiles[0].top.limits
    places = [(j, side) for j in range(len(ends)) for side in (0, 1)]
    last = places
    for _ in range(BRANCH_ROUNDS):
        guesses = {(j, side): _variants(ends[j][side].t, limits) for j, side in places}
        every = _by_kind(list(guesses.values()))
        every[0] += starts
        fresh = _by_kind([guesses[place] for place in last])
        moved = []
        for j, side in places:
            before, own = ends[j][side], every if (j, side) in last else fresh
            if not before.is_open:
                ends[j][side] = profiles[j].beyond(before, 2 * side - 1, own)
            if ends[j][side] is not before:
                moved.append((j, side))
        if not moved:
            break
        last = moved


def _by_kind(variants: Sequence[Sequence[Array]]) -> list[list[Array]]:
    return [list(kind) for kind in zip(*variants)]


def _variants(t: Array, limits: Array) -> list[Array]:
    """t, and t with a correlation almost ±1 and the variance q/(1 − φ²) of its process kept.

    So a process becomes a level of its own, which may stand for a mean or an input.
    """
    even, own = _correlations(limits), np.arange(len(t))
    variances = np.isfinite(limits).all(axis=1) & ~even
    narrower = 2 * (np.logaddexp(t, -t) - np.logaddexp(STEEPER, -STEEPER))  # log of 1 − tanh²
    return [t] + [
        np.where(own == j, side, t + variances * narrower[j])
        for j in np.flatnonzero(even)
        for side in (-STEEPER, STEEPER)
    ]


def profile_intervals(
    function: Function, family: Parameters, top: Maximum, confidence: float, count: int,
    starts: Sequence[Array] = (),
) -> Intervals:  # fmt: skip
    """By profile likelihood; where a profile finds more than ℓ̂ it begins again from there.

    From `starts` other maxima are searched for: one that is not excluded widens the intervals, as
    {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²} then has several pieces.
    """
    threshold = float(scipy.special.chdtri(1, 1 - as_confidence(confidence)))
    first, names, notes = top, family.names, []
    for _ in range(RESTARTS):
        try:
            others = _other_maxima(function, top, starts, count, threshold)
            found = _profile_ends(function, family, top, threshold, starts, others)
            break
        except HigherMaximum as higher:
            t = ascend(function, higher.t, top.limits, count)
            top = newton(function, t, top.limits)
    else:
        raise NumericalFailure(
            "The profiles keep finding a higher likelihood: the fit is no maximum. Fit with "
            "another `start`."
        )
    estimate = np.asarray(family.natural(top.t))
    if top is not first:
        best = ", ".join(f"{value:.4g}" for value in estimate)
        notes.append(
            f"the profiles found a log-likelihood higher by {top.value - first.value:.2g}, at "
            f"({best}): fit again with `start` there."
        )
    notes += [
        f"another peak of the likelihood, at {names[j]} = {value:.4g}, is not excluded; values "
        "between may be."
        for j, value in found.apart
    ]
    notes += _notes(found, names)
    low, high = found.ends.T
    return Intervals(
        names, estimate, low, high, found.open_ends, confidence, "profile", tuple(notes)
    )


def _other_maxima(
    function: Function, top: Maximum, starts: Sequence[Array], count: int, threshold: float
) -> list[Array]:
    """Other local maxima that are not excluded; raises HigherMaximum for one that is higher."""
    found = []
    for start in starts:
        t = ascend(function, start, top.limits, count, FIRST_ITERATIONS)
        if not 2 * (top.value - function(t)[0]) <= threshold + PROMISING:
            continue
        t = ascend(function, t, top.limits, count)
        value = function(t)[0]
        if value > top.value + HIGHER:
            raise HigherMaximum(t)
        if 2 * (top.value - value) <= threshold:
            found.append(t)
    return found


def _notes(found: ProfileEnds, names: Sequence[str]) -> list[str]:
    """Which ends are open or rough, in words."""
    lost = {j for j, _ in found.undefined}
    limit = np.where(found.open_ends[:, 0], found.ends[:, 0], found.ends[:, 1])
    notes = []
    for j in sorted(lost):
        where = " or ".join(
            f"{names[i]} = {limit[i]:.4g}" for one, i in found.undefined if one == j
        )
        notes.append(
            f"{names[j]} has no interval: {where} is not excluded, and {names[j]} means nothing "
            "there."
        )
    for j, name in enumerate(names):
        if j in lost or not found.open_ends[j].any():
            continue
        if found.open_ends[j].all():
            notes.append(f"{name} is not determined by these releases: no value is excluded.")
        else:
            notes.append(f"{name} = {limit[j]:.4g} is not excluded.")
    rough = [name for name, row in zip(names, found.rough) if row.any()]
    if rough:
        notes.append(
            f"the profiles of {', '.join(rough)} took too long: ends are by the curvature at a "
            "maximum (Wald) or as far as the search came, and rough."
        )
    return notes

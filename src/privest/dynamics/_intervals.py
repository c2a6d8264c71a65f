"""Intervals of fitted parameters: by profile likelihood, or Wald's in the working scale.

    {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²_1(confidence)} ,   ℓ_p(v) = max ℓ(t) over all working t with θ_j(t) = v

This is what θ_j spans on the region {t : 2(ℓ̂ − ℓ(t)) ≤ χ²_1}: an end is the largest or least θ_j
there, by sequential quadratic programming (SLSQP) with the gradient of ℓ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import scipy

from privest.arrays import Array, Flags, as_confidence
from privest.dynamics._families import Family
from privest.dynamics._maximum import Function, Maximum, ascend, newton
from privest.errors import NumericalFailure
from privest.records import Record, quantile

Answer = TypeVar("Answer")
METHODS = ("profile", "wald")
LONGEST = 3.0  # unit of a search in a bounded working coordinate: tanh from 0 to .995
SLACK = 1e-7  # of ℓ: a point outside by less is in the region
ITERATIONS, ATTEMPTS = 60, 3  # of SLSQP, from the farthest point so far
BRANCH = 1e-5  # of ℓ: a point of another branch is so far inside
FARTHER = 1e-4  # of a standard error: an end that moves by less has not moved
HIGHER = 1e-6  # ℓ above ℓ̂ by this (and by 1e-9 of it) is a higher maximum and no rounding
RESTARTS = 10  # from a higher maximum
FLAT = 1e-2  # of χ²: ℓ that changes by less as a parameter moves does not determine it
WELL_KNOWN = 0.2  # standard error in working scale up to which Wald's intervals cover
BRANCH_ROUNDS = 3  # times that ends are checked from those of other parameters
FELT = 6.0  # of the logarithm of a variance, above its lower limit
FIRST_ITERATIONS = 40  # of a search for another maximum, after which
PROMISING = 20.0  # 2(ℓ̂ − ℓ) is no more than this beyond the threshold, or it is left
STEEP, STEEPER = 2.0, 3.0  # |artanh| of correlations: .96 and .995


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


def wald_end(family: Family, top: Maximum, j: int, deviations: float) -> float:
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


def wald_intervals(family: Family, top: Maximum, confidence: float) -> Intervals:
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


# --- what is not excluded ---


class End(NamedTuple):
    """θ_j at an end of its interval, whether it is open, and t there.

    rough: the search did not converge; the value is Wald's, or as far as it came.
    """

    value: float
    is_open: bool
    t: Array
    rough: bool = False


class HigherMaximum(Exception):
    """A point above the maximum: the fit must begin again from there."""

    def __init__(self, t: Array) -> None:
        super().__init__("a search found a higher likelihood")
        self.t = t


class Region:
    """{t : 2(ℓ̂ − ℓ(t)) ≤ threshold} within the limits of t.

    Searches are in u, t = t̂ + root·u with root·rootᵀ the inverse of the curvature: where ℓ is
    quadratic the region is a ball. Standard errors of bounded coordinates are at most LONGEST.
    """

    def __init__(self, function: Function, family: Family, top: Maximum, threshold: float) -> None:
        self._function, self.family, self.top = function, family, top
        self.threshold, self.reach = threshold, math.sqrt(threshold)
        covariance, bounded = top.covariance(), np.isfinite(top.limits).all(axis=1)
        error = np.sqrt(covariance.diagonal())
        shorter = np.where(bounded, np.minimum(error, LONGEST), error) / error
        self.root = np.linalg.cholesky(covariance * np.outer(shorter, shorter))

    def function(self, t: Array) -> tuple[float, Array]:
        """ℓ, ∂ℓ/∂t; raises HigherMaximum above the top."""
        value, slope = self._function(t)
        if value > self.top.value + max(HIGHER, 1e-9 * abs(self.top.value)):
            raise HigherMaximum(t)
        return value, slope

    def excess(self, value: float) -> float:
        """threshold/2 − (ℓ̂ − ℓ), at least 0 in the region; far below it where there is no model."""
        return self.threshold / 2 - (self.top.value - value) if math.isfinite(value) else -1e6

    def value(self, t: Array, j: int) -> float:
        """θ_j."""
        return float(self.family.natural(t)[j])

    def coordinate(self, j: int) -> tuple[int, float] | None:
        """(i, sign) where θ_j rises with sign·t_i and depends on nothing else; else None."""
        # A slope may vanish by chance at one point, so another is looked at.
        rows = [_row(self.family, t, j) for t in (self.top.t, self.top.t + 0.1)]
        own = np.flatnonzero(np.any(rows, axis=0))
        return (int(own[0]), float(np.sign(rows[0][own[0]]))) if len(own) == 1 else None

    def aim(self, t: Array, j: int) -> tuple[float, Array]:
        """What rises with θ_j, and its slopes: the coordinate it depends on, or θ_j itself."""
        alone = self.coordinate(j)
        if alone is None:
            return self.value(t, j), _row(self.family, t, j)
        place, sign = alone
        return sign * float(t[place]), sign * np.eye(len(t))[place]

    def limit(self, j: int, side: int, t: Array) -> float:
        """θ_j as its coordinate goes to ±∞ if that is all it depends on; else its value at t."""
        alone, far = self.coordinate(j), t.copy()
        if alone is not None:
            far[alone[0]] = alone[1] * side * math.inf
        with np.errstate(all="ignore"):
            return self.value(far, j)

    def end(self, j: int, side: int, start: Array | None = None) -> End:
        """The end on one side (−1, 1) from a start, by default Wald's."""
        top, root = self.top, self.root
        along = side * root.T @ self.aim(top.t, j)[1]
        unit = float(np.linalg.norm(along))  # the standard error of what is aimed at
        u = self.reach / unit * along
        if start is not None:
            u = np.linalg.solve(root, start - top.t)
        farthest = top.t
        last: tuple[bytes, float, Array] = b"", 0.0, along

        def placed(u: Array) -> Array:
            return np.clip(top.t + root @ u, *top.limits.T)

        def inside(u: Array) -> tuple[float, Array]:
            nonlocal farthest, last
            if last[0] != u.tobytes():
                t = placed(u)
                value, slope = self.function(t)
                last = u.tobytes(), self.excess(value), root.T @ slope
                if last[1] >= -SLACK and side * (self.aim(t, j)[0] - self.aim(farthest, j)[0]) > 0:
                    farthest = t
            return last[1:]

        def cost(u: Array) -> tuple[float, Array]:
            value, slope = self.aim(placed(u), j)
            return -side * value / unit, -side * root.T @ slope / unit

        low, high = np.isfinite(top.limits).T
        rows = np.concatenate([root[low], -root[high]])
        room = np.concatenate([(top.t - top.limits[:, 0])[low], (top.limits[:, 1] - top.t)[high]])
        constraints = (
            {"type": "ineq", "fun": lambda u: inside(u)[0], "jac": lambda u: inside(u)[1]},
            {"type": "ineq", "fun": lambda u: rows @ u + room, "jac": lambda u: rows},
        )
        search: Any = scipy.optimize.minimize
        for _ in range(ATTEMPTS):
            found = search(
                cost, u, jac=True, method="SLSQP", constraints=constraints,
                options={"maxiter": ITERATIONS, "ftol": 1e-9},
            )  # fmt: skip
            u = np.linalg.solve(root, farthest - top.t)
            converged = bool(found.success) and found.fun <= cost(u)[0] + FARTHER
            if converged:
                break
        return self._classified(j, side, farthest, converged)

    def _classified(self, j: int, side: int, t: Array, converged: bool) -> End:
        """The end at the farthest point: open at the limit, or where ℓ did not change so far."""
        alone, top = self.coordinate(j), self.top
        slack = self.excess(self.function(t)[0])
        if alone is None:
            is_open = converged and slack > FLAT * self.threshold
        else:
            at = top.limits[alone[0], (int(side * alone[1]) + 1) // 2]
            is_open = abs(t[alone[0]] - at) <= 1e-6 or (
                not converged and slack >= (1 - FLAT) * self.threshold / 2
            )
        if is_open:
            return End(self.limit(j, side, t), True, t)
        if converged:
            return End(self.value(t, j), False, t)
        wald = wald_end(self.family, top, j, side * self.reach)
        return End(side * max(side * wald, side * self.value(t, j)), False, t, rough=True)

    def beyond(self, j: int, side: int, end: End, guesses: Sequence[Sequence[Array]]) -> End:
        """The same end, or one farther out, to which the best guess of a kind leads.

        From the guess all coordinates climb, with that of θ_j at the end or farther out.
        """
        alone, limits = self.coordinate(j), self.top.limits.copy()
        if alone is not None:
            limits[alone[0], int(side * alone[1] < 0)] = end.t[alone[0]]
        unit = float(np.linalg.norm(self.root.T @ self.aim(self.top.t, j)[1]))
        for kind in guesses:
            inside = [np.clip(guess, *limits.T) for guess in kind]
            t = max(inside, key=lambda one: self.function(one)[0])
            if alone is not None:
                t, value = ascend(self.function, t, limits, 1)
                if self.excess(value) <= BRANCH:
                    continue
            found = self.end(j, side, t)
            if side * (self.aim(found.t, j)[0] - self.aim(end.t, j)[0]) > FARTHER * unit:
                end = found
        return end


def at_highest(
    function: Function, top: Maximum, count: int, ask: Callable[[Maximum], Answer]
) -> tuple[Answer, Maximum]:
    """ask(top), begun again from a higher maximum where it finds one; and the top in the end."""
    for _ in range(RESTARTS):
        try:
            return ask(top), top
        except HigherMaximum as higher:
            t, _ = ascend(function, higher.t, top.limits, count)
            top = newton(function, t, top.limits)
    raise NumericalFailure(
        "The searches keep finding a higher likelihood: the fit is no maximum. Fit with another "
        "`start`."
    )


def _row(family: Family, t: Array, j: int) -> Array:
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


def _profile_ends(region: Region, starts: Sequence[Array], others: Sequence[Array]) -> ProfileEnds:
    """Both ends of every natural parameter.

    Where θ_i = 0 (a variance) is not excluded, and ℓ there is the same for all θ_j (a correlation
    of nothing), every θ_j is compatible with the releases: its interval is all it can be. If a
    correlation is not well known, or with `starts`, each end is checked for other branches of the
    region. `others` are maxima that are not excluded.
    """
    top = region.top
    ends = [[region.end(j, side) for side in (-1, 1)] for j in range(len(top.t))]
    spread = top.covariance().diagonal()[_correlations(top.limits)]
    loose = bool(len(starts)) or bool((spread > WELL_KNOWN**2).any())
    undefined = _open_at_zero(region, ends, loose)
    apart = []
    for t, (j, side) in itertools.product(others, np.ndindex(len(ends), 2)):
        value, sign = region.value(t, j), 2 * side - 1
        wald = wald_end(region.family, top, j, sign * region.reach)
        if sign * value > sign * wald and not ends[j][side].is_open:
            apart.append((j, value))
        if sign * value > sign * ends[j][side].value:
            ends[j][side] = region.end(j, sign, t)
    if loose:
        _check_branches(region, ends, starts)
    values, is_open, rough = (
        np.array([[end[part] for end in pair] for pair in ends]) for part in (0, 1, 3)
    )
    return ProfileEnds(values, is_open, rough, undefined, tuple(apart))


def _open_at_zero(
    region: Region, ends: list[list[End]], loose: bool
) -> tuple[tuple[int, int], ...]:
    """Opens the ends of variances that may be 0, and of what means nothing there: pairs (j, i)."""
    zero: dict[int, list[int]] = {}
    for i in range(len(ends)):
        if loose or ends[i][0].is_open:
            lost = _undetermined_at_zero(region, i, ends)
            zero |= {} if lost is None else {i: lost}
    undefined = tuple((j, i) for i, lost in zero.items() for j in lost if j not in zero)
    opened = [(i, 0) for i in zero] + [(j, side) for j, _ in undefined for side in (0, 1)]
    for j, side in opened:
        limit = region.limit(j, 2 * side - 1, region.top.t)
        ends[j][side] = End(limit, True, ends[j][side].t)
    return undefined


def _correlations(limits: Array) -> Flags:
    """Coordinates with limits ±c."""
    return np.asarray(np.isfinite(limits[:, 0]) & (limits[:, 0] == -limits[:, 1]))


def _undetermined_at_zero(region: Region, i: int, ends: list[list[End]]) -> list[int] | None:
    """The θ_j on which ℓ does not depend where θ_i = 0; None if θ_i cannot be 0 or it is excluded.

    Correlations stay away from ±1, where the least variance of what drives a process makes much of
    it. Coordinates without such limits move to where the ends of θ_j are.
    """
    top, function, alone = region.top, region.function, region.coordinate(i)
    if alone is None or region.limit(i, -1, top.t) != 0.0:
        return None
    place, sign = alone
    least = top.limits[place, int(sign < 0)]
    if not math.isfinite(least):
        return None
    limits, even = top.limits.copy(), _correlations(top.limits)
    limits[even] = np.clip(limits[even], -STEEP, STEEP)
    limits[place] = least
    at_zero = np.clip(top.t, *limits.T)
    if region.excess(function(at_zero)[0]) < -PROMISING / 2:
        return None
    at_zero, value = ascend(function, at_zero, limits, 1)
    if region.excess(value) < 0:
        return None
    found = []
    for j, pair in enumerate(ends):
        depends = _row(region.family, at_zero, j) != 0
        depends[place] = False
        points = [
            np.where(depends, np.clip(np.where(even, far, end.t), *limits.T), at_zero)
            for far, end in zip((-STEEP, STEEP), pair)
        ]
        changes = [abs(function(point)[0] - value) for point in points]
        moved = any((point != at_zero).any() for point in points)
        if moved and max(changes) <= FLAT * region.threshold:
            found.append(j)
    return found


def _check_branches(region: Region, ends: list[list[End]], starts: Sequence[Array]) -> None:
    """Moves ends farther out where another branch of the region reaches farther.

    An end that moved is a guess for the others, so that they are checked again from there. Next to
    its lower limit ℓ does not feel a variance: guesses are also made with one that it feels.
    """
    limits = region.top.limits
    even = _correlations(limits)
    lifted = np.where(even, -math.inf, limits[:, 0] + FELT)
    for _ in range(BRANCH_ROUNDS):
        points = [end.t for pair in ends for end in pair]
        guesses = [list(kind) for kind in zip(*(_variants(t, limits) for t in points))]
        guesses[0] += [*starts, *(np.maximum(t, lifted) for t in points)]
        moved = False
        for j, side in np.ndindex(len(ends), 2):
            before = ends[j][side]
            if not before.is_open:
                ends[j][side] = region.beyond(j, 2 * side - 1, before, guesses)
            moved |= ends[j][side] is not before
        if not moved:
            break


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
    function: Function, family: Family, top: Maximum, confidence: float, count: int,
    starts: Sequence[Array] = (),
) -> Intervals:  # fmt: skip
    """By profile likelihood; where a profile finds more than ℓ̂ it begins again from there.

    From `starts` other maxima are searched for: one that is not excluded widens the intervals, as
    {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²} then has several pieces.
    """
    threshold = float(scipy.special.chdtri(1, 1 - as_confidence(confidence)))
    first, names, notes = top, family.names, []

    def ends(top: Maximum) -> ProfileEnds:
        others = _other_maxima(function, top, starts, count, threshold)
        return _profile_ends(Region(function, family, top, threshold), starts, others)

    found, top = at_highest(function, top, count, ends)
    estimate = np.asarray(family.natural(top.t))
    if top is not first:
        best = ", ".join(f"{value:.4g}" for value in estimate)
        notes.append(
            f"the profiles found a log-likelihood higher by {top.value - first.value:.2g}, at "
            f"({best}): fit again with `start` there."
        )
    notes += dict.fromkeys(
        f"another peak of the likelihood, at {names[j]} = {value:.4g}, is not excluded; values "
        "between may be."
        for j, value in found.apart
    )
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
        t, value = ascend(function, start, top.limits, count, FIRST_ITERATIONS)
        if not 2 * (top.value - value) <= threshold + PROMISING:
            continue
        t, value = ascend(function, t, top.limits, count)
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

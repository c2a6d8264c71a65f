"""Intervals of fitted parameters: by profile likelihood, or Wald's on the working scale.

    {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²_1(confidence)} ,   ℓ_p(v) = max ℓ(t) over all working t with θ_j(t) = v

An end is the largest or least θ_j on {t : 2(ℓ̂ − ℓ(t)) ≤ χ²_1}, by SLSQP.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.dynamics._families import Family
from privest.dynamics._maximum import Function, Maximum, Objective, ascend, newton
from privest.errors import NumericalFailure

Answer = TypeVar("Answer")
LONGEST = 3.0  # unit of a search in a bounded working coordinate: tanh from 0 to .995
SLACK = 1e-7  # of ℓ: a point outside by less is in the region
ITERATIONS = 60  # of SLSQP
ATTEMPTS = 3  # of SLSQP, each from the farthest point so far
BRANCH = 1e-5  # of ℓ: a point of another branch is so far inside
FARTHER = 1e-4  # of a standard error: an end that moves by less has not moved
HIGHER = 1e-6  # ℓ above ℓ̂ by this (and by 1e-9 of it) is a higher maximum and no rounding
RESTARTS = 10  # from a higher maximum
FLAT = 1e-2  # of χ²: ℓ that changes by less as a parameter moves does not determine it
WELL_KNOWN = 0.2  # standard error on the working scale up to which Wald's intervals cover
BRANCH_ROUNDS = 3  # times that ends are checked from those of other parameters
FELT = 6.0  # of the logarithm of a variance, above its lower limit
FIRST_ITERATIONS = 40  # of a search for another maximum, after which
PROMISING = 20.0  # 2(ℓ̂ − ℓ) is no more than this beyond the threshold, or the search ends
STEEP = 2.0  # |artanh| of a correlation of .96
STEEPER = 3.0  # of .995


def wald_end(family: Family, top: Maximum, j: int, deviations: float) -> float:
    """θ_j at t̂_i ± deviations·sd where it depends on one t_i alone; else θ̂_j ± deviations·sd
    of it.
    """
    covariance = top.covariance()
    row = _row(family, top.t, j)
    own = np.flatnonzero(row)
    if len(own) != 1:
        return float(family.natural(top.t)[j] + deviations * np.sqrt(row @ covariance @ row))
    (i,) = own
    moved = top.t.copy()
    moved[i] += np.sign(row[i]) * deviations * np.sqrt(covariance[i, i])
    return float(family.natural(np.clip(moved, *top.limits.T))[j])


def _row(family: Family, t: Array, j: int) -> Array:
    row = family.natural_slopes(t)[j]
    return np.where(np.abs(row) > 1e-9 * np.abs(row).max(), row, 0.0)


def _correlations(limits: Array) -> Flags:
    """Coordinates with limits ±c."""
    return np.asarray(np.isfinite(limits[:, 0]) & (limits[:, 0] == -limits[:, 1]))


# --- the region of one likelihood ratio ---


class End(NamedTuple):
    """θ_j at an end, whether it is open, t there; rough: Wald's, or as far as a search came."""

    value: float
    is_open: bool
    t: Array
    rough: bool = False


class HigherMaximum(Exception):
    """A point above the maximum: the search must begin again from there."""

    def __init__(self, t: Array) -> None:
        super().__init__("a search found a higher likelihood")
        self.t = t


class Region:
    """{t : 2(ℓ̂ − ℓ(t)) ≤ threshold} within the limits of t.

    Searches are in u, t = t̂ + root·u with root·rootᵀ the inverse of the curvature.
    """

    def __init__(self, function: Function, family: Family, top: Maximum, threshold: float) -> None:
        self._function = function
        self.family = family
        self.top = top
        self.threshold = threshold
        self.reach = math.sqrt(threshold)
        covariance = top.covariance()
        bounded = np.isfinite(top.limits).all(axis=1)
        error = np.sqrt(covariance.diagonal())
        shorter = np.where(bounded, np.minimum(error, LONGEST), error) / error
        self.root = np.linalg.cholesky(covariance * np.outer(shorter, shorter))
        # (i, sign) where θ_j rises with sign·t_i and depends on nothing else; else None. A slope
        # may vanish by chance at one point, so that another is looked at too.
        self.alone: list[tuple[int, float] | None] = []
        for j in range(len(top.t)):
            rows = [_row(family, t, j) for t in (top.t, top.t + 0.1)]
            own = np.flatnonzero(np.any(rows, axis=0))
            one = len(own) == 1
            self.alone.append((int(own[0]), float(np.sign(rows[0][own[0]]))) if one else None)

    def function(self, t: Array) -> tuple[float, Array]:
        value, slope = self._function(t)
        if value > self.top.value + max(HIGHER, 1e-9 * abs(self.top.value)):
            raise HigherMaximum(t)
        return value, slope

    def excess(self, value: float) -> float:
        """threshold/2 − (ℓ̂ − ℓ), at least 0 in the region."""
        return self.threshold / 2 - (self.top.value - value) if math.isfinite(value) else -1e6

    def value(self, t: Array, j: int) -> float:
        return float(self.family.natural(t)[j])

    def aim(self, t: Array, j: int) -> tuple[float, Array]:
        """A function that rises with θ_j, and its slopes: its one coordinate, or θ_j itself."""
        alone = self.alone[j]
        if alone is None:
            return self.value(t, j), _row(self.family, t, j)
        place, sign = alone
        return sign * float(t[place]), sign * np.eye(len(t))[place]

    def limit(self, j: int, side: int, t: Array) -> float:
        """θ_j as its one coordinate goes to ±∞; else its value at t."""
        alone = self.alone[j]
        far = t.copy()
        if alone is not None:
            far[alone[0]] = alone[1] * side * math.inf
        with np.errstate(all="ignore"):
            return self.value(far, j)

    def end(self, j: int, side: int, start: Array | None = None) -> End:
        """The end on one side (−1, 1) from a start, by default Wald's."""
        top = self.top
        root = self.root
        along = side * root.T @ self.aim(top.t, j)[1]
        unit = float(np.linalg.norm(along))  # the standard error of the aim
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
        alone = self.alone[j]
        slack = self.excess(self.function(t)[0])
        if alone is None:
            is_open = converged and slack > FLAT * self.threshold
        else:
            at = self.top.limits[alone[0], (int(side * alone[1]) + 1) // 2]
            is_open = abs(t[alone[0]] - at) <= 1e-6 or (
                not converged and slack >= (1 - FLAT) * self.threshold / 2
            )
        if is_open:
            return End(self.limit(j, side, t), True, t)
        if converged:
            return End(self.value(t, j), False, t)
        wald = wald_end(self.family, self.top, j, side * self.reach)
        return End(side * max(side * wald, side * self.value(t, j)), False, t, rough=True)

    def beyond(self, j: int, side: int, end: End, guesses: Sequence[Sequence[Array]]) -> End:
        alone = self.alone[j]
        limits = self.top.limits.copy()
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


# --- all parameters ---


class Profile(NamedTuple):
    ends: Array
    open_ends: Flags
    notes: tuple[str, ...]


def profile_intervals(objective: Objective, top: Maximum, count: int, confidence: float) -> Profile:
    """The profile intervals of all parameters; ℓ is of `count` released numbers.

    Where standard errors are large other maxima are searched for: one that is not excluded widens
    the intervals.
    """
    threshold = float(scipy.special.chdtri(1, 1 - confidence))
    family = objective.family
    starts = _other_starts(objective, top)

    def profile(top: Maximum) -> Profile:
        others = _other_maxima(objective, top, starts, count, threshold)
        return _profile(Region(objective, family, top, threshold), starts, others)

    found, highest = at_highest(objective, top, count, profile)
    if highest is top:
        return found
    best = ", ".join(f"{value:.4g}" for value in family.natural(highest.t))
    note = (
        f"the profiles found a log-likelihood higher by {highest.value - top.value:.2g}, at "
        f"({best}): fit again with `start` there."
    )
    return found._replace(notes=(note, *found.notes))


def _other_starts(objective: Objective, top: Maximum) -> list[Array]:
    spread = top.covariance().diagonal()
    bounded = np.isfinite(top.limits).all(axis=1)
    if (spread[bounded] <= WELL_KNOWN**2).all():
        return []
    signs = 1.0 - 2.0 * np.eye(len(top.t))[_correlations(top.limits)]
    return [*objective.family.starts, *(top.t * signs)]


def _other_maxima(
    function: Function, top: Maximum, starts: Sequence[Array], count: int, threshold: float
) -> list[Array]:
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


def _profile(region: Region, starts: Sequence[Array], others: Sequence[Array]) -> Profile:
    """Both ends of every natural parameter at one maximum, other branches checked where loose."""
    top = region.top
    names = region.family.names
    ends = [[region.end(j, side) for side in (-1, 1)] for j in range(len(top.t))]
    spread = top.covariance().diagonal()[_correlations(top.limits)]
    loose = bool(len(starts)) or bool((spread > WELL_KNOWN**2).any())
    undefined = _open_at_zero(region, ends, loose)
    peaks = _widen_to_peaks(region, ends, others)
    if loose:
        _check_branches(region, ends, starts)
    values = np.array([[end.value for end in pair] for pair in ends])
    is_open = np.array([[end.is_open for end in pair] for pair in ends])
    return Profile(values, is_open, (*peaks, *_notes(names, ends, undefined)))


def _widen_to_peaks(region: Region, ends: list[list[End]], others: Sequence[Array]) -> list[str]:
    top = region.top
    names = region.family.names
    notes = []
    for t, (j, side) in itertools.product(others, np.ndindex(len(ends), 2)):
        value = region.value(t, j)
        sign = 2 * side - 1
        wald = wald_end(region.family, top, j, sign * region.reach)
        if sign * value > sign * wald and not ends[j][side].is_open:
            notes.append(
                f"another peak of the likelihood, at {names[j]} = {value:.4g}, is not excluded; "
                "values between may be."
            )
        if sign * value > sign * ends[j][side].value:
            ends[j][side] = region.end(j, sign, t)
    return list(dict.fromkeys(notes))


def _open_at_zero(
    region: Region, ends: list[list[End]], loose: bool
) -> tuple[tuple[int, int], ...]:
    """Opens the ends of variances that may be 0, and of parameters j without effect at θ_i = 0:
    (j, i).
    """
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


def _undetermined_at_zero(region: Region, i: int, ends: list[list[End]]) -> list[int] | None:
    """The θ_j on which ℓ does not depend where θ_i = 0; None if θ_i = 0 is excluded."""
    top = region.top
    function = region.function
    alone = region.alone[i]
    if alone is None or region.limit(i, -1, top.t) != 0.0:
        return None
    place, sign = alone
    least = top.limits[place, int(sign < 0)]
    if not math.isfinite(least):
        return None
    limits = top.limits.copy()
    even = _correlations(top.limits)
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
    """Moves ends farther out where another branch of the region reaches farther."""
    limits = region.top.limits
    lifted = np.where(_correlations(limits), -math.inf, limits[:, 0] + FELT)
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
    """t, and t with a correlation almost ±1 and the variance q/(1 − φ²) of its process kept."""
    even = _correlations(limits)
    own = np.arange(len(t))
    variances = np.isfinite(limits).all(axis=1) & ~even
    narrower = 2 * (np.logaddexp(t, -t) - np.logaddexp(STEEPER, -STEEPER))  # log of 1 − tanh²
    return [t] + [
        np.where(own == j, side, t + variances * narrower[j])
        for j in np.flatnonzero(even)
        for side in (-STEEPER, STEEPER)
    ]


def _notes(
    names: Sequence[str], ends: list[list[End]], undefined: tuple[tuple[int, int], ...]
) -> list[str]:
    lost = {j for j, _ in undefined}
    notes = []
    limit = [f"{name} = {pair[not pair[0].is_open].value:.4g}" for name, pair in zip(names, ends)]
    for j in sorted(lost):
        where = " or ".join(limit[i] for one, i in undefined if one == j)
        notes.append(
            f"{names[j]} has no interval: {where} is not excluded, and {names[j]} has no effect "
            "there."
        )
    for j, (low, high) in enumerate(ends):
        if j not in lost and low.is_open and high.is_open:
            notes.append(f"{names[j]} is not determined by these releases: no value is excluded.")
        elif j not in lost and (low.is_open or high.is_open):
            notes.append(f"{limit[j]} is not excluded.")
    return notes + _rough_note(names, ends)


def _rough_note(names: Sequence[str], ends: list[list[End]]) -> list[str]:
    rough = [name for name, pair in zip(names, ends) if any(end.rough for end in pair)]
    if not rough:
        return []
    return [
        f"the profiles of {', '.join(rough)} did not converge: ends are by the curvature at a "
        "maximum (Wald) or as far as the search came, and rough."
    ]

"""The worst input of a channel: sup over u of I(u), searched for by numbers.

A grid alone misses what matters. The supremum may be a one-sided limit at an edge where the
channel changes its rule, or sit where an outcome vanishes: such inputs are found first, by
bisecting the score and the set of outcomes as functions of u, which costs no integral at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._floors import AGREE
from privest.errors import InvalidInput, NumericalFailure
from privest.mechanism import Additive, Channel
from privest.mechanism._numeric_score import log_density
from privest.mechanism._numerics import information_by_numbers, rough_information
from privest.noise import Quadrature
from privest.noise._numerics.differences import find_jumps

MOST_SPECIAL = 12


@dataclass(frozen=True)
class Found:
    """The largest information that was found, where, and its error.

    constant        the channel is a shift (p(z + c|u + c) = p(z|u)): one input stands for all.
    evaluations     how many inputs were looked at by numbers.
    disagrees_at    an input at which the channel's own formula for I(u) is wrong, or None.
    """

    information: float
    at: float
    error: float
    constant: bool
    evaluations: int
    disagrees_at: float | None


def worst_input(channel: Channel, *, inputs: Array | None = None, points: int = 12) -> Found:
    """Search for sup I(u): a grid in octaves, inputs where p changes its form, then refinement.

    `inputs`: values of u to look at besides.
    `points`: grid points a side that are looked at by numbers where the channel has no formula of
    its own. With one, the formula is searched and the numbers check it at the worst
    inputs and at some others.
    Guarantee: a lower bound on the supremum; the search may miss a peak that is narrow and has
    no edge.
    Cost: for a continuous channel some 20 integrals by numbers (30 to 300 ms each) and, without a
    formula, 80 rough ones (20 to 50 ms); milliseconds for a discrete one.
    """
    numbers = _Numbers(channel)
    extra = np.zeros(0) if inputs is None else np.unique(inputs)
    named = np.concatenate([extra, _still_landmarks(channel)])
    if _is_shift(channel):
        return _of_a_shift(numbers, named)
    if channel.worst.at is not None:
        named = np.append(named, channel.worst.at)
    grid = np.unique(np.concatenate([_grid(channel, points), named]))
    jump = _jump(channel, grid)
    if jump is not None:
        return Found(math.inf, jump, 0.0, False, grid.size, None)
    special = special_inputs(channel, grid)
    named = np.concatenate([named, special])
    wrong = None
    if has_formula(channel):
        fine = np.unique(np.concatenate([_grid(channel, 16 * points), grid, special]))
        wrong = _checked_formula(numbers, fine, grid, named)
    if not has_formula(channel) or wrong is not None:
        _searched(numbers, np.unique(np.concatenate([grid, special])), named)
    at, found = numbers.largest()
    return Found(found.value, at, found.error, False, len(numbers.seen), wrong)


def _of_a_shift(numbers: _Numbers, named: Array) -> Found:
    """One input stands for all; the caller, or the channel's landmarks, may know better."""
    channel, here = numbers.channel, numbers(0.0)
    wrong = has_formula(channel) and not _same(float(channel.information(0.0)), here, 0.0)
    for u in named:
        numbers(u)
    at, found = numbers.largest()
    same = found.value <= here.value * (1 + AGREE) + found.error
    return Found(found.value, at, found.error, same, len(numbers.seen), 0.0 if wrong else None)


def _checked_formula(numbers: _Numbers, fine: Array, grid: Array, named: Array) -> float | None:
    """Search the formula, let numbers check it where it is largest; an input at which it is wrong.

    It is checked at the `named` inputs and at some of the grid, too.
    """
    channel = numbers.channel
    best = _refined(lambda u: float(channel.information(u)), fine, channel.information(fine), 60)
    size = channel.worst.information
    if not math.isfinite(size):
        size = float(np.median(channel.information(grid)))
    wrong = None
    for u in np.unique(np.concatenate([best, named, grid[:: max(1, grid.size // 6)]])):
        if not _same(float(channel.information(u)), numbers(u), size):
            wrong = float(u)
    return wrong


def _searched(numbers: _Numbers, every: Array, named: Array) -> None:
    """Look by numbers where rough ones are largest, at the `named` inputs and at some others."""
    channel = numbers.channel
    values = np.array([_rough(channel, float(u)) for u in every])
    rounds = 30 if channel.discrete else 10
    best = _refined(lambda u: _rough(channel, u), every, values, rounds)
    for u in np.unique(np.concatenate([best, named, every[:: max(1, every.size // 4)]])):
        numbers(u)


class _Numbers:
    """I(u) by numbers, remembered."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.seen: dict[float, Quadrature] = {}

    def __call__(self, u: float) -> Quadrature:
        if float(u) not in self.seen:
            self.seen[float(u)] = information_by_numbers(self.channel, float(u))
        return self.seen[float(u)]

    def largest(self) -> tuple[float, Quadrature]:
        return max(self.seen.items(), key=lambda item: item[1].value)


def _rough(channel: Channel, u: float) -> float:
    try:
        return rough_information(channel, u)
    except (InvalidInput, NumericalFailure):
        return -math.inf


def has_formula(channel: Channel) -> bool:
    """Has the channel a formula of its own for I(u)?"""
    return type(channel).information is not Channel.information


def _same(own: float, found: Quadrature, size: float) -> bool:
    """Do formula and numbers agree, to AGREE and to 1e-9 of a typical size?

    Next to a pole, a rounding error away from it, a formula is huge where the numbers say infinite.
    """
    if math.isinf(own) or math.isinf(found.value):
        return own == found.value or (math.isinf(found.value) and own > 1e6 * size)
    return abs(own - found.value) <= AGREE * abs(found.value) + 4 * found.error + 1e-9 * size


def _is_shift(channel: Channel) -> bool:
    """p(z + c|u + c) = p(z|u): by its form, or at 400 places from 1 to 1000 away."""
    if isinstance(channel, Additive):
        return True
    if channel.discrete:
        return False
    rng = np.random.default_rng(4)
    far = np.repeat([1.0, 10.0, 100.0, 1000.0], 100)
    u, c = far * rng.normal(0, 3, far.size), far * rng.normal(0, 3, far.size)
    z = channel.sample(u, rng)
    here, there = log_density(channel, z, u), log_density(channel, z + c, u + c)
    return bool(np.allclose(here, there, rtol=1e-7, atol=1e-7))


def _grid(channel: Channel, points: int) -> Array:
    """0 and octaves around the sizes that appear among the public parameters (or 1), both signs."""
    numbers = [v for v in channel.parameters.values() if isinstance(v, int | float)]
    sizes = sorted({abs(float(v)) for v in numbers if v and math.isfinite(v)}) or [1.0]
    octaves = np.geomspace(sizes[0] / 64, sizes[-1] * 64, points)
    # Within a few sizes also evenly: quantisers repeat, and edges lie at multiples.
    even = np.linspace(0, 2 * sizes[-1], points // 2)
    side = np.concatenate([octaves, even, sizes])
    return np.unique(np.concatenate([-side, [0.0], side]))


def _still_landmarks(channel: Channel) -> list[float]:
    """Landmarks of p(·|u) that do not move with u: often also inputs at which its form changes."""
    one, other = (set(channel.landmarks(u)) for u in (0.3719, 1.8341))
    return sorted(float(point) for point in one & other if math.isfinite(point))


def _segments(grid: Array) -> tuple[Array, Array]:
    """Between the points of the grid, a little widened: what lies on a point is inside."""
    return grid[:-1] - 1e-3 * np.diff(grid), grid[1:] + 1.3e-3 * np.diff(grid)


def _jump(channel: Channel, grid: Array) -> float | None:
    """An input at which p(z|·) jumps, for some z: the information there is infinite."""
    places = grid[(np.array([0.07, 0.31, 0.5, 0.64, 0.93]) * (grid.size - 1)).astype(int)]
    if channel.discrete:
        probes = np.unique(np.concatenate([channel.outcomes(float(u)) for u in places]))[:12]
    else:
        probes = np.unique(channel.sample(places, np.random.default_rng(11)))

    def seen(z: float, u: Array) -> Array:
        return np.asarray(np.exp(log_density(channel, np.full(u.shape, z), u)))

    def least(a: Array, b: Array) -> Array:
        return 1e-6 * np.maximum(a, b) + 1e-200

    width = 1e-12 * float(np.abs(grid).max())
    low, high = _segments(grid)
    for z in probes.tolist():
        found = find_jumps(partial(seen, z), low, high, width=width, least=least, kept=0.9)
        if found:
            return float(found[0])
    return None


def special_inputs(channel: Channel, grid: Array) -> Array:
    """Inputs at which p(z|·) has a kink or a zero for several z at once."""
    found = _edges(channel, grid)
    if channel.discrete:
        found = np.concatenate([found, _vanishing(channel, grid)])
    if found.size > MOST_SPECIAL:
        found = found[np.argsort(np.abs(found), kind="stable")[:MOST_SPECIAL]]
    return np.sort(found)


def _edges(channel: Channel, grid: Array) -> Array:
    """Where the score jumps as a function of u, at the same u for two different z or more."""
    places = grid[(np.array([0.13, 0.31, 0.56, 0.64, 0.89]) * grid.size).astype(int)]
    probes = np.unique(channel.sample(places, np.random.default_rng(7)))
    size = float(np.abs(grid).max())
    width = 1e-9 * size

    def score(z: float, u: Array) -> Array:
        h = 1e-10 * np.maximum(np.abs(u), 1e-3 * size)
        there = np.full(u.shape, z)
        with np.errstate(all="ignore"):
            rise = log_density(channel, there, u + h) - log_density(channel, there, u - h)
            slope = np.asarray(rise / (2 * h))
        return np.where(np.isfinite(slope), slope, 0.0)

    def least(a: Array, b: Array) -> Array:
        return np.asarray(1e-3 * (np.abs(a) + np.abs(b)) + 1e-6 / size)

    points: list[float] = []
    for z in probes.tolist():
        seen = partial(score, z)
        points += find_jumps(seen, *_segments(grid), width=width, least=least, kept=0.5, zoom=100)
    every = np.sort(np.array(points))
    same = every[:-1][np.diff(every) < 4 * width]
    apart = np.concatenate([[True], np.diff(same) > 8 * width])[: same.size]
    return np.array([_corner(channel, probes, p, 8 * width) for p in same[apart]])


def _corner(channel: Channel, z: Array, point: float, near: float) -> float:
    """Where two lines meet: ln p(z|·) from the left and from the right of a kink.

    Good to rounding of ln p over the jump of its slope, which no bisection of slopes is.
    """
    for h in (near, near / 100):  # the second time without the curvature of the sides
        x = point + h * np.array([-2.0, -1.0, 1.0, 2.0])[:, None]
        with np.errstate(all="ignore"):
            a, b, c, d = log_density(channel, np.broadcast_to(z, (4, z.size)), x)
            left, right = (b - a) / h, (d - c) / h
            meet = (c - b - h * (right + left)) / (left - right)
        good = meet[np.abs(meet) < h]
        point += float(np.median(good)) if good.size else 0.0
    return point


def _vanishing(channel: Channel, grid: Array) -> Array:
    """Where an outcome stops to be possible, by bisection between grid points."""
    points: list[float] = []
    for a, b in pairwise(grid.tolist()):
        z = np.setxor1d(channel.outcomes(a), channel.outcomes(b))[:8]
        if z.size == 0:
            continue
        low, high = np.full(z.size, a), np.full(z.size, b)
        alive = log_density(channel, z, low) > -np.inf
        changes = alive != (log_density(channel, z, high) > -np.inf)
        for _ in range(60):
            middle = (low + high) / 2
            same = (log_density(channel, z, middle) > -np.inf) == alive
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        points += low[changes].tolist()
    size = float(np.abs(grid).max())  # in its units: a fine grid has its own
    return size * np.unique(np.round(np.array(points) / size, 13))


def _refined(function: Callable[[float], float], grid: Array, values: Array, rounds: int) -> Array:
    """The best inputs after a bounded search around the two highest points of the grid."""
    order = np.argsort(-values, kind="stable")[:2]
    best = [float(grid[i]) for i in order]
    if math.isinf(values[order[0]]):
        return np.array(best)
    for i in order:
        ends = grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)]
        found = scipy.optimize.minimize_scalar(
            lambda u: -function(u), bounds=ends, method="bounded", options={"maxiter": rounds}
        )
        best.append(float(found.x))
    return np.array(best)

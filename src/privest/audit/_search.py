"""The worst input of a channel: sup over u of I(u), searched for by numbers.

A grid alone misses what matters. The supremum may be a one-sided limit at an edge where the
channel changes its rule, or sit where an outcome vanishes: such inputs are found first, by
bisecting the score and the set of outcomes as functions of u, which costs no integral at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._floors import AGREE
from privest.audit._screen import Range, Screen
from privest.audit._special_inputs import jump, special_inputs
from privest.errors import InvalidInput, NumericalFailure
from privest.mechanism import Additive, Channel
from privest.mechanism._numerics import information_by_numbers, rough_information, score_is_false
from privest.noise import Quadrature

# Peaks of the rough look that numbers look at; inputs of a covering argument.
PEAKS, COVER = 3, 200


@dataclass(frozen=True)
class Found:
    """The largest information that was found, where, and its error.

    constant        the channel is a shift (p(z + c|u + c) = p(z|u)): one input stands for all.
    evaluations     how many inputs were looked at by numbers.
    disagrees_at    an input at which the channel's own formula for I(u) is wrong, or None.
    false_score_at  an input at which its own score is not the derivative of its log-density.
    examined        the inputs that were searched; None: all of them, by the form of the channel.
    resolution      the widest distance between neighbours among them.
    unresolved      the share of them on which the law was too rough for the rough look.
    bound           with a Lipschitz constant: I(u) is at most this on all of `examined`.
    """

    information: float
    at: float
    error: float
    constant: bool
    evaluations: int
    disagrees_at: float | None = None
    false_score_at: float | None = None
    examined: Range | None = None
    resolution: float = 0.0
    unresolved: float = 0.0
    bound: float = math.inf


def worst_input(
    channel: Channel,
    *,
    inputs: Array | None = None,
    points: int = 12,
    domain: tuple[float, float] | None = None,
    lipschitz: float | None = None,
) -> Found:
    """Search for sup I(u): a grid in octaves, inputs where p changes its form, then refinement.

    `inputs`: values of u to look at besides.
    `points`: grid points a side that are looked at by numbers where the channel has no formula of
    its own. With one, the formula is searched and the numbers check it at the worst
    inputs and at some others.
    `domain`: the inputs to search; else 64 times the sizes among the public parameters (or 1).
    `lipschitz`: |I(u) − I(v)| ≤ lipschitz·|u − v| on the domain: then `bound` is proven.
    Guarantee: a lower bound on the supremum. Besides the grid all of the range is looked at
    roughly (`Screen`): a peak narrower than `resolution` without an edge may be missed.
    Cost: for a continuous channel some 20 integrals by numbers (30 to 300 ms each) and, without a
    formula, 80 rough ones (20 to 50 ms); milliseconds for a discrete one; the screen 0.1 to 0.5 s.
    """
    numbers = _Numbers(channel)
    extra = np.zeros(0) if inputs is None else np.unique(inputs)
    named = np.concatenate([extra, _still_landmarks(channel)])
    if type(channel) is Additive:
        return _of_a_shift(numbers, named, 0.0)
    sizes = _sizes(channel)
    span = Range(-64 * sizes[-1], 64 * sizes[-1], least=sizes[0] / 64)
    if domain is not None:
        span = Range(*domain, asked=True, least=sizes[0] / 64)
    named = np.concatenate([extra, named[span.within(named)]])
    screen = Screen(channel, span)
    if screen.shift():
        found = _of_a_shift(numbers, named, (span.low + span.high) / 2)
    else:
        found = _varied(numbers, named, _grid(sizes, span, points), screen, points)
    if lipschitz is not None and math.isfinite(found.information):
        found = replace(found, bound=_covered(numbers, span, lipschitz))
    # Several: at one of them the law may be too rough for differences.
    some = list(numbers.seen)[:: max(1, len(numbers.seen) // 3)]
    false = next((u for u in some if score_is_false(channel, u)), None)
    unresolved, near = screen.unresolved, screen.resolution
    return replace(
        found, false_score_at=false, examined=span, resolution=near, unresolved=unresolved
    )


def _varied(numbers: _Numbers, named: Array, grid: Array, screen: Screen, points: int) -> Found:
    """A channel that is not a shift: the grid, what is special, and the peaks of the screen."""
    channel = numbers.channel
    if channel.worst.at is not None and screen.range.within(np.array(channel.worst.at)):
        named = np.append(named, channel.worst.at)
    grid = np.unique(np.concatenate([grid, named]))
    peaks = screen.peaks(PEAKS)
    steep = [
        np.linspace(u - w, u + w, 4) for u, w in ((p[0], _around(p[0])) for p in peaks if p[2])
    ]
    for cells in (grid, *steep):
        place = jump(channel, cells)
        if place is not None:
            return Found(math.inf, place, 0.0, False, grid.size)
    special = _snapped(special_inputs(channel, grid), grid)
    highest = np.array([u for u, _, _ in peaks])
    named = np.unique(np.concatenate([named, special]))
    named = np.concatenate([named, _snapped(highest, np.concatenate([grid, named]), 1e-4)])
    wrong = None
    if has_formula(channel):
        fine = np.unique(np.concatenate([screen.lattice, grid, special]))
        wrong = _checked_formula(numbers, fine, grid, named)
    if not has_formula(channel) or wrong is not None:
        _searched(numbers, np.unique(np.concatenate([grid, special])), named)
    at, found = numbers.largest()
    return Found(found.value, at, found.error, False, len(numbers.seen), wrong)


def _around(u: float) -> float:
    """So close to u that what a zoom has found is inside."""
    return 1e-6 * max(abs(u), 1.0)


def _snapped(points: Array, grid: Array, close: float = 1e-7) -> Array:
    """Points so close to one of the grid that they mean it, moved there."""
    nearest = grid[np.abs(points[:, None] - grid).argmin(axis=1)] if points.size else points
    same = np.abs(points - nearest) <= close * (np.abs(nearest) + np.abs(points))
    return np.where(same, nearest, points)


def _of_a_shift(numbers: _Numbers, named: Array, middle: float) -> Found:
    """One input stands for all; the caller, or the channel's landmarks, may know better."""
    channel, here = numbers.channel, numbers(middle)
    wrong = has_formula(channel) and not _agrees(numbers, middle, 0.0)
    for u in named:
        numbers(u)
    at, found = numbers.largest()
    same = found.value <= here.value * (1 + AGREE) + found.error
    return Found(found.value, at, found.error, same, len(numbers.seen), middle if wrong else None)


def _covered(numbers: _Numbers, span: Range, lipschitz: float) -> float:
    """A bound on I over the range: between a and b at most (I(a) + I(b) + L·(b − a))/2.

    The gap with the largest bound is halved until that is within 1 % of what was found, or COVER
    inputs were looked at (Piyavskii and Shubert).
    """
    seen = numbers.seen
    for u in np.linspace(span.low, span.high, 9):
        numbers(u)
    for _ in range(COVER):
        u = np.sort([v for v in seen if span.low <= v <= span.high])
        value = np.array([seen[v].value + seen[v].error for v in u])
        bound = (value[1:] + value[:-1] + lipschitz * np.diff(u)) / 2
        i = int(bound.argmax())
        if bound[i] <= 1.01 * value.max():
            break
        numbers(float((u[i] + u[i + 1]) / 2))
    return float(max(bound[i], value.max()))


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
    best = _snapped(best, np.concatenate([grid, named]))
    for u in np.unique(np.concatenate([best, named, grid[:: max(1, grid.size // 6)]])):
        if not _agrees(numbers, float(u), size):
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


def _agrees(numbers: _Numbers, u: float, size: float) -> bool:
    """Do formula and numbers agree at u?

    Where p has a kink the information has two one-sided limits, and the numbers take a kink next to
    u for one at u, and the larger limit. The formula may then have either, if on both sides it is
    what the numbers say.
    """
    found, formula = numbers(u), numbers.channel.information
    if _same(float(formula(u)), found, size):
        return True
    near = 1e-7 * max(abs(u), 1e-3)
    own, *sides = (float(formula(v)) for v in (u, u - near, u + near))
    either = any(abs(own - side) <= 1e-5 * (abs(own) + abs(side)) for side in sides)
    return either and any(_same(side, found, size, 1e-5) for side in sides)


def _same(own: float, found: Quadrature, size: float, agree: float = AGREE) -> bool:
    """Do formula and numbers agree, to `agree` and to 1e-9 of a typical size?

    Next to a pole, a rounding error away from it, a formula is huge where the numbers say infinite.
    """
    if math.isinf(own) or math.isinf(found.value):
        return own == found.value or (math.isinf(found.value) and own > 1e6 * size)
    return abs(own - found.value) <= agree * abs(found.value) + 4 * found.error + 1e-9 * size


def _sizes(channel: Channel) -> list[float]:
    """The sizes that appear among the public parameters, or 1."""
    numbers = [v for v in channel.parameters.values() if isinstance(v, int | float)]
    return sorted({abs(float(v)) for v in numbers if v and math.isfinite(v)}) or [1.0]


def _grid(sizes: list[float], span: Range, points: int) -> Array:
    """0 and octaves around the sizes, both signs; over a domain that was asked for also evenly."""
    octaves = np.geomspace(sizes[0] / 64, sizes[-1] * 64, points)
    # Within a few sizes also evenly: quantisers repeat, and edges lie at multiples.
    even = np.linspace(0, 2 * sizes[-1], points // 2)
    side = np.concatenate([octaves, even, sizes])
    over = np.linspace(span.low, span.high, points + 1 if span.asked else 2)
    every = np.unique(np.concatenate([-side, [0.0], side, over]))
    return every[span.within(every)]


def _still_landmarks(channel: Channel) -> list[float]:
    """Landmarks of p(·|u) that do not move with u: often also inputs at which its form changes."""
    one, other = (set(channel.landmarks(u)) for u in (0.3719, 1.8341))
    return sorted(float(point) for point in one & other if math.isfinite(point))


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

"""A number moved on until something holds, in as many steps as doubles allow, and no more."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

import numpy as np

from privest.errors import NumericalFailure

# Doublings lead from the least double to the largest in 2098; more only repeat themselves.
MOST = 2100


def first_that(holds: Callable[[float], bool], candidates: Iterator[float], what: str) -> float:
    """The first of some candidates for which it holds; `what` is looked for, for the message.

    >>> import itertools
    >>> first_that(lambda x: x > 5, (2.0**k for k in itertools.count()), "a power of 2")
    8.0
    """
    for _, found in zip(range(MOST), candidates):
        if holds(found):
            return found
    raise NumericalFailure(
        f"no {what} was found in {MOST} steps, which pass through all numbers that a computer has: "
        "rounding has the better of it here. Choose numbers that are less extreme."
    )


def doubled(start: float, factor: float = 2.0) -> Iterator[float]:
    """start, factor·start, factor²·start, …"""
    while True:
        yield start
        start *= factor


def least_double(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least double of [low, high] for which it holds, by bisection; low ≥ 0.

    It holds at `high`, and from the first one on: doubles ≥ 0 are in the order of their bits.

    >>> least_double(lambda x: x * x >= 2, 0.0, 2.0)
    1.4142135623730951
    """
    first, end = np.array([low, high]).view(np.int64).tolist()

    def double(bits: int) -> float:
        return float(np.int64(bits).view(np.float64))

    found = bisect_left(range(first, end), True, key=lambda bits: holds(double(bits)))
    return double(first + found)

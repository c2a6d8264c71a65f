"""A number moved on until something holds, in as many steps as doubles allow, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


def stepped(start: float, step: float) -> Iterator[float]:
    """start, and further in steps that double: start + step, start + 3·step, …"""
    while True:
        yield start
        start, step = start + step, 2 * step

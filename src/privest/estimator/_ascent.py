"""Newton's way up to a maximum of a sum over rows, one pass over the rows a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from privest.arrays import Array
from privest.errors import NumericalFailure

RISE = 0.1  # part of the rise promised by the slope that a step must bring
ROUNDING = 1e-13  # of the height, relative: near the maximum its rise drowns in it
SHORTEST, LONGEST = 0.1, 0.5  # a step that fails is shortened by a factor between these


class Point(Protocol):
    """What a pass gives: the height of the function and its gradient."""

    height: float
    gradient: Array


P = TypeVar("P", bound=Point)


def ascend(
    look: Callable[[Array], P],
    step: Callable[[Array, P], tuple[Array, float]],
    start: Array,
    *,
    tolerance: float,
    iterations: int,
    inside: Callable[[Array], Array] = np.asarray,
) -> tuple[Array, P, int, float]:
    """The maximum, the last pass before it, the number of steps, and what the last step promised.

    look    one pass over the rows.
    step    A⁻¹g and the rise gᵀA⁻¹g that it promises (twice), the squared distance to the maximum
            in standard errors. At tolerance² the last step is taken, and this is the maximum.
    inside  the nearest point that is allowed.
    """
    at, point = start, look(start)
    for count in range(iterations):
        move, promised = step(at, point)
        if promised <= tolerance**2:
            return inside(at + move), point, count, promised
        at, point = _risen(look, at, point, move, inside)
    return at, point, iterations, step(at, point)[1]


def _risen(
    look: Callable[[Array], P], at: Array, point: P, move: Array, inside: Callable[[Array], Array]
) -> tuple[Array, P]:
    """The place after the step, shortened until the height rises."""
    length = 1.0
    while length > ROUNDING:
        tried = inside(at + length * move)
        new = look(tried)
        hoped = float((tried - at) @ point.gradient)
        gained = new.height - point.height
        if gained >= RISE * max(hoped, 0.0) - ROUNDING * abs(point.height):
            return tried, new
        best = 0.5 * hoped / (hoped - gained) if hoped > 0 else LONGEST  # of the parabola
        length *= float(np.clip(best, SHORTEST, LONGEST))
    raise NumericalFailure(
        "the log-likelihood does not rise along its own gradient: the rows change from one reading "
        "of them to the next, or they are out of range."
    )

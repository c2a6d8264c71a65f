"""The maximum of one log-likelihood: L-BFGS-B of SciPy within bounds, then Newton steps.

A look at a point is a pass over all rows. Coordinates should be those in which the information at
the start is about the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import scipy

from privest.arrays import EPS, Array

NEAR = 1e-2  # standard errors from the maximum at which Newton's steps take over
FINISH = 40  # at most; scoring (an expected curvature) converges in proportion only


class Point(Protocol):
    """One look: the height of the function, its gradient, and minus its second derivatives."""

    height: float
    gradient: Array
    curvature: Array


P = TypeVar("P", bound=Point)


def is_definite(matrix: Array) -> bool:
    """Whether a symmetric matrix is positive definite beyond rounding; an empty one is."""
    values = np.linalg.eigvalsh(matrix)
    return not len(values) or bool(values[0] > len(values) * EPS * values[-1])


def ascend(
    look: Callable[[Array], P], start: Array, bounds: tuple[Array, Array], tolerance: float
) -> tuple[Array, P, int, float]:
    """The maximum, the last look before it, the number of looks, and the squared length left.

    Lengths are in standard errors, √(gᵀA⁻¹g) over the coordinates that are not held at a bound; ∞
    where the curvature A is not positive. The last step, of at most `tolerance`, is taken.
    """
    low, high = bounds
    looks: list[tuple[Array, P]] = []

    def seen(x: Array) -> P:
        if not looks or not np.array_equal(looks[-1][0], x):
            looks.append((x.copy(), look(x)))
        return looks[-1][1]

    def negative(x: Array) -> tuple[float, Array]:
        return -seen(x).height, -seen(x).gradient

    found = scipy.optimize.minimize(
        negative, start, jac=True, method="L-BFGS-B",
        bounds=list(zip(low.tolist(), high.tolist())),
        options={"ftol": 0.0, "gtol": NEAR, "maxiter": 300},
    )  # fmt: skip
    at = np.clip(found.x, low, high)
    left = np.inf
    for _ in range(FINISH):
        point = seen(at)
        step, before, left = np.zeros_like(at), left, np.inf
        outward = ((at <= low) & (point.gradient <= 0)) | ((at >= high) & (point.gradient >= 0))
        free = np.flatnonzero(~outward)
        matrix = point.curvature[np.ix_(free, free)]
        if is_definite(matrix):
            step[free] = np.linalg.solve(matrix, point.gradient[free])
            left = float(step @ point.gradient)
        if left <= tolerance**2:
            return np.clip(at + step, low, high), point, len(looks), left
        if not left < before:
            break
        at = np.clip(at + step, low, high)
    return at, seen(at), len(looks), left

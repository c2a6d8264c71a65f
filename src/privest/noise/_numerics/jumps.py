"""Where a function jumps, by bisecting many cells at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privest.arrays import EPS, Array


def find_jumps(
    function: Callable[[Array], Array],
    left: Array,
    right: Array,
    *,
    width: float,
    least: Callable[[Array, Array], Array],
    kept: float,
    zoom: float = 1000.0,
) -> tuple[float, ...]:
    """Return the points where `function` changes by as much over `width` as over zoom·`width`.

    Each cell [left, right] is halved, always keeping the half over which the function changes
    more, down to `width` (or the resolution of floating point at x, whichever is larger). A
    change over the last cell that is at least `kept` times the change over `zoom` times its width
    is a jump (or a pole) if it is larger than `least(g(left), g(right))`, that is, than rounding.
    A steep slope loses the factor `zoom` on that way, a cusp |x|^α the factor zoom^α.

    At most one jump a cell is found. Cells narrower than zoom·`width` are left out.

    >>> step = find_jumps(np.sign, np.array([-1.0, 0.5]), np.array([0.7, 2.0]), width=1e-12,
    ...     least=lambda a, b: np.full(a.shape, 1e-9), kept=0.9)
    >>> len(step), abs(step[0]) < 1e-12
    (1, True)
    """
    a, b = left.astype(np.float64), right.astype(np.float64)
    resolution = 8 * EPS * np.maximum(np.abs(a), np.abs(b))
    final = np.maximum(width, resolution)
    large = b - a >= zoom * final
    a, b, final = a[large], b[large], final[large]
    if a.size == 0:
        return ()
    at_a, at_b = function(a), function(b)
    first = np.full(a.shape, np.nan)
    active = np.ones(a.shape, dtype=bool)
    while active.any():
        i = np.flatnonzero(active)
        new = np.isnan(first[i]) & (b[i] - a[i] <= 2 * zoom * final[i])
        first[i[new]] = _change(at_a[i[new]], at_b[i[new]])
        middle = (a[i] + b[i]) / 2
        at_middle = function(middle)
        go_left = _change(at_a[i], at_middle) >= _change(at_middle, at_b[i])
        b[i], at_b[i] = np.where(go_left, middle, b[i]), np.where(go_left, at_middle, at_b[i])
        a[i], at_a[i] = np.where(go_left, a[i], middle), np.where(go_left, at_a[i], at_middle)
        active[i] = b[i] - a[i] > final[i]
    change = _change(at_a, at_b)
    found = (change > least(at_a, at_b)) & (change >= kept * first)
    points = np.sort((a[found] + b[found]) / 2)
    if points.size == 0:
        return ()
    apart = np.concatenate([[True], np.diff(points) > 4 * final.max()])
    return tuple(float(p) for p in points[apart])


def _change(a: Array, b: Array) -> Array:
    """|b − a|, and no change between two infinities of one sign."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(b - a))

"""Derivatives by extrapolated differences, each with an error, and jumps of a function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privest.arrays import EPS, Array

HALVINGS = 2100  # from the largest number to the smallest

# Steps h, h/2, …, h/2^(LEVELS−1), each row extrapolated at most COLUMNS times (errors h², h⁴, …).
LEVELS = 16
COLUMNS = 4

Function = Callable[[Array], Array]


def first_derivative(
    function: Function, x: Array, step: Array, unit: float = 1.0
) -> tuple[Array, Array]:
    """g'(x) and an error bound, from (g(x+h) − g(x−h))/2h and Richardson's extrapolation.

    `step`: the largest h, one for each x; g must be smooth on (x − step, x + step). Ridders' rule:
    the entry of the table that its neighbours confirm best. g is taken to be rounded to
    ε(|g| + unit).
    """
    h = step * 2.0 ** -np.arange(LEVELS).reshape((-1,) + (1,) * x.ndim)
    above = x + h
    below = x - h
    up = function(above)
    down = function(below)
    # The step really taken, rounded like x ± h.
    rows = (up - down) / (above - below)
    # Rounding of g, and of its argument (g' times half a unit in the last place of x).
    noise = EPS * (unit + np.abs(up) + np.abs(down) + np.abs(x * rows)) / h
    return _best(rows, noise)


def second_derivative(function: Function, x: Array, step: Array) -> tuple[Array, Array]:
    """g''(x) and an error bound, from (g(x+h) − 2g(x) + g(x−h))/h² in the same way."""
    h = step * 2.0 ** -np.arange(LEVELS).reshape((-1,) + (1,) * x.ndim)
    above = x + h
    below = x - h
    up = function(above)
    middle = function(x)
    down = function(below)
    right = above - x
    left = x - below
    rows = 2 * ((up - middle) / right - (middle - down) / left) / (right + left)
    noise = 2 * EPS * (2 + np.abs(up) + 2 * np.abs(middle) + np.abs(down)) / h**2
    # x ± h are rounded: unequal steps leave a part g'·(right − left)/h² that is not in g''.
    noise += EPS * np.abs(x) * np.abs((up - down) / h) / h**2
    return _best(rows, noise)


def one_sided_derivative(
    function: Function, x: Array, step: Array, side: int
) -> tuple[Array, Array]:
    """g'(x+) for side = 1, g'(x−) for side = −1, and an error bound.

    From (g(x + side·h) − g(x))/(side·h), steps falling by quarters.
    """
    h = side * step * 4.0 ** -np.arange(LEVELS - 4).reshape((-1,) + (1,) * x.ndim)
    there = x + h
    away = function(there)
    here = function(x)
    rows = (away - here) / (there - x)
    noise = EPS * (1 + np.abs(away) + np.abs(here) + np.abs(x * rows)) / np.abs(h)
    return _best(rows, noise)


def _best(rows: Array, noise: Array) -> tuple[Array, Array]:
    best = rows[-1]
    least = np.full(best.shape, np.inf)
    previous = rows
    previous_noise = noise
    for column in range(1, COLUMNS + 1):
        gain = 4.0**column - 1
        current = previous[1:] + (previous[1:] - previous[:-1]) / gain
        current_noise = previous_noise[1:] * (1 + 2 / gain)
        error = np.maximum(np.abs(current - previous[1:]), np.abs(current - previous[:-1]))
        error += current_noise + _contradiction(current, current_noise)
        error = np.where(np.isnan(error), np.inf, error)
        choice = np.argmin(error, axis=0)[None]
        candidate = np.take_along_axis(error, choice, axis=0)[0]
        value = np.take_along_axis(current, choice, axis=0)[0]
        better = candidate < least
        best = np.where(better, value, best)
        least = np.where(better, candidate, least)
        previous = current
        previous_noise = current_noise
    return best, least


def _contradiction(rows: Array, noise: Array) -> Array:
    """Distance of each row from what all rows of smaller steps allow, four times their noise.

    Large steps over a point where g is not smooth can agree on a wrong value; small steps then
    disagree.
    """
    high = rows + 4 * noise
    low = rows - 4 * noise
    high = np.where(np.isnan(high), np.inf, high)
    low = np.where(np.isnan(low), -np.inf, low)
    least_high = np.minimum.accumulate(high[::-1], axis=0)[::-1]
    most_low = np.maximum.accumulate(low[::-1], axis=0)[::-1]
    result = np.zeros(rows.shape)
    result[:-1] = np.maximum(rows[:-1] - least_high[1:], most_low[1:] - rows[:-1]).clip(min=0)
    return result


def find_jumps(
    function: Function,
    cells: tuple[Array, Array],
    *,
    width: float,
    least: Callable[[Array, Array], Array],
    kept: float,
    zoom: float = 1000.0,
) -> tuple[float, ...]:
    """The points where `function` changes by as much over `width` as over zoom·`width`.

    Each cell is halved, keeping the half over which the function changes more, down to `width` or
    the resolution of floating point. A last change of at least `kept` times that over `zoom` times
    the width, and above `least(g(left), g(right))`, is a jump or a pole; a steep slope loses the
    factor `zoom`, a cusp |x|^α the factor zoom^α. At most one jump a cell is found.
    """
    a, b = (ends.astype(np.float64) for ends in cells)
    resolution = 8 * EPS * np.maximum(np.abs(a), np.abs(b))
    final = np.maximum(width, resolution)
    large = b - a >= zoom * final
    a = a[large]
    b = b[large]
    final = final[large]
    if a.size == 0:
        return ()
    at_a = function(a)
    at_b = function(b)
    first = np.full(a.shape, np.nan)
    active = np.ones(a.shape, dtype=bool)
    for _ in range(HALVINGS):
        i = np.flatnonzero(active)
        if i.size == 0:
            break
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

"""A numerical Jacobian that knows its own error, and refuses where it cannot be trusted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from privest.arrays import EPS, Array, ArrayLike
from privest.errors import NumericalFailure

REFUSED = 1e-6  # error of an entry, relative to its column, at which a derivative is not accepted
ROUNDING = 1e-12  # of |F| over the scale of θ: rounding of F divided by the smallest steps taken
AGREEMENT = 1e-2  # between the extrapolated slope and a plain difference over a tiny step
TINY = 1e-6  # that step, in units of θ
LONG = (1.0, 0.37, 0.1)  # steps over which a change of F would be seen, in units of θ
ZOOM = (1.0, 1e-2, 1e-4)  # first steps tried, in units of θ / 10


def numerical_jacobian(
    function: Callable[[Array], ArrayLike], point: Array, value: Array
) -> tuple[Array, float]:
    """F'(θ) (m, n) at `point`, where F is `value`, and the relative error of its columns.

    Central differences of rising order (scipy.differentiate), accepted only if a plain difference
    over a tiny step agrees. Columns nowhere above their error are zero, if that error is below the
    slopes that F shows over long steps. Raises NumericalFailure where the steps do not settle, an
    entry is not known to 1e-6 of its column, or the slopes of the two sides differ.
    """

    def columns(points: Array) -> Array:
        # scipy asks for many points at once along the trailing axes; F takes one.
        return np.apply_along_axis(_value_or_nan, 0, points, function, len(value))

    # The scale on which F bends is not known: of the order of one, or of θ itself, or less.
    own = np.where(point == 0.0, 1.0, np.abs(point))
    for scale in (np.maximum(own, 1.0), own):
        near = _Near(columns, point, value, scale)
        for zoom in ZOOM:
            step = 0.1 * zoom * scale
            result = scipy.differentiate.jacobian(columns, point, initial_step=step)
            matrix = np.asarray(result.df)
            if not np.isfinite(matrix).all() or not near.agrees(matrix):
                continue
            # What differences cannot tell from zero: their own error, and the rounding of F. That
            # by half an ulp at every point is at most .85·EPS·|F| over the smallest step: the
            # weights of order 8 over steps h, 2h, 4h, 8h are at most 1.7/h in sum. Their own error,
            # a difference of two estimates, is 0 by chance where all is rounding.
            smallest = step / 2.0 ** (result.nit + 2)
            rounding = np.maximum(2 * EPS / smallest, ROUNDING / scale) * np.abs(value)[:, None]
            error = np.maximum(result.error, rounding)
            dust = (np.abs(matrix) <= 10 * error).all(axis=0)
            if (
                dust.any()
                and (10 * error > 0.1 * _secants(columns, point, value, own))[:, dust].any()
            ):
                break  # the differences cannot tell such a slope from none
            size = np.where(dust, 1.0, np.linalg.norm(matrix, axis=0))
            doubt = np.where(dust, 0.0, error / size)
            if (doubt <= REFUSED).all():
                near.require_no_kink(np.where(dust, 0.0, size))
                return np.where(dust, 0.0, matrix), 10 * float(doubt.max(initial=0.0))
    raise NumericalFailure(
        "The numerical derivative of F does not settle at this theta: F is not smooth there, not "
        "deterministic, undefined nearby, or its values have too different scales for "
        "differences or are so large that their changes drown in rounding (take a constant off). "
        "Pass jacobian=..."
    )


def _secants(columns: Callable[[Array], Array], point: Array, value: Array, scale: Array) -> Array:
    """(m, n): the largest |F(θ + h) − F(θ − h)|/2h over long steps; ∞ where all is rounding.

    Rounding is what changes as much over tiny steps, or less than a unit in the last place.
    """

    def changes(steps: tuple[float, ...]) -> tuple[Array, Array]:
        sizes = [h * size for h in steps for size in (scale, np.maximum(scale, 1.0))]
        ends = [[columns(point[:, None] + np.diag(h)) for h in (size, -size)] for size in sizes]
        odd = np.array([np.nan_to_num(np.abs(ahead - behind)) for ahead, behind in ends])
        return odd, odd / (2 * np.array(sizes)[:, None])

    noise = np.maximum(changes((TINY, 0.1 * TINY))[0].max(axis=0), EPS * np.abs(value)[:, None])
    odd, slopes = changes(LONG)
    seen = np.where(odd > 2 * noise, slopes, 0.0).max(axis=0)
    return np.where(seen > 0, seen, np.inf)


class _Near:
    """Plain differences of F over a tiny and a small step."""

    def __init__(
        self, columns: Callable[[Array], Array], point: Array, value: Array, scale: Array
    ) -> None:
        def both(step: Array) -> tuple[Array, Array]:
            ahead = columns(point[:, None] + np.diag(step))
            behind = columns(point[:, None] - np.diag(step))
            return (ahead - behind) / (2 * step), np.abs(ahead - 2 * value[:, None] + behind) / step

        _, self.wide_bend = both(1e2 * TINY * scale)
        self.slope, self.bend = both(TINY * scale)
        # Rounding of F (whose terms may be larger than F itself) over the tiny step.
        self.floor = 1e-6 * np.maximum(np.abs(value)[:, None], 1e-3 * np.abs(value).max()) / scale

    def agrees(self, matrix: Array) -> bool:
        size = np.linalg.norm(matrix, axis=0)
        apart = np.abs(matrix - self.slope)
        return bool((apart <= AGREEMENT * size + self.floor).all())

    def require_no_kink(self, size: Array) -> None:
        """Refuse where the slopes from the left and from the right differ: |x| at 0, say.

        For a smooth F the difference of the two slopes falls with the step, at a kink it stays.
        """
        visible = 1e-3 * size + self.floor
        if ((self.bend > 0.3 * self.wide_bend) & (self.bend > visible)).any():
            raise NumericalFailure(
                "F has a kink at this theta (its slopes on the two sides differ), so it has no "
                "derivative there. The bound assumes a differentiable F; take another theta, or "
                "pass jacobian=..."
            )


def _value_or_nan(point: Array, function: Callable[[Array], ArrayLike], size: int) -> Array:
    """F where a trial step may leave its domain: NaN there, no warning, no error."""
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(function(point.copy()), dtype=float)
        except (ValueError, ArithmeticError):
            return np.full(size, np.nan)
    return found if found.shape == (size,) else np.full(size, np.nan)

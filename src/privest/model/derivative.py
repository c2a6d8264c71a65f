"""A numerical Jacobian that knows its own error, and refuses where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array
from privest.errors import NumericalFailure

REFUSED = 1e-6  # relative error at which a derivative is not accepted
ROUNDING = 1e-12  # of |F| over the scale of θ: rounding of F divided by the smallest steps taken


def numerical_jacobian(
    function: Callable[[Array], ArrayLike], point: Array, value: Array
) -> tuple[Array, float]:
    """F'(θ) (m, n) at `point`, where F is `value`, and the relative error of its columns.

    Central differences of rising order with shrinking steps (scipy.differentiate). Columns
    that their own error hides are zero. Raises NumericalFailure where the steps do not settle
    or the slopes of the two sides differ.
    """

    def columns(points: Array) -> Array:
        # scipy asks for many points at once along the trailing axes; F takes one.
        return np.apply_along_axis(_value_or_nan, 0, points, function, len(value))

    # The scale on which F bends is not known: of the order of one, or of θ itself.
    for scale in (np.maximum(np.abs(point), 1.0), np.where(point == 0.0, 1.0, np.abs(point))):
        result = scipy.differentiate.jacobian(columns, point, initial_step=0.1 * scale)
        matrix = np.asarray(result.df)
        if not np.isfinite(matrix).all():
            continue
        # What differences of F cannot tell from zero: their own error, and the rounding of F.
        error = np.maximum(result.error, ROUNDING * np.abs(value)[:, None] / scale)
        size, doubt = np.linalg.norm(matrix, axis=0), np.linalg.norm(error, axis=0)
        unsettled = np.where(result.success, 0.0, result.error)
        if (unsettled <= REFUSED * size.max(initial=0.0)).all():
            _require_no_kink(columns, point, value, scale, size)
            dust = size <= 10 * doubt
            relative = np.where(dust, 0.0, doubt / np.where(dust, 1.0, size))
            return np.where(dust, 0.0, matrix), 10 * float(relative.max(initial=0.0))
    raise NumericalFailure(
        "The numerical derivative of F does not settle at this theta: F is not smooth "
        "there, not deterministic, or undefined nearby. Pass jacobian=..."
    )


def _require_no_kink(
    columns: Callable[[Array], Array], point: Array, value: Array, scale: Array, size: Array
) -> None:
    """Refuse where the slopes from the left and from the right differ: |x| at 0, say.

    Of a smooth F the difference of the two slopes falls with the step, at a kink it stays.
    """

    def bend(step: Array) -> Array:
        ahead = columns(point[:, None] + np.diag(step))
        behind = columns(point[:, None] - np.diag(step))
        return np.abs(ahead - 2.0 * value[:, None] + behind) / step

    wide, narrow = bend(1e-4 * scale), bend(1e-6 * scale)
    # Rounding of F (whose terms may be larger than F itself) is far below both of these.
    visible = 1e-3 * size + 1e-6 * np.abs(value).max() / scale
    if ((narrow > 0.3 * wide) & (narrow > visible)).any():
        raise NumericalFailure(
            "F has a kink at this theta (its slopes on the two sides differ), so it has no "
            "derivative there. The bound assumes a differentiable F; take another theta, or "
            "pass jacobian=..."
        )


def _value_or_nan(point: Array, function: Callable[[Array], ArrayLike], readings: int) -> Array:
    """F where a trial step may leave its domain: NaN there, no warning, no error."""
    with np.errstate(all="ignore"):
        try:
            return np.asarray(function(point.copy()), dtype=float)
        except (ValueError, ArithmeticError):
            return np.full(readings, np.nan)

"""The Loewner order A ≤ B (B − A positive semi-definite), with its tolerance stated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.linalg._psd import PSD
from privest.linalg.tolerances import rounding
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Order(Record):
    """Verdict on A ≤ B.

    `margin` is the smallest eigenvalue of B − A, `tolerance` what rounding may take from it,
    `direction` the unit eigenvector of the margin (where the order is tightest or broken).
    """

    holds: bool
    margin: float
    tolerance: float
    direction: Array

    def __bool__(self) -> bool:
        return self.holds


def loewner(lower: ArrayLike | PSD, upper: ArrayLike | PSD, *, rtol: float | None = None) -> Order:
    """Decide A ≤ B: λ_min(B − A) ≥ −rtol·max(‖A‖, ‖B‖).

    `rtol` defaults to 10·n·eps, the rounding of the eigenvalues themselves; give a larger one
    when A and B carry errors of their own. Diagonal structures are compared entry by entry.

    >>> bool(loewner([[1.0, 0.0], [0.0, 2.0]], [[2.0, 1.0], [1.0, 3.0]]))
    True
    >>> loewner([1.0, 2.0], [2.0, 1.5]).margin
    -0.5
    """
    first, second = _pointwise(lower), _pointwise(upper)
    if first is not None and second is not None:
        a, b = first, second
        if a.shape != b.shape or a.size == 0:
            raise InvalidInput(
                f"The Loewner order compares matrices of one size; received {len(a)} and {len(b)}."
            )
        sizes = np.abs(a).max(), np.abs(b).max()
        gap = b - a
        worst = int(gap.argmin())
        margin, direction = float(gap[worst]), np.zeros(len(gap))
        direction[worst] = 1.0
    else:
        a, b = _dense(lower), _dense(upper)
        if a.shape != b.shape or a.shape[0] != a.shape[-1]:
            raise InvalidInput(
                f"The Loewner order compares square matrices of one size; "
                f"received {a.shape} and {b.shape}."
            )
        sizes = np.linalg.norm(a, 2), np.linalg.norm(b, 2)
        values, vectors = np.linalg.eigh((b - a + (b - a).T) / 2)
        margin, direction = float(values[0]), vectors[:, 0]
    tolerance = float(max(sizes)) * (rounding(len(direction)) if rtol is None else rtol)
    return Order(margin >= -tolerance, margin, tolerance, direction)


def _pointwise(matrix: ArrayLike | PSD) -> Array | None:
    if isinstance(matrix, PSD):
        return None if matrix.pointwise is None else matrix.diagonal()
    array = as_array(matrix, "a side of the order", ndim=(1, 2))
    return array if array.ndim == 1 else None


def _dense(matrix: ArrayLike | PSD) -> Array:
    if isinstance(matrix, PSD):
        return matrix.dense()
    array = as_array(matrix, "a side of the order", ndim=(1, 2))
    return array if array.ndim == 2 else np.diag(array)

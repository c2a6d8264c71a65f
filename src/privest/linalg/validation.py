"""Levels and covariances that a user passes, checked and structured; the Loewner order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg._psd import PSD, Blocks, Diagonal, Scalar
from privest.linalg.tolerances import ASYMMETRY, LARGEST, SMALLEST, rounding


def psd(value: ArrayLike, name: str, *, size: int | None = None) -> PSD:
    """A number (with `size`), a vector (diagonal), a matrix or blocks (K, b, b), checked to be PSD.

    >>> psd([[2.0, 1.0], [1.0, 2.0]], "S").rank, psd([[1.0, 1.0], [1.0, 1.0]], "S").rank
    (2, 1)
    """
    array = as_array(value, name, ndim=(0, 1, 2, 3))
    if array.size == 0:
        raise InvalidInput(f"{name} is empty (shape {array.shape}).")
    if array.ndim == 0:
        _require_nonnegative(array.reshape(1), name)
        if size is None:
            raise InvalidInput(f"{name} is a number: its size must be given.")
        return Scalar(float(array), size)
    length = len(array) * (array.shape[1] if array.ndim == 3 else 1)
    if size is not None and length != size:
        raise InvalidInput(
            f"{name} must have size {size}; received an array of shape {array.shape}."
        )
    if array.ndim == 1:
        _require_nonnegative(array, name)
        return Diagonal(array.copy())
    return _checked_blocks([array if array.ndim == 3 else array[None]], name)


def psd_blocks(matrices: Sequence[ArrayLike], name: str) -> PSD:
    """Matrices of any sizes as blocks along the diagonal, checked to be PSD."""
    if len(matrices) == 0:
        raise InvalidInput(f"{name} has no blocks.")
    arrays = [
        as_array(matrix, f"block {k} of {name}", ndim=2)[None] for k, matrix in enumerate(matrices)
    ]
    if len({array.shape for array in arrays}) == 1:
        arrays = [np.concatenate(arrays)]
    return _checked_blocks(arrays, name)


def _checked_blocks(stacks: list[Array], name: str) -> PSD:
    stacks = [_symmetric(stack, name) for stack in stacks]
    if all(_is_diagonal(stack) for stack in stacks):
        diagonal = np.concatenate(
            [np.diagonal(stack, axis1=-2, axis2=-1).ravel() for stack in stacks]
        )
        _require_nonnegative(diagonal, name)
        return Diagonal(diagonal)
    result = Blocks(stacks[0] if len(stacks) == 1 else [stack[0] for stack in stacks])
    _require_semidefinite(result, name)
    return result


def _is_diagonal(stack: Array) -> bool:
    if stack.shape[-1] > 1 and stack[0, 0, 1] != 0:  # the usual dense matrix: no second look
        return False
    diagonal = np.diagonal(stack, axis1=-2, axis2=-1)
    return bool(np.count_nonzero(stack) == np.count_nonzero(diagonal))


def _symmetric(stack: Array, name: str) -> Array:
    if stack.shape[-2] != stack.shape[-1] or stack.size == 0:
        raise InvalidInput(
            f"{name} must be square and not empty; received shape {stack.shape[-2:]}."
        )
    transposed = stack.transpose(0, 2, 1)
    if all(  # in strips: a whole transposed matrix would be read against the grain of the cache
        np.array_equal(stack[:, at : at + 256, at:], transposed[:, at : at + 256, at:])
        for at in range(0, stack.shape[-1], 256)
    ):
        return np.array(stack, order="C")
    gap = np.abs(stack - transposed)
    size = np.sqrt(np.abs(np.diagonal(stack, axis1=-2, axis2=-1)))
    excess = gap - ASYMMETRY * size[:, :, None] * size[:, None, :]
    if excess.max() > 0:
        block, i, j = (int(k) for k in np.unravel_index(excess.argmax(), gap.shape))
        where = "" if len(stack) == 1 else f" of block {block}"
        raise InvalidInput(
            f"{name} must be symmetric; entries ({i}, {j}) and ({j}, {i}){where} differ by "
            f"{gap[block, i, j]:.3g}. If the asymmetry is rounding, average it with its transpose."
        )
    return (stack + transposed) / 2


def _require_nonnegative(values: Array, name: str) -> None:
    worst = int(values.argmin())
    if values[worst] < 0:
        where = "" if values.size == 1 else f" at index {worst}"
        raise InvalidInput(
            f"{name} must be positive semi-definite (no negative entry on its diagonal); "
            f"it has eigenvalue {values[worst]:.6g}{where}."
        )


def _require_semidefinite(matrix: Blocks, name: str) -> None:
    for (_, stack), factor in zip(matrix.groups, matrix.factors):
        worst = int(factor.excess.argmin())
        if factor.excess[worst] < -1:
            smallest = np.linalg.eigvalsh(stack[worst])[0]
            raise InvalidInput(
                f"{name} must be positive semi-definite; it has eigenvalue {smallest:.6g}, "
                "beyond rounding (1e-11 relative to its diagonal). A measurement that is meant to "
                "be hidden needs a row and column of exact zeros."
            )


def require_units(matrix: Array, name: str) -> None:
    """NumericalFailure where squares of a column of H (m, n) leave the range of doubles."""
    size = np.abs(matrix).max(axis=0)
    bad = np.flatnonzero((size > LARGEST**0.5) | ((size < SMALLEST**0.5) & (size > 0)))
    if bad.size:
        raise NumericalFailure(
            f"column {bad[0]} of {name} is of the order {size[bad[0]]:.0e}: its squares leave the "
            "range of doubles. Scale it (another unit of that parameter)."
        )


@dataclass(frozen=True, eq=False)
class Order:
    """Verdict on A ≤ B: the least eigenvalue of B − A, its tolerance and its eigenvector."""

    holds: bool
    margin: float
    tolerance: float
    direction: Array

    def __bool__(self) -> bool:
        return self.holds


def loewner(lower: ArrayLike | PSD, upper: ArrayLike | PSD, *, rtol: float | None = None) -> Order:
    """The Loewner order A ≤ B: λ_min(B − A) ≥ −rtol·max(‖A‖, ‖B‖); rtol defaults to 10·n·eps.

    >>> bool(loewner([[1.0, 0.0], [0.0, 2.0]], [[2.0, 1.0], [1.0, 3.0]]))
    True
    """
    a, b = (_dense(side) for side in (lower, upper))
    if a.shape != b.shape or a.shape[0] != a.shape[-1] or not a.size:
        raise InvalidInput(
            f"The Loewner order compares square matrices of one size; received {a.shape} and "
            f"{b.shape}."
        )
    size = max(np.linalg.norm(a, 2), np.linalg.norm(b, 2))
    values, vectors = np.linalg.eigh((b - a + (b - a).T) / 2)
    tolerance = float(size) * (rounding(len(a)) if rtol is None else rtol)
    return Order(bool(values[0] >= -tolerance), float(values[0]), tolerance, vectors[:, 0])


def _dense(matrix: ArrayLike | PSD) -> Array:
    if isinstance(matrix, PSD):
        return matrix.dense()
    array = as_array(matrix, "a side of the order", ndim=(1, 2))
    return array if array.ndim == 2 else np.diag(array)

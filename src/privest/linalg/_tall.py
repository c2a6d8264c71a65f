"""The triangle of very many rows [g∘H, u∘z − v], in one pass over H and z.

Where the columns are well conditioned it is the Cholesky factor of the Gram matrix, which costs
little more than reading the rows; elsewhere a QR of chunks that stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array
from privest.linalg import _compiled as machine
from privest.linalg.tolerances import GRAM_CONDITION

CHUNK = 16384  # rows at a time: they stay in cache between the products
PAIRED = 2  # rows side by side: a wider, faster product whose off-diagonal blocks are dropped


def tall_triangle(
    matrix: Array,
    right: Array,
    weight: Array | float,
    unit: Array | float,
    shift: Array | float,
    *,
    compiled: bool | None = None,
) -> Array:
    """R of [g∘H, u∘z − v], (n + 1, n + 1).

    matrix H (m, n), right z (m,), weight g, unit u and shift v: numbers or vectors (m,).
    `compiled`: the Gram matrix by machine code (None: where numba is installed and m is large).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if machine.wanted(compiled, len(matrix)):
            gram = machine.gram(matrix, right, weight, unit, shift)
        elif np.ndim(weight) or np.ndim(unit) or np.ndim(shift):
            gram = _weighted_gram(matrix, right, weight, unit, shift)
        else:
            gram = _plain_gram(matrix, right, float(weight), float(unit), float(shift))
    scale = np.sqrt(np.diagonal(gram))
    if (scale > 1e-125).all() and (scale < 1e125).all():
        correlation = gram / scale / scale[:, None]
        values = np.linalg.eigvalsh(correlation)
        if values[0] * GRAM_CONDITION > values[-1]:
            return np.asfortranarray(np.linalg.cholesky(correlation).T * scale)
    return _triangle_by_qr(matrix, right, weight, unit, shift)


def _plain_gram(matrix: Array, right: Array, weight: float, unit: float, shift: float) -> Array:
    """The Gram matrix where the weights are numbers: nothing is copied."""
    n = matrix.shape[1]
    own, crossed, total = np.zeros((n, n)), np.zeros(n), 0.0
    for at in range(0, len(matrix), CHUNK):
        rows, values = matrix[at : at + CHUNK], right[at : at + CHUNK]
        if shift:
            values = values - shift / unit
        if len(rows) % PAIRED == 0 and rows.flags.c_contiguous:
            wide, pairs = rows.reshape(-1, PAIRED * n), values.reshape(-1, PAIRED)
            own += _diagonal_sum(wide.T @ wide, n)
            crossed += _diagonal_sum(wide.T @ pairs, n, 1)[:, 0]
        else:
            own += rows.T @ rows
            crossed += rows.T @ values
        total += float(values @ values)
    gram = np.empty((n + 1, n + 1))
    gram[:n, :n] = weight**2 * own
    gram[:n, n] = gram[n, :n] = weight * unit * crossed
    gram[n, n] = unit**2 * total
    return gram


def _diagonal_sum(product: Array, rows: int, columns: int | None = None) -> Array:
    """The sum of the diagonal blocks."""
    columns = rows if columns is None else columns
    return product[:rows, :columns] + product[rows:, columns:]


def _weighted_gram(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Array:
    n = matrix.shape[1]
    gram = np.zeros((n + 1, n + 1))
    for rows in _weighted_chunks(matrix, right, weight, unit, shift):
        gram += rows.T @ rows
    return gram


def _triangle_by_qr(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Array:
    n = matrix.shape[1]
    triangle = np.zeros((n + 1, n + 1), order="F")
    for rows in _weighted_chunks(matrix, right, weight, unit, shift):
        triangle = scipy.linalg.lapack.dtpqrt(0, n + 1, triangle, rows, overwrite_a=1)[0]
    return triangle


def _weighted_chunks(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Iterator[Array]:
    n = matrix.shape[1]
    step = CHUNK // 2
    buffer = np.empty((min(step, len(matrix)), n + 1))
    for at in range(0, len(matrix), step):
        part = slice(at, min(at + step, len(matrix)))
        rows = buffer[: part.stop - at]
        np.multiply(matrix[part], _column(weight, part), out=rows[:, :n])
        np.multiply(right[part, None], _column(unit, part), out=rows[:, n:])
        rows[:, n:] -= _column(shift, part)
        yield rows


def _column(value: Array | float, part: slice) -> Array:
    """A part of a vector as a column, or the number."""
    array = np.asarray(value)
    return array[part, None] if array.ndim else array

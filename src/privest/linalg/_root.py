"""Triangular roots of information matrices: R with RᵀR = GᵀG for tall rows G (m, n).

Inverse, rank and hidden directions come from R, which keeps twice the digits of RᵀR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.errors import NotIdentifiable, NumericalFailure
from privest.linalg.batched import substitute
from privest.linalg.tolerances import GRAM_CONDITION, LARGEST, SEEN, SMALLEST, rounding

TINY = float(np.finfo(float).tiny)  # below it digits are lost
CHUNK_ENTRIES = 2**16  # half a megabyte of doubles: stays in cache during one pass


def require_range(matrices: Array, what: str, positive: Flags | None = None) -> Array:
    """Matrices (…, n, n) ≥ 0, or NumericalFailure where entries over- or (`positive`) underflow."""
    diagonal = matrices.diagonal(axis1=-2, axis2=-1)
    large = not np.isfinite(matrices).all()
    if not large and (not diagonal.size or diagonal.min() >= TINY):
        return matrices
    small = diagonal < TINY
    if large or (small if positive is None else small & positive).any():
        raise NumericalFailure(
            f"{what} are too {'large' if large else 'small'} for numbers: H, the level or the "
            "variance of the noise is out of range. Choose other units for parameters or "
            "measurements, or another level."
        )
    return matrices


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
class InformationRoot:
    """Upper-triangular R (n, n) of an information matrix RᵀR.

    column_scale  (n,): size of column j had nothing cancelled; the rank is relative to it.
    tolerance     singular values below it count as zero; `least`: a known floor of them.
    """

    triangle: Array
    column_scale: Array
    tolerance: float
    least: float = 0.0

    @property
    def information(self) -> Array:
        """RᵀR. Raises NumericalFailure where it leaves the range of numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.triangle.T @ self.triangle
        seen = np.asarray(self.triangle.any(axis=0))
        return require_range(found, "the entries of the information", seen)

    @cached_property
    def _inverted(self) -> tuple[Array, int]:
        """(RᵀR)⁻¹, and the first zero on the diagonal of R, from 1; 0 for none."""
        root, zero = scipy.linalg.lapack.dtrtri(self.triangle)
        with np.errstate(over="ignore", invalid="ignore"):
            return root @ root.T, zero

    def _surely_full(self) -> bool:
        """Whether 1/‖R⁻¹‖ (columns scaled) is above 100 times the tolerance: full rank."""
        inverse, zero = self._inverted
        with np.errstate(over="ignore", invalid="ignore"):
            size = self.column_scale**2 @ inverse.diagonal()
        return not zero and bool(size * (100.0 * self.tolerance) ** 2 < 1.0)

    @cached_property
    def _scaled(self) -> tuple[Array, Array, Array]:
        scale = np.where(self.column_scale > 0, self.column_scale, 1.0)
        _, values, right = np.linalg.svd(self.triangle / scale)
        return values, right, scale

    @property
    def rank(self) -> int:
        """Number of identifiable directions of θ."""
        if self.least > self.tolerance or self._surely_full():
            return len(self.triangle)
        values, _, _ = self._scaled
        return int((values > self.tolerance).sum())

    @property
    def condition(self) -> float:
        """Condition number of R with its columns scaled."""
        return float(np.linalg.cond(self.triangle / self._scaled[2]))

    @property
    def hidden(self) -> Array:
        """Orthonormal basis (n, n − rank) of the directions v with R v = 0."""
        _, right, scale = self._scaled
        null = right[self.rank :].T * (scale.min() / scale)[:, None]  # any common factor will do
        return np.linalg.qr(null)[0] if null.shape[1] else null

    @property
    def null_space(self) -> tuple[Array, Array, float]:
        """(units of the columns, hidden directions in them, their rounding)."""
        values, right, scale = self._scaled
        rank = self.rank
        least = float(values[rank - 1]) if rank else 1.0
        return scale, right[rank:].T, self.tolerance / least

    @property
    def row_space(self) -> tuple[Array, Array]:
        """(units of the columns, orthonormal basis (n, rank) of the row space in them)."""
        _, right, scale = self._scaled
        return scale, right[: self.rank].T

    def with_tolerance(self, tolerance: float) -> InformationRoot:
        """The same root where the rows carry a relative error."""
        return self if tolerance <= self.tolerance else replace(self, tolerance=tolerance)

    def inverse(self, *, graded: bool = False) -> Array:
        """(RᵀR)⁻¹. `graded`: rows of full rank and very different weights; only a zero counts."""
        n = len(self.triangle)
        if not np.diagonal(self.triangle).all() if graded else self.rank < n:
            raise NotIdentifiable(
                f"the information matrix has rank {self.rank} of {n}", self.hidden
            )
        return require_range(self._inverted[0], "the variances of the parameters")


def root_of_rows(
    rows: Array, column_scale: Array | None = None, tolerance: float | None = None
) -> InformationRoot:
    """R from dense rows G (m, n) by QR; `tolerance` defaults to its rounding, 10·n·eps."""
    n = rows.shape[1]
    triangle = np.zeros((n, n))
    if len(rows):
        upper = np.linalg.qr(rows, mode="r")
        triangle[: len(upper)] = upper
    scale = np.linalg.norm(rows, axis=0) if column_scale is None else column_scale
    return InformationRoot(triangle, scale, rounding(n) if tolerance is None else tolerance)


def weighted_roots(matrix: Array, weights: Sequence[Array | float]) -> list[InformationRoot]:
    """R with RᵀR = Hᵀ diag(w) H for each weight w ≥ 0, a number or (m,), in one pass over H.

    Cholesky of the Gram matrix where the scaled columns have a condition below 100, else QR.
    """
    vectors = [w for w in weights if isinstance(w, np.ndarray)]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        plain, *weighted = _grams(matrix, vectors, plain=len(vectors) < len(weights))
        rest = iter(weighted)
        grams = np.array([next(rest) if isinstance(w, np.ndarray) else w * plain for w in weights])
    diagonals = grams.diagonal(0, 1, 2)
    if not SMALLEST < diagonals.min() <= diagonals.max() < LARGEST:
        return [_extreme_root(matrix, w) for w in weights]
    scales = np.sqrt(diagonals)
    correlations = grams / scales[:, None, :] / scales[:, :, None]
    values = np.linalg.eigvalsh(correlations)
    good = values[:, 0] * GRAM_CONDITION > values[:, -1]
    if not good.all():
        correlations[~good] = np.eye(matrix.shape[1])  # these go another way
    triangles = np.linalg.cholesky(correlations).transpose(0, 2, 1) * scales[:, None, :]
    tolerance = rounding(matrix.shape[1])
    return [
        InformationRoot(triangle, scale, tolerance, SEEN) if fine else _root_by_qr(matrix, weight)
        for triangle, scale, fine, weight in zip(triangles, scales, good.tolist(), weights)
    ]


def _extreme_root(matrix: Array, weight: Array | float) -> InformationRoot:
    """The root by QR after scaling the columns and the weight to the order of one."""
    top = np.maximum(np.abs(matrix).max(axis=0), np.finfo(float).tiny)
    heaviest = float(np.max(weight)) or 1.0
    scaled = weight / heaviest
    root = _root_by_qr(matrix / top, scaled)
    with np.errstate(over="ignore"):
        size = top * np.sqrt(heaviest)
    if not np.isfinite(size).all():
        raise NumericalFailure(
            "a column of the model in units of its noise is beyond the range of doubles: state it "
            "in other units."
        )
    seen = np.abs(matrix).max(axis=0) > 0
    scale = np.where(seen, root.column_scale * size, 0)
    return replace(root, triangle=root.triangle * size, column_scale=scale)


def _root_by_qr(matrix: Array, weight: Array | float) -> InformationRoot:
    triangle: Array = np.zeros((0, matrix.shape[1]))
    if isinstance(weight, np.ndarray) and weight.min() < 1e-8 * weight.max():
        # Heavy rows first: then QR does not drown the light ones in the rounding of the heavy.
        order = np.argsort(-weight, kind="stable")
        matrix, weight = matrix[order], weight[order]
    for part in _chunks(matrix):
        root = np.sqrt(weight[part])[:, None] if isinstance(weight, np.ndarray) else np.sqrt(weight)
        rows = np.concatenate([triangle, root * matrix[part]])
        triangle = np.asarray(np.linalg.qr(rows, mode="r"))
    return root_of_rows(triangle, None, rounding(matrix.shape[1]))


def _grams(matrix: Array, weights: Sequence[Array], *, plain: bool) -> list[Array]:
    n = matrix.shape[1]
    grams: list[Array] = [np.zeros((n, n)) for _ in range(1 + len(weights))]
    for part in _chunks(matrix):
        rows = matrix[part]
        if plain:
            grams[0] += rows.T @ rows
        for gram, weight in zip(grams[1:], weights):
            gram += (rows * weight[part, None]).T @ rows
    return grams


def _chunks(matrix: Array) -> Iterator[slice]:
    rows, n = matrix.shape
    step = max(CHUNK_ENTRIES // n, 4 * n)
    return (slice(at, at + step) for at in range(0, rows, step))


def weighted_grams(matrix: Array, count: int, weights: Callable[[slice], Array]) -> Array:
    """Hᵀ diag(w_k) H, (count, n, n), in one pass; `weights(part)`: (count, rows) of these rows."""
    n = matrix.shape[1]
    grams = np.zeros((count, n * n))
    step = max(CHUNK_ENTRIES // max(count, n * n), 1)
    for at in range(0, len(matrix), step):
        part = slice(at, at + step)
        rows = matrix[part]
        grams += weights(part) @ (rows[:, :, None] * rows[:, None, :]).reshape(-1, n * n)
    return grams.reshape(count, n, n)


def least_squares(rows: Array, right: Array) -> tuple[Array, InformationRoot]:
    """θ̂ = argmin ‖G θ − b‖ by QR, b (m,) or (m, k), and the root of its information.

    Raises NotIdentifiable.
    """
    orthogonal, triangle = np.linalg.qr(rows)
    root = root_of_rows(triangle, np.linalg.norm(rows, axis=0))
    if root.rank < rows.shape[1]:
        raise NotIdentifiable(
            f"the least-squares problem has rank {root.rank} of {rows.shape[1]}", root.hidden
        )
    return substitute(triangle, orthogonal.T @ right), root

"""Cholesky and triangular solves on stacks of symmetric blocks (B, b, b).

One block goes to LAPACK, many to NumPy's batched routines or column by column (`*_of_many`).
Nothing is ever added to a diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.linalg.tolerances import GRAM_CONDITION, SAFE_PIVOT, rank_tolerance

# OpenBLAS crashes in a threaded dpotrf near 16000 rows: larger ones are factored in panels.
LAPACK_LIMIT = 12_000


class Factor(NamedTuple):
    """L (B, b, b) with stack = L Lᵀ, zero columns last.

    columns     the largest rank in the stack.
    triangular  every block is numerically positive definite, L its Cholesky factor.
    spread      λ_max/√λ_min of the eigenvalues kept: rounding turns the range of L by m·eps of it.
    excess      least scaled eigenvalue of each block over its tolerance; < −1: not PSD.
    """

    lower: Array
    columns: int
    triangular: bool
    spread: float
    excess: Array

    def transpose_times(self, right: Array) -> Array:
        """Lᵀ X for X (B, b, k), without the zero rows: (B, columns, k)."""
        if self.triangular and len(right) == 1:
            return np.asarray(
                scipy.linalg.blas.dtrmm(1.0, self.lower[0], right[0], lower=1, trans_a=1)
            )[None]
        return self.lower[:, :, : self.columns].transpose(0, 2, 1) @ right


def cholesky(stack: Array, *, overwrite: bool = False) -> Array | None:
    """L with stack = L Lᵀ; None if the least eigenvalue of a scaled block is at most 1e-11.

    Pivots above 1e-4 are proof; smaller ones are looked at again. `overwrite` may destroy the stack
    and leave numbers above the diagonal of L.
    """
    diagonal = np.diagonal(stack, axis1=-2, axis2=-1).copy()
    if not (diagonal > 0).all():
        return None
    if len(stack) == 1:
        single = _potrf(stack[0], overwrite)
        if single is None:
            return None
        lower = single[None]
    else:
        try:
            lower = np.linalg.cholesky(stack)
        except np.linalg.LinAlgError:
            return None
    pivots = np.diagonal(lower, axis1=-2, axis2=-1) ** 2
    if (pivots > SAFE_PIVOT * diagonal).all():
        return lower
    scaled = lower / np.sqrt(diagonal)[:, :, None]
    if len(stack) == 1:
        smallest, _ = scipy.linalg.lapack.dpocon(scaled[0], 1.0, uplo="L")  # 1/‖K⁻¹‖₁ ≤ λ_min
    else:
        smallest = np.linalg.eigvalsh(scaled @ scaled.transpose(0, 2, 1))[:, 0].min()
    return lower if smallest > rank_tolerance(stack.shape[-1]) else None


def _potrf(matrix: Array, overwrite: bool) -> Array | None:
    size = len(matrix)
    if size <= LAPACK_LIMIT:
        # The transpose of a C-ordered symmetric matrix is what Fortran wants, without a copy.
        lower, info = scipy.linalg.lapack.dpotrf(
            matrix.T, lower=1, clean=int(not overwrite), overwrite_a=int(overwrite)
        )
        return lower if info == 0 else None
    upper = matrix if overwrite else np.triu(matrix)
    width = max(LAPACK_LIMIT // 6, 1)
    for start in range(0, size, width):
        stop = min(start + width, size)
        corner = _potrf(np.ascontiguousarray(upper[start:stop, start:stop]), False)
        if corner is None:
            return None
        panel = scipy.linalg.solve_triangular(
            corner, upper[start:stop, stop:], lower=True, check_finite=False
        )
        upper[start:stop, start:stop], upper[start:stop, stop:] = corner.T, panel
        for at in range(stop, size, width):
            part = panel[:, at - stop :]
            upper[at : at + width, at:] -= part[:, :width].T @ part
    return np.asarray(upper.T)


def solve_lower(lower: Array, right: Array) -> Array:
    """L⁻¹ X for stacks L (B, b, b) lower-triangular and X (B, b, k)."""
    if len(lower) == 1:
        return substitute(lower[0], right[0], lower=True)[None]
    return np.linalg.solve(lower, right)


def substitute(
    triangle: Array, right: Array, *, lower: bool = False, transposed: bool = False
) -> Array:
    """T⁻¹X, or T⁻ᵀX, for one triangle T by BLAS (dtrtrs would wake all threads).

    Raises LinAlgError for a zero on the diagonal.
    """
    if right.size == 0:
        return np.zeros(right.shape)
    zero = np.flatnonzero(triangle.diagonal() == 0)
    if zero.size:
        raise np.linalg.LinAlgError(f"the triangle has a zero on its diagonal, at {zero[0]}.")
    turned = not triangle.flags.f_contiguous  # BLAS reads columns first
    given = triangle.T if turned else triangle
    low, trans = lower != turned, transposed != turned
    if right.size == len(right):
        solved = scipy.linalg.blas.dtrsv(given, right.ravel(), lower=low, trans=trans)
        return np.asarray(solved).reshape(right.shape)
    return np.asarray(scipy.linalg.blas.dtrsm(1.0, given, right, lower=low, trans_a=trans))


def add_identity(stack: Array) -> None:
    """Add 1 to each diagonal, in place."""
    diagonal = np.einsum("bii->bi", stack)  # a view
    diagonal += 1.0


def factor(stack: Array) -> Factor:
    """S = L Lᵀ for blocks of any rank: Cholesky where positive definite, else eigenvectors, turned.

    Eigenvalues of D^-½ S D^-½, D = diag S, within 1e-11 of the largest count as zero.
    """
    lower = cholesky(stack)
    if lower is not None:
        return Factor(lower, stack.shape[-1], True, 1.0, np.zeros(len(stack)))
    diagonal = np.diagonal(stack, axis1=-2, axis2=-1)
    vacant = diagonal <= 0
    size = np.sqrt(np.where(vacant, 1.0, diagonal))
    values, vectors = np.linalg.eigh(stack / size[:, :, None] / size[:, None, :])
    values, vectors = values[:, ::-1], vectors[:, :, ::-1]
    tolerance = rank_tolerance(stack.shape[-1]) * np.maximum(values[:, :1], 0.0)
    kept = values > tolerance
    columns = int(kept.sum(-1).max())
    roots = np.sqrt(np.where(kept, values, 0.0))
    turned = _without_turn(vectors * roots[:, None, :], columns, np.sqrt(tolerance))
    # A row of a measurement that reveals nothing is zero, not the rounding of the eigenvectors.
    lower = np.where(vacant, 0.0, size)[:, :, None] * turned
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(values[:, -1] < 0, values[:, -1] / tolerance[:, 0], 0.0)
    broken = (diagonal < 0).any(-1) | (vacant[:, :, None] & (stack != 0)).any((-2, -1))
    smallest = np.where(kept, values, np.inf).min(-1)
    spread = float((values[:, 0] / np.sqrt(smallest)).max(initial=1.0))
    return Factor(lower, columns, False, spread, np.where(broken, -np.inf, excess))


def _without_turn(root: Array, columns: int, tolerance: Array) -> Array:
    """The L with L Lᵀ = R Rᵀ of all RQ, Q orthogonal: pivoted rows are triangular.

    Signs of eigenvectors, and the basis of equal eigenvalues, differ between processors. L is the
    same on all of them: the pivot is the first row that is nearly as long as any.
    """
    nearly = 0.917  # no ratio of lengths that a level is likely to have
    result = np.zeros_like(root)
    for j in range(columns):
        lengths = np.linalg.norm(root, axis=2)
        longest = lengths.max(axis=1, keepdims=True)
        pivot = (lengths >= nearly * longest).argmax(axis=1)[:, None, None]
        row = np.take_along_axis(root, pivot, axis=1)
        length = np.where(longest > tolerance / 2, np.linalg.norm(row, axis=2), np.inf)
        direction = row / length[:, :, None]
        column = root @ direction.transpose(0, 2, 1)
        result[:, :, j] = column[:, :, 0]
        root = root - column @ direction
        np.put_along_axis(root, pivot, 0.0, axis=1)
    return result


def cholesky_of_many(stack: Array) -> tuple[Array, Flags]:
    """L (B, b, b), and (B,) which blocks are positive definite: pivots above 1e-11 of the diagonal.

    L is the identity for the others.
    """
    count, n, _ = stack.shape
    lower = np.zeros_like(stack)
    good = np.ones(count, dtype=bool)
    tolerance = rank_tolerance(n)
    for j in range(n):
        rest = stack[:, j:, j] - np.einsum("aik,ak->ai", lower[:, j:, :j], lower[:, j, :j])
        good &= (rest[:, 0] > tolerance * stack[:, j, j]) & (stack[:, j, j] > 0)
        pivot = np.sqrt(np.where(good, rest[:, 0], 1.0))
        lower[:, j:, j] = rest / pivot[:, None]
        lower[:, j, j] = pivot
    lower[~good] = np.eye(n)
    return lower, good


def triangular_inverse_of_many(lower: Array) -> Array:
    """L⁻¹ (B, b, b)."""
    found = np.zeros_like(lower)
    for j in range(lower.shape[-1]):
        row = -np.einsum("ak,akm->am", lower[:, j, :j], found[:, :j])
        row[:, j] += 1.0
        found[:, j] = row / lower[:, j, j, None]
    return found


def solve_of_many(lower: Array, right: Array) -> Array:
    """(L Lᵀ)⁻¹ x for x (B, trials, b)."""
    n = lower.shape[-1]
    found = right.copy()
    for j in range(n):
        found[..., j] -= np.einsum("atk,ak->at", found[..., :j], lower[:, j, :j])
        found[..., j] /= lower[:, j, j, None]
    for j in range(n - 1, -1, -1):
        found[..., j] -= np.einsum("atk,ak->at", found[..., j + 1 :], lower[:, j + 1 :, j])
        found[..., j] /= lower[:, j, j, None]
    return found


def inverse_of_many(stack: Array) -> tuple[Array, Flags]:
    """Inverses (B, b, b), and (B,) which are good to about 1e4·b·eps (‖L⁻¹‖² bounds cond)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a zero diagonal: not good
        scale = np.sqrt(stack.diagonal(0, 1, 2))
        unit = stack / scale[:, None, :] / scale[:, :, None]
        lower, good = cholesky_of_many(unit)
        inner = triangular_inverse_of_many(lower)
        size = np.einsum("aij,aij->a", inner, inner)
        inverse = inner.transpose(0, 2, 1) @ inner / scale[:, None, :] / scale[:, :, None]
    return inverse, good & (stack.shape[-1] * size < GRAM_CONDITION)

"""Lewis weights: public weights of rows that expose every value by the same amount.

A release of sums z = √c·Σ ℓ_i y_i + e with ‖ℓ_i‖ ≤ 1 has the level S = c·LLᵀ, S_ii ≤ c. With

    G = Σ x_i x_iᵀ/τ_i ,   τ_i = √(x_iᵀG⁻¹x_i) ,   ℓ_i = C⁻¹x_i/τ_i ,   G = CCᵀ

(ℓ1 Lewis weights, Cohen and Peng 2015) every S_ii is c, and S is D-optimal among all levels with
S_ii ≤ c where privacy dominates (`most_information` bounds the rest, for any σ²).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.aggregate._rows import FeatureRows
from privest.arrays import Array
from privest.errors import NotIdentifiable

CLOSE = 1e-3  # relative change of τ at which the iteration ends
PASSES = 60  # the change halves in each pass: 14 are usual
STARTED = 100_000  # rows that the iteration starts with
CERTIFIED = 2  # passes of the certificate
CUT = 2.5  # chosen from a grid on four designs (normal, heavy-tailed, rare features), 5 ≤ N ≤ 10⁴


@dataclass(frozen=True, eq=False)
class RowWeights:
    """ℓ_i = u_i/‖u_i‖, u_i = root·x_i; of `cut` weights u_i/max(1, ‖u_i‖). Rows x_i = 0 have 0."""

    root: Array
    cut: bool = False

    def of(self, X: Array) -> Array:
        """ℓ of some rows, (rows, n), each of norm at most 1 as the doubles that they are."""
        U = X @ self.root.T
        if not self.cut:  # else the squares of a tiny row are lost, and its norm is too small
            top = np.abs(U).max(axis=1, initial=0.0)
            U = U / np.where(top > 0, top, 1.0)[:, None]
        size = np.linalg.norm(U, axis=1)
        divisor = np.maximum(size, 1.0) if self.cut else np.where(size > 0, size, 1.0)
        room = 1 + (X.shape[1] + 8) * 2.0**-52  # of a norm, a quotient and a later product
        return np.asarray(U / (divisor * room)[:, None])


def lewis_weights(rows: FeatureRows, triangle: Array, *, many: float = 0.0) -> RowWeights:
    """The weights of the rows; `triangle` is R with RᵀR = HᵀH, of full rank.

    many  N = c·σ²·K/n, where it is large: u_i = √(fK/n)·C⁻¹x_i, G = Σ x_i x_iᵀ·min(1, 1/‖u_i‖),
          f = min(1, 2.5/√N): those of least squares, cut where a row would be exposed by more
          than c. The more rows, the fewer are cut.

    An error in G costs accuracy, never privacy.
    """
    basis = scipy.linalg.solve_triangular(triangle, np.eye(len(triangle)), trans="T")
    cut = many > 0
    scale = math.sqrt(rows.count / len(triangle) * min(1.0, CUT / math.sqrt(many))) if cut else 1.0
    start: Array = np.eye(len(triangle))
    if rows.count > 2 * STARTED:
        part = rows.some(STARTED)
        share = math.sqrt(sum(map(len, part)) / rows.count)
        try:
            found = _iterated(part, basis, start * share, cut, scale * share)
            start = found / (share if cut else share**2)  # G of copies: their number squared
        except NotIdentifiable:  # rare categories may be missing from a part of the rows
            start = np.eye(len(triangle))
    factor = _iterated(rows, basis, start, cut, scale)
    inverse = scipy.linalg.solve_triangular(factor, basis, lower=True)
    return RowWeights(scale * inverse, cut)


@dataclass(frozen=True, eq=False)
class Sums:
    """Public sums over the rows: what the accuracy of a release follows from.

    cross     B = Σ ℓ_i x_iᵀ. gram: Σ ℓ_i ℓ_iᵀ. features: HᵀH. sizes: (n,) Σ |ℓ_ij|.
    rows      rows that are not 0. distinct: different rows, up to n + 1.
    """

    cross: Array
    gram: Array
    features: Array
    sizes: Array
    rows: int
    distinct: int


def sums_of(blocks: Iterable[tuple[Array, Array]], n: int) -> Sums:
    """One pass over the rows x_i and their weights ℓ_i."""
    cross, gram, features = np.zeros((3, n, n))
    sizes, count, different = np.zeros(n), 0, np.zeros((0, n))
    for X, L in blocks:
        cross += L.T @ X
        gram += L.T @ L
        features += X.T @ X
        sizes += np.abs(L).sum(axis=0)
        count += int(X.any(axis=1).sum())
        if len(different) <= n:
            different = np.unique(np.concatenate([different, X]), axis=0)[: n + 1]
    return Sums(cross, gram, features, sizes, count, len(different))


def _iterated(rows: Iterable[Array], basis: Array, factor: Array, cut: bool, scale: float) -> Array:
    """C of the fixed point, in coordinates in which HᵀH = I."""
    for _ in range(PASSES):
        inverse = scipy.linalg.solve_triangular(factor, np.eye(len(basis)), lower=True)
        total = np.zeros_like(basis)
        for X in rows:
            Y = X @ basis.T
            size = np.linalg.norm(Y @ inverse.T, axis=1)
            if cut:
                weight = 1 / np.maximum(scale * size, 1.0)
            else:
                weight = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
            total += Y.T @ (Y * weight[:, None])
        moved = scipy.linalg.eigvalsh(inverse @ total @ inverse.T)
        if not moved[0] > 0:
            raise NotIdentifiable("these rows do not determine the coefficients.", np.eye(0))
        factor = np.linalg.cholesky(total)
        if np.abs(np.log(moved)).max() / 2 < CLOSE:
            break
    return factor


def most_information(
    blocks: Callable[[], Iterable[tuple[Array, Array]]], sums: Sums, level: float, variance: float
) -> float:
    """An upper bound on ln det PI(S) of every level S with S_ii ≤ c, proved from these weights.

    log det PI is concave in S (theory.md 8): with PI = HᵀL̃V⁻¹L̃ᵀH, V = I + σ²L̃ᵀL̃, L̃ = √c·L,
    F = (H − σ²L̃V⁻¹L̃ᵀH)·chol(PI⁻¹),

        ln det PI(S) ≤ ln det PI + c·Σp_i − ‖FᵀL̃‖²    for any p with λmax(Fᵀ diag(1/p) F) ≤ 1.

    Taken is p of the Lewis weights of F. Without privacy there is ln det HᵀH/σ², another bound.
    """
    B, N = math.sqrt(level) * sums.cross, level * sums.gram
    V = np.eye(len(B)) + variance * N
    solved = np.linalg.solve(V, B)
    information = B.T @ solved
    lower = np.linalg.cholesky(np.linalg.inv((information + information.T) / 2))
    moved = variance * math.sqrt(level) * solved
    inverse = np.eye(len(B))
    for _ in range(CERTIFIED):
        total, size, cross = np.zeros_like(B), 0.0, np.zeros_like(B)
        for X, L in blocks():
            F = (X - L @ moved) @ lower
            p = np.linalg.norm(F @ inverse.T, axis=1)
            total += F.T @ np.divide(F, p[:, None], out=np.zeros_like(F), where=p[:, None] > 0)
            size += float(p.sum())
            cross += F.T @ L
        factor = np.linalg.cholesky(total)
        inverse = scipy.linalg.solve_triangular(factor, np.eye(len(B)), lower=True)
    largest = float(scipy.linalg.eigvalsh(total)[-1])
    found = log_det(information) + level * (size * largest - float((cross**2).sum()))
    if variance == 0:
        return found
    return min(found, log_det(sums.features) - len(B) * math.log(variance))


def log_det(matrix: Array) -> float:
    """ln det of a positive definite matrix."""
    return float(np.linalg.slogdet(matrix)[1])

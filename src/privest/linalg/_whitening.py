"""The whitening kernel (theory.md 1).

For a level S = L Lᵀ and a noise covariance Σ the release z̃ = Lᵀy + e, e ~ N(0, I), of
y = Hθ + w is z̃ = LᵀH θ + noise of covariance

    V = LᵀΣL + I = C Cᵀ ,      G = C⁻¹LᵀH ,      PI = GᵀG .

S and Σ may be singular. NumericalFailure where rounding loses the "+ I".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import batched
from privest.linalg._psd import PSD, Blocks, aligned
from privest.linalg._root import InformationRoot, root_of_rows, weighted_roots
from privest.linalg.tolerances import GRADED, rank_tolerance


class Whitening(ABC):
    """C⁻¹Lᵀ, factored once; rows that carry nothing (S singular) or are `absent` are zero."""

    level: PSD

    def rows(self, right: Array) -> Array:
        """C⁻¹Lᵀ X for X (m, k)."""
        return self.whiten(self.level.factor_rows(right))

    @abstractmethod
    def whiten(self, release: Array) -> Array:
        """C⁻¹ z̃ for releases z̃ (m, k)."""


class PointwiseWhitening(Whitening):
    """S and Σ diagonal: V = diag(1 + s σ²), O(m)."""

    def __init__(self, level: PSD, covariance: PSD, absent: Flags | None = None) -> None:
        self.level = level
        self.deviation: Array = np.sqrt(1.0 + level.diagonal() * covariance.diagonal())[:, None]
        self.absent = absent

    def whiten(self, release: Array) -> Array:
        return _without(release / self.deviation, self.absent)


class BlockWhitening(Whitening):
    """S or Σ in blocks; a dense matrix is one block. O(Σ b³)."""

    absent: Flags | None

    def __init__(self, level: PSD, covariance: PSD, absent: Flags | None = None) -> None:
        if isinstance(level, Blocks) and isinstance(covariance, Blocks):
            level, covariance = aligned(level, covariance)
        self.level, self.absent = level, absent
        self.lower: list[tuple[Index, Array]] = []
        for rows, variance in _congruences(level, covariance):
            if variance.shape[-1] == 0:  # a group of blocks that reveals nothing
                continue
            if absent is not None:  # their part of V becomes the identity
                variance *= ~absent[rows][:, :, None] & ~absent[rows][:, None, :]
            batched.add_identity(variance)
            largest = variance.max()
            lower = batched.cholesky(variance, overwrite=True)
            if lower is None:
                raise NumericalFailure(
                    "The level is so large against the noise that rounding loses the unit release "
                    "noise: V = LᵀΣL + I is numerically singular "
                    f"(largest entry {largest:.3g}). Use a smaller level, "
                    "or a noise covariance that is not singular."
                )
            self.lower.append((rows, lower))

    @property
    def log_determinant(self) -> float:
        """ln |C|."""
        return sum(float(np.log(np.einsum("bii->bi", C)).sum()) for _, C in self.lower)

    def whiten(self, release: Array) -> Array:
        result = _without(release.astype(float), self.absent)
        given = release if self.absent is None else result.copy()
        for rows, lower in self.lower:
            result[rows] = batched.solve_lower(lower, given[rows])
        return result


def _without(rows: Array, absent: Flags | None) -> Array:
    if absent is not None:
        rows[absent] = 0.0
    return rows


def _congruences(level: PSD, covariance: PSD) -> Iterator[tuple[Index, Array]]:
    """(rows of z̃, LᵀΣL) of every group of blocks, without the zero columns of L."""
    if isinstance(level, Blocks) and isinstance(covariance, Blocks):
        for (rows, _), factor, (_, sigma) in zip(level.groups, level.factors, covariance.groups):
            yield rows[:, : factor.columns], _congruence(factor, sigma)
    elif isinstance(level, Blocks):
        deviation = np.sqrt(covariance.diagonal())
        for (rows, _), factor in zip(level.groups, level.factors):
            half = deviation[rows][:, :, None] * factor.lower[:, :, : factor.columns]
            yield rows[:, : factor.columns], half.transpose(0, 2, 1) @ half
    else:
        assert isinstance(covariance, Blocks)
        root = np.sqrt(level.diagonal())
        for rows, sigma in covariance.groups:
            yield rows, _scaled(sigma, root[rows])


def _scaled(stack: Array, unit: Array) -> Array:
    """diag(u) A diag(u) for stacks, in one pass if all u are equal."""
    if (unit == unit.flat[0]).all():
        return stack * unit.flat[0] ** 2
    scaled = stack * unit[:, :, None]
    scaled *= unit[:, None, :]
    return scaled


def _congruence(factor: batched.Factor, sigma: Array) -> Array:
    """LᵀΣL for stacks; LAPACK has a half-price routine for one triangular L."""
    if len(sigma) == 1 and factor.triangular:
        half: Array = np.tril(
            scipy.linalg.lapack.dsygst(sigma[0].T, factor.lower[0], itype=2, lower=1)[0]
        )
        return (half + np.tril(half, -1).T)[None]
    lower = factor.lower[:, :, : factor.columns]
    product = factor.transpose_times(sigma @ lower)
    return (product + product.transpose(0, 2, 1)) / 2


def whitening(level: PSD, covariance: PSD, absent: Flags | None = None) -> Whitening:
    """The kernel in the simplest structure; absent (m,): coordinates of z̃ not released."""
    if level.pointwise is not None and covariance.pointwise is not None:
        return PointwiseWhitening(level, covariance, absent)
    return BlockWhitening(level, covariance, absent)


def level_root(matrix: Array, level: PSD) -> InformationRoot:
    """Root of HᵀSH."""
    if level.pointwise is not None:
        return weighted_roots(matrix, [level.pointwise])[0]
    # Size of the columns had nothing cancelled: a hidden direction is rounding beside it.
    scale = np.sqrt(level.diagonal() @ matrix**2)
    spread = max(factor.spread for factor in level.factors) if isinstance(level, Blocks) else 1.0
    tolerance = rank_tolerance(max(matrix.shape)) * spread
    return root_of_rows(level.factor_rows(matrix), scale, tolerance)


def private_root(matrix: Array, level: PSD, covariance: PSD) -> InformationRoot:
    """Root of PI = Hᵀ X H with X = L(LᵀΣL + I)⁻¹Lᵀ (for S, Σ > 0: X = (S⁻¹ + Σ)⁻¹).

    One pass over H for diagonal S and Σ; one Cholesky for blocks S > 0 with diagonal Σ > 0.
    """
    s, sigma = level.pointwise, covariance.pointwise
    if s is not None and sigma is not None:
        return weighted_roots(matrix, [pointwise_weight(s, sigma)])[0]
    if isinstance(level, Blocks) and sigma is not None and level.positive_definite:
        root = _parallel_sum_root(matrix, level, covariance.diagonal())
        if root is not None:
            return root
    return root_of_rows(whitening(level, covariance).rows(matrix))


def pointwise_weight(level: Array | float, variance: Array | float) -> Array | float:
    """x = s/(1 + sσ²): the information of one released measurement about h_kθ."""
    if isinstance(level, float) and isinstance(variance, float):
        level, variance = float(level), float(variance)  # a NumPy number would warn of overflow
        together = level * variance
        return level / (1.0 + together) if together < np.inf else 1.0 / variance
    with np.errstate(over="ignore"):
        product = np.multiply(level, variance)
    weight = np.divide(level, 1.0 + product)
    huge = np.isinf(product)  # sσ² is no double: 1/σ²
    if huge.any():
        weight = np.where(huge, 1.0 / np.where(huge, variance, 1.0), weight)
    return weight if weight.ndim else float(weight)


def _parallel_sum_root(matrix: Array, level: Blocks, variance: Array) -> InformationRoot | None:
    """PI = Rᵀ(AᵀB)R, H = QR, A = C⁻¹Q, B = C⁻¹SQ, S + I = CCᵀ in units of the noise.

    None where it would lose digits.
    """
    if not (variance > 0).all():
        return None
    unit = np.sqrt(variance)
    orthogonal, triangle = np.linalg.qr(matrix / unit[:, None])
    gram = np.zeros((triangle.shape[0], triangle.shape[0]))
    for rows, stack in level.groups:
        scaled = _scaled(stack, unit[rows])
        part = orthogonal[rows]
        right = np.concatenate([part, scaled @ part], axis=2)
        batched.add_identity(scaled)
        lower = batched.cholesky(scaled, overwrite=True)
        if lower is None:
            return None
        both = batched.solve_lower(lower, right)
        gram += (both[:, :, : len(gram)].transpose(0, 2, 1) @ both[:, :, len(gram) :]).sum(0)
    gram = (gram + gram.T) / 2
    values = np.linalg.eigvalsh(gram)
    if not values[0] > GRADED * values[-1]:
        return None  # the product loses what a graded S hides; the kernel does not
    factor = batched.factor(gram[None])
    return root_of_rows(factor.transpose_times(triangle[None])[0])


def uncorrelated(level: PSD, covariance: PSD) -> PSD:
    """The same S with a factor L for which LᵀΣL is diagonal, Σ the covariance of the measurements.

    With a correlated S measurements cannot be clipped one by one (DSD, D = diag(inside), is not ≤
    S). The coordinates of Lᵀy can: L D Lᵀ ≤ LLᵀ. L = L₀Q, Q the right singular vectors of Σ^{½}L₀.

    >>> from privest.linalg import psd
    >>> found = uncorrelated(psd([[2.0, 1.0], [1.0, 2.0]], "S"), psd([1.0, 1.0], "Σ"))
    >>> L = found.times_factor(np.eye(2))
    >>> (L @ L.T).round(9).tolist(), np.diagonal(L.T @ L).round(9).tolist()
    ([[2.0, 1.0], [1.0, 2.0]], [3.0, 1.0])
    """
    if level.size != covariance.size:
        raise InvalidInput(
            f"the level is for {level.size} measurements; the covariance for {covariance.size}."
        )
    if level.pointwise is not None and covariance.pointwise is not None:
        return level
    apart = isinstance(level, Blocks) and covariance.pointwise is not None
    blocks = level if apart and isinstance(level, Blocks) else level.blocks([level.size])
    ends = np.cumsum(blocks.sizes)
    turned = [
        _turned(lower, covariance.restrict(np.arange(end - len(lower), end)))
        for lower, end in zip(blocks.lowers(), ends)
    ]
    return Blocks(blocks.matrices, turned)


def _turned(own: Array, covariance: PSD) -> Array:
    kept = own[:, own.any(axis=0)]
    _, _, right = np.linalg.svd(covariance.factor_rows(kept), full_matrices=False)
    turned = np.zeros_like(own)
    turned[:, : kept.shape[1]] = kept @ right.T
    return turned

"""The whitening kernel for sequences: one factorisation serves every step (theory.md 6).

Step k releases z̃_k = A_k Ȳ_k + e_k. Stacked, A is block lower-triangular, V = A Σ̄ Aᵀ + I = C Cᵀ,
and the factor of a leading block of V is that block of C: sums of the rows of C⁻¹A H̄ give every
PI_k.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.linalg import batched
from privest.linalg._psd import PSD, Blocks
from privest.linalg._whitening import whitening

PANEL = 64  # rows at a time: wide enough for BLAS, narrow enough to waste little

LOST = (
    "The level is so large against the noise that rounding loses the unit release noise: "
    "V = AΣAᵀ + I is numerically singular. Use a smaller level, or noise that is not singular."
)


class Rows(ABC):
    """The block lower-triangular matrix A of a stream level, (M, M), M = Σ m_k."""

    size: int

    @abstractmethod
    def times(self, right: Array) -> Array:
        """A X for X (M, c)."""

    def dense(self) -> Array:
        return self.times(np.eye(self.size))

    @abstractmethod
    def level_diagonal(self) -> Array:
        """The diagonal of S̄ = AᵀA, (M,)."""

    @abstractmethod
    def whiten(self, covariance: PSD, right: Array) -> Array:
        """C⁻¹ X for X (M, c), V = A Σ̄ Aᵀ + I = C Cᵀ."""


class IndependentRows(Rows):
    """U = 0: A = Lᵀ of a block-diagonal level."""

    def __init__(self, level: PSD) -> None:
        self.level = level
        self.size: int = level.size

    def times(self, right: Array) -> Array:
        return self.level.factor_rows(right)

    def level_diagonal(self) -> Array:
        return self.level.diagonal()

    def whiten(self, covariance: PSD, right: Array) -> Array:
        return whitening(self.level, covariance).whiten(right)


class DenseRows(Rows):
    """A as a matrix, any covariance Σ̄, M³/3 flops; `widest` is the largest m_k."""

    def __init__(self, matrix: Array, widest: int) -> None:
        self.matrix = matrix
        self.size: int = len(matrix)
        self.widest = widest

    def times(self, right: Array) -> Array:
        return np.asarray(self.matrix @ right)

    def dense(self) -> Array:
        return self.matrix

    def level_diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij->j", self.matrix, self.matrix))

    def whiten(self, covariance: PSD, right: Array) -> Array:
        variance = self._variance(covariance)[None]
        batched.add_identity(variance)
        lower = batched.cholesky(variance, overwrite=True)
        if lower is None:
            raise NumericalFailure(LOST)
        return np.asarray(batched.solve_lower(lower, right[None])[0])

    def _variance(self, covariance: PSD) -> Array:
        """The upper triangle of A Σ̄ Aᵀ; for a diagonal Σ̄ by panels, K³/3 flops instead of K³."""
        if covariance.pointwise is None:
            half = covariance.factor_rows(self.matrix.T)
            return np.asarray(half.T @ half)
        diagonal = covariance.diagonal()
        variance = np.zeros(self.matrix.shape)
        for start in range(0, self.size, PANEL):
            own = slice(start, start + PANEL)
            # Blocks look ahead within themselves.
            stop = min(start + PANEL + self.widest - 1, self.size)
            panel = self.matrix[own, :stop] * diagonal[:stop]
            np.matmul(panel, self.matrix[start:, :stop].T, out=variance[own, start:])
        return variance


class BandedRows(Rows):
    """A with blocks at lags 0..b only; Σ̄ block-diagonal. O(K b² m³) time, O(K b m²) memory.

    blocks (b + 1, K, m, m): blocks[j, k] multiplies y_{k−j}; zero before the first step.
    """

    steps: int
    block: int

    def __init__(self, blocks: Array) -> None:
        self.blocks = blocks
        self.steps, self.block = int(blocks.shape[1]), int(blocks.shape[-1])
        self.reach: int = min(len(blocks), self.steps) - 1
        self.size: int = self.steps * self.block
        # 1×1 blocks multiply as numbers, many times faster than as matrices.
        self._times = np.multiply if self.block == 1 else np.matmul

    def times(self, right: Array) -> Array:
        parts = right.reshape(self.steps, self.block, -1)
        result = self._times(self.blocks[0], parts)
        for lag in range(1, self.reach + 1):
            result[lag:] += self._times(self.blocks[lag, lag:], parts[:-lag])
        return np.asarray(result.reshape(self.size, -1))

    def level_diagonal(self) -> Array:
        total = np.zeros((self.steps, self.block))
        for lag in range(self.reach + 1):
            total[: self.steps - lag] += (self.blocks[lag, lag:] ** 2).sum(axis=1)
        return total.ravel()

    def whiten(self, covariance: PSD, right: Array) -> Array:
        band = self.variance_band(_step_covariances(covariance, self.steps, self.block))
        band[0] += 1.0
        lower, failed = scipy.linalg.lapack.dpbtrf(band, lower=1, overwrite_ab=1)
        if failed:
            raise NumericalFailure(LOST)
        solved, _ = scipy.linalg.lapack.dtbtrs(lower, np.asfortranarray(right), uplo="L")
        return np.asarray(solved)

    def couples(self, covariance: PSD) -> bool:
        """Whether the noise ties steps together, so that V is not banded."""
        if not isinstance(covariance, Blocks):
            return False
        ends = set(np.cumsum(covariance.sizes).tolist())
        return not all(end in ends for end in range(self.block, self.size + 1, self.block))

    def variance_band(self, sigma: Array) -> Array:
        """A Σ̄ Aᵀ in LAPACK's lower band storage: band[d, j] = V[j + d, j]."""
        steps, m = self.steps, self.block
        band = np.zeros(((self.reach + 1) * m, self.size), order="F")
        weighted = [  # A_{k, k−j} Σ_{k−j}
            self._times(self.blocks[lag, lag:], sigma[: steps - lag])
            for lag in range(self.reach + 1)
        ]
        for lag in range(self.reach + 1):
            # V_{k, k−lag} = Σ_i A_{k, k−lag−i} Σ_{k−lag−i} A_{k−lag, k−lag−i}ᵀ
            total = np.zeros((steps - lag, m, m))
            for i in range(self.reach - lag + 1):
                other = self.blocks[i, i : steps - lag].transpose(0, 2, 1)
                total[i:] += self._times(weighted[lag + i], other)
            for row in range(m):
                for column in range(m):
                    below = lag * m + row - column
                    if below >= 0:
                        band[below, column : (steps - lag) * m : m] = total[:, row, column]
        return band


def _step_covariances(covariance: PSD, steps: int, m: int) -> Array:
    if covariance.pointwise is not None:
        diagonal = covariance.diagonal().reshape(steps, m)
        result = np.zeros((steps, m, m))
        result[:, np.arange(m), np.arange(m)] = diagonal
        return result
    assert isinstance(covariance, Blocks)
    return covariance.blocks([m] * steps).groups[0][1]

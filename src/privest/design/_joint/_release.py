"""A level S = L Lᵀ that ties readings together: its information, its slope, and fewer columns of L.

For z̃ = Lᵀy + e, e ~ N(0, I), and y = Hθ + w, cov w = Σ (docs/theory.md 1):

    V = I + LᵀΣL ,   PI = HᵀXH ,   X = L V⁻¹ Lᵀ ,   S ↦ HᵀX(S)H is matrix-concave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.linalg import PSD, Blocks
from privest.linalg.batched import substitute


class JointRelease(NamedTuple):
    """What a release of Lᵀy shows of θ, for rows H (m, n), L (m, r), r ≥ n.

    triangle  R (n, n) with RᵀR = PI.
    solved    V⁻¹LᵀH, (r, n).
    """

    factor: Array
    triangle: Array
    solved: Array

    def variances(self, targets: Array) -> Array:
        """diag BᵀPI⁻¹B for B (n, q). Raises LinAlgError if PI is singular."""
        half = substitute(self.triangle, targets, transposed=True)
        return np.asarray((half**2).sum(axis=0))

    def weights(self, targets: Array) -> Array:
        """PI⁻¹B, (n, q)."""
        return substitute(self.triangle, substitute(self.triangle, targets, transposed=True))

    def shown(self, weights: Array) -> Array:
        """X H Z for Z (n, q): (m, q)."""
        return self.factor @ (self.solved @ weights)


def joint_release(rows: Array, covariance: PSD, factor: Array) -> JointRelease:
    """The release of Lᵀy. O(m r (r + n)); with Σ in blocks O(Σ b² r) more."""
    spread = factor.T @ times(covariance, factor)
    spread = (spread + spread.T) / 2
    spread[np.diag_indices(len(spread))] += 1.0
    try:
        lower = np.linalg.cholesky(spread)
    except np.linalg.LinAlgError:
        raise NumericalFailure(
            "The level is so large against the noise that rounding loses the unit release noise "
            f"(largest entry of LᵀΣL + I: {spread.max():.3g}). Use smaller caps or a smaller "
            "budget, or a noise covariance that is not singular."
        ) from None
    whitened = substitute(lower, factor.T @ rows, lower=True)
    solved = substitute(lower, whitened, lower=True, transposed=True)
    return JointRelease(factor, np.asarray(np.linalg.qr(whitened, mode="r")), solved)


def times(matrix: PSD, right: Array) -> Array:
    """Σ X for X (m, k), in the structure of Σ."""
    if not isinstance(matrix, Blocks):
        return matrix.diagonal()[:, None] * right
    result = np.zeros(right.shape)
    for rows, stack in matrix.groups:
        result[rows] = stack @ right[rows]
    return result


def fewer_columns(rows: Array, covariance: PSD, factor: Array) -> Array:
    """L' (m, n) with L'L'ᵀ ≤ LLᵀ and the same PI: only what the best estimate reads is shown.

    θ̂ reads z̃ through V⁻¹LᵀH alone. With Q an orthonormal basis of its range L' = LQ: the
    release Qᵀz̃ has noise I again, shows S' = LQQᵀLᵀ ≤ S, and loses nothing (data processing, both
    ways). So a level of rank ≤ n suffices for every constraint that a smaller S keeps.
    """
    if factor.shape[1] <= rows.shape[1]:
        return factor
    solved = joint_release(rows, covariance, factor).solved
    size = np.linalg.norm(solved, axis=0)
    return np.asarray(factor @ np.linalg.qr(solved / np.where(size > 0, size, 1.0))[0])


def joint_level(factor: Array) -> PSD:
    """S = LLᵀ (m, m) that keeps its factor: z̃ = Lᵀy + e has r ≤ m coordinates."""
    m = len(factor)
    lower = np.zeros((m, m))
    lower[:, : factor.shape[1]] = factor
    return Blocks([factor @ factor.T], [lower])

"""Every estimate of a stream as a matrix: θ̂_k = W_k z̃, for all releases of a design at once.

The private RLS is linear in the releases, with weights that depend on the rows and the level only.
One pass gives the weights of all steps; thousands of repetitions are then one product, and the
covariance splits into what the measurements and what the privacy noise contribute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.bounds import stream_bound
from privest.model import LinearModel
from privest.privacy import StreamLevel


@dataclass(frozen=True, eq=False)
class LinearPaths:
    """W_k for k = first..K−1 (steps counted from 0), and covariances of θ̂_k, (K − first, n, n).

    measured   W_k A Σ Aᵀ W_kᵀ: from w;   noise   W_k W_kᵀ: from the privacy noise. Their sum is
    `bound`, Σ_PPCR,k, for Gaussian w.
    """

    first: int
    weights: Array
    shown: Array  # A: what a release shows of the readings
    measured: Array
    noise: Array
    bound: Array

    def estimates(self, readings: Array, release_noise: Array) -> Array:
        """θ̂_k, (R, K − first, n), from readings (R, K) or (K,) and unit noise (R, K)."""
        releases = readings @ self.shown.T + release_noise
        return np.asarray(np.einsum("knj,rj->rkn", self.weights, releases, optimize=True))


def linear_paths(model: LinearModel, level: StreamLevel) -> LinearPaths:
    """The weights of `algo:PP_RLS`:  W_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ [C⁻¹]_j ,  C Cᵀ = A Σ Aᵀ + I.

    Assumes Gaussian noise and one reading a step. Cost: K³ and the memory of K·n·K numbers.
    """
    limits = stream_bound(model, level)
    first, size = limits.require_first(), level.readings
    whitener = level.rows.whiten(model.covariance, np.eye(size))
    sums = np.cumsum(limits.rows[:, :, None] * whitener[:, None, :], axis=0)[first:]
    weights = limits.ppcrlb @ sums
    shown = level.rows.dense()
    half = model.covariance.factor_rows(shown.T).T  # A Σ^½
    spread = weights @ half
    return LinearPaths(
        first=first,
        weights=weights,
        shown=shown,
        measured=spread @ spread.transpose(0, 2, 1),
        noise=weights @ weights.transpose(0, 2, 1),
        bound=limits.ppcrlb,
    )

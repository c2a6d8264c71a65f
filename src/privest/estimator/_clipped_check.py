"""Whether the likelihood of clipped values fits a release: a test of conditional moments.

At the maximum, under the model, each of these has mean 0 given the features:

    P(clipped at an end | z_k) − P(clipped at that end)      the share clipped, seen and fitted
    h_kj ∂ℓ_k/∂σ²                                             the variance does not depend on h_j

With the scores s_k of the parameters beside them, X = [moments, scores], 1ᵀX(XᵀX)⁻¹Xᵀ1 is χ² with
as many degrees of freedom as there are moments that the scores do not span (Newey 1985).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array
from privest.estimator._clipped_rows import ClippedRows, chunks
from privest.estimator.likelihood._clipped import clipped_parts

SPANNED = 1e-9  # of the squares of a moment that the scores leave: it is one of them


class ClippedCheck(NamedTuple):
    """`p` of the test; the share clipped as the release shows it (`seen`) and as the fit says."""

    p: float
    seen: float
    fitted: float


def check_clipped(
    source: Callable[[], Iterable[ClippedRows]],
    theta: Array,
    size: float,
    noise: float,
    *,
    known: bool,
) -> ClippedCheck:
    """One pass at θ̂; σ_k² = size·variance_k. `known`: σ² was stated, and has no score."""
    n = len(theta)
    total, crossed, rows = np.zeros(2 * n + 3), np.zeros((2 * n + 3, 2 * n + 3)), 0
    shares = np.zeros(2)
    for H, z, shape, level, low, high in chunks(source()):
        own, eta = size * shape, H @ theta
        sigma = np.sqrt(own)
        _, slope, spread, masses = clipped_parts(z, eta, sigma, np.sqrt(noise / level), low, high)
        ends = np.stack(
            [scipy.special.ndtr((low - eta) / sigma), scipy.special.ndtr((eta - high) / sigma)]
        )
        by_variance = shape * (slope**2 - (1 - spread) / own)
        X = np.column_stack(
            [H * slope[:, None], by_variance, H * by_variance[:, None], (masses[[0, 2]] - ends).T]
        )
        total, crossed, rows = total + X.sum(axis=0), crossed + X.T @ X, rows + len(z)
        shares += masses[[0, 2]].sum(), ends.sum()
    statistic, freedom = _left(total, crossed, n if known else n + 1)
    chance = float(scipy.special.chdtrc(freedom, statistic)) if freedom else 1.0
    return ClippedCheck(chance, *(shares / rows).tolist())


def _left(total: Array, crossed: Array, scores: int) -> tuple[float, int]:
    """1ᵀX(XᵀX)⁻¹Xᵀ1 without the scores' own part, and how many moments it has."""
    scale = np.sqrt(np.maximum(np.diagonal(crossed), np.finfo(float).tiny))
    total, crossed = total / scale, crossed / np.outer(scale, scale)
    scored = np.linalg.pinv(crossed[:scores, :scores], rcond=SPANNED, hermitian=True)
    turned = crossed[scores:, :scores] @ scored
    left = crossed[scores:, scores:] - turned @ crossed[:scores, scores:]
    values, vectors = np.linalg.eigh(left)
    kept = values > SPANNED
    along = vectors[:, kept].T @ (total[scores:] - turned @ total[:scores])
    return float((along**2 / values[kept]).sum()), int(kept.sum())

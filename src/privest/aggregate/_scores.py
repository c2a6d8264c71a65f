"""Yes/no by its score equations: one release of sums, and no squares.

With the logistic p, Lᵀ(y − p(Hθ)) has mean 0 for every public L. The owner, who has H, solves

    Σ ℓ_i p(x_iᵀθ̂) = z/√c ,   cov θ̂ = J⁻¹(I/c + LᵀWL)J⁻ᵀ ,   J = LᵀWH ,   W = diag p'(Hθ̂)

It is the minimum of a convex function, and the variance is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from privest.aggregate._design import SumDesign
from privest.aggregate._lewis import norms
from privest.arrays import Array
from privest.errors import NotIdentifiable

STEPS, HALVINGS = 50, 30
CLOSE = 1e-10  # of the norm of the score, beside that of the released sums
FARTHEST = 50.0  # of a linear predictor at a typical row: beyond it there is no estimate


@dataclass(frozen=True, eq=False)
class _State:
    """At θ: the convex function, its score in the coordinates of z, J and LᵀWL."""

    value: float
    score: Array
    slope: Array
    spread: Array


def solve_scores(design: SumDesign, sums: Array, level: float) -> tuple[Array, Array]:
    """θ̂ and its covariance, from released sums z. Raises NotIdentifiable where there is no root."""
    wanted = sums / math.sqrt(level)
    theta = np.zeros(design.rows.n)
    scale = np.sqrt(np.diagonal(design.sums.features) / design.rows.count)
    now = _state(design, theta, wanted)
    for _ in range(STEPS):
        if np.linalg.norm(now.score) <= CLOSE * (1 + np.linalg.norm(wanted)):
            inverse = np.linalg.inv(now.slope)
            noise = inverse @ inverse.T / level
            return theta, noise + inverse @ now.spread @ inverse.T
        try:
            step = np.linalg.solve(now.slope, now.score)
        except np.linalg.LinAlgError:
            break
        for _ in range(HALVINGS):
            then = _state(design, theta - step, wanted)
            if then.value <= now.value + 1e-14 * abs(now.value):
                break
            step = step / 2
        theta, now = theta - step, then
        if not np.linalg.norm(theta * scale) < FARTHEST:
            break
    raise NotIdentifiable(
        "the released sums have no estimate: their noise is too large beside so few rows. Do not "
        "release again: that spends privacy again. Plan with a larger ε, more rows or fewer "
        "features.",
        np.zeros((len(theta), 0)),
    )


def _state(design: SumDesign, theta: Array, wanted: Array) -> _State:
    root = design.weights.root

    def sums(X: Array, L: Array) -> tuple[float, Array, Array, Array]:
        eta = X @ theta
        p = scipy.special.expit(eta)
        size, own = norms(root @ X.T), norms(L.T)
        weight = np.divide(own, size, out=np.zeros_like(size), where=size > 0)
        weighted = L * (p * (1 - p))[:, None]
        return float(weight @ np.logaddexp(0.0, eta)), p @ L, weighted.T @ X, L.T @ weighted

    value, mean, slope, spread = (np.sum(one, axis=0) for one in zip(*design.map(sums)))
    toward = np.linalg.solve(root, wanted)
    return _State(float(value - theta @ toward), mean - wanted, slope, spread)

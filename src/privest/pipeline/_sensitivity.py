"""How an estimate moves with the readings: ∂θ̂/∂Y, and how the information that it shows does.

An estimate is made in stages: first the root of an estimating equation, then perhaps steps

    θ₀: Σ ψ₀(y_k − H_kθ₀) H_kᵀ = 0           J₀ = L₀Hᵀdiag(ψ₀') ,   L₀ = (Hᵀdiag(ψ₀')H)⁻¹
    θ ← θ + L Σ ψ(y_k − H_kθ) H_kᵀ           J ← J + L Hᵀdiag(ψ')(I − HJ) ,   L fixed

(the first by the implicit function theorem), and all here is arithmetic on such stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.pipeline._score import Score


@dataclass(frozen=True, eq=False)
class Stage:
    """ψ' and ψ'' at the residuals, (…, K), and L, (…, n, n); the first stage is a root."""

    left: Array
    slope: Array
    bend: Array


def root_stage(score: Score, H: Array, residual: Array) -> Stage:
    """The stage of one root, (K,) residuals; raises where its curvature is not positive."""
    slope = score.slope(residual)
    try:
        factor = scipy.linalg.cho_factor((H.T * slope) @ H)
    except np.linalg.LinAlgError:
        raise NumericalFailure(
            "the curvature Σψ'HᵀH is not positive at the estimate: there is too little data, or "
            "the noise law does not fit."
        ) from None
    left = scipy.linalg.cho_solve(factor, np.eye(H.shape[1]))
    return Stage((left + left.T) / 2, slope, score.bend(residual))


def root_stages(score: Score, H: Array, residual: Array) -> Stage:
    """The same of many data sets, (trials, K) residuals; L means nothing where there is no root.

    ψ'' is left out: only Jacobians are wanted.
    """
    slope, n = score.slope(residual), H.shape[1]
    pairs = (H[:, :, None] * H[:, None, :]).reshape(len(H), n * n)
    curvature = (slope @ pairs).reshape(-1, n, n)
    good = np.linalg.eigvalsh(curvature)[:, 0] > 0
    curvature[~good] = np.eye(n)
    return Stage(np.linalg.inv(curvature), slope, np.zeros(0))


def jacobians(stages: Sequence[Stage], H: Array) -> list[Array]:
    """∂θ/∂Y after every stage, (…, n, K)."""
    found: list[Array] = []
    for stage in stages:
        own = stage.left @ (H.T * stage.slope[..., None, :])
        found.append(found[-1] + own - (own @ H) @ found[-1] if found else own)
    return found


def shown(stages: Sequence[Stage], H: Array, precision: Array) -> tuple[Array, Array]:
    """[I_z(Y)]_kk = [JᵀPJ]_kk for every reading, and the gradient of their sum, both (K,).

    P (n, n) is the precision of the release noise on θ̂. The gradient by going back through the
    stages: with G = ∂(tr JᵀPJ)/∂J, a change of ψ'_k counts b_kᵀG_k − b_kᵀGJᵀh_k, b_k = Lh_k, and
    ψ'_k changes with the readings by ψ''_k (I − HJ)_k, J that of the θ of the residuals.
    """
    found = jacobians(stages, H)
    last = found[-1]
    pulled = precision @ last
    each = np.einsum("ik,ik->k", last, pulled)
    back, gradient = 2 * pulled, np.zeros(len(H))
    for at in range(len(stages) - 1, -1, -1):
        stage, J = stages[at], found[max(at - 1, 0)]
        b = H @ stage.left
        counts = np.einsum("kn,nk->k", b, back)
        counts -= np.einsum("kn,kn->k", b @ (back @ J.T), H)
        change = stage.bend * counts
        gradient += change - J.T @ (H.T @ change)
        back = back - ((H.T * stage.slope) @ H) @ (stage.left @ back)
    return each, gradient

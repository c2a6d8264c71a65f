"""What a release shows about the readings at hand: for the data holder only.

With J = ∂θ̂/∂Y = Ψ⁻¹ Hᵀ diag(ψ'), Ψ = Σ ψ'_k H_kᵀH_k (implicit function theorem), and Gaussian noise
of covariance D on Tθ̂,

    I_z(Y) = JᵀTᵀD⁻¹TJ ,    tr I_z(Y) = Σ ψ'_k² H_k Q H_kᵀ ,   Q = Ψ⁻¹TᵀD⁻¹TΨ⁻¹ .

This number is itself a function of the private readings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import BudgetExceeded, NumericalFailure
from privest.pipeline._roots import solve

if TYPE_CHECKING:
    from privest.pipeline._release import ScoreRelease

ENTRIES = 2**21  # readings simulated at a time


@dataclass(frozen=True, eq=False)
class HolderReport:
    """Private: for the data holder's eyes only. Printing it shows no number; it has no `to_dict`.

    estimate   θ̂ before noise.
    realised   tr I_z(Y) of the release at these readings.
    worst      max_k [I_z(Y)]_kk: what it shows about the reading that it shows most. The budget is
               on the sum; a single reading can have many times the average.
    budget     s.
    gradient   ∂ ln(realised)/∂Y, (K,): what a noise scale made from it would add.
    released   how many numbers are released.
    """

    estimate: Array
    realised: float
    worst: float
    budget: float
    released: int
    gradient: Array = field(repr=False)

    def __repr__(self) -> str:
        return "HolderReport(private: read its fields, do not release them)"

    @property
    def ratio(self) -> float:
        """tr I_z(Y)/s: about half of all data sets have more than 1 (unless safety > 1)."""
        return self.realised / self.budget

    def counted(self, margin: float) -> float:
        """tr I_z(Y) with noise D(Y) = margin·ratio·D: both terms of docs/theory.md 7.

        s/margin + (q/2)‖∂ ln ratio/∂Y‖², q the numbers released.
        """
        return self.budget / margin + 0.5 * self.released * float(self.gradient @ self.gradient)

    def require_scaled(self, margin: float) -> None:
        """Raise BudgetExceeded where that is more than the budget."""
        if not self.counted(margin) <= self.budget:
            raise BudgetExceeded(
                "noise scaled to these readings would show more than the budget, its own "
                "information counted: use a larger margin, or fixed noise with a safety factor. "
                "Nothing was released."
            )


def jacobian(release: ScoreRelease, y: Array, theta: Array) -> Array:
    """∂θ̂/∂Y, (n, K), by the implicit function theorem."""
    H = release.model.matrix
    slope = release.score.slope(y - H @ theta)
    return np.asarray(scipy.linalg.cho_solve(_curvature(H, slope), H.T * slope))


def realised(release: ScoreRelease, y: Array, theta: Array) -> HolderReport:
    """The report for readings y with estimate θ̂."""
    H, shape = release.model.matrix, release.shape
    residual = y - H @ theta
    slope, bend = release.score.slope(residual), release.score.bend(residual)
    factor = _curvature(H, slope)
    precision = np.linalg.solve(release.information_scale, shape.targets)
    middle = shape.targets.T @ precision  # TᵀD⁻¹T
    Q = scipy.linalg.cho_solve(factor, scipy.linalg.cho_solve(factor, middle).T)
    each = np.einsum("ki,ij,kj->k", H, Q, H, optimize=True)
    shown = slope**2 * each
    total = float(shown.sum())
    # d tr I = Σ v_k de_k with e the residuals: through ψ'_k², and through Ψ in Q.
    moment = (H.T * slope**2) @ H
    N = scipy.linalg.cho_solve(factor, moment @ Q)
    through = np.einsum("ki,ij,kj->k", H, N, H, optimize=True)
    v = 2 * bend * (slope * each - through)
    # de = dy − H dθ̂ = (I − HJ) dy
    pulled = scipy.linalg.cho_solve(factor, H.T @ v)
    gradient = (v - slope * (H @ pulled)) / total
    return HolderReport(
        theta, total, float(shown.max()), release.budget, len(shape.targets), gradient
    )


def simulated_ratios(release: ScoreRelease, rng: np.random.Generator, data_sets: int) -> Array:
    """tr I_z(Y)/s of so many data sets drawn from the public model; NaN without an estimate.

    θ does not matter: Y + Hδ moves θ̂ by δ and leaves the residuals.
    """
    H, score = release.model.matrix, release.score
    n = H.shape[1]
    middle = release.shape.targets.T @ np.linalg.solve(
        release.information_scale, release.shape.targets
    )
    pairs = (H[:, :, None] * H[:, None, :]).reshape(len(H), n * n)
    some = max(1, ENTRIES // len(H))
    parts = []
    for at in range(0, data_sets, some):
        y = release.law.sample((min(some, data_sets - at), len(H)), rng)
        found = solve(score, release.design, y)
        slope = score.slope(y - np.where(found.converged[:, None], found.theta, 0.0) @ H.T)
        bent = (slope @ pairs).reshape(-1, n, n)
        moment = (slope**2 @ pairs).reshape(-1, n, n)
        bent[~found.converged] = np.eye(n)
        inner = np.linalg.solve(bent, np.swapaxes(np.linalg.solve(bent, moment), 1, 2))
        ratio = np.einsum("tij,ij->t", inner, middle) / release.budget
        parts.append(np.where(found.converged, ratio, np.nan))
    return np.concatenate(parts)


def _curvature(H: Array, slope: Array) -> tuple[Array, bool]:
    try:
        factor, lower = scipy.linalg.cho_factor((H.T * slope) @ H)
    except np.linalg.LinAlgError:
        raise NumericalFailure(
            "the curvature Σψ'HᵀH is not positive at the estimate: there is too little data, or "
            "the noise law does not fit."
        ) from None
    return np.asarray(factor), bool(lower)

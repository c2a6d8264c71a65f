"""Floors under everything that a level S ≥ 0 of any shape can do, from any Z and t at all.

The information PI(S) = HᵀX(S)H, X = (S⁻¹ + Σ)⁻¹, is a parallel sum, and so for every t (m, q)

    <ZZᵀ, PI(S)>  ≤  tr tᵀΣt + <EEᵀ, S> ,   E = HZ − Σt        (equality at t = X(S)HZ).

If diag(p) ≥ EEᵀ then <EEᵀ, S> ≤ Σ p_k S_kk: prices p of what a reading shows turn caps, budgets
and persons' traces into one number, the ceiling of <ZZᵀ, PI>. diag(p) ≥ EEᵀ is an eigenvalue of a
q×q matrix, λmax(Eᵀdiag(1/p)E) ≤ 1: nothing of size m×m. With the ceiling φ (docs/design.md):

    tr BᵀPI⁻¹B ≥ (tr BᵀZ)²/φ          −log det PI ≥ log det ZZᵀ − n log(φ/n)
    PI ≥ λW  ⇒  1/λ ≥ <ZZᵀ, W>/φ

Nothing here trusts a solver: a bad point gives a low floor, never a wrong one. What rounding may do
to E is added to the ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Index
from privest.design._joint._release import times
from privest.linalg import PSD, Blocks
from privest.linalg.tolerances import rounding

REFINEMENTS = 40


@dataclass(frozen=True, eq=False)
class Tangent:
    """<ZZᵀ, PI(S)> ≤ base + <EEᵀ, S> for every S, with E known to `doubt` (m,) row by row."""

    residual: Array
    base: float
    doubt: Array

    @classmethod
    def of(cls, rows: Array, covariance: PSD, weights: Array, shown: Array) -> Tangent:
        """The tangent of Z = `weights` (n, q) and t = `shown` (m, q)."""
        fitted, spread = rows @ weights, times(covariance, shown)
        longest = max(covariance.sizes) if isinstance(covariance, Blocks) else 1
        size = np.abs(rows) @ np.abs(weights) + times(_magnitudes(covariance), np.abs(shown))
        slip = rounding(rows.shape[1] + longest) * np.linalg.norm(size, axis=1)
        base = float((shown * spread).sum()) * (1 + rounding(shown.size))
        return cls(fitted - spread, max(base, 0.0), slip)

    def scale(self, prices: Array, blocks: Sequence[Index] | None = None) -> tuple[float, Array]:
        """(κ, x) with κ·diag(p) + diag(x) ≥ EEᵀ, block by block of S, rounding of E included.

        (E+δ)(E+δ)ᵀ ≤ (1+a)EEᵀ + (1+1/a)δδᵀ and δδᵀ ≤ diag(|δ_k| Σ|δ_j|), for any a > 0.
        κ is infinite where a reading has no price and E is not zero there.
        """
        largest, extra = 0.0, np.zeros(len(prices))
        for part in blocks if blocks is not None else [np.arange(len(prices))]:
            active = part[self.residual[part].any(axis=1)]
            extra[part] = self.doubt[part] * self.doubt[part].sum()
            if not len(active):
                continue
            if (prices[active] <= 0).any():
                return np.inf, extra
            inner = self.residual[active] / np.sqrt(prices[active])[:, None]
            largest = max(largest, float(np.linalg.norm(inner, 2)) ** 2)
        largest *= 1 + rounding(len(prices))
        total = largest * float(prices.sum())
        if not total or not extra.any():
            return largest, extra
        balance = float(np.sqrt(extra.sum() / total))
        return largest * (1 + balance), extra * (1 + 1 / balance)


def _magnitudes(matrix: PSD) -> PSD:
    return (
        Blocks([np.abs(part) for part in matrix.matrices]) if isinstance(matrix, Blocks) else matrix
    )


def cap_prices(tangent: Tangent, caps: Array, factor: Array) -> Array:
    """Prices p with diag(p) ≥ EEᵀ of small Σ p_k e_k: the ceiling under S_kk ≤ e_k, e > 0.

    The best ones have p_k = √(E_kᵀ Q E_k / e_k) for some Q ≥ 0 (q, q), at the optimal S = LLᵀ the
    matrix EᵀSE. From there Q ← Q^½ F Q^½, F = Eᵀ diag(1/p) E, whose fixed points have F ≤ I.
    """
    residual = tangent.residual
    own = residual.T @ factor
    shape = own @ own.T
    best, least = np.full(len(caps), np.inf), np.inf
    for _ in range(REFINEMENTS):
        values, vectors = np.linalg.eigh(shape)
        # A direction that Q lost cannot come back: keep a trace of it.
        half = (vectors * np.sqrt(np.maximum(values, 1e-18 * max(values[-1], 0.0)))) @ vectors.T
        prices = np.linalg.norm(residual @ half, axis=1) / np.sqrt(caps)
        kappa, extra = tangent.scale(prices)
        raised = kappa * prices + extra
        total = float(raised @ caps)
        if total < least:
            best, least = raised, total
        active = prices > 0
        inner = (residual[active].T / prices[active]) @ residual[active]
        shape = half @ inner @ half
    return best


def without_slack(
    tangent: Tangent, rows: Array, covariance: PSD, weights: Array, shown: Array, slack: Index
) -> Tangent:
    """The tangent with E = 0 on the readings `slack` (indices): t moved there, Σ_ss dt = E_s.

    A cap that is not reached has no price, so E must vanish there; near the optimum it is small,
    and moving t costs its square only. The tangent itself where Σ is singular there.
    """
    if not len(slack):
        return tangent
    moved = shown.copy()
    variance = covariance.restrict(slack)
    if variance.pointwise is not None:
        known = variance.diagonal()
        if not (known > 0).all():
            return tangent
        moved[slack] = (rows[slack] @ weights) / known[:, None]
    else:
        try:
            moved[slack] += np.linalg.solve(variance.dense(), tangent.residual[slack])
        except np.linalg.LinAlgError:
            return tangent
    found = Tangent.of(rows, covariance, weights, moved)
    if variance.pointwise is not None:
        found.residual[slack] = 0.0  # what is left is rounding, and in `doubt`
    return found

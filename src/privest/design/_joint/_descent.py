"""The best S = LLᵀ under S_kk ≤ e_k by descent in L (m, n + 1): the factorised form.

Row k of L is √e_k times the first n + 1 entries of a unit vector; the last entry of that vector is
what the reading keeps to itself, so that a cap need not be reached. With n columns only, rows of
full length can be trapped (up to 30 % off); with n + 1 a point of second order is the optimum:
there (diag(p) − EEᵀ)L = 0, EEᵀ has rank ≤ n and so has L where all p_k ≠ 0, and a spare column that
brings no descent means diag(p) ≥ EEᵀ, which proves it. `_floor` checks it in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.design._joint._floor import Tangent
from privest.design._joint._release import joint_release, times
from privest.linalg import PSD

MAX_STEPS = 3000
MEMORY = 30  # pairs that L-BFGS keeps: 10 take twice the steps where caps differ much


@dataclass(frozen=True, eq=False)
class CappedReadings:
    """Minimise tr BᵀPI(S)⁻¹B under S_kk ≤ e_k: H (m, n) of full rank, B (n, q), e > 0."""

    rows: Array
    covariance: PSD
    targets: Array
    caps: Array

    def value(self, factor: Array) -> float:
        """tr BᵀPI⁻¹B; infinite where PI is singular."""
        try:
            found = joint_release(self.rows, self.covariance, factor).variances(self.targets)
        except np.linalg.LinAlgError:
            return np.inf
        return float(found.sum())

    def slope(self, factor: Array) -> tuple[float, Array]:
        """The value, and E (m, q) with −EEᵀ its slope in S."""
        release = joint_release(self.rows, self.covariance, factor)
        weights = release.weights(self.targets)
        residual = self.rows @ weights - times(self.covariance, release.shown(weights))
        return float((self.targets * weights).sum()), residual

    def tangent(self, factor: Array) -> tuple[Array, Array, Tangent]:
        """Z = PI⁻¹B, t = XHZ and their tangent."""
        release = joint_release(self.rows, self.covariance, factor)
        weights = release.weights(self.targets)
        shown = release.shown(weights)
        return weights, shown, Tangent.of(self.rows, self.covariance, weights, shown)


def descend(problem: CappedReadings) -> tuple[Array, int]:
    """L (m, n + 1) and the number of steps, by L-BFGS on log tr BᵀPI⁻¹B. O(mn²) a step."""
    root = np.sqrt(problem.caps)[:, None]
    m, columns = len(root), problem.rows.shape[1] + 1

    def rows_of(flat: Array) -> tuple[Array, Array]:
        free = flat.reshape(m, columns + 1)
        length = np.linalg.norm(free, axis=1, keepdims=True)
        return free / length, length

    def objective(flat: Array) -> tuple[float, Array]:
        unit, length = rows_of(flat)
        factor = root * unit[:, :columns]
        value, residual = problem.slope(factor)
        slope = np.zeros_like(unit)
        slope[:, :columns] = -2.0 / value * root * (residual @ (residual.T @ factor))
        slope -= (slope * unit).sum(axis=1, keepdims=True) * unit
        return float(np.log(value)), (slope / length).ravel()

    start = best_start(problem) / root
    kept = np.sqrt(np.maximum(1.0 - (start**2).sum(axis=1, keepdims=True), 0.0))
    found = scipy.optimize.minimize(
        objective, np.hstack([start, kept]).ravel(), jac=True, method="L-BFGS-B",
        options={"maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "maxcor": MEMORY,
                 "ftol": 0.0, "gtol": 1e-12},
    )  # fmt: skip
    unit, _ = rows_of(found.x)
    return root * unit[:, :columns], int(found.nit)


def best_start(problem: CappedReadings) -> Array:
    """The best of a few levels whose rows point where those of H do, a little apart.

    Full rows are right where the noise of a reading is small against its cap; where it is large,
    L_k ∝ x_k h_k with x_k = e_k/(1 + γσ_k²e_k): near what generalised least squares reads.
    """
    rows, caps = problem.rows, problem.caps
    m, n = rows.shape
    # Directions in general position, the same every time: waves whose lengths have no common
    # multiple (2^(j/(n + 2)) are linearly independent over the rationals).
    waves = 2.0 ** (np.arange(1, n + 2) / (n + 2))
    apart = np.sqrt(2.0) * np.cos(2.0 * np.pi * np.outer(np.arange(1, m + 1), waves))
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    turned = 0.1 * apart
    turned[:, :n] += rows / np.where(length > 0, length, 1.0)
    turned *= 0.95 * np.sqrt(caps)[:, None] / np.linalg.norm(turned, axis=1, keepdims=True)
    starts = [turned]
    loud = problem.covariance.diagonal() * caps
    for gamma in 10.0 ** np.arange(-1, 7):
        wanted = np.sqrt(caps) / (1.0 + gamma * loud) * length[:, 0]
        for reached in (1.0, 0.5, 0.1):
            enough = max(float(np.quantile(wanted, reached)), np.finfo(float).tiny)
            starts.append(turned * np.minimum(wanted / enough, 1.0)[:, None])
    return min(starts, key=problem.value)

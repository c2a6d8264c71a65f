"""Accuracy as a matrix inequality, M ≥ tW, with a dual matrix V ≥ 0: the criterion `Least`.

Slack Z = M − tW. Newton's method on VZ → μI in the direction of Helmberg, Kojima and Monteiro: in
the coordinates T in which Z = T⁻ᵀT⁻¹ and V = T diag(ω) Tᵀ,

    dV = μI − Ω − (Ω dZ + dZ Ω)/2      (all seen through T)

so that its squares are Σ_i ω_i d_ii² + Σ_{i<j} (ω_i + ω_j) d_ij², d = TᵀDT.
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array
from privest.design._newton._curves import squares
from privest.design._newton._side import Move, Side, blocks


class Loewner(Side):
    """M − tW = slack ≥ 0 with a dual V ≥ 0; <V, W> is to be `mass`."""

    def __init__(self, bound: Array, slack: Array, dual: Array, mass: float, weight: float) -> None:
        self.bound, self.mass, self.weight = bound, mass, weight
        self.slack, self.dual = (slack + slack.T) / 2, (dual + dual.T) / 2
        self.gap = float(np.sum(slack * dual))
        self.count = weight * len(bound)
        self.missing = mass - float(np.sum(dual * bound))

    @property
    def weights(self) -> Array:
        return self.dual

    def expand(self, rows: Array, slope: Array, M: Array, t: float) -> None:
        n = len(M)
        lower = np.linalg.cholesky(self.slack)
        inner = lower.T @ self.dual @ lower
        omega, turn = np.linalg.eigh((inner + inner.T) / 2)
        if not omega[0] > 0:
            raise np.linalg.LinAlgError("the dual matrix is not positive definite")
        self.omega = omega
        self.basis = scipy.linalg.solve_triangular(
            lower, turn, lower=True, trans=1, check_finite=False
        )
        self.back = turn.T @ lower.T  # the inverse of the basis
        self.lack = M - t * self.bound - self.slack
        self.residual = self.basis.T @ self.lack @ self.basis
        self.seen = self.basis.T @ self.bound @ self.basis
        self.pairs = np.triu_indices(n, 1)
        first, second = self.pairs
        self.roots = np.sqrt(np.concatenate([omega, omega[first] + omega[second]]))
        self.rows = rows
        columns = np.empty((len(self.roots) + 1, len(rows)))
        self.worth = np.empty(len(rows))
        for part in blocks(len(rows)):
            turned = self.basis.T @ rows[part].T
            found = columns[:-1, part]
            squares(turned, omega, found, ahead=False)
            self.worth[part] = np.sqrt(omega) @ found[:n]
            found *= slope[part]
        columns[-1] = 1.0
        self.columns = columns.T
        self.diagonal = np.ones(len(self.roots))
        self.border = self.roots * self._entries(self.seen)

    def _entries(self, matrix: Array) -> Array:
        return np.concatenate([np.diagonal(matrix), matrix[self.pairs]])

    def infeasible(self, other: Side) -> float:
        """Σ |r_ij| √(ω_iω_j), r seen through T: weighted by the dual, like the products."""
        assert isinstance(other, Loewner)
        root = other.basis * np.sqrt(other.omega)
        return float(np.abs(root.T @ self.lack @ root).sum())

    def _towards(self, mu: float, cross: Array | float) -> Array:
        return np.diag(self.weight * mu - self.omega) - cross

    def right(self, mu: float, cross: Array | float) -> tuple[Array | float, Array, float]:
        towards = self._towards(mu, cross)
        pull = np.empty(len(self.rows))
        for part in blocks(len(pull)):
            turned = self.basis.T @ self.rows[part].T
            pull[part] = np.einsum("ik,ik->k", towards @ turned, turned)
        right = -self.roots * self._entries(self.residual)
        return pull, right, self.missing - float(np.sum(towards * self.seen))

    def move(self, solved: Array, mu: float, cross: Array | float) -> Move:
        n = len(self.omega)
        entries = solved[: len(self.roots)] / self.roots
        slack = np.zeros((n, n))
        slack[self.pairs] = entries[n:]
        slack += slack.T + np.diag(entries[:n])
        half = self.omega[:, None] * slack
        return slack, self._towards(mu, cross) - (half + half.T) / 2

    def cross(self, move: Move) -> Array:
        product = move[0] @ move[1]
        return np.asarray((product + product.T) / 2)

    def rooms(self, move: Move) -> tuple[float, float]:
        root = 1.0 / np.sqrt(self.omega)
        least = (
            np.linalg.eigvalsh(move[0])[0],
            np.linalg.eigvalsh(move[1] * root * root[:, None])[0],
        )
        primal, dual = (-1.0 / float(value) if value < 0 else np.inf for value in least)
        return primal, dual

    def gap_after(self, move: Move, primal: float, dual: float) -> float:
        one, other = np.eye(len(self.omega)), np.diag(self.omega)
        return float(np.sum((one + primal * move[0]) * (other + dual * move[1])))

    def moved(self, move: Move, primal: float, dual: float) -> Loewner:
        return Loewner(
            self.bound,
            self.slack + primal * self.back.T @ move[0] @ self.back,
            self.dual + dual * self.basis @ move[1] @ self.basis.T,
            self.mass,
            self.weight,
        )

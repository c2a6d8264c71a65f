"""Accuracy as concave functions g_j of the information that grow like M: the smooth criteria.

    Trace, Largest   g = 1/tr(BᵀM⁻¹B) ,   ∇g = ZZᵀ , Z = M⁻¹B·g
    LogDet           g = (det M)^(1/n) ,  ∇g = M⁻¹·g/n

1/f instead of f: it is linear along rays, so that Newton's method sees little but the constraints.
With M = LLᵀ and L⁻¹WL⁻ᵀ = Q diag(ω) Qᵀ (W = BBᵀ), t_i the columns of L⁻ᵀQ and d_ij = t_iᵀDt_j,

    −∇²g[D, D] = 2g²(Σ_i ω_i d_ii² + Σ_{i<j} (ω_i + ω_j) d_ij² − (Σ ω_i d_ii)²/Σω)

is a sum of squares: its *features*, few where W has a low rank. The last term takes the direction
(√ω_i)_i out of the d_ii.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy

from privest.arrays import Array
from privest.design._newton_side import Move, Side, room

NEGLIGIBLE = 1e-28  # squares below this part of the largest are rounding


class Shape(ABC):
    """The functions g_j, J of them."""

    size: int

    @abstractmethod
    def values(self, M: Array) -> Array:
        """g (J,). Raises LinAlgError where M is not positive definite."""

    @abstractmethod
    def expand(self, M: Array, rows: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Values (J,), hᵀ∇g_jh (m, J), and features (m, p) of −Σ_j w_j ∇²g_j."""


class Traces(Shape):
    """g_j = 1/tr(B_jᵀM⁻¹B_j)."""

    def __init__(self, blocks: list[Array]) -> None:
        self.blocks = blocks
        self.size = len(blocks)

    def values(self, M: Array) -> Array:
        lower = np.linalg.cholesky(M)
        return np.array([1.0 / np.sum(_forward(lower, block) ** 2) for block in self.blocks])

    def expand(self, M: Array, rows: Array, weights: Array) -> tuple[Array, Array, Array]:
        n, lower = len(M), np.linalg.cholesky(M)
        white = np.ascontiguousarray(_forward(lower, rows.T).T)
        together = self.size > 1 and self.size * (n - 1) >= n * (n + 1) // 2
        values, gradients, features = [], [], []
        curvature = np.zeros((n * (n + 1) // 2, n * (n + 1) // 2))
        for block, weight in zip(self.blocks, weights):
            turn, sizes, _ = np.linalg.svd(_forward(lower, block), full_matrices=True)
            value = 1.0 / float(np.sum(sizes**2))
            kept = sizes**2 > NEGLIGIBLE * sizes[0] ** 2
            omega = (sizes[kept] * value) ** 2
            turned = white @ turn
            values.append(value)
            gradients.append(turned[:, : len(omega)] ** 2 @ omega)
            if together:
                curvature += _as_matrix(turn, 2.0 * weight * omega[0])
            else:
                features.append(_squares(turned, 2.0 * weight * omega))
        if together:
            features.append(_from_matrix(white, curvature))
        return np.array(values), np.stack(gradients, axis=1), np.concatenate(features, axis=1)


class Determinant(Shape):
    """g = scale·(det M)^(1/n)."""

    size = 1

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def values(self, M: Array) -> Array:
        lower = np.linalg.cholesky(M)
        return np.array([self.scale * np.exp(2.0 * np.log(np.diagonal(lower)).mean())])

    def expand(self, M: Array, rows: Array, weights: Array) -> tuple[Array, Array, Array]:
        n = len(M)
        value = self.values(M)
        white = np.ascontiguousarray(_forward(np.linalg.cholesky(M), rows.T).T)
        each = float(value[0]) / n
        gradient = np.einsum("ij,ij->i", white, white) * each
        features = _squares(white, np.full(n, float(weights[0]) * each))
        return value, gradient[:, None], features


def _forward(lower: Array, right: Array) -> Array:
    """L⁻¹B."""
    return np.asarray(scipy.linalg.solve_triangular(lower, right, lower=True, check_finite=False))


def _squares(turned: Array, omega: Array) -> Array:
    """√(ω_i + ω_j) h_ih_j (i < j, i ≤ r) and √ω_i h_i² without its part along √ω, for r ω's."""
    n, r = turned.shape[1], len(omega)
    padded = np.zeros(n)
    padded[:r] = omega
    first, second = np.triu_indices(n, 1)
    first, second = first[first < r], second[first < r]
    off = turned[:, first] * turned[:, second] * np.sqrt(padded[first] + padded[second])
    if r == 1:
        return np.asarray(off)
    along = np.sqrt(omega / omega.sum())
    own = turned[:, :r] ** 2 * np.sqrt(omega)
    own -= (own @ along)[:, None] * along
    return np.concatenate([off, own], axis=1)


def _as_matrix(turn: Array, omega: float) -> Array:
    """ω Σ_{i>1} (q_1ᵀDq_i)² as a quadratic form of the entries of D on and above the diagonal."""
    n = len(turn)
    first, second = np.triu_indices(n)
    part = turn[:, :1, None] * turn[None, :, 1:]
    part = (part + part.transpose(1, 0, 2))[first, second]
    part[first == second] /= 2.0
    return np.asarray(omega * part @ part.T)


def _from_matrix(white: Array, curvature: Array) -> Array:
    """Features of a quadratic form of hhᵀ."""
    first, second = np.triu_indices(white.shape[1])
    values, vectors = np.linalg.eigh(curvature)
    kept = values > 1e-16 * values[-1]
    return np.asarray(
        (white[:, first] * white[:, second]) @ (vectors[:, kept] * np.sqrt(values[kept]))
    )


class Curves(Side):
    """g_j(M) − t = slack_j ≥ 0, with duals w_j."""

    def __init__(self, shape: Shape, slack: Array, dual: Array, mass: float, weight: float) -> None:
        self.shape, self.slack, self.dual = shape, slack, dual
        self.mass, self.weight = mass, weight
        self.gap = float(slack @ dual)
        self.count = weight * len(slack)
        self.missing = mass - float(dual.sum())

    @property
    def weights(self) -> Array:
        return self.dual

    def expand(self, rows: Array, M: Array, t: float) -> None:
        values, gradients, features = self.shape.expand(M, rows, self.dual)
        self.values = values
        self.residual = values - t - self.slack
        self.worth = gradients @ self.dual
        self.columns = np.concatenate([features, -gradients], axis=1)
        p, size = features.shape[1], len(values)
        self.diagonal = np.concatenate([np.ones(p), self.slack / self.dual])
        self.border = np.concatenate([np.zeros(p), -np.ones(size)])

    def infeasible(self, other: Side) -> float:
        return float(other.weights @ np.abs(self.residual))

    def right(self, mu: float, cross: Array | float) -> tuple[Array | float, Array, float]:
        right = np.zeros(len(self.diagonal))
        wanted = (self.weight * mu - cross) / self.dual
        right[-len(self.dual) :] = self.residual - wanted + self.slack
        return 0.0, right, self.missing

    def move(self, solved: Array, mu: float, cross: Array | float) -> Move:
        dual = solved[-len(self.dual) :]
        slack = (self.weight * mu - cross) / self.dual - self.slack - self.slack / self.dual * dual
        return slack, dual

    def cross(self, move: Move) -> Array:
        return move[0] * move[1]

    def rooms(self, move: Move) -> tuple[float, float]:
        return room(self.slack, move[0]), room(self.dual, move[1])

    def gap_after(self, move: Move, primal: float, dual: float) -> float:
        return float((self.slack + primal * move[0]) @ (self.dual + dual * move[1]))

    def moved(self, move: Move, primal: float, dual: float) -> Curves:
        return Curves(
            self.shape, self.slack + primal * move[0], self.dual + dual * move[1], self.mass,
            self.weight,
        )  # fmt: skip

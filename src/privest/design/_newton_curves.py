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
        back = _forward(lower, np.eye(n))
        together = self.size > 1 and self.size * (n - 1) >= n * (n + 1) // 2
        values, gradients, features = [], [], []
        curvature = np.zeros((n * (n + 1) // 2, n * (n + 1) // 2))
        for block, weight in zip(self.blocks, weights):
            turn, sizes, _ = np.linalg.svd(_forward(lower, block), full_matrices=True)
            value = 1.0 / float(np.sum(sizes**2))
            kept = sizes**2 > NEGLIGIBLE * sizes[0] ** 2
            omega = (sizes[kept] * value) ** 2
            values.append(value)
            if together:
                direction = (turn[:, 0] @ back) @ rows.T
                gradients.append(omega[0] * direction**2)
                curvature += _as_matrix(turn, 2.0 * weight * omega[0])
            else:
                turned = (turn.T @ back) @ rows.T
                gradients.append(omega @ turned[: len(omega)] ** 2)
                features.append(squares(turned, 2.0 * weight * omega, ahead=True))
        if together:
            features.append(_from_matrix(back @ rows.T, curvature))
        return np.array(values), np.stack(gradients).T, np.concatenate(features).T


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
        white = _forward(np.linalg.cholesky(M), np.eye(n)) @ rows.T
        each = float(value[0]) / n
        gradient = each * np.einsum("ij,ij->j", white, white)
        features = squares(white, np.full(n, float(weights[0]) * each), ahead=True)
        return value, gradient[:, None], features.T


def _forward(lower: Array, right: Array) -> Array:
    """L⁻¹B."""
    return np.asarray(scipy.linalg.solve_triangular(lower, right, lower=True, check_finite=False))


def squares(turned: Array, omega: Array, *, ahead: bool) -> Array:
    """√ω_i h_i² and √(ω_i + ω_j) h_ih_j (i < j, i ≤ r) of columns h, for r ω's: (p, m).

    `ahead`: what lies along √ω is taken out of the first; nothing is left of it for one ω.
    """
    n, r = len(turned), len(omega)
    own = r if r > 1 or not ahead else 0
    padded = np.concatenate([omega, np.zeros(n - r)])
    found = np.empty((own + r * n - r * (r + 1) // 2, turned.shape[1]))
    if own:
        np.multiply(turned[:r], turned[:r], out=found[:r])
        found[:r] *= np.sqrt(omega)[:, None]
        if ahead:
            along = np.sqrt(omega / omega.sum())
            found[:r] -= along[:, None] * (along @ found[:r])
    at = own
    for i in range(r):
        part = found[at : at + n - i - 1]
        np.multiply(turned[i + 1 :], turned[i], out=part)
        part *= np.sqrt(padded[i] + padded[i + 1 :])[:, None]
        at += n - i - 1
    return found


def _as_matrix(turn: Array, omega: float) -> Array:
    """ω Σ_{i>1} (q_1ᵀDq_i)² as a quadratic form of the entries of D on and above the diagonal."""
    n = len(turn)
    first, second = np.triu_indices(n)
    part = turn[:, :1, None] * turn[None, :, 1:]
    part = (part + part.transpose(1, 0, 2))[first, second]
    part[first == second] /= 2.0
    return np.asarray(omega * part @ part.T)


def _from_matrix(white: Array, curvature: Array) -> Array:
    """Features (p, m) of a quadratic form of hhᵀ."""
    first, second = np.triu_indices(len(white))
    values, vectors = np.linalg.eigh(curvature)
    kept = values > 1e-16 * values[-1]
    root = (vectors[:, kept] * np.sqrt(values[kept])).T
    return np.asarray(root @ (white[first] * white[second]))


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
        self.columns = np.concatenate([features.T, -gradients.T]).T
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

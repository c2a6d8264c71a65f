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
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.design._newton._side import Move, Side, blocks, room

NEGLIGIBLE = 1e-28  # squares below this part of the largest are rounding


class Local(ABC):
    """The functions g_j near one M: values (J,), and how to compute the rest for some rows."""

    values: Array
    features: int  # p

    @abstractmethod
    def fill(self, rows: Array, gradients: Array, features: Array) -> None:
        """hᵀ∇g_jh (J, b) and the features (p, b) of −Σ_j w_j ∇²g_j, for rows h (b, n)."""


class Shape(ABC):
    """The functions g_j, J of them. Both raise LinAlgError where M is not positive definite."""

    size: int

    @abstractmethod
    def values(self, M: Array) -> Array:
        """g (J,)."""

    @abstractmethod
    def near(self, M: Array, weights: Array) -> Local:
        """What they are near M, for weights w (J,)."""


class Traces(Shape):
    """g_j = 1/tr(B_jᵀM⁻¹B_j)."""

    def __init__(self, blocks: list[Array]) -> None:
        self.blocks = blocks
        self.size = len(blocks)

    def values(self, M: Array) -> Array:
        lower = np.linalg.cholesky(M)
        return np.array([1.0 / np.sum(_forward(lower, block) ** 2) for block in self.blocks])

    def near(self, M: Array, weights: Array) -> Local:
        n, lower = len(M), np.linalg.cholesky(M)
        back = _forward(lower, np.eye(n))
        together = self.size > 1 and self.size * (n - 1) >= n * (n + 1) // 2
        pieces, turns = [], []
        for block, weight in zip(self.blocks, weights):
            turn, sizes, _ = np.linalg.svd(_forward(lower, block), full_matrices=True)
            value = 1.0 / float(np.sum(sizes**2))
            kept = sizes**2 > NEGLIGIBLE * sizes[0] ** 2
            omega = (sizes[kept] * value) ** 2
            pieces.append(Piece(value, turn.T @ back, omega, 2.0 * weight * omega))
            turns.append(turn)
        return Together(pieces, turns, back) if together else Apart(pieces)


class Determinant(Shape):
    """g = scale·(det M)^(1/n)."""

    size = 1

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def values(self, M: Array) -> Array:
        lower = np.linalg.cholesky(M)
        return np.array([self.scale * np.exp(2.0 * np.log(np.diagonal(lower)).mean())])

    def near(self, M: Array, weights: Array) -> Local:
        n, value = len(M), float(self.values(M)[0])
        back = _forward(np.linalg.cholesky(M), np.eye(n))
        each = np.full(n, value / n)
        return Apart([Piece(value, back, each, float(weights[0]) * each)])


@dataclass(frozen=True, eq=False)
class Piece:
    """One g: value; t_i (rows of `turn`); r numbers of its gradient, and of its curvature."""

    value: float
    turn: Array
    pull: Array
    bend: Array

    @property
    def features(self) -> int:
        r, n = len(self.bend), len(self.turn)
        return (r if r > 1 else 0) + r * n - r * (r + 1) // 2


class Apart(Local):
    """Each g with its own features."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self.values = np.array([piece.value for piece in pieces])
        self.features = sum(piece.features for piece in pieces)

    def fill(self, rows: Array, gradients: Array, features: Array) -> None:
        at = 0
        for j, piece in enumerate(self.pieces):
            turned = piece.turn @ rows.T
            gradients[j] = piece.pull @ turned[: len(piece.pull)] ** 2
            squares(turned, piece.bend, features[at : at + piece.features], ahead=True)
            at += piece.features


class Together(Local):
    """Many g of one direction each: one quadratic form of hhᵀ for all of them."""

    def __init__(self, pieces: list[Piece], turns: list[Array], back: Array) -> None:
        self.values = np.array([piece.value for piece in pieces])
        self.back = back
        self.pull = np.array([piece.turn[0] * np.sqrt(piece.pull[0]) for piece in pieces])
        self.entries = np.triu_indices(len(back))
        form = sum(_as_matrix(turn, piece.bend[0]) for turn, piece in zip(turns, pieces))
        values, vectors = np.linalg.eigh(form)
        kept = values > 1e-16 * values[-1]
        self.root = (vectors[:, kept] * np.sqrt(values[kept])).T
        self.features = len(self.root)

    def fill(self, rows: Array, gradients: Array, features: Array) -> None:
        np.square(self.pull @ rows.T, out=gradients)
        white = self.back @ rows.T
        first, second = self.entries
        np.matmul(self.root, white[first] * white[second], out=features)


def _forward(lower: Array, right: Array) -> Array:
    """L⁻¹B."""
    return np.asarray(scipy.linalg.solve_triangular(lower, right, lower=True, check_finite=False))


def squares(turned: Array, omega: Array, out: Array, *, ahead: bool) -> None:
    """√ω_i h_i² and √(ω_i + ω_j) h_ih_j (i < j, i ≤ r) of columns h, for r ω's: (p, b).

    `ahead`: what lies along √ω is taken out of the first; nothing is left of it for one ω.
    """
    n, r = len(turned), len(omega)
    at = r if r > 1 or not ahead else 0
    if at:
        np.multiply(turned[:r], turned[:r], out=out[:r])
        out[:r] *= np.sqrt(omega)[:, None]
        if ahead:
            along = np.sqrt(omega / omega.sum())
            out[:r] -= along[:, None] * (along @ out[:r])
    padded = np.concatenate([omega, np.zeros(n - r)])
    for i in range(r):
        part = out[at : at + n - i - 1]
        np.multiply(turned[i + 1 :], turned[i], out=part)
        part *= np.sqrt(padded[i] + padded[i + 1 :])[:, None]
        at += n - i - 1


def _as_matrix(turn: Array, omega: float) -> Array:
    """ω Σ_{i>1} (q_1ᵀDq_i)² as a quadratic form of the entries of D on and above the diagonal."""
    n = len(turn)
    first, second = np.triu_indices(n)
    part = turn[:, :1, None] * turn[None, :, 1:]
    part = (part + part.transpose(1, 0, 2))[first, second]
    part[first == second] /= 2.0
    return np.asarray(omega * part @ part.T)


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

    def expand(self, rows: Array, slope: Array, M: Array, t: float) -> None:
        near = self.shape.near(M, self.dual)
        p, size, m = near.features, len(near.values), len(rows)
        self.values = near.values
        self.residual = near.values - t - self.slack
        columns = np.empty((p + size + 1, m))
        self.worth = np.empty(m)
        for part in blocks(m):
            found = columns[:, part]
            near.fill(rows[part], found[p:-1], found[:p])
            self.worth[part] = self.dual @ found[p:-1]
            found[p:-1] *= -1.0
            found[:-1] *= slope[part]
        columns[-1] = 1.0
        self.columns = columns.T
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

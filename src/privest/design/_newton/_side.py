"""Slacks and duals of the Newton engine, in pairs whose products go to zero together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array

Move = tuple[Array, Array]  # what is added to a slack, and to its dual


BLOCK = 2**13  # rows in one pass: what they need stays in the cache


def blocks(m: int) -> list[slice]:
    """Rows 0 … m − 1 in passes."""
    return [slice(start, start + BLOCK) for start in range(0, m, BLOCK)]


def gram(columns: Array, weights: Array) -> Array:
    """Nᵀdiag(w)N, in one pass."""
    total = np.zeros((columns.shape[1], columns.shape[1]))
    for part in blocks(len(columns)):
        total += (columns[part].T * weights[part]) @ columns[part]
    return total


def room(values: Array, change: Array) -> float:
    """The largest α with values + α·change ≥ 0; inf if there is none."""
    falling = change < 0
    return float(np.min(-values[falling] / change[falling])) if falling.any() else np.inf


@dataclass(frozen=True, eq=False)
class Pair:
    """slack ≥ 0 and dual ≥ 0 of a linear constraint; `weight`: of its products on the path.

    Single constraints have larger products on the path (weighted centres) than each of thousands
    of levels: else their slacks would be so small, in comparison, that rounding decides.
    """

    slack: Array
    dual: Array
    weight: float = 1.0

    @property
    def gap(self) -> float:
        return float(self.slack @ self.dual)

    @property
    def count(self) -> float:
        return self.weight * len(self.slack)

    def dual_move(self, slack_move: Array, mu: float, cross: Array | float) -> Array:
        """What the dual has to do when the slack moves: (σ + dσ)(λ + dλ) → weight·μ."""
        return np.asarray(
            (self.weight * mu - cross) / self.slack
            - self.dual
            - self.dual / self.slack * slack_move
        )

    def moved(self, move: Move, primal: float, dual: float) -> Pair:
        return Pair(self.slack + primal * move[0], self.dual + dual * move[1], self.weight)


class Side(ABC):
    """The accuracy: criteria g_j(M) ≥ t with duals w_j, or M ≥ tW with a dual matrix V.

    After `expand` it knows, of the point where it stands:
    worth (m,): Σ_j w_j hᵀ∇g_j h (or hᵀVh) of every reading; columns (m, c + 1), times the slope x′
    of each reading, and a last one of ones for the budget; diagonal (c,), border (c,): its part of
    the linear system (`_system`).
    """

    worth: Array
    columns: Array
    diagonal: Array
    border: Array
    mass: float  # what the duals are to sum up to, where t is free
    gap: float
    count: float
    missing: float  # what they lack to it

    @abstractmethod
    def expand(self, rows: Array, slope: Array, M: Array, t: float) -> None:
        """Raises LinAlgError where M is not positive definite."""

    @abstractmethod
    def infeasible(self, other: Side) -> float:
        """How far the slacks are from what they should be, at the prices of `other`."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """The duals."""

    @abstractmethod
    def right(self, mu: float, cross: Array | float) -> tuple[Array | float, Array, float]:
        """What it adds to the three right sides of the linear system: (m,), (c,), a number."""

    @abstractmethod
    def move(self, solved: Array, mu: float, cross: Array | float) -> Move:
        """The step, from the solution (c,) of the linear system."""

    @abstractmethod
    def cross(self, move: Move) -> Array:
        """The product of both parts of a step: what Newton's method neglects."""

    @abstractmethod
    def rooms(self, move: Move) -> tuple[float, float]:
        """How far the slacks can go, and the duals."""

    @abstractmethod
    def gap_after(self, move: Move, primal: float, dual: float) -> float:
        """The sum of the products after a step."""

    @abstractmethod
    def moved(self, move: Move, primal: float, dual: float) -> Side:
        """A new side, to be expanded."""

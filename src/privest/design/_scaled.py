"""Criteria in the scaled coordinates of a `Problem`: value, and what proves that nothing is better.

Each is convex and decreasing in the information M. A *witness* is a matrix G = FFᵀ ≥ 0 with which
<G, M> = Σ_k q_k x_k, q_k = h_kᵀGh_k, bounds the criterion from below for EVERY M, whatever point
it was made at (docs/theory.md 8):

    Trace    (tr BᵀZ)² ≤ tr(BᵀM⁻¹B) · <ZZᵀ, M>                 Cauchy-Schwarz, any Z
    Largest  the same for Σ_j w_j c_jᵀM⁻¹c_j ≤ max_j, any w ≥ 0 with Σ w = 1
    LogDet   log det M ≤ −log det G + n log(<G, M>/n)           the means of eig(GM), any G > 0
    Least    <V, M> ≥ λ<V, W> where M ≥ λW, any V ≥ 0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import EPS, Array


@dataclass(frozen=True, eq=False)
class Witness:
    """G = FFᵀ, and what <G, M> ≤ φ says of the criterion.

    factor    F (n, r).
    strength  r such that f(M) ≥ r/<G, M>; of log det: log det G.
    logarithm whether the criterion is a log det.
    """

    factor: Array
    strength: float
    logarithm: bool = False

    def floor(self, most: float) -> float:
        """The criterion is at least this wherever <G, M> ≤ `most`."""
        if self.logarithm:
            n = len(self.factor)
            return self.strength - n * float(np.log(most / n)) if most > 0 else np.inf
        return self.strength / most if most > 0 else np.inf

    def needed(self, target: float) -> float:
        """<G, M> is at least this wherever the criterion is at most `target`."""
        if self.logarithm:
            n = len(self.factor)
            return n * float(np.exp((self.strength - target) / n))
        return self.strength / target


class Scaled(ABC):
    """f(M), to be made small; `offset` is added for the user's units."""

    logarithm = False
    offset = 0.0

    @abstractmethod
    def value(self, M: Array) -> float:
        """f(M); inf where it does not exist."""

    @abstractmethod
    def witness(self, M: Array, weights: Array | None = None) -> Witness | None:
        """The witness that is tight at M where M is best; `weights`: duals of an engine."""

    def slope(self, M: Array, weights: Array | None = None) -> Array:
        """F (n, r) with −∂f/∂M = FFᵀ."""
        found = self.witness(M, weights)
        assert found is not None
        return found.factor

    @abstractmethod
    def per_unit(self, witness: Witness, value: float) -> float:
        """−df/d<G, M> at the optimum: turns a price of <G, M> into one of the criterion."""


@dataclass(frozen=True, eq=False)
class Trace(Scaled):
    """tr BᵀM⁻¹B, root = B (n, r): A-optimality, and c-optimality for one column."""

    root: Array

    def value(self, M: Array) -> float:
        solved = solve(M, self.root)
        return np.inf if solved is None else float(np.sum(self.root * solved))

    def witness(self, M: Array, weights: Array | None = None) -> Witness | None:
        solved = solve(M, self.root) if weights is None else weights
        return None if solved is None else self.of(solved)

    def of(self, Z: Array) -> Witness:
        """The witness of any Z (n, r)."""
        return Witness(Z, float(np.sum(self.root * Z)) ** 2)

    def per_unit(self, witness: Witness, value: float) -> float:
        return value**2 / witness.strength


@dataclass(frozen=True, eq=False)
class Largest(Scaled):
    """max_j c_jᵀM⁻¹c_j, columns (n, J): several standard errors at once, met where it is ≤ 1."""

    columns: Array

    def value(self, M: Array) -> float:
        each = self.each(M)
        return np.inf if each is None else float(each.max())

    def each(self, M: Array) -> Array | None:
        """c_jᵀM⁻¹c_j, (J,)."""
        solved = solve(M, self.columns)
        return None if solved is None else np.asarray(np.sum(self.columns * solved, axis=0))

    def witness(self, M: Array, weights: Array | None = None) -> Witness | None:
        """`weights` w (J,); without them all on the largest."""
        solved = solve(M, self.columns)
        if solved is None:
            return None
        each = np.sum(self.columns * solved, axis=0)
        if weights is None:
            weights = (each == each.max()).astype(float)
        w = np.maximum(weights, 0.0)
        w = w / w.sum()
        return Witness(solved * np.sqrt(w), float(w @ each) ** 2)

    def per_unit(self, witness: Witness, value: float) -> float:
        return value**2 / witness.strength


@dataclass(frozen=True, eq=False)
class LogDet(Scaled):
    """−log det M: D-optimality."""

    offset: float = 0.0
    logarithm = True

    def value(self, M: Array) -> float:
        lower, failed = scipy.linalg.lapack.dpotrf(M, lower=1)
        return np.inf if failed else -2.0 * float(np.log(np.diagonal(lower)).sum())

    def witness(self, M: Array, weights: Array | None = None) -> Witness | None:
        """G = M⁻¹, or `weights`, a factor F (n, n) of any other G > 0."""
        if weights is None:
            lower, failed = scipy.linalg.lapack.dpotrf(M, lower=1, clean=1)
            if failed:
                return None
            weights = np.asarray(scipy.linalg.lapack.dtrtri(lower, lower=1)[0]).T
        sign, size = np.linalg.slogdet(weights)
        return None if sign == 0 else Witness(weights, 2.0 * float(size), logarithm=True)

    def per_unit(self, witness: Witness, value: float) -> float:
        """d/dt of n log t at the optimum t = n e^((strength − f)/n)."""
        return float(np.exp((value - witness.strength) / len(witness.factor)))


@dataclass(frozen=True, eq=False)
class Least(Scaled):
    """1/λ, λ the largest number with M ≥ λW: E-optimality; `weight` W (n, n) ≥ 0."""

    weight: Array

    def value(self, M: Array) -> float:
        return self._extreme(M)[0]

    def _extreme(self, M: Array) -> tuple[float, Array]:
        """λ_max of M⁻½WM⁻½, and its eigenvector v in the form M⁻½v."""
        lower, failed = scipy.linalg.lapack.dpotrf(M, lower=1, clean=1)
        if failed:
            return np.inf, np.zeros(0)
        half = scipy.linalg.solve_triangular(lower, self.weight, lower=True, check_finite=False)
        inner = scipy.linalg.solve_triangular(lower, half.T, lower=True, check_finite=False)
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        back = scipy.linalg.solve_triangular(
            lower, vectors[:, -1], lower=True, trans=1, check_finite=False
        )
        return float(values[-1]), np.asarray(back)

    def witness(self, M: Array, weights: Array | None = None) -> Witness | None:
        """`weights` V (n, n) ≥ 0; without it the eigenvector of the worst direction."""
        if weights is None:
            found, vector = self._extreme(M)
            return None if not np.isfinite(found) else self.of(vector[:, None])
        values, vectors = np.linalg.eigh((weights + weights.T) / 2)
        return self.of(vectors * np.sqrt(np.maximum(values, 0.0)))

    def of(self, F: Array) -> Witness | None:
        """The witness V = FFᵀ."""
        strength = float(np.sum(F * (self.weight @ F)))
        return Witness(F, strength) if strength > 0 else None

    def per_unit(self, witness: Witness, value: float) -> float:
        return value**2 / witness.strength


def solve(M: Array, right: Array) -> Array | None:
    """M⁻¹B; for a singular M ≥ 0 a solution of MZ = B if there is one, else None."""
    lower, failed = scipy.linalg.lapack.dpotrf(M, lower=1)
    if not failed:
        least = float(
            np.min(np.diagonal(lower) ** 2 / np.maximum(np.diagonal(M), np.finfo(float).tiny))
        )
        if least > 1e3 * len(M) * EPS:
            return np.asarray(scipy.linalg.lapack.dpotrs(lower, right, lower=1)[0])
    scale = np.sqrt(np.maximum(np.diagonal(M), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(M / scale / scale[:, None])
    kept = values > 10 * len(M) * EPS * values[-1]
    inner = vectors.T @ (right / scale[:, None])
    rest = float(np.abs(inner[~kept]).max(initial=0.0))
    if rest > 1e-7 * float(np.abs(inner).max()):  # √eps: what rounding of M leaves of a direction
        return None
    basis = vectors[:, kept]
    return np.asarray(basis @ (inner[kept] / values[kept, None]) / scale[:, None])

"""The dual of each criterion: a concave function of few unknowns, with the readings only priced.

    Trace    f* = max over Z (n, r) of        2 tr BᵀZ − φ(q) ,                  q_k = |Zᵀh_k|²
    LogDet   f* = max over V > 0 of           log det V − φ(q) + n ,             q_k = h_kᵀVh_k
    Least    log f* = max over V > 0 of       log<V, W> + μ log det V − φ(q) + 1 , μ → 0

φ(q) = max qᵀx within the budget is convex, grows with q, and its gradient is the x of the best
levels (`_filling`). So each is concave, and differentiable where v > 0; its stationary points are
MZ = B, M = V⁻¹, M = W/<V, W> + μV⁻¹. Of Least the gap at the last is nμ.

By symmetry Z has fewer unknowns: with B = T[I; 0] the upper part of TᵀZ is symmetric where MZ = B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from privest.arrays import EPS, Array
from privest.design._scaled import Least, LogDet, Scaled, Trace, Witness, solve


@dataclass(frozen=True, eq=False)
class Line:
    """A form along a direction, 0 ≤ t ≤ longest: q(t) = q + t hᵀ first h + t² hᵀ second h.

    settled: whether the whole step is small: the barrier may be lower;
    gain(t): the slope of the part of the dual that is not φ; at(t): the form there.
    """

    first: Array
    second: Array | None
    longest: float
    gain: Callable[[float], float]
    at: Callable[[float], Form]
    settled: bool = True


class Form(Protocol):
    """A point of a dual.

    factor    F (n, r): q_k = |Fᵀh_k|².
    """

    @property
    def factor(self) -> Array: ...

    def gradient(self, M: Array) -> Array:
        """(d,), of φ minus the rest of the dual: to be made 0."""
        ...

    def curvature(self, M: Array, ridge: float) -> Array:
        """(d, d): Σ x_k ∂²q_k and of the rest of the dual; `ridge` where M alone is singular."""
        ...

    def features(self, rows: Array) -> Array:
        """∂q_k (b, d) for rows (b, n)."""
        ...

    def line(self, step: Array) -> Line:
        """Along a step (d,)."""
        ...

    def balance(self, top: float) -> float:
        """What to multiply the factor by where φ is `top`, for the best point of this direction."""
        ...

    def freed(self, M: Array, change: float) -> Form:
        """Away from the boundary, for a problem that has changed by a part of itself."""
        ...

    def scaled(self, by: float) -> Form:
        """The factor multiplied."""
        ...

    def tighter(self, tol: float) -> Form:
        """The same point of the dual that is closer to the criterion, if there is one."""
        ...

    def witness(self) -> Witness | None:
        """The proof that this point gives."""
        ...

    def weights(self) -> Array:
        """What `Scaled.witness` makes the same proof of."""
        ...


@dataclass(frozen=True, eq=False)
class Corner:
    """Where a matrix (n, r) with a symmetric upper part keeps its unknowns: column by column.

    pairs (n·r, d): the matrix, row by row, from the unknowns.
    """

    n: int
    r: int
    pairs: Array

    @classmethod
    def of(cls, n: int, r: int) -> Corner:
        pairs, d = np.zeros((n, r, n * r)), 0
        for j in range(r):
            for i in range(j, n):
                pairs[i, j, d] = 1.0
                if i < r:
                    pairs[j, i, d] = 1.0
                d += 1
        return cls(n, r, pairs[:, :, :d].reshape(n * r, d))

    def products(self, left: Array, right: Array) -> Array:
        """∂(lᵀXr) for rows l (b, n) and r (b, r): (b, d)."""
        found = np.empty((len(left), self.pairs.shape[1]))
        start = 0
        for j in range(self.r):
            stop = start + self.n - j
            np.multiply(left[:, j:], right[:, j : j + 1], out=found[:, start:stop])
            if j + 1 < self.r:
                found[:, start + 1 : start + self.r - j] += left[:, j : j + 1] * right[:, j + 1 :]
            start = stop
        return found


@dataclass(frozen=True, eq=False)
class Root:
    """Trace: the unknown is Z. `frame` is T⁻¹, `turn` takes the columns of B to those of T."""

    criterion: Trace
    corner: Corner
    root: Array
    frame: Array
    turn: Array
    spread: Array  # M of equal levels: what a ridge is measured in
    factor: Array

    @classmethod
    def at(cls, criterion: Trace, M: Array) -> Root:
        left, sizes, right = np.linalg.svd(criterion.root, full_matrices=True)
        rank = int(np.sum(sizes > len(left) * EPS * sizes[0]))
        root = left[:, :rank] * sizes[:rank]
        frame = left.copy()
        frame[:, :rank] /= sizes[:rank]
        frame[:, rank:] /= sizes[:rank].mean()
        start = solve(M, root)
        assert start is not None
        n = len(left)
        return cls(criterion, Corner.of(n, rank), root, frame.T, right[:rank], M, factor=start)

    def gradient(self, M: Array) -> Array:
        slope = 2.0 * self.frame @ (M @ self.factor - self.root)
        return np.asarray(self.corner.pairs.T @ slope.ravel())

    def curvature(self, M: Array, ridge: float) -> Array:
        inside = self.frame @ (M + ridge * self.spread) @ self.frame.T
        pairs = self.corner.pairs
        each = pairs.reshape(self.corner.n, -1)
        return np.asarray(2.0 * pairs.T @ (inside @ each).reshape(pairs.shape))

    def features(self, rows: Array) -> Array:
        return 2.0 * self.corner.products(rows @ self.frame.T, rows @ self.factor)

    def line(self, step: Array) -> Line:
        Z = self.factor
        change = self.frame.T @ (self.corner.pairs @ step).reshape(self.corner.n, self.corner.r)
        gain = 2.0 * float(np.sum(self.root * change))
        cross = Z @ change.T
        return Line(
            cross + cross.T,
            change @ change.T,
            1.0,
            lambda t: gain,
            lambda t: self._with(Z + t * change),
        )

    def balance(self, top: float) -> float:
        return float(np.sum(self.root * self.factor)) / top

    def freed(self, M: Array, change: float) -> Form:
        return self

    def scaled(self, by: float) -> Form:
        return self._with(by * self.factor)

    def _with(self, factor: Array) -> Root:
        return Root(
            self.criterion, self.corner, self.root, self.frame, self.turn, self.spread, factor
        )

    def tighter(self, tol: float) -> Form:
        return self

    def witness(self) -> Witness | None:
        return self.criterion.of(self.weights())

    def weights(self) -> Array:
        return np.asarray(self.factor @ self.turn)


@dataclass(frozen=True, eq=False)
class Square:
    """LogDet and Least: the unknown is V = FFᵀ, and a step is F(I + X)Fᵀ with X symmetric."""

    criterion: LogDet | Least
    factor: Array
    barrier: float = 1.0

    @classmethod
    def at(cls, criterion: LogDet | Least, M: Array) -> Square:
        start = np.asarray(scipy.linalg.lapack.dtrtri(np.linalg.cholesky(M), lower=1)[0]).T
        return cls(criterion, start)

    def _share(self) -> Array:
        """FᵀWF/<V, W>: the slope of log<V, W>."""
        if isinstance(self.criterion, LogDet):
            return np.zeros((len(self.factor), len(self.factor)))
        inside = self.factor.T @ self.criterion.weight @ self.factor
        return np.asarray(inside / np.trace(inside))

    def gradient(self, M: Array) -> Array:
        n = len(self.factor)
        return folded(self.factor.T @ M @ self.factor - self.barrier * np.eye(n) - self._share())

    def curvature(self, M: Array, ridge: float) -> Array:
        share = folded(self._share())
        return np.asarray(self.barrier * np.eye(len(share)) + np.outer(share, share))

    def features(self, rows: Array) -> Array:
        inside = rows @ self.factor
        n, start = inside.shape[1], 0
        found = np.empty((len(rows), n * (n + 1) // 2))
        for i in range(n):
            stop = start + n - i
            np.multiply(inside[:, i : i + 1], inside[:, i:], out=found[:, start:stop])
            start = stop
        found *= _sizes(n)
        return found

    def line(self, step: Array) -> Line:
        F, n = self.factor, len(self.factor)
        X = unfolded(step, n)
        values = np.linalg.eigvalsh(X)
        slope = float(np.sum(self._share() * X))
        longest = min(1.0, -0.95 / values[0]) if values[0] < 0 else 1.0

        def gain(t: float) -> float:
            barrier = self.barrier * float(np.sum(values / (1.0 + t * values)))
            return barrier + slope / (1.0 + t * slope)

        def at(t: float) -> Square:
            further = F @ np.linalg.cholesky(np.eye(n) + t * X)
            return Square(self.criterion, further, self.barrier)

        # A barrier's step at most doubles V: after a larger one it is not in the middle yet.
        settled = isinstance(self.criterion, LogDet) or float(np.abs(values).max()) <= 0.5
        return Line(F @ X @ F.T, None, longest, gain, at, settled)

    def balance(self, top: float) -> float:
        n, rest = len(self.factor), 0.0 if isinstance(self.criterion, LogDet) else 1.0
        return float(np.sqrt((self.barrier * n + rest) / top))

    def freed(self, M: Array, change: float) -> Form:
        if isinstance(self.criterion, LogDet):
            return self
        V = self.factor @ self.factor.T + change * np.linalg.inv(M)
        barrier = min(1.0, max(self.barrier, change))
        return Square(self.criterion, np.linalg.cholesky(V), barrier)

    def scaled(self, by: float) -> Form:
        return Square(self.criterion, by * self.factor, self.barrier)

    def tighter(self, tol: float) -> Form:
        if isinstance(self.criterion, LogDet):
            return self
        least = tol / (3.0 * len(self.factor))
        return Square(self.criterion, self.factor, max(least, self.barrier / 10.0))

    def witness(self) -> Witness | None:
        if isinstance(self.criterion, LogDet):
            return self.criterion.witness(np.zeros((0, 0)), self.factor)
        return self.criterion.of(self.factor)

    def weights(self) -> Array:
        F = self.factor
        return F if isinstance(self.criterion, LogDet) else F @ F.T


def _sizes(n: int) -> Array:
    """1 on the diagonal, √2 off it, row by row of the upper triangle."""
    i, j = np.triu_indices(n)
    return np.where(i == j, 1.0, np.sqrt(2.0))


def folded(X: Array) -> Array:
    """The upper triangle of a symmetric matrix as a vector of the same length."""
    return np.asarray(X[np.triu_indices(len(X))] * _sizes(len(X)))


def unfolded(x: Array, n: int) -> Array:
    """The symmetric matrix of `folded`."""
    X = np.zeros((n, n))
    X[np.triu_indices(n)] = x / _sizes(n)
    return np.asarray(X + np.triu(X, 1).T)


def form_of(criterion: Scaled, M: Array) -> Form:
    """The dual of a criterion at the point that belongs to M."""
    if isinstance(criterion, Trace):
        return Root.at(criterion, M)
    assert isinstance(criterion, LogDet | Least)
    return Square.at(criterion, M)

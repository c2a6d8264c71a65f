"""Symmetric positive semi-definite matrices that keep their structure.

A privacy level S and a noise covariance Σ are each a number times the identity (`Scalar`), a
diagonal (`Diagonal`) or blocks along the diagonal (`Blocks`; a dense matrix is one block).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.linalg import batched


class PSD(ABC):
    """S = L Lᵀ ≥ 0 of size m; L (m, m) has the structure of S, zero columns if S is singular.

    Methods that are not overridden hold for a diagonal S, L = S^½.
    """

    size: int

    @property
    @abstractmethod
    def pointwise(self) -> Array | float | None:
        """The diagonal if nothing lies off it (a number for `Scalar`), else None."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal, length m."""

    @abstractmethod
    def restrict(self, index: Index) -> PSD:
        """The sub-matrix of the increasing rows and columns `index`."""

    @abstractmethod
    def scaled(self, factor: float) -> PSD:
        """factor·S, factor ≥ 0."""

    @property
    def rank(self) -> int:
        """Number of non-zero columns of L."""
        return int((self.diagonal() > 0).sum())

    def dense(self) -> Array:
        """The m×m matrix."""
        return np.diag(self.diagonal())

    def norm(self) -> float:
        """The largest eigenvalue."""
        return float(self.diagonal().max())

    def factor_rows(self, right: Array) -> Array:
        """Lᵀ X for X (m, k)."""
        return np.sqrt(self.diagonal())[:, None] * right

    def times_factor(self, right: Array) -> Array:
        """L X for X (m, k): white noise X comes out with covariance S."""
        return self.factor_rows(right)

    def factor_terms(self) -> list[tuple[Array, Index | None]]:
        """Pairs (c_t, k_t), each (m,), with (Lᵀy)_i = Σ_t c_t[i]·y[k_t[i]]; None: k_t = i."""
        return [(np.sqrt(self.diagonal()), None)]

    def informative(self) -> Flags:
        """(m,): which columns of L are not zero."""
        return np.asarray(self.diagonal() > 0)

    def trace(self) -> float:
        return float(self.diagonal().sum())

    def blocks(self, sizes: Sequence[int]) -> Blocks:
        """The same matrix as blocks of the given, coarser sizes."""
        parts = np.split(self.diagonal(), np.cumsum(sizes)[:-1])
        return Blocks([np.diag(part) for part in parts])

    def plus(self, other: PSD) -> PSD:
        """S + S', in the simplest structure that holds the sum."""
        if isinstance(self, Scalar) and isinstance(other, Scalar):
            return Scalar(self.value + other.value, self.size)
        if self.pointwise is not None and other.pointwise is not None:
            return Diagonal(self.diagonal() + other.diagonal())
        first, second = aligned(self, other)
        return Blocks([a + b for a, b in zip(first.matrices, second.matrices)])


class Scalar(PSD):
    """value·I_m."""

    size: int

    value: float

    def __init__(self, value: float, size: int) -> None:
        self.value, self.size = value, size

    @property
    def pointwise(self) -> float:
        return self.value

    def diagonal(self) -> Array:
        return np.full(self.size, self.value)

    def trace(self) -> float:
        return self.value * self.size

    def factor_rows(self, right: Array) -> Array:
        return math.sqrt(self.value) * right

    def restrict(self, index: Index) -> Scalar:
        return Scalar(self.value, len(index))

    def scaled(self, factor: float) -> Scalar:
        return Scalar(factor * self.value, self.size)


class Diagonal(PSD):
    """diag(values); zeros are exact."""

    def __init__(self, values: Array) -> None:
        self.values: Array = values.view()
        self.values.setflags(write=False)
        self.size: int = len(values)

    @property
    def pointwise(self) -> Array:
        return self.values

    def diagonal(self) -> Array:
        return self.values

    def restrict(self, index: Index) -> Diagonal:
        return Diagonal(self.values[index])

    def scaled(self, factor: float) -> Diagonal:
        return Diagonal(factor * self.values)


class Blocks(PSD):
    """Blocks of any rank along the diagonal, those of equal size factored together.

    `lowers`: L block by block, where it is known.
    """

    def __init__(
        self, matrices: Sequence[Array] | Array, lowers: Sequence[Array] | None = None
    ) -> None:
        self.matrices = matrices
        self.sizes: tuple[int, ...] = tuple(len(matrix) for matrix in matrices)
        self.size: int = sum(self.sizes)
        self._lowers = lowers

    @cached_property
    def members(self) -> list[Index]:
        """The numbers of the blocks of every distinct size."""
        sizes = np.asarray(self.sizes)
        return [np.flatnonzero(sizes == size) for size in np.unique(sizes)]

    @cached_property
    def groups(self) -> list[tuple[Index, Array]]:
        """(rows (B, b), stack (B, b, b)) for every distinct block size b."""
        starts = np.cumsum([0, *self.sizes[:-1]])
        return [
            (
                starts[members][:, None] + np.arange(self.sizes[members[0]]),
                _stack(self.matrices, members),
            )
            for members in self.members
        ]

    @cached_property
    def factors(self) -> list[batched.Factor]:
        """S = L Lᵀ for every group."""
        if self._lowers is None:
            return [batched.factor(stack) for _, stack in self.groups]
        factors = []
        for members in self.members:
            lower = _stack(self._lowers, members)
            pivots = np.diagonal(lower, axis1=-2, axis2=-1)
            triangular = not np.triu(lower, 1).any() and bool((pivots > 0).all())
            factors.append(
                batched.Factor(lower, lower.shape[-1], triangular, 1.0, np.zeros(len(lower)))
            )
        return factors

    @property
    def rank(self) -> int:
        return sum(int((factor.lower != 0).any(1).sum()) for factor in self.factors)

    @property
    def positive_definite(self) -> bool:
        """Whether every block has a Cholesky factor beyond rounding."""
        return all(factor.triangular for factor in self.factors)

    @property
    def pointwise(self) -> None:
        return None

    def dense(self) -> Array:
        result = np.zeros((self.size, self.size))
        for rows, stack in self.groups:
            result[rows[:, :, None], rows[:, None, :]] = stack
        return result

    def diagonal(self) -> Array:
        return np.concatenate([np.diagonal(matrix) for matrix in self.matrices])

    def norm(self) -> float:
        return max(float(np.linalg.eigvalsh(stack).max()) for _, stack in self.groups)

    def factor_rows(self, right: Array) -> Array:
        result = np.zeros(right.shape)
        for (rows, _), factor in zip(self.groups, self.factors):
            result[rows[:, : factor.columns]] = factor.transpose_times(right[rows])
        return result

    def times_factor(self, right: Array) -> Array:
        result = np.zeros(right.shape)
        for (rows, _), factor in zip(self.groups, self.factors):
            result[rows] = factor.lower @ right[rows]
        return result

    def factor_terms(self) -> list[tuple[Array, Index | None]]:
        widest = max(self.sizes)
        weights = np.zeros((widest, self.size))
        places = np.zeros((widest, self.size), dtype=np.intp)
        for (rows, _), factor in zip(self.groups, self.factors):
            unit = np.broadcast_to(np.eye(rows.shape[1]), (len(rows), *rows.shape[1:] * 2))
            shown = factor.transpose_times(unit)  # Lᵀ itself: sums of zeros are exact
            for k in range(rows.shape[1]):
                weights[k, rows[:, : factor.columns]] = shown[:, :, k]
                places[k, rows] = rows[:, k : k + 1]
        return list(zip(weights, places))

    def restrict(self, index: Index) -> PSD:
        ends = np.cumsum(self.sizes)
        owner = np.searchsorted(ends, index, side="right")
        touched, first = np.unique(owner, return_index=True)
        kept = []
        for k, rows in zip(touched, np.split(index, first[1:])):
            local = rows - (ends[k] - self.sizes[k])
            kept.append(self.matrices[k][np.ix_(local, local)])
        return Blocks(kept)

    def scaled(self, factor: float) -> Blocks:
        return Blocks([factor * matrix for matrix in self.matrices])

    def blocks(self, sizes: Sequence[int]) -> Blocks:
        if tuple(sizes) == self.sizes:
            return self
        return Blocks(_merged(self.matrices, sizes), _merged(self.lowers(), sizes))

    def informative(self) -> Flags:
        return np.concatenate([(lower != 0).any(axis=0) for lower in self.lowers()])

    def lowers(self) -> list[Array]:
        """L block by block."""
        own: list[Array] = [np.zeros(0)] * len(self.sizes)
        for members, factor in zip(self.members, self.factors):
            for k, lower in zip(members, factor.lower):
                own[k] = lower
        return own


def _stack(matrices: Sequence[Array] | Array, members: Index) -> Array:
    if isinstance(matrices, np.ndarray):
        return matrices
    return matrices[0][None] if len(matrices) == 1 else np.stack([matrices[k] for k in members])


def _merged(matrices: Sequence[Array] | Array, sizes: Sequence[int]) -> list[Array]:
    remaining = iter(matrices)
    merged: list[Array] = []
    for size in sizes:
        matrix, at = np.zeros((size, size)), 0
        while at < size:
            part = next(remaining)
            matrix[at : at + len(part), at : at + len(part)] = part
            at += len(part)
        merged.append(matrix)
    return merged


def aligned(first: PSD, second: PSD) -> tuple[Blocks, Blocks]:
    """Both as blocks of the finest partition that holds the blocks of each."""
    own = [set(np.cumsum(m.sizes).tolist()) for m in (first, second) if isinstance(m, Blocks)]
    ends = sorted(set.intersection(*own))
    sizes = np.diff([0, *ends]).tolist()
    return first.blocks(sizes), second.blocks(sizes)

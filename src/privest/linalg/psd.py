"""Symmetric positive semi-definite matrices that keep their structure.

A privacy level S and a noise covariance Σ are each a number times the identity (`Scalar`), a
diagonal (`Diagonal`) or blocks along the diagonal (`Blocks`; a dense matrix is one block).
A scalar on a million readings stays one number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, Index, as_array
from privest.errors import InvalidInput
from privest.linalg import stacked

SYMMETRY_TOLERANCE = 1e-10  # of the largest entry; within it the nearest symmetric matrix is taken


class PSD(ABC):
    """S = L Lᵀ ≥ 0 of size m (theory §1).

    L is m×m, in the structure of S, with zero columns where S is singular: z̃ = Lᵀy + e then has
    one coordinate a reading, in the order of the blocks, and L depends on S alone.
    """

    size: int

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of non-zero columns of L: eigenvalues that are not numerically zero."""

    @property
    @abstractmethod
    def pointwise(self) -> Array | float | None:
        """The diagonal if nothing lies off it (a number for `Scalar`), else None."""

    @abstractmethod
    def dense(self) -> Array:
        """The m×m matrix. Costs m² memory: for small m, tests and files."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal, length m."""

    @abstractmethod
    def norm(self) -> float:
        """The largest eigenvalue."""

    @abstractmethod
    def factor_rows(self, right: Array) -> Array:
        """Lᵀ X for X (m, k)."""

    @abstractmethod
    def times_factor(self, right: Array) -> Array:
        """L X for X (m, k): white noise X comes out with covariance S."""

    @abstractmethod
    def restrict(self, index: Index) -> PSD:
        """The sub-matrix of the (increasing, integer) rows and columns `index`."""

    @abstractmethod
    def scaled(self, factor: float) -> PSD:
        """factor·S, factor ≥ 0."""

    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(self.diagonal().sum())

    def blocks(self, sizes: Sequence[int]) -> Blocks:
        """The same matrix (and the same L) as blocks of the given, coarser sizes."""
        parts = np.split(self.diagonal(), np.cumsum(sizes)[:-1])
        return Blocks([np.diag(part) for part in parts])

    def plus(self, other: PSD) -> PSD:
        """S + S', in the simplest structure that holds the sum."""
        mine, theirs = self.pointwise, other.pointwise
        if isinstance(self, Scalar) and isinstance(other, Scalar):
            return Scalar(self.value + other.value, self.size)
        if mine is not None and theirs is not None:
            return Diagonal(self.diagonal() + other.diagonal())
        first, second = aligned(self, other)
        return Blocks([a + b for a, b in zip(first.matrices, second.matrices)])


class Scalar(PSD):
    """value·I_m."""

    def __init__(self, value: float, size: int) -> None:
        self.value = value
        self.size = size

    @property
    def rank(self) -> int:
        return self.size if self.value > 0 else 0

    @property
    def pointwise(self) -> float:
        return self.value

    def dense(self) -> Array:
        return self.value * np.eye(self.size)

    def diagonal(self) -> Array:
        return np.full(self.size, self.value)

    def norm(self) -> float:
        return self.value

    def trace(self) -> float:
        return self.value * self.size

    def factor_rows(self, right: Array) -> Array:
        return math.sqrt(self.value) * right

    times_factor = factor_rows  # L is symmetric

    def restrict(self, index: Index) -> Scalar:
        return Scalar(self.value, len(index))

    def scaled(self, factor: float) -> Scalar:
        return Scalar(factor * self.value, self.size)


class Diagonal(PSD):
    """diag(values). Zeros are allowed and exact: no tolerance is involved."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.size = len(values)

    @property
    def rank(self) -> int:
        return int((self.values > 0).sum())

    @property
    def pointwise(self) -> Array:
        return self.values

    def dense(self) -> Array:
        return np.diag(self.values)

    def diagonal(self) -> Array:
        return self.values

    def norm(self) -> float:
        return float(self.values.max())

    def factor_rows(self, right: Array) -> Array:
        return np.sqrt(self.values)[:, None] * right

    times_factor = factor_rows  # L is symmetric

    def restrict(self, index: Index) -> Diagonal:
        return Diagonal(self.values[index])

    def scaled(self, factor: float) -> Diagonal:
        return Diagonal(factor * self.values)


class Blocks(PSD):
    """Symmetric blocks along the diagonal, each any rank. One block: a dense matrix.

    Blocks of equal size are factored together, once. `lowers` gives L where it is known.
    """

    def __init__(
        self, matrices: Sequence[Array] | Array, lowers: Sequence[Array] | None = None
    ) -> None:
        self.matrices = matrices
        self.sizes = tuple(len(matrix) for matrix in matrices)
        self.size = sum(self.sizes)
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
    def factors(self) -> list[stacked.Factor]:
        """S = L Lᵀ for every group."""
        if self._lowers is None:
            return [stacked.factor(stack) for _, stack in self.groups]
        factors = []
        for members in self.members:
            lower = _stack(self._lowers, members)
            pivots = np.diagonal(lower, axis1=-2, axis2=-1)
            triangular = not np.triu(lower, 1).any() and bool((pivots > 0).all())
            factors.append(
                stacked.Factor(lower, lower.shape[-1], triangular, 1.0, np.zeros(len(lower)))
            )
        return factors

    @property
    def rank(self) -> int:
        return sum(int((factor.lower != 0).any(1).sum()) for factor in self.factors)

    @property
    def positive_definite(self) -> bool:
        """Whether every block has a Cholesky factor that rounding did not decide."""
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

    def restrict(self, index: Index) -> PSD:
        ends = np.cumsum(self.sizes)
        kept = [
            matrix[np.ix_(local, local)]
            for matrix, end in zip(self.matrices, ends)
            if len(local := index[(index >= end - len(matrix)) & (index < end)] - end + len(matrix))
        ]
        return Blocks(kept)

    def scaled(self, factor: float) -> Blocks:
        return Blocks([factor * matrix for matrix in self.matrices])

    def blocks(self, sizes: Sequence[int]) -> Blocks:
        if tuple(sizes) == self.sizes:
            return self
        own: list[Array] = [np.zeros(0)] * len(self.sizes)
        for members, factor in zip(self.members, self.factors):
            for k, lower in zip(members, factor.lower):
                own[k] = lower
        return Blocks(_merged(self.matrices, sizes), _merged(own, sizes))


def _stack(matrices: Sequence[Array] | Array, members: Index) -> Array:
    if isinstance(matrices, np.ndarray):
        return matrices
    return matrices[0][None] if len(matrices) == 1 else np.stack([matrices[k] for k in members])


def _merged(matrices: Sequence[Array] | Array, sizes: Sequence[int]) -> list[Array]:
    """Neighbouring blocks put together, block-diagonally, to the given sizes."""
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
    """Both matrices as blocks of the finest partition that holds the blocks of each."""
    own = [set(np.cumsum(m.sizes).tolist()) for m in (first, second) if isinstance(m, Blocks)]
    ends = sorted(set.intersection(*own))
    sizes = np.diff([0, *ends]).tolist()
    return first.blocks(sizes), second.blocks(sizes)


def psd(
    value: ArrayLike,
    name: str,
    *,
    size: int | None = None,
    error: type[InvalidInput] = InvalidInput,
) -> PSD:
    """Check that `value` is finite, symmetric and ≥ 0, and keep its structure.

    A number (needs `size`), a vector (diagonal), a matrix, or blocks as an array (K, b, b).
    What is exactly diagonal becomes `Diagonal`.
    Raises `error` naming the most negative eigenvalue of what is not PSD.

    >>> psd([[2.0, 1.0], [1.0, 2.0]], "S").rank, psd([[1.0, 1.0], [1.0, 1.0]], "S").rank
    (2, 1)
    """
    array = as_array(value, name, ndim=(0, 1, 2, 3), error=error)
    if array.size == 0:
        raise error(f"{name} is empty (shape {array.shape}).")
    if array.ndim == 0:
        _require_nonnegative(array.reshape(1), name, error)
        if size is None:
            raise error(f"{name} is a number: its size must be given.")
        return Scalar(float(array), size)
    length = len(array) * (array.shape[1] if array.ndim == 3 else 1)
    if size is not None and length != size:
        raise error(f"{name} must have size {size}; received an array of shape {array.shape}.")
    if array.ndim == 1:
        _require_nonnegative(array, name, error)
        return Diagonal(array.copy())
    return _checked_blocks([array if array.ndim == 3 else array[None]], name, error)


def psd_blocks(
    matrices: Sequence[ArrayLike], name: str, *, error: type[InvalidInput] = InvalidInput
) -> PSD:
    """Check matrices (of any sizes) to stand as blocks along the diagonal."""
    if len(matrices) == 0:
        raise error(f"{name} has no blocks.")
    arrays = [
        as_array(matrix, f"block {k} of {name}", ndim=2, error=error)[None]
        for k, matrix in enumerate(matrices)
    ]
    if len({array.shape for array in arrays}) == 1:
        arrays = [np.concatenate(arrays)]
    return _checked_blocks(arrays, name, error)


def _checked_blocks(stacks: list[Array], name: str, error: type[InvalidInput]) -> PSD:
    """Blocks from stacks in order: either one stack of all, or one stack a block."""
    stacks = [_symmetric(stack, name, error) for stack in stacks]
    if all(_is_diagonal(stack) for stack in stacks):
        diagonal = np.concatenate(
            [np.diagonal(stack, axis1=-2, axis2=-1).ravel() for stack in stacks]
        )
        _require_nonnegative(diagonal, name, error)
        return Diagonal(diagonal)
    result = Blocks(stacks[0] if len(stacks) == 1 else [stack[0] for stack in stacks])
    _require_semidefinite(result, name, error)
    return result


def _is_diagonal(stack: Array) -> bool:
    if stack.shape[-1] > 1 and stack[0, 0, 1] != 0:  # the usual dense matrix: no second look
        return False
    diagonal = np.diagonal(stack, axis1=-2, axis2=-1)
    return bool(np.count_nonzero(stack) == np.count_nonzero(diagonal))


def _symmetric(stack: Array, name: str, error: type[InvalidInput]) -> Array:
    if stack.shape[-2] != stack.shape[-1] or stack.size == 0:
        raise error(f"{name} must be square and not empty; received shape {stack.shape[-2:]}.")
    transposed = stack.transpose(0, 2, 1)
    if all(  # in strips: a whole transposed matrix would be read against the grain of the cache
        np.array_equal(stack[:, at : at + 256, at:], transposed[:, at : at + 256, at:])
        for at in range(0, stack.shape[-1], 256)
    ):
        return np.array(stack, order="C")
    gap = np.abs(stack - transposed)
    if gap.max() > SYMMETRY_TOLERANCE * np.abs(stack).max():
        block, i, j = (int(k) for k in np.unravel_index(gap.argmax(), gap.shape))
        where = "" if len(stack) == 1 else f" of block {block}"
        raise error(
            f"{name} must be symmetric; entries ({i}, {j}) and ({j}, {i}){where} differ by "
            f"{gap.max():.3g}. If the asymmetry is rounding, pass (S + S.T) / 2."
        )
    return (stack + transposed) / 2


def _require_nonnegative(values: Array, name: str, error: type[InvalidInput]) -> None:
    worst = int(values.argmin())
    if values[worst] < 0:
        where = "" if values.size == 1 else f" at index {worst}"
        raise error(
            f"{name} must be positive semi-definite (no negative entry on its diagonal); "
            f"it has eigenvalue {values[worst]:.6g}{where}."
        )


def _require_semidefinite(matrix: Blocks, name: str, error: type[InvalidInput]) -> None:
    for (_, stack), factor in zip(matrix.groups, matrix.factors):
        worst = int(factor.excess.argmin())
        if factor.excess[worst] < -1:
            smallest = np.linalg.eigvalsh(stack[worst])[0]
            raise error(
                f"{name} must be positive semi-definite; it has eigenvalue {smallest:.6g}, "
                f"beyond rounding (10·m·eps relative)."
            )

"""Symmetric positive semi-definite matrices that keep their structure.

A privacy level S and a noise covariance Σ are each a number times the identity (`Scalar`), a
diagonal (`Diagonal`) or blocks along the diagonal (`Blocks`; a dense matrix is one block). `psd`
checks what a user passes; `loewner` compares two of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index, as_array
from privest.errors import InvalidInput
from privest.linalg import batched
from privest.linalg.tolerances import ASYMMETRY, rounding


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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: ANN401
        """The m×m matrix, for functions of NumPy."""
        return np.asarray(self.dense(), dtype)

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


# --- levels and covariances that a user passes, checked -------------------------------------------


def psd(value: ArrayLike, name: str, *, size: int | None = None) -> PSD:
    """A number (with `size`), a vector (diagonal), a matrix or blocks (K, b, b), checked to be PSD.

    >>> psd([[2.0, 1.0], [1.0, 2.0]], "S").rank, psd([[1.0, 1.0], [1.0, 1.0]], "S").rank
    (2, 1)
    """
    array = as_array(value, name, ndim=(0, 1, 2, 3))
    if array.size == 0:
        raise InvalidInput(f"{name} is empty (shape {array.shape}).")
    if array.ndim == 0:
        _require_nonnegative(array.reshape(1), name)
        if size is None:
            raise InvalidInput(f"{name} is a number: its size must be given.")
        return Scalar(float(array), size)
    length = len(array) * (array.shape[1] if array.ndim == 3 else 1)
    if size is not None and length != size:
        raise InvalidInput(
            f"{name} must have size {size}; received an array of shape {array.shape}."
        )
    if array.ndim == 1:
        _require_nonnegative(array, name)
        return Diagonal(array.copy())
    return _checked_blocks([array if array.ndim == 3 else array[None]], name)


def psd_blocks(matrices: Sequence[ArrayLike], name: str) -> PSD:
    """Matrices of any sizes as blocks along the diagonal, checked to be PSD."""
    if len(matrices) == 0:
        raise InvalidInput(f"{name} has no blocks.")
    arrays = [
        as_array(matrix, f"block {k} of {name}", ndim=2)[None] for k, matrix in enumerate(matrices)
    ]
    if len({array.shape for array in arrays}) == 1:
        arrays = [np.concatenate(arrays)]
    return _checked_blocks(arrays, name)


def _checked_blocks(stacks: list[Array], name: str) -> PSD:
    stacks = [_symmetric(stack, name) for stack in stacks]
    if all(_is_diagonal(stack) for stack in stacks):
        diagonal = np.concatenate(
            [np.diagonal(stack, axis1=-2, axis2=-1).ravel() for stack in stacks]
        )
        _require_nonnegative(diagonal, name)
        return Diagonal(diagonal)
    result = Blocks(stacks[0] if len(stacks) == 1 else [stack[0] for stack in stacks])
    _require_semidefinite(result, name)
    return result


def _is_diagonal(stack: Array) -> bool:
    if stack.shape[-1] > 1 and stack[0, 0, 1] != 0:  # the usual dense matrix: no second look
        return False
    diagonal = np.diagonal(stack, axis1=-2, axis2=-1)
    return bool(np.count_nonzero(stack) == np.count_nonzero(diagonal))


def _symmetric(stack: Array, name: str) -> Array:
    if stack.shape[-2] != stack.shape[-1] or stack.size == 0:
        raise InvalidInput(
            f"{name} must be square and not empty; received shape {stack.shape[-2:]}."
        )
    transposed = stack.transpose(0, 2, 1)
    if all(  # in strips: a whole transposed matrix would be read against the grain of the cache
        np.array_equal(stack[:, at : at + 256, at:], transposed[:, at : at + 256, at:])
        for at in range(0, stack.shape[-1], 256)
    ):
        return np.array(stack, order="C")
    gap = np.abs(stack - transposed)
    size = np.sqrt(np.abs(np.diagonal(stack, axis1=-2, axis2=-1)))
    excess = gap - ASYMMETRY * size[:, :, None] * size[:, None, :]
    if excess.max() > 0:
        block, i, j = (int(k) for k in np.unravel_index(excess.argmax(), gap.shape))
        where = "" if len(stack) == 1 else f" of block {block}"
        raise InvalidInput(
            f"{name} must be symmetric; entries ({i}, {j}) and ({j}, {i}){where} differ by "
            f"{gap[block, i, j]:.3g}. If the asymmetry is rounding, average it with its transpose."
        )
    return (stack + transposed) / 2


def _require_nonnegative(values: Array, name: str) -> None:
    worst = int(values.argmin())
    if values[worst] < 0:
        where = "" if values.size == 1 else f" at index {worst}"
        raise InvalidInput(
            f"{name} must be positive semi-definite (no negative entry on its diagonal); "
            f"it has eigenvalue {values[worst]:.6g}{where}."
        )


def _require_semidefinite(matrix: Blocks, name: str) -> None:
    for (_, stack), factor in zip(matrix.groups, matrix.factors):
        worst = int(factor.excess.argmin())
        if factor.excess[worst] < -1:
            smallest = np.linalg.eigvalsh(stack[worst])[0]
            raise InvalidInput(
                f"{name} must be positive semi-definite; it has eigenvalue {smallest:.6g}, "
                "beyond rounding (1e-11 relative to its diagonal). A zero on the diagonal needs a "
                "row and column of exact zeros."
            )


# --- the Loewner order ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Order:
    """Verdict on A ≤ B: the least eigenvalue of B − A, its tolerance and its eigenvector."""

    holds: bool
    margin: float
    tolerance: float
    direction: Array

    def __bool__(self) -> bool:
        return self.holds


def loewner(lower: ArrayLike | PSD, upper: ArrayLike | PSD, *, rtol: float | None = None) -> Order:
    """The Loewner order A ≤ B: λ_min(B − A) ≥ −rtol·max(‖A‖, ‖B‖); rtol defaults to 10·n·eps.

    >>> bool(loewner([[1.0, 0.0], [0.0, 2.0]], [[2.0, 1.0], [1.0, 3.0]]))
    True
    """
    a, b = (_dense(side) for side in (lower, upper))
    if a.shape != b.shape or a.shape[0] != a.shape[-1] or not a.size:
        raise InvalidInput(
            f"The Loewner order compares square matrices of one size; received {a.shape} and "
            f"{b.shape}."
        )
    size = max(np.linalg.norm(a, 2), np.linalg.norm(b, 2))
    values, vectors = np.linalg.eigh((b - a + (b - a).T) / 2)
    tolerance = float(size) * (rounding(len(a)) if rtol is None else rtol)
    return Order(bool(values[0] >= -tolerance), float(values[0]), tolerance, vectors[:, 0])


def _dense(matrix: ArrayLike | PSD) -> Array:
    if isinstance(matrix, PSD):
        return matrix.dense()
    array = as_array(matrix, "a side of the order", ndim=(1, 2))
    return array if array.ndim == 2 else np.diag(array)

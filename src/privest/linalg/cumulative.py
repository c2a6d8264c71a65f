"""PI_k = Σ_{j ≤ k} G_jᵀG_j of a stream, its inverse and the estimate, for every step k.

One entry of the matrices of a chunk of steps is one contiguous vector: the n³ operations of a
factorisation are n³ passes over vectors in cache, instead of K calls.

The sums of [G ζ] make an augmented triangle: with Cholesky on its first n columns,

    [PI  ·]   [L   ] [Lᵀ y]          [L   ]⁻¹   [ L⁻¹   ]
    [sᵀ  ·] = [yᵀ 1] [    ·] ,       [yᵀ 1]   = [−θ̂ᵀ  1] ,       PI⁻¹ = L⁻ᵀL⁻¹ ,

so that the estimates θ̂ = PI⁻¹s need no substitutions of their own.

Sums of squares lose digits with cond(R)², R the root of the information. Where that would show
(`INFLATION`), rows are first multiplied by R⁻¹ of the last step of their piece, in whose
coordinates PI_k is near the identity; what is still too far from it goes into shorter pieces, and
single steps are taken from R itself, updated by QR. The relative error is then about eps·cond(R).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index
from privest.errors import NumericalFailure
from privest.linalg._root import InformationRoot
from privest.linalg.batched import substitute
from privest.linalg.tolerances import INFLATION, rank_tolerance

CHUNK = 8192  # steps at a time, for n = 5: about where calls and cache misses cost the same
PIECE = 128  # sums start afresh so often: their error is (PIECE + CHUNK/PIECE)·eps, whatever K
SHORT = 8  # steps that are quicker done one by one
VECTORISED = 12  # beyond this n LAPACK's call overhead no longer matters


class Columns(ABC):
    """Whitened rows [G ζ] of a stream, column by column; `count` = n or n + 1."""

    count: int
    measurements: int

    @abstractmethod
    def part(self, start: int, stop: int) -> Array:
        """The columns of measurements start..stop−1, (count, stop − start), to be read only."""


class StoredColumns(Columns):
    """Kept as an array (count, M)."""

    def __init__(self, array: Array) -> None:
        self.array = np.ascontiguousarray(array)
        self.count, self.measurements = self.array.shape

    def part(self, start: int, stop: int) -> Array:
        return self.array[:, start:stop]


class PointwiseColumns(Columns):
    """Level s and variance σ² of single measurements: √(s/(1 + sσ²)) h and z̃/√(1 + sσ²).

    Made when asked for: cheaper than memory for a long stream.
    """

    def __init__(
        self, matrix: Array, release: Array | None, level: Array | float, variance: Array | float
    ) -> None:
        self.measurements, n = matrix.shape
        self.matrix, self.release = matrix, release
        self.level = np.broadcast_to(level, self.measurements)
        self.variance = np.broadcast_to(variance, self.measurements)
        self.count = n + (release is not None)

    def part(self, start: int, stop: int) -> Array:
        n, where = self.matrix.shape[1], slice(start, stop)
        result = np.empty((self.count, stop - start))
        level, variance, matrix = self.level[where], self.variance[where], self.matrix[where]
        deviation = np.sqrt(1.0 + level * variance)
        np.multiply(matrix.T, np.sqrt(level) / deviation, out=result[:n])
        if self.release is not None:
            np.divide(self.release[where], deviation, out=result[n])
        return result


class Kernel(NamedTuple):
    """`run(columns, ends, carry, bounds, estimates, at)` does the steps of one chunk.

    columns     (n, r), or (n + 1, r) with ζ last: whitened rows of the chunk.
    ends        (c,): how many of them each step has seen; None for one per step.
    carry       (n or n + 1, n): the lower triangle of the sums before the chunk.
    bounds      (K, n, n), estimates (K, n) or None: written from step `at` on, in memory `order`.
    Returns the chunk's own sums and, for each step, whether the inflation is below INFLATION; else
    what was written is not to be used.
    """

    run: Callable[[Array, Index | None, Array, Array, Array | None, int], tuple[Array, Flags]]
    order: Literal["C", "F"]


class Carry:
    """A running sum in two doubles (Knuth's two-sum): its error does not grow with K."""

    def __init__(self, value: Array) -> None:
        self.value = value
        self._rest = np.zeros_like(value)

    def add(self, more: Array) -> None:
        """Add `more` to the value."""
        term = more + self._rest
        total = self.value + term
        shadow = total - self.value
        self._rest = (self.value - (total - shadow)) + (term - shadow)
        self.value = total


def chunks(start: int, stop: int, n: int) -> Iterator[tuple[int, int]]:
    """Steps at a time, so that the n² vectors of a chunk stay in cache."""
    step = max(CHUNK * 25 // max(n, 5) ** 2, PIECE)
    return ((at, min(at + step, stop)) for at in range(start, stop, step))


def running_sums(columns: Array, ends: Index | None, carry: Array) -> tuple[Array, Array]:
    """Σ x_i x_j after every step, (n + 1, n, c), lower triangle; and the chunk's own sums."""
    (size, n), measurements = carry.shape, columns.shape[1]
    pieces = -(-measurements // PIECE)
    sums = np.empty((size, n, pieces * PIECE))
    own = np.zeros((size, n))
    for j in range(n):
        column = sums[j:, j]
        np.multiply(columns[j:], columns[j], out=column[:, :measurements])
        column[:, measurements:] = 0.0
        parts = column.reshape(size - j, pieces, PIECE)
        np.cumsum(parts, axis=2, out=parts)
        before = np.cumsum(parts[:, :, -1], axis=1)
        own[j:, j] = before[:, -1]
        before[:, 1:] = before[:, :-1]
        before[:, 0] = 0.0
        parts += (before + carry[j:, j, None])[:, :, None]
    return sums[:, :, slice(measurements) if ends is None else ends - 1], own


def information(columns: Columns, ends: Index | None, n: int) -> Array:
    """PI_k for every k, (K, n, n)."""
    steps = columns.measurements if ends is None else len(ends)
    result = np.empty((steps, n, n), order="F")
    carry = Carry(np.zeros((n, n)))
    for start, stop in chunks(0, steps, n):
        part, local = step_columns(columns, ends, start, stop)
        sums, own = running_sums(part[:n], local, carry.value)
        carry.add(own)
        for i in range(n):
            result[start:stop, i, : i + 1] = result[start:stop, : i + 1, i] = sums[i, : i + 1].T
    return result


def step_columns(
    columns: Columns, ends: Index | None, start: int, stop: int
) -> tuple[Array, Index | None]:
    """The columns that belong to the steps start..stop−1, and their ends counted from there."""
    if ends is None:
        return columns.part(start, stop), None
    before = int(ends[start - 1]) if start else 0
    after = int(ends[stop - 1]) if stop else 0
    return columns.part(before, after), ends[start:stop] - before


def _run(
    columns: Array,
    ends: Index | None,
    carry: Array,
    bounds: Array,
    estimates: Array | None,
    at: int,
) -> tuple[Array, Flags]:
    # What is not usable is told by the second result, not by a warning.
    with np.errstate(all="ignore"):
        sums, own = running_sums(columns, ends, carry)
        _, n, steps = sums.shape
        part = slice(at, at + steps)
        inverse = _inverse_factors(sums) if n <= VECTORISED else _lapack_factors(sums)
        if inverse is None:
            return own, np.zeros(steps, dtype=bool)
        diagonal, factor = inverse
        if estimates is not None:
            estimates[part] = factor[n].T
        return own, _squares(factor, diagonal, bounds[part].transpose(1, 2, 0))


def _inverse_factors(sums: Array) -> tuple[Array, Array]:
    """The diagonals of PI (n, c), and L⁻¹ with θ̂ᵀ below it, in the place of the sums."""
    size, n, steps = sums.shape
    diagonal, root = np.empty((n, steps)), np.empty((n, steps))
    scratch = np.empty((size, steps))
    for j in range(n):
        diagonal[j] = sums[j, j]
        np.divide(1.0, np.sqrt(sums[j, j], out=root[j]), out=root[j])
        sums[j + 1 :, j] *= root[j]
        for k in range(j + 1, n):
            np.multiply(sums[k:, j], sums[k, j], out=scratch[k:])
            sums[k:, k] -= scratch[k:]
    negative = np.negative(root)
    for j in range(n):  # column by column: the columns to the right of j still hold L
        sums[j, j] = root[j]
        sums[j + 1 :, j] *= root[j]
        for k in range(j + 1, n):
            sums[k, j] *= negative[k]
            np.multiply(sums[k + 1 :, k], sums[k, j], out=scratch[k + 1 :])
            sums[k + 1 :, j] += scratch[k + 1 :]
    return diagonal, sums


def _lapack_factors(sums: Array) -> tuple[Array, Array] | None:
    """The same, one LAPACK call a step: for n so large that the call is not the cost."""
    size, n, _ = sums.shape
    diagonal = np.stack([sums[j, j] for j in range(n)])
    try:
        lower = np.linalg.cholesky(sums[:n].transpose(2, 0, 1))
        inverse = np.linalg.inv(lower)
    except np.linalg.LinAlgError:
        return None
    for i in range(n):
        sums[i, : i + 1] = inverse[:, i, : i + 1].T
    if size > n:
        forward = inverse @ sums[n].T[:, :, None]
        sums[n] = (inverse.transpose(0, 2, 1) @ forward)[:, :, 0].T
    return diagonal, sums


def _squares(factor: Array, diagonal: Array, bounds: Array) -> Flags:
    """PI⁻¹ = L⁻ᵀL⁻¹ into `bounds`, and where no variance is inflated beyond INFLATION."""
    n, steps = diagonal.shape
    scratch = np.empty((n, steps))
    good = np.ones(steps, dtype=bool)
    for j in range(n):
        row = bounds[j]  # [PI⁻¹]_ji = Σ_{k ≥ i} [L⁻¹]_kj [L⁻¹]_ki
        np.multiply(factor[n - 1, j:], factor[n - 1, j], out=row[j:])
        for k in reversed(range(j, n - 1)):
            np.multiply(factor[k, j : k + 1], factor[k, j], out=scratch[j : k + 1])
            row[j : k + 1] += scratch[j : k + 1]
        bounds[j + 1 :, j] = row[j + 1 :]
        good &= np.multiply(diagonal[j], row[j], out=diagonal[j]) <= INFLATION  # false for NaN
    return good


numpy_kernel = Kernel(_run, "F")


def every_step(
    columns: Columns, ends: Index | None, n: int, first: int, kernel: Kernel = numpy_kernel
) -> tuple[Array, Array | None]:
    """PI_k⁻¹ (K − first, n, n) and, if ζ is given, θ̂_k (K − first, n), for k = first..K−1.

    `columns`: whitened rows G, then ζ or not; `ends` (K,) the measurements seen after each step,
    None for one per step; θ must be identifiable from step `first` on. O(K n³).
    """
    walk = _Walk(columns, ends, n, first, kernel)
    walk.run()
    return walk.bounds, walk.estimates


class _Walk:
    def __init__(
        self, columns: Columns, ends: Index | None, n: int, first: int, kernel: Kernel
    ) -> None:
        self.columns, self.ends, self.n, self.first = columns, ends, n, first
        self.kernel = kernel
        self.steps = columns.measurements if ends is None else len(ends)
        shown = self.steps - first
        self.bounds = np.empty((shown, n, n), order=kernel.order)
        self.estimates = np.empty((shown, n), order=kernel.order) if columns.count > n else None
        self._front: tuple[int, Array] = (0, np.zeros((0, columns.count)))

    def run(self) -> None:
        before, _ = self._part(0, self.first)
        with np.errstate(all="ignore"):
            carry, coordinates = Carry(before @ before[: self.n].T), None
        for start, stop in chunks(self.first, self.steps, self.n):
            good = self._piece(start, stop, coordinates, carry)
            if good.all():
                continue
            front = self._front_at(start)
            if good[-1]:
                self._repair(start, ~good, front)
            else:  # these coordinates have had their time
                coordinates = self._recompute(start, stop, front)
                carry = Carry(np.concatenate([np.eye(self.n), coordinates[:, self.n :].T]))

    def _part(self, start: int, stop: int) -> tuple[Array, Index | None]:
        return step_columns(self.columns, self.ends, start, stop)

    def _piece(self, start: int, stop: int, triangle: Array | None, carry: Carry) -> Flags:
        """Steps start..stop−1 in the coordinates Rθ of `triangle` = [R q]; where they are good."""
        n, at = self.n, start - self.first
        columns, ends = self._part(start, stop)
        if triangle is not None:
            columns = columns.copy()
            columns[:n] = _divide(columns[:n].T, triangle[:, :n]).T
        own, good = self.kernel.run(columns, ends, carry.value, self.bounds, self.estimates, at)
        carry.add(own)
        if triangle is not None:
            self._back(slice(at, at + len(good)), _inverse(triangle[:, :n]))
        return good

    def _back(self, part: slice, inverse: Array) -> None:
        """R⁻¹ X R⁻ᵀ and R⁻¹ x: out of the coordinates Rθ, as products with long vectors."""
        with np.errstate(all="ignore"):
            bounds = np.ascontiguousarray(self.bounds[part].transpose(1, 2, 0))
            bounds = np.matmul(inverse, np.tensordot(inverse, bounds, 1))
            for i in range(1, self.n):
                bounds[:i, i] = bounds[i, :i]  # symmetric to the last digit
            self.bounds[part] = bounds.transpose(2, 0, 1)
            if self.estimates is not None:
                self.estimates[part] = self.estimates[part] @ inverse.T

    def _recompute(self, start: int, stop: int, front: Array) -> Array:
        """Steps start..stop−1 with [R q] of all steps before them; returns [R q] after them."""
        if start == stop:
            return front
        if stop - start <= SHORT:
            return self._one_by_one(start, stop, front)
        n, end = self.n, self._after(front, start, stop)
        turned = _divide(front[:, :n], end[:, :n])
        sums = np.concatenate([turned.T @ turned, front[:, n:].T @ turned])
        good = self._piece(start, stop, end, Carry(sums))
        self._repair(start, ~good, front)
        return end

    def _repair(self, start: int, bad: Flags, front: Array) -> None:
        """The bad steps again, run by run; a long run in halves, so that it ends."""
        seen = start
        for first, last in _runs(bad):
            half = (first + last) // 2 if last - first > len(bad) // 2 else last
            for stop in (half, last):
                front = self._after(front, seen, start + first)
                front = self._recompute(start + first, start + stop, front)
                seen, first = start + stop, stop

    def _one_by_one(self, start: int, stop: int, front: Array) -> Array:
        n = self.n
        for step in range(start, stop):
            front = self._after(front, step, step + 1)
            inverse = _inverse(front[:, :n])
            self.bounds[step - self.first] = inverse @ inverse.T
            if self.estimates is not None:
                self.estimates[step - self.first] = inverse @ front[:, n]
        return front

    def _after(self, front: Array, start: int, stop: int) -> Array:
        """[R q] after steps start..stop−1, from [R q] before them: backward stable."""
        if start == stop:
            return front
        rows = self._part(start, stop)[0].T
        upper = np.asarray(np.linalg.qr(np.concatenate([front, rows]), mode="r"))
        triangle = upper[: self.n]
        if start >= self.first:
            self._require_rank(triangle, stop - 1)
        return triangle

    def _front_at(self, step: int) -> Array:
        at, front = self._front
        for start, stop in chunks(at, step, self.n):
            front = self._after(front, start, stop)
        self._front = (step, front)
        return front

    def _require_rank(self, triangle: Array, step: int) -> None:
        root = triangle[:, : self.n]
        scale = np.linalg.norm(root, axis=0)
        if InformationRoot(root, scale, rank_tolerance(self.n)).rank < self.n:
            raise NumericalFailure(
                f"After step {step} the information has directions so different (beyond 1e11) "
                "that rounding hides what earlier steps showed. Scale or drop the weak ones."
            )


def _divide(rows: Array, triangle: Array) -> Array:
    """X R⁻¹ for X (r, n)."""
    return substitute(triangle, rows.T, transposed=True).T


def _inverse(triangle: Array) -> Array:
    return np.triu(scipy.linalg.lapack.dtrtri(triangle)[0])


def _runs(flags: Flags) -> Iterator[tuple[int, int]]:
    """(start, stop) of every run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return ((int(a), int(b)) for a, b in edges.reshape(-1, 2))

"""Every bound and every estimate of a stream in one pass, with as many digits as cond R allows.

Sums of squares lose digits with cond(R)², R the root of the information. Where that would show
(`INFLATION`), rows are first multiplied by R⁻¹ of the last step of their piece, in whose
coordinates PI_k is near the identity, and results are carried back; what is still too far from
the identity goes into shorter pieces, and single steps are taken from R itself, updated by QR. The
relative error is then about eps·cond(R), and no step is patched.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index
from privest.errors import NumericalFailure
from privest.linalg._root import InformationRoot
from privest.linalg.batched import substitute
from privest.linalg.cumulative import Carry, Columns, Kernel, chunks, numpy_kernel, step_columns
from privest.linalg.tolerances import rank_tolerance

SHORT = 8  # steps that are quicker done one by one


def every_step(
    columns: Columns, ends: Index | None, n: int, first: int, kernel: Kernel = numpy_kernel
) -> tuple[Array, Array | None]:
    """PI_k⁻¹ (K − first, n, n) and, if ζ is given, θ̂_k (K − first, n), for k = first..K−1.

    `columns`: whitened rows G, then ζ or not; `ends` (K,) the readings seen after
    each step, None for one reading a step; θ must be identifiable from step `first` on.
    Numerics: see above; O(K n³), memory of the results and of one chunk.
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
        self.steps = columns.readings if ends is None else len(ends)
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
                "that rounding hides what earlier steps showed. Scale or drop the weak readings."
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

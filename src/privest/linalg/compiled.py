"""The loops of a long stream in the part of Python that numba compiles, and calls of them.

The same operations as the NumPy route (`cumulative`), in nearly the same order; LANES steps side by
side, so that every innermost loop runs over steps.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.linalg import compiling
from privest.linalg.cumulative import Kernel
from privest.linalg.tolerances import INFLATION

LONG = 50_000  # measurements from which on compiling (or reading the cache) pays
GRAM_BLOCK = 256  # rows at a time
LANES = 128  # steps side by side: their n² vectors fit the first-level cache


def wanted(compiled: bool | None, measurements: int) -> bool:
    """Whether to use the compiled loops; None decides by length, True insists."""
    return compiling.wanted(compiled, measurements >= LONG)


def _run(
    columns: Array,
    ends: Index | None,
    carry: Array,
    bounds: Array,
    estimates: Array | None,
    at: int,
) -> tuple[Array, Flags]:
    steps = columns.shape[1] if ends is None else len(ends)
    own, good = np.zeros(carry.shape), np.empty(steps, dtype=np.bool_)
    counts = np.zeros(0, dtype=np.int64) if ends is None else ends.astype(np.int64, copy=False)
    target = np.zeros((0, 0)) if estimates is None else estimates
    loop = compiling.machine_code(
        every_step, "in2 index in2 out3 out2 int float out2 outflags",
        uses=(lane_sums, lane_factors, lane_inverses, lane_squares, lane_results),
    )  # fmt: skip
    loop(columns, counts, carry, bounds, target, at, INFLATION, own, good)
    return own, good


kernel = Kernel(_run, "C")


def whiten_banded(shown: Array, deviation: Array, matrix: Array, release: Array) -> Array | None:
    """[G ζ] as columns (n + 1, K) for scalar measurements that look back b steps.

    shown (b + 1, K) by lag, deviation √Σ (K,), H (K, n), releases (K,) or (0,) for G alone:
    V = A Σ Aᵀ + I = C Cᵀ row by row, G = C⁻¹A H, ζ = C⁻¹z̃. None where V is numerically singular.
    O(K b²) time, O(b²) memory besides the result.
    """
    result = np.empty((matrix.shape[1] + (len(release) > 0), len(matrix)))
    loop = compiling.machine_code(banded_rows, "in2 in1 in2 in1 out2")
    return result if loop(shown, deviation, matrix, release, result) < 0 else None


def gram(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Array:
    """Σ x xᵀ of the rows x = [g∘H, u∘z − v], (n + 1, n + 1)."""
    size = matrix.shape[1] + 1
    result = np.empty((size, size))
    vectors = [np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (weight, unit, shift)]
    loop = compiling.machine_code(gram_rows, "rows2 in1 in1 in1 in1 out2", reassociate=True)
    loop(np.ascontiguousarray(matrix), right, *vectors, result)
    return result


# --- loops ---------------------------------------------------------------------------------------


def lane_sums(
    columns: Array, ends: Index, before: Array, piece: Array, work: Array, start: int, width: int,
    seen: int,
) -> int:  # fmt: skip
    """Σ x_i x_j after each step, on top of the sums `before`; returns the measurements seen.

    Sums of this piece from zero, then the rest on top: as accurate as `running_sums`. Three at a
    time (the last one again where they run out): an addition waits for the one before.
    """
    size, n = before.shape
    scalar = ends.shape[0] == 0
    for j in range(n):
        for i in range(j, size, 3):
            k, m = min(i + 1, size - 1), min(i + 2, size - 1)
            x, y, z, r = 0.0, 0.0, 0.0, seen
            for t in range(width):
                if scalar:
                    x += columns[i, start + t] * columns[j, start + t]
                    y += columns[k, start + t] * columns[j, start + t]
                    z += columns[m, start + t] * columns[j, start + t]
                else:
                    while r < ends[start + t]:
                        x += columns[i, r] * columns[j, r]
                        y += columns[k, r] * columns[j, r]
                        z += columns[m, r] * columns[j, r]
                        r += 1
                work[i, j, t] = before[i, j] + x
                work[k, j, t] = before[k, j] + y
                work[m, j, t] = before[m, j] + z
            piece[i, j], piece[k, j], piece[m, j] = x, y, z
    return seen if scalar else ends[start + width - 1]


def lane_factors(work: Array, root: Array, diagonal: Array) -> None:
    """L of the sums, below the diagonal; 1/L_jj in `root`, the diagonal of PI in `diagonal`."""
    size, n = work.shape[0], work.shape[1]
    for j in range(n):
        for t in range(LANES):
            diagonal[j, t] = work[j, j, t]
            root[j, t] = 1.0 / math.sqrt(work[j, j, t])
        for i in range(j + 1, size):
            for t in range(LANES):
                work[i, j, t] *= root[j, t]
        for k in range(j + 1, n):
            for i in range(k, size):
                for t in range(LANES):
                    work[i, k, t] -= work[i, j, t] * work[k, j, t]


def lane_inverses(work: Array, root: Array) -> None:
    """L⁻¹ with θ̂ᵀ below it, in the place of L."""
    size, n = work.shape[0], work.shape[1]
    for j in range(n):
        for t in range(LANES):
            work[j, j, t] = root[j, t]
        for i in range(j + 1, size):
            for t in range(LANES):
                work[i, j, t] *= root[j, t]
        for k in range(j + 1, n):
            for t in range(LANES):
                work[k, j, t] *= -root[k, t]
            for i in range(k + 1, size):
                for t in range(LANES):
                    work[i, j, t] += work[i, k, t] * work[k, j, t]


def lane_squares(work: Array, root: Array, diagonal: Array, worst: Array) -> None:
    """PI⁻¹ = L⁻ᵀL⁻¹ where nothing is needed any more: above the diagonal and into `root`."""
    n = work.shape[1]
    for t in range(LANES):
        worst[t] = 0.0
    for j in range(n):
        for t in range(LANES):
            root[j, t] = work[j, j, t] * work[j, j, t]
        for k in range(j + 1, n):
            for t in range(LANES):
                root[j, t] += work[k, j, t] * work[k, j, t]
        for t in range(LANES):
            inflated = diagonal[j, t] * root[j, t]
            if inflated > worst[t] or inflated != inflated:  # a NaN stays
                worst[t] = inflated
        for i in range(j + 1, n):
            for t in range(LANES):
                work[j, i, t] = work[i, i, t] * work[i, j, t]
            for k in range(i + 1, n):
                for t in range(LANES):
                    work[j, i, t] += work[k, i, t] * work[k, j, t]


def lane_results(
    work: Array, root: Array, bounds: Array, estimates: Array, here: int, width: int
) -> None:
    """PI⁻¹ and θ̂ of the steps, in their places from `here` on."""
    size, n = work.shape[0], work.shape[1]
    for j in range(n):
        for t in range(width):
            bounds[here + t, j, j] = root[j, t]
        for i in range(j + 1, n):
            for t in range(width):
                bounds[here + t, i, j] = work[j, i, t]
                bounds[here + t, j, i] = work[j, i, t]
        if size > n:
            for t in range(width):
                estimates[here + t, j] = work[n, j, t]


def every_step(
    columns: Array, ends: Index, carry: Array, bounds: Array, estimates: Array, at: int,
    limit: float, own: Array, good: Flags,
) -> None:  # fmt: skip
    """`numpy_kernel`, LANES steps at a time."""
    n, size, steps = bounds.shape[1], columns.shape[0], good.shape[0]
    work = np.ones((size, n, LANES))
    root, diagonal, worst = np.empty((n, LANES)), np.empty((n, LANES)), np.empty(LANES)
    before, piece, seen = np.empty((size, n)), np.zeros((size, n)), 0
    for start in range(0, steps, LANES):
        width = min(LANES, steps - start)
        for i in range(size):
            for j in range(n):
                before[i, j] = carry[i, j] + own[i, j]
        seen = lane_sums(columns, ends, before, piece, work, start, width, seen)
        for i in range(size):
            for j in range(n):
                own[i, j] += piece[i, j]
        lane_factors(work, root, diagonal)
        lane_inverses(work, root)
        lane_squares(work, root, diagonal, worst)
        for t in range(width):
            good[start + t] = worst[t] <= limit
        lane_results(work, root, bounds, estimates, at + start, width)


def gram_rows(
    matrix: Array, right: Array, weight: Array, unit: Array, shift: Array, out: Array
) -> None:
    """The loop of `gram`, a block of rows at a time.

    A block is turned so that the innermost sum runs along contiguous numbers; it may be taken in
    any order (`reassociate`). Weights of length one hold for all rows.
    """
    rows, n = matrix.shape
    block = np.empty((n + 1, GRAM_BLOCK))
    out[:] = 0.0
    each, units, shifts = weight.shape[0] > 1, unit.shape[0] > 1, shift.shape[0] > 1
    for start in range(0, rows, GRAM_BLOCK):
        width = min(GRAM_BLOCK, rows - start)
        for t in range(width):
            g = weight[start + t] if each else weight[0]
            for j in range(n):
                block[j, t] = g * matrix[start + t, j]
            u = unit[start + t] if units else unit[0]
            block[n, t] = u * right[start + t] - (shift[start + t] if shifts else shift[0])
        for j in range(n + 1):
            for k in range(j + 1):
                total = 0.0
                for t in range(width):
                    total += block[j, t] * block[k, t]
                out[j, k] += total
    for j in range(n + 1):
        for k in range(j):
            out[k, j] = out[j, k]


def banded_rows(shown: Array, deviation: Array, matrix: Array, release: Array, out: Array) -> int:
    """Rows of A Σ^½, of V and of C are kept for b steps, in rings of a power of two."""
    lags, steps = shown.shape
    n, size = matrix.shape[1], out.shape[0]
    ring = 1
    while ring < lags:
        ring *= 2
    half, lower, scale = np.zeros((ring, lags)), np.zeros((ring, lags)), np.zeros(ring)
    row, right = np.empty(lags), np.empty(size)
    for k in range(steps):
        back, own = min(lags, k + 1), k & (ring - 1)
        right[:] = 0.0
        for lag in range(back):
            value = shown[lag, k]
            half[own, lag] = value * deviation[k - lag]
            for i in range(n):
                right[i] += value * matrix[k - lag, i]
        if size > n:
            right[n] = release[k]
        for lag in range(back):
            other, total = (k - lag) & (ring - 1), 0.0
            for i in range(back - lag):
                total += half[own, lag + i] * half[other, i]
            row[lag] = total
        row[0] += 1.0
        for lag in range(back - 1, 0, -1):
            value = row[lag] * scale[(k - lag) & (ring - 1)]
            lower[own, lag] = value
            row[0] -= value * value
            for later in range(1, lag):
                row[later] -= value * lower[(k - later) & (ring - 1), lag - later]
            for i in range(size):
                right[i] -= value * out[i, k - lag]
        if not row[0] > 0.0:
            return k
        scale[own] = 1.0 / math.sqrt(row[0])
        for i in range(size):
            out[i, k] = right[i] * scale[own]
    return -1

"""The loops of a long stream, in the part of Python that numba compiles (`linalg._compiled`).

The same operations as the NumPy route, in nearly the same order.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Flags, Index

GRAM_BLOCK = 256  # rows at a time
LANES = 128  # steps side by side: their n² vectors fit the first-level cache


def every_step(
    columns: Array, ends: Index, carry: Array, bounds: Array, estimates: Array, at: int,
    limit: float, own: Array, good: Flags,
) -> None:  # fmt: skip
    """`numpy_kernel`, LANES steps at a time; every innermost loop runs over steps."""
    n, size, steps = bounds.shape[1], columns.shape[0], good.shape[0]
    work = np.ones((size, n, LANES))
    root = np.empty((n, LANES))
    diagonal = np.empty((n, LANES))
    worst = np.empty(LANES)
    piece = np.zeros((size, n))
    seen, scalar = 0, ends.shape[0] == 0
    for start in range(0, steps, LANES):
        width = min(LANES, steps - start)
        # Sums of this piece from zero, then the rest on top: as accurate as `running_sums`. Three
        # at a time (the last one again where they run out): an addition waits for the one before.
        for j in range(n):
            for i in range(j, size, 3):
                k, m = min(i + 1, size - 1), min(i + 2, size - 1)
                x, y, z = 0.0, 0.0, 0.0
                before_x = carry[i, j] + own[i, j]
                before_y = carry[k, j] + own[k, j]
                before_z = carry[m, j] + own[m, j]
                r = seen
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
                    work[i, j, t] = before_x + x
                    work[k, j, t] = before_y + y
                    work[m, j, t] = before_z + z
                piece[i, j], piece[k, j], piece[m, j] = x, y, z
        if not scalar:
            seen = ends[start + width - 1]
        own += piece
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
        for t in range(LANES):
            worst[t] = 0.0
        # PI⁻¹ = L⁻ᵀL⁻¹ goes where nothing is needed any more: above the diagonal and into `root`.
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
        here = at + start
        for t in range(width):
            good[start + t] = worst[t] <= limit
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


def gram(matrix: Array, right: Array, weight: Array, unit: Array, shift: Array, out: Array) -> None:
    """Σ x xᵀ of the rows x = [g∘H, u∘z − v], a block of rows at a time.

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
        for i in range(size):
            right[i] = 0.0
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

"""Models whose releases do not look back, in the part of Python that numba compiles (`_machine`).

`_steps` for small matrices, where calls of NumPy would take longer than the filter itself.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Flags, Index


def root_of(covariance: Array, found: Array) -> None:
    """F with FFᵀ = the covariance, of any rank: Cholesky, the largest part that is left first.

    It ends where every diagonal entry is rounding of its own size: nothing larger is left out.
    """
    n = covariance.shape[0]
    rest, limit = covariance.copy(), 4.0 * n * 2.2e-16
    found[:] = 0.0
    for j in range(n):
        best, size = -1, limit
        for i in range(n):
            whole = covariance[i, i]
            if whole > 0.0 and rest[i, i] > size * whole:
                best, size = i, rest[i, i] / whole
        if best < 0:
            return
        pivot = math.sqrt(rest[best, best])
        for i in range(n):
            found[i, j] = rest[i, best] / pivot
        for i in range(n):
            for k in range(n):
                rest[i, k] -= found[i, j] * found[k, j]
        for i in range(n):
            rest[i, best] = 0.0
            rest[best, i] = 0.0


def plain_tables(
    A: Array, C: Array, Q: Array, R: Array, cov0: Array, own: Index, before: Index, begins: Flags,
    shown: Array, transition: Array, drive: Array, rows: Array, noise: Array, root: Array,
) -> None:  # fmt: skip
    """`_steps.steps_of` for releases that do not look back; noise is [LᵀR^½, I].

    A, C, Q, R have one entry or one for every step.
    """
    kinds, m, n = shown.shape[0], C.shape[1], A.shape[1]
    r = shown.shape[1]
    spread, error = np.zeros((n, n)), np.zeros((m, m))
    root_of(cov0, root)
    for j in range(kinds):
        led, here = min(before[j], A.shape[0] - 1), min(own[j], C.shape[0] - 1)
        if j == 0 or Q.shape[0] > 1:
            root_of(Q[min(before[j], Q.shape[0] - 1)], spread)
        if j == 0 or R.shape[0] > 1:
            root_of(R[min(own[j], R.shape[0] - 1)], error)
        for a in range(n):
            for b in range(n):
                same = 1.0 if a == b else 0.0
                transition[j, a, b] = same if begins[j] else A[led, a, b]
                drive[j, a, b] = 0.0 if begins[j] else spread[a, b]
        for i in range(r):
            for a in range(n):
                total = 0.0
                for b in range(m):
                    total += shown[j, i, b] * C[here, b, a]
                rows[j, i, a] = total
            for a in range(m):
                total = 0.0
                for b in range(m):
                    total += shown[j, i, b] * error[b, a]
                noise[j, i, a] = total
            for a in range(r):
                noise[j, i, m + a] = 1.0 if a == i else 0.0


def plain_back(
    own: Index, before: Index, begins: Flags, shown: Array, d_A: Array, d_F: Array, d_G: Array,
    d_N: Array, A: Array, C: Array, Q: Array, R: Array,
) -> None:  # fmt: skip
    """`_steps.carried_back` for releases that do not look back: adds to ∂A … ∂R (1 or K, …)."""
    (kinds, r, m), n = shown.shape, d_A.shape[1]
    work = np.empty((m, r))
    for j in range(kinds):
        if not begins[j]:
            led, moved = min(before[j], A.shape[0] - 1), min(before[j], Q.shape[0] - 1)
            for a in range(n):
                for b in range(n):
                    A[led, a, b] += d_A[j, a, b]
                    Q[moved, a, b] += d_F[j, a, b]
        here, noisy = min(own[j], C.shape[0] - 1), min(own[j], R.shape[0] - 1)
        for b in range(m):
            for a in range(n):
                total = 0.0
                for i in range(r):
                    total += shown[j, i, b] * d_G[j, i, a]
                C[here, b, a] += total
            for k in range(r):
                total = 0.0
                for i in range(r):
                    total += shown[j, i, b] * d_N[j, i, k]
                work[b, k] = total
            for a in range(m):
                total = 0.0
                for k in range(r):
                    total += work[b, k] * shown[j, k, a]
                R[noisy, b, a] += total

"""x_k = Φ_k x_{k−1} + f_k for all k at once: one banded triangular solve, or steps of many series.

The unit lower-triangular matrix of the recursion has half-bandwidth 2n − 1; LAPACK's forward
substitution does the same operations as the loop, so an unstable recursion does no harm.
Vectors of all steps and series are stored (K, n, series): a step of all series is one product.
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.dynamics._runs import LONG, runs, spread

MANY = 6  # series from which on a loop over steps, all series side by side, is faster


def recurrence(table: Array, entry: Index, forcing: Array, start: Array) -> Array:
    """x_k = table[entry[k]] x_{k−1} + forcing[k], x_{−1} = start (n,). Overwrites `forcing`.

    table (E, n, n), entry (K,), forcing (K, n, series). O(K n²) a series.
    """
    steps, n, series = forcing.shape
    forcing[0] += (table[entry[0]] @ start)[:, None]
    if series >= MANY:
        for k in range(1, steps):
            forcing[k] += table[entry[k]] @ forcing[k - 1]
        return forcing
    blocks = np.zeros((len(table), n, 2 * n))  # column of the matrix, then distance below
    for i in range(n):
        for j in range(n):
            # Below the diagonal by n + i − j; the unit diagonal itself is not looked at.
            blocks[:, j, n + i - j] = -table[:, i, j]
    following = np.append(entry[1:], entry[-1])  # the last has nothing below it
    band = spread(blocks, following)
    solved, _ = scipy.linalg.lapack.dtbtrs(
        band.reshape(steps * n, 2 * n).T, forcing.reshape(steps * n, series), uplo="L", diag="U"
    )
    return np.asarray(solved).reshape(forcing.shape)


def times(table: Array, entry: Index, vectors: Array) -> Array:
    """table[entry[k]] @ vectors[k] for every k; vectors (K, r, series)."""
    steps, _, series = vectors.shape
    first = runs(entry)
    if len(first) * LONG > steps or series >= MANY:
        return np.asarray(table[entry] @ vectors)
    result = np.empty((steps, table.shape[1], series))
    for start, stop in zip(first, [*first[1:], steps]):
        matrix = table[entry[start]]
        for i in range(series):
            np.matmul(vectors[start:stop, :, i], matrix.T, out=result[start:stop, :, i])
    return result

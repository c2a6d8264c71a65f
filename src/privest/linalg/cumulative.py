"""All k at once: cumulative information matrices, their inverses and solutions (K, n, n).

Small matrices, many of them: Cholesky runs over the entries of the n×n matrices with vectors of
length K, which costs n³/6 passes over memory instead of K calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privest.arrays import Array

CHUNK_ENTRIES = 2**16
VECTORISED = 12  # beyond this n LAPACK's call overhead no longer matters


def cumulative_gram(rows: Array, right: Array | None = None) -> Array:
    """Σ_{j ≤ k} G_jᵀ X_j for every k: rows (K, m, n), right (K, m, c) or the rows themselves."""
    other = rows if right is None else right
    product = np.einsum("kmi,kmj->kij", rows, other, optimize=True)
    return np.cumsum(product, axis=0, out=product)


def inverses(information: Array) -> Array:
    """PI_k⁻¹ for every k, (K, n, n), all positive definite."""
    n = information.shape[-1]
    if n > VECTORISED:
        return np.linalg.inv(information)
    result = np.empty_like(information)
    for part in _chunks(information):
        _invert(information[part], result[part])
    return result


def _invert(information: Array, result: Array) -> None:
    n = information.shape[-1]
    lower = _cholesky(information)
    # X = C⁻¹ column by column, then PI⁻¹ = XᵀX.
    inverse = np.zeros_like(lower)
    for j in range(n):
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, n):
            total = lower[i, j] * inverse[j, j]
            for k in range(j + 1, i):
                total += lower[i, k] * inverse[k, j]
            inverse[i, j] = -total / lower[i, i]
    for i in range(n):
        for j in range(i + 1):
            total = inverse[i, i] * inverse[i, j]
            for k in range(i + 1, n):
                total += inverse[k, i] * inverse[k, j]
            result[:, i, j] = result[:, j, i] = total


def solutions(information: Array, right: Array) -> Array:
    """PI_k⁻¹ b_k for every k: information (K, n, n), right (K, n)."""
    n = information.shape[-1]
    if n > VECTORISED:
        return np.linalg.solve(information, right[:, :, None])[:, :, 0]
    solution = np.empty_like(right)
    for part in _chunks(information):
        _solve(information[part], right[part], solution[part])
    return solution


def _solve(information: Array, right: Array, solution: Array) -> None:
    n = information.shape[-1]
    lower = _cholesky(information)
    forward: list[Array] = []
    for i in range(n):
        total = right[:, i].copy()
        for k in range(i):
            total -= lower[i, k] * forward[k]
        forward.append(total / lower[i, i])
    for i in reversed(range(n)):
        total = forward[i]
        for k in range(i + 1, n):
            total = total - lower[k, i] * solution[:, k]
        solution[:, i] = total / lower[i, i]


def _chunks(information: Array) -> Iterator[slice]:
    """Steps at a time so that the n² vectors of a chunk stay in cache."""
    step = max(CHUNK_ENTRIES // information.shape[-1] ** 2, 1)
    return (slice(at, at + step) for at in range(0, len(information), step))


def _cholesky(information: Array) -> Array:
    """Lower factors, stored (n, n, K) so that each entry is a contiguous vector."""
    n = information.shape[-1]
    lower = np.zeros((n, n, len(information)))
    for j in range(n):
        total = information[:, j, j].copy()
        for k in range(j):
            total -= lower[j, k] ** 2
        lower[j, j] = np.sqrt(total)
        for i in range(j + 1, n):
            total = information[:, i, j].copy()
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = total / lower[j, j]
    return lower

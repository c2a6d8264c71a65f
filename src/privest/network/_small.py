"""Cholesky factors and solutions of many small matrices at once, one matrix an agent.

Column by column for all agents: n passes over arrays instead of N calls of LAPACK. Agents whose
matrix is not positive definite are reported, not mended.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Flags
from privest.linalg.batched import rank_tolerance


def cholesky(r: Array) -> tuple[Array, Flags]:
    """C (N, n, n) with r = C Cᵀ, and (N,) which r are positive definite beyond rounding.

    A pivot counts as positive above 1e-11 of its diagonal entry (`rank_tolerance`): rounding makes
    less than that of a zero unless the pivots before it are as small. C is the identity for the
    other agents.
    """
    count, n, _ = r.shape
    lower = np.zeros_like(r)
    ready = np.ones(count, dtype=bool)
    tolerance = rank_tolerance(n)
    for j in range(n):
        rest = r[:, j:, j] - np.einsum("aik,ak->ai", lower[:, j:, :j], lower[:, j, :j])
        ready &= (rest[:, 0] > tolerance * r[:, j, j]) & (r[:, j, j] > 0)
        pivot = np.sqrt(np.where(ready, rest[:, 0], 1.0))
        lower[:, j:, j] = rest / pivot[:, None]
        lower[:, j, j] = pivot
    lower[~ready] = np.eye(n)
    return lower, ready


def inverse(lower: Array) -> Array:
    """C⁻¹ (N, n, n)."""
    n = lower.shape[-1]
    found = np.zeros_like(lower)
    for j in range(n):
        row = -np.einsum("ak,akm->am", lower[:, j, :j], found[:, :j])
        row[:, j] += 1.0
        found[:, j] = row / lower[:, j, j, None]
    return found


def solve(lower: Array, x: Array) -> Array:
    """(C Cᵀ)⁻¹ x for x (N, trials, n), by two substitutions."""
    n = lower.shape[-1]
    found = x.copy()
    for j in range(n):
        found[..., j] -= np.einsum("atk,ak->at", found[..., :j], lower[:, j, :j])
        found[..., j] /= lower[:, j, j, None]
    for j in range(n - 1, -1, -1):
        found[..., j] -= np.einsum("atk,ak->at", found[..., j + 1 :], lower[:, j + 1 :, j])
        found[..., j] /= lower[:, j, j, None]
    return found

"""Factors L with LLᵀ ≤ S literally, for the S that was typed: a rounded root may be too large.

What is released is Lᵀy with the doubles L; the information is at most LLᵀ, whatever L came from.
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import EPS, Array
from privest.lattice._exact import two_product

_SHRUNK = [2.0**-k for k in range(50, 19, -3)]  # tried in turn; at most 1e-6
_TINY = float(np.finfo(np.float64).tiny)


def literal_root(level: Array) -> Array:
    """The largest double ≤ √s for every s ≥ 0 of `level`: its square is at most s, exactly.

    √ rounds to nearest, so it is this number or the next above. Their order is the sign of the
    rounded L·L − s plus what the product lost, each of which is exact.
    """
    mantissa, exponent = np.frexp(np.asarray(level, dtype=np.float64))
    odd = exponent & 1
    scaled = np.ldexp(mantissa, odd)  # s = scaled·4^k: no square leaves the range of doubles
    root = np.asarray(np.sqrt(scaled))
    square, lost = two_product(root, root)
    above = (square - scaled) + lost > 0
    root = np.where(above, np.nextafter(root, 0.0), root)
    return np.asarray(np.ldexp(root, (exponent - odd) // 2))


def literal_factor(level: Array, factor: Array) -> tuple[Array, bool]:
    """(1 − τ)L with S − (1 − τ)²LLᵀ ≥ 0 proved, and True; else L as it is, and False.

    `level` is S (m, m), symmetric; `factor` a computed L (m, r), LLᵀ ≈ S. The least τ = 2^−50,
    2^−47, … ≤ 1e-6 that is proved is taken: about m·eps times the condition number of S. False
    (S singular, or its condition number times m² beyond about 1e10): what holds literally is the
    level LLᵀ; state that one. A few products and Cholesky factors of m×m.
    """
    for shrink in (0.0, *_SHRUNK):
        shrunk = factor * (1.0 - shrink)
        if _surely_below(shrunk, level):
            return shrunk, True
    return factor, False


def _surely_below(factor: Array, level: Array) -> bool:
    """Whether S − LLᵀ > 0 is certain; False says nothing.

    R = fl(S − LLᵀ) is off by at most γ(|S| + |L||L|ᵀ), in norm at most the largest sum of a row;
    a Cholesky factor of R − c that exists in floating point proves R − c ≥ −γ·tr R (Rump, BIT 46,
    2006). Both together are below c, which is twice their sum so that its own rounding is covered.
    """
    m, r = factor.shape
    used = level.diagonal() > 0
    if factor[~used].any() or level[~used].any():
        return False
    size = np.sqrt(level.diagonal()[used])
    unit = np.ldexp(1.0, -np.frexp(size)[1])[:, None]  # powers of two: this scaling is exact
    L, S = factor[used] * unit, level[np.ix_(used, used)] * unit * unit.T
    gap = S - L @ L.T
    gamma = (m + r + 3) * EPS / 2
    wrong = gamma * (np.abs(S) + np.abs(L) @ np.abs(L).T)
    room = 2 * (wrong.sum(axis=1).max(initial=0.0) + gamma * np.abs(gap.diagonal()).sum() + _TINY)
    gap[np.diag_indices_from(gap)] -= room
    _, failed = scipy.linalg.lapack.dpotrf(gap, lower=1)
    return bool(failed == 0)

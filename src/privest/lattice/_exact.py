"""Sums of products of doubles without error: u = high + low, and as a fraction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy

from privest.arrays import EPS, Array

_PIECE, _LEAST = 2**14, 256  # products looked at together, and of how many entries at least
_LARGEST = float(np.finfo(np.float64).max)
_HALVED = ~np.int64(2**26 - 1)  # keeps 27 of 53 digits of a double
_ROUNDED = np.int64(2**26), ~np.int64(2**27 - 1)  # rounds to 26 digits
# Σ|c v| for which sums are exact to within the public slack: twice the numbers the grid can hold.
_USUAL = 2.0**43


@dataclass(frozen=True, eq=False, repr=False)
class Exactly:
    """Numbers u that are known exactly: u = high + low ± slack, and `exact(i)` is u itself.

    high, low  of one shape, |low| at most a unit in the last place of `high`; where |high| is
               beyond the range of the grid, infinite or NaN, `low` is not looked at.
    slack      public, ≥ |u − high − low| but for underflow; in units of u.
    exact      the number at a flat index, as a fraction.

    It holds measurements: it is not shown, compared or written anywhere.
    """

    high: Array
    low: Array
    slack: Array | float
    exact: Callable[[int], Fraction]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.high.shape


def exactly(values: Array) -> Exactly:
    """Doubles that are u themselves. ±∞ is the largest double; NaN stays NaN."""
    high = finite(np.asarray(values, dtype=np.float64))
    flat = high.reshape(-1)
    return Exactly(high, np.zeros_like(high), 0.0, lambda i: _entry(flat, i))


def sum_of_products(terms: Sequence[tuple[Array, Array]]) -> Exactly:
    """u = Σ_t c_t ∘ v_t, shapes broadcast. ±∞ counts as the largest double; NaN stays NaN.

    One product is exact (slack 0); N of them have slack ≤ N²·2^−105·Σ|c_t v_t| (PROOF.md §8), at
    least what that is for Σ|c_t v_t| = 2^43, so that below it the slack says nothing of v.
    """
    parts = [(np.asarray(c, np.float64), np.asarray(v, np.float64)) for c, v in terms]
    shape = np.broadcast_shapes(*{part.shape for term in parts for part in term})
    flat = [(_flat(c, shape), _flat(v, shape)) for c, v in parts]
    size, count = math.prod(shape), len(flat)
    high, low, sizes = np.empty((3, size))
    width = min(max(_PIECE // count, _LEAST), size)
    both = np.empty((2, count, width))
    with np.errstate(all="ignore"):
        for at in range(0, size, max(width, 1)):
            piece = slice(at, min(at + width, size))
            now = both[:, :, : piece.stop - at]
            for t, term in enumerate(flat):
                for row, numbers in zip(now[:, t], term):
                    row[...] = numbers if numbers.size == 1 else numbers[piece]
            c, v = _split_safely(finite(now, now))
            _add_up(c, v, high[piece], low[piece], sizes[piece])

    def exact(i: int) -> Fraction:
        return sum((_entry(c, i) * _entry(v, i) for c, v in flat), Fraction(0))

    slack = _slack(count, sizes.reshape(shape))
    return Exactly(high.reshape(shape), low.reshape(shape), slack, exact)


def _slack(count: int, sizes: Array) -> Array | float:
    scale = count**2 * 2.0**-105 if count > 1 else 0.0
    if count == 1 or not (sizes > _USUAL).any():  # NaN is nobody's number
        return scale * _USUAL
    return scale * np.maximum(sizes, _USUAL)


def _add_up(c: Array, v: Array, high: Array, low: Array, sizes: Array) -> None:
    """Σ c∘v over the first axis into high + low; Σ|c∘v|, rounded up, into `sizes`.

    v has the shape of c, or one column. What every sum of halves loses goes into `low`.
    """
    product, rest = two_product(c, v)
    if len(product) == 1:
        high[...], low[...] = product[0], rest[0]
        return
    np.abs(product).sum(axis=0, out=sizes)
    sizes *= 1 + 2.0**-20  # more than what is lost in adding up a million
    lost = rest.sum(axis=0)
    while len(product) > 1:
        half = len(product) // 2
        totals, errors = two_sum(product[:half], product[half : 2 * half])
        lost += errors.sum(axis=0)
        product = np.concatenate([totals, product[2 * half :]]) if len(product) % 2 else totals
    high[...], low[...] = two_sum(product[0], lost)
    over = (~np.isfinite(low) | np.isinf(sizes)) & ~np.isnan(sizes)
    if over.any():
        v = np.broadcast_to(v, c.shape)
        high[over], low[over], sizes[over] = _beyond(c[:, over], v[:, over])


def _beyond(c: Array, v: Array) -> tuple[Array, Array, Array]:
    """high, low and sizes of sums that leave the doubles on their way (PROOF.md §8).

    In units of 2^520 for c and for v nothing overflows. Where the sum is beyond the grid for sure,
    that is all there is to know; where it cancels only the fraction is known.
    """
    high, low, sizes = np.empty((3, c.shape[1]))
    _add_up(c * 2.0**-520, v * 2.0**-520, high, low, sizes)
    sure = np.abs(high) > 2.0 * len(c) ** 2 * 2.0**-52 * sizes
    nothing = np.zeros_like(high)
    return (
        np.where(sure, np.copysign(_LARGEST, high), 0.0), nothing, np.where(sure, 0.0, np.inf),
    )  # fmt: skip


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """fl(a + b), and a + b − fl(a + b) exactly (Knuth). Overflow: the second is not a number."""
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def two_product(c: Array, v: Array) -> tuple[Array, Array]:
    """fl(c·v), and c·v − fl(c·v) exactly but for underflow (Dekker; PROOF.md §8); |c| < 2^1023."""
    product = c * v
    c_high = ((c.view(np.int64) + _ROUNDED[0]) & _ROUNDED[1]).view(np.float64)
    c_low = c - c_high
    v_high = (v.view(np.int64) & _HALVED).view(np.float64)
    v_low = v - v_high
    rest = product - c_high * v_high
    rest -= c_low * v_high
    rest -= c_high * v_low
    return product, c_low * v_low - rest


def _split_safely(both: Array) -> tuple[Array, Array]:
    """c, v with the same products, |c| below 2^1023: rounding c to 26 digits cannot overflow."""
    c, v = both
    huge = np.abs(c) >= 2.0**1023
    if huge.any():
        c[huge] *= 0.25
        v[huge] *= 4.0  # where this overflows c·v does
    return c, v


def finite(doubles: Array, out: Array | None = None) -> Array:
    """±∞ as the largest double, which is what it counts as in sums."""
    return np.asarray(np.minimum(np.maximum(doubles, -_LARGEST, out=out), _LARGEST, out=out))


def _flat(part: Array, shape: tuple[int, ...]) -> Array:
    return (part if part.size == 1 else np.broadcast_to(part, shape)).reshape(-1)


def _entry(numbers: Array, i: int) -> Fraction:
    """Entry i, ±∞ as the largest double, NaN (which the caller says is missing) as 0."""
    number = float(numbers[i if numbers.size > 1 else 0])
    return Fraction(0 if math.isnan(number) else min(max(number, -_LARGEST), _LARGEST))


# --- factors L with LLᵀ ≤ S exactly: a rounded root may be too large ------------------------------


_SHRUNK = [2.0**-k for k in range(50, 19, -3)]  # tried in turn; at most 1e-6
_TINY = float(np.finfo(np.float64).tiny)


def literal_root(level: Array) -> Array:
    """The largest double ≤ √s for every s ≥ 0 of `level`: its square is at most s, exactly."""
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
    level LLᵀ; state that one.
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

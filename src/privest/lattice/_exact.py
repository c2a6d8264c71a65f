"""Sums of products of doubles without error: u = high + low, and as a fraction where that matters.

Dekker's product and Knuth's sum, on whole arrays, in pieces that stay in cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privest.arrays import AnyArray, Array

_PIECE = 2**14
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

    It holds readings: it is not shown, compared or written anywhere.
    """

    high: Array
    low: Array
    slack: Array | float
    exact: Callable[[int], Fraction]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of `high` and `low`."""
        return self.high.shape


def exactly(values: Array) -> Exactly:
    """Doubles that are u themselves. ±∞ is the largest double; NaN stays NaN."""
    high = _finite(values)
    return Exactly(high, np.zeros_like(high), 0.0, lambda i: _fraction(float(high.flat[i])))


def sum_of_products(terms: Sequence[tuple[Array, Array]]) -> Exactly:
    """u = Σ_t c_t ∘ v_t, shapes broadcast. ±∞ counts as the largest double; NaN stays NaN.

    One product is exact (slack 0); N of them have slack ≤ N²·2^−105·Σ|c_t v_t| (PROOF.md §8), at
    least what that is for Σ|c_t v_t| = 2^43, so that below it the slack says nothing of v.
    About 20 ns a product.
    """
    finite = [(_finite(c), _finite(v)) for c, v in terms]
    shape = np.broadcast_shapes(*(part.shape for term in finite for part in term))
    flat = [tuple(_flat(part, shape) for part in term) for term in finite]
    size = int(np.prod(shape))
    high, low = np.empty(size), np.empty(size)
    most = np.empty(size) if len(flat) > 1 else None
    with np.errstate(all="ignore"):
        for at in range(0, size, _PIECE):
            part = slice(at, at + _PIECE)
            pieces = [tuple(x if x.size == 1 else x[part] for x in term) for term in flat]
            sizes = None if most is None else most[part]
            _add_up(pieces, high[part], low[part], sizes)

    def exact(i: int) -> Fraction:
        return sum(
            (_fraction(float(c[i % c.size])) * _fraction(float(v[i % v.size])) for c, v in flat),
            Fraction(0),
        )

    return Exactly(high.reshape(shape), low.reshape(shape), _slack(len(flat), most, shape), exact)


def _slack(count: int, most: Array | None, shape: tuple[int, ...]) -> Array | float:
    """N²·2^−105·Σ|c v|, Σ|c v| at least 2^43."""
    if most is None:
        return 0.0
    scale = count**2 * 2.0**-105
    if not (most > _USUAL).any():  # NaN is nobody's number
        return scale * _USUAL
    return scale * np.maximum(most, _USUAL).reshape(shape)


def _add_up(
    terms: Iterable[tuple[Array, ...]], high: Array, low: Array, sizes: Array | None
) -> None:
    """Σ c∘v into high + low; Σ|c∘v|, rounded up, into `sizes`."""
    for t, (c, v) in enumerate(terms):
        product, rest = two_product(c, v)
        if t == 0:
            high[...], low[...] = product, rest
            if sizes is not None:
                np.abs(product, out=sizes)
            continue
        total, lost = two_sum(high, product)
        high[...] = total
        low += lost + rest
        if sizes is not None:
            sizes += np.abs(product)
    if sizes is not None:
        high[...], low[...] = two_sum(high, low)
        sizes *= 1 + 2.0**-20  # more than what was lost in adding up a million
        over = ~np.isfinite(low) & ~np.isnan(sizes)
        if over.any():  # beyond the doubles: nothing is known but the fraction
            high[over], low[over], sizes[over] = 0.0, 0.0, np.inf


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """fl(a + b), and a + b − fl(a + b) exactly (Knuth). Overflow: the second is not a number."""
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def two_product(c: Array, v: Array) -> tuple[Array, Array]:
    """fl(c·v), and c·v − fl(c·v) exactly (Dekker), but for underflow; PROOF.md §8.

    v is cut after 27 digits and c rounded to 26, on their bits: every product of two parts is
    exact, and splitting cannot overflow.
    """
    product = c * v
    c_high = ((c.view(np.int64) + _ROUNDED[0]) & _ROUNDED[1]).view(np.float64)
    c_low = c - c_high
    v_high = (v.view(np.int64) & _HALVED).view(np.float64)
    v_low = v - v_high
    rest = product - c_high * v_high
    rest -= c_low * v_high
    rest -= c_high * v_low
    return product, c_low * v_low - rest


def _finite(values: Array) -> Array:
    """As doubles; ±∞ as the largest of them."""
    doubles = np.asarray(values, dtype=np.float64)
    return np.asarray(np.minimum(np.maximum(doubles, -_LARGEST), _LARGEST))


def _flat(part: Array, shape: tuple[int, ...]) -> AnyArray:
    """All entries in a row; one number stays one."""
    whole = part if part.size == 1 else np.broadcast_to(part, shape)
    return np.ascontiguousarray(whole).reshape(-1)


def _fraction(number: float) -> Fraction:
    """NaN is the caller's, who has said that it is missing: 0."""
    return Fraction(0) if math.isnan(number) else Fraction(number)

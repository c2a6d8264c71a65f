"""Stochastic rounding to the grid, decided exactly: ⌊u/g + W⌋, W uniform on [0, 1) (PROOF.md §8).

Where the sum is too near to an integer for doubles, fractions decide, with the same bits of W and
as many more as it takes.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice._exact import Exactly
from privest.lattice._sampler import GRID_BITS, Integers, Unsigned, Words, drawn_words, os_words

MOST = 2**52  # the largest integers of the grid: n + X and g·(n + X) are doubles
_UNIT = 2**53  # parts of one step of the grid that are compared
# In these parts: rounding of two sums (1/2 and 1), cutting (1), bits of W not looked at (1); and
# underflow, which is far below the rest of 4.
_ERROR = 4
_PIECE = 2**14


def rounded(
    u: Exactly,
    words: Unsigned,
    low: Integers | int = -MOST,
    high: Integers | int = MOST,
    more: Words = os_words,
) -> Integers:
    """⌊u/g + W⌋, the nearest of [low, high] if outside; W has the bits of `words`, then `more`.

    low, high  integers (of u/g) within ±2^52, or one a coordinate.
    No value is refused: ±∞ is clipped, NaN gives 0 (clipped). A release draws `words`, and its
    noise, before it looks at a measurement.
    """
    size = u.high.size
    if words.dtype != np.uint64 or words.size != size:
        raise InvalidInput(
            f"rounding {size} numbers takes as many words of uint64; received {words.size} of "
            f"{words.dtype}."
        )
    flat, rest, drawn = u.high.reshape(-1), u.low.reshape(-1), words.reshape(-1)
    margin = _margin(u)
    found = np.empty(size, dtype=np.int64)
    for at in range(0, size, _PIECE):
        part = slice(at, at + _PIECE)
        near = margin if isinstance(margin, int) else margin[part]
        undecided = _decide(flat[part], rest[part], drawn[part], near, found[part])
        for i in (at + undecided).tolist():
            found[i] = min(max(by_fractions(u.exact(i), int(drawn[i]), more), -_UNIT), _UNIT)
    return np.minimum(np.maximum(found.reshape(u.shape), low), high)


def _margin(u: Exactly) -> Integers | int:
    """G: by how many parts of 2^−53 of a step the floating-point sum may be wrong."""
    slack = u.slack
    if isinstance(slack, np.ndarray):  # what is beyond the grid for sure is clipped for sure
        slack = np.where(np.abs(u.high) - slack > 2.0 * MOST, 0.0, slack)
    parts = np.ceil(np.asarray(slack) * float(_UNIT << GRID_BITS)) + _ERROR
    whole = np.fmin(parts, _UNIT // 2).astype(np.int64)  # NaN: all of them, and not looked at
    return int(whole) if whole.ndim == 0 else np.broadcast_to(whole, u.shape).reshape(-1)


def _decide(
    high: Array, low: Array, words: Unsigned, margin: Integers | int, found: Integers
) -> Integers:
    """⌊(high + low)/g + W⌋ into `found`; the places where that may be wrong.

    Added in whole parts of 2^−53: more than `margin` away from a multiple of 2^53 it is certain.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.minimum(np.maximum(high * 2.0**GRID_BITS, -float(_UNIT)), float(_UNIT))
        inside = np.abs(steps) < _UNIT  # beyond it (and NaN) the low part says nothing
        floor = np.floor(steps)
        fraction = steps - floor + np.where(inside, low * 2.0**GRID_BITS, 0.0)
    missing = ~np.isfinite(fraction)  # NaN of `steps` too: no other float becomes an integer
    if missing.any():
        floor[missing], fraction[missing] = 0.0, 0.0
    parts = (fraction * float(_UNIT)).astype(np.int64)
    parts += (words >> np.uint64(11)).view(np.int64)
    parts += margin
    np.add(floor.astype(np.int64), parts >> 53, out=found)
    found[missing] = 0
    doubtful: Integers = (((parts & (_UNIT - 1)) <= 2 * margin) & ~missing).nonzero()[0]
    return doubtful


def by_fractions(u: Fraction, word: int, more: Words = os_words) -> int:
    """⌊u/g + W⌋ exactly, the first 64 bits of W being `word`, with more bits until they decide."""
    steps = u * 2**GRID_BITS
    floor: int = math.floor(steps)
    gap, bits = 1 - (steps - floor), 64  # up if and only if W ≥ gap
    while True:
        if Fraction(word, 1 << bits) >= gap:
            return floor + 1
        if Fraction(word + 1, 1 << bits) <= gap:
            return floor
        word, bits = word << 64 | int(drawn_words(more, 1)[0]), bits + 64

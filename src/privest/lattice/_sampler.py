"""Exact integers from random words of the operating system: words, tables, inversion.

Nothing is kept for later, so that a forked process cannot find words its parent uses too.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privest.errors import InvalidInput, NotReleasable

Integers: TypeAlias = NDArray[np.int64]
Unsigned: TypeAlias = NDArray[np.uint64]
Words: TypeAlias = Callable[[int], Unsigned]


def os_words(count: int) -> Unsigned:
    """`count` words of 64 bits of the operating system's generator, else NotReleasable."""
    try:
        drawn = os.urandom(8 * count)
    except (OSError, NotImplementedError) as error:
        raise NotReleasable(
            "the operating system gives no randomness (os.urandom): nothing was released, and "
            "nothing can be until it does."
        ) from error
    return np.frombuffer(drawn, dtype=np.uint64)


def drawn_words(words: Words, count: int) -> Unsigned:
    drawn = words(count)
    if drawn.dtype != np.uint64 or drawn.shape != (count,):
        raise InvalidInput(
            f"a source of words must give {count} numbers of uint64 in one row; received "
            f"{drawn.dtype} of shape {drawn.shape}."
        )
    return drawn


# --- the discrete laws, and ⌊2^b F(m)⌋ of their magnitudes for every m, certified -----------------


GRID_BITS = 10
GRID = 2.0**-GRID_BITS
_GUARD = 64  # bits beyond those of the table; doubled until every entry is decided

Bounds = tuple[list[int], list[int]]  # 2^p F(m) lies between, m = 0, 1, …


class MagnitudeLaw(ABC):
    """A symmetric distribution on the integers, F(m) = P(|X| ≤ m) < 1 for every m."""

    @abstractmethod
    def enclosures(self, bits: int, precision: int) -> Bounds:
        """Integers below and above 2^precision·F(m), until F(m) ≥ 1 − 2^−bits for sure."""

    def table(self, bits: int) -> list[int]:
        """⌊2^bits F(m)⌋ for m = 0, 1, … up to the first that is 2^bits − 1 (§3).

        The precision is raised until both ends of every enclosure have the same floor.
        """
        guard = _GUARD
        while (found := certified(self.enclosures(bits, bits + guard), bits, guard)) is None:
            guard *= 2
        return found


def certified(bounds: Bounds, bits: int, guard: int) -> list[int] | None:
    """The table that both ends of all enclosures agree on; None if some entry is undecided."""
    top = 2**bits - 1  # F < 1
    below, above = ([min(end >> guard, top) for end in ends] for ends in bounds)
    if below[-1] != top or below != above:
        return None
    return below[: bisect_left(below, top) + 1]


@dataclass(frozen=True)
class DiscreteGaussian(MagnitudeLaw):
    """P(X = k) = e^{−k²/2σ²}/Z on the integers, σ² = `variance` ≥ 1 rational."""

    variance: Fraction

    def enclosures(self, bits: int, precision: int) -> Bounds:
        """Sums of e(m) = e^{−m²/2σ²} by e(m+1) = e(m)·r(m), r(m+1) = r(m)·q (§3)."""
        one = 1 << precision
        q = exp_minus(1 / self.variance, precision)
        r = exp_minus(1 / (2 * self.variance), precision)
        e, total = (one, one), (one // 2, one // 2)  # half of e(0): the sign of 0 does not count
        sums = [total]
        for _ in range(_steps(self.variance, precision)):
            e, r = _product(e, r, precision), _product(r, q, precision)
            total = (total[0] + e[0], total[1] + e[1])
            sums.append(total)
        # What is left, e(N)·(r + r·rq + …) < e(N)·r/(1 − r): ratios fall.
        least, most = total[0], total[1] + -(-e[1] * r[1] // (one - r[1]))
        return (
            [(low << precision) // most for low, _ in sums],
            [-((-high << precision) // least) for _, high in sums],
        )


@dataclass(frozen=True)
class DiscreteLaplace(MagnitudeLaw):
    """P(X = k) = (1−q)/(1+q)·q^|k| on the integers, 0 < q = `ratio` < 1 rational."""

    ratio: Fraction

    def enclosures(self, bits: int, precision: int) -> Bounds:
        """F(m) = 1 − 2q^{m+1}/(1+q): the power by repeated products."""
        one, a, b = 1 << precision, self.ratio.numerator, self.ratio.denominator
        low, high = (one * 2 * a) // (a + b), -(-one * 2 * a // (a + b))
        below, above = [one - high], [one - low]
        while low >> (precision - bits):  # the other end may stop falling before it is there
            low, high = low * a // b, -(-high * a // b)
            below.append(one - high)
            above.append(one - low)
        return below, above


def exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers below and above 2^precision·e^{−x}, 0 < x ≤ 1.

    The terms of Σ(−x)^n/n! fall and change sign: e^{−x} lies between two partial sums that follow
    one another. They are exact rationals.
    """
    term, total, n = Fraction(1), Fraction(1), 0
    while True:
        n += 1
        term *= -x / n
        before, total = total, total + term
        if abs(term) < Fraction(1, 1 << (precision + 1)):
            low, high = sorted((before, total))
            return math.floor(low * 2**precision), math.ceil(high * 2**precision)


def _product(a: tuple[int, int], b: tuple[int, int], precision: int) -> tuple[int, int]:
    return a[0] * b[0] >> precision, -(-a[1] * b[1] >> precision)


def _steps(variance: Fraction, precision: int) -> int:
    """N with e^{−N²/2σ²} < 2^−precision: N² > 2 ln 2·σ²·precision, and 2 ln 2 < 1.4."""
    return math.isqrt(math.ceil(Fraction(7, 5) * variance * precision)) + 1


# g = 2^−j, σ² = 4^j + 1/2 and q = 1 − g + g²/2: then the information is at most 1 (§1, §5).
GAUSSIAN = DiscreteGaussian(4**GRID_BITS + Fraction(1, 2))
LAPLACE = DiscreteLaplace(1 - Fraction(1, 2**GRID_BITS) + Fraction(1, 2 ** (2 * GRID_BITS + 1)))


@lru_cache(maxsize=16)
def table_of(law: MagnitudeLaw, bits: int) -> list[int]:
    return law.table(bits)


# --- integers of a distribution by inversion: 64 random bits each, more where they are needed -----


_GUIDE_BITS = 16
_PIECE = 2**15  # words looked up at a time: they stay in cache


def gaussian_integers(count: int, words: Words = os_words) -> Integers:
    """`count` independent integers X, P(X = k) = e^{−k²/2σ²}/Z, σ² = 4^10 + 1/2, exactly."""
    return _inversion(GAUSSIAN).drawn(count, words)


def laplace_integers(count: int, words: Words = os_words) -> Integers:
    """`count` independent integers X, P(X = k) = (1−q)/(1+q)·q^|k|, q = 1 − g + g²/2, exactly."""
    return _inversion(LAPLACE).drawn(count, words)


@lru_cache(maxsize=4)
def _inversion(law: MagnitudeLaw) -> Inversion:
    return Inversion(law)


@dataclass(frozen=True)
class Inversion:
    """X by inversion of F(m) = P(|X| ≤ m) with lazily extended bits (PROOF.md §2).

    A word has `bits` + 1 bits: the lowest is the sign, the others are v, the first bits of a
    uniform U. m is the first with T[m] ≥ v, T[m] = ⌊2^bits F(m)⌋; it is |X| unless T[m] = v, where
    `more` bits are appended to v and the table of that many bits decides, and so on.
    """

    law: MagnitudeLaw
    bits: int = 63
    more: int = 64

    @cached_property
    def table(self) -> Unsigned:
        """T: of the same type as the words, else numpy compares both as doubles."""
        table = np.array(table_of(self.law, self.bits), dtype=np.uint64)
        table.setflags(write=False)
        return table

    @cached_property
    def guide(self) -> Integers:
        """For the first bits of v the first m with T[m] ≥ v, were all others 0: where to start."""
        shift = np.uint64(self._guide_shift)
        starts = np.arange(1 << (self.bits - self._guide_shift), dtype=np.uint64) << shift
        return np.searchsorted(self.table, starts).astype(np.int64)

    @property
    def _guide_shift(self) -> int:
        return max(self.bits - _GUIDE_BITS, 0)

    def drawn(self, count: int, words: Words) -> Integers:
        raw = drawn_words(words, count)
        found = np.empty(count, dtype=np.int64)
        for at in range(0, count, _PIECE):
            part = slice(at, at + _PIECE)
            self._of_words(raw[part], found[part], words)
        return found

    def _of_words(self, raw: Unsigned, found: Integers, words: Words) -> None:
        v = raw >> np.uint64(1)
        m, tied = self.search(v)
        for i in tied.tolist():
            m[i] = self.extended(int(v[i]), lambda: int(drawn_words(words, 1)[0]))
        sign = (raw & np.uint64(1)).astype(np.int64)
        np.bitwise_xor(m, -sign, out=found)  # −m − 1 where the sign is 1
        found += sign

    def search(self, v: Unsigned) -> tuple[Integers, Integers]:
        """First m with T[m] ≥ v, and the places where T[m] = v."""
        table = self.table
        m = self.guide[v >> np.uint64(self._guide_shift)]
        m += table[m] < v
        at = table[m]
        behind = (at < v).nonzero()[0]  # cells of the guide with more than one entry: the tail
        if behind.size:
            m[behind] = np.searchsorted(table, v[behind])
            at = table[m]
        return m, (at == v).nonzero()[0]

    def extended(self, v: int, word: Callable[[], int]) -> int:
        """|X| where the first bits v are undecided: T[m] = v. Ends with probability 1."""
        bits = self.bits
        while True:
            v, bits = v << self.more | word(), bits + self.more
            table = table_of(self.law, bits)
            m = bisect_left(table, v)
            if table[m] > v:
                return m

"""Exact noise from random words of the operating system: the only module that draws any.

    rounded normal     round(σN), N standard normal, σ whole
    discrete Laplace   P(z) = (1 − q)/(1 + q)·q^|z|, q = e^{−1/t}, t whole

Few normals come from Karney's algorithm, many from a certified table; both have the exact
distribution (PROOF.md §§6-8). Nothing is kept for later: a forked process must not find the words
of its parent.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privest.errors import NotReleasable

Integers = NDArray[np.int64]
Unsigned = NDArray[np.uint64]

WORD_BITS = 64
LARGEST_OF_TABLES = 2**12  # σ or t: a table has up to 9.2σ or 44t entries
TABLE_WORTH = 100  # a table costs about as much as 100σ draws by Karney's algorithm
LAPLACE_WORTH = 1024  # draws by bisection that cost about as much as a table
BLOCK = 64  # words asked for at a time, for single draws


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


def rounded_normals(sigma: int, count: int) -> Integers | list[int]:
    """`count` independent round(σN); Python integers where they are few, or σ is large."""
    if sigma <= LARGEST_OF_TABLES and count > TABLE_WORTH * sigma:
        return by_table(Normal(sigma), count)
    digits = Digits()
    return [karney(sigma, digits) for _ in range(count)]


def laplaces(scale: int, count: int) -> Integers | list[int]:
    """`count` independent integers with P(z) ∝ e^{−|z|/scale}."""
    law = Laplace(scale)
    if scale <= LARGEST_OF_TABLES and count > LAPLACE_WORTH:
        return by_table(law, count)
    digits = Digits()
    drawn = []
    for _ in range(count):
        word = digits.word()
        magnitude = magnitude_of(law, word >> 1, WORD_BITS - 1, digits)
        drawn.append(-magnitude if word & 1 else magnitude)
    return drawn


# --- numbers in (0, 1) whose digits are drawn when a decision needs them --------------------------


class Source(Protocol):
    """Words of `bits` independent fair bits."""

    bits: int

    def word(self) -> int: ...


class Digits:
    """Words for single decisions, of this call alone."""

    bits = WORD_BITS

    def __init__(self) -> None:
        self._words: list[int] = []

    def word(self) -> int:
        if not self._words:
            self._words = os_words(BLOCK).tolist()
        return self._words.pop()


class Uniform:
    """U, uniform in (0, 1), of which `digits` are the first `bits` binary digits."""

    __slots__ = ("bits", "digits", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.digits = source.word()
        self.bits = source.bits

    def extend(self) -> None:
        self.digits = self.digits << self.source.bits | self.source.word()
        self.bits += self.source.bits

    def is_below(self, other: Uniform) -> bool:
        """Whether U < V: digits are added until they differ."""
        while True:
            while self.bits < other.bits:
                self.extend()
            while other.bits < self.bits:
                other.extend()
            if self.digits != other.digits:
                return self.digits < other.digits
            self.extend()

    def floor(self, times: int, plus: int, over: int) -> int:
        """⌊(times·U + plus)/over⌋: digits are added until all U that are left agree."""
        while True:
            unit = over << self.bits
            start = times * self.digits + (plus << self.bits)
            low = start // unit
            high = (start + times - 1) // unit  # U stays below (digits + 1)/2^bits
            if low == high:
                return low
            self.extend()


# --- Karney's algorithm ---------------------------------------------------------------------------


def karney(sigma: int, source: Source) -> int:
    """round(σN): k + x has the density √(2/π)e^{−(k+x)²/2}, k whole, 0 < x < 1; then a sign."""
    while True:
        k = 0
        while is_heads(source):  # P(k) ∝ e^{−k/2}
            k += 1
        if not all(is_heads(source) for _ in range(k * (k - 1))):  # now P(k) ∝ e^{−k²/2}
            continue
        x = Uniform(source)
        if all(accepts(k, x, source) for _ in range(k + 1)):  # e^{−x(2k + x)/2}
            break
    magnitude = x.floor(2 * sigma, 2 * sigma * k + 1, 2)  # ⌊σ(k + x) + ½⌋
    return -magnitude if source.word() & 1 else magnitude


def is_heads(source: Source) -> bool:
    """True with probability e^{−½}."""
    digits = source.word()
    bits = source.bits
    while digits == (boundary := floor_of_root(bits)):
        digits = digits << source.bits | source.word()
        bits += source.bits
    return digits < boundary


@lru_cache(maxsize=64)
def floor_of_root(bits: int) -> int:
    """⌊2^bits·e^{−½}⌋."""
    return agreed_floor(lambda places: exp_minus(Fraction(1, 2), places), bits)


def accepts(k: int, x: Uniform, source: Source) -> bool:
    """True with probability e^{−p}, p = x(2k + x)/(2k + 2).

    A step is taken with probability y·(2k + x)/(2k + 2), y = x at first and the last uniform after
    it: n steps or more with p^n/n!, an even number with Σ(−p)^n/n!.
    """
    y, even = x, True
    while True:
        z = Uniform(source)
        if not z.is_below(y):
            return even
        choice = Uniform(source).floor(2 * k + 2, 0, 1)
        if choice == 2 * k + 1:
            return even
        if choice == 2 * k and not Uniform(source).is_below(x):
            return even
        y, even = z, not even


# --- inversion of F(m) = P(|z| ≤ m) ---------------------------------------------------------------


Ends = tuple[int, int]  # whole numbers below and above 2^places times a number


class Magnitudes(ABC):
    """A symmetric distribution of whole numbers."""

    @abstractmethod
    def mass(self, m: int, places: int) -> Ends:
        """Around 2^places·F(m), F(m) = P(|z| ≤ m) < 1."""

    def boundary(self, m: int, bits: int) -> int:
        """⌊2^bits·F(m)⌋."""
        return agreed_floor(lambda places: self.mass(m, places), bits)


@dataclass(frozen=True)
class Normal(Magnitudes):
    """round(σN): F(m) = P(|N| < x) = √(2/π)·x·e^{−x²/2}·Σ_n x^{2n}/(2n + 1)!!, x = (m + ½)/σ."""

    sigma: int

    def mass(self, m: int, places: int) -> Ends:
        top = (2 * m + 1) ** 2  # x² = top/bottom
        bottom = 4 * self.sigma**2
        # The sum is as large as e^{x²/2}, less than 2^{3x²/4}, and e^{−x²/2} as small.
        work = places + 32 + 3 * top // (2 * bottom)
        series = _odd_series(top, bottom, work)
        power = exp_minus(Fraction(top, 2 * bottom), work)
        root = _root_of_two_over_pi(work)
        ends = []
        for end, up in ((0, False), (1, True)):
            product = series[end] * power[end] * root[end] * (2 * m + 1)
            shift = (2 * self.sigma) << (3 * work - places)
            ends.append(-(-product // shift) if up else product // shift)
        return ends[0], ends[1]


def _odd_series(top: int, bottom: int, work: int) -> Ends:
    """Around 2^work·Σ_n Π_{i≤n} r_i, r_i = top/(bottom·(2i + 1)).

    Every term is rounded down. An error of 1 in a term becomes at most Σ_n r_{i+1}⋯r_{i+n} in the
    sum, which is no more than the sum itself, since the r_i fall.
    """
    term = total = 1 << work
    n = 0
    while term > 1 or 2 * top > bottom * (2 * n + 3):
        n += 1
        term = term * top // (bottom * (2 * n + 1))
        total += term
    size = (total >> work) + 2  # the sum, rounded up: n·sum < 2^work
    # From here on r ≤ 1/2: what follows is at most the last term, at most 1 and its error, `size`.
    return total, total + (n + 2) * size


@dataclass(frozen=True)
class Laplace(Magnitudes):
    """F(m) = 1 − 2q^{m+1}/(1 + q), q = e^{−1/t}."""

    scale: int

    def mass(self, m: int, places: int) -> Ends:
        work = places + 8
        unit = 1 << work
        power = exp_minus(Fraction(m + 1, self.scale), work)
        q = exp_minus(Fraction(1, self.scale), work)
        above = -(-2 * power[1] * unit // (unit + q[0]))
        below = 2 * power[0] * unit // (unit + q[1])
        return (unit - above) >> 8, -(-(unit - below) >> 8)


def by_table(law: Magnitudes, count: int) -> Integers:
    """`count` integers by inversion; the lowest bit of a word is the sign, the others decide."""
    table = table_of(law)
    words = os_words(count)
    v = words >> np.uint64(1)
    magnitudes = np.searchsorted(table, v).astype(np.int64)  # the first m with T[m] ≥ v
    tied = np.flatnonzero(table[magnitudes] == v)
    digits = Digits()
    for i in tied.tolist():
        magnitudes[i] = magnitude_of(law, int(v[i]), WORD_BITS - 1, digits)
    return np.where(words & np.uint64(1), -magnitudes, magnitudes)


def magnitude_of(law: Magnitudes, v: int, bits: int, source: Source) -> int:
    """min{m: U < F(m)}, where v are the first `bits` digits of U.

    m is the first with T[m] ≥ v, T[m] = ⌊2^bits·F(m)⌋. It is |z| unless T[m] = v, where the word
    meets a boundary: then more digits decide.
    """
    while True:
        high = 1
        while law.boundary(high - 1, bits) < v:
            high *= 2
        low = -1  # T[low] < v ≤ T[high − 1]
        high -= 1
        while high - low > 1:
            middle = (low + high) // 2
            if law.boundary(middle, bits) < v:
                low = middle
            else:
                high = middle
        if law.boundary(high, bits) > v:
            return high
        v = v << source.bits | source.word()
        bits += source.bits


@lru_cache(maxsize=4)
def table_of(law: Magnitudes) -> Unsigned:
    """T[m] = ⌊2^63·F(m)⌋ for m = 0, 1, …, up to the first that is 2^63 − 1."""
    bits = WORD_BITS - 1
    entries: list[int] = []
    while not entries or entries[-1] < 2**bits - 1:  # F < 1
        entries.append(law.boundary(len(entries), bits))
    table = np.array(entries, dtype=np.uint64)
    table.setflags(write=False)
    return table


# --- constants and powers, enclosed by whole numbers ----------------------------------------------


def agreed_floor(enclosed: Callable[[int], Ends], bits: int) -> int:
    """⌊2^bits·x⌋ of an irrational x < 1: places are added until both ends agree."""
    extra = WORD_BITS
    while True:
        low, high = enclosed(bits + extra)
        top: int = (1 << bits) - 1
        floor = min(low >> extra, top)
        if floor == min(high >> extra, top):
            return floor
        extra *= 2


def exp_minus(x: Fraction, places: int) -> Ends:
    """Around 2^places·e^{−x}, x ≥ 0: (e^{−x/n})^n, n whole, x/n ≤ 1.

    The terms of Σ(−x/n)^j/j! fall and change sign: between two partial sums lies the limit.
    """
    times = max(1, math.ceil(x))
    work = places + 2 * times.bit_length() + 8  # a product of n powers loses n units, and n < 2^b
    numerator, denominator = x.numerator, x.denominator * times
    low_term = high_term = low = high = 1 << work
    j = 0
    while high_term > 1:
        j += 1
        low_term = low_term * numerator // (denominator * j)
        high_term = -(-high_term * numerator // (denominator * j))
        if j % 2:
            low, high = low - high_term, high - low_term
        else:
            low, high = low + low_term, high + high_term
    low, high = low - high_term, high + high_term  # what follows is smaller than the last term
    low_power = high_power = 1 << work
    for bit in bin(times)[2:]:
        low_power = low_power * low_power >> work
        high_power = -(-high_power * high_power >> work)
        if bit == "1":
            low_power = low_power * low >> work
            high_power = -(-high_power * high >> work)
    shift = work - places
    return low_power >> shift, -(-high_power >> shift)


@lru_cache(maxsize=64)
def _root_of_two_over_pi(places: int) -> Ends:
    """Around 2^places·√(2/π); π = 16·arctan(1/5) − 4·arctan(1/239)."""
    work = 2 * places + 16
    fifth, small = _arctan_of_inverse(5, work), _arctan_of_inverse(239, work)
    low_pi = 16 * fifth[0] - 4 * small[1]
    high_pi = 16 * fifth[1] - 4 * small[0]
    below = (2 << (work + 2 * places)) // high_pi
    above = -(-(2 << (work + 2 * places)) // low_pi)
    return math.isqrt(below), math.isqrt(above) + 1


def _arctan_of_inverse(n: int, places: int) -> Ends:
    """Around 2^places·arctan(1/n) = 2^places·Σ(−1)^j/((2j + 1)·n^{2j+1})."""
    low = high = 0
    power = (1 << places) // n  # rounded down: true powers are at most 1.1 larger
    j = 0
    while power:
        if j % 2:
            low, high = low - (power + 2) // (2 * j + 1) - 1, high - power // (2 * j + 1)
        else:
            low, high = low + power // (2 * j + 1), high + (power + 2) // (2 * j + 1) + 1
        power //= n * n
        j += 1
    return low - 2, high + 2

"""Integers of a law by inversion: 64 random bits each, and more only where those do not decide."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from privest.lattice._entropy import Integers, Unsigned, Words, drawn_words, os_words
from privest.lattice._tables import GAUSSIAN, LAPLACE, MagnitudeLaw, table_of

_GUIDE_BITS = 16
_PIECE = 2**15  # words looked up at a time: they stay in cache


def gaussian_integers(count: int, words: Words = os_words) -> Integers:
    """`count` independent integers X, P(X = k) = e^{−k²/2σ²}/Z, σ² = 4^10 + 1/2, exactly.

    g·X, g = 2^−10, is the noise of a Gaussian release in units in which the level is 1.
    """
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
        """X of `count` words; those that do not decide take more words."""
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

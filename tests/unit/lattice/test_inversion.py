"""Inversion: all short words, the boundaries of the table, and mutants that must fail."""

import math
from bisect import bisect_left, bisect_right
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.stats

from privest.lattice import GAUSSIAN, LAPLACE, DiscreteGaussian
from privest.lattice._sampler import Inversion, table_of

TOP = 2**64 - 1


class MoreWords(Exception):
    """The injected words are spent."""


def exact_law(variance, digits=60):
    """F(0), F(1), … by mpmath until 1 − F < 1e-50, as fractions good to `digits` digits."""
    with mpmath.workdps(digits):
        weights = [mpmath.mpf(1)]
        while weights[-1] > mpmath.mpf(10) ** -(digits - 5):
            m = len(weights)
            weights.append(2 * mpmath.exp(-mpmath.mpf(m * m) / (2 * mpmath.mpf(variance))))
        total = mpmath.fsum(weights)
        sums = [mpmath.fsum(weights[: m + 1]) / total for m in range(len(weights))]
        return [Fraction(int(F * 2**180), 2**180) for F in sums]


@pytest.mark.parametrize(("variance", "left"), [(1.5, 6), (4.5, 10), (16.5, 19)])
def test_all_words_of_8_bits_extended_to_16(variance, left):
    """65536 strings: F(m−1) ≤ U < F(m) for every U that begins so, or undecided."""
    law = exact_law(variance)
    inversion = Inversion(DiscreteGaussian(Fraction(variance)), bits=8, more=8)
    first, tied = inversion.search(np.arange(256, dtype=np.uint64))
    wrong = undecided = 0
    for v in range(256):
        for extra in range(256):
            words = iter([extra])
            try:
                m = inversion.extended(v, lambda w=words: next(w)) if v in tied else int(first[v])
            except StopIteration:
                undecided += 1
                continue
            low, high = Fraction(v << 8 | extra, 2**16), Fraction((v << 8 | extra) + 1, 2**16)
            wrong += not ((law[m - 1] if m else 0) <= low and high <= law[m])
    assert (wrong, undecided) == (0, left)


def raw_words(seed, bits):
    """Words of `bits` bits from a fixed generator: of a test only."""
    raw = np.random.Philox(seed)
    return lambda count: raw.random_raw(count) >> np.uint64(64 - bits)


def chi_square(drawn, variance):
    """p of Pearson's test against P(X = k) ∝ e^{−k²/2σ²}, values with less than 10 together."""
    most = int(np.abs(drawn).max()) + 1
    k = np.arange(-most, most + 1)
    weights = np.exp(-(k**2) / (2 * variance))
    expected = weights / weights.sum() * len(drawn)
    seen = np.bincount(drawn + most, minlength=len(k))
    good = expected >= 10
    seen = np.append(seen[good], seen[~good].sum())
    expected = np.append(expected[good], expected[~good].sum())
    keep = expected > 0
    statistic = ((seen - expected)[keep] ** 2 / expected[keep]).sum()
    return scipy.stats.chi2.sf(statistic, keep.sum() - 1)


class Careless(Inversion):
    """The mutant: a tie takes the entry that was found."""

    def search(self, v):
        return super().search(v)[0], np.empty(0, dtype=np.int64)


class Generous(Inversion):
    """The other mutant: a tie takes the next entry."""

    def search(self, v):
        m, tied = super().search(v)
        m[tied] += 1
        return m, np.empty(0, dtype=np.int64)


DRAWS = 200_000


def short_words(kind, variance):
    inversion = kind(DiscreteGaussian(Fraction(variance)), bits=8, more=8)
    words, asked = raw_words(7, 9), []

    def counted(count):
        asked.append(count)
        return words(count) if count > 1 else words(1) & np.uint64(255)

    drawn = inversion.drawn(DRAWS, counted)
    return chi_square(drawn, variance), asked.count(1) / DRAWS


@pytest.mark.parametrize(("variance", "share"), [(4.5, 0.027), (512.5, 0.22)])
def test_short_words_have_the_law_and_most_of_the_work(variance, share):
    """A p below 1e-6 is one run in a million; the words are fixed."""
    p, slow = short_words(Inversion, variance)
    assert p > 1e-6
    assert slow == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize("mutant", [Careless, Generous])
def test_ties_without_more_bits_are_caught(mutant):
    assert short_words(mutant, 512.5)[0] < 1e-20


def boundary(table):
    """Every entry, and one below and above: what random words never are."""
    words = {min(max(entry + d, 0), 2**63 - 1) for entry in table for d in (-1, 0, 1)}
    return np.array(sorted(words), dtype=np.uint64)


def literally(law, v):
    """|X| of v followed by zeros, by whole numbers."""
    table = table_of(law, 63)
    m = bisect_left(table, v)
    longer = table_of(law, 127)
    return m if table[m] > v else bisect_right(longer, v << 64)


class Mixed(Inversion):
    """The mutant: a table of another type, which numpy compares with words as doubles."""

    @property
    def table(self):
        return np.array(table_of(self.law, self.bits), dtype=np.int64)


def disagreeing(inversion, v):
    words = iter([v << np.uint64(1)])
    drawn = inversion.drawn(len(v), lambda n: next(words, np.zeros(n, dtype=np.uint64)))
    return sum(x != literally(inversion.law, w) for x, w in zip(drawn.tolist(), v.tolist()))


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_words_at_the_boundaries(law):
    v = boundary(table_of(law, 63))
    assert len(v) > 25_000
    assert disagreeing(Inversion(law), v) == 0


def test_a_table_of_another_type_is_caught_at_the_boundaries_only():
    v = boundary(table_of(GAUSSIAN, 63))
    chance = raw_words(3, 63)(20_000)
    assert disagreeing(Mixed(GAUSSIAN), v) > 1000
    assert disagreeing(Mixed(GAUSSIAN), chance) == 0  # random tests do not see it


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_nothing_is_cut_off(law):
    """The last word of 63 bits is a tie: longer tables give every larger value."""
    inversion = Inversion(law)
    last = len(inversion.table) - 1
    first = inversion.extended(2**63 - 1, lambda: 0)
    further = inversion.extended(2**63 - 1, lambda: TOP - 1)
    assert last <= first < further <= len(table_of(law, 127))
    words = iter([TOP, TOP, 0])
    assert inversion.extended(2**63 - 1, lambda: next(words)) > further


def test_signs_are_those_of_the_word():
    inversion = Inversion(GAUSSIAN)
    v = raw_words(5, 63)(1000)
    for sign in (0, 1):
        words = iter([v << np.uint64(1) | np.uint64(sign)])
        drawn = inversion.drawn(1000, lambda n, w=words: next(w))
        assert ((drawn <= 0) if sign else (drawn >= 0)).all()
    assert math.isclose(np.abs(drawn).mean(), 1024 * (2 / math.pi) ** 0.5, rel_tol=0.1)

"""Coins: probabilities by enumeration, words at the boundary, q rounded to the safe side."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.stats

from privest import lattice
from privest.errors import InvalidInput
from privest.lattice._coins import WHOLE, by_chance

EPSILONS = [1e-6, 0.1, 0.5, 1.0, 2.0, 4.0, 13.7, 40.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_flips_are_the_least_that_keep_epsilon(epsilon):
    """(1 − q)/q ≤ e^ε, and not with one flip less: against 80 digits."""
    m = lattice.flips_for(epsilon)
    with mpmath.workdps(80):
        most = mpmath.exp(mpmath.mpf(epsilon))
        assert mpmath.mpf(WHOLE - m) / m <= most
        assert mpmath.mpf(WHOLE - m + 1) / (m - 1) > most


@pytest.mark.parametrize("level", [1e-9, 0.01, 1.0, 52.6, 1e12])
def test_flips_of_a_level(level):
    m, s = lattice.flips_at(Fraction(level)), Fraction(level)
    assert lattice.Coin(m).level <= s < lattice.Coin(m - 1).level


def test_what_is_too_strong_or_too_weak():
    assert lattice.flips_for(1e9) == lattice.flips_at(Fraction(10**60)) == 1
    for call in (lambda: lattice.flips_for(1e-22), lambda: lattice.flips_at(Fraction(1, 10**40))):
        with pytest.raises(InvalidInput, match="shows nothing"):
            call()
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="above 0"):
            lattice.flips_for(bad)
    for flips in (0, WHOLE // 2):
        with pytest.raises(InvalidInput, match="hides nothing"):
            lattice.Coin(flips)
    for ends in ((1.0, 1.0), (-1e308, 1e308), (0.0, math.inf), (0.0, 1e-300)):
        with pytest.raises(InvalidInput, match="two ends"):
            lattice.Coin(2**62, *ends)


def test_the_nearer_end_is_told_wrongly_exactly_so_often():
    """The whole of the 2^64 words: 1 below a bound, 0 from it on, so the bound is P·2^64."""
    coin = lattice.Coin(lattice.flips_for(1.0))
    for y, bound in ((0.0, coin.flips), (0.49, coin.flips), (0.5, WHOLE - coin.flips)):
        words = np.array([0, bound - 1, bound, WHOLE - 1], dtype=np.uint64)
        assert lattice.tossed(coin, np.full(4, y), words).tolist() == [1, 1, 0, 0]
        assert coin.chance(y) == Fraction(bound, WHOLE)


@pytest.mark.parametrize("value", [-np.inf, -3.0, 0.0, 5e-324])
def test_no_value_is_refused(value):
    coin = lattice.Coin(lattice.flips_for(1.0), nearest=False)
    word = np.array([coin.flips], dtype=np.uint64)
    for sign, bit in ((1.0, 0), (-1.0, int(value != 0))):
        y = np.array([sign * value])
        expected = by_chance(coin.chance(float(lattice.finite(y)[0])), int(word[0]))
        assert lattice.tossed(coin, y, word)[0] == expected == (bit if value < 0 else 0)


@pytest.mark.parametrize("nearest", [True, False])
def test_a_missing_reading_counts_as_the_lower_end(nearest):
    """The words next to both bounds, q and 1 − q, tell the ends apart."""
    coin = lattice.Coin(lattice.flips_for(1.0), 2.0, 5.0, nearest=nearest)
    words = np.array([0, coin.flips - 1, coin.flips, WHOLE - coin.flips - 1], dtype=np.uint64)
    for y, bits in ((2.0, [1, 1, 0, 0]), (5.0, [1, 1, 1, 1]), (np.nan, [1, 1, 0, 0])):
        assert lattice.tossed(coin, np.full(4, y), words).tolist() == bits


RANGES = [(0.0, 1.0), (-3.7, 0.1), (1e9, 1e9 + 1e-3), (-1e300, 1e300), (0.0, 1e-200)]


@pytest.mark.parametrize("ends", RANGES)
def test_words_at_the_boundary_are_decided_by_fractions(ends):
    """Words within 20 parts of 2^-53 of P: a decision in doubles alone would be wrong in many."""
    coin, rng = lattice.Coin(lattice.flips_for(0.7), *ends, nearest=False), np.random.default_rng(2)
    y = ends[0] + rng.random(400) * (ends[1] - ends[0])
    chance = [coin.chance(value) for value in y.tolist()]
    near = [
        math.floor(p * WHOLE) + int(k) for p, k in zip(chance, rng.integers(-40960, 40960, 400))
    ]
    near[::4] = [math.floor(p * WHOLE) for p in chance[::4]]  # the word that does not decide
    words = np.array(near, dtype=np.uint64)
    spare = iter(rng.integers(0, 2**63, 400).astype(np.uint64).tolist())
    asked = []

    def more(count):
        asked.append(next(spare))
        return np.array(asked[-1:], dtype=np.uint64)

    found = lattice.tossed(coin, y, words, more)
    extra = iter(asked)
    for bit, p, word in zip(found.tolist(), chance, near):
        if word == math.floor(p * WHOLE) and (p * WHOLE).denominator > 1:
            u = Fraction(word * WHOLE + next(extra), WHOLE**2)  # 2^-128 more decides nothing else
        else:
            u = Fraction(word, WHOLE)
        assert bit == (u < p)
    share = (y - ends[0]) / (ends[1] - ends[0])
    naive = words / 2.0**64 < float(coin.wrong) + float(1 - 2 * coin.wrong) * share
    assert (naive != found).sum() > 10


def test_all_words_of_8_bits_extended_to_16():
    """P of a coin with few digits: of 65536 strings those below P, and no others, are 1."""
    for chance in (Fraction(1, 3), Fraction(37, 256), Fraction(12345, 65536), Fraction(1, 2**9)):
        ones = 0
        for first in range(256):
            for second in range(256):
                word = (first << 8 | second) << 48
                ones += by_chance(chance, word, lambda n: np.zeros(n, dtype=np.uint64))
        assert ones == math.ceil(chance * 65536)  # the last string holds the boundary: zeros follow


@pytest.mark.parametrize("nearest", [True, False])
def test_the_system_tosses_fairly(nearest):
    """4·10^5 coins at 8 readings: Pearson's test, false alarm 1e-6."""
    coin = lattice.Coin(lattice.flips_for(1.0), -1.0, 3.0, nearest)
    y = np.repeat(np.linspace(-2.0, 4.0, 8), 50_000)
    bits = lattice.tossed(coin, y, lattice.os_words(y.size)).reshape(8, -1)
    chance = np.array([float(coin.chance(v)) for v in np.linspace(-2.0, 4.0, 8)])
    gap = (bits.mean(axis=1) - chance) / np.sqrt(chance * (1 - chance) / bits.shape[1])
    assert scipy.stats.chi2.sf((gap**2).sum(), 8) > 1e-6
    assert scipy.stats.chi2.sf(((gap + 4.0) ** 2).sum(), 8) < 1e-6  # 0.01 off would be seen


def test_the_debiased_bit_has_mean_y_and_variance_one_over_the_level_at_the_ends():
    for epsilon, ends in ((1.0, (0.0, 1.0)), (2.5, (-4.0, 11.0))):
        coin = lattice.Coin(lattice.flips_for(epsilon), *ends, nearest=False)
        exact = 4 * math.sinh(epsilon / 2) ** 2 / (ends[1] - ends[0]) ** 2
        assert float(coin.level) == pytest.approx(exact, rel=1e-14)
        for y in (*ends, 0.3 * ends[0] + 0.7 * ends[1]):
            p = coin.chance(y)
            mean = coin.zero + coin.unit * float(p)
            assert mean == pytest.approx(y, abs=1e-13 * coin.unit)
            variance = float(p * (1 - p)) * coin.unit**2
            inside = (y - ends[0]) * (ends[1] - y)
            assert variance == pytest.approx(inside + 1 / float(coin.level), rel=1e-12)
            # I_z(y) = (∂p)²/(p(1 − p)) = 1/variance, for one bit whose mean is linear in y
            slope = (1 - 2 * coin.wrong) / coin.width
            assert slope**2 / (p * (1 - p)) <= coin.level


def test_words_of_another_kind_are_refused():
    coin = lattice.Coin(2**62)
    for words in (np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.uint64)):
        with pytest.raises(InvalidInput, match="uint64"):
            lattice.tossed(coin, np.zeros(3), words)

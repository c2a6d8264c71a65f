"""Coins: probabilities by enumeration, words at the boundary, q rounded to the safe side."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.stats

from privest import lattice
from privest.errors import InvalidInput
from privest.lattice.coins import WHOLE

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


@pytest.mark.parametrize(("value", "bit"), [(-np.inf, 0), (-3.0, 0), (5e-324, 0), (np.inf, 1)])
def test_no_value_is_refused(value, bit):
    coin = lattice.Coin(lattice.flips_for(1.0))
    word = np.array([coin.flips], dtype=np.uint64)
    assert lattice.tossed(coin, np.array([value]), word)[0] == bit


def test_a_missing_reading_counts_as_the_lower_end():
    """The words next to both bounds, q and 1 − q, tell the ends apart."""
    coin = lattice.Coin(lattice.flips_for(1.0), 2.0, 5.0)
    words = np.array([0, coin.flips - 1, coin.flips, WHOLE - coin.flips - 1], dtype=np.uint64)
    for y, bits in ((2.0, [1, 1, 0, 0]), (5.0, [1, 1, 1, 1]), (np.nan, [1, 1, 0, 0])):
        assert lattice.tossed(coin, np.full(4, y), words).tolist() == bits


def test_the_system_tosses_fairly():
    """4·10^5 coins at 8 readings: Pearson's test, false alarm 1e-6."""
    coin = lattice.Coin(lattice.flips_for(1.0), -1.0, 3.0)
    y = np.repeat(np.linspace(-2.0, 4.0, 8), 50_000)
    bits = lattice.tossed(coin, y, lattice.os_words(y.size)).reshape(8, -1)
    chance = np.array([float(coin.chance(v)) for v in np.linspace(-2.0, 4.0, 8)])
    gap = (bits.mean(axis=1) - chance) / np.sqrt(chance * (1 - chance) / bits.shape[1])
    assert scipy.stats.chi2.sf((gap**2).sum(), 8) > 1e-6
    assert scipy.stats.chi2.sf(((gap + 4.0) ** 2).sum(), 8) < 1e-6  # 0.01 off would be seen


def test_the_debiased_bit_has_mean_y_and_variance_one_over_the_level_at_the_ends():
    for epsilon, ends in ((1.0, (0.0, 1.0)), (2.5, (-4.0, 11.0))):
        coin = lattice.Coin(lattice.flips_for(epsilon), *ends)
        exact = 4 * math.sinh(epsilon / 2) ** 2 / (ends[1] - ends[0]) ** 2
        assert float(coin.level) == pytest.approx(exact, rel=1e-14)
        for y in ends:
            p = coin.chance(y)
            mean = coin.zero + coin.unit * float(p)
            assert mean == pytest.approx(y, abs=1e-13 * coin.unit)
            variance = float(p * (1 - p)) * coin.unit**2
            assert variance == pytest.approx(1 / float(coin.level), rel=1e-12)


def test_words_of_another_kind_are_refused():
    coin = lattice.Coin(2**62)
    for words in (np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.uint64)):
        with pytest.raises(InvalidInput, match="uint64"):
            lattice.tossed(coin, np.zeros(3), words)

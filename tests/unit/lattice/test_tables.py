"""The tables of the laws against computations that share nothing with them.

Gaussian: interval arithmetic of mpmath, every exponential by itself, and the sum of all of them by
Poisson's formula. Laplace: exact rationals. Ends of intervals are read off as integers: `mp.floor`
of an end would round it to 53 bits first, and call right entries wrong.
"""

from fractions import Fraction
from functools import lru_cache

import mpmath
import pytest

from privest.lattice import GAUSSIAN, GRID, LAPLACE, DiscreteGaussian, DiscreteLaplace, _sampler
from privest.lattice._sampler import GRID_BITS, certified, exp_minus, table_of

BITS = 63


def ends(interval):
    """Both ends of an interval of mpmath, exactly."""
    return tuple(
        (-1) ** sign * Fraction(mantissa) * Fraction(2) ** exponent
        for sign, mantissa, exponent, _ in interval._mpi_
    )


@lru_cache(maxsize=4)
def by_intervals(law, count, precision):
    """Enclosures of F(0..count−1): (1 + 2Σ e^{−k²/2σ²})/Z, Z = √(2πσ²)·(1 + 2Σ e^{−2π²n²σ²}).

    What follows the fourth term of that sum is below a hundredth of it.
    """
    iv = mpmath.iv
    before, iv.prec = iv.prec, precision
    try:
        variance = iv.mpf(law.variance.numerator) / law.variance.denominator
        waves = [2 * iv.exp(-2 * iv.pi**2 * n * n * variance) for n in range(1, 5)]
        waves[-1] *= iv.mpf([1, 1.01])
        Z = iv.sqrt(2 * iv.pi * variance) * (1 + sum(waves))
        total, found = iv.mpf(1), []
        for m in range(count):
            if m:
                total += 2 * iv.exp(-iv.mpf(m * m) / (2 * variance))
            found.append(ends(total / Z))
    finally:
        iv.prec = before
    return found


def judged(table, law, precision):
    """(wrong, undecided) entries of a table."""
    top = 2**BITS - 1
    wrong = undecided = 0
    for entry, interval in zip(table, by_intervals(law, len(table), precision)):
        low, high = (min(int(end * 2**BITS), top) for end in interval)
        undecided += low != high
        wrong += low == high != entry
    return wrong, undecided


def test_the_table_is_certified():
    table = table_of(GAUSSIAN, BITS)
    assert (GAUSSIAN.variance, len(table)) == (2**20 + Fraction(1, 2), 9299)
    assert judged(table, GAUSSIAN, 160) == (0, 0)
    for m in (0, 1, 4000, 9200):  # the control: one entry that is off by one is seen
        changed = table.copy()
        changed[m] += 1
        assert judged(changed, GAUSSIAN, 160) == (1, 0)


def test_low_precision_decides_nothing():
    table = table_of(GAUSSIAN, BITS)
    wrong, undecided = judged(table, GAUSSIAN, 70)
    assert wrong == 0
    assert undecided > 0.9 * len(table)


@pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
def test_longer_tables_begin_with_the_shorter(law):
    """⌊2^63 F⌋ is ⌊2^127 F⌋ without its last 64 bits."""
    for bits in (63, 127):
        short, long = table_of(law, bits), table_of(law, bits + 64)
        assert len(long) > len(short)
        assert [entry >> 64 for entry in long[: len(short)]] == short
        assert all(entry >> 64 == 2**bits - 1 for entry in long[len(short) :])
        assert short == sorted(short)
        assert short[-1] == 2**bits - 1 > short[-2]


def test_entries_that_the_precision_does_not_decide_are_not_taken():
    for law in (GAUSSIAN, LAPLACE):
        assert certified(law.enclosures(BITS, BITS + 8), BITS, 8) is None
        assert certified(law.enclosures(BITS, BITS + 64), BITS, 64) == table_of(law, BITS)
    # Sixteenths and two bits: 5 and 9 differ; 8 is not yet the end.
    assert certified(([5, 12], [9, 15]), 2, 2) is None
    assert certified(([5, 8], [5, 8]), 2, 2) is None
    assert certified(([5, 12, 14], [7, 15, 15]), 2, 2) == [1, 3]


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(3, 2), Fraction(33, 2)])
@pytest.mark.parametrize("bits", [5, 8, 16, 40])
def test_small_tables(variance, bits):
    law = DiscreteGaussian(variance)
    table = table_of(law, bits)
    for entry, (low, high) in zip(table, by_intervals(law, len(table), 200)):
        assert (
            min(int(low * 2**bits), 2**bits - 1) == entry == min(int(high * 2**bits), 2**bits - 1)
        )


@pytest.mark.parametrize("x", [Fraction(1), Fraction(2, 3), Fraction(2, 2**21 + 1)])
def test_exponentials_are_enclosed(x):
    with mpmath.workprec(400):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        for precision in (10, 64, 300):
            low, high = exp_minus(x, precision)
            assert low < exact * 2**precision < high <= low + 2


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(9, 2), Fraction(2049, 2)])
@pytest.mark.parametrize("precision", [12, 20, 45])
@pytest.mark.parametrize("steps", [None, 50])
def test_enclosures_enclose(variance, precision, steps, monkeypatch):
    """Where they are so wide that every rounding counts, and wherever the sum is cut."""
    if steps is not None:
        monkeypatch.setattr(_sampler, "_steps", lambda *_: steps)
    law = DiscreteGaussian(variance)
    below, above = law.enclosures(4, precision)
    exact = by_intervals(law, len(below), 200)
    for low, high, (least, most) in zip(below, above, exact):
        assert low <= most * 2**precision
        assert high >= least * 2**precision


def laplace_entry(ratio, m, bits):
    """⌊2^bits (1 − 2q^{m+1}/(1+q))⌋ of a rational q."""
    power = ratio ** (m + 1)
    return int(2**bits * (1 - 2 * power / (1 + ratio)))


def test_laplace_against_rationals():
    g = Fraction(1, 8)
    small = DiscreteLaplace(1 - g + g**2 / 2)
    table = table_of(small, BITS)
    assert table == [laplace_entry(small.ratio, m, BITS) for m in range(len(table))]
    assert len(table) == 351
    table = table_of(LAPLACE, BITS)
    for m in (0, 1, 2, 77, 1024, 9999, 30000, len(table) - 2, len(table) - 1):
        assert table[m] == laplace_entry(LAPLACE.ratio, m, BITS)


def test_constants_keep_the_information_below_one():
    """e^{1/σ²} − 1 ≤ g² and (1−q)²/q ≤ g², in integers and rationals."""
    g = Fraction(1, 2**GRID_BITS)
    assert g == Fraction(GRID)
    low, _ = exp_minus(1 / GAUSSIAN.variance, 200)
    assert Fraction(low, 2**200) * (1 + g**2) >= 1
    assert (1 - LAPLACE.ratio) ** 2 <= LAPLACE.ratio * g**2
    # And the next simple choices fail: these are tight.
    for variance in (Fraction(4**10), Fraction(4**10) + Fraction(49, 100)):
        _, high = exp_minus(1 / variance, 200)
        assert Fraction(high, 2**200) * (1 + g**2) < 1
    assert g**2 < g**2 / (1 - g)  # q = 1 − g is too small

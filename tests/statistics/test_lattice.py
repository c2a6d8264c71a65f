"""Draws of the lattice against their laws, OpenDP's sampler as a second opinion, and the attack.

Words come from a fixed generator, in tests only. A p below 1e-6 is one run in a million.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from privest import lattice
from privest.lattice import GAUSSIAN, LAPLACE, DiscreteGaussian, DiscreteLaplace
from privest.lattice._sampler import Inversion

FALSE_ALARM = 1e-6


def fixed_words(seed):
    return np.random.Philox(seed).random_raw


def probabilities(law, most):
    """P(X = k), |k| ≤ most, from the formula in doubles."""
    k = np.arange(-most, most + 1)
    if isinstance(law, DiscreteLaplace):
        q = float(law.ratio)
        return (1 - q) / (1 + q) * np.exp(np.abs(k) * np.log1p(-float(1 - law.ratio)))
    weights = np.exp(-(k**2) / (2 * float(law.variance)))
    return weights / weights.sum()


def p_of_law(counts, law, width=1):
    """Pearson's test of cells of `width` values; those with less than 10 are taken together."""
    expected = counts.sum() * probabilities(law, len(counts) // 2)
    starts = np.arange(0, len(counts), width)
    counts, expected = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    good = expected >= 10
    rest = counts.sum() - expected[good].sum()
    statistic = ((counts - expected)[good] ** 2 / expected[good]).sum()
    statistic += (counts[~good].sum() - rest) ** 2 / rest
    return scipy.stats.chi2.sf(statistic, good.sum())


@pytest.mark.parametrize(
    ("draw", "law"),
    [(lattice.gaussian_integers, GAUSSIAN), (lattice.laplace_integers, LAPLACE)],
)
def test_ten_million_draws(draw, law):
    words, most = fixed_words(11), 2**15
    counts = np.zeros(2 * most + 1)
    for _ in range(10):
        drawn = draw(10**6, words)
        counts += np.bincount(drawn + most, minlength=len(counts))
    for width in (1, 100):  # every value by itself, and what many of them share
        assert p_of_law(counts, law, width) > FALSE_ALARM
    # The test sees a law that is half a percent wider.
    wider = (
        DiscreteGaussian(law.variance * Fraction(101, 100))
        if law is GAUSSIAN
        else DiscreteLaplace(1 - (1 - law.ratio) * Fraction(995, 1000))
    )
    assert p_of_law(counts, wider, 100) < 1e-12


def test_fresh_words_differ_and_are_fair():
    """The system's words: 64 bits each set half the time (5 deviations), no two runs alike."""
    count = 40_000
    first, second = lattice.os_words(count), lattice.os_words(count)
    assert not np.intersect1d(first, second).size  # by chance: 1e-10
    bits = np.unpackbits(first.view(np.uint8)).reshape(count, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / count**0.5


# --- OpenDP -----------------------------------------------------------------------------------


def opendp_draws(law, count, wider=1.0):
    dp = pytest.importorskip(
        "opendp.prelude", reason="OpenDP's sampler is the second opinion: pip install opendp"
    )
    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T="i64"))
    if isinstance(law, DiscreteGaussian):
        space, make = (numbers, dp.l2_distance(T="f64")), dp.m.make_gaussian
        scale = float(law.variance) ** 0.5
    else:
        space, make = (numbers, dp.l1_distance(T="i64")), dp.m.make_laplace
        scale = -1.0 / np.log1p(-float(1 - law.ratio))
    return np.array(make(*space, scale=scale * wider)([0] * count))


def p_same(first, second, bins=40):
    """Chi-square of two samples over cells of about the same share."""
    both = np.concatenate([first, second])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, bins + 1)[1:-1]).astype(np.int64))
    table = [
        np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (first, second)
    ]
    seen = np.array(table)
    return scipy.stats.chi2_contingency(seen[:, seen.sum(axis=0) > 0]).pvalue


LAWS = {
    "gaussian": GAUSSIAN,
    "laplace": LAPLACE,
    "gaussian 9/2": DiscreteGaussian(Fraction(9, 2)),
    "laplace 3/4": DiscreteLaplace(Fraction(3, 4)),
}


@pytest.mark.parametrize("name", LAWS)
def test_opendp_draws_the_same_law(name):
    """OpenDP's words are the system's: 1e-6 is how often this fails without a reason."""
    law = LAWS[name]
    ours = Inversion(law).drawn(200_000, fixed_words(12))
    theirs = opendp_draws(law, 20_000)
    assert p_same(ours, theirs) > FALSE_ALARM
    assert p_same(ours, opendp_draws(law, 20_000, wider=1.1)) < 1e-6


# --- the attack --------------------------------------------------------------------------------


def impossible_for_one(z):
    """Releases z = fl(0 + e) that no noise e gives from a reading of 1: z ≠ fl(1 + fl(z − 1))."""
    return float(np.mean(1.0 + (z - 1.0) != z))


def released(y, seed):
    """g·(n + X) of unit level, the noise drawn first."""
    words = fixed_words(seed)
    noise, coins = lattice.gaussian_integers(y.size, words), words(y.size)
    return lattice.rounded(lattice.sum_of_products([(np.array(1.0), y)]), coins) + noise


def test_the_attack_ends():
    """Low digits of y + e tell 0 from 1 in two of five releases; integers have none."""
    naive = np.random.Generator(np.random.PCG64(15)).standard_normal(10**6)
    assert impossible_for_one(naive) > 0.1
    ours = released(np.zeros(10**6), 15) * lattice.GRID
    assert impossible_for_one(ours) == 0.0


def test_every_release_of_zero_is_possible_for_one():
    """For each integer that 0 gave there are words that give it from 1: here they are."""
    seen = np.unique(released(np.zeros(200_000), 16))
    noise = seen - 2**10  # of a reading of 1, which is 2^10 steps
    table = Inversion(GAUSSIAN).table
    magnitude = np.abs(noise)
    v = np.where(magnitude > 0, table[magnitude - 1] + np.uint64(1), np.uint64(0))
    assert (v < table[magnitude]).all()  # decided by 63 bits
    found = v << np.uint64(1) | (noise < 0).astype(np.uint64)
    drawn = lattice.gaussian_integers(len(seen), lambda n: found)
    coins = np.zeros(len(seen), dtype=np.uint64)
    ones = lattice.exactly(np.ones(len(seen)))
    np.testing.assert_array_equal(lattice.rounded(ones, coins) + drawn, seen)


@pytest.mark.parametrize("level", [0.3, 1.0, 7.0])
def test_releases_have_the_mean_and_variance_of_the_theorem(level):
    """E z = u and Var z = g²(σ² + f(1 − f)): 4·10^5 draws, five deviations."""
    count = 400_000
    for y, words in itertools.product((0.1, 123.456), (fixed_words(17),)):
        noise, coins = lattice.gaussian_integers(count, words), words(count)
        u = lattice.sum_of_products([(np.array(level**0.5), np.full(count, y))])
        z = (lattice.rounded(u, coins) + noise) * lattice.GRID
        f = float(u.exact(0) / Fraction(lattice.GRID) % 1)
        variance = lattice.GRID**2 * (float(GAUSSIAN.variance) + f * (1 - f))
        assert abs(z.mean() - level**0.5 * y) < 5 * (variance / count) ** 0.5
        assert abs(z.var() / variance - 1) < 5 * (2 / count) ** 0.5

"""⌊u/g + W⌋ against fractions, with words placed where the decision is hardest."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privest import lattice
from privest.errors import InvalidInput
from privest.lattice import _rounding
from privest.lattice._exact import two_product, two_sum

STEP = 2**10
RNG = np.random.default_rng(15)
TOP = 2**64 - 1


def fixed(*words):
    """A source of these words, which refuses to give more."""
    left = list(words)
    return lambda count: np.array([left.pop(0) for _ in range(count)], dtype=np.uint64)


def literally(u, word, more):
    """⌊u/g + W⌋ of a fraction, W = word + more·2^−64 in 2^−64, more bits decide what is left."""
    w = Fraction(int(word), 2**64) + Fraction(int(more), 2**128)
    return max(-lattice.MOST, min(lattice.MOST, math.floor(u * STEP + w)))


def boundary_words(fractions, shifts):
    """Words next to where ⌊u/g + W⌋ jumps: 1 − frac(u/g), moved by a few parts of 2^−64."""
    jumps = [math.floor((1 - (x * STEP) % 1) * 2**64) for x in fractions]
    return np.array(
        [min(max(j + s, 0), TOP) for j, s in zip(jumps, shifts.tolist())], dtype=np.uint64
    )


def wrong(u, shifts):
    """How many of the roundings of u with words at the boundary differ from the fractions'."""
    fractions = [u.exact(i) for i in range(u.high.size)]
    words = boundary_words(fractions, shifts)
    more = 2**63 + 12345
    got = lattice.rounded(u, words, more=lambda n: np.full(n, more, dtype=np.uint64))
    return sum(
        g != literally(x, w, more)
        for g, x, w in zip(got.ravel().tolist(), fractions, words.tolist())
    )


@pytest.mark.parametrize("size", [1.0, 50.0, 1e-9, 1e6, 3e12])
def test_single_products_at_the_boundary(size):
    y, c = size * RNG.standard_normal(1500), RNG.uniform(0.1, 3.0)
    shifts = RNG.integers(-5000, 5000, 1500)
    assert wrong(lattice.sum_of_products([(np.array(c), y)]), shifts) == 0


def test_sums_at_the_boundary():
    L, y = RNG.standard_normal((5, 3)), 50 * RNG.standard_normal((700, 5))
    u = lattice.sum_of_products([(L[t], y[:, t, None]) for t in range(5)])
    assert u.shape == (700, 3)
    np.testing.assert_allclose(u.high, y @ L, rtol=1e-12, atol=1e-11)
    assert wrong(u, RNG.integers(-9000, 9000, 2100)) == 0


def test_error_free_transformations():
    a = RNG.standard_normal(3000) * 2.0 ** RNG.integers(-60, 60, 3000)
    b = RNG.standard_normal(3000) * 2.0 ** RNG.integers(-60, 60, 3000)
    for function, exact in ((two_sum, Fraction.__add__), (two_product, Fraction.__mul__)):
        for x, y, high, low in zip(a, b, *function(a, b)):
            assert Fraction(high) + Fraction(low) == exact(Fraction(x), Fraction(y))


def test_no_value_is_refused():
    odd = np.array([np.inf, -np.inf, np.nan, 1e308, -1e308, 2.0**42, 5e-324, -5e-324, 0.0])
    words = np.full(odd.shape, 2**63, dtype=np.uint64)
    want = [lattice.MOST, -lattice.MOST, 0, lattice.MOST, -lattice.MOST, lattice.MOST, 0, 0, 0]
    for u in (
        lattice.exactly(odd),
        lattice.sum_of_products([(np.array(3.7), odd)]),
        lattice.sum_of_products([(np.array(1e300), odd), (np.array(0.0), odd)]),
    ):
        got = lattice.rounded(u, words).tolist()
        assert got[:6] == want[:6]
        assert got[8] == 0
    assert lattice.rounded(lattice.exactly(odd), words, -7, 5).tolist() == [
        5, -7, 0, 5, -7, 5, 0, 0, 0,
    ]  # fmt: skip


def test_cancellation_of_huge_values_is_exact():
    big = np.array([1e308, 1e200, 2.0**60, 1e308])
    terms = [(np.array(9.0), big), (np.array(-9.0), big), (np.array(0.5), np.arange(4.0))]
    got = lattice.rounded(lattice.sum_of_products(terms), np.full(4, 0, dtype=np.uint64))
    assert got.tolist() == [0, STEP // 2, STEP, 3 * STEP // 2]


def test_words_must_be_words():
    u = lattice.exactly(np.zeros(3))
    for words in (np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.uint64)):
        with pytest.raises(InvalidInput, match="words of uint64"):
            lattice.rounded(u, words)


def test_undecided_words_take_more_bits_and_keep_their_own():
    third = Fraction(1, 3)  # of a step: never decided by finitely many bits at the boundary
    word = math.floor((1 - third) * 2**64)
    last = math.floor((1 - third) * 2**128) - (word << 64)
    for extra, up in ((last - 1, 0), (last + 1, 1)):
        assert _rounding.by_fractions(third / STEP, word, fixed(extra)) == up
    assert _rounding.by_fractions(third / STEP, word, fixed(last, 0)) == 0
    assert _rounding.by_fractions(third / STEP, word, fixed(last, TOP)) == 1

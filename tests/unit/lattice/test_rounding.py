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


@pytest.mark.parametrize("terms", [1, 2])
def test_pieces_fit_together(terms):
    """More entries than are looked at together."""
    count = _rounding._PIECE + 700
    pairs = [(RNG.uniform(0.1, 3.0, count), 50 * RNG.standard_normal(count)) for _ in range(terms)]
    assert wrong(lattice.sum_of_products(pairs), RNG.integers(-5000, 5000, count)) == 0


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


def coarse(count):
    """A quarter of a step, known to within a fiftieth of a step only: 4 % are undecided."""
    quarter = 0.25 / STEP
    return lattice.Exactly(
        np.full(count, quarter), np.zeros(count), 0.02 / STEP, lambda i: Fraction(quarter)
    )


def test_undecided_entries_keep_their_word():
    """P(up) = f, also where many are undecided; drawing their words anew makes .25 into .24.

    200 000 draws: five deviations are .005.
    """
    count, raw = 200_000, np.random.Philox(2)
    u, words = coarse(count), raw.random_raw(count)
    up = lattice.rounded(u, words).mean()
    assert abs(up - 0.25) < 5 * (0.25 * 0.75 / count) ** 0.5

    found = np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while left.size:  # the mutant
        some = np.empty(left.size, dtype=np.int64)
        parts = (u.high[left], u.low[left], words[left], _rounding._margin(u))
        again = _rounding._decide(*parts, some)
        found[left] = some
        left = left[again]
        words = words.copy()
        words[left] = raw.random_raw(left.size)
    assert found.mean() == pytest.approx(0.23 / 0.96, abs=0.005)
    assert abs(found.mean() - 0.25) > 9 * (0.25 * 0.75 / count) ** 0.5


def test_floats_alone_are_wrong_at_the_boundary():
    """What the margin is for: without it the floating-point decision is wrong, and not seen."""
    y, c = 50 * RNG.standard_normal(3000), np.array(1.7)
    u = lattice.sum_of_products([(c, y)])
    fractions = [u.exact(i) for i in range(3000)]
    words = boundary_words(fractions, RNG.integers(-5000, 5000, 3000))
    found = np.empty(3000, dtype=np.int64)
    flagged = _rounding._decide(u.high, u.low, words, 0, found)
    right = [literally(x, w, 0) for x, w in zip(fractions, words.tolist())]
    unseen = set(np.flatnonzero(found != right).tolist()) - set(flagged.tolist())
    assert len(unseen) > 100
    flagged = _rounding._decide(u.high, u.low, words, _rounding._margin(u), found)
    assert set(np.flatnonzero(found != right).tolist()) <= set(flagged.tolist())


def test_how_often_fractions_are_needed_says_nothing_of_the_value():
    """Products have the same margin whatever their size, sums the same below 2^43."""
    for size in (0.0, 1e-300, 1.0, 1e6, 1e12, 1e300, np.inf, np.nan):
        values = np.full(3, size)
        assert _rounding._margin(lattice.sum_of_products([(np.array(0.3), values)])) == 4
    for size in (0.0, 1.0, 1e6, 1e12):
        values = np.full(3, size)
        pair = lattice.sum_of_products([(np.array(0.3), values), (np.array(0.7), -values)])
        assert _rounding._margin(pair) == 4 + 2**2 * 2 ** (43 - 105 + 63)


def test_the_slack_of_sums_is_a_bound():
    """High + low against fractions: 12 terms of very different sizes that cancel."""
    worst = 0.0
    for _ in range(30):
        c = RNG.standard_normal((12, 40)) * 2.0 ** RNG.integers(-20, 40, (12, 1))
        v = RNG.standard_normal((12, 40))
        v[6:], c[6:] = v[:6] * (1 + 1e-13), -c[:6]
        u = lattice.sum_of_products(list(zip(c, v)))
        slack = np.broadcast_to(u.slack, u.shape)
        for i in range(40):
            error = abs(u.exact(i) - Fraction(u.high[i]) - Fraction(u.low[i]))
            assert error <= Fraction(slack[i])
            worst = max(worst, float(error / Fraction(slack[i])))
            assert abs(u.low[i]) <= np.spacing(abs(u.high[i]))
    assert worst > 0  # something was rounded


def test_shapes_broadcast():
    levels, y = np.array([[1.0], [2.0]]), np.array([0.5, 0.25, 0.125])
    u = lattice.sum_of_products([(levels, y)])
    np.testing.assert_array_equal(u.high, levels * y)
    assert [u.exact(i) for i in range(6)] == [Fraction(x) for x in (levels * y).ravel()]
    words = np.zeros((2, 3), dtype=np.uint64)
    got = lattice.rounded(u, words, np.array([0, 0, 0]), np.array([600, 400, 100]))
    np.testing.assert_array_equal(got, [[512, 256, 100], [600, 400, 100]])
    none = lattice.sum_of_products([(np.array(2.0), np.zeros((0, 3)))])
    assert lattice.rounded(none, np.zeros((0, 3), dtype=np.uint64)).shape == (0, 3)


def test_clipping_the_integer_clips_the_number():
    """Ends on the grid: ⌊clip(u)/g + W⌋ = clip(⌊u/g + W⌋)."""
    y, words = 3 * RNG.standard_normal(50_000), np.random.Philox(4).random_raw(50_000)
    low, high = -1.25, 2.0
    clipped = lattice.rounded(lattice.exactly(np.clip(y, low, high)), words)
    ends = int(low * STEP), int(high * STEP)
    np.testing.assert_array_equal(lattice.rounded(lattice.exactly(y), words, *ends), clipped)


def spread(count, low=-1074, high=1023):
    """Doubles of every size, subnormal ones too."""
    numbers = RNG.uniform(1, 2, count) * RNG.choice([-1.0, 1.0], count)
    return np.ldexp(numbers, RNG.integers(low, high, count))


def test_products_of_any_size_are_exact():
    """But for what underflows: less than 2^−1070."""
    c, v = spread(6000), spread(6000)
    with np.errstate(all="ignore"):
        c[::3] = np.ldexp(c[::3], -np.frexp(c[::3])[1] - np.frexp(v[::3])[1])  # products near 1
        high, low = two_product(c, v)
    kept = np.abs(high) < 1e300
    assert kept.sum() > 3000
    for x, y, product, rest in zip(c[kept], v[kept], high[kept], low[kept]):
        error = Fraction(x) * Fraction(y) - Fraction(product) - Fraction(rest)
        assert error == 0 if abs(product) > 2.0**-960 else abs(error) < Fraction(1, 2**1070)


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_readings_of_any_size(terms):
    """Every size of coefficient and reading, with words at the boundary and anywhere."""
    count = 1500
    pairs = [(spread(count, -300, 300), spread(count)) for _ in range(terms)]
    for c, v in pairs:  # half of them near the range of the grid
        v[::2] = np.ldexp(v[::2], RNG.integers(-90, 50) - np.frexp(v[::2])[1] - np.frexp(c[::2])[1])
    if terms > 1:  # and some cancel
        c, v = pairs[0]
        pairs[1][0][::4], pairs[1][1][::4] = -c[::4], np.nextafter(v[::4], 0.0)
    u = lattice.sum_of_products(pairs)
    assert wrong(u, RNG.integers(-4000, 4000, count)) == 0
    words = np.random.Philox(8).random_raw(count)
    got = lattice.rounded(u, words, more=fixed())  # anywhere: 64 bits are enough
    assert got.tolist() == [literally(u.exact(i), w, 0) for i, w in enumerate(words.tolist())]


def test_a_missing_reading_is_missing_in_the_sum_only():
    y = np.array([1.0, np.nan, np.inf, -np.inf, 2.0])
    u = lattice.sum_of_products([(np.array(1.0), y), (np.array(1.0), np.full(5, 1e308))])
    words = np.zeros(5, dtype=np.uint64)
    assert lattice.rounded(u, words).tolist()[1:4] == [0, lattice.MOST, -lattice.MOST]
    far = lattice.sum_of_products([(np.array(1.0), y), (np.array(0.0), y)])
    want = [STEP, 0, lattice.MOST, -lattice.MOST, 2 * STEP]
    assert lattice.rounded(far, words).tolist() == want
    assert lattice.rounded(far, words, 100, 2000).tolist() == [STEP, 100, 2000, 100, 2000]


def test_bits_that_decide_are_enough():
    """A quarter of a step: W ≥ 3/4 goes up, and the last words on either side need no more bits."""
    quarter = Fraction(1, 4 * STEP)
    assert _rounding.by_fractions(quarter, 3 * 2**62, fixed()) == 1
    assert _rounding.by_fractions(quarter, 3 * 2**62 - 1, fixed()) == 0
    assert _rounding.by_fractions(Fraction(0), TOP, fixed()) == 0
    assert _rounding.by_fractions(-quarter, 2**62, fixed()) == 0
    assert _rounding.by_fractions(-quarter, 2**62 - 1, fixed()) == -1


def test_the_largest_coefficients():
    """They round up beyond the doubles when they are split."""
    c = np.array(
        [1.7976931348623157e308, -1.7976931348623157e308, 2.0**1023, 1.7976931348623157e308]
    )
    v = np.array([3e-308, 5e-300, 7e-309, 1e10])
    for terms in ([(c, v)], [(c, v), (np.array(1.0), np.array(0.1))]):
        u = lattice.sum_of_products(terms)
        assert np.isfinite(u.low[:3]).all()
        assert wrong(u, RNG.integers(-4000, 4000, 4)) == 0

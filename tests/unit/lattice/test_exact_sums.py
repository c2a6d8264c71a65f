"""Sums of any length: against fractions, in blocks of any size, with words at the boundary."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privest import lattice
from privest.errors import InvalidInput

STEP = 2**10
TOP = 2**64 - 1


def sums_of(c, v, sizes=(), most=None):
    """The sums of c (rows, n) times v (rows,), added in blocks of these sizes."""
    cuts = np.cumsum(np.asarray(sizes, dtype=int))
    blocks = list(zip(np.split(c, cuts), np.split(v, cuts)))
    if most is None:
        # Added up in fractions: np.abs may leave the doubles.
        most = [sum(abs(x) for x in products(c[:, j], v)) for j in range(c.shape[1])]
        most = np.array([min(float(min(x, Fraction(2) ** 1023)), 1e308) for x in most])
    return lattice.exact_sums(most, lambda use: (use(*block) for block in blocks))


def products(c, v):
    return [Fraction(x) * Fraction(y) for x, y in zip(c.tolist(), v.tolist())]


def literally(u, word, more):
    """⌊u/g + W⌋ within the grid, W = word·2^−64 + more·2^−128."""
    w = Fraction(int(word), 2**64) + Fraction(int(more), 2**128)
    return max(-lattice.MOST, min(lattice.MOST, math.floor(u * STEP + w)))


def require_right(u, wanted, shifts=(0, -7, 7, -(2**37), 2**37)):
    """The fraction, the slack, and ⌊u/g + W⌋ with words around the boundary."""
    slack = np.broadcast_to(u.slack, u.shape)
    more = 2**63 + 12345
    for j, true in enumerate(wanted):
        assert u.exact(j) == true
        if np.isfinite(slack[j]):
            assert abs(true - Fraction(u.high[j]) - Fraction(u.low[j])) <= Fraction(slack[j])
            assert abs(u.low[j]) <= np.spacing(abs(u.high[j]))
    jumps = [math.floor((1 - (x * STEP) % 1) * 2**64) for x in wanted]
    for shift in shifts:
        words = np.array([min(max(j + shift, 0), TOP) for j in jumps], dtype=np.uint64)
        got = lattice.rounded(u, words, more=lambda n: np.full(n, more, dtype=np.uint64))
        assert got.tolist() == [literally(x, w, more) for x, w in zip(wanted, words.tolist())]


finite = st.floats(allow_nan=False, allow_infinity=False)
usual = st.floats(-1e6, 1e6)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.tuples(st.one_of(usual, finite), st.one_of(usual, finite)), max_size=12),
    sizes=st.lists(st.integers(0, 4), max_size=3),
    again=st.booleans(),
)
def test_doubles_of_any_size_in_any_blocks(rows, sizes, again):
    """Overflow, underflow and cancellation: fractions agree with what is decided."""
    c, v = np.array(rows).reshape(-1, 2).T
    c = np.column_stack([c, -c[::-1], np.ones(len(v))])
    if again:  # all of it cancels
        c, v = np.concatenate([c, -c]), np.concatenate([v, v])
    require_right(sums_of(c, v, sizes), [sum(products(column, v), Fraction(0)) for column in c.T])


@pytest.mark.parametrize("count", [1, 2, 4095, 4096, 4097, 13_000])
def test_many_rows(count):
    """More rows than a piece; sizes differ by 2^60 and most of them cancel."""
    rng = np.random.default_rng(count)
    c = rng.standard_normal((count, 2)) * 2.0 ** rng.integers(-30, 10, (count, 1))
    v = rng.standard_normal(count)
    half = count // 2
    c[:half], v[:half] = -c[count - half :], v[count - half :] * (1 + 1e-13)
    for sizes in ((), (count // 3, count // 5), (1,)):
        require_right(sums_of(c, v, sizes), [sum(products(column, v)) for column in c.T])


def test_the_slack_is_public_and_small():
    """It follows from `most` alone; one rounding in 10^8 takes fractions, none at the usual sizes
    more often."""
    c, v = np.ones((5000, 1)), np.linspace(-1, 1, 5000)
    slack = [sums_of(c, x, most=np.array([m])).slack.item() for x in (v, 0 * v) for m in (1, 1e12)]
    assert len(set(slack)) == 1
    assert slack[0] == (4096**2 + 2) * 2.0 ** (43 - 105)
    assert 2 * slack[0] * STEP < 1e-8
    assert sums_of(c, v, most=np.array([2.0**50])).slack.item() == 2**7 * slack[0]


def test_an_undecided_rounding_reads_the_rows_once_more():
    read = []
    c, v = np.array([[1.0], [1.0]]), np.array([0.25 / STEP, 0.5 / STEP])

    def over(use):
        read.append(1)
        return [use(c, v)]

    u = lattice.exact_sums(np.array([1.0]), over)
    assert len(read) == 1
    assert lattice.rounded(u, np.array([0], dtype=np.uint64)).tolist() == [0]
    assert len(read) == 1  # far from the boundary
    for word, up in ((2**62, 1), (2**62 - 1, 0)):  # W = ¼: u/g + W is 1, or just below
        assert lattice.rounded(u, np.array([word], dtype=np.uint64)).tolist() == [up]
    assert len(read) == 3


def test_products_that_leave_the_doubles():
    """Weights of 2^1023 and more cannot be split, products may leave the doubles at either end."""
    largest = np.finfo(float).max
    cases = [
        ([largest, 1.0], [1e-308, 2.0]),
        ([1e308, -1e308, 0.25], [1.5, 1.5, 1.0]),
        ([largest], [10.0]),
        ([largest, largest], [-1.0, -1.0]),
        ([1e-300, -1.0], [largest, 0.5]),
    ]
    cases += [([0.0], [5e-324]), ([5e-324, 1.0], [5e-324, 0.25]), ([2e-310], [3e-320])]
    for c, v in cases:
        wanted = [sum(products(np.array(c), np.array(v)))]
        require_right(sums_of(np.array(c)[:, None], np.array(v)), wanted)


def test_no_rows_and_wrong_shapes():
    none = sums_of(np.zeros((0, 2)), np.zeros(0))
    assert none.high.tolist() == [0.0, 0.0]
    assert none.exact(1) == 0
    for c, v in ((np.ones((3, 2)), np.ones(1)), (np.ones((3, 1)), np.ones(3))):
        with pytest.raises(InvalidInput, match="weights"):
            lattice.exact_sums(np.ones(2), lambda use, c=c, v=v: [use(c, v)])


def test_numbers_of_other_types():
    """Whole numbers and single precision are doubles before they are taken apart."""
    c, v = np.array([[3, 4], [5, 6]]), np.array([0.1, 7.0], dtype=np.float32)
    wanted = [sum(products(c[:, j].astype(float), v.astype(float))) for j in range(2)]
    require_right(sums_of(c, v, most=np.array([99.0, 99.0])), wanted)

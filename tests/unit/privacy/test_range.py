"""A public range: ends on the grid, coordinates of Lᵀy, and what may be clipped."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privest.errors import InvalidInput
from privest.linalg import psd, uncorrelated_factor
from privest.privacy import OneReading, PrivacyLevel, Range, coordinate_mu


def test_a_range_is_the_move_of_one_reading():
    found = Range(-1, 3.0)
    assert (found.width, found.move) == (4.0, OneReading(4.0))
    assert found.to_dict() == {"low": -1.0, "high": 3.0}
    level = PrivacyLevel([0.25, 4.0])
    assert level.to_mu(move=found.move) == 8.0  # 2·(3 − (−1)): the larger of √s


@pytest.mark.parametrize("bad", [(1, 1), (2, 1), (np.nan, 1), (-np.inf, 1), (-1e308, 1e308)])
def test_no_range(bad):
    with pytest.raises(InvalidInput):
        Range(*bad)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(1e-3, 1e3), st.integers(0, 20))
def test_ends_on_the_grid_are_the_outermost_inside(low, width, factor, j):
    limits, grid = Range(low, low + width), 2.0**-j
    unit = Fraction(grid) / Fraction(factor)
    try:
        first, last = limits.on_grid(factor, grid)
    except InvalidInput:
        assert (limits.high - limits.low) < 2 * float(unit)
        return
    assert (first - 1) * unit < Fraction(limits.low) <= first * unit
    assert last * unit <= Fraction(limits.high) < (last + 1) * unit


def factors(seed):
    """A random L (m, r) of any rank, with some entries 0."""
    rng = np.random.default_rng(seed)
    m, r = rng.integers(1, 6, 2)
    return rng.standard_normal((m, r)) * (rng.random((m, r)) < 0.8), rng


def test_clipping_correlated_readings_breaks_the_level():
    """The trap of safe-release.md 6: S = [[1, −.9], [−.9, 1]], one reading clipped. I = DSD."""
    S, D = np.array([[1.0, -0.9], [-0.9, 1.0]]), np.diag([1.0, 0.0])
    least = np.linalg.eigvalsh(S - D @ S @ D)[0]
    assert least == pytest.approx((1 - np.sqrt(1 + 4 * 0.81)) / 2)  # −.53
    assert least < -0.5


@given(st.integers(0, 10**6))
def test_clipping_coordinates_never_does(seed):
    """LDLᵀ ≤ LLᵀ for 0 ≤ D ≤ I; down to the rounding of the product."""
    L, rng = factors(seed)
    D = np.diag(rng.random(L.shape[1]) * (rng.random(L.shape[1]) < 0.7))
    S = L @ L.T
    rounding = 10 * len(S) * np.finfo(float).eps * np.abs(S).max()
    assert np.linalg.eigvalsh(S - L @ D @ L.T)[0] >= -rounding


@given(st.integers(0, 10**6))
def test_coordinates_hold_all_readings_in_range_and_no_less(seed):
    L, rng = factors(seed)
    limits = Range(-0.7, 1.9)
    low, high = limits.coordinates(L)
    y = rng.uniform(limits.low, limits.high, (200, len(L)))
    corners = rng.choice([limits.low, limits.high], (200, len(L)))
    u = np.concatenate([y, corners]) @ L
    assert (u >= low - 1e-12).all()
    assert (u <= high + 1e-12).all()
    worst = np.where(L > 0, limits.high, limits.low)  # a column of readings for every coordinate
    assert np.abs((worst * L).sum(axis=0) - high).max() < 1e-12


@given(st.integers(0, 10**6))
def test_mu_covers_every_change_of_one_reading(seed):
    L, rng = factors(seed)
    if not L.any():
        return
    low = rng.uniform(-2, 0, L.shape[1])
    high = low + rng.uniform(0.1, 3, L.shape[1])
    y = rng.standard_normal(len(L)) * 3
    worst, promised = coordinate_mu(L, low, high), coordinate_mu(L, low, high, move=0.5)
    assert promised <= worst <= coordinate_mu(L, low, high, grid=0.25)
    for k in range(len(L)):
        for size in (0.5, -0.5, 1e9, -1e9):
            moved = y.copy()
            moved[k] += size
            difference = np.clip(L.T @ moved, low, high) - np.clip(L.T @ y, low, high)
            allowed = promised if abs(size) == 0.5 else worst
            assert np.linalg.norm(difference) <= allowed * (1 + 1e-12)


def test_mu_by_hand():
    L = [[1.0, 0.5], [0.0, 2.0]]
    assert coordinate_mu(L, [-1.0, 0.0], [1.0, 1.0]) == pytest.approx(np.sqrt(5))  # widths 2, 1
    assert coordinate_mu(L, [-1.0, 0.0], [1.0, 1.0], move=0.4) == pytest.approx(0.8)  # min(.8, 1)
    assert coordinate_mu([[1.0]], 0.0, 0.7, grid=0.5) == 1.0  # two steps
    with pytest.raises(InvalidInput):
        coordinate_mu(L, [0.0, 0.0, 0.0], 1.0)
    with pytest.raises(InvalidInput):
        coordinate_mu(L, 1.0, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_uncorrelated_factor_has_the_same_level(seed):
    """S = LLᵀ and LᵀΣL = diag λ: to rounding, 1e-13 of their sizes; of any rank."""
    rng = np.random.default_rng(seed)
    half, root = rng.standard_normal((5, 5 - seed % 3)), rng.standard_normal((5, 5))
    level, noise = psd(half @ half.T, "S"), psd(root @ root.T, "Σ")
    L, variances = uncorrelated_factor(level, noise)
    assert L.shape == (5, 5 - seed % 3)
    S, V = half @ half.T, L.T @ root @ root.T @ L
    assert np.abs(L @ L.T - S).max() < 1e-12 * np.abs(S).max()
    assert np.abs(V - np.diag(variances)).max() < 1e-12 * variances.max()
    assert (np.diff(variances) <= 0).all()


def test_the_uncorrelated_factor_says_what_it_cannot_do():
    with pytest.raises(InvalidInput, match="3 readings"):
        uncorrelated_factor(psd(np.eye(3), "S"), psd(np.eye(2), "Σ"))
    with pytest.raises(InvalidInput, match="level 0"):
        uncorrelated_factor(psd(np.zeros(2), "S"), psd(np.eye(2), "Σ"))

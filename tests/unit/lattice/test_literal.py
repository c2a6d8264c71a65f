"""Factors whose square is at most the level that was typed, against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest

from privest.lattice import literal_factor, literal_root
from rationals import below, positive

RNG = np.random.default_rng(151)


def test_the_oracle_can_say_no():
    assert positive([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(1, 2)]])
    assert not positive([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(499, 1000)]])
    assert not positive([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(5)]])


def conditioned(m, condition):
    Q = np.linalg.qr(RNG.standard_normal((m, m)))[0]
    S = Q * np.geomspace(1.0, 1.0 / condition, m) @ Q.T
    return (S + S.T) / 2


def test_roots_are_the_largest_below():
    edge = [0.0, 5e-324, 1e-310, 2.0**-1022, 1.0, 2.0, 4.0, 1.7976931348623157e308, 1 + 2**-52]
    levels = np.concatenate([edge, 10.0 ** RNG.uniform(-320, 308, 3000), RNG.uniform(0, 4, 3000)])
    roots = literal_root(levels)
    too_large = 0
    for s, L in zip(levels.tolist(), roots.tolist()):
        assert Fraction(L) ** 2 <= Fraction(s) < Fraction(np.nextafter(L, np.inf)) ** 2
        too_large += Fraction(np.sqrt(s)) ** 2 > Fraction(s)
    assert too_large > 1000  # what plain square roots do: about half of them
    assert literal_root(np.array(2.0)).shape == ()


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e7])
def test_factors_are_below_literally(condition):
    rounded_up = 0
    for _ in range(40 if condition == 1e4 else 8):
        S = conditioned(4, condition)
        plain = np.linalg.cholesky(S)
        factor, proved = literal_factor(S, plain)
        assert proved
        assert below(factor, S)
        assert np.abs(factor - plain).max() <= 1e-6
        if condition < 1e5:
            np.testing.assert_allclose(factor, plain, rtol=1e-9, atol=1e-30)
        rounded_up += not below(plain, S)
    assert rounded_up >= 3  # without it: 13 of 40 in the notes


def test_units_do_not_matter():
    S = conditioned(5, 1e4)
    units = np.diag([1e-90, 1e-3, 1.0, 1e5, 1e80])
    S = units @ S @ units
    factor, proved = literal_factor(S, np.linalg.cholesky(S))
    assert proved
    assert below(factor, S)


def test_what_cannot_be_proved_is_left_and_said():
    h = RNG.standard_normal((3, 1))
    for S, L in ((h @ h.T, h), (np.ones((2, 2)), np.ones((2, 1)))):
        factor, proved = literal_factor(S, L)
        assert not proved
        assert factor is L
    S = conditioned(4, 1e14)
    assert not literal_factor(S, np.linalg.cholesky(S))[1]


def test_a_factor_above_its_level_is_never_proved():
    S = conditioned(4, 10.0)
    L = np.linalg.cholesky(S)
    for excess in (1e-5, 1e-2):
        assert not literal_factor(S, L * (1 + excess))[1]
    assert not literal_factor(np.diag([1.0, 0.0]), np.eye(2) * 0.5)[1]
    factor, proved = literal_factor(np.diag([1.0, 0.0]), np.diag([1.0, 0.0]))
    assert proved
    assert below(factor, np.diag([1.0, 0.0]))


def test_large_levels():
    S = conditioned(60, 1e4)
    factor, proved = literal_factor(S, np.linalg.cholesky(S))
    assert proved
    assert np.linalg.eigvalsh(S - factor @ factor.T)[0] > 0


def test_room_for_rounding_is_left():
    """s is the double below |ℓ|², ℓ a row: doubles call some of these s − ℓℓᵀ positive."""
    misled = 0
    for length in (6, 12) * 300:
        row = RNG.uniform(-1, 1, (1, length))
        square = sum(Fraction(x) ** 2 for x in row[0].tolist())
        s = float(square)
        s = s if Fraction(s) < square else float(np.nextafter(s, 0.0))
        factor, proved = literal_factor(np.array([[s]]), row)
        assert proved
        assert sum(Fraction(x) ** 2 for x in factor[0].tolist()) <= Fraction(s)
        misled += s - (row @ row.T)[0, 0] > 0
    assert misled >= 3

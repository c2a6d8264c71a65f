"""Levels of a person with several rows: what leaves, what it promises, and never more."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.mechanism import RowMechanism
from privest.mechanism.source import seeded
from privest.privacy import gdp
from privest.privacy.statement import person_level, person_root, person_statement
from privest.workflow.strategies import Person

LEVELS = (4.0, 2.0, 0.3, 1e-7, 12345.678)
ROWS = (1, 2, 3, 5, 24, 97, 1000)


@pytest.mark.parametrize("s", LEVELS)
@pytest.mark.parametrize("r", ROWS)
def test_the_information_is_below_the_level_to_the_last_bit(s, r):
    """In rationals; and nothing is given away for it."""
    root = person_root(s, r)
    assert r * Fraction(root) ** 2 <= Fraction(s)
    assert r * root**2 > s * (1 - 1e-15)


def weights(level, rows):
    """c of rows whose persons have so many rows."""
    return np.array([person_root(level, int(r)) for r in rows])


def values(shown, level, rows):
    """The values with their noise, from z̃."""
    return shown * np.sqrt(rows) / math.sqrt(level)


def test_noise_of_a_row_has_its_variance():
    """Covariance of the values with their noise is (r/s)·I; entries to five standard errors."""
    s, r, trials = 2.0, 4, 20_000
    rows = np.full(r * trials, r)
    shown = RowMechanism().release(np.zeros(r * trials), weights(s, rows)) * GRID
    noise = values(shown, s, rows).reshape(trials, r)
    spread = r / s * np.sqrt((1 + np.eye(r)) / trials)
    assert (np.abs(np.cov(noise.T) - r / s * np.eye(r)) < 5 * spread).all()


def test_what_is_shown_is_unbiased():
    y, rows, made = np.array([0.4, -2.0, 7.0, 1.0, 1.5]), np.array([2, 2, 3, 3, 3]), RowMechanism()
    many = [values(made.release(y, weights(400.0, rows)) * GRID, 400.0, rows) for _ in range(500)]
    assert (np.abs(np.mean(many, axis=0) - y) < 5 * np.sqrt(rows / 400.0 / 500)).all()


def test_a_cap_is_the_level_of_every_row():
    capped = Person(4, capped=True).weights(4.0, np.array([1, 2, 2]))
    assert capped.tolist() == [1.0]  # √(4/4), whatever the rows of the person
    assert Person(4).weights(4.0, np.array([1, 4, 4])).tolist() == [2.0, 1.0, 1.0]
    shown = RowMechanism().release(np.full(3, 1e9), capped) * GRID
    np.testing.assert_allclose(shown, 1e9, atol=10)


def test_blocks_do_not_matter():
    y, rows = np.sin(np.arange(12.0)), np.repeat([1, 3, 2, 1, 5], [1, 3, 2, 1, 5])
    c, made = weights(3.0, rows), RowMechanism()
    whole = RowMechanism().simulate(y, c, seeded(5))
    parts = [made.simulate(y[:4], c[:4], seeded(5)), made.simulate(y[4:], c[4:], seeded(5))]
    assert np.array_equal(np.concatenate(parts), whole)
    assert made.steps == 12


def test_values_are_clipped():
    made = RowMechanism(range=(0.0, 1.0))
    for end, shown in ((1e300, [2.0, 1.0, 1.0, 1.0, 1.0]), (-1e300, np.zeros(5))):
        found = made.release(np.full(5, end), weights(4.0, [1, 4, 4, 4, 4])) * GRID
        assert (np.abs(found - shown) < 10).all()


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_missing_values(law):
    y, c = np.array([1.0, np.nan, 2.0, 3.0]), weights(1.0, [2] * 4)
    for z in (
        RowMechanism(law).release(y, c),
        RowMechanism(law).simulate(y, c, np.random.default_rng(1)),
    ):
        assert np.isnan(z).tolist() == [False, True, False, False]


def test_a_row_of_weight_zero_leaves_as_zero():
    """Whatever its value is; the others keep their noise."""
    for value in (1.0, np.inf, 1e308):
        z = RowMechanism().release([value, 0.3], [0.0, 2.0])
        assert z[0] == 0
    z = [RowMechanism().release([1.0, 0.3], [0.0, 2.0])[1] for _ in range(5)]
    assert len(set(map(int, z))) > 1


def test_weights_at_which_the_grid_cannot_hold_the_range_are_refused():
    made = RowMechanism(range=(0.0, 1.0))
    made.require([1.0, 0.5])
    with pytest.raises(InvalidInput, match="narrower than a step"):
        made.require([1.0, 1e-6])


def steps_of(weight, by):
    """⌈|u|/g⌉² of a row that moves, by an exact product."""
    return math.ceil(Fraction(weight) * Fraction(by) / Fraction(GRID)) ** 2


@pytest.mark.parametrize("s", [1.0, 0.37])
def test_the_promise_holds_for_every_corner_of_the_box(s):
    """Every row moves by 0.7, persons of one to six rows: attained to the step."""
    worst = max(steps_of(person_root(s, r), 0.7) * r for r in range(1, 7))
    said = person_statement(s, 6, sensitivity=0.7)
    assert said.squared_steps == worst
    assert said.mu == pytest.approx(0.7 * math.sqrt(s), abs=3 * math.sqrt(6) * GRID)
    assert said.conditions
    assert not person_statement(s, 6, sensitivity=0.7, enforced=True).conditions
    assert said.fisher == s


@pytest.mark.parametrize("capped", [True, False])
def test_the_level_of_an_epsilon(capped):
    """It keeps the ε, and a hair more does not."""
    how = {"rows": 7, "sensitivity": 2.0, "capped": capped, "delta": 1e-6}
    level = person_level(1.5, **how)
    assert person_statement(level, **how).epsilon <= 1.5
    more = person_statement(level * (1 + 1e-3), **how)
    assert more.mu > gdp.mu_of(1.5, 1e-6)
    with pytest.raises(InvalidInput, match="less than the steps of the grid"):
        person_level(1e-9, **how)


def test_many_rows_are_quick_and_safe():
    """A person with 10⁵ rows: steps of the grid add up, and are counted."""
    said = person_statement(1.0, 100_000, sensitivity=1.0, capped=True)
    assert said.mu == pytest.approx(math.sqrt(100_000) * 4 * GRID)  # ⌈c√s/(√r g)⌉ = 4 steps a row
    assert person_statement(1.0, 100_000, sensitivity=1.0).mu >= said.mu

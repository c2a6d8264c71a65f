"""Rows with weights of their own: what leaves, and never more."""

import math

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.lattice import GRID, literal_root
from privest.mechanism import RowMechanism
from privest.mechanism.source import seeded


def weights(level, rows):
    """c of rows that have the level s/r."""
    return literal_root(level / np.asarray(rows, dtype=float))


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


def test_blocks_do_not_matter():
    y, rows = np.sin(np.arange(12.0)), np.repeat([1, 3, 2, 1, 5], [1, 3, 2, 1, 5])
    c, made = weights(3.0, rows), RowMechanism()
    whole = RowMechanism().simulate(y, c, seeded(5))
    source = seeded(5)
    parts = [made.simulate(y[:4], c[:4], source), made.simulate(y[4:], c[4:], source)]
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

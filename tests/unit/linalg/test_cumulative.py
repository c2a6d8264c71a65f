"""Every bound of a stream in one pass: equal to inverting each step on its own."""

import math

import mpmath
import numpy as np
import pytest

from privest.arrays import EPS
from privest.errors import NumericalFailure
from privest.linalg import cumulative
from privest.linalg.cumulative import every_step


@pytest.mark.parametrize("n", [1, 5, 13])
@pytest.mark.parametrize("sizes", ["one", "changing"])
def test_each_step_equals_least_squares_on_its_own(n, sizes):
    """Well-conditioned rows: 1e-11 is 100·n·eps, what INFLATION allows, with room."""
    rng = np.random.default_rng(n)
    steps = 300
    counts = np.ones(steps, int) if sizes == "one" else rng.integers(1, 4, steps)
    ends = np.cumsum(counts)
    rows = rng.standard_normal((ends[-1], n))
    first = int(np.searchsorted(ends, n + 2))
    bounds = every_step(rows, ends, first)
    assert np.array_equal(bounds[first:], bounds[first:].transpose(0, 2, 1))
    information = cumulative.information(rows, ends)
    for k in (first, first + 1, 77, 128, steps - 1):
        G = rows[: ends[k]]
        expected = np.linalg.inv(G.T @ G)
        assert np.abs(bounds[k] - expected).max() < 1e-11 * np.abs(expected).max()
        assert np.abs(information[k] - G.T @ G).max() < 1e-13 * np.abs(G.T @ G).max()


def test_a_million_equal_steps_do_not_drift():
    """Adding 0.1 a million times rounds the same way every time: a plain sum is off by 1.3e-11.
    Sums that start afresh are off by 4e-14 at most."""
    steps = 10**6
    rows = np.full((steps, 1), math.sqrt(0.1))
    one = rows[0, 0] ** 2
    assert abs(np.cumsum(np.full(steps, one))[-1] / (steps * one) - 1) > 1e-12
    bounds = every_step(rows, np.arange(1, steps + 1), 0)
    exact = 1 / (one * np.arange(1, steps + 1))
    assert np.abs(bounds[:, 0, 0] / exact - 1).max() < 4e-14


def test_many_steps_against_exact_sums():
    """The promise is 1e-12; math.fsum rounds once."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200_000, 3)) @ np.array([[1.0, 0.5, 0.0], [0, 1, 0.8], [0, 0, 1]])
    bounds = every_step(rows, np.arange(1, 200_001), 9)
    for k in (1000, 199_999):
        products = [[rows[: k + 1, i] * rows[: k + 1, j] for j in range(3)] for i in range(3)]
        exact = np.array([[math.fsum(entry) for entry in row] for row in products])
        expected = np.linalg.inv(exact)
        assert np.abs(bounds[k] - expected).max() < 1e-13 * np.abs(expected).max()


def hard_rows(name):
    rng = np.random.default_rng(1)
    if name == "a row that nearly repeats":
        rows = rng.standard_normal((300, 6))
        rows[5] = rows[:5].T @ rng.standard_normal(5) + 1e-9 * rng.standard_normal(6)
        rows[6:20] = rows[rng.integers(0, 6, 14)]
        return rows, 5, (5, 12, 19, 20, 299)
    if name == "nearly equal columns":
        rows = rng.standard_normal((500, 4))
        rows[:, 3] = rows[:, 2] + 1e-9 * rng.standard_normal(500)
        return rows, 3, (3, 50, 499)
    if name == "polynomial":
        return np.vander(rng.uniform(0, 1, 600), 6), 5, (5, 10, 100, 599)
    return np.vander(np.linspace(0, 1, 600), 6), 5, (5, 50, 300, 599)  # a trend: ordered in time


@pytest.mark.parametrize(
    "name", ["a row that nearly repeats", "nearly equal columns", "polynomial", "trend"]
)
@pytest.mark.parametrize("chunk", [16, 2048])
def test_digits_are_lost_with_the_condition_of_the_root_not_its_square(name, chunk, monkeypatch):
    """Against 60 digits: n·INFLATION·eps·cond(R), R with unit columns, which conditions of 1e3 to
    1e10 leave; from 1e8 on a factor of the information has no digit left. Small chunks change
    coordinates often."""
    monkeypatch.setattr(cumulative, "LONGEST", chunk)
    rows, first, steps = hard_rows(name)
    bounds = every_step(rows, np.arange(1, len(rows) + 1), first)
    assert np.isfinite(bounds[first:]).all()
    assert (np.diagonal(bounds[first:], axis1=1, axis2=2) > 0).all()
    with mpmath.workdps(60):
        for k in steps:
            G = mpmath.matrix(rows[: k + 1].tolist())
            inverse = (G.T * G) ** -1
            expected = np.array(inverse.tolist(), dtype=float)
            size = np.linalg.norm(rows[: k + 1], axis=0)  # parameters in units of their columns
            allowed = (
                rows.shape[1] * cumulative.INFLATION * EPS * np.linalg.cond(rows[: k + 1] / size)
            )
            error, whole = (size * X * size[:, None] for X in (bounds[k] - expected, expected))
            assert np.abs(error).max() < allowed * np.abs(whole).max()


def test_units_of_the_parameters_do_not_matter():
    rng = np.random.default_rng(2)
    rows, unit = rng.standard_normal((40, 3)), np.array([1e-90, 1.0, 1e120])
    plain = every_step(rows, np.arange(1, 41), 2)[2:]
    scaled = every_step(rows / unit, np.arange(1, 41), 2)[2:]
    assert np.abs(scaled / unit / unit[:, None] / plain - 1).max() < 1e-9


def test_what_rounding_hides_again_is_an_error():
    """Light rows show both parameters, then heavy ones show one, 1e14 times stronger."""
    rows = np.concatenate([np.eye(2), np.tile([[1e14, 1e14]], (300, 1))])
    with pytest.raises(NumericalFailure, match="rounding hides what earlier steps showed"):
        every_step(rows, np.arange(1, 303), 1)

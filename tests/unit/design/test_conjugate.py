"""What prices allow at most, of readings that share a level: a bound from any levels."""

import numpy as np
import pytest

from privest.design import _oracle as oracle
from privest.design._problem import Problem

GRID = np.concatenate([[0.0], np.geomspace(1e-8, 1e8, 20_001)])


def sharing(seed):
    """Three groups of readings with and without noise, one of them with a cap."""
    rng = np.random.default_rng(seed)
    atom = np.repeat(np.arange(3), 4)
    variance = rng.choice([0.0, 1e-4, 0.3, 2.0], 12)
    q = rng.exponential(size=12)
    problem = Problem(
        np.ones((12, 1)),
        variance,
        np.ones(3),
        np.array([np.inf, rng.uniform(0.1, 3), np.inf]),
        atom,
    )
    exact = np.bincount(atom, np.where(variance == 0, q, 0.0))
    return problem, q, exact + rng.uniform(0.01, 0.7, 3) * np.bincount(atom, q)


def highest(problem, q, prices):
    """The maximum on a fine grid: never above the true one."""
    s = np.minimum(GRID[:, None], problem.cap)
    x = s[:, problem.atom] / (1 + problem.variance * s[:, problem.atom])
    gained = np.stack([(q * x)[:, problem.atom == g].sum(axis=1) for g in range(3)], axis=1)
    return float((gained - prices * s).max(axis=0).sum())


@pytest.mark.parametrize("seed", range(40))
def test_a_bound_from_any_levels_that_is_the_maximum_at_the_best(seed):
    problem, q, prices = sharing(seed)
    best = highest(problem, q, prices)
    found = oracle.conjugate(problem, q, prices)
    spacing = (GRID[2] / GRID[1] - 1) ** 2  # to second order of the distance to a point of the grid
    assert best * (1 - 1e-12) - 1e-12 <= found <= best + 2 * spacing * float(q.sum() + best) + 1e-12
    s = oracle.levels_at(problem, q, prices)
    for factor in (0.5, 0.99, 1.01, 3.0):
        off = np.minimum(s * factor, problem.cap)
        assert oracle._group_conjugate(problem, q, prices, off) >= found * (1 - 1e-12)


def test_exact_readings_that_are_worth_more_than_they_cost_have_no_bound():
    problem = Problem(np.ones((2, 1)), np.array([0.0, 1.0]), np.ones(1), np.array([np.inf]),
                      np.array([0, 0]))  # fmt: skip
    q = np.array([2.0, 3.0])
    assert oracle.conjugate(problem, q, np.array([1.9])) == np.inf
    # At their own worth the others have what they have without an end: Σ q/v.
    assert oracle.conjugate(problem, q, np.array([2.0])) == pytest.approx(3.0)

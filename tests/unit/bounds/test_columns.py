"""One budget over several columns: against numeric optima, dense formulas and Monte Carlo."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy

import privest as pv
from privest.bounds import informed_errors, split_budget
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import Along, OneRecord, PrivacyLevel, grid_statement, level_on_grid
from strategies import psd_matrix

UNITS = np.array([1.0, 10.0, 0.3])


def test_the_split_is_the_numeric_optimum():
    """minimise tr ΩS⁻¹ as a semidefinite program. Clarabel solves to about 1e-8."""
    for seed in range(3):
        weight = psd_matrix(np.random.default_rng(seed), 3)
        S = cp.Variable((3, 3), PSD=True)
        root = np.linalg.cholesky(weight)
        inner = cp.matrix_frac(root, S)  # tr RᵀS⁻¹R
        budget = cp.trace(np.diag(UNITS**2) @ S)
        problem = cp.Problem(cp.Minimize(inner), [budget <= 2.0])
        problem.solve(solver=cp.CLARABEL)
        found = split_budget(2.0, UNITS, weight)
        assert found.loss == pytest.approx(problem.value, rel=1e-5)
        assert found.loss == pytest.approx(np.trace(weight @ np.linalg.inv(found.level)), rel=1e-9)
        assert np.trace(np.diag(UNITS**2) @ found.level) == pytest.approx(2.0, rel=1e-12)


def test_a_diagonal_weight_is_the_same_matrix():
    weight = np.array([1.0, 0.2, 4.0])
    by_vector, by_matrix = (
        split_budget(2.0, UNITS, weight),
        split_budget(2.0, UNITS, np.diag(weight)),
    )
    assert np.allclose(np.diag(by_vector.level), by_matrix.level, rtol=1e-12, atol=1e-15)
    assert by_vector.loss == pytest.approx(by_matrix.loss, rel=1e-12)


def test_without_a_weight_errors_count_in_the_units():
    plain, stated = split_budget(3.0, UNITS), split_budget(3.0, UNITS, 1 / UNITS**2)
    assert np.allclose(plain.level, stated.level, rtol=1e-14)
    assert plain.loss == pytest.approx(stated.loss, rel=1e-14)
    assert np.allclose(plain.level * UNITS**2, 1.0)


def test_no_other_diagonal_split_loses_less():
    weight = np.array([2.0, 0.5, 1.0])
    found = split_budget(1.0, UNITS, weight)

    def loss(logits):
        part = scipy.special.softmax(logits) / UNITS**2
        return float((weight / part).sum())

    best = scipy.optimize.minimize(loss, np.zeros(3), tol=1e-12)
    assert found.loss == pytest.approx(best.fun, rel=1e-8)
    assert found.loss <= best.fun * (1 + 1e-12)


def test_a_column_that_nobody_asks_for_is_never_shown():
    assert split_budget(1.0, [1.0, 2.0], [0.0, 1.0]).level.tolist() == [0.0, 0.25]


@pytest.mark.parametrize("units", [[], [1.0, 0.0], [1.0, -2.0], [[1.0]], [np.nan]])
def test_units_that_are_none_are_refused(units):
    with pytest.raises(InvalidInput):
        split_budget(1.0, units)


@pytest.mark.parametrize(
    ("budget", "units", "weight"),
    [
        (1.0, [1e300, 1e300], None),  # gave the level 0
        (1.0, [1e-300, 1.0], None),  # gave inf
        (1e300, [1e-100, 1.0], None),
        (1e-300, [1.0, 1e10], None),
        (1.0, [1.0, 2.0], [1e-310, 1.0]),
        (1.0, [1.0, 2.0], [[1e300, 0.0], [0.0, 1.0]]),
    ],
)
def test_a_level_beyond_the_doubles_is_refused(budget, units, weight):
    with pytest.raises(InvalidInput, match="other units"):
        split_budget(budget, units, weight)


@pytest.mark.parametrize("weight", [None, [1e-50, 1e50], [[1e-50, 0.0], [0.0, 1e50]]])
def test_every_level_of_a_split_is_a_number(weight):
    found = split_budget(1e-50, [1e-50, 1e50], weight)
    shown = found.level if found.level.ndim == 1 else np.diagonal(found.level)
    assert (shown > 0).all()
    assert np.isfinite(shown).all()
    assert np.isfinite(found.loss)


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0], [0.0, 0.0], np.zeros((2, 2)), -np.eye(2)])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises(InvalidInput):
        split_budget(1.0, [1.0, 2.0], weight)


# --- what other columns tell ----------------------------------------------------------------------


def test_what_columns_tell_of_each_other_is_the_dense_formula():
    rng = np.random.default_rng(0)
    for q in (1, 2, 5):
        sigma, level = psd_matrix(rng, q), psd_matrix(rng, q)
        dense = np.sqrt(np.diag(np.linalg.inv(np.linalg.inv(sigma) + level)))
        assert np.allclose(informed_errors(sigma, level), dense, rtol=1e-8)


def test_a_singular_covariance_is_its_limit():
    """Twins: both columns are one number, seen twice: the level is 2s. 1e-9 for the limit."""
    twins = np.ones((2, 2))
    alone = 1 / np.sqrt(2 * 0.5 + 1)
    assert np.allclose(informed_errors(twins, [0.5, 0.5]), alone, rtol=1e-12)
    near = informed_errors(twins + 1e-9 * np.eye(2), [0.5, 0.5])
    assert np.allclose(informed_errors(twins, [0.5, 0.5]), near, rtol=1e-8)


def test_an_attacker_who_regresses_gets_there():
    """Best linear guess of column 1 from all of z, by simulation.

    10⁵ draws: a variance has relative error √(2/10⁵) = .0045; five of them.
    """
    rng, q, K = np.random.default_rng(1), 3, 100_000
    sigma, s = 0.1 * np.eye(q) + 0.9, np.array([1.0, 0.5, 2.0])
    y = rng.multivariate_normal(np.zeros(q), sigma, K)
    z = y + rng.normal(size=(K, q)) / np.sqrt(s)
    guess = z @ np.linalg.lstsq(z, y, rcond=None)[0]
    assert np.allclose(np.var(y - guess, axis=0), informed_errors(sigma, s) ** 2, rtol=0.0225)


def test_other_columns_only_help():
    rng = np.random.default_rng(2)
    sigma, s = psd_matrix(rng, 4), rng.uniform(0.1, 3, 4)
    alone = 1 / np.sqrt(s + 1 / np.diag(sigma))
    assert (informed_errors(sigma, s) <= alone * (1 + 1e-12)).all()


# --- differential privacy for a whole record ------------------------------------------------------


def test_the_budget_in_ranges_is_that_of_a_replaced_record():
    level = PrivacyLevel(split_budget(2.5, UNITS).level)
    assert level.to_mu(move=OneRecord(UNITS)) ** 2 == pytest.approx(2.5, rel=1e-12)


def test_the_corner_is_the_worst_of_the_box():
    rng, level = np.random.default_rng(3), PrivacyLevel([0.7, 2.0, 0.1])
    most = level.to_mu(move=OneRecord(UNITS))
    corners = [Along(UNITS * signs) for signs in itertools.product((-1.0, 1.0), repeat=3)]
    assert {round(level.to_mu(move=v), 12) for v in corners} == {round(most, 12)}
    inside = [Along(UNITS * rng.uniform(-1, 1, 3)) for _ in range(50)]
    assert all(level.to_mu(move=v) <= most for v in inside)


def test_on_the_grid_every_column_moves_by_whole_steps():
    level, said = PrivacyLevel([4.0, 1.0]), grid_statement([4.0, 1.0], move=OneRecord((0.3, 0.3)))
    steps = [int(np.ceil(0.6 / GRID)), int(np.ceil(0.3 / GRID))]
    assert said.squared_steps == sum(n * n for n in steps)
    assert said.mu >= level.to_mu(move=OneRecord((0.3, 0.3)))
    assert "all readings of one record" in said.about
    assert said.conditions


def test_the_level_of_an_epsilon_keeps_it_for_the_record():
    shape = PrivacyLevel(split_budget(1.0, UNITS).level)
    level = level_on_grid(1.0, delta=1e-6, move=OneRecord(UNITS), shape=shape)
    said = grid_statement(level, move=OneRecord(UNITS), delta=1e-6)
    assert 0.98 < said.epsilon <= 1.0


def test_a_record_of_another_size_or_a_mixing_level_is_refused():
    for level in (PrivacyLevel([1.0, 2.0]), PrivacyLevel([[2.0, 1, 0], [1, 2, 0], [0, 0, 1]])):
        with pytest.raises(InvalidInput, match="reading"):
            level.to_mu(move=OneRecord(UNITS))
    with pytest.raises(InvalidInput, match="record"):
        grid_statement(pv.EndlessLevel(1.0), move=OneRecord((1.0,)))
    for bad in ((), (0.0,), (np.inf,), (-1.0,)):
        with pytest.raises(InvalidInput):
            OneRecord(bad)

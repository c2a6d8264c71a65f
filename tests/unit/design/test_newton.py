"""The Newton engine: every criterion, limit and noise, both directions, by its certificate."""

from dataclasses import replace

import numpy as np
import pytest
import scipy

from privest.design import _newton
from privest.design._certificate import budget_floor, relative_gap, target_floor
from privest.design._newton._curves import Curves, Determinant, Traces
from privest.design._newton._loewner import Loewner
from privest.design._newton._system import System
from privest.design._newton._unit import unit_of
from privest.design._problem import Problem
from privest.design._scaled import Largest, Least, LogDet, Trace

CRITERIA = ["A", "rank 2", "c", "D", "E", "T"]
LIMITS = ["budget", "costs", "caps", "groups", "persons"]
NOISE = ["uneven", "small", "none", "some none"]
TOL = 1e-6


def problem_of(rng, limits, noise, readings=None):
    """Rows, noise and limits; the caps, groups and persons bind at levels of about 1."""
    K, n = readings or int(rng.integers(20, 50)), int(rng.integers(2, 6))
    rows = rng.standard_normal((K, n))
    variance = {
        "uneven": rng.uniform(0.1, 2.0, K),
        "small": np.full(K, 1e-4),
        "none": np.zeros(K),
        "some none": rng.uniform(0.1, 2.0, K) * (rng.random(K) < 0.5),
    }[noise]
    cost, cap = np.ones(K), np.full(K, np.inf)
    if limits != "budget":
        cost = rng.uniform(0.5, 2.0, K)
    if limits == "caps":
        cap = rng.uniform(0.5, 3.0, K)
    if limits == "groups":
        g = K // 3
        atom = np.concatenate([np.arange(g), rng.integers(0, g, K - g)])
        cap = np.where(rng.random(g) < 0.3, rng.uniform(1.0, 3.0, g), np.inf)
        return Problem(rows, variance, rng.uniform(1.0, 4.0, g), cap, atom)
    if limits == "persons":
        person = rng.integers(0, K // 5, K)
        most = rng.uniform(3.0, 10.0, K // 5)
        return Problem(rows, variance, cost, cap, None, person, rng.uniform(0.5, 2.0, K), most)
    return Problem(rows, variance, cost, cap)


def criterion_of(rng, name, n):
    return {
        "A": lambda: Trace(np.diag(rng.uniform(0.5, 2.0, n))),
        "rank 2": lambda: Trace(rng.standard_normal((n, 2))),
        "c": lambda: Trace(rng.standard_normal((n, 1))),
        "D": LogDet,
        "E": lambda: Least(np.diag(rng.uniform(0.5, 2.0, n))),
        "T": lambda: Largest(np.eye(n) * rng.uniform(0.5, 2.0, n)),
    }[name]()


def proved(problem, criterion, point, *, budget=None, target=None):
    """The value (or cost) of the levels, made feasible, and the gap that is proved."""
    if budget is not None:
        levels = problem.within(point.levels, budget)
        value = criterion.value(problem.information(levels))
        floor = budget_floor(problem, criterion, budget, levels, point.weights, point.prices).floor
        return value, relative_gap(criterion, value, floor)
    levels = problem.feasible(point.levels)
    proof = target_floor(problem, criterion, target, levels, point.weights, point.prices)
    spent = problem.spent(levels)
    return criterion.value(problem.information(levels)), 1.0 - proof.floor / spent


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("limits", LIMITS)
def test_every_cell_is_solved_both_ways(name, limits):
    rng = np.random.default_rng([CRITERIA.index(name), LIMITS.index(limits)])
    for noise in NOISE:
        problem = problem_of(rng, limits, noise)
        criterion = criterion_of(rng, name, problem.parameters)
        budget = problem.atoms * rng.choice([0.3, 1.0, 4.0])
        point = _newton.solve_budget(problem, criterion, budget, TOL)
        value, gap = proved(problem, criterion, point, budget=budget)
        assert -1e-12 <= gap <= TOL
        assert point.steps <= 25
        target = value + 0.4 if criterion.logarithm else 1.4 * value
        back = _newton.solve_target(problem, criterion, target, TOL)
        reached, gap = proved(problem, criterion, back, target=target)
        # The levels miss or exceed the target a little, and what they cost by as much; a log det
        # of n parameters changes n times as fast as the cost.
        n = problem.parameters if criterion.logarithm else 1
        short = reached - target if criterion.logarithm else reached / target - 1.0
        assert abs(short) <= 10 * TOL * n
        assert -1e-12 - 10 * abs(short) <= gap <= TOL + 10 * abs(short)
        assert back.steps <= 25


@pytest.mark.parametrize("name", ["A", "D", "c"])
def test_prices_are_the_slopes_where_levels_are_inside(name):
    """Stationarity: x′q = price for 0 < s < cap, ≤ at zero, ≥ at the cap."""
    rng = np.random.default_rng(5)
    problem = problem_of(rng, "caps", "uneven")
    criterion = criterion_of(rng, name, problem.parameters)
    point = _newton.solve_budget(problem, criterion, 20.0, 1e-10)
    s, prices = point.levels, point.prices.of(problem)
    q = problem.squares(criterion.witness(problem.information(s)).factor)
    slope = q / (1.0 + problem.variance * s) ** 2
    zero, full = s < 1e-6, s > problem.cap * (1 - 1e-6)
    inside = ~zero & ~full
    assert inside.any()
    np.testing.assert_allclose(slope[inside], prices[inside], rtol=1e-4)
    assert (slope[zero] <= prices[zero] * (1 + 1e-4)).all()
    assert (slope[full] >= prices[full] * (1 - 1e-4)).all()
    assert problem.spent(s) == pytest.approx(20.0, rel=1e-8)


@pytest.mark.parametrize("name", CRITERIA)
def test_no_levels_on_a_grid_are_better(name):
    """Three readings, two parameters: all ways of spending a budget, to one part in 60."""
    rng = np.random.default_rng(8)
    problem = Problem(
        rng.standard_normal((3, 2)), np.array([0.5, 0.0, 1.0]), np.array([1.0, 2.0, 0.7]),
        np.array([np.inf, 0.8, np.inf]),
    )  # fmt: skip
    criterion = criterion_of(rng, name, 2)
    point = _newton.solve_budget(problem, criterion, 3.0, TOL)
    found, _ = proved(problem, criterion, point, budget=3.0)
    parts = np.linspace(0.0, 1.0, 61)
    first, second = (part.ravel() for part in np.meshgrid(parts, parts))
    kept = first + second <= 1.0
    spends = 3.0 * np.stack([first, second, 1.0 - first - second], axis=1)[kept]
    levels = np.minimum(spends / problem.cost, problem.cap)
    x = levels / (1.0 + problem.variance * levels)
    grams = np.einsum("ki,gk,kj->gij", problem.rows, x, problem.rows)
    values = np.array([criterion.value(M) for M in grams[np.linalg.det(grams) > 1e-12]])
    best = values.min()
    assert found <= best + TOL * max(abs(best), 1.0)
    assert found >= best - 1e-2 * max(abs(best), 1.0)  # the grid's step is 1/60


def test_several_targets_within_a_budget_meet_together():
    """Where the notes' method by roots failed: persons, hardly any noise."""
    for seed in range(8):
        rng = np.random.default_rng([17, seed])
        problem = problem_of(rng, "persons", "small")
        criterion = criterion_of(rng, "T", problem.parameters)
        point = _newton.solve_budget(problem, criterion, float(problem.readings), TOL)
        _, gap = proved(problem, criterion, point, budget=float(problem.readings))
        assert gap <= TOL
        assert point.weights.sum() == pytest.approx(1.0)
        each = criterion.each(problem.information(point.levels))
        assert each[point.weights > 1e-3].min() >= each.max() * (1 - 1e-2)


@pytest.mark.parametrize("name", CRITERIA)
def test_heavy_tails_without_noise(name):
    rng = np.random.default_rng(31)
    rows = rng.standard_t(2.0, (3000, 4))
    root = np.linalg.cholesky(rows.T @ rows / 3000)
    rows = scipy.linalg.solve_triangular(root, rows.T, lower=True).T
    problem = Problem(rows, np.zeros(3000), np.ones(3000), np.full(3000, np.inf))
    criterion = criterion_of(rng, name, 4)
    point = _newton.solve_budget(problem, criterion, 3000.0, TOL)
    assert proved(problem, criterion, point, budget=3000.0)[1] <= TOL
    assert point.steps <= 40


@pytest.mark.parametrize("name", ["A", "E"])
def test_atoms_that_cannot_matter_get_no_level(name):
    rng = np.random.default_rng(2)
    problem = problem_of(rng, "costs", "uneven")
    rows, cap = problem.rows.copy(), problem.cap.copy()
    rows[3], cap[5] = 0.0, 0.0
    criterion = criterion_of(rng, name, problem.parameters)
    problem = replace(problem, rows=rows, cap=cap)
    point = _newton.solve_budget(problem, criterion, 10.0, TOL)
    assert point.levels[3] == point.levels[5] == 0.0
    assert proved(problem, criterion, point, budget=10.0)[1] <= TOL


def test_what_no_level_shows_is_no_error_of_the_engine():
    """The doors refuse such problems; an engine returns what it began with, never a traceback."""
    problem = Problem(np.eye(2)[[0, 0]], np.ones(2), np.ones(2), np.full(2, np.inf))
    for criterion in (Trace(np.eye(2)), LogDet(), Least(np.eye(2)), Largest(np.eye(2))):
        point = _newton.solve_budget(problem, criterion, 1.0, TOL)
        assert np.isfinite(point.levels).all()
        assert np.isinf(criterion.value(problem.information(point.levels)))


def test_more_budget_than_the_limits_can_spend():
    rng = np.random.default_rng(4)
    capped = problem_of(rng, "caps", "uneven")
    point = _newton.solve_budget(capped, LogDet(), 2.0 * capped.spent(capped.cap), TOL)
    np.testing.assert_allclose(point.levels, capped.cap, rtol=1e-3)
    shared = problem_of(rng, "persons", "small")
    shared = replace(shared, cap=rng.choice([0.1, 1.0, np.inf], shared.atoms))
    criterion = criterion_of(rng, "T", shared.parameters)
    point = _newton.solve_budget(shared, criterion, 1e4, TOL)
    assert proved(shared, criterion, point, budget=1e4)[1] <= TOL


def test_a_multiple_of_levels_lowers_none():
    rng = np.random.default_rng(6)
    problem = replace(
        problem_of(rng, "persons", "uneven", 40), cap=rng.choice([0.3, 1.0, np.inf], 40)
    )
    levels = problem.feasible(rng.exponential(1.0, 40))
    for factor in (1.0, 1.5, 1e3):
        raised = problem.times(levels, factor)
        assert (raised >= levels).all()
        assert (raised <= problem.cap).all()
        used = problem.per_person(problem.share * raised)
        assert (used <= problem.most * (1 + 1e-12)).all()
    np.testing.assert_allclose(problem.times(levels, 0.5), levels / 2)


# The parts, each by a route of its own.


@pytest.mark.parametrize("case", ["full", "rank 2", "one", "five of four", "determinant"])
def test_slopes_and_features_are_those_of_the_function(case):
    """Against differences along a random direction D: the first to 1e-7, the second to 1e-4."""
    rng = np.random.default_rng(7)
    n = 4
    root = rng.standard_normal((n, n))
    M = root @ root.T + np.eye(n)
    shape = {
        "full": lambda: Traces([rng.standard_normal((n, n))]),
        "rank 2": lambda: Traces([rng.standard_normal((n, 2))]),
        "one": lambda: Traces([rng.standard_normal((n, 1))]),
        "five of four": lambda: Traces([rng.standard_normal((n, 1)) for _ in range(5)]),
        "determinant": lambda: Determinant(0.7),
    }[case]()
    weights = rng.uniform(0.5, 2.0, shape.size)
    rows, parts = rng.standard_normal((6, n)), rng.standard_normal(6)
    D = (rows.T * parts) @ rows
    near = shape.near(M, weights)
    values, gradients, features = (
        near.values,
        np.empty((shape.size, 6)),
        np.empty((near.features, 6)),
    )
    near.fill(rows, gradients, features)
    np.testing.assert_allclose(values, shape.values(M))
    step = 1e-4
    up, down = shape.values(M + step * D), shape.values(M - step * D)
    np.testing.assert_allclose(gradients @ parts, (up - down) / (2 * step), rtol=1e-5)
    second = weights @ (up - 2 * values + down) / step**2
    assert np.sum((features @ parts) ** 2) == pytest.approx(-second, rel=1e-4)
    if case == "one":
        assert near.features == n - 1


def test_the_matrix_side_solves_its_linear_equations():
    """HKM: (V + dV)(Z + dZ) = μI to first order, in the symmetrised form."""
    rng = np.random.default_rng(9)
    n = 3
    Z, V = (a @ a.T + np.eye(n) for a in rng.standard_normal((2, n, n)))
    side = Loewner(np.eye(n), Z, V, 5.0, 2.0)
    side.expand(rng.standard_normal((4, n)), np.ones(4), Z + 0.3 * np.eye(n), 0.3)
    assert side.infeasible(side) == pytest.approx(0.0, abs=1e-12)
    change = rng.standard_normal((n, n))
    change = change + change.T
    seen = side.basis.T @ change @ side.basis
    solved = side.roots * np.concatenate([np.diagonal(seen), seen[side.pairs]])
    moves = side.move(solved, 0.1, 0.0)
    dual = side.basis @ moves[1] @ side.basis.T
    inverse = np.linalg.inv(Z)
    both = V @ change @ inverse
    np.testing.assert_allclose(dual, 0.2 * inverse - V - (both + both.T) / 2, atol=1e-10)
    ahead = side.moved(moves, 1.0, 1.0)
    np.testing.assert_allclose(ahead.slack, Z + change, atol=1e-10)
    assert ahead.gap == pytest.approx(side.gap_after(moves, 1.0, 1.0))


@pytest.mark.parametrize("with_persons", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_the_linear_system_is_that_of_the_dense_matrix(with_persons, free):
    rng = np.random.default_rng(10)
    problem = problem_of(rng, "persons" if with_persons else "costs", "uneven", 30)
    unit = unit_of(problem, 1.0)
    g, c = unit.atoms, 4
    D, N, E = rng.uniform(0.1, 2.0, g), rng.standard_normal((g, c)), rng.uniform(0.1, 1.0, c)
    b = rng.standard_normal(c) if free else None
    p = len(unit.most) if with_persons else 0
    F = rng.uniform(0.1, 1.0, p) if with_persons else None
    A = unit.by.toarray().T if with_persons else np.zeros((g, 0))
    t = 1 if free else 0
    column = np.zeros((c, t)) if b is None else b[:, None]
    dense = np.block([
        [np.diag(D), N, np.zeros((g, t)), A],
        [N.T, -np.diag(E), -column, np.zeros((c, p))],
        [np.zeros((t, g)), -column.T, np.zeros((t, t + p))],
        [A.T, np.zeros((p, c + t)), -np.diag(np.ones(0) if F is None else F)],
    ])  # fmt: skip
    right = rng.standard_normal(len(dense))
    tau = float(right[g + c]) if free else 0.0
    step = System(unit, D, N, E, b, F).solve(
        right[:g], right[g : g + c], tau, right[g + c + t :] if with_persons else None
    )
    wanted = np.linalg.solve(dense, right)
    np.testing.assert_allclose(step.atoms, wanted[:g], atol=1e-9)
    np.testing.assert_allclose(step.solved, wanted[g : g + c], atol=1e-9)
    if free:
        assert step.goal == pytest.approx(wanted[g + c], rel=1e-8)
    if with_persons:
        np.testing.assert_allclose(step.persons, wanted[g + c + t :], atol=1e-9)


def test_a_side_knows_what_it_lacks():
    shape = Traces([np.eye(2)])
    side = Curves(shape, np.array([0.5]), np.array([2.0]), 3.0, 1.0)
    side.expand(np.eye(2), np.ones(2), 2.0 * np.eye(2), 0.25)  # g = 1/tr M⁻¹ = 1
    assert side.residual[0] == pytest.approx(1.0 - 0.25 - 0.5)
    assert side.missing == 1.0
    assert side.gap == 1.0

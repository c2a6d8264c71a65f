"""The engine for many readings: every kind of rows and regime to a certified gap of 1e-6."""

import numpy as np
import pytest

import privest as pv
from privest import design
from privest.design import _dual
from privest.design._certificate import budget_floor, relative_gap, target_floor
from privest.design._constraints import posed
from privest.design._dual import _passes, _target
from privest.design._dual._filling import fill
from privest.design._dual._forms import form_of
from privest.design._oracle import budget_prices, levels_at

TOL = 1e-6
ROWS = ("normal", "heavy", "clusters", "collinear")
CRITERIA = {"A": pv.design.A(), "D": pv.design.D(), "E": pv.design.E()}


def rows_of(kind, count, n, seed=0):
    """Rows as in benchmarks/bench_design.py."""
    rng = np.random.default_rng(seed)
    if kind == "heavy":
        return rng.standard_t(2, size=(count, n))
    rows = rng.normal(size=(count, n))
    if kind == "clusters":
        return rng.normal(size=(30, n))[rng.integers(0, 30, count)] + 1e-3 * rows
    if kind == "collinear":
        rows[:, -1] = rows[:, 0] + 1e-3 * rows[:, -1]
    return rows


def given(rows, v, criterion, **limits):
    named = {"cost": 1.0, "cap": np.inf, "groups": None, "persons": None} | limits
    return posed(pv.LinearModel(rows, noise=v), criterion, **named).in_units(1.0)


def proved_gap(asked, budget, point):
    """By the certificate of the room, which knows nothing of the engine."""
    problem, criterion = asked.problem, asked.criterion
    levels = problem.within(point.levels, budget)
    assert problem.spent(levels) <= budget * (1 + 1e-14)
    proof = budget_floor(problem, criterion, budget, levels, point.weights, point.prices)
    return relative_gap(criterion, criterion.value(problem.information(levels)), proof.floor)


@pytest.mark.parametrize("criterion", ["A", "D", "E", "c"])
@pytest.mark.parametrize("v", [10.0, 1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("kind", ROWS)
def test_every_regime_closes_the_gap(kind, v, criterion):
    count, n = 6_000, 4
    chosen = pv.design.C(np.eye(n)[0]) if criterion == "c" else CRITERIA[criterion]
    asked = given(rows_of(kind, count, n), v, chosen)
    point = _dual.solve_budget(asked.problem, asked.criterion, float(count), TOL)
    assert -1e-12 <= proved_gap(asked, float(count), point) <= TOL


@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("v", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("kind", ROWS)
def test_the_least_cost_of_an_accuracy(kind, v, criterion):
    count = 6_000
    asked = given(rows_of(kind, count, 4), v, CRITERIA[criterion])
    problem, scaled = asked.problem, asked.criterion
    target = scaled.value(problem.information(np.ones(count)))
    point, closed = _target.solve_target(problem, scaled, target, TOL)
    assert closed
    value = scaled.value(problem.information(point.levels))
    floor = target_floor(problem, scaled, target, point.levels, point.weights, point.prices).floor
    # A miss of f by this changes the cost by NEAR of itself at most, along a line to NEAR².
    slope = point.prices.budget * scaled.per_unit(scaled.witness(None, point.weights), value)
    cost = problem.spent(point.levels) + (value - target) / slope
    assert abs(value - target) / slope <= _target.NEAR * cost
    assert -(_target.NEAR**2) <= (cost - floor) / cost <= TOL + _target.NEAR**2


@pytest.mark.parametrize("criterion", ["A", "D", "E"])
def test_twenty_parameters_with_costs_and_caps(criterion):
    rng = np.random.default_rng(5)
    rows, count = rows_of("heavy", 6_000, 20), 6_000
    limits = {"cost": rng.uniform(0.2, 3.0, count), "cap": rng.uniform(0.5, 30.0, count)}
    asked = given(rows, rng.uniform(1e-4, 1.0, count), CRITERIA[criterion], **limits)
    budget = 0.5 * float(asked.problem.cost.sum())
    point = _dual.solve_budget(asked.problem, asked.criterion, budget, TOL)
    assert (point.levels <= asked.problem.cap).all()
    assert np.isclose(point.levels, asked.problem.cap).any()
    assert -1e-12 <= proved_gap(asked, budget, point) <= TOL


@pytest.mark.parametrize("criterion", ["A", "D"])
def test_exact_readings(criterion):
    """v = 0, the classical design problem: smoothing falls until the gap is closed."""
    asked = given(rows_of("normal", 5_000, 4), 1.0, CRITERIA[criterion])
    problem = asked.problem.__class__(
        asked.problem.rows, np.zeros(5_000), asked.problem.cost, asked.problem.cap
    )
    point = _dual.solve_budget(problem, asked.criterion, 5_000.0, TOL)
    levels = problem.within(point.levels, 5_000.0)
    proof = budget_floor(problem, asked.criterion, 5_000.0, levels, point.weights, point.prices)
    value = asked.criterion.value(problem.information(levels))
    assert relative_gap(asked.criterion, value, proof.floor) <= TOL


@pytest.mark.parametrize("criterion", ["A", "D", "E", "rank 2"])
def test_gradient_and_matrix_are_the_derivatives_of_the_dual(criterion):
    """Central differences of φ(q) minus the rest: h² truncation, EPS/h² rounding, h = 1e-4."""
    rng = np.random.default_rng(2)
    chosen = (
        pv.design.A(np.diag([1.0, 2.0, 0.0, 0.0])) if criterion == "rank 2" else CRITERIA[criterion]
    )
    asked = given(rng.normal(size=(400, 4)), rng.uniform(0.5, 2.0, 400), chosen)
    problem, budget, h = asked.problem, 200.0, 1e-4
    form = form_of(asked.criterion, problem.information(np.ones(400)))
    q = problem.squares(form.factor)
    filling = fill(problem, q, budget)
    M = _passes.information(problem, filling)
    gradient = form.gradient(M)
    matrix = _passes.newton_matrix(problem, form, q, filling, 0)
    matrix[:-1, :-1] += form.curvature(M, 0.0)
    reduced = matrix[:-1, :-1] - np.outer(matrix[:-1, -1], matrix[-1, :-1]) / matrix[-1, -1]
    step = rng.normal(size=len(gradient)) * 0.1
    line = form.line(step)
    (ahead,) = problem.products(line.first)
    square = 0.0 if line.second is None else problem.products(line.second)[0]

    def slope(t):
        moved = fill(problem, q + t * ahead + t * t * square, budget)
        s = moved.all_levels(problem)
        x = s / (1 + problem.variance * s)
        return float(x @ (ahead + 2 * t * square)) - line.gain(t)

    assert gradient @ step == pytest.approx(slope(0.0), rel=1e-9, abs=1e-12)
    assert step @ reduced @ step == pytest.approx((slope(h) - slope(-h)) / (2 * h), rel=1e-5)
    assert np.allclose(problem.squares(line.at(0.5).factor), q + 0.5 * ahead + 0.25 * square)


def test_filling_is_the_oracle():
    rng = np.random.default_rng(3)
    limits = {"cost": rng.uniform(0.2, 3.0, 300), "cap": rng.uniform(0.5, 30.0, 300)}
    problem = given(
        rng.normal(size=(300, 3)), rng.uniform(0.1, 1.0, 300), pv.design.A(), **limits
    ).problem
    q = problem.squares(np.eye(3))
    for budget in (1.0, 50.0, 500.0):
        for start in (None, 1e-6, 1e6):
            found = fill(problem, q, budget, start)
            prices = budget_prices(problem, q, budget)
            assert found.spent(problem) == pytest.approx(budget, rel=1e-11)
            assert found.prices.budget == pytest.approx(prices.budget, rel=1e-9)
            wanted = levels_at(problem, q, prices.of(problem))
            assert np.allclose(found.all_levels(problem), wanted, rtol=1e-8, atol=1e-9)


def test_a_sample_of_the_readings_is_enough_for_the_matrix(monkeypatch):
    """The gradient is exact, so that sampling can only cost steps."""
    asked = given(rows_of("clusters", 20_000, 6), 1e-2, pv.design.A())
    monkeypatch.setattr(_passes, "WORK", 0.0)
    point = _dual.solve_budget(asked.problem, asked.criterion, 20_000.0, TOL)
    assert -1e-12 <= proved_gap(asked, 20_000.0, point) <= TOL


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("criterion", [design.A(), design.D(), design.C([1.0, 0.0])])
def test_targets_of_many_readings_without_noise(criterion, share):
    """From a budget to its value and back."""
    rng = np.random.default_rng(0)
    noise = np.where(rng.random(2500) < share, 0.0, 1.0)
    model = pv.LinearModel(rng.standard_normal((2500, 2)), noise=noise)
    best = design.allocate(model, 50.0, criterion=criterion)
    found = design.least_loss(model, best.value, criterion=criterion)
    assert found.spent == pytest.approx(50.0, rel=1e-6)
    assert found.gap <= 1e-6


def test_the_worst_direction_takes_the_method_that_closes_it(monkeypatch):
    """With caps and v = 0 the dual runs in vain: it is not asked where Newton fits."""

    def unasked(*given):
        raise AssertionError("the dual method")

    monkeypatch.setattr(_dual, "solve_target", unasked)
    monkeypatch.setattr(_dual.Search, "start", unasked)
    rng = np.random.default_rng(3)
    H, v = rng.standard_normal((2300, 3)), 10.0 ** rng.uniform(-2, 1, 2300)
    v[rng.random(2300) < 0.3] = 0.0
    cap = np.where(rng.random(2300) < 0.5, 10.0 ** rng.uniform(-3, 0, 2300), np.inf)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=v))
    best = design.allocate(model, 30.0, criterion=design.E(), cap=cap)
    back = design.least_loss(model, best.value, criterion=design.E(), cap=cap)
    assert best.certified
    assert back.certified
    assert back.spent == pytest.approx(30.0, rel=1e-5)

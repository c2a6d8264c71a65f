"""`optimality_gap`: the value for a nearly collinear H; a floor that is tight at the best."""

import mpmath
import numpy as np
import pytest

import privest as pv
from privest import design

VARIANCE = 0.7
NAMES = ("a", "b", "c")


def nearly_collinear(apart: float, measurements: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """H whose last two columns are `apart` from each other, and a level for each reading."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, measurements))
    return np.column_stack([np.ones(measurements), a, a + apart * b]), rng.uniform(
        0.5, 2.0, measurements
    )


def exact_covariance(H: np.ndarray, levels: np.ndarray) -> mpmath.matrix:
    """(Σ h hᵀ s/(1 + vs))⁻¹ in 60 digits."""
    with mpmath.workdps(60):
        rows = mpmath.matrix(H.tolist())
        weights = [mpmath.mpf(s) / (1 + mpmath.mpf(VARIANCE) * mpmath.mpf(s)) for s in levels]
        return (rows.T * mpmath.diag(weights) * rows) ** -1


@pytest.mark.parametrize("apart", [1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize("full", [False, True])
def test_the_value_is_right_where_columns_are_nearly_collinear(apart, full):
    H, levels = nearly_collinear(apart)
    exact = exact_covariance(H, levels)
    model = pv.LinearModel(H, noise=VARIANCE)
    given = np.diag(levels) if full else levels
    with mpmath.workdps(60):
        expected = {
            "A": sum(exact[j, j] for j in range(3)),
            "D": mpmath.log(mpmath.det(exact)),
            "E": max(mpmath.eigsy(exact, eigvals_only=True)),
        }
    for criterion, value in expected.items():
        found = design.optimality_gap(model, given, criterion=criterion).value
        assert found == pytest.approx(float(value), rel=1e-15 / apart)


@pytest.mark.parametrize(
    "criterion",
    ["A", [1.0, 0.0, 2.0], "D", "E"],
    ids=["A", "C", "D", "E"],
)
@pytest.mark.parametrize("seed", [2, 5])
def test_the_floor_is_tight_where_the_level_is_best(criterion, seed):
    H = np.random.default_rng(seed).normal(size=(20, 3))
    model = pv.LinearModel(H, noise=1.0, names=NAMES)
    best = design.allocate(model, 10.0, criterion=criterion)
    assert (
        abs(design.optimality_gap(model, best.level, criterion=criterion, budget=10.0).gap) < 1e-6
    )
    least = design.least_loss(model, best.value, criterion=criterion)
    assert (
        abs(design.optimality_gap(model, least.level, criterion=criterion, target=best.value).gap)
        < 1e-6
    )
    worse = design.optimality_gap(model, np.full(20, 0.5), criterion=criterion)
    assert best.floor - 1e-9 < worse.value
    assert worse.floor <= best.value + 1e-9


def test_several_errors_have_the_floor_of_a_design():
    model = pv.LinearModel(np.random.default_rng(2).normal(size=(20, 3)), noise=1.0)
    wanted = 1.2 * pv.bound(model, 0.5).standard_error
    least = design.least_loss(model, wanted)
    proof = design.optimality_gap(model, least.level, target=wanted)
    assert abs(proof.gap) < 1e-6
    assert proof.value == pytest.approx(1.0, rel=1e-9)
    other = design.optimality_gap(model, np.full(20, 0.5), target=wanted)
    assert other.floor <= least.spent * (1 + 1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_a_condition_number_of_1e9_by_the_level_is_not_squared(full):
    """Levels that hide a direction but for 1e-18 of the information: M itself would lose it."""
    rng = np.random.default_rng(6)
    H = rng.normal(size=(20, 3))
    H[:17, 2] = 0.0  # three readings alone show the last parameter
    levels = np.r_[rng.uniform(0.5, 2.0, 17), np.full(3, 1e-18)]
    exact = exact_covariance(H, levels)
    model = pv.LinearModel(H, noise=VARIANCE)
    given = np.diag(levels) if full else levels
    with mpmath.workdps(60):
        expected = {
            "A": sum(exact[j, j] for j in range(3)),
            "D": mpmath.log(mpmath.det(exact)),
            "E": max(mpmath.eigsy(exact, eigvals_only=True)),
        }
    for criterion, value in expected.items():
        found = design.optimality_gap(model, given, criterion=criterion, budget=20.0)
        assert found.value == pytest.approx(float(value), rel=1e-6)
        assert found.floor <= design.allocate(model, 20.0, criterion=criterion).value


def lowest_on_a_grid(h, v, atom, cap, budget):
    """1/Σ h²x of one parameter and two groups of readings, all ways of spending a budget."""
    cost = np.bincount(atom)
    share = np.linspace(0.0, 1.0, 4001)
    levels = np.minimum(np.stack([share, 1 - share], axis=1) * budget / cost, cap)
    s = levels[:, atom]
    return float((1 / ((h**2) * s / (1 + v * s)).sum(axis=1)).min())


@pytest.mark.parametrize("seed", range(10))
def test_groups_of_exact_and_noisy_readings(seed):
    """The trap of a negative gap: at the price of the exact readings the others are free."""
    rng = np.random.default_rng(seed)
    atom = np.repeat([0, 1], 3)
    v = rng.choice([0.0, 1e-4, 0.3, 2.0], 6)
    h, budget = rng.normal(size=6), float(rng.uniform(0.5, 20))
    cap = np.array([rng.choice([0.3, np.inf]), np.inf])
    model = pv.LinearModel(h[:, None], noise=pv.noise.Gaussian(cov=v))
    options = {"groups": atom, "cap": cap[atom]}
    best = lowest_on_a_grid(h, v, atom, cap, budget)
    found = design.allocate(model, budget, **options)
    assert found.floor <= best * (1 + 1e-12)
    assert best * (1 - 1e-3) <= found.value <= best * (1 + 1e-9)  # steps of 1/4000 of the budget
    for level in (found.levels, np.ones(6), rng.uniform(0.1, 3, 2)[atom]):
        proof = design.optimality_gap(model, level, budget=budget, **options)
        assert proof.floor <= best * (1 + 1e-12)
        back = design.optimality_gap(model, level, target=best, **options)
        assert back.floor <= budget * (1 + 1e-9)
    assert proof.floor > 0

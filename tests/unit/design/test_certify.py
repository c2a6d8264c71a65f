"""`certify`: the value for a nearly collinear H; a floor that is tight where a level is best."""

import mpmath
import numpy as np
import pytest

import privest as pv
from privest import design

VARIANCE = 0.7
NAMES = ("a", "b", "c")


def nearly_collinear(apart: float, readings: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """H whose last two columns are `apart` from each other, and a level for each reading."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, readings))
    return np.column_stack([np.ones(readings), a, a + apart * b]), rng.uniform(0.5, 2.0, readings)


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
            design.A: sum(exact[j, j] for j in range(3)),
            design.D: mpmath.log(mpmath.det(exact)),
            design.E: max(mpmath.eigsy(exact, eigvals_only=True)),
        }
    for criterion, value in expected.items():
        found = design.optimality_gap(model, given, criterion()).value
        assert found == pytest.approx(float(value), rel=1e-15 / apart)


@pytest.mark.parametrize(
    "criterion",
    [design.A(), design.C([1.0, 0.0, 2.0]), design.D(), design.E(),
     design.StandardErrors({"a": 1.0, "b": 1.0, "c": 1.0})],
    ids=["A", "C", "D", "E", "errors"],
)  # fmt: skip
@pytest.mark.parametrize("seed", [2, 5])
def test_the_floor_is_tight_where_the_level_is_best(criterion, seed):
    H = np.random.default_rng(seed).normal(size=(20, 3))
    model = pv.LinearModel(H, noise=1.0, names=NAMES)
    best = design.allocate(model, 10.0, criterion=criterion)
    assert abs(design.optimality_gap(model, best.levels, criterion, 10.0).gap) < 1e-6
    least = design.least_loss(model, best.value, criterion=criterion)
    assert abs(design.optimality_gap(model, least.levels, criterion, target=best.value).gap) < 1e-6
    worse = design.optimality_gap(model, np.full(20, 0.5), criterion)
    assert best.floor - 1e-9 < worse.value
    assert worse.floor <= best.value + 1e-9

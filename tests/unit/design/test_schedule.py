"""`design.schedule`: one budget over time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.design import allocate, schedule
from strategies import psd_matrix


def stream(seed, m=12, n=2, v=1.0):
    rng = np.random.default_rng(seed)
    return pv.LinearModel(np.c_[np.ones(m), rng.standard_normal((m, n - 1))], noise=v)


def dense_value(model, levels, g, W):
    """Σ g_k tr WΣ_k by `pv.bound` of the readings up to each k."""
    total = 0.0
    for k in np.flatnonzero(g):
        part = pv.LinearModel(model.matrix[: k + 1], noise=model.inverse_information.diagonal()[0])
        total += g[k] * np.trace(W @ pv.bound(part, levels[: k + 1]).covariance)
    return total


def test_the_value_is_that_of_the_bounds_of_all_prefixes():
    model, W = stream(0), psd_matrix(np.random.default_rng(1), 2)
    worth = 0.9 ** np.arange(12) * (np.arange(12) > 0)
    found = schedule(model, 6.0, estimates=0.9, weight=W)
    # Prefixes with levels of zero at their end are fine for `bound`.
    assert found.value == pytest.approx(dense_value(model, found.levels, worth, W), rel=1e-9)
    assert found.levels.sum() == pytest.approx(6.0, rel=1e-12)
    equal = np.full(12, 0.5)
    assert found.equal == pytest.approx(dense_value(model, equal, worth, W), rel=1e-9)
    assert found.value <= found.equal
    # Its level is that of a stream, and the bound has one entry for each step.
    assert isinstance(found.level, pv.StreamLevel)
    errors = np.trace(W @ found.bound.covariance[1:], axis1=1, axis2=2)
    assert errors @ worth[1:] == pytest.approx(found.value, rel=1e-9)


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-5, 0.01, 1.0, 100.0]))
def test_no_levels_are_below_the_floor(seed, v):
    """Also of levels that nobody searched for; and the floor is as near as it says."""
    rng = np.random.default_rng(seed)
    model = stream(seed, v=v)
    worth = rng.random(12) * (np.arange(12) > 2)
    found = schedule(model, 3.0, estimates=worth)
    assert found.certified
    for _ in range(5):
        levels = rng.dirichlet(np.full(12, rng.choice([0.1, 1.0, 10.0]))) * 3.0 + 1e-12
        value = dense_value(model, levels, worth, np.eye(2))
        assert value >= found.floor * (1 - 1e-9)


def test_the_final_estimate_alone_is_plain_allocation():
    model = stream(3, m=40, n=3, v=0.3)
    found, expected = schedule(model, 8.0, estimates=np.eye(40)[-1]), allocate(model, 8.0)
    assert found.value == pytest.approx(expected.value, rel=2e-6)
    # With one parameter and rows alike equal levels are best.
    alike = schedule(pv.LinearModel(np.ones((10, 1)), noise=2.0), 5.0, estimates=np.eye(10)[-1])
    assert alike.levels == pytest.approx(np.full(10, 0.5))


def test_the_price_is_the_slope_of_the_value():
    model = stream(4)
    values = [schedule(model, budget).value for budget in (2.97, 3.03)]
    # The slope of a convex function over 2%; each value is known to 1e-7.
    assert schedule(model, 3.0).price == pytest.approx((values[0] - values[1]) / 0.06, rel=1e-3)


@pytest.mark.parametrize(("v", "budget"), [(1.0, 50.0), (0.01, 5.0)])
def test_units_decide_nothing(v, budget):
    model = stream(5, m=30, n=3, v=v)
    unit = np.array([1e-4, 1.0, 1e5])
    other = pv.LinearModel(model.matrix / unit * 1e3, noise=v * 1e6)
    plain = schedule(model, budget, estimates=0.95)
    moved = schedule(other, budget / 1e6, estimates=0.95, weight=1 / unit**2)
    assert moved.value == pytest.approx(plain.value, rel=2e-6)
    assert moved.levels * 1e6 == pytest.approx(plain.levels, rel=1e-2, abs=1e-3 * budget)


def test_a_long_stream_of_few_readings_that_show_anything():
    """Levels far below 1/v: Frank-Wolfe alone would need thousands of steps."""
    found = schedule(stream(6, m=400, n=3, v=1e-5), 400.0)
    assert found.gap <= 1e-6
    assert found.support < 40
    assert "Newton" in found.method


def test_in_words():
    words = schedule(pv.LinearModel(np.ones((50, 1)), noise=1.0), 50.0).summary()
    assert "1.413 times as much" in words
    assert "of all estimates" in words


def test_what_is_refused():
    model = stream(7)
    for bad in ([1.0] * 11, np.zeros(12), -np.ones(12), "last", 1.0, 0.0, 1.5, [[1.0]]):
        with pytest.raises(pv.errors.InvalidInput):
            schedule(model, 1.0, estimates=bad)
    with pytest.raises(pv.errors.InvalidInput, match="before measurement 1 "):
        schedule(model, 1.0, estimates=np.ones(12))
    with pytest.raises(pv.errors.InvalidInput, match="budget"):
        schedule(model, 0.0)


@pytest.mark.parametrize("cap", [0.0, np.array([1.0] + [0.0] * 11)])
def test_caps_that_hide_a_parameter(cap):
    """One reading cannot show two parameters: not a matter of rounding."""
    model = pv.LinearModel(np.random.default_rng(9).standard_normal((12, 2)), noise=1.0)
    with pytest.raises(pv.errors.InfeasibleTarget, match="show all of the parameters") as refused:
        schedule(model, 1.0, cap=cap)
    assert refused.value.reason == "hidden"


def test_limits_that_leave_a_part_of_the_budget():
    """Caps that add up to less than the budget: all of them, and one more unit is worth nothing."""
    found = schedule(stream(8), 100.0, cap=2.0)
    assert found.levels == pytest.approx(np.full(12, 2.0))
    assert found.gap <= 1e-12
    assert found.price == pytest.approx(0.0, abs=1e-12)
    assert found.spent == pytest.approx(24.0)


def test_a_stream_of_one_reading():
    one = pv.LinearModel([[2.0]], noise=1.0)
    assert schedule(one, 4.0).value == pytest.approx(1.25 / 4)

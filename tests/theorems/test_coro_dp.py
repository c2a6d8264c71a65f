"""`coro:DP`, as printed and in the tighter trace form; `prop:DP2Fisher`."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import privest as pv
from privest.linalg import loewner
from strategies import RTOL, problems, psd_matrix

budgets = st.floats(-2, 2).map(lambda e: 10.0**e)


def model_of(p):
    return pv.LinearModel(p.H, noise=pv.noise.Gaussian(cov=p.cov))


@given(problems(), budgets)
def test_every_level_with_that_trace_respects_both_floors(p, budget):
    """Any S with tr S = s: Σ_PPCR(S) is above the printed matrix, its trace above the tight one."""
    S = psd_matrix(p.rng, p.m, rank=int(p.rng.integers(p.n, p.m + 1)))
    S *= budget / np.trace(S)
    assume(np.linalg.cond(p.H.T @ S @ p.H) < 1e5)
    floor = pv.bounds.trace_bound(model_of(p), budget=budget)
    private = pv.bound(model_of(p), pv.PrivacyLevel(S)).covariance
    assert loewner(floor.printed, private, rtol=RTOL)
    assert np.trace(private) >= floor.simple_floor * (1 - RTOL)


@given(problems(), budgets)
def test_the_tight_privacy_term_is_between_1_and_n_times_the_printed_one(p, budget):
    floor = pv.bounds.trace_bound(model_of(p), budget=budget)
    base = np.trace(floor.classical)
    ratio = (floor.simple_floor - base) / (floor.printed.trace() - base)
    slack = 1e-9 * (1 + base * budget)  # the differences cancel where privacy costs little
    assert 1 - slack <= ratio <= p.n + p.n * slack


@given(problems(), st.floats(0.05, 5))
def test_metric_dp_is_a_trace_of_k_epsilon_squared(p, epsilon):
    found = pv.bounds.trace_bound(model_of(p), epsilon=epsilon)
    same = pv.bounds.trace_bound(model_of(p), budget=p.m * epsilon**2)
    assert found.simple_floor == pytest.approx(same.simple_floor, rel=1e-12)
    assert found.printed.trace() == pytest.approx(
        np.trace(found.classical + np.linalg.inv(p.H.T @ p.H) / (p.m * epsilon**2)), rel=RTOL
    )


def test_mean_estimation_costs_one_over_k_squared():
    """The remark after the corollary: H_k = 1, privacy term 1/(K²ε²)."""
    for count in (10, 100, 1000):
        model = pv.LinearModel(np.ones((count, 1)), noise=pv.noise.Gaussian(cov=1.0))
        cost = pv.bounds.trace_bound(model, epsilon=0.5).simple_floor - 1 / count
        assert cost == pytest.approx(1 / (count * 0.5) ** 2, rel=1e-9)


def test_vector_readings_count_as_one():
    model = pv.LinearModel(np.eye(6), noise=pv.noise.Gaussian(cov=1.0))
    three = pv.bounds.trace_bound(model, epsilon=1.0, measurements=3)
    assert three.budget == 3.0
    with pytest.raises(pv.errors.InvalidInput, match="divide the 6 rows"):
        pv.bounds.trace_bound(model, epsilon=1.0, measurements=4)


def test_the_corollary_holds_for_any_noise_law():
    """Σ_CR uses the Fisher information, here of a Laplacian, not its variance."""
    H = np.random.default_rng(0).standard_normal((8, 2))
    floor = pv.bounds.trace_bound(pv.LinearModel(H, noise=pv.noise.Laplace(2.0)), budget=5.0)
    assert np.allclose(floor.classical, 4.0 * np.linalg.inv(H.T @ H), rtol=1e-10)

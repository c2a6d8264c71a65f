"""The private filter against statsmodels and the Riccati equation; series by their gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from dynamic_systems import random_system, statsmodels_of
from privest import dynamics


@pytest.mark.parametrize("gaps", [False, True])
def test_an_infinite_level_is_statsmodels_kalman_filter(gaps):
    """S = s·I: V = sR + I instead of sR, a relative change of 1/(s·λmin(R)) = 1e-11."""
    rng = np.random.default_rng(3)
    steps, n, m = 200, 4, 2
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.95)
    _, y = system.sample(steps, rng)
    if gaps:
        y[[5, 6, 50]] = np.nan
    s = 1e11 / np.linalg.eigvalsh(system.R)[0]
    level = pv.StreamLevel.constant(s * np.eye(m))
    missing = np.isnan(y).any(axis=1)
    release = pv.Release(
        0, steps, np.sqrt(s) * y.ravel(), missing if gaps else None, level.fingerprint, True
    )
    found = dynamics.filter(system, release, level=level)
    smoothed = found.smoothed

    theirs = statsmodels_of(system, y).smooth()
    jacobian = 0.5 * m * int((~missing).sum()) * np.log(s)  # z̃ = √s y
    assert float(found.log_likelihood) + jacobian == pytest.approx(theirs.llf, rel=1e-8)
    for ours, other in (
        (found.filtered.value, theirs.filtered_state.T),
        (found.filtered.covariance, theirs.filtered_state_cov.transpose(2, 0, 1)),
        (found.predicted.value, theirs.predicted_state.T[:-1]),
        (found.predicted.covariance, theirs.predicted_state_cov.transpose(2, 0, 1)[:-1]),
        (smoothed.value, theirs.smoothed_state.T),
        (smoothed.covariance, theirs.smoothed_state_cov.transpose(2, 0, 1)),
    ):
        assert np.abs(ours - other).max() < 1e-8 * max(np.abs(other).max(), 1.0)
    ahead = found.forecast(5)
    forecast = statsmodels_of(system, np.concatenate([y, np.full((5, m), np.nan)])).filter()
    mean, P = forecast.predicted_state.T, forecast.predicted_state_cov.transpose(2, 0, 1)
    assert np.abs(ahead.value - mean[steps:-1]).max() < 1e-8 * np.abs(mean).max()
    assert np.abs(ahead.covariance - P[steps:-1]).max() < 1e-8 * np.abs(P).max()


@given(st.integers(0, 10**6), st.booleans())
def test_steady_state_is_where_the_bound_goes(seed, banded):
    rng = np.random.default_rng(seed)
    system = random_system(rng, steps=1, n=3, m=2, radius=0.8)
    level = pv.StreamLevel.constant(0.7 * np.eye(2), lags=[0.4] if banded else [])
    found = pv.bound(system, level, steps=400)
    steady = dynamics.steady_state(system, level)
    for name, k in (("predicted", -1), ("filtered", -1), ("smoothed", 200)):
        own, limit = getattr(found, name)[k], getattr(steady, name)
        assert np.abs(own - limit).max() < 1e-8 * np.abs(limit).max()


def test_series_that_miss_different_steps_go_by_pattern():
    rng = np.random.default_rng(0)
    system = random_system(rng, steps=10, m=1, n=2)
    level = pv.StreamLevel.constant([[1.0]])
    _, y = system.sample(10, rng, trials=4)
    y[0, 3], y[2, 3] = np.nan, np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    with pytest.raises(pv.errors.InvalidInput, match="miss different steps"):
        dynamics.filter(system, release, level=level)
    groups = [(members.tolist(), part) for members, part in release.by_pattern()]
    assert sorted(members for members, _ in groups) == [[0, 2], [1, 3]]
    for _, part in groups:
        dynamics.filter(system, part, level=level)

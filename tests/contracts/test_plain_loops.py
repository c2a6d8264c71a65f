"""Without numba the loops of `dynamics` are plain Python, and give the same numbers to 1e-12."""

import importlib.util

import numpy as np
import pytest

import privest as pv
from dynamic_systems import random_system
from privest import dynamics
from privest.linalg import compiling

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="the extra privest[dynamics] is missing"
)


def close(found, expected):
    size = np.abs(np.nan_to_num(expected, posinf=0.0, neginf=0.0)).max()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * size)


def results(system, level, y):
    """Filter, smoother, predictions, bound and an online filter of the same releases."""
    rng = np.random.default_rng(3)
    release = pv.StreamMechanism(level).simulate(y, rng)
    found = dynamics.filter(system, release)
    ahead, bound = found.forecast(2), pv.bound(system, level, steps=len(y))
    kalman, sizes = dynamics.PrivateKalman(system, level), [system.measurements] * len(y)
    for k in range(len(y)):
        kalman.update(release.part(k, k + 1, sizes))
    smoothed = found.smoothed
    return [
        found.filtered.value, found.filtered.covariance, found.predicted.value,
        found.predicted.covariance, found.innovations, found.log_likelihood,
        smoothed.value, smoothed.covariance,
        ahead.value, ahead.covariance, bound.filtered, bound.smoothed, kalman.value,
        kalman.covariance, np.array(kalman.log_likelihood),
    ]  # fmt: skip


@pytest.mark.parametrize("lags", [[], [0.4]], ids=["plain", "lags"])
@pytest.mark.parametrize("diffuse", [False, True])
def test_states(lags, diffuse, monkeypatch):
    rng = np.random.default_rng(5)
    own = random_system(rng, steps=14, n=3, m=2, radius=0.9)
    system = dynamics.StateSpace(
        own.A, own.C, own.Q, own.R, cov0=own.cov0, diffuse=np.eye(3)[:, :1] if diffuse else None
    )
    level, (_, y) = pv.StreamLevel.constant(np.eye(2), lags=lags), system.sample(14, rng)
    y[5] = np.nan
    expected = results(system, level, y)
    monkeypatch.setattr(compiling, "installed", lambda: False)
    for found, own in zip(results(system, level, y), expected):
        close(found, own)


def test_fits(monkeypatch):
    """The gradient decides where a fit ends: within 1e-4 standard errors, here the same."""
    rng = np.random.default_rng(6)
    release = pv.StreamMechanism(2.0).simulate(rng.standard_normal(25).cumsum(), rng)
    expected = dynamics.fit("level", release)
    monkeypatch.setattr(compiling, "installed", lambda: False)
    found = dynamics.fit("level", release)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-9)
    assert found.value == pytest.approx(expected.value, rel=1e-5, abs=1e-6)

"""Nonlinear systems: exact where they are linear, near the local bound where they nearly are."""

import numpy as np
import pytest
from scipy import stats

import privest as pv
from privest import dynamics
from privest.errors import InvalidInput

A = np.array([[0.9, 0.2], [-0.1, 0.8]])
C = np.array([[1.0, 0.5]])


def linear(**jacobians):
    return dynamics.NonlinearStateSpace(
        lambda x: A @ x, lambda x: C @ x, Q=0.1, R=0.2, mean0=[1.0, -1.0], cov0=0.5, **jacobians
    )


@pytest.mark.parametrize("given", [False, True])
def test_a_linear_one_is_the_kalman_filter(given):
    """Numerical Jacobians are good to 1e-6 by contract, and to about 1e-12 on linear functions."""
    slopes = {"transition_jacobian": lambda x: A, "measurement_jacobian": lambda x: C}
    extended = linear(**(slopes if given else {}))
    system = dynamics.StateSpace(A, C, 0.1, 0.2, [1.0, -1.0], 0.5)
    rng = np.random.default_rng(0)
    level = pv.StreamLevel.constant(2.0)
    _, y = system.sample(12, rng)
    y[3] = np.nan
    release = pv.StreamMechanism(level).simulate(y, rng)
    ours = dynamics.filter(extended, release, level=level, method="extended")
    exact = dynamics.filter(system, release, level=level)
    assert np.abs(ours.filtered.value - exact.filtered.value).max() < 1e-9
    assert np.abs(ours.filtered.covariance - exact.filtered.covariance).max() < 1e-9
    assert np.nanmax(np.abs(ours.innovations - exact.innovations)) < 1e-9
    local = dynamics.local_bound(extended, level, np.zeros((12, 2)))
    assert np.abs(local.filtered - pv.bound(system, level, steps=12).filtered).max() < 1e-9


def test_errors_of_a_pendulum_are_near_its_local_bound():
    """Noise so small that it is nearly linear: squared errors within a χ² interval, + 5 %."""

    def swing(x):
        return np.array([x[0] + 0.1 * x[1], x[1] - 0.1 * np.sin(x[0])])

    extended = dynamics.NonlinearStateSpace(
        swing,
        lambda x: np.array([np.sin(x[0])]),
        Q=1e-8,
        R=1e-4,
        mean0=[0.5, 0.0],
        cov0=1e-4,
        transition_jacobian=lambda x: np.array([[1.0, 0.1], [-0.1 * np.cos(x[0]), 1.0]]),
        measurement_jacobian=lambda x: np.array([[np.cos(x[0]), 0.0]]),
    )
    rng = np.random.default_rng(1)
    steps, trials = 20, 300
    level = pv.StreamLevel.constant(1e4)  # as much noise again as the sensor's own
    squares = 0.0
    nominal = np.empty((steps, 2))
    x = np.array([0.5, 0.0])
    for k in range(steps):
        nominal[k] = x
        x = swing(x)
    bound = dynamics.local_bound(extended, level, nominal)
    for _ in range(trials):
        x, y = np.array([0.5, 0.0]) + 1e-2 * rng.standard_normal(2), []
        for _ in range(steps):
            y.append(np.sin(x[0]) + 1e-2 * rng.standard_normal())
            last = x
            x = swing(x) + 1e-4 * rng.standard_normal(2)
        release = pv.StreamMechanism(level).simulate(y, rng)
        found = dynamics.filter(extended, release, level=level, method="extended").filtered
        error = found.value[-1] - last
        squares += error @ np.linalg.solve(bound.filtered[-1], error)
    low, high = stats.chi2.interval(1 - 1e-5, 2 * trials)
    assert 0.95 * low < squares < 1.05 * high


def test_bad_input():
    with pytest.raises(InvalidInput, match="f must return 2 states"):
        dynamics.NonlinearStateSpace(lambda x: x[:1], lambda x: x, 0.1, 0.1, [0.0, 0.0], 1.0)
    with pytest.raises(InvalidInput, match="no time axis"):
        dynamics.NonlinearStateSpace(
            lambda x: x, lambda x: x, np.ones((3, 2, 2)), 0.1, [0.0, 0.0], 1.0
        )
    with pytest.raises(InvalidInput, match="Jacobian of h must be 1×2"):
        dynamics.local_bound(
            linear(measurement_jacobian=lambda x: np.eye(2)), 1.0, np.zeros((3, 2))
        )
    with pytest.raises(InvalidInput, match="trajectory must be"):
        dynamics.local_bound(linear(), 1.0, np.zeros((3, 1)))
    banded = pv.StreamLevel.constant(1.0, lags=[0.5])
    release = pv.StreamMechanism(banded).simulate([0.0], np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="does not look back"):
        dynamics.filter(linear(), release, level=banded, method="extended")

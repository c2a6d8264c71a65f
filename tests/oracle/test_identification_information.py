"""Bounds of parameters against closed forms, least squares and what a step adds in the end.

`test_dynamics_dense` compares them with the dense formula.
"""

import numpy as np
import pytest

import privest as pv
from privest import dynamics


def close(found, expected, rtol):
    size = np.sqrt(expected.diagonal())
    assert np.abs((found - expected) / np.outer(size, size)).max() < rtol


def added(family, theta, level, steps):
    """The information of the steps from the first number of them to the second."""
    short, long = (dynamics.parameter_bound(family, theta, level, steps=count) for count in steps)
    return np.linalg.inv(long.covariance) - np.linalg.inv(short.covariance)


def closed_form(phi, q, s):
    """I/K of (φ, q) from AR(1) + 1/s, by its ARMA(1, 1) form (identification.md, section 2)."""
    b = q + (1 + phi**2) / s
    u = (b + np.sqrt(b**2 - 4 * phi**2 / s**2)) / 2
    eta = phi / (s * u)
    u_phi, u_q = 2 * eta * (u - 1 / s) / (1 - eta**2), 1 / (1 - eta**2)
    J = np.array([[1, 0], [(1 / s - eta * u_phi) / u, -eta * u_q / u], [u_phi, u_q]])
    cross = -1 / (1 - phi * eta)
    inner = np.array(
        [[1 / (1 - phi**2), cross, 0], [cross, 1 / (1 - eta**2), 0], [0, 0, 1 / (2 * u**2)]]
    )
    return J.T @ inner @ J


@pytest.mark.parametrize("s", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("phi", [0.3, 0.8, 0.97])
def test_autoregressions_have_the_closed_form_and_more_steps_add_it(phi, s):
    found = added("ar1-mean", [phi, 1 - phi**2], pv.StreamLevel.constant(s), (900, 1000))
    # a difference of two sums of 1000
    close(found, 100 * closed_form(phi, 1 - phi**2, s), 1e-8)


@pytest.mark.parametrize("s", [0.1, 4.0])
def test_local_levels_have_the_closed_form(s):
    """A root on the unit circle, a diffuse start; r̃ = r + 1/s (identification.md, section 2)."""
    q, r = 0.3, 0.7
    both = r + 1 / s
    root = np.sqrt(q**2 + 4 * q * both)
    a, b = (q + 2 * both) / root**3, 2 * q / root**3
    c = (1 - q**2 * a - 2 * q * both * b) / both**2
    found = added("level", [q, r], pv.StreamLevel.constant(s), (250, 300))
    close(found, 25 * np.array([[a, b], [b, c]]), 1e-8)


def test_the_floor_of_a_driven_autoregression_is_that_of_least_squares_without_noise():
    """s large: cov (φ, b) = q(XᵀX)⁻¹ of the rows k ≥ 1, on average; var q = 2q²/(K − 1)."""
    rng, K, level = np.random.default_rng(8), 400, pv.StreamLevel.constant(1e8)
    u, y = rng.standard_normal((K, 1)), np.zeros((K, 1))
    for k in range(1, K):
        y[k] = 0.7 * y[k - 1] + 0.5 * u[k - 1] + 0.6 * rng.standard_normal()
    release = pv.StreamMechanism(level).simulate(3 + y, rng)
    found = dynamics.fit(dynamics.ARX(1, 1, mean=True), release, level=level, inputs=u)
    q = found.value[1]
    for floor in (found.covariance, found.classical):
        X = np.concatenate([y[:-1], u[:-1], np.ones((K - 1, 1))], axis=1)
        # XᵀX differs from its mean by a few in √K.
        expected = q * np.linalg.inv(X.T @ X)[:2, :2]
        size = np.sqrt(expected.diagonal())
        assert np.abs((floor[::2, ::2] - expected) / np.outer(size, size)).max() < 4 / np.sqrt(K)
        assert floor[1, 1] == pytest.approx(2 * q**2 / K, rel=2 / K)
    assert found.standard_error == pytest.approx(np.sqrt(found.covariance.diagonal()), rel=0.1)


def test_the_floors_of_a_random_walk_whose_readings_have_no_error():
    """r̂ = 0, a limit: q̂ is then known as if r = 0 were; var q = 2q²/(K − 1) without privacy."""
    rng, K, level = np.random.default_rng(0), 300, pv.StreamLevel.constant(2.0)
    y = np.cumsum(rng.standard_normal((K, 1)), axis=0)
    found = dynamics.fit("level", pv.StreamMechanism(level).simulate(y, rng), level=level)
    assert found.at_limit.tolist() == [False, True]
    # r at its limit is 1e-5 of what is seen.
    assert found.classical[0, 0] == pytest.approx(2 * found.value[0] ** 2 / (K - 1), rel=1e-3)
    assert found.covariance[0, 0] > found.classical[0, 0]

"""Regression with AR(1) errors from releases: against the dense covariance, `bound`, coverage."""

import numpy as np
import pytest

import privest as pv
from privest import dynamics
from serial_streams import autoregressive, hourly, remembering

THETA = np.array([1.0, 0.1, 0.5, -0.3])
FAMILY = dynamics.RegressionAR(1, 4)


def streamed(level, count, seed, missing=(), correlation=0.8):
    rng, H = np.random.default_rng(seed), hourly(count)
    y = H @ THETA + 0.5 * remembering(rng, (count,), correlation)
    y[list(missing)] = np.nan
    return H, pv.StreamMechanism(level).simulate(y, rng)


def dense(level, release, H, phi, q):
    """GLS covariance, estimate and log-likelihood from whole matrices."""
    rows = level.first(release.steps).rows.dense()
    shown = ~np.isnan(release.values)
    A = np.where(shown, rows, 0.0)[shown]
    V = A @ autoregressive(len(H), phi, q / (1 - phi**2)) @ A.T + np.eye(len(A))
    G, z = A @ H, release.values[shown]
    covariance = np.linalg.inv(G.T @ np.linalg.solve(V, G))
    estimate = covariance @ G.T @ np.linalg.solve(V, z)
    rest = z - G @ estimate
    logs = np.linalg.slogdet(2 * np.pi * V)[1]
    return covariance, estimate, -(logs + rest @ np.linalg.solve(V, rest)) / 2


@pytest.mark.parametrize("lags", [[], [0.5, -0.2]], ids=["plain", "looks back"])
def test_it_is_generalised_least_squares_at_the_peak_of_the_likelihood(lags):
    level = pv.StreamLevel.constant(4.0, lags=lags)
    H, release = streamed(level, 240, 7, (5, 100))
    found = dynamics.fit(FAMILY, release, inputs=H)
    phi, q = found.value[:2]
    covariance, estimate, likelihood = dense(level, release, H, phi, q)
    # the maximum is within 1e-4 standard errors; β and (φ, q) are orthogonal on average only
    error = np.sqrt(covariance.diagonal())
    assert (np.abs(found.value[2:] - estimate) < 1e-4 * error).all()
    assert found.log_likelihood == pytest.approx(likelihood, abs=1e-7)
    assert found.standard_error[2:] == pytest.approx(error, rel=0.02)
    for other in ((phi + 0.03, q), (phi - 0.03, q), (phi, 1.1 * q)):
        assert dense(level, release, H, *other)[2] < likelihood
    assert abs(phi - 0.8) < 0.2  # four deviations of an estimate from 240 measurements


def test_errors_are_those_of_the_bound_of_a_dynamic_model():
    """State (θ, u) with a diffuse start of θ; the bound of parameters is that of θ at (φ, q)."""
    level = pv.StreamLevel.constant(4.0)
    H, release = streamed(level, 240, 8)
    found = dynamics.fit(FAMILY, release, inputs=H)
    phi, q = found.value[:2]
    system = dynamics.StateSpace(
        A=np.diag([1.0, 1.0, 1.0, 1.0, phi]),
        C=np.column_stack([H, np.ones(240)])[:, None, :],
        Q=np.diag([0.0, 0.0, 0.0, 0.0, q]),
        R=0.0,
        cov0=np.diag([0.0, 0.0, 0.0, 0.0, q / (1 - phi**2)]),
        diffuse=[True, True, True, True, False],
    )
    errors = pv.bound(system, level, steps=240).standard_error[-1, :4]
    assert np.sqrt(found.bound.diagonal()[2:]) == pytest.approx(errors, rel=1e-8)


@pytest.mark.slow
def test_intervals_cover():
    """150 streams of 336 hours, φ = .8, sγ₀ = 1: standard errors of the model cover .92 or more."""
    level, covered, first = pv.StreamLevel.constant(4.0), [], []
    for seed in range(150):
        H, release = streamed(level, 336, 100 + seed)
        found = dynamics.fit(FAMILY, release, inputs=H)
        covered.append(np.abs(found.value[2:] - THETA) <= 1.96 * found.standard_error[2:])
        first.append(found.value[0])
    room = 4 * np.sqrt(0.05 * 0.95 / 150)
    assert (np.mean(covered, axis=0) > 0.92 - room).all()
    assert abs(np.median(first) - 0.8) < 0.05

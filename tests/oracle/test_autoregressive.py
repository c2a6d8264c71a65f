"""AR(1) noise of a stream: against the dense covariance, `dynamics.bound`, and coverage."""

import numpy as np
import pytest
import scipy

import privest as pv
from dynamic_systems import without
from privest.dynamics import StateSpace, fit_autoregressive
from privest.errors import InvalidInput, NotIdentifiable
from serial_streams import autoregressive, hourly, remembering

THETA = np.array([1.0, 0.1, 0.5, -0.3])
SHARED = 4.0 * (np.eye(12) - (1 - 1 / 12) * np.ones((12, 12)) / 12)  # B: mean of 12 hidden at s = 4


def streamed(level, count, seed, missing=(), correlation=0.8):
    rng, H = np.random.default_rng(seed), hourly(count)
    y = H @ THETA + 0.5 * remembering(rng, (count,), correlation)
    y[list(missing)] = np.nan
    return H, pv.StreamMechanism(level).simulate(y, rng)


def dense(level, release, H, correlation, variance):
    """GLS covariance, estimate and restricted log-likelihood from whole matrices."""
    rows = level.first(release.steps).rows.dense()
    shown = ~np.isnan(release.values)
    if level.form == "independent":
        rows = without(rows, ~shown, [level.block] * release.steps)
    A = np.where(shown, rows, 0.0)[shown]
    V = A @ autoregressive(len(H), correlation, variance) @ A.T + np.eye(len(A))
    G, z = A @ H, release.values[shown]
    covariance = np.linalg.inv(G.T @ np.linalg.solve(V, G))
    estimate = covariance @ G.T @ np.linalg.solve(V, z)
    rest = z - G @ estimate
    logs = [np.linalg.slogdet(part)[1] for part in (2 * np.pi * V, np.linalg.inv(covariance))]
    return covariance, estimate, -(sum(logs) + rest @ np.linalg.solve(V, rest)) / 2


LEVELS = {
    "plain": (pv.EndlessLevel(4.0), (5, 100)),
    "looks back": (pv.EndlessLevel(4.0, [0.5, -0.2]), (5, 100)),
    "shared day": (pv.EndlessLevel(SHARED), (30,)),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_it_is_generalised_least_squares_at_the_peak_of_the_likelihood(kind):
    level, missing = LEVELS[kind]
    H, release = streamed(level, 240, 7, missing)
    found = fit_autoregressive(level, release, H)
    phi, variance = found.correlation, found.noise_variance
    covariance, estimate, likelihood = dense(level, release, H, phi, variance)
    # two routes through V, of condition below 1e2, and HᵀV⁻¹H, below 1e5
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8)
    np.testing.assert_allclose(found.estimate, estimate, rtol=1e-8)
    assert found.log_likelihood == pytest.approx(likelihood, abs=1e-7)
    for other in ((phi + 0.03, variance), (phi - 0.03, variance), (phi, 1.1 * variance)):
        assert dense(level, release, H, *other)[2] < likelihood
    assert found.remembers
    assert abs(phi - 0.8) < 0.2  # four deviations of an estimate from 240 readings


def test_errors_are_those_of_the_bound_of_a_dynamic_model():
    """State (θ, u) with a wide prior: 1e-8 of it is left after 240 readings (real-tables 6)."""
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 240, 8)
    found = fit_autoregressive(level, release, H)
    phi, variance = found.correlation, found.noise_variance
    system = StateSpace(
        A=np.diag([1.0, 1.0, 1.0, 1.0, phi]),
        C=np.column_stack([H, np.ones(240)])[:, None, :],
        Q=np.diag([0.0, 0.0, 0.0, 0.0, variance * (1 - phi**2)]),
        R=0.0,
        cov0=np.diag([1e6, 1e6, 1e6, 1e6, variance]),
    )
    errors = pv.dynamics.bound(system, level, 240).standard_error[-1, :4]
    np.testing.assert_allclose(found.standard_error, errors, rtol=1e-6)


def test_noise_that_does_not_remember_is_not_said_to():
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 170, 2, correlation=0.0)
    found = fit_autoregressive(level, release, H)
    assert not found.remembers
    assert found.by_blocks.correlation == 0.0
    # nothing but release noise: γ₀ is 0 or a small part of it
    quiet = pv.StreamMechanism(level).simulate(H @ THETA, np.random.default_rng(5))
    assert fit_autoregressive(level, quiet, H).noise_variance < 0.25 * 0.5  # of 1/s


def test_what_cannot_be_fitted_is_said():
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 60, 2)  # no weekend in it
    with pytest.raises(NotIdentifiable, match="do not show all of θ"):
        fit_autoregressive(level, release, H)
    with pytest.raises(InvalidInput, match="from its step 0 on"):
        fit_autoregressive(level, release.part(1, 60, [1] * 60), H[1:])
    with pytest.raises(InvalidInput, match="one a reading"):
        fit_autoregressive(level, release, H[:50])
    few = pv.StreamMechanism(level).simulate([0.1, 0.2], np.random.default_rng(5))
    with pytest.raises(InvalidInput, match="more readings than"):
        fit_autoregressive(level, few, np.eye(2))


@pytest.mark.slow
def test_intervals_cover():
    """150 streams of 336 hours, φ = .8, sγ₀ = 1: .92 to .97, within 4 deviations."""
    level, covered, by_model, first = pv.EndlessLevel(4.0), [], [], []
    for seed in range(150):
        H, release = streamed(level, 336, 100 + seed)
        found = fit_autoregressive(level, release, H)
        errors, off = found.by_blocks, np.abs(found.estimate - THETA)
        quantile = scipy.special.stdtrit(errors.degrees_of_freedom, 0.975)
        covered.append(off <= quantile * errors.standard_error)
        by_model.append(off <= 1.96 * found.standard_error)
        first.append(found.correlation)
    room = 4 * np.sqrt(0.05 * 0.95 / 150)
    assert (np.abs(np.mean(covered, axis=0) - 0.945) < 0.025 + room).all()
    assert (np.mean(by_model, axis=0) > 0.92 - room).all()
    assert abs(np.median(first) - 0.8) < 0.05

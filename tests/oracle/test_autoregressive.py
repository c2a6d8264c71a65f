"""Regression with AR(1) errors: against the dense likelihood, `dynamics.bound`, and coverage."""

import numpy as np
import pytest
import scipy

import privest as pv
from dynamic_systems import without
from privest.dynamics import StateSpace, fit
from privest.errors import InvalidInput
from privest.streaming import fit_autocorrelated
from serial_streams import autoregressive, dense_cr2, hourly, remembering

THETA = np.array([1.0, 0.1, 0.5, -0.3])


def streamed(level, count, seed, missing=(), correlation=0.8):
    rng, H = np.random.default_rng(seed), hourly(count)
    y = H @ THETA + 0.5 * remembering(rng, (count,), correlation)
    y[list(missing)] = np.nan
    return H, pv.StreamMechanism(level).simulate(y, rng)


def dense(level, release, H, correlation, variance):
    """GLS covariance, estimate and log-likelihood there, and a root of V⁻¹, from whole matrices."""
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
    likelihood = -(np.linalg.slogdet(2 * np.pi * V)[1] + rest @ np.linalg.solve(V, rest)) / 2
    return covariance, estimate, likelihood, (np.linalg.cholesky(V), G, z)


LEVELS = {
    "plain": (pv.EndlessLevel(4.0), (5, 100)),
    "looks back": (pv.EndlessLevel(4.0, [0.5, -0.2]), (5, 100)),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_it_is_generalised_least_squares_at_the_peak_of_the_likelihood(kind):
    level, missing = LEVELS[kind]
    H, release = streamed(level, 240, 7, missing)
    found = fit("regression1", release, level=level, inputs=H)
    phi, q = found.estimate[:2]
    variance = q / (1 - phi**2)
    covariance, estimate, likelihood, _ = dense(level, release, H, phi, variance)
    # Newton leaves 1e-7 of a standard error.
    error = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(found.estimate[2:] / error, estimate / error, atol=1e-6)
    assert found.log_likelihood == pytest.approx(likelihood, abs=1e-7)
    for other in ((phi + 0.03, variance), (phi - 0.03, variance), (phi, 1.1 * variance)):
        assert dense(level, release, H, *other)[2] < likelihood
    # β and (φ, q) are nearly independent: the errors of β with these known are a little smaller.
    assert (found.standard_error[2:] >= error * (1 - 1e-4)).all()
    np.testing.assert_allclose(found.standard_error[2:], error, rtol=0.05)
    low, high = found.intervals().ends[0]
    assert 0 < low < 0.8 < high


def test_errors_are_those_of_the_bound_of_a_dynamic_model():
    """State (β, u) with a wide prior: 1e-8 of it is left after 240 measurements."""
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 240, 8)
    found = fit("regression1", release, level=level, inputs=H)
    phi, q = found.estimate[:2]
    system = StateSpace(
        A=np.diag([1.0, 1.0, 1.0, 1.0, phi]),
        C=np.column_stack([H, np.ones(240)])[:, None, :],
        Q=np.diag([0.0, 0.0, 0.0, 0.0, q]),
        R=0.0,
        cov0=np.diag([1e6, 1e6, 1e6, 1e6, q / (1 - phi**2)]),
    )
    errors = pv.dynamics.bound(system, level, 240).standard_error[-1, :4]
    np.testing.assert_allclose(np.sqrt(found.bound.diagonal()[2:]), errors, rtol=1e-6)


def test_errors_by_blocks_are_those_of_whitened_rows():
    """CR2 by blocks of time of V^{−½}[AH, z], from whole matrices."""
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 240, 9)
    found = fit_autocorrelated(level, release, H)
    root, G, z = dense(level, release, H, found.correlation, found.noise_variance)[3]
    white = np.linalg.solve(root, np.column_stack([G, z]))
    groups = np.split(np.arange(240), range(found.by_blocks.length, 240, found.by_blocks.length))
    covariance, freedom = dense_cr2(white[:, :-1], white[:, -1], groups)
    np.testing.assert_allclose(found.by_blocks.covariance, covariance, rtol=1e-6)
    np.testing.assert_allclose(found.by_blocks.degrees_of_freedom, freedom, rtol=1e-6)
    assert found.remembers
    assert found.by_blocks.correlation == found.correlation


def test_errors_that_are_not_autocorrelated_are_not_said_to_be():
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 170, 2, correlation=0.0)
    found = fit_autocorrelated(level, release, H)
    assert not found.remembers
    assert found.by_blocks.correlation == 0.0
    # nothing but privacy noise: γ₀ is 0 or a small part of it
    quiet = pv.StreamMechanism(level).simulate(H @ THETA, np.random.default_rng(5))
    assert fit_autocorrelated(level, quiet, H).noise_variance < 0.25 * 0.5  # of 1/s


def test_what_cannot_be_fitted_is_said():
    level = pv.EndlessLevel(4.0)
    H, release = streamed(level, 60, 2)  # no weekend in it
    found = fit("regression1", release, level=level, inputs=H)
    assert np.isinf(found.standard_error[5])
    assert any("beta4" in one.words for one in found.flat)
    with pytest.raises(InvalidInput, match="a row for each of the 60 steps"):
        fit("regression1", release, level=level, inputs=H[:50])
    few = pv.StreamMechanism(level).simulate([0.1, 0.2], np.random.default_rng(5))
    with pytest.raises(InvalidInput, match="at least 6 steps"):
        fit("regression1", few, level=level, inputs=np.eye(2))
    shared = pv.EndlessLevel.shared(4.0, 12)
    many = pv.StreamMechanism(shared).simulate(np.zeros(48), np.random.default_rng(5))
    with pytest.raises(InvalidInput, match="steps of 12"):
        fit_autocorrelated(shared, many, hourly(48))


@pytest.mark.slow
def test_intervals_cover():
    """150 streams of 336 hours, φ = .8, sγ₀ = 1: .92 to .97, within 4 deviations."""
    level, covered, by_model, first = pv.EndlessLevel(4.0), [], [], []
    for seed in range(150):
        H, release = streamed(level, 336, 100 + seed)
        found = fit_autocorrelated(level, release, H)
        errors, off = found.by_blocks, np.abs(found.estimate - THETA)
        quantile = scipy.special.stdtrit(errors.degrees_of_freedom, 0.975)
        covered.append(off <= quantile * errors.standard_error)
        by_model.append(off <= 1.96 * found.standard_error)
        first.append(found.correlation)
    room = 4 * np.sqrt(0.05 * 0.95 / 150)
    assert (np.abs(np.mean(covered, axis=0) - 0.945) < 0.025 + room).all()
    assert (np.mean(by_model, axis=0) > 0.92 - room).all()
    assert abs(np.median(first) - 0.8) < 0.05

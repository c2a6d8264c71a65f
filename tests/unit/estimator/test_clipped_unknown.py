"""Clipped readings with a noise variance that nobody knows: θ and σ² together."""

import math

import numpy as np
import pytest
import scipy.optimize

from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import ClippedRows, cost_of_rows, estimate_clipped
from privest.estimator.inference import Scatter
from privest.estimator.likelihood import ClippedLikelihood

THETA = np.array([0.3, 1.0, -0.8])
LOW, HIGH, LEVEL = -2.0, 2.5, 2.0


def clipped_release(rows=400, seed=0, low=LOW, high=HIGH, sigma=1.3):
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    y = H @ THETA + sigma * rng.standard_normal(rows)
    return H, np.clip(y, low, high) + rng.standard_normal(rows) / math.sqrt(LEVEL)


def fitted(H, z, low=LOW, high=HIGH, level=LEVEL, shape=1.0):
    return estimate_clipped(ClippedRows(H, z, shape, level, low, high), variance_known=False)


def test_it_is_the_maximum_that_another_finds():
    """scipy on the values alone, the part of REML written out: to 1e-4 standard errors."""
    H, z = clipped_release()
    found = fitted(H, z)

    def height(at):
        likelihood = ClippedLikelihood(math.exp(at[3]), noise=1 / LEVEL, low=LOW, high=HIGH)
        precision = H.T @ H / (math.exp(at[3]) + 1 / LEVEL)
        return 0.5 * np.linalg.slogdet(precision)[1] - likelihood.value(z, H @ at[:3]).sum()

    other = scipy.optimize.minimize(height, np.zeros(4), tol=1e-10)
    assert np.abs((found.value - other.x[:3]) / found.standard_error).max() < 1e-4
    assert abs(found.noise_variance - math.exp(other.x[3])) < 1e-4 * found.noise_error
    likelihood = ClippedLikelihood(math.exp(other.x[3]), noise=1 / LEVEL, low=LOW, high=HIGH)
    value = likelihood.value(z, H @ other.x[:3]).sum()
    assert found.log_likelihood == pytest.approx(value, abs=1e-6)
    assert 0.1 < found.clipped < 0.3


def test_without_clipping_it_is_student_s_t_from_the_release():
    """σ̂² = RSS/f − 1/s, cov = v̂A, f degrees of freedom, the exact interval of σ²."""
    H, z = clipped_release(rows=40, low=-1e3, high=1e3)
    found = fitted(H, z, -1e3, 1e3)
    plain = np.linalg.lstsq(H, z, rcond=None)[0]
    scatter = Scatter(squares=float(((z - H @ plain) ** 2).sum()), freedom=37, added=1 / LEVEL)
    inverse = np.linalg.inv(H.T @ H)
    assert np.abs(found.value - plain).max() < 1e-9
    assert found.noise_variance == pytest.approx(scatter.noise_variance, rel=1e-6)
    np.testing.assert_allclose(found.covariance, scatter.total * inverse, rtol=1e-6)
    assert found.degrees_of_freedom == 37
    assert found.noise_error == pytest.approx(scatter.total * math.sqrt(2 / 37), rel=1e-6)
    np.testing.assert_allclose(found.noise_interval(), scatter.noise_interval(), rtol=1e-5)
    np.testing.assert_allclose(found.classical, scatter.noise_variance * inverse, rtol=1e-6)
    assert found.efficiency == pytest.approx(1.0, abs=1e-8)


def test_a_variance_of_nothing_is_the_end_of_its_range():
    """Readings on the plane, and by chance less scatter than the release noise has."""
    H, _ = clipped_release(rows=60)
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(60)
    noise -= H @ np.linalg.lstsq(H, noise, rcond=None)[0]
    noise *= math.sqrt(0.8 * 57 / LEVEL / (noise @ noise))  # v̂ = .8/s
    z = np.clip(H @ THETA, -9.0, 9.0) + noise
    found = fitted(H, z, -9.0, 9.0)
    assert found.noise_variance == 0.0
    np.testing.assert_allclose(found.value, THETA, atol=1e-6)
    # The noise of the release alone: at 10⁻³ of its variance above it.
    np.testing.assert_allclose(
        found.covariance, np.linalg.inv(H.T @ H) / LEVEL, rtol=1.1e-3, atol=1e-9
    )
    low, high = found.noise_interval()
    assert low == 0.0
    assert 0 < high < 1 / LEVEL
    assert (found.classical == 0).all()


def test_readings_may_have_variances_of_known_shape():
    """σ_k² = σ²c_k without clipping: REML by scipy in one dimension."""
    H, _ = clipped_release(rows=80)
    rng = np.random.default_rng(2)
    shape, level = rng.uniform(0.2, 5.0, 80), rng.uniform(0.5, 8.0, 80)
    z = H @ THETA + np.sqrt(1.7 * shape + 1 / level) * rng.standard_normal(80)
    found = fitted(H, z, -1e4, 1e4, level, shape)

    def fit(log_variance):
        v = math.exp(log_variance) * shape + 1 / level
        precision = H.T @ (H / v[:, None])
        theta = np.linalg.solve(precision, H.T @ (z / v))
        left = (z - H @ theta) ** 2 / v + np.log(v)
        return 0.5 * (left.sum() + np.linalg.slogdet(precision)[1]), theta, precision

    best = scipy.optimize.minimize_scalar(lambda t: fit(t)[0], bounds=(-3, 3), method="bounded",
                                          options={"xatol": 1e-9})  # fmt: skip
    _, theta, precision = fit(best.x)
    assert found.noise_variance == pytest.approx(math.exp(best.x), rel=1e-5)
    assert np.abs((found.value - theta) / found.standard_error).max() < 1e-5
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=1e-5, atol=1e-9)


def test_the_covariance_is_that_of_the_slopes():
    """Joint information by the outer products of slopes in (θ, σ²) of 20,000 rows, by differences.

    Their chance is about √(κ/K) of the entries' scale, .04 at most.
    """
    H, z = clipped_release(rows=20_000, low=-1.0, high=1.0)
    found = fitted(H, z, -1.0, 1.0)
    at = np.append(found.value, found.noise_variance)

    def value(at):
        likelihood = ClippedLikelihood(at[3], noise=1 / LEVEL, low=-1.0, high=1.0)
        return likelihood.value(z, H @ at[:3])

    steps = 1e-4 * np.eye(4)
    slopes = np.array([(value(at + h) - value(at - h)) / 2e-4 for h in steps])
    joint = np.linalg.inv(slopes @ slopes.T)
    root = np.linalg.inv(np.linalg.cholesky(found.covariance))
    assert np.abs(root @ joint[:3, :3] @ root.T - np.eye(3)).max() < 0.1
    assert joint[3, 3] == pytest.approx(found.noise_error**2, rel=0.1)
    # To know σ² would help: its error is part of that of θ̂.
    known = estimate_clipped(ClippedRows(H, z, found.noise_variance, LEVEL, -1.0, 1.0))
    assert (found.standard_error > 1.05 * known.standard_error).all()


def test_rows_that_say_too_little_are_told():
    H, z = clipped_release(rows=50)
    with pytest.raises(NotIdentifiable, match="do not determine"):
        fitted(np.ones((50, 2)), z)
    with pytest.raises(InvalidInput, match="no rows"):
        fitted(H, np.full(50, np.nan))


def test_a_variance_that_a_release_does_not_tell_is_told():
    """Half the readings at each end: σ² could be anything."""
    rng = np.random.default_rng(6)
    y = np.repeat([-9.0, 9.0], 100)
    z = np.clip(y, -1.0, 1.0) + 0.3 * rng.standard_normal(200)
    with pytest.raises(NotIdentifiable, match="State the noise variance"):
        fitted(np.ones((200, 1)), z, -1.0, 1.0, 1 / 0.09)


def test_what_clipping_hides_is_told():
    rng = np.random.default_rng(5)
    H = np.column_stack([np.ones(200), np.repeat([0.0, 1.0], 100)])
    y = H @ [0.0, 60.0] + rng.standard_normal(200)
    z = np.clip(y, -2.0, 2.0) + rng.standard_normal(200)
    z[100:] += 2.5 - z[100:].mean()
    with pytest.raises(NotIdentifiable, match="wider range"):
        fitted(H, z, -2.0, 2.0, 1.0)


def test_a_plan_can_count_that_the_variance_is_not_known():
    """The cost at the fit is the covariance of the fit; more than with a known variance."""
    H, z = clipped_release(rows=300)
    found = fitted(H, z)
    at = found.value, found.noise_variance, LEVEL, (LOW, HIGH)
    cost = cost_of_rows(H, *at, variance_known=False)
    # The fit counts K − n of K rows for σ².
    assert np.abs(cost.standard_error / found.standard_error - 1).max() < 0.01
    assert (cost.standard_error > cost_of_rows(H, *at).standard_error).all()

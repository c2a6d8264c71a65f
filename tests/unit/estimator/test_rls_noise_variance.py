"""PrivateRLS counts the variance v of the noise on releases, in all forms and ways of taking them.

Against z̃ = A(Hθ + w) + e with cov e = v·I (v = 1.1875: see protected_double) written out:
generalised least squares by dense matrices, whose condition numbers are below 1e4: 1e-10.
"""

import copy

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.mechanism.source import Generated
from protected_double import V, Wide

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
RNG = np.random.default_rng(7)
M, N = 12, 2
H = RNG.standard_normal((M, N))
Y = RNG.standard_normal(M) + H @ [1.0, -2.0]
S3 = np.array([[2.0, 0.6, 0.1], [0.6, 1.5, -0.3], [0.1, -0.3, 1.0]])
PAST = np.eye(M) + 0.3 * np.ones((M, M))
LEVELS = {
    "number": pv.StreamLevel.constant(1.5),
    "one each": pv.StreamLevel(RNG.uniform(0.5, 2.0, M)),
    "lags": pv.StreamLevel.constant(1.0, lags=[0.5, -0.3]),
    "blocks": pv.StreamLevel.constant(S3),
    "blocks, lags": pv.StreamLevel.constant(S3, lags=[0.4]),
    "dense": pv.StreamLevel.from_cumulative(PAST),
    "dense, blocks": pv.StreamLevel.from_cumulative(PAST, [3] * 4),
    "sizes": pv.StreamLevel([np.eye(2), S3, 2.0 * np.eye(3), S3, np.eye(1)]),
}
LAW = pv.noise.Gaussian(cov=0.7)


def noise_of(level):
    """Correlated within a step, with a mean, where all steps have one size."""
    if level.block == 3:
        return pv.noise.Gaussian(cov=0.7 * S3, mean=[0.3, -0.2, 0.5])
    return pv.noise.Gaussian(0.7, mean=0.3)


def released(level, missing=True):
    y = Y.copy()
    if missing:
        y[4] = np.nan
    return pv.StreamMechanism(level).release(y, Wide(3))


def written_out(level, release, variance=V, noise=None):
    """θ̂ and its covariance, by dense matrices."""
    finite = level if level.steps is not None else level.first(M // level.block)
    law = noise_of(level) if noise is None else noise
    there, A = ~np.isnan(release.values), finite.rows.dense()
    A = A * there[:, None] * there
    size = 3 if level.block == 3 else 1
    sigma, mean = np.zeros((M, M)), np.zeros(M)
    for k in range(0, M, size):
        own = slice(k, k + size)
        sigma[own, own] = pv.noise.as_joint(law).covariance(size).dense()
        mean[own] = pv.noise.as_joint(law).expectation(size)
    cov = A @ sigma @ A.T + np.eye(M) * variance
    rows, z = A @ H, np.where(there, release.values - A @ mean, 0.0)
    information = rows.T @ np.linalg.solve(cov, rows)
    estimate = np.linalg.solve(information, rows.T @ np.linalg.solve(cov, z))
    return estimate, np.linalg.inv(information)


def estimator(level):
    return pv.PrivateRLS(level, N, noise_of(level))


def whole(rls, release, sizes):
    rls.update(release, H)
    return rls


def one_by_one(rls, release, sizes):
    at = 0
    for k, size in enumerate(sizes):
        rls.update(release.part(k, k + 1, sizes), H[at : at + size])
        at += size
    return rls


def taken_up(rls, release, sizes):
    half, before = 2, sum(sizes[:2])
    rls.update(release.part(0, half, sizes), H[:before])
    other = copy.copy(rls)
    other.restore(rls.state())
    other.update(release.part(half, len(sizes), sizes), H[before:])
    assert other.unit_variance == V
    return other


@pytest.mark.parametrize("way", [whole, one_by_one, taken_up])
@pytest.mark.parametrize("name", LEVELS)
def test_the_estimate_is_that_of_the_dense_formula(name, way):
    level, release = LEVELS[name], released(LEVELS[name])
    assert release.unit_variance == V
    sizes = level.sizes_between(0, release.steps)
    found = way(estimator(level), release, sizes)
    estimate, covariance = written_out(level, release)
    assert np.allclose(found.value, estimate, **CLOSE)
    assert np.allclose(found.covariance, covariance, **CLOSE)
    assert found.simulated is False
    # What this would be without v is seen: at least 1 % less.
    less = written_out(level, release, 1.0)[1]
    assert (np.diagonal(found.covariance) > 1.01 * np.diagonal(less)).all()


@pytest.mark.parametrize("name", LEVELS)
def test_trials_and_real_releases_together(name):
    """The first half simulated (variance 1), the second with v; `simulated` is said."""
    level = LEVELS[name]
    mechanism, half = pv.StreamMechanism(level), 2
    steps = (M // level.block) if level.block else 5
    sizes = level.sizes_between(0, steps)
    before = sum(sizes[:half])
    first = mechanism.simulate(Y[:before], Generated(np.random.default_rng(1)))
    second = mechanism.release(Y[before:], Wide(2))
    found = estimator(level)
    found.update(first, H[:before])
    found.update(second, H[before:])
    values = np.concatenate([first.values, second.values])
    joint = pv.release.Release(0, steps, values, None, first.fingerprint, True)
    variances = np.where(np.arange(M) < before, 1.0, V)
    estimate, covariance = written_out(level, joint, variances)
    assert np.allclose(found.value, estimate, **CLOSE)
    assert np.allclose(found.covariance, covariance, **CLOSE)
    assert found.simulated is True
    assert found.unit_variance == V
    assert found.result().simulated is True


def test_the_parts_of_a_result():
    """One level and one law: sampling σ², bound σ² + 1/s, covariance σ² + v/s, in units (HᵀH)⁻¹."""
    level, unit = LEVELS["number"], np.linalg.inv(H.T @ H)
    found = pv.PrivateRLS(level, N, noise_of(level))
    found.update(released(level, missing=False), H)
    result = found.result()
    assert np.allclose(result.covariance, (0.7 + V / 1.5) * unit, **CLOSE)
    assert np.allclose(result.sampling, 0.7 * unit, **CLOSE)
    assert np.allclose(result.classical, 0.7 * unit, **CLOSE)
    assert np.allclose(result.bound, (0.7 + 1 / 1.5) * unit, **CLOSE)
    rest = released(level, missing=False).values / np.sqrt(1.5) - 0.3 - H @ found.value
    assert found.misfit == pytest.approx(rest @ rest / (0.7 + V / 1.5), rel=1e-10)


@pytest.mark.parametrize("name", sorted(set(LEVELS) - {"number"}))
def test_a_bound_is_never_above_that_of_the_level(name):
    """Elsewhere it is Σ/v, which is below: v times the least covariance is at least the own."""
    level, release = LEVELS[name], released(LEVELS[name])
    found = estimator(level)
    found.update(release, H)
    least = written_out(level, release, 1.0)[1]
    assert np.linalg.eigvalsh(least - found.result().bound).min() > -1e-12
    assert np.linalg.eigvalsh(found.result().covariance - least).min() > 0


@pytest.mark.parametrize("noise", [0.5, -1.0, 3.0, np.nan])
def test_a_state_with_another_variance_is_refused(noise):
    rls = estimator(LEVELS["number"])
    with pytest.raises(InvalidInput):
        rls.restore(rls.state() | {"noise": np.array([noise])})

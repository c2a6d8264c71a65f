"""The Gaussian release with least squares attains the bound exactly (`thm:opt`, single release).

For N Gaussian errors with covariance Σ the statistic N(tr A − log det A − n), A = Σ^-½ Ĉ Σ^-½, is
χ² with n(n+1)/2 degrees of freedom (likelihood ratio, error O(1/N)). A threshold at 1 − 1e-6 fails
one run in a million; a covariance off by 5 % in one direction is beyond it at N = 40 000.

Real releases have no seed, so every run draws anew: their thresholds are at 1 − 1e-7. The variance
that the grid adds, 7e-7, is 1e-4 of the standard error here.
"""

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.linalg import least_squares, whitening
from strategies import KINDS, design, psd_matrix, structured

TRIALS = 40_000
FALSE_ALARM = {"simulate": 1e-6, "release": 1e-7}
HOW = pytest.mark.parametrize("how", FALSE_ALARM)


def covariance_statistic(errors, covariance):
    trials, n = errors.shape
    half = np.linalg.cholesky(covariance)
    white = np.linalg.solve(half, errors.T)
    values = np.linalg.eigvalsh(white @ white.T / trials)
    return trials * (values.sum() - np.log(values).sum() - n)


def threshold(n, how="simulate"):
    return scipy.stats.chi2.isf(FALSE_ALARM[how], n * (n + 1) / 2)


def release_and_estimate(model, level, theta, rng, how):
    """z̃ = Lᵀy + e, then whitened least squares: all trials at once."""
    S = level.for_size(model.measurements)
    y = model.sample(theta, rng, trials=TRIALS)
    if how == "release":
        release = np.zeros((model.measurements, TRIALS))
        mechanism = pv.mechanism.GaussianMechanism(level, model.measurements)
        release[S.informative()] = mechanism.release(y).T
    else:
        release = S.factor_rows(y.T) + rng.standard_normal((model.measurements, TRIALS))
    kernel = whitening(S, model.covariance)
    estimate, _ = least_squares(kernel.rows(model.matrix), kernel.whiten(release))
    return estimate.T


def cases():
    rng = np.random.default_rng(11)
    m = 8
    blocks = np.stack([psd_matrix(rng, 2, 1 + k % 2) for k in range(4)])
    return {
        "number": (0.7, 0.3),
        "diagonal with a hidden reading": (np.array([1, 0, 2, 0.5, 3, 1, 1, 2.0]), 0.3),
        "singular blocks": (blocks, rng.uniform(0.1, 1, m)),
        "dense, correlated noise": (psd_matrix(rng, m), psd_matrix(rng, m)),
        "singular dense level, correlated noise": (psd_matrix(rng, m, 5), psd_matrix(rng, m)),
        "singular noise": (psd_matrix(rng, m), psd_matrix(rng, m, 5)),
    }


@HOW
@pytest.mark.parametrize("name", cases())
def test_covariance_equals_the_bound(name, how):
    level, cov = cases()[name]
    rng = np.random.default_rng(5)
    H, theta = rng.standard_normal((8, 3)), np.array([0.63, -0.75, 0.26])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=cov))
    level = pv.PrivacyLevel(level)
    errors = release_and_estimate(model, level, theta, rng, how) - theta
    bound = pv.bound(model, level).covariance
    assert covariance_statistic(errors, bound) < threshold(3, how)
    bias = errors.mean(0)
    assert TRIALS * bias @ np.linalg.solve(bound, bias) < scipy.stats.chi2.isf(FALSE_ALARM[how], 3)


def test_the_statistic_can_fail():
    """5 % too little in one direction is caught."""
    rng = np.random.default_rng(6)
    errors = rng.standard_normal((TRIALS, 3)) * [1, 1, 1.05**0.5]
    assert covariance_statistic(errors, np.eye(3)) > threshold(3, "release")


@HOW
@pytest.mark.parametrize("s", [0.5, 5.0])
def test_laplace_data_perturbation_stays_above_the_bound(s, how):
    """y + Laplace(1/√s) carries information s about y and variance 2/s: least squares pays."""
    rng = np.random.default_rng(7)
    H, theta = rng.uniform(-1, 1, (10, 5)), np.array([0.63, 0.81, -0.75, 0.83, 0.26])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.04))
    y = model.sample(theta, rng, trials=TRIALS)
    if how == "release":
        law = pv.mechanism.Additive(pv.noise.Laplace(1 / np.sqrt(s)))
        z = pv.mechanism.Componentwise(law, measurements=10).release(y)
    else:
        z = y + rng.laplace(0, 1 / np.sqrt(s), (TRIALS, 10))
    squared = (((z @ np.linalg.pinv(H).T) - theta) ** 2).sum(1)
    floor = np.trace(pv.bound(model, pv.PrivacyLevel(s)).covariance)
    standard_error = squared.std() / np.sqrt(TRIALS)
    assert squared.mean() - 5 * standard_error > floor
    # exactly as far above it as y + Laplace(b) of variance 2b² is; 5.5 deviations are 4e-8
    own = np.trace(np.linalg.inv(H.T @ H)) * (0.04 + 2 / s)
    assert abs(squared.mean() - own) < 5.5 * standard_error


@HOW
def test_non_gaussian_noise_has_the_covariance_of_the_formula_with_cov_w(how):
    """Laplacian w: the same release has covariance with Σ = cov w = 2b², above the bound (b²).

    The statistic is then only approximately χ² (excess kurtosis of w raises its spread by less than
    2 here), so the threshold is taken three times as large."""
    rng = np.random.default_rng(8)
    H, theta = rng.standard_normal((12, 2)), np.array([1.0, -2.0])
    model, level = pv.LinearModel(H, noise=pv.noise.Laplace(0.5)), pv.PrivacyLevel(2.0)
    errors = release_and_estimate(model, level, theta, rng, how) - theta
    same_variance = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.5))
    attained = pv.bound(same_variance, level).covariance
    assert covariance_statistic(errors, attained) < 3 * threshold(2, how)
    floor = pv.bound(model, level).covariance
    assert np.linalg.eigvalsh(attained - floor)[0] > 0


@pytest.mark.parametrize("s", [1.0, 20.0])
def test_best_linear_release_attains_the_trace_floor(s):
    rng = np.random.default_rng(9)
    H, theta, W = rng.standard_normal((8, 3)), np.array([0.3, 1.0, -1.0]), psd_matrix(rng, 3)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=psd_matrix(rng, 8)))
    release = pv.bounds.best_linear_release(model, s, weight=W)
    y = model.sample(theta, rng, trials=TRIALS)
    noise = rng.standard_normal((TRIALS, 3)) @ np.linalg.cholesky(release.noise).T
    errors = np.linalg.solve(release.root.T, release.map @ y.T + noise.T).T - theta
    loss = np.einsum("ti,ij,tj->t", errors, W, errors)
    floor = pv.bounds.trace_bound(model, budget=s, weight=W)
    assert abs(loss.mean() - floor.total) < 5 * loss.std() / np.sqrt(TRIALS)


@pytest.mark.slow
@HOW
@pytest.mark.parametrize("seed", range(20))
def test_covariance_equals_the_bound_on_random_problems(seed, how):
    """Random sizes, structures and singularities; together one false alarm in 50 000 runs."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    m = int(rng.integers(n, 13))
    kinds = rng.permutation(KINDS)[:2]
    level = pv.PrivacyLevel(structured(rng, kinds[0], m, n))
    noise = structured(rng, kinds[1], m, n)
    model = pv.LinearModel(design(rng, m, n), noise=pv.noise.Gaussian(cov=noise))
    theta = rng.standard_normal(n)
    found = pv.bound(model, level)
    assert found.identifiable
    errors = np.concatenate(
        [release_and_estimate(model, level, theta, rng, how) - theta for _ in range(10)]
    )
    assert covariance_statistic(errors, found.covariance) < threshold(n, how)

"""Errors from a release alone, against statsmodels and dense formulas."""

import numpy as np
import pytest
import scipy
import statsmodels.api as sm

from privest.errors import InvalidInput
from privest.estimator.inference._errors import Scatter, unknown_errors
from privest.estimator.inference._levels import fit_levels, prepared
from privest.estimator.inference._sandwich import (
    WeightedRows,
    row_errors,
    second_pass,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-12}  # well conditioned, n = 3: rounding is far below


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(rows), rng.normal(50, 9, rows), rng.integers(0, 2, rows)])
    z = H @ [3.0, 0.2, -1.0] + rng.normal(size=rows) * (0.5 + rng.random(rows))
    return rng, H, z


def in_blocks(H, z, weight=None, size=17):
    for at in range(0, len(z), size):
        part = slice(at, at + size)
        yield WeightedRows(H[part], z[part], 1.0 if weight is None else weight[part], 0.25)


def test_errors_from_the_release_are_those_of_ordinary_least_squares():
    _, H, z = table()
    known = sm.OLS(z, H).fit()
    A = np.linalg.inv(H.T @ H)
    found = unknown_errors(A, Scatter(known.ssr, 57, 0.1))
    np.testing.assert_allclose(found.covariance, known.cov_params(), **CLOSE)
    assert found.degrees_of_freedom == known.df_resid
    np.testing.assert_allclose(found.floor, np.sqrt(0.1 * np.diag(A)), **CLOSE)
    np.testing.assert_allclose(found.sampling + 0.1 * A, found.covariance, **CLOSE)


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sandwiches_are_those_of_statsmodels(kind, weighted):
    rng, H, z = table()
    weight = rng.uniform(0.2, 5.0, len(z)) if weighted else np.ones(len(z))
    known = sm.WLS(z, H, weights=weight).fit(cov_type=kind)
    A = np.linalg.inv(H.T @ (H * weight[:, None]))

    def rows():
        return in_blocks(H, z, weight if weighted else None)

    found, seen = row_errors(kind, known.params, A, rows)
    np.testing.assert_allclose(A @ seen.meat @ A, known.cov_params(), **CLOSE)
    # The floor is the error of release noise alone: a·A HᵀW²H A, in every direction.
    noise = 0.25 * A @ (H.T @ (H * weight[:, None] ** 2)) @ A
    np.testing.assert_allclose(found.floor, np.sqrt(np.diag(noise)), **CLOSE)
    for least in (noise, known.cov_params()):
        root = np.linalg.inv(np.linalg.cholesky(noise))
        assert np.linalg.eigvalsh(root @ (found.covariance - least) @ root.T)[0] > -1e-9
    assert (found.degrees_of_freedom <= 57).all()


def test_a_scatter_below_the_release_noise_is_raised_to_it_everywhere():
    """Standard error, covariance and interval by the known noise; t where that is wider."""
    A = np.diag([1.0, 4.0])
    low = unknown_errors(A, Scatter(6 * 0.2, 6, 1.0))  # v̂ = .2, the noise alone 1
    np.testing.assert_allclose(low.covariance, A)
    assert np.isinf(low.degrees_of_freedom).all()  # 1.96 is wider than t₆·√.2
    near = unknown_errors(A, Scatter(6 * 0.81, 6, 1.0))
    np.testing.assert_allclose(near.covariance, A)
    half = scipy.stats.t.ppf(0.975, near.degrees_of_freedom)
    np.testing.assert_allclose(half, 0.9 * scipy.stats.t.ppf(0.975, 6), rtol=1e-6)
    assert unknown_errors(A, Scatter(12.0, 6, 1.0)).degrees_of_freedom == 6


def test_a_row_that_stands_alone_has_no_sandwich():
    H = np.column_stack([np.ones(30), np.arange(30) == 3]).astype(float)
    z = np.arange(30.0)
    theta, A = np.linalg.lstsq(H, z)[0], np.linalg.inv(H.T @ H)
    seen = second_pass(in_blocks(H, z), theta, A)
    assert seen.alone
    with pytest.raises(InvalidInput, match="one row alone"):
        row_errors("HC3", theta, A, lambda: in_blocks(H, z))


def dense(H, z, added, variance):
    """P, C and the restricted log-likelihood by matrices."""
    W = np.diag(1 / (variance + added))
    C = np.linalg.inv(H.T @ W @ H)
    P = W - W @ H @ C @ H.T @ W
    _, log = np.linalg.slogdet(H.T @ W @ H)
    return P, C, -0.5 * (np.log(variance + added).sum() + log + z @ P @ z)


def levels(rows, spread, seed, variance=1.0):
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(rows), rng.normal(50, 9, rows)])
    added = 10 ** rng.uniform(-spread / 2, spread / 2, rows)
    z = H @ [3.0, 0.2] + rng.normal(size=rows) * np.sqrt(variance + added)
    return H, z, added


def test_sums_over_blocks_are_those_of_matrices():
    H, z, added = levels(40, 3, 1)

    def blocks():
        for part in (slice(0, 9), slice(9, 9), slice(9, 40)):
            yield WeightedRows(H[part], z[part], added=added[part])

    first = prepared(blocks, 2)
    variances = np.array([0.0, 0.03, 1.0, 50.0])
    sums = first.sums(variances)
    restricted = -0.5 * (sums.logarithm + sums.quadratic)
    base = restricted[0] - dense(H, z, added, 0.0)[2]
    for k, variance in enumerate(variances):
        P, C, likelihood = dense(H, z, added, variance)
        W = np.diag(1 / (variance + added))
        np.testing.assert_allclose(sums.quadratic[k], z @ P @ z, rtol=1e-9)
        np.testing.assert_allclose(sums.score[k], z @ P @ P @ z - np.trace(P), rtol=1e-8)
        np.testing.assert_allclose(first.scale @ sums.inverse[k] @ first.scale.T, C, rtol=1e-9)
        theta = first.start + first.scale @ sums.shift[k]
        np.testing.assert_allclose(theta, C @ H.T @ W @ z, rtol=1e-9)
        # The log-determinants of scaled rows differ by a constant.
        np.testing.assert_allclose(restricted[k] - base, likelihood, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spread", [1, 4])
def test_restricted_likelihood_is_maximal_and_its_interval_exact(seed, spread):
    H, z, added = levels(25, spread, seed, variance=0.3)
    found = fit_levels(lambda: [WeightedRows(H, z, added=added)], 2)
    at = found.noise_variance
    best = dense(H, z, added, at)[2]
    grid = [0.0, *np.geomspace(1e-5, 1e3, 400)]
    assert best >= max(dense(H, z, added, x)[2] for x in grid) - 1e-9
    if at > 0:  # a root of the score, to the digits of the interpolation
        P = dense(H, z, added, at)[0]
        np.testing.assert_allclose(z @ P @ P @ z, np.trace(P), rtol=1e-7)
    low, high = found.noise_interval
    quantiles = scipy.stats.chi2.ppf([0.975, 0.025], 23)
    P, C, _ = dense(H, z, added, high)
    np.testing.assert_allclose(z @ P @ z, quantiles[1], rtol=1e-7)
    if low > 0:
        P, _, _ = dense(H, z, added, low)
        np.testing.assert_allclose(z @ P @ z, quantiles[0], rtol=1e-7)
    weight = 1 / (at + added)
    C, known = dense(H, z, added, at)[1], sm.WLS(z, H, weights=weight).fit(cov_type="HC3")
    noise = C @ H.T @ np.diag(weight**2 * added) @ H @ C
    for least in (noise, known.cov_params()):
        root = np.linalg.inv(np.linalg.cholesky(noise))
        assert np.linalg.eigvalsh(root @ (found.errors.covariance - least) @ root.T)[0] > -1e-7


def test_equal_levels_are_those_of_one_level():
    _, H, z = table(30)
    theta, rss = np.linalg.lstsq(H, z)[:2]
    scatter = Scatter(float(rss[0]), 27, 0.2)
    A = np.linalg.inv(H.T @ H)
    known, _ = row_errors("HC3", theta, A, lambda: [WeightedRows(H, z, 1.0, 0.2)])
    found = fit_levels(lambda: [WeightedRows(H, z, added=0.2)], 3)
    np.testing.assert_allclose(found.value, theta, rtol=1e-9)
    np.testing.assert_allclose(found.noise_variance, scatter.noise_variance, rtol=1e-8)
    np.testing.assert_allclose(found.noise_interval, scatter.noise_interval(), rtol=1e-8)
    np.testing.assert_allclose(found.errors.covariance, known.covariance, rtol=1e-8)
    freedom = found.errors.degrees_of_freedom
    np.testing.assert_allclose(freedom, known.degrees_of_freedom, rtol=1e-6)
    np.testing.assert_allclose(found.errors.classical, scatter.noise_variance * A, rtol=1e-8)


def test_too_little_scatter_is_an_empty_interval_and_no_noise():
    _, H, z = table(30)
    found = fit_levels(lambda: [WeightedRows(H, z, added=50.0)], 3)
    assert found.noise_variance == 0
    assert found.noise_interval is None
    assert found.least_noise < scipy.stats.chi2.ppf(0.025, 27)


def test_as_many_coefficients_as_rows_are_refused():
    with pytest.raises(InvalidInput, match="as many coefficients as rows"):
        fit_levels(lambda: [WeightedRows(np.eye(3), np.ones(3), added=1.0)], 3)
    with pytest.raises(InvalidInput, match="as many coefficients as rows"):
        Scatter(0.0, 0, 1.0)


def test_without_noise_both_parts_are_covariances():
    """Where release noise hides much of the rest: no negative variance, and the parts add up."""
    _, H, _ = table()
    A = np.linalg.inv(H.T @ H)
    for seed in range(5):
        z = np.random.default_rng(seed).normal(size=60)  # release noise alone
        theta = A @ H.T @ z
        found, _ = row_errors("HC3", theta, A, lambda z=z: [WeightedRows(H, z, 1.0, 1.0)])
        for part in (found.sampling, found.covariance - found.sampling):
            values = np.linalg.eigvalsh(part / np.sqrt(np.outer(np.diag(A), np.diag(A))))
            assert values.min() > -1e-9
    plenty, _ = row_errors("HC3", theta, A, lambda: [WeightedRows(H, z, 1.0, 1e-3)])
    np.testing.assert_allclose(plenty.sampling, plenty.covariance - 1e-3 * A, rtol=1e-6, atol=1e-9)

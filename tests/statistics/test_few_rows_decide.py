"""A coefficient that few rows decide, or skewed errors: intervals cover."""

import numpy as np
import pytest
import scipy

from privest.estimator.inference import WeightedRows, row_errors
from privest.estimator.inference._sandwich import row_clusters, second_pass


def category(members, rows=100):
    return np.column_stack([np.ones(rows), np.arange(rows) < members])


def coverage(H, draw, trials, weight=1.0):
    """Of 95 % of the coefficients, whose truth is 0."""
    X = H * np.sqrt(np.broadcast_to(weight, len(H)))[:, None]
    A, held = np.linalg.inv(X.T @ X), np.zeros(H.shape[1])
    for _ in range(trials):
        z = draw()
        theta = A @ H.T @ (weight * z)
        errors, _ = row_errors("auto", theta, A, lambda z=z: [WeightedRows(H, z, weight)])
        half = scipy.special.stdtrit(errors.degrees_of_freedom, 0.975)
        held += np.abs(theta) <= half * np.sqrt(np.diagonal(errors.covariance))
    return held / trials


@pytest.mark.slow
@pytest.mark.parametrize("members", [2, 3, 6])
@pytest.mark.parametrize("size", [1.0, 3.0])
def test_a_category_with_few_rows_is_covered(members, size):
    """HC3 with t_f covered .79, .87 and .92 here; the few may scatter three times as much."""
    rng, H, trials = np.random.default_rng(members), category(members), 1000
    unequal = np.where(H[:, 1] == 1, size, 1.0)
    weight = rng.uniform(0.5, 2.0, 100)
    found = coverage(H, lambda: unequal * rng.normal(size=100), trials, weight)
    assert (found > 0.935 - 4 * np.sqrt(0.05 / trials)).all()


@pytest.mark.slow
def test_skewed_errors_and_unequal_leverage_are_covered():
    """Lognormal errors, K = 50: .89 with t_f; lognormal x with variance ∝ x: .87 to .91."""
    rng, trials = np.random.default_rng(1), 1000
    H = np.column_stack([np.ones(50), rng.normal(size=50)])
    skewed = coverage(H, lambda: np.exp(rng.normal(size=50)) - np.exp(0.5), trials)
    assert skewed.min() > 0.915
    x = np.exp(rng.normal(size=100))
    far = coverage(
        np.column_stack([np.ones(100), x]), lambda: np.sqrt(x) * rng.normal(size=100), trials
    )
    assert far.min() > 0.93


def test_degrees_of_freedom_fall_with_skewness_and_with_few_large_residuals():
    rng = np.random.default_rng(2)
    H, found = np.column_stack([np.ones(200), rng.normal(size=200)]), []
    A = np.linalg.inv(H.T @ H)
    for z in (rng.normal(size=200), np.exp(1.5 * rng.normal(size=200))):
        theta = A @ H.T @ z
        errors, _ = row_errors("HC3", theta, A, lambda z=z: [WeightedRows(H, z)])
        found.append(errors.degrees_of_freedom)
    assert found[0][0] > 100
    assert found[1][0] < 10


@pytest.mark.parametrize("weighted", [False, True])
def test_degrees_of_freedom_are_those_of_matrices(weighted):
    """B = U'U of Bell and McCaffrey by matrices of rows by rows; and CR2 with one row a group."""
    rng = np.random.default_rng(4)
    H = np.column_stack([category(3, 40), 1e6 * rng.lognormal(size=40)])
    weight = rng.uniform(0.2, 5.0, 40) if weighted else np.ones(40)
    X = H * np.sqrt(weight)[:, None]
    A = np.linalg.inv(X.T @ X)
    rows = [WeightedRows(H[:11], np.zeros(11), weight[:11])]
    rows += [WeightedRows(H[11:], np.zeros(29), weight[11:])]
    rest = np.eye(40) - X @ A @ X.T
    known = []
    for j in range(3):
        U = rest * ((X @ A[j]) / np.sqrt(np.diag(rest)))
        B = U.T @ U
        known.append(np.trace(B) ** 2 / np.trace(B @ B))
    np.testing.assert_allclose(row_clusters(rows, np.zeros(3), A)[1], known, rtol=1e-8)
    c = (X @ A) ** 2
    deciding = c.sum(axis=0) ** 2 / (c**2).sum(axis=0)
    np.testing.assert_allclose(second_pass(rows, np.zeros(3), A).deciding, deciding, rtol=1e-8)

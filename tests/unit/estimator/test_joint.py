"""The joint test of several columns: against statsmodels, and its size by simulation."""

import numpy as np
import pytest
import scipy
from statsmodels.multivariate.multivariate_ols import _MultivariateOLS

from privest.errors import InvalidInput
from privest.estimator.inference._errors import joint_test


def fitted(H, Z):
    """B̂, A, EᵀE, f by the plain formulas."""
    A = np.linalg.inv(H.T @ H)
    B = A @ H.T @ Z
    E = Z - H @ B
    return B, A, E.T @ E, len(H) - H.shape[1]


def test_it_is_the_test_of_statsmodels():
    """Hotelling-Lawley of one row of B is T²/f, and its F is exact: the same p."""
    rng = np.random.default_rng(0)
    H = np.column_stack([np.ones(25), rng.normal(size=(25, 2))])
    Z = H @ rng.normal(size=(3, 4)) * 0.3 + rng.normal(size=(25, 4)) * [1.0, 5.0, 0.1, 2.0]
    found = joint_test(*fitted(H, Z), np.ones(4))
    peer = _MultivariateOLS(Z, H).fit()
    for j in range(3):
        table = peer.mv_test([("one", np.eye(3)[[j]])]).results["one"]["stat"]
        row = table.loc["Hotelling-Lawley trace"]
        assert found.statistic[j] / 22 == pytest.approx(float(row["Value"]), rel=1e-9)
        assert found.p_value[j] == pytest.approx(float(row["Pr > F"]), rel=1e-8)
    assert found.freedom == (4, 19)


def test_one_column_is_the_square_of_t():
    rng = np.random.default_rng(1)
    H, z = np.column_stack([np.ones(9), rng.normal(size=9)]), rng.normal(size=(9, 1))
    B, A, squares, f = fitted(H, z)
    found = joint_test(B, A, squares, f, [1.0])
    t = B[:, 0] / np.sqrt(squares[0, 0] / f * np.diag(A))
    assert np.allclose(found.statistic, t**2)
    assert np.allclose(found.p_value, 2 * scipy.stats.t.sf(np.abs(t), f))


def test_its_size_is_exact_at_twenty_rows():
    """5 % of 4000 releases: ± .0034; four of them. χ²_q instead would say 12 %."""
    rng, K, q, trials = np.random.default_rng(2), 20, 3, 20_000
    H = np.column_stack([np.ones(K), rng.normal(size=(K, 2))])
    f, A = K - 3, np.linalg.inv(H.T @ H)
    root = np.linalg.cholesky(0.4 * np.eye(q) + 0.6)
    noise = np.sqrt([0.1, 1.0, 4.0])
    Z = rng.normal(size=(trials, K, q)) @ root.T + rng.normal(size=(trials, K, q)) * noise
    B = A @ (H.T @ Z)
    E = Z - H @ B
    squares = E.transpose(0, 2, 1) @ E
    found = [joint_test(b, A, s, f, noise**2) for b, s in zip(B[:4000], squares[:4000])]
    p = np.array([one.p_value[1] for one in found])
    assert abs((p < 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 4000)
    by_normal = np.array([one.statistic[1] for one in found]) > scipy.stats.chi2.ppf(0.95, q)
    assert by_normal.mean() > 0.09
    # Σ̂ is unbiased, entry by entry, and mostly no covariance: both by all the trials.
    sigma = squares / f - np.diag(noise**2)
    spread = sigma.std(axis=0) / np.sqrt(trials)
    assert (np.abs(sigma.mean(axis=0) - root @ root.T) < 4.5 * spread).all()
    assert (np.linalg.eigvalsh(sigma)[:, 0] < 0).mean() > 0.5


def test_what_is_shown_is_a_covariance_and_tests_are_not_touched():
    found = joint_test([[1.0, 2.0]], [[0.5]], np.diag([2.0, 8.0]), 4, [1.0, 1.0])
    assert found.covariance.tolist() == [[-0.5, 0.0], [0.0, 1.0]]
    assert found.shown_covariance.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert found.to_dict()["shown_covariance"] == [[0.0, 0.0], [0.0, 1.0]]


def test_units_decide_nothing():
    rng = np.random.default_rng(3)
    H = np.column_stack([np.ones(12), rng.normal(size=12)])
    Z, units = rng.normal(size=(12, 3)), np.array([1e-9, 1.0, 1e9])
    one = joint_test(*fitted(H, Z), np.zeros(3))
    other = joint_test(*fitted(H, Z * units), np.zeros(3))
    assert np.allclose(one.p_value, other.p_value, rtol=1e-8)


def test_too_few_rows_have_no_test():
    found = joint_test(np.ones((2, 3)), np.eye(2), np.eye(3), 2, np.ones(3))
    assert found.p_value is None
    assert found.statistic is None


def test_columns_that_are_tied_or_exact_are_refused():
    with pytest.raises(InvalidInput, match="tied"):
        joint_test(np.ones((1, 2)), np.eye(1), np.ones((2, 2)), 5, np.zeros(2))
    with pytest.raises(InvalidInput, match="exactly"):
        joint_test(np.ones((1, 2)), np.eye(1), np.diag([1.0, 0.0]), 5, np.zeros(2))
    with pytest.raises(InvalidInput, match="need"):
        joint_test(np.ones((1, 2)), np.eye(2), np.eye(2), 5, np.zeros(2))

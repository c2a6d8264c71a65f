"""A coefficient that few rows decide: its interval covers, and its errors are Bell-McCaffrey's."""

import numpy as np
import pytest
import scipy

from privest.estimator.inference import Scatter, WeightedRows, row_errors, survey_errors
from privest.estimator.inference._choosing import DECIDED
from privest.estimator.inference._row_freedom import row_freedom
from privest.estimator.inference._sandwich import row_clusters, second_pass

ROWS = 100


def category(members, rows=ROWS):
    return np.column_stack([np.ones(rows), np.arange(rows) < members])


def chosen(H, z, weight=1.0):
    """θ̂ and the errors that "auto" takes."""
    X = H * np.sqrt(np.broadcast_to(weight, len(z)))[:, None]
    A = np.linalg.inv(X.T @ X)
    theta = A @ H.T @ (weight * z)
    scatter = Scatter(float(((z - H @ theta) ** 2).sum()), len(z) - H.shape[1], 0.0)
    rows = [
        WeightedRows(H[:37], z[:37], _first(weight)),
        WeightedRows(H[37:], z[37:], _rest(weight)),
    ]
    if np.ndim(weight):
        return theta, survey_errors("auto", theta, A, scatter, lambda: rows)
    return theta, row_errors("auto", theta, A, scatter, lambda: rows)[0]


def _first(weight):
    return weight[:37] if np.ndim(weight) else weight


def _rest(weight):
    return weight[37:] if np.ndim(weight) else weight


def coverage(H, trials, rng, power, weight=1.0, size=1.0):
    """Of 95 % with the sandwich of this power and the degrees of freedom that "auto" takes."""
    freedom = chosen(H, rng.normal(size=len(H)), weight)[1].degrees_of_freedom
    XtW = (H * np.broadcast_to(weight, len(H))[:, None]).T
    influence = np.linalg.inv(XtW @ H) @ XtW  # θ̂ = influence·z
    leverage = np.einsum("ij,ji->i", H, influence)
    z = rng.normal(size=(trials, len(H))) * size
    theta = z @ influence.T
    error = np.sqrt(((z - theta @ H.T) ** 2 / (1 - leverage) ** power) @ (influence**2).T)
    return (np.abs(theta) <= scipy.special.stdtrit(freedom, 0.975) * error).mean(axis=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("members", [2, 3, 6])
def test_a_category_with_few_rows_is_covered(members, weighted):
    """HC3 with t_f covered .79, .87 and .92 here."""
    trials, rng = 20_000, np.random.default_rng(members)
    H = category(members)
    weight = rng.uniform(0.5, 2.0, ROWS) if weighted else 1.0
    _, errors = chosen(H, rng.normal(size=ROWS), weight)
    assert errors.method.startswith("HC2, Bell-McCaffrey")
    least = 0.945 - 4 * np.sqrt(0.95 * 0.05 / trials)  # Satterthwaite's: nearly, not exactly .95
    assert (coverage(H, trials, rng, 1.0, weight) > least).all()
    unequal = np.where(H[:, 1] == 1, 3.0, 1.0)  # the few scatter three times as much
    assert (coverage(H, trials, rng, 1.0, weight, unequal) > least - 0.01).all()


def test_errors_are_those_of_the_vectorised_trials():
    """The formula of `coverage` is what the library does: so the trials above are trials of it."""
    rng = np.random.default_rng(8)
    H, z = category(3), rng.normal(size=ROWS)
    for weight in (1.0, rng.uniform(0.5, 2.0, ROWS)):
        theta, errors = chosen(H, z, weight)
        XtW = (H * np.broadcast_to(weight, ROWS)[:, None]).T
        influence = np.linalg.inv(XtW @ H) @ XtW
        left = (z - H @ theta) ** 2 / (1 - np.einsum("ij,ji->i", H, influence))
        np.testing.assert_allclose(np.diag(errors.covariance), influence**2 @ left, rtol=1e-12)


def test_the_number_of_rows_that_must_decide_is_where_hc3_covers_as_the_notes_say():
    """P(|t_{m−1}| < 1.96√(m/(m − 1))) reaches .938, the least of HC3's figures, at DECIDED."""
    m = np.arange(2, 60)
    limit = scipy.special.ndtri(0.975) * np.sqrt(m / (m - 1))
    covers = 1 - 2 * scipy.special.stdtr(m - 1, -limit)
    assert m[covers >= 0.938].min() == DECIDED
    for members, way in ((DECIDED - 2, "HC2, Bell"), (DECIDED + 1, "HC3")):
        H = category(members, 10_000)
        assert chosen(H, np.random.default_rng(0).normal(size=10_000))[1].method.startswith(way)


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
    np.testing.assert_allclose(row_freedom(rows, A), known, rtol=1e-8)
    groups = row_clusters(rows, np.zeros(3), A)
    np.testing.assert_allclose(row_freedom(rows, A), groups.degrees_of_freedom, rtol=1e-8)
    c = (X @ A) ** 2
    deciding = c.sum(axis=0) ** 2 / (c**2).sum(axis=0)
    np.testing.assert_allclose(second_pass(rows, np.zeros(3), A).deciding, deciding, rtol=1e-8)

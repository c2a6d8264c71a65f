"""CR2 with Bell-McCaffrey degrees of freedom, from sums of groups, against the literal formulas."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import binom, t

from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.inference import ClusterSums, cluster_errors, group_sums
from privest.estimator.inference import _cluster as cluster


def inverse_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(values)) @ vectors.T


def literal(rows, readings, labels):
    """CR2 and df as they are written in the papers: matrices of all rows by all rows."""
    inverse = np.linalg.inv(rows.T @ rows)
    left = np.eye(len(rows)) - rows @ inverse @ rows.T
    residuals = left @ readings
    found = np.zeros(inverse.shape)
    groups = [np.flatnonzero(labels == g) for g in np.unique(labels)]
    roots = [inverse_root(left[np.ix_(at, at)]) for at in groups]
    for at, root in zip(groups, roots):
        score = inverse @ rows[at].T @ root @ residuals[at]
        found += np.outer(score, score)
    freedom = []
    for j in range(rows.shape[1]):
        columns = [left[:, at] @ root @ rows[at] @ inverse[j] for at, root in zip(groups, roots)]
        between = np.array(columns) @ np.array(columns).T
        freedom.append(np.trace(between) ** 2 / np.trace(between @ between))
    return found, np.array(freedom)


def example(rng, groups=9, most=7):
    """Scattered rows of unequal groups; a feature within, one between groups."""
    labels = np.repeat(np.arange(groups), rng.integers(1, most, groups))
    rng.shuffle(labels)
    between = rng.standard_normal(groups)[labels]
    rows = np.column_stack([np.ones(len(labels)), between, rng.standard_normal(len(labels)) * 50])
    return rows, rng.standard_normal(len(labels)), labels


def sums_of(rows, readings, labels):
    together = group_sums(np.column_stack([rows, readings]), labels, labels.max() + 1)
    matrices, right = together[:, :-1, :-1], together[:, :-1, -1]
    estimate = np.linalg.solve(matrices.sum(axis=0), right.sum(axis=0))
    return matrices, right - matrices @ estimate


@pytest.mark.parametrize("seed", range(5))
def test_the_sums_give_the_literal_formulas(seed):
    rows, readings, labels = example(np.random.default_rng(seed))
    found = cluster_errors(*sums_of(rows, readings, labels))
    covariance, freedom = literal(rows, readings, labels)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.degrees_of_freedom, freedom, rtol=1e-9)
    assert found.groups == labels.max() + 1
    assert not found.refused.any()
    assert found.reason(["a", "b", "c"]) is None


def test_groups_of_one_row_are_hc2():
    """Of one row a group CR2 is HC2: squared residuals over 1 − leverage."""
    rng = np.random.default_rng(5)
    rows, readings = rng.standard_normal((20, 2)), rng.standard_normal(20)
    found = cluster_errors(*sums_of(rows, readings, np.arange(20)))
    inverse = np.linalg.inv(rows.T @ rows)
    left = np.eye(20) - rows @ inverse @ rows.T
    weights = (left @ readings) ** 2 / left.diagonal()
    expected = inverse @ (rows.T * weights) @ rows @ inverse
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-11)


def test_batches_give_the_same():
    matrices, scores = sums_of(*example(np.random.default_rng(1)))
    whole = cluster_errors(matrices, scores)
    sums = ClusterSums(matrices.sum(axis=0))
    for at in range(len(matrices)):
        sums.add(matrices[at : at + 1], scores[at : at + 1])
    parts = sums.errors()
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-12)
    np.testing.assert_allclose(parts.degrees_of_freedom, whole.degrees_of_freedom, rtol=1e-12)
    assert parts.groups == whole.groups == len(matrices)


def test_many_small_groups_have_roots_by_series(monkeypatch):
    """To rounding those by eigenvalues; one group is large, and is not done by the series."""
    rng = np.random.default_rng(9)
    labels = np.r_[np.zeros(300, dtype=int), np.repeat(np.arange(1, 700), 2)]
    rows = np.column_stack([np.ones(len(labels)), rng.standard_normal((len(labels), 2))])
    sums = sums_of(rows, rng.standard_normal(len(labels)), labels)
    found = cluster_errors(*sums)
    monkeypatch.setattr(cluster, "SMALL", 0.0)
    exact = cluster_errors(*sums)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(found.degrees_of_freedom, exact.degrees_of_freedom, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-16, 1e-6, 1e-3, 0.0155])
def test_the_series_is_the_root(size):
    """Relative to 1, with an eigenvalue as large as is said, and others below."""
    basis, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)))
    shares = (basis * np.array([size, size / 2, size / 3, 0.0])) @ basis.T
    found = cluster._series(shares[None], np.eye(4)[None], size)[0]
    np.testing.assert_allclose(found, inverse_root(np.eye(4) - shares), atol=4e-15)


def test_trials_at_once():
    rng = np.random.default_rng(2)
    matrices, scores = sums_of(*example(rng))
    many = np.stack([scores, 2 * scores])
    found = cluster_errors(matrices, many).covariance
    np.testing.assert_allclose(found[1], 4 * found[0], rtol=1e-12)
    np.testing.assert_allclose(found[0], cluster_errors(matrices, scores).covariance, rtol=1e-12)


def test_what_one_group_decides_alone_has_no_interval():
    """A dummy of one person: refused, and the rest is as without that person's own part."""
    rng = np.random.default_rng(3)
    rows, readings, labels = example(rng, groups=8, most=5)
    rows = np.column_stack([rows, labels == 2])
    found = cluster_errors(*sums_of(rows, readings, labels))
    assert found.refused.tolist() == [False, False, False, True]
    assert np.isnan(found.covariance[3]).all()
    assert np.isnan(found.degrees_of_freedom[3])
    assert found.reason(["one", "b", "w", "dummy"]).startswith("a single group decides dummy:")
    # the limit: a dummy that all others have by a hair is literal's business still
    near = rows.copy()
    near[:, 3] += 1e-3 * rng.standard_normal(len(rows)) * (labels != 2)
    covariance, freedom = literal(near, readings, labels)
    np.testing.assert_allclose(found.covariance[:3, :3], covariance[:3, :3], rtol=0.05, atol=1e-4)
    np.testing.assert_allclose(found.degrees_of_freedom[:3], freedom[:3], rtol=0.05)


def test_one_group_has_no_interval_at_all():
    rows, readings, labels = example(np.random.default_rng(4))
    found = cluster_errors(*sums_of(rows, readings, np.zeros(len(labels), dtype=int)))
    assert found.refused.all()
    assert "one person only" in found.reason(["a", "b", "c"], "person")


def test_what_cannot_be_told_apart_is_refused():
    rows, _, labels = example(np.random.default_rng(4))
    twice = np.column_stack([rows, 2 * rows[:, 1]])
    matrices = group_sums(twice, labels, labels.max() + 1)
    with pytest.raises(NotIdentifiable, match="cannot be told apart"):
        cluster_errors(matrices, np.zeros((len(matrices), 4)))
    with pytest.raises(NotIdentifiable):
        ClusterSums(np.zeros((2, 2)))


def test_shapes_are_checked():
    sums = ClusterSums(np.eye(2))
    with pytest.raises(InvalidInput, match="no group"):
        sums.errors()
    with pytest.raises(InvalidInput, match=r"received \(3, 2, 2\) and \(2, 2\)"):
        sums.add(np.ones((3, 2, 2)), np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="square"):
        ClusterSums(np.ones((2, 3)))
    for labels in ([0, 2], [0.0, 1.0], [0], [-1, 0]):
        with pytest.raises(InvalidInput, match="labels must be 2 whole numbers from 0 to 1"):
            group_sums(np.ones((2, 1)), labels, 2)


def coverage(groups, trials, rng, sizes=(1, 2, 5, 20)):
    """Of 95 % intervals (intercept, between, within) with person effects, unequal groups."""
    counts = np.resize(sizes, groups)
    labels = np.repeat(np.arange(groups), counts)
    between, within = rng.standard_normal(groups)[labels], rng.standard_normal(len(labels))
    rows = np.column_stack([np.ones(len(labels)), between, within])
    rows /= np.sqrt(counts[labels])[:, None]  # design A: noise r/s a row
    noise = rng.standard_normal((trials, len(labels)))
    effect = 0.7 * rng.standard_normal((trials, groups))[:, labels] / np.sqrt(counts[labels])
    own = 0.7 * rng.standard_normal((trials, len(labels))) / np.sqrt(counts[labels])
    readings = noise + effect + own
    inverse = np.linalg.inv(rows.T @ rows)
    estimates = readings @ rows @ inverse
    left = readings - estimates @ rows.T
    starts = np.r_[0, counts.cumsum()[:-1]]
    scores = np.stack([np.add.reduceat(left * x, starts, axis=1) for x in rows.T], axis=-1)
    found = cluster_errors(group_sums(rows, labels, groups), scores)
    half = t.ppf(0.975, found.degrees_of_freedom) * found.standard_error
    return (np.abs(estimates) <= half).mean(axis=0)


@pytest.mark.parametrize("groups", [15, 40])
def test_intervals_cover(groups):
    """real-tables.md says .936 to .982; the Monte Carlo part is five deviations at .945."""
    trials = 4000
    covered = coverage(groups, trials, np.random.default_rng(groups))
    low = binom.ppf(3e-7, trials, 0.936) / trials
    assert (covered >= low).all()
    assert (covered <= 0.99).all()


@pytest.mark.slow
@pytest.mark.parametrize("groups", [15, 40, 100])
def test_intervals_cover_by_designs(groups):
    """Forty designs each: 93 to 98 % on average, none far below."""
    rng = np.random.default_rng(groups)
    covered = np.array([coverage(groups, 2000, rng) for _ in range(40)])
    assert (covered.mean(axis=0) > 0.93).all()
    assert (covered.mean(axis=0) < 0.98).all()
    assert covered.min() > 0.90


def test_block_diagonal_noise_is_unbiased():
    """E cov = A where the noise is white (what CR2 is made for): by the quadratic form itself."""
    rows, _, labels = example(np.random.default_rng(8), groups=6, most=4)
    order = np.argsort(labels, kind="stable")
    rows, labels = rows[order], labels[order]
    inverse = np.linalg.inv(rows.T @ rows)
    left = np.eye(len(rows)) - rows @ inverse @ rows.T
    groups = [np.flatnonzero(labels == g) for g in np.unique(labels)]
    whole = block_diag(*[inverse_root(left[np.ix_(at, at)]) for at in groups]) @ left
    expected = sum(
        inverse @ rows[at].T @ (whole @ whole.T)[np.ix_(at, at)] @ rows[at] @ inverse
        for at in groups
    )
    np.testing.assert_allclose(expected, inverse, rtol=1e-9, atol=1e-12)
    # and the sums give it: readings are the unit vectors, added up
    matrices = group_sums(rows, labels, len(groups))
    scores = np.stack([
        np.stack([rows[at].T @ left[at, k] for at in groups]) for k in range(len(rows))
    ])  # fmt: skip
    found = cluster_errors(matrices, scores).covariance.sum(axis=0)
    np.testing.assert_allclose(found, inverse, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("sizes", [(3, 3, 3), (1, 0, 4, 100, 4), (70,)])
def test_sums_of_groups_are_those_of_their_rows(sizes, ordered):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    labels = labels if ordered else rng.permutation(labels)
    rows = rng.standard_normal((len(labels), 4))
    expected = [rows[labels == k].T @ rows[labels == k] for k in range(len(sizes))]
    np.testing.assert_allclose(group_sums(rows, labels, len(sizes)), expected, atol=1e-12)

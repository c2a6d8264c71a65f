"""Maximum likelihood from clipped readings: the maximum, its covariance, errors."""

import numpy as np
import pytest
import scipy.optimize

import privest as pv
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import (
    ClippedRows,
    cost_by_share,
    cost_of_rows,
    estimate_clipped,
    maximum_likelihood,
)
from privest.estimator.likelihood import ClippedLikelihood

THETA = np.array([0.3, 1.0, -0.8])
LOW, HIGH, LEVEL = -2.0, 2.5, 2.0


def clipped_release(rows=400, seed=0, low=LOW, high=HIGH):
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    y = H @ THETA + rng.standard_normal(rows)
    return H, np.clip(y, low, high) + rng.standard_normal(rows) / np.sqrt(LEVEL)


def rows_of(H, z):
    return ClippedRows(H, z, 1.0, LEVEL, LOW, HIGH)


def test_it_is_the_maximum_that_others_find():
    """Newton on the same likelihood, and scipy on its value: to 1e-6 standard errors and 1e-5."""
    H, z = clipped_release()
    found = estimate_clipped(rows_of(H, z))
    likelihood = ClippedLikelihood(1.0, noise=1 / LEVEL, low=LOW, high=HIGH)
    other = maximum_likelihood(H, z, likelihood, starts=0)
    assert other.converged.all()
    assert np.abs((found.value - other.value[0]) / found.standard_error).max() < 1e-6
    assert found.log_likelihood == pytest.approx(other.log_likelihood[0], rel=1e-13)
    by_value = scipy.optimize.minimize(
        lambda theta: -likelihood.value(z, H @ theta).sum(), np.zeros(3), tol=1e-12
    )
    assert np.abs((found.value - by_value.x) / found.standard_error).max() < 1e-5


def test_without_clipping_it_is_weighted_least_squares_at_the_bound():
    H, z = clipped_release(low=-1e3, high=1e3)
    level = np.linspace(1.0, 3.0, len(H))
    found = estimate_clipped(ClippedRows(H, z, 1.0, level, -1e3, 1e3), names=("a", "b", "c"))
    weight = 1 / (1 + 1 / level)
    information = H.T @ (weight[:, None] * H)
    plain = np.linalg.solve(information, H.T @ (weight * z))
    assert np.abs(found.value - plain).max() < 1e-12
    assert np.abs(found.covariance @ information - np.eye(3)).max() < 1e-8  # that of the table
    bound = pv.bound(pv.LinearModel(H, noise=1.0), level)
    assert np.abs(found.bound - bound.covariance).max() < 1e-13
    assert np.abs(found.classical - bound.classical).max() < 1e-13
    assert found.efficiency == pytest.approx(1.0, abs=1e-8)
    assert (found.clipped, found.names) == (0.0, ("a", "b", "c"))


def test_the_rounding_of_a_real_release_is_counted():
    """With τ² = (1 + 3g²/4)/s; g = 1 here, so that it shows."""
    H, z = clipped_release(low=-1e3, high=1e3)
    given = ClippedRows(H, z, 1.0, LEVEL, -1e3, 1e3)
    plain, rounded = (estimate_clipped(given, noise_variance=v) for v in (1.0, 1.75))
    ratio = (1 + 1.75 / LEVEL) / (1 + 1 / LEVEL)
    assert np.abs(rounded.covariance / plain.covariance - ratio).max() < 1e-8
    assert np.abs(rounded.bound - plain.bound).max() < 1e-15


def test_missing_readings_are_left_out():
    H, z = clipped_release()
    gone = np.arange(len(z)) % 7 == 0
    whole = estimate_clipped(rows_of(H[~gone], z[~gone]))
    found = estimate_clipped(rows_of(H, np.where(gone, np.nan, z)))
    np.testing.assert_array_equal(found.value, whole.value)
    np.testing.assert_array_equal(found.covariance, whole.covariance)
    assert found.measurements == whole.measurements == (~gone).sum()


def test_an_ill_conditioned_design_keeps_its_digits():
    """A column of size 1e6 with a nearly dependent one: the same fit in the original units."""
    H, z = clipped_release()
    change = np.array([[1.0, 1e6, 0.0], [0.0, 1.0, 1e-5], [0.0, 0.0, 1e-5]])
    plain, turned = (estimate_clipped(rows_of(G, z)) for G in (H, H @ change))
    assert np.abs((change @ turned.value - plain.value) / plain.standard_error).max() < 1e-6


def test_the_cost_is_that_of_the_estimate():
    """At θ̂: the covariance and the share are those of the result, least squares by Monte Carlo."""
    H, z = clipped_release(rows=300)
    found = estimate_clipped(rows_of(H, z))
    cost = cost_of_rows(H, found.value, 1.0, LEVEL, (LOW, HIGH))
    assert cost.share == pytest.approx(found.clipped, rel=1e-6)
    assert np.abs(cost.standard_error / found.standard_error - 1).max() < 1e-6
    ratio = np.diagonal(found.covariance) / np.diagonal(found.bound)
    assert np.abs(cost.variance_ratio / ratio - 1).max() < 1e-6
    assert (cost.variance_ratio > 1).all()
    rng, trials = np.random.default_rng(3), 20_000
    y = H @ found.value + rng.standard_normal((trials, len(H)))
    noisy = np.clip(y, LOW, HIGH) + rng.standard_normal(y.shape) / np.sqrt(LEVEL)
    error = noisy @ np.linalg.pinv(H).T - found.value
    deviation = error.std(axis=0) / np.sqrt(trials)
    assert (np.abs(error.mean(axis=0) - cost.bias) < 5 * deviation).all()
    naive = (error**2).mean(axis=0) / np.diagonal(found.bound)
    spread = (error**2).std(axis=0) / np.sqrt(trials) / np.diagonal(found.bound)
    assert (np.abs(naive - cost.least_squares_ratio) < 5 * spread).all()
    assert cost.to_dict()["rows"] == 300


def test_the_cost_by_share_is_that_of_one_mean():
    """A column of ones whose mean is so far from one end, or from both."""
    found = cost_by_share(4.0, 0.5, (-1.0, 5.0))
    assert found.least_share == pytest.approx(0.1336, abs=1e-4)  # 2Φ(−1.5)
    ones = np.ones((10, 1))
    for share, one, both, bias in zip(found.share, found.one_end, found.both_ends, found.bias):
        single = -2.0 * scipy.special.ndtri(share)
        alone = cost_of_rows(ones, [0.0], 4.0, 0.5, (-single, 1e4))
        assert alone.share == pytest.approx(share, rel=1e-9)
        assert alone.variance_ratio[0] == pytest.approx(one, rel=1e-8)
        assert alone.bias[0] == pytest.approx(bias, rel=1e-9)
        double = -2.0 * scipy.special.ndtri(share / 2)
        middle = cost_of_rows(ones, [0.0], 4.0, 0.5, (-double, double))
        assert middle.variance_ratio[0] == pytest.approx(both, rel=1e-8)
    assert (np.diff(found.one_end) > 0).all()
    assert found.variance == 4.0


def test_what_clipping_hides_is_told():
    """All readings of a group are above the range, and so is their mean release: Σℓ rises for ever
    with its coefficient, and what is left of the information goes to 0.
    """
    rng = np.random.default_rng(5)
    group = np.repeat([0.0, 1.0], 100)
    H = np.column_stack([np.ones(200), group])
    y = H @ [0.0, 60.0] + rng.standard_normal(200)
    z = np.clip(y, -2.0, 2.0) + rng.standard_normal(200)
    z[100:] += 2.5 - z[100:].mean()
    with pytest.raises(NotIdentifiable, match="wider range"):
        estimate_clipped(ClippedRows(H, z, 1.0, 1.0, -2.0, 2.0))
    with pytest.raises(NotIdentifiable, match="wider range"):
        cost_of_rows(H, [0.0, 60.0], 1.0, 1.0, (-2.0, 2.0))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"z": np.zeros(3)}, "shape"),
        ({"variance": 0.0}, "must be > 0"),
        ({"level": np.ones(3)}, "one a row"),
        ({"low": 3.0}, "low < high"),
        ({"z": np.full(400, np.nan)}, "no rows"),
        ({"H": np.ones((400, 2))}, "do not determine"),
        ({"H": np.full((400, 2), np.inf)}, "finite"),
    ],
)
def test_bad_rows_are_told(change, match):
    H, z = clipped_release()
    with pytest.raises((InvalidInput, NotIdentifiable), match=match):
        estimate_clipped(rows_of(H, z)._replace(**change))

"""Releases whose readings may all lie beyond an end of the range: no finite interval is claimed."""

import math

import numpy as np
import pytest

from privest.errors import NotIdentifiable
from privest.estimator import ClippedRows, estimate_clipped
from privest.estimator.likelihood._clipped import clipped_terms
from privest.estimator.regression import PrivateLinearRegression

KNOWN = pytest.mark.parametrize("known", [True, False])


def release(mean, sigma, level, rows=30, seed=0):
    """H with an intercept, and z of readings that are clipped to 0 … 1."""
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(rows), rng.standard_normal(rows)])
    y = np.clip(mean + sigma * rng.standard_normal(rows), 0.0, 1.0)
    return H, y + rng.standard_normal(rows) / math.sqrt(level)


@KNOWN
@pytest.mark.parametrize(("mean", "level", "side"), [(5, 1e6, "above"), (-5, 100, "below")])
def test_readings_that_all_lie_beyond_have_no_estimate(mean, level, side, known):
    """Over seeds: a narrow interval about the end for readings of 5 was the error."""
    said = []
    for seed in range(20):
        H, z = release(mean, 0.0, level, seed=seed)
        rows = ClippedRows(H, z, 1e-9 if known else 1.0, level, 0.0, 1.0)
        try:
            estimate_clipped(rows, variance_known=known)
        except NotIdentifiable as error:
            said.append(str(error))
    assert len(set(said)) == 1
    assert f"may lie {side} the range" in said[0]
    assert "wider public range" in said[0]
    assert len(said) >= 18  # of 20, each missed with a chance of 1 %: 3 or more once in 1000


def test_the_likelihood_is_flat_there():
    """Why: moving the mean from just beyond the end to far beyond changes no row's likelihood."""
    _, z = release(5.0, 0.0, 1e4)
    near, far = (
        clipped_terms(z, np.full(30, eta), 1e-3, 1e-2, 0.0, 1.0)[0].sum() for eta in (1.1, 50.0)
    )
    assert near == pytest.approx(far, abs=1e-9)


@KNOWN
def test_a_fifth_clipped_keeps_its_interval(known):
    H, z = release(0.5, 0.4, 100.0, rows=400)  # P(|N| > 1.25) = 21 %
    rows = ClippedRows(H, z, 0.16 if known else 1.0, 100.0, 0.0, 1.0)
    found = estimate_clipped(rows, variance_known=known)
    low, high = found.interval()[0]
    assert low < 0.5 < high
    assert high - low < 0.3


def test_a_model_that_cannot_leave_the_range_is_not_said_to():
    """Without an intercept and with x of both signs no θ puts all rows on one side."""
    rng = np.random.default_rng(4)
    x, z = rng.standard_normal((30, 1)), 1.0 + rng.standard_normal(30) / 10
    with pytest.raises(NotIdentifiable, match="may lie above the range"):
        estimate_clipped(ClippedRows(np.abs(x), z, 0.01, 100.0, 0.0, 1.0))
    assert np.isfinite(estimate_clipped(ClippedRows(x, z, 0.01, 100.0, 0.0, 1.0)).value).all()


@pytest.mark.parametrize("noise", [None, 1e-6])
def test_the_regression_says_so(noise):
    x = np.linspace(-1, 1, 50)[:, None]
    model = PrivateLinearRegression(
        level=1e4, noise=noise, range=(0.0, 1.0), simulate=True, random_state=0
    )
    with pytest.raises(NotIdentifiable, match="all measurements may lie above the range"):
        model.fit(x, np.full(50, 5.0))
    assert model.fit(x, 0.5 + 0.3 * x[:, 0]).result_.standard_error.max() < 0.1


@pytest.mark.parametrize("seed", [232, 274])
def test_a_variance_that_cannot_be_told_from_the_mean_is_said(seed):
    """28 of 30 readings beyond: the joint information was not positive, and numpy's error came."""
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(30), rng.standard_normal(30)])
    z = np.append([0.5, 0.5], np.ones(28)) + rng.standard_normal(30) / 10
    with pytest.raises(NotIdentifiable, match="does not tell the measurement noise variance"):
        estimate_clipped(ClippedRows(H, z, 1.0, 100.0, 0.0, 1.0), variance_known=False)


def test_few_rows_at_a_low_level_are_uncertain_and_not_beyond():
    """Readings in the middle of the range, under noise wider than it: nothing is concluded."""
    rng, H, said = np.random.default_rng(3), np.ones((30, 1)), []
    for _ in range(20):
        z = 5 + rng.standard_normal(30) / np.sqrt(0.0026)
        try:
            estimate_clipped(ClippedRows(H, z, 1.0, 0.0026, 0.0, 10.0))
        except NotIdentifiable as error:  # the maximum is far outside: another refusal
            said.append(str(error))
    assert not any("may lie" in one for one in said)

"""Errors of a stream whose residual variance is unknown, and doubts about a release."""

import numpy as np
import scipy

import privest as pv

LEVEL, COUNT, NAMES = pv.StreamLevel.constant(4.0), 400, ("mean", "slope")


def learnt(values, variance=None):
    """An estimator of a mean and a slope from releases with these values."""
    H = np.column_stack([np.ones(COUNT), np.linspace(-1, 1, COUNT)])
    noise = pv.noise.Gaussian(cov=[0.0] if variance is None else variance)
    rls = pv.PrivateRLS(LEVEL, 2, noise)
    rls.update(pv.Release(0, COUNT, values, None, LEVEL.fingerprint, True), H)
    return rls, H


def test_intervals_are_students_and_no_shorter_than_release_noise_allows():
    rng = np.random.default_rng(1)
    values = 2 * rng.standard_normal(COUNT) + rng.standard_normal(COUNT)
    rls, H = learnt(values)
    found = rls.result_unknown(NAMES, COUNT)
    inverse, z = np.linalg.inv(H.T @ H), values / 2
    rest = z - H @ np.linalg.lstsq(H, z)[0]
    error = np.sqrt(rest @ rest / (COUNT - 2) * inverse.diagonal())
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)
    half = scipy.stats.t.ppf(0.975, COUNT - 2) * error
    np.testing.assert_allclose(np.diff(found.interval())[:, 0] / 2, half, rtol=1e-9)
    assert rls.doubts(COUNT, known=False) == []
    # Hardly any scatter: the privacy noise that is known to be there is the floor.
    quiet = learnt(0.01 * rng.standard_normal(COUNT))[0]
    floor = scipy.stats.norm.ppf(0.975) * np.sqrt(inverse.diagonal() / 4)
    ends = quiet.result_unknown(NAMES, COUNT).interval()
    np.testing.assert_allclose(np.diff(ends)[:, 0] / 2, floor, rtol=1e-9)
    assert "less noise than they say" in quiet.doubts(COUNT, known=False)[0]


def test_a_wrong_variance_is_doubted_and_a_right_one_is_not():
    rng = np.random.default_rng(2)
    values = np.sqrt(1 + 4 * 0.25) * rng.standard_normal(COUNT)  # σ² = 0.25
    assert learnt(values, 0.25)[0].doubts(COUNT) == []
    assert "that variance is wrong" in learnt(values, 1.0)[0].doubts(COUNT)[0]


def test_without_a_value_to_spare_there_is_no_error():
    rls, _ = learnt(np.zeros(COUNT))
    assert np.isnan(rls.result_unknown(NAMES, 2).standard_error).all()
    assert rls.doubts(2) == []

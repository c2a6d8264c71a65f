"""A noise that the readings of a day share: what it shows of a reading and of their mean."""

from fractions import Fraction

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.privacy.parts import rows_of_parts


@pytest.mark.parametrize("readings", [2, 7, 24])
def test_the_mean_and_every_reading_are_shown_at_most_at_the_level(readings):
    """S = (s/r)P₁ + s(I − P₁), never above it: decided in rationals."""
    s = 0.3
    level = pv.EndlessLevel.shared(s, readings)
    root = level.blocks(0, 1)[0, 0]
    d, o = Fraction(float(root[0, 0])), Fraction(float(root[0, 1]))
    assert (d - o) ** 2 <= Fraction(s)  # its eigenvalues: differences, and the mean
    assert readings * (d + (readings - 1) * o) ** 2 <= Fraction(s)
    ones = np.ones((readings, readings)) / readings
    wanted = s / readings * ones + s * (np.eye(readings) - ones)
    np.testing.assert_allclose(root.T @ root, wanted, atol=1e-14)


def test_in_law_it_is_one_noise_more_for_all_of_a_day():
    """Independent noise 1/s and a shared one of (r − 1)/(rs): 4000 days, five deviations."""
    s, r, days = 4.0, 6, 4000
    level = pv.EndlessLevel.shared(s, r)
    noise = pv.StreamMechanism(level).simulate(np.zeros(r * days), np.random.default_rng(3))
    root = level.blocks(0, 1)[0, 0]
    z = np.linalg.solve(root, noise.values.reshape(days, r).T)
    found = z @ z.T / days
    expected = np.eye(r) / s + (r - 1) / (r * s)
    spread = np.sqrt((expected**2 + np.outer(expected.diagonal(), expected.diagonal())) / days)
    assert (np.abs(found - expected) < 5 * spread).all()


@pytest.mark.parametrize("readings", [3, 24])
def test_a_day_with_missing_readings_shows_the_others_with_the_same_noise(readings):
    """Left out without more, they would let the mean of the others be known better than at s."""
    s, level = 4.0, pv.EndlessLevel.shared(4.0, readings)
    y = np.arange(2.0 * readings)
    y[1] = np.nan
    release = pv.StreamMechanism(level).release(y)
    assert np.array_equal(release.missing.ravel(), np.isnan(y))
    assert np.array_equal(np.isnan(release.values), np.isnan(y))
    for there in range(1, readings):
        # 1/s of their own, (r − 1)/(rs) of all; what is taken off for rounding, 20 r^1.5 eps/σ with
        # σ > 1/√r, is below 4e-12 for r = 24
        absent = np.arange(readings) >= there
        root = rows_of_parts(level, 0, absent[None])[0][:there, :there]
        expected = np.eye(there) / s + (readings - 1) / (readings * s)
        np.testing.assert_allclose(np.linalg.inv(root.T @ root), expected, rtol=4e-12)
        assert expected.mean() >= 1 / s


def test_without_parts_such_a_day_shows_nothing():
    release = pv.StreamMechanism(pv.EndlessLevel.shared(4.0, 3), parts=False).release(
        [0.1, np.nan, 0.2, 0.3, 0.4, 0.5]
    )
    assert release.missing.tolist() == [True, False]
    assert np.isnan(release.values).tolist() == [True] * 3 + [False] * 3


def test_what_is_shown_is_clipped_and_not_the_readings():
    """Far readings beyond a range, of both signs: coordinates of Lᵀy stay within its own ends."""
    level = pv.EndlessLevel.shared(4.0, 4)
    mechanism = pv.StreamMechanism(level, range=(0.0, 1.0))
    values = mechanism.release(np.tile([1e9, -1e9, 0.5, 0.5], 50)).values.reshape(50, 4)
    root = level.blocks(0, 1)[0, 0]
    high = np.where(root > 0, root, 0).sum(axis=1)
    assert (np.abs(values[:, 0] - high[0]) < 8).all()  # at its end, and noise
    assert np.abs(values[:, 2]).max() < 8 + high[2]


def test_it_takes_a_level_and_a_number_of_readings():
    for bad in ((0.0, 4), (-1.0, 4), (np.nan, 4), (1.0, 1), (1.0, 2.5)):
        with pytest.raises(InvalidInput):
            pv.EndlessLevel.shared(*bad)

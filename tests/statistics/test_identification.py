"""Identification from releases, in trials: intervals cover, errors attain the private bound,
forecasts know what they do not know. φ = .8, γ₀ = 1 throughout.
"""

import math

import numpy as np
import pytest

import privest as pv
from privest.dynamics import AR, fit, parameter_bound

PHI = 0.8
TRUTH = np.array([PHI, 1 - PHI**2])  # φ, q
FAMILY = AR(1, mean=False)


def trials(steps, ahead, level, count, seed):
    """Readings after the last release (ahead,) and the fit of each series."""
    rng = np.random.default_rng(seed)
    _, measurements = FAMILY.system(TRUTH).sample(steps + ahead, rng, trials=count)
    for own in measurements[:, :, 0]:
        release = pv.StreamMechanism(level).simulate(own[:steps], rng)
        yield own[steps:], fit(FAMILY, release, level=level)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [200, 1000])
@pytest.mark.parametrize("s", [0.2, 1.0, 5.0])
def test_profile_intervals_cover(steps, s):
    count, covered = 500, []
    for _, found in trials(steps, 0, pv.StreamLevel.constant(s), count, seed=1):
        low, high = found.interval(0.95).T
        covered.append((low <= TRUTH) & (high >= TRUTH))
    share = np.mean(covered, axis=0)
    # 93 to 97 %: two binomial errors √(.05·.95/500) = .0097 of 500 series.
    assert (np.abs(share - 0.95) <= 0.02 + 1e-12).all(), share


@pytest.mark.slow
def test_profile_intervals_with_a_mean_cover_where_little_is_shown():
    """60 steps at s = .05, where four in five intervals of φ are all of (−1, 1): q = 0 is not
    excluded. Found in the first 400: φ .948, q .960, mean .958 (error .011).
    """
    count, level, truth = 300, pv.StreamLevel.constant(0.05), np.array([PHI, 1.0, 5.0])
    rng, covered = np.random.default_rng(99), []
    for _ in range(count):
        _, measurements = AR(1).system(truth).sample(60, rng, inputs=np.ones((60, 1)))
        found = fit("ar1", pv.StreamMechanism(level).simulate(measurements, rng), level=level)
        low, high = found.interval(0.95).T
        covered.append((low <= truth) & (truth <= high))
    share = np.mean(covered, axis=0)
    # Three binomial errors on either side; asymptotic intervals may be wide of their mark, so that
    # this says .95 no nearer than ±.04.
    assert (np.abs(share - 0.95) <= 3 * math.sqrt(0.05 * 0.95 / count)).all(), share


@pytest.mark.slow
@pytest.mark.parametrize("s", [0.2, 1.0, 5.0])
def test_estimates_attain_the_private_bound(s):
    count, level = 1000, pv.StreamLevel.constant(s)
    fits = [found for _, found in trials(2000, 0, level, count, seed=2)]
    off = np.array([found.value for found in fits]) - TRUTH
    floor = parameter_bound(FAMILY, TRUTH, level, steps=2000).covariance
    ratio = np.square(off).mean(axis=0) / floor.diagonal()
    # Within 10 %, and two errors √(2/1000) of a mean of squares on either side.
    error = 2 * math.sqrt(2 / count)
    assert (ratio > 1 - error).all(), ratio
    assert (ratio < 1.1 + error).all(), ratio


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "s"), [(200, 0.2), (60, 1.0)])
def test_forecasts_cover_where_plugging_in_does_not(steps, s):
    count, places = 500, [0, 4]
    shares = {"mixture": [], "plug-in": []}
    for later, found in trials(steps, 5, pv.StreamLevel.constant(s), count, seed=3):
        for method, covered in shares.items():
            low, high = found.forecast(5, method=method).interval(0.95)[places, 0].T
            covered.append((low <= later[places]) & (later[places] <= high))
    mixture, plug_in = (np.mean(covered, axis=0) for covered in shares.values())
    error = math.sqrt(0.05 * 0.95 / count)
    assert (np.abs(mixture - 0.95) <= 3 * error).all(), mixture
    # The difference of two shares of the same series: at most their own error.
    assert (mixture - plug_in > error).all(), (mixture, plug_in)

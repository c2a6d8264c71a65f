"""Identification from releases, in trials: intervals cover, errors attain the private bound,
forecasts know what they do not know. φ = .8, γ₀ = 1 throughout, as in docs/identification.md.
"""

import numpy as np
import pytest

import privest as pv
from privest.dynamics import AR
from privest.dynamics._identification._fitting import fit

PHI = 0.8
TRUTH = np.array([PHI, 1 - PHI**2])  # φ, q
FAMILY = AR(1, mean=False)


def trials(steps, ahead, level, count, seed):
    """Readings after the last release (ahead,) and the fit of each series."""
    rng = np.random.default_rng(seed)
    _, readings = FAMILY.system(TRUTH).simulate(steps + ahead, rng, trials=count)
    for own in readings[:, :, 0]:
        release = pv.StreamMechanism(level).simulate(own[:steps], rng)
        yield own[steps:], fit(FAMILY, level, release)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [200, 1000])
@pytest.mark.parametrize("s", [0.2, 1.0, 5.0])
def test_profile_intervals_cover(steps, s):
    count, covered = 500, []
    for _, found in trials(steps, 0, pv.EndlessLevel(s), count, seed=1):
        low, high = found.intervals(0.95).ends.T
        covered.append((low <= TRUTH) & (high >= TRUTH))
    share = np.mean(covered, axis=0)
    # 93 to 97 %: two binomial errors √(.05·.95/500) = .0097 of 500 series.
    assert (np.abs(share - 0.95) <= 0.02 + 1e-12).all(), share

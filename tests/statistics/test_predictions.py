"""Prediction intervals of one new value hold it as often as they say, σ² told by the release."""

import numpy as np
import pytest
from scipy import stats

import privest as pv

RUNS, WIDEST = 800, 1.1
FALSE_ALARM = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        (5000, {"epsilon": 1.0, "publish": "matrix"}),
        (1000, {"epsilon": 4.0, "publish": "matrix"}),
        (500, {"form": "rows", "level": 8.0}),
    ],
)
def test_prediction_intervals_cover(rows, asked):
    """Not below 95%, by a binomial test; at most a tenth wider than those of a known model."""
    rng = np.random.default_rng(rows)
    x, sd = rng.uniform(-1, 1, rows), 0.5
    held, widths = 0, []
    for _ in range(RUNS):
        y = 1 + 0.5 * x + rng.normal(0, sd, rows)
        plan = pv.plan({"x": x, "y": y}, "y ~ x", range=(-2, 4), **asked)
        found = pv.estimate(plan.simulate(rng=int(rng.integers(2**31))))
        at = rng.uniform(-1, 1)
        ((low, high),) = found.predict({"x": at}).prediction_interval
        held += low <= 1 + 0.5 * at + rng.normal(0, sd) <= high
        widths.append(high - low)
    assert stats.binom.cdf(held, RUNS, 0.95) > FALSE_ALARM, held / RUNS
    assert np.mean(widths) < WIDEST * 2 * stats.norm.ppf(0.975) * sd

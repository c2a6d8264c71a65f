"""A level column, chosen by a design, through release and estimate: do errors and intervals hold?

Trials are whole releases (`Plan.simulate`: as `privest release --simulate` writes them) of readings
that are drawn anew, with `estimate`, as `privest estimate`.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy

import privest as pv
from privest.workflow import Spec
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.spec import Model, Privacy, Public

THETA = np.array([1.0, 0.5, -0.3])
WANTED = {"x": 0.16, "t": 0.10}
FIVE = 2 * scipy.stats.norm.sf(5)  # one false alarm in two million


def planned(rows, variance=0.5, scale=1.0, levels=None):
    """A table with heavy-tailed features: a few rows tell much more than others."""
    rng = np.random.default_rng(rows)
    table = {"x": rng.standard_normal(rows), "t": rng.standard_t(3, rows), "y": np.zeros(rows)}
    H = np.column_stack([np.ones(rows), table["x"], table["t"]])
    model = pv.LinearModel(H, noise=variance, names=("intercept", "x", "t"))
    if levels is None:
        wanted = {name: scale * error for name, error in WANTED.items()}
        found = pv.design.least_loss(model, wanted)
    else:
        found = levels(model)
    table["level"] = np.where(found.levels < 1e-5 * found.levels.mean(), 0.0, found.levels)
    asked = Privacy(level_column="level")
    spec = Spec("table", Model("y", ("x", "t")), asked, Public(variance))
    return make_plan(spec, table), table


def trials(plan, table, count, errors="auto", noise=None, seed=0):
    """(count, 3) estimates, and whether each interval of 95 % holds the truth."""
    rng = np.random.default_rng(seed)
    H = np.column_stack([np.ones(plan.rows), table["x"], table["t"]])
    found, held = np.empty((count, 3)), np.empty((count, 3), dtype=bool)
    for k in range(count):
        w = rng.standard_normal(plan.rows) if noise is None else noise(rng, plan.rows)
        y = H @ THETA + np.sqrt(plan.column.residual_variance) * w
        one = estimate(replace(plan, data={**table, "y": y}).simulate(rng=rng), cov_type=errors)
        found[k] = one.value
        low, high = one.interval().T
        held[k] = (low <= THETA) & (high >= THETA)
    return found, held


def require_covered(held, least, most=1.0):
    """The shares of intervals that hold the truth are within five deviations of these ends."""
    count = len(held)
    for share in held.mean(axis=0):
        assert scipy.stats.binom.sf(count * share - 1, count, most) > FIVE / 2
        assert scipy.stats.binom.cdf(count * share, count, least) > FIVE / 2


def require_variances(plan, found):
    """Mean squares of the errors are those of the plan: chi-square with as many degrees."""
    ratio = np.square(found - THETA).mean(axis=0) / plan.standard_error**2
    tail = FIVE / 2
    ends = scipy.stats.chi2.ppf([tail, 1 - tail], len(found)) / len(found)
    assert (ends[0] < ratio).all()
    assert (ratio < ends[1]).all()


def test_the_standard_errors_asked_for_are_those_of_the_estimates():
    """σ² known: exactly."""
    plan, table = planned(120)
    assert plan.standard_error[1:] == pytest.approx(list(WANTED.values()), rel=1e-4)
    assert plan.level > 3 * plan.survey.levels.mean
    require_variances(plan, trials(plan, table, 200)[0])


def test_intervals_hold_where_the_noise_variance_is_not_known():
    """REML with its sandwich covers .93 to 1, whatever the levels."""
    plan, table = planned(60, scale=1.5)
    assert plan.survey.levels.withheld > 0
    require_covered(trials(plan, table, 200)[1], 0.93)


@pytest.mark.slow
def test_coverage_of_readings_that_are_not_gaussian():
    """Skewed readings (χ²₁, of unit variance): the levels do not make it worse than .90."""
    plan, table = planned(200)
    require_covered(
        trials(plan, table, 1500, noise=lambda rng, n: (rng.chisquare(1, n) - 1) / np.sqrt(2))[1],
        0.90,
    )

"""Intervals where σ² comes from a small reference set: measured coverage.

Each count of covered intervals is binomial: within 4.5 of its deviations (7e-6 each) of 95 %, up to
the error of the pooled degrees of freedom, which a direct simulation of the two χ² laws puts below
.006 for two or more degrees of freedom.
"""

import numpy as np
import pytest
import scipy.stats

import privest as pv
from privest.estimator.inference._errors import pooled_variance
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from workflow_tables import THETA, people, spec, write

SYSTEMATIC = 0.006


def slack(trials):
    return SYSTEMATIC + 4.5 * np.sqrt(0.95 * 0.05 / trials)


def coverage(reference, level, rows, trials, rng):
    """Of the four intervals of `PrivateLinearRegression`, averaged: they are nearly independent."""
    X_ref = rng.standard_normal((reference, 3))
    X, truth, inside = rng.standard_normal((rows, 3)), np.array([1.0, 1.0, -2.0, 0.5]), 0
    for _ in range(trials):
        y, y_ref = (1.0 + D @ truth[1:] + rng.standard_normal(len(D)) for D in (X, X_ref))
        model = pv.PrivateLinearRegression(
            level, reference=(X_ref, y_ref), random_state=rng, simulate=True
        )
        low, high = model.fit(X, y).interval().T
        inside += ((low < truth) & (truth < high)).sum()
    return inside / (4 * trials)


@pytest.mark.parametrize("rows", [8, 100])
@pytest.mark.parametrize("level", [1e4, 2.0])
@pytest.mark.parametrize("reference", [6, 8, 12, 30])
def test_the_pooled_quantile_covers(reference, level, rows):
    """θ̂ and the two χ² of the residuals drawn directly, n = 4: 3000 intervals."""
    rng = np.random.default_rng([reference, int(10 * level), rows])
    trials, m, f, added = 3000, reference - 4, rows - 4, 1 / level
    variances, scatter = rng.chisquare(m, trials) / m, (1 + added) * rng.chisquare(f, trials)
    found = np.array([pooled_variance(v, m, r, f, added) for v, r in zip(variances, scatter)])
    half = scipy.stats.t.ppf(0.975, found[:, 1]) * np.sqrt(found[:, 0] + added)
    covered = np.abs(np.sqrt(1 + added) * rng.standard_normal(trials)) < half
    assert abs(covered.mean() - 0.95) < slack(trials)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1e4, 20.0, 2.0, 0.2])
@pytest.mark.parametrize("reference", [6, 8, 12, 30])
def test_intervals_of_the_regression_cover(reference, level):
    """K = 100, n = 4, through the package; with normal quantiles .82, .87, .92 at level 1e4."""
    rng = np.random.default_rng([reference, int(10 * level)])
    # The four share σ̂²: as if only one were independent.
    assert abs(coverage(reference, level, 100, 2000, rng) - 0.95) < slack(2000)


@pytest.mark.parametrize("reference", [6, 30])
def test_intervals_of_the_regression_cover_in_short(reference):
    rng = np.random.default_rng(reference)
    assert abs(coverage(reference, 1e4, 40, 500, rng) - 0.95) < slack(500)


def test_intervals_of_a_release_file_cover(tmp_path):
    """A reference of 7 rows, 4 coefficients, asked for: the workflow gives the same intervals."""
    inside, trials = 0, 0
    for seed in range(100):
        few = people(7, seed=10_000 + seed)
        if len(set(few["sex"])) < 2:  # says nothing about one coefficient: refused
            continue
        reference, table = write(few, tmp_path / "r.csv"), people(40, seed=seed)
        noise = Public(reference=str(reference))
        plan = make_plan(spec(public=noise, privacy=Privacy(100.0)), table)
        path = tmp_path / f"z{seed}.csv"
        simulate_release(plan, path, np.random.default_rng(seed), table)
        found = estimate(path, cov_type="stated")
        low, high = found.interval().T
        inside, trials = inside + ((low < THETA) & (high > THETA)).sum(), trials + 1
        assert found.degrees_of_freedom > 36 + 3
    assert abs(inside / (4 * trials) - 0.95) < slack(trials)

"""Many simulated releases of one small table: unbiased, covariance as stated, intervals cover.

Everything goes through files, as for a data owner; the readings are drawn anew each time, so that
both parts of the error are there. Thresholds: z-scores and a likelihood ratio at one false alarm in
a million (the docstring of test_attained.py has the statistic).
"""

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from workflow_tables import LEVEL, THETA, UNIT, VARIANCE, matrix, people, spec

FALSE_ALARM = 1e-6


def run(folder, trials, errors, rows=12):
    rng = np.random.default_rng(2)
    table = people(rows, seed=4)
    H = matrix(table)
    plan = make_plan(spec(), table)
    found = []
    for k in range(trials):
        y = H @ THETA + np.sqrt(VARIANCE) * rng.standard_normal(rows)
        path = folder / f"z{k}.parquet"
        simulate_release(plan, path, rng, table | {"ldl": y})
        found.append(estimate(path, cov_type=errors))
    return plan, found


@pytest.fixture(scope="module", params=[1500, pytest.param(20_000, marks=pytest.mark.slow)])
def many(request, tmp_path_factory):
    return run(tmp_path_factory.mktemp("many"), request.param, "t")


def test_unbiased_with_the_stated_covariance(many):
    plan, found = many
    trials, n = len(found), len(THETA)
    errors = np.array([one.value for one in found]) - THETA
    covariance = np.linalg.inv(matrix(people(12, seed=4)).T @ matrix(people(12, seed=4)))
    covariance *= VARIANCE + 1 / LEVEL
    half = np.linalg.cholesky(covariance)
    white = np.linalg.solve(half, errors.T)
    mean = trials * np.sum(white.mean(axis=1) ** 2)
    assert mean < scipy.stats.chi2.isf(FALSE_ALARM, n)
    values = np.linalg.eigvalsh(white @ white.T / trials)
    ratio = trials * (values.sum() - np.log(values).sum() - n)
    # The χ² limit is off by O(n²/trials), 1 % here: far inside the tail that is left.
    assert ratio < 1.02 * scipy.stats.chi2.isf(FALSE_ALARM, n * (n + 1) / 2)
    # Whole steps add at most UNIT − 1 of 1/s, which is what a plan says.
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), plan.standard_error, rtol=UNIT - 1)


def coverage(confidence, rows=12):
    """Intervals of t that are at 95% not shorter than those of the privacy noise alone.

    The total variance is v·q/f with q ~ χ²_f, and its known part ρv: a 95% interval is
    max(t_f·√(q/f), z·√ρ)·√v. Another one has the degrees of freedom with that 95% quantile.
    """
    f, t, z = rows - len(THETA), scipy.stats.t, scipy.stats.norm.isf(0.025)
    known = 1 / LEVEL / (VARIANCE + 1 / LEVEL)

    def inside(q):
        size = np.sqrt(max(q / f, known))
        wide = max(t.isf(0.025, f) * np.sqrt(q / f), z * np.sqrt(known)) / size
        if wide > z * (1 + 1e-9):
            freedom = scipy.special.stdtridf(0.975, wide)
            half = t.isf((1 - confidence) / 2, freedom) * size
        else:
            half = scipy.stats.norm.isf((1 - confidence) / 2) * size
        return (1 - 2 * scipy.stats.norm.sf(half)) * scipy.stats.chi2.pdf(q, f)

    kinks = [known * f * (z / t.isf(0.025, f)) ** 2, known * f]
    return scipy.integrate.quad(inside, 0, 100, points=kinks, limit=200)[0]


def test_intervals_cover_as_often_as_they_say(many):
    _, found = many
    for confidence in (0.5, 0.95):
        expected = coverage(confidence)
        assert confidence - 1e-6 < expected < confidence + 0.02
        inside = [
            (one.interval(confidence)[:, 0] < THETA) & (one.interval(confidence)[:, 1] > THETA)
            for one in found
        ]
        for count in np.sum(inside, axis=0):
            test = scipy.stats.binomtest(int(count), len(found), expected)
            assert test.pvalue > FALSE_ALARM


def test_noise_of_the_release_alone(tmp_path):
    """z − y for fixed readings: N(0, 1/s), white, and nothing to do with y."""
    import pandas as pd

    table = people(50_000, seed=6)
    plan = make_plan(spec(), table)
    header = simulate_release(plan, tmp_path / "z.parquet", np.random.default_rng(9), table)
    z = pd.read_parquet(tmp_path / "z.parquet")["z"].to_numpy()
    noise = z * header.to_dict()["columns"][0]["unit"] - table["ldl"]
    noise *= np.sqrt(LEVEL)
    assert scipy.stats.kstest(noise, "norm").pvalue > FALSE_ALARM
    limit = scipy.stats.norm.isf(FALSE_ALARM / 2)
    for other in (table["ldl"], table["age"], np.roll(noise, 1)):
        # Correlation with something independent: standard error 1/√rows.
        assert abs(np.corrcoef(noise, other)[0, 1]) * np.sqrt(len(noise)) < limit

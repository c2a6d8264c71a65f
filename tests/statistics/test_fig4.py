"""The mean under non-Gaussian noise: floors at every K, losses as predicted, averages above."""

import dataclasses

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.paper import fig4

COUNTS = [10, 100, 1000]
TRIALS = 2000


@pytest.fixture(scope="module", params=["laplace", "skewed"])
def points(request):
    return fig4.figure_four(request.param, COUNTS, trials=TRIALS, seed=7)


def test_the_claims_hold(points):
    found = fig4.claims(points, false_alarm=1e-6)
    assert len(found) == 3
    assert all(claim.holds for claim in found), [str(claim) for claim in found]


def test_claims_can_fail(points):
    """An error below the floor, an average that is too good, a release that is too bad."""
    floor, averages, bad = (
        [dataclasses.replace(p, mse=part * p.floor) if chosen(p) else p for p in points]
        for part, chosen in (
            (0.5, lambda p: p.method == "likelihood" and p.count == 10),
            (1.0, lambda p: p.method == "averaging-laplace"),
            (2.0, lambda p: p.method == "optimal" and p.count == 1000),
        )
    )
    assert not fig4.claims(floor, false_alarm=1e-6)[1].holds
    assert not fig4.claims(averages, false_alarm=1e-6)[2].holds
    assert not fig4.claims(bad, false_alarm=1e-6)[0].holds


def test_averages_have_exactly_the_predicted_error(points):
    """z − θ has mean 0 and variance `predicted`; 6 standard errors."""
    for p in points:
        if p.method.startswith("averaging"):
            assert abs(p.mse - p.predicted) < 6 * p.standard_error, p


def test_the_budget_is_met_in_the_limit(points):
    for p in points:
        if p.method in ("optimal", "likelihood") and p.count == 1000:
            assert p.realised_mean == pytest.approx(1.0, abs=0.02)
            assert p.realised_median == pytest.approx(1.0, abs=0.02)


def test_all_methods_see_the_same_readings():
    rng = [np.random.default_rng(3) for _ in range(2)]
    models = [fig4.pipeline(m, "laplace", 50).model for m in ("optimal", "averaging-laplace")]
    first, second = (model.simulate([0.5], r, 4) for model, r in zip(models, rng))
    assert np.array_equal(first, second)
    tasks = [fig4._task("error", fig4.squared_errors, m, "laplace", 50) for m in fig4.LABELS]
    assert len({task.stream for task in tasks}) == 1
    assert len({task.key for task in tasks}) == len(tasks)


def test_a_law_without_a_mean_has_no_averages():
    assert fig4.methods("cauchy") == ["optimal", "likelihood"]
    with pytest.raises(InvalidInput, match="one of laplace"):
        fig4.law_named("gauss")


def test_the_counts_of_the_paper():
    assert fig4.counts()[0] == 10
    assert fig4.counts()[-1] == 10_000
    steps = np.diff(np.log10(fig4.counts()))
    assert steps.max() < 1.1 * steps.mean()

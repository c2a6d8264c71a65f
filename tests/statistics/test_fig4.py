"""The mean under non-Gaussian noise: floors at every K, losses as predicted, averages above."""

import dataclasses

import pytest

from privest.errors import InvalidInput
from privest.paper import fig4

COUNTS = [10, 100, 1000]
TRIALS = 2000


@pytest.fixture(scope="module", params=["laplace", "skewed"])
def figure(request):
    return fig4(request.param, COUNTS, trials=TRIALS, rng=7)


def test_the_claims_hold(figure):
    assert len(figure.claims) == 3
    assert all(claim.holds for claim in figure.claims), figure.summary()


def test_claims_can_fail(figure):
    """An error below the floor, an average that is too good, a release that is too bad."""
    floor, averages, bad = (
        dataclasses.replace(
            figure,
            points=[
                dataclasses.replace(p, mse=part * p.floor) if chosen(p) else p
                for p in figure.points
            ],
        )
        for part, chosen in (
            (0.5, lambda p: p.method == "likelihood" and p.count == 10),
            (1.0, lambda p: p.method == "averaging-laplace"),
            (2.0, lambda p: p.method == "optimal" and p.count == 1000),
        )
    )
    assert not floor.claims[1].holds
    assert not averages.claims[2].holds
    assert not bad.claims[0].holds


def test_averages_have_exactly_the_predicted_error(figure):
    """z − θ has mean 0 and variance `predicted`; 6 standard errors."""
    for p in figure.points:
        if p.method.startswith("averaging"):
            assert abs(p.mse - p.predicted) < 6 * p.standard_error, p


def test_the_budget_is_met_in_the_limit(figure):
    for p in figure.points:
        if p.method in ("optimal", "likelihood") and p.count == 1000:
            assert p.realised_mean == pytest.approx(1.0, abs=0.02)
            assert p.realised_median == pytest.approx(1.0, abs=0.02)


def test_a_distribution_without_a_mean_has_no_averages():
    found = fig4("cauchy", [20], trials=20, rng=1)
    assert {p.method for p in found.points} == {"optimal", "likelihood"}
    with pytest.raises(InvalidInput, match="methods are likelihood; received averaging-laplace"):
        fig4("cauchy", [20], methods=["averaging-laplace"])
    with pytest.raises(InvalidInput, match="noise"):
        fig4("gauss")

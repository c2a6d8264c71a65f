"""`fig:pprls-non-syms`: the private RLS matches its bound, on real people and synthetic ones.

The band comes from the number of blocks and repetitions (`paper/_fig2.py`); false alarm 1e-3 for
each claim over all steps.
"""

import dataclasses

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.paper import fig2
from shared_data import RAW, needs_nhanes


@pytest.fixture(scope="module")
def diabetes():
    return fig2()


@pytest.fixture(scope="module")
def nhanes():
    return pv.data.load_nhanes(RAW)


def hold(figure):
    for claim in figure.claims:
        assert claim.holds, str(claim)
        assert claim.numbers["outside the chance band"] == 0


@needs_nhanes
def test_the_claim_on_nhanes(nhanes):
    figure = fig2(nhanes)
    hold(figure)
    own = [p for p in figure.points if p.series == "data"]
    assert {p.blocks for p in own} == {20}
    assert {p.repetitions for p in own} == {20}
    assert own[-1].k == 100
    assert min(p.k for p in own) <= 10
    for seed in (2, 3):  # other splits of the people
        hold(fig2(nhanes, rng=seed, methods=["data"]))


def test_the_claim_on_the_embedded_data(diabetes):
    hold(diabetes)
    assert [claim.label for claim in diabetes.claims] == ["fig:pprls-non-syms"] * 2
    assert "of the private bound" in diabetes.summary()


def test_many_repetitions_close_in_on_the_bound():
    """Synthetic: 5000 repetitions of 4 blocks; the band is some 2 % wide, and MSE/bound in it."""
    figure = fig2(trials=5000, methods=["synthetic"])
    hold(figure)
    assert all(p.deviation < 0.01 * p.bound for p in figure.points if p.k >= 10)
    for p in figure.points:  # two ways to the same error: the model's and the repetitions' own
        assert p.standard_error == pytest.approx(p.deviation, rel=0.15)


def test_a_method_that_is_off_is_seen(diabetes):
    """Errors of half or twice the size."""
    for factor in (0.5, 2.0):
        wrong = [dataclasses.replace(p, mse=factor * p.mse) for p in diabetes.points]
        assert not dataclasses.replace(diabetes, points=wrong).claims[1].holds


def test_points_say_what_they_are(diabetes):
    data = {p.k: p for p in diabetes.points if p.series == "data"}
    assert data[50].expected > data[50].bound  # the reference's own error
    for p in diabetes.points:
        assert p.deviation > 0
        assert p.standard_error > 0
        if p.series == "synthetic":
            assert p.expected == pytest.approx(p.bound, rel=1e-12)
            assert p.bound == data[p.k].bound
    frame = diabetes.to_frame()
    assert len(frame) == len(diabetes.points)
    assert {"series", "k", "mse", "standard_error", "bound", "repetitions"} <= set(frame.columns)


def test_a_seed_is_a_result(diabetes):
    assert fig2().points == diabetes.points
    assert fig2(rng=2).points != diabetes.points


def test_bad_requests_are_named():
    with pytest.raises(InvalidInput, match="at least 2 trials"):
        fig2(trials=1)
    with pytest.raises(InvalidInput, match="methods are data, synthetic; received other"):
        fig2(methods=["other"])
    with pytest.raises(InvalidInput, match="received 'adult'"):
        fig2("adult")


def test_the_picture(diabetes, tmp_path):
    pytest.importorskip("matplotlib")
    diabetes.save(tmp_path / "deep" / "fig2.png")
    assert (tmp_path / "deep" / "fig2.png").stat().st_size > 20_000


@pytest.mark.slow
@needs_nhanes
def test_many_seeds_on_nhanes(nhanes):
    """Deviations from the expected mean, in its standard deviations, over 60 seeds."""
    worst = []
    for seed in range(1, 61):
        figure = fig2(nhanes, rng=seed, methods=["data"])
        hold(figure)
        own = [p for p in figure.points if p.k >= 10]
        worst.append(np.mean([abs(p.mse - p.expected) / p.deviation for p in own]))
    # E|N(0, 1)| = 0.80; steps of a seed are dependent, seeds share people
    assert np.mean(worst) < 0.8 + 5 * np.std(worst) / np.sqrt(60)

"""What a range does to an estimate, and what is said of it."""

import dataclasses

import numpy as np
import pytest

from charged import charged
from privest.errors import InvalidInput
from privest.estimator import cost_of_rows
from privest.workflow.estimate import estimate
from privest.workflow.fit import estimate_rows
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy, Public
from workflow_tables import LEVEL, THETA, UNIT_BEFORE, VARIANCE, people, spec, write


@pytest.fixture(scope="module")
def clipped(tmp_path_factory):
    """40,000 readings of which about a quarter are clipped: the plan, and where the table is."""
    folder = tmp_path_factory.mktemp("clipped")
    data = write(people(40_000, seed=3), folder / "people.parquet")
    asked = Privacy(level=LEVEL, delta=1e-6, range={"ldl": (0.2, 1.5)})
    return make_plan(spec(data, privacy=asked, public=Public(VARIANCE))), folder


@pytest.mark.parametrize("real", [True, False])
def test_an_estimate_is_of_the_values_as_clipped_and_says_so(clipped, real):
    """Least squares is off by what `clipping_cost` says, which is many standard errors."""
    plan, folder = clipped
    table = folder / f"{real}.parquet"
    if real:
        header = charged(plan, table)
    else:
        header = simulate_release(plan, table, simulation_source(plan, 1))
    H = np.concatenate([block.H for block in header.blocks()])
    unit = UNIT_BEFORE if real else header.drawn.variance * LEVEL
    cost = cost_of_rows(H, THETA, VARIANCE, LEVEL / unit, (0.2, 1.5), variance_known=False)
    for errors in ("auto", "t"):
        found = estimate(table, cov_type=errors)
        assert found.simulated is not real
        off = found.value - THETA - cost.bias
        assert (np.abs(off) < 5 * plan.standard_error).all()
        assert found.clipping_bias > 10
        assert 0.1 < found.clipped < 0.5
        assert "intervals are for the values as clipped" in found.warnings[-1]
        assert found.noise_found is None
    assert found.to_dict()["clipped"] == found.clipped


def released(tmp_path, low, high, rows=500, **changes):
    """An estimate of a simulated release with a range."""
    data = write(people(rows, seed=4), tmp_path / "people.csv")
    asked = spec(data, privacy=Privacy(level=LEVEL, range={"ldl": (low, high)}), **changes)
    terms = stated_plan(asked)
    simulate_release(terms, tmp_path / "z.csv", simulation_source(terms, 2))
    return estimate(tmp_path / "z.csv")


def test_a_range_that_clips_next_to_nothing_leaves_the_ordinary_estimate(tmp_path):
    """Bit for bit that of least squares, with its errors; what clipping does is said."""
    found = released(tmp_path, -2.0, 6.0)
    plain = estimate_rows(found.release)
    assert np.array_equal(found.value, plain.value)
    assert np.array_equal(found.covariance, plain.covariance)
    assert found.method == plain.method
    assert found.clipping_bias < 0.05


def test_the_bias_that_decides_is_that_of_least_squares(tmp_path):
    """Against `clipping_cost` at the fit, with σ² one deviation above what the release shows."""
    found = released(tmp_path, 0.5, 3.0)
    plain = estimate_rows(found.release)
    H = np.concatenate([part.H for part in found.release.blocks()])
    left, added = len(H) - 4, 1 / LEVEL
    variance = plain.noise_found + np.sqrt(2 / left) * (plain.noise_found + added)
    cost = cost_of_rows(H, plain.value, max(variance, VARIANCE), LEVEL, (0.5, 3.0))
    expected = np.abs(cost.bias / plain.standard_error).max()
    assert found.clipping_bias == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("noise", [Public(), Public(1.0)])
def test_values_at_both_ends_have_finite_intervals_and_a_warning(tmp_path, noise):
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(20, 80, 40), "ldl": np.where(rng.random(40) < 0.5, -9.0, 9.0)}
    asked = spec(
        write(table, tmp_path / "people.csv"), features=("age",), categories={}, public=noise,
        privacy=Privacy(level=9.0, range={"ldl": (-1.0, 1.0)}),
    )  # fmt: skip
    terms = stated_plan(asked)
    simulate_release(terms, tmp_path / "z.csv", simulation_source(terms, 2))
    found = estimate(tmp_path / "z.csv")
    assert found.clipping_bias > 0.05
    assert np.isfinite(found.interval()).all()
    assert "intervals are for the values as clipped" in found.warnings[0]
    with pytest.raises(InvalidInput, match="mean of what was clipped"):
        found.predict({"age": 50})


@pytest.mark.parametrize("errors", ["auto", "HC3"])
@pytest.mark.parametrize(
    ("law", "private"), [("gaussian", {"level": 1e6}), ("laplace", {"epsilon": 4.0})]
)
def test_readings_that_all_lie_beyond_the_range_are_told(tmp_path, law, private, errors):
    """y = 5 in all rows, range 0 to 1: the estimate is 1, that of clipped values."""
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(20, 80, 30), "ldl": np.full(30, 5.0)}
    asked = spec(
        write(table, tmp_path / "people.csv"), features=("age",), categories={},
        public=Public(0.01),
        privacy=Privacy(range={"ldl": (0.0, 1.0)}, distribution=law, **private),
    )  # fmt: skip
    plan = make_plan(asked)
    simulate_release(plan, tmp_path / "z.csv", simulation_source(plan, 2))
    found = estimate(tmp_path / "z.csv", cov_type=errors)
    assert "intervals are for the values as clipped" in found.warnings[-1]
    with pytest.raises(InvalidInput, match="mean of what was clipped"):
        found.predict({"age": 50})


def test_what_laplace_noise_leaves_undone_is_said(tmp_path):
    privacy = Privacy(epsilon=4.0, range={"ldl": (0.2, 1.5)}, distribution="laplace")
    data = write(people(2000, seed=4), tmp_path / "people.csv")
    terms = stated_plan(spec(data, privacy=privacy))
    simulate_release(terms, tmp_path / "z.csv", simulation_source(terms, 2))
    found = estimate(tmp_path / "z.csv")
    assert found.clipping_bias > 0.05
    assert found.noise_found is None  # what clipped readings scatter is not σ²


def test_epsilon_follows_from_the_range(clipped):
    plan, _ = clipped
    stated = dataclasses.replace(
        plan.spec, privacy=Privacy(level=LEVEL, delta=1e-6, sensitivity=1.3)
    )
    assert plan.epsilon == pytest.approx(make_plan(stated).epsilon)

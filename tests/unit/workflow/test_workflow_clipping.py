"""What a range does to an estimate, and how it is undone."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.estimator import cost_of_rows
from privest.workflow.estimate import estimate
from privest.workflow.fit import estimate_rows
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release as release_table
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy, Public
from workflow_tables import LEVEL, THETA, UNIT, VARIANCE, people, spec, write


@pytest.fixture(scope="module")
def clipped(tmp_path_factory):
    """40,000 readings of which about a quarter are clipped: the plan, and where the table is."""
    folder = tmp_path_factory.mktemp("clipped")
    data = write(people(40_000, seed=3), folder / "people.parquet")
    asked = Privacy(level=LEVEL, delta=1e-6, range={"ldl": (0.2, 1.5)})
    return make_plan(spec(data, privacy=asked, public=Public(VARIANCE))), folder


@pytest.mark.parametrize("real", [True, False])
def test_an_estimate_undoes_the_bias_of_a_range(clipped, real):
    """Within 5 standard errors of the truth; least squares on the same z is off by what
    `clipping_cost` says, which is many times that. The share is its share, to the second digit.
    """
    plan, folder = clipped
    table = folder / f"{real}.parquet"
    if real:
        header = release_table(plan, table)
    else:
        header = simulate_release(plan, table, simulation_source(plan, 1))
    H = np.concatenate([block.H for block in header.blocks()])
    known = cost_of_rows(H, THETA, VARIANCE, LEVEL, (0.2, 1.5))
    unknown = cost_of_rows(H, THETA, VARIANCE, LEVEL / UNIT, (0.2, 1.5), variance_known=False)
    for errors, cost in (("stated", known), ("auto", unknown)):
        found = estimate(table, cov_type=errors)
        assert found.simulated is not real
        assert (np.abs(found.value - THETA) < 5 * found.standard_error).all()
        # Shares and errors move with σ̂², about in proportion: 5 of its relative errors.
        off = 0.0 if errors == "stated" else 5 * found.likelihood.noise_error / VARIANCE
        assert found.clipped == pytest.approx(cost.share, abs=0.01 + off / 3)
        np.testing.assert_allclose(found.standard_error, cost.standard_error, rtol=0.02 + off)
        assert found.misfit_p > 1e-6
        assert found.doubt is None
        assert found.likelihood is not None
        assert "assume normal errors" in found.warnings[0]
        assert "contradicts" not in found.warnings[0]
        assert (found.likelihood.noise_variance is None) is (errors == "stated")
    low, high = found.noise_interval
    assert low < found.noise_found < high
    assert abs(found.noise_found - VARIANCE) < 5 * found.likelihood.noise_error
    naive = np.linalg.lstsq(H, header.values, rcond=None)[0] - THETA
    assert (np.abs(naive - unknown.bias) < 5 * plan.standard_error).all()
    assert np.abs(naive / plan.standard_error).max() > 10
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
    assert (found.method, found.likelihood) == (plain.method, None)
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
    assert found.clipping_bias == pytest.approx(expected, rel=5e-3)  # the ends on the grid
    assert found.likelihood is not None


@pytest.mark.parametrize("noise", [Public(), Public(1.0)])
def test_a_release_that_does_not_determine_the_likelihood_keeps_least_squares(tmp_path, noise):
    """Readings at both ends, so that σ² could be anything: finite intervals and a warning."""
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(20, 80, 40), "ldl": np.where(rng.random(40) < 0.5, -9.0, 9.0)}
    asked = spec(
        write(table, tmp_path / "people.csv"), features=("age",), categories={}, public=noise,
        privacy=Privacy(level=9.0, range={"ldl": (-1.0, 1.0)}),
    )  # fmt: skip
    terms = stated_plan(asked)
    simulate_release(terms, tmp_path / "z.csv", simulation_source(terms, 2))
    found = estimate(tmp_path / "z.csv")
    assert found.likelihood is None
    assert found.beyond is None
    assert found.clipping_bias > 0.05
    assert np.isfinite(found.interval()).all()
    assert "intervals are for the values as clipped" in found.warnings[0]
    with pytest.raises(InvalidInput, match="mean of what was clipped"):
        found.mean_at({"age": 50})


@pytest.mark.parametrize("errors", ["auto", "stated"])
def test_an_estimate_of_a_paid_release_never_raises(errors):
    """ε = 1, range −2 to 9, nothing clipped: the likelihood failed on one release of three."""
    x = np.random.default_rng(1).normal(size=60)
    private = Privacy(epsilon=1.0, delta=1e-6, range={"y": (-2.0, 9.0)})
    terms = stated_plan(
        spec(features=("x",), categories={}, target="y", public=Public(1.0), privacy=private)
    )
    rng, hidden = np.random.default_rng(2), 0
    for _ in range(12):
        table = {"x": x, "y": 3 + 0.5 * x + rng.normal(size=60)}
        found = estimate(replace(terms, data=table).simulate(rng=rng), cov_type=errors)
        assert np.isfinite(found.interval()).all()
        hidden += found.likelihood is None
        assert found.warnings
    assert hidden > 3


@pytest.mark.parametrize("errors", ["HC3", "t", "huber", "HC2"])
def test_errors_that_the_clipped_likelihood_does_not_have_are_refused(tmp_path, errors):
    found = released(tmp_path, 0.5, 3.0)
    assert found.likelihood is not None
    with pytest.raises(InvalidInput, match=f"has no '{errors}' errors"):
        estimate(tmp_path / "z.csv", cov_type=errors)


def test_a_release_that_contradicts_the_clipped_likelihood_says_so():
    """The variance depends on the feature: the intervals covered .10, without a word."""
    x = np.random.default_rng(3).normal(size=1000)
    given = spec(features=("x",), categories={}, target="y", public=Public())
    asked = Privacy(level=LEVEL, range={"y": (-0.5, 2.5)})
    terms = stated_plan(dataclasses.replace(given, privacy=asked))
    rng = np.random.default_rng(4)
    for size, told in ((np.ones(1000), False), (np.abs(x) + 0.1, True)):
        y = 1 + 0.5 * x + size * rng.normal(size=1000)
        warning = estimate(replace(terms, data={"x": x, "y": y}).simulate(rng=rng)).warnings[0]
        assert "assume normal errors" in warning
        assert ("contradicts" in warning) is told


@pytest.mark.parametrize("errors", ["auto", "stated"])
@pytest.mark.parametrize(
    ("law", "private"), [("gaussian", {"level": 1e6}), ("laplace", {"epsilon": 4.0})]
)
def test_readings_that_all_lie_beyond_the_range_get_no_interval(tmp_path, law, private, errors):
    """y = 5 in all rows, range 0 to 1: it was 0.99995 ± 0.0007, said with confidence."""
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
    assert found.beyond in ("above", "beyond")
    assert np.isinf(found.interval()).all()
    assert (found.p_values() == 1).all()
    assert found.doubt is None
    assert found.to_dict()["interval"][0] == ["-Infinity", "Infinity"]
    with pytest.raises(InvalidInput, match="all readings may lie"):
        found.mean_at({"age": 50})


def test_what_laplace_noise_leaves_undone_is_said(tmp_path):
    """The likelihood is that of Gaussian noise: least squares, and by how much it is off."""
    privacy = Privacy(epsilon=4.0, range={"ldl": (0.2, 1.5)}, distribution="laplace")
    data = write(people(2000, seed=4), tmp_path / "people.csv")
    terms = stated_plan(spec(data, privacy=privacy))
    simulate_release(terms, tmp_path / "z.csv", simulation_source(terms, 2))
    found = estimate(tmp_path / "z.csv")
    assert found.likelihood is None
    assert found.clipping_bias > 0.05
    assert found.noise_found is None  # what clipped readings scatter is not σ²
    assert found.misfit is None


def test_epsilon_follows_from_the_range(clipped):
    plan, _ = clipped
    stated = dataclasses.replace(
        plan.spec, privacy=Privacy(level=LEVEL, delta=1e-6, sensitivity=1.3)
    )
    assert plan.epsilon == pytest.approx(make_plan(stated).epsilon)

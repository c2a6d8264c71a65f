"""What a plan says about its range: the share that is clipped, and what it costs."""

import dataclasses

import numpy as np
import pytest
import scipy.special

from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import ClippingCost, CostByShare, clipping_cost
from privest.workflow import (
    Privacy,
    Public,
    estimate,
    make_plan,
    simulate_held,
    simulate_release,
    simulation_source,
    stated_plan,
)
from privest.workflow import release as release_table
from privest.workflow.fit import estimate_rows
from workflow_tables import LEVEL, THETA, UNIT, VARIANCE, matrix, people, spec, write


def with_range(given, low, high, expected=None):
    (target,) = given.targets
    asked = Privacy(level=LEVEL, range={target: (low, high)})
    public = dataclasses.replace(given.public, expected=expected or {})
    return dataclasses.replace(given, privacy=asked, public=public)


def test_without_a_range_nothing_is_said():
    plan = make_plan(spec(), people())
    assert plan.clipping == (None,)
    assert plan.to_dict()["clipping"] == [None]


def test_where_nothing_public_tells_the_means_it_is_by_share():
    plan = make_plan(with_range(spec(), 1.0, 3.0), people())
    (found,) = plan.clipping
    assert isinstance(found, CostByShare)
    width = 2.0 / np.sqrt(VARIANCE)
    assert found.least_share == pytest.approx(2 * scipy.special.ndtr(-width / 2))
    assert plan.to_dict()["clipping"][0]["least_share"] == found.least_share


def test_where_nobody_knows_the_residual_variance():
    """Costs by share at σ² = 1/s; coefficients to expect do not help."""
    for expected in (None, {"intercept": 2.0}):
        plan = make_plan(with_range(spec(public=Public()), 1.0, 3.0, expected), people())
        (found,) = plan.clipping
        assert isinstance(found, CostByShare)
        assert found.assumed
        assert found.variance == pytest.approx(1 / LEVEL, rel=1e-5)
        assert plan.to_dict()["clipping"][0]["least_share"] is None


def test_expected_coefficients_give_share_and_cost():
    """By `clipping_cost` on the whole H, and the share by Φ written out; any block size."""
    table = people(300)
    plan = make_plan(with_range(spec(), 1.0, 3.0, {"intercept": 2.0, "age": 0.02}), table)
    H = matrix(table)
    theta = np.zeros(H.shape[1])
    theta[plan.index("intercept")], theta[plan.index("age")] = 2.0, 0.02
    (found,) = plan.clipping
    assert isinstance(found, ClippingCost)
    mean, sd = H @ theta, np.sqrt(VARIANCE)
    clipped = scipy.special.ndtr((1.0 - mean) / sd) + scipy.special.ndtr((mean - 3.0) / sd)
    assert found.share == pytest.approx(clipped.mean(), rel=1e-12)
    other = clipping_cost(H, theta, VARIANCE, LEVEL / UNIT, (1.0, 3.0), variance_known=False)
    np.testing.assert_allclose(found.variance_ratio, other.variance_ratio, rtol=1e-9)
    np.testing.assert_allclose(found.bias, other.bias, rtol=1e-7, atol=1e-9)
    # The errors of the plan are those without a range.
    ratio = np.square(found.standard_error / plan.standard_error)
    np.testing.assert_allclose(ratio, found.variance_ratio, rtol=1e-7)


def test_rows_and_errors_that_are_asked_for_count_the_range():
    """To ask for the error that these rows give returns their number."""
    wanted = Privacy(standard_error={"age": 0.01}, range={"ldl": (0.2, 1.5)})
    expected = dict(zip(("intercept", "age", "bmi", "sex=male"), THETA))
    public = Public(VARIANCE, expected=expected)
    plan = make_plan(spec(privacy=wanted, public=public), people())
    place = plan.index("age")
    assert plan.standard_error[place] == pytest.approx(0.01)
    error = plan.attained_error[place]
    assert error == plan.clipping[0].standard_error[place] > 0.0101
    assert plan.rows_for(error, "age") == plan.rows
    free = make_plan(spec(), people())
    assert np.array_equal(free.attained_error, free.standard_error)


def test_a_reference_set_tells_the_coefficients(tmp_path):
    """Those of least squares on it; stated ones go before."""
    table, reference = people(200), people(150, seed=5)
    file = write(reference, tmp_path / "reference.csv")
    asked = with_range(spec(public=Public(reference=str(file))), 1.0, 3.0)
    plan = make_plan(asked, table)
    H = matrix(reference)
    theta = np.linalg.lstsq(H, reference["ldl"], rcond=None)[0]
    np.testing.assert_allclose(plan.survey.known[0].expected, theta, rtol=1e-9)
    variance = plan.column.residual_variance
    other = clipping_cost(matrix(table), theta, variance, LEVEL, (1.0, 3.0))
    assert plan.clipping[0].share == pytest.approx(other.share, rel=1e-9)
    stated = make_plan(with_range(asked, 1.0, 3.0, {"intercept": 0.0}), table)
    assert stated.clipping[0].share > plan.clipping[0].share


def test_nothing_depends_on_the_readings():
    table = people()
    asked = with_range(spec(), 1.0, 3.0, {"intercept": 2.0})
    spoiled = table | {"ldl": np.full(len(table["ldl"]), 1e300)}
    assert make_plan(asked, spoiled).to_dict() == make_plan(asked, table).to_dict()


def test_a_range_that_hides_everything_is_told():
    with pytest.raises(NotIdentifiable, match="wider range"):
        make_plan(with_range(spec(), 1.0, 3.0, {"intercept": 900.0}), people())
    with pytest.raises(InvalidInput, match="no coefficient 'agee'"):
        make_plan(with_range(spec(), 1.0, 3.0, {"agee": 1.0}), people())
    with pytest.raises(InvalidInput, match="finite"):
        make_plan(with_range(spec(), 1.0, 3.0, {"age": np.nan}), people())


@pytest.fixture(scope="module")
def clipped(tmp_path_factory):
    """40,000 readings of which about a quarter are clipped: the plan, and where the table is."""
    folder = tmp_path_factory.mktemp("clipped")
    data = write(people(40_000, seed=3), folder / "people.parquet")
    expected = dict(zip(("intercept", "age", "bmi", "sex=male"), THETA))
    asked = spec(
        data, privacy=Privacy(level=LEVEL, delta=1e-6, range={"ldl": (0.2, 1.5)}),
        public=Public(VARIANCE, expected=expected),
    )  # fmt: skip
    return make_plan(asked), folder


@pytest.mark.parametrize("real", [True, False])
def test_an_estimate_undoes_the_bias_of_a_range(clipped, real):
    """Within 5 standard errors of the truth; least squares on the same z is off by what the plan
    says, which is many times that. The share is that of the plan, to the second digit.
    """
    plan, folder = clipped
    table = folder / f"{real}.parquet"
    if real:
        header = release_table(plan, table)
    else:
        header = simulate_release(plan, table, simulation_source(plan, 1))
    H = np.concatenate([block.H for block in header.blocks()])
    known = clipping_cost(H, THETA, VARIANCE, LEVEL, (0.2, 1.5))
    for errors, cost in (("stated", known), ("auto", plan.clipping[0])):
        found = estimate(table, errors)
        assert found.simulated is not real
        assert (np.abs(found.estimate - THETA) < 5 * found.standard_error).all()
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
    assert (np.abs(naive - plan.clipping[0].bias) < 5 * plan.standard_error).all()
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
    assert np.array_equal(found.estimate, plain.estimate)
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
    cost = clipping_cost(H, plain.estimate, max(variance, VARIANCE), LEVEL, (0.5, 3.0))
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
        found = estimate(simulate_held(terms, table, rng), errors)
        assert np.isfinite(found.interval()).all()
        hidden += found.likelihood is None
        assert found.warnings
    assert hidden > 3


@pytest.mark.parametrize("errors", ["HC3", "t", "huber", "HC2"])
def test_errors_that_the_clipped_likelihood_does_not_have_are_refused(tmp_path, errors):
    found = released(tmp_path, 0.5, 3.0)
    assert found.likelihood is not None
    with pytest.raises(InvalidInput, match=f"has no '{errors}' errors"):
        estimate(tmp_path / "z.csv", errors)


def test_a_release_that_contradicts_the_clipped_likelihood_says_so():
    """The variance depends on the feature: the intervals covered .10, without a word."""
    x = np.random.default_rng(3).normal(size=1000)
    given = spec(features=("x",), categories={}, target="y", public=Public())
    terms = stated_plan(with_range(given, -0.5, 2.5))
    rng = np.random.default_rng(4)
    for size, told in ((np.ones(1000), False), (np.abs(x) + 0.1, True)):
        y = 1 + 0.5 * x + size * rng.normal(size=1000)
        warning = estimate(simulate_held(terms, {"x": x, "y": y}, rng)).warnings[0]
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
    found = estimate(tmp_path / "z.csv", errors)
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

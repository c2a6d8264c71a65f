"""What a plan says about its range: the share that is clipped, and what it costs."""

import dataclasses

import numpy as np
import pytest
import scipy.special

from privest.cli._workflow_text import _clipping
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import ClippingCost, CostByShare, clipping_cost
from privest.report import save_report
from privest.workflow import (
    Noise,
    Privacy,
    estimate_release,
    make_plan,
    simulate_release,
    stated_terms,
    trial_source,
)
from privest.workflow import release as release_table
from workflow_tables import LEVEL, THETA, VARIANCE, matrix, people, spec, write


def with_range(given, low, high, **changes):
    return dataclasses.replace(given, privacy=Privacy(level=LEVEL, range=(low, high)), **changes)


def test_without_a_range_nothing_is_said():
    plan = make_plan(spec(), people())
    assert plan.clipping is None
    assert _clipping(plan) == []
    assert plan.to_dict()["clipping"] is None


def test_where_nothing_public_tells_the_means_it_says_so():
    plan = make_plan(with_range(spec(), 1.0, 3.0), people())
    found = plan.clipping
    assert isinstance(found, CostByShare)
    width = 2.0 / np.sqrt(VARIANCE)
    assert found.least_share == pytest.approx(2 * scipy.special.ndtr(-width / 2))
    said = _clipping(plan)[0]
    assert "nothing public says" in said
    assert f"{100 * found.least_share:.2g} %" in said
    assert plan.to_dict()["clipping"]["least_share"] == found.least_share


def test_expected_coefficients_give_share_and_cost():
    """By `clipping_cost` on the whole H, and the share by Φ written out; any block size."""
    table = people(300)
    asked = with_range(spec(), 1.0, 3.0)
    plan = make_plan(asked, table, expected={"intercept": 2.0, "age": 0.02})
    H = matrix(table)
    theta = np.zeros(H.shape[1])
    theta[plan.index("intercept")], theta[plan.index("age")] = 2.0, 0.02
    found = plan.clipping
    assert isinstance(found, ClippingCost)
    mean, sd = H @ theta, np.sqrt(VARIANCE)
    clipped = scipy.special.ndtr((1.0 - mean) / sd) + scipy.special.ndtr((mean - 3.0) / sd)
    assert found.share == pytest.approx(clipped.mean(), rel=1e-12)
    other = clipping_cost(H, theta, VARIANCE, LEVEL, (1.0, 3.0))
    np.testing.assert_allclose(found.variance_ratio, other.variance_ratio, rtol=1e-9)
    np.testing.assert_allclose(found.bias, other.bias, rtol=1e-7, atol=1e-9)
    # The errors of the plan are those without a range.
    ratio = np.square(found.standard_error / plan.standard_error)
    np.testing.assert_allclose(ratio, found.variance_ratio, rtol=1e-7)
    said = _clipping(plan)[0]
    assert f"about {100 * found.share:.2g} % of the readings will be clipped" in said
    assert f"up to {found.variance_ratio.max():.3g} times" in said


def test_rows_and_errors_that_are_asked_for_count_the_range():
    """To ask for the error that these rows give returns their number; a level that was to give an
    error does not, with a range, and that is said.
    """
    wanted = Privacy(standard_error=0.01, of="age", range=(0.2, 1.5))
    expected = dict(zip(("intercept", "age", "bmi", "sex=male"), THETA))
    plan = make_plan(dataclasses.replace(spec(), privacy=wanted), people(), expected=expected)
    place = plan.index("age")
    assert plan.standard_error[place] == pytest.approx(0.01)
    error = plan.attained_error[place]
    assert error == plan.clipping.standard_error[place] > 0.0101
    assert plan.rows_for(error, "age") == plan.rows
    assert f"'age' then has the standard error {error:.4g}" in _clipping(plan)[0]
    free = make_plan(spec(), people())
    assert np.array_equal(free.attained_error, free.standard_error)


def test_a_reference_set_tells_the_coefficients(tmp_path):
    """Those of least squares on it; stated ones go before."""
    table, reference = people(200), people(150, seed=5)
    file = write(reference, tmp_path / "reference.csv")
    asked = with_range(spec(noise=Noise(reference=str(file))), 1.0, 3.0)
    plan = make_plan(asked, table)
    H = matrix(reference)
    theta = np.linalg.lstsq(H, reference["ldl"], rcond=None)[0]
    np.testing.assert_allclose(plan.expected[0], theta, rtol=1e-9)
    assert stated_terms(asked).expected == plan.expected
    other = clipping_cost(matrix(table), theta, plan.noise_variance, LEVEL, (1.0, 3.0))
    assert plan.clipping.share == pytest.approx(other.share, rel=1e-9)
    stated = make_plan(asked, table, expected={"intercept": 0.0})
    assert stated.clipping.share > plan.clipping.share


def test_nothing_depends_on_the_readings():
    table = people()
    asked = with_range(spec(), 1.0, 3.0)
    expected = make_plan(asked, table, expected={"intercept": 2.0}).to_dict()
    spoiled = table | {"ldl": np.full(len(table["ldl"]), 1e300)}
    assert make_plan(asked, spoiled, expected={"intercept": 2.0}).to_dict() == expected


def test_a_range_that_hides_everything_is_told():
    with pytest.raises(NotIdentifiable, match="wider range"):
        make_plan(with_range(spec(), 1.0, 3.0), people(), expected={"intercept": 900.0})
    with pytest.raises(InvalidInput, match="no coefficient 'agee'"):
        make_plan(with_range(spec(), 1.0, 3.0), people(), expected={"agee": 1.0})
    with pytest.raises(InvalidInput, match="finite"):
        make_plan(with_range(spec(), 1.0, 3.0), people(), expected={"age": np.nan})


@pytest.fixture(scope="module")
def clipped(tmp_path_factory):
    """40,000 readings of which about a quarter are clipped: the plan, and where the table is."""
    folder = tmp_path_factory.mktemp("clipped")
    data = write(people(40_000, seed=3), folder / "people.parquet")
    asked = dataclasses.replace(
        spec(data), privacy=Privacy(level=LEVEL, delta=1e-6, range=(0.2, 1.5))
    )
    return make_plan(
        asked, expected=dict(zip(("intercept", "age", "bmi", "sex=male"), THETA))
    ), folder


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
        header = simulate_release(plan, table, trial_source(plan, 1))
    found = estimate_release(table)
    assert found.simulated is not real
    assert (np.abs(found.estimate - THETA) < 5 * found.standard_error).all()
    assert found.clipped == pytest.approx(plan.clipping.share, abs=0.01)
    np.testing.assert_allclose(found.standard_error, plan.clipping.standard_error, rtol=0.02)
    assert abs(found.misfit - 1) < 5 * np.sqrt(2 / found.rows)
    assert found.doubt is None
    H = np.concatenate([block for _, block in header.stream()])
    naive = np.linalg.lstsq(H, header.values, rcond=None)[0] - THETA
    assert (np.abs(naive - plan.clipping.bias) < 5 * plan.standard_error).all()
    assert np.abs(naive / found.standard_error).max() > 10
    assert found.to_dict()["clipped"] == found.clipped
    page = folder / f"{real}.html"
    save_report(plan, found, ["privest plan"], page)
    text = page.read_text(encoding="utf-8")
    assert "Readings below 0.2 or above 1.5 were released as if they lay" in text


def test_epsilon_follows_from_the_range(clipped):
    plan, _ = clipped
    stated = dataclasses.replace(plan.spec, privacy=Privacy(level=LEVEL, delta=1e-6, move=1.3))
    assert plan.epsilon == pytest.approx(make_plan(stated).epsilon)

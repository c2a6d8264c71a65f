"""What a plan says about its range: the share that is clipped, and what it costs."""

import dataclasses

import numpy as np
import pytest
import scipy.special

from privest.cli._workflow_text import _clipping
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import ClippingCost, CostByShare, clipping_cost
from privest.workflow import Noise, Privacy, make_plan, stated_terms
from workflow_tables import LEVEL, VARIANCE, matrix, people, spec, write


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


def test_a_reference_set_tells_the_coefficients(tmp_path):
    """Those of least squares on it; stated ones go before."""
    table, reference = people(200), people(150, seed=5)
    file = write(reference, tmp_path / "reference.csv")
    asked = with_range(spec(noise=Noise(reference=str(file))), 1.0, 3.0)
    plan = make_plan(asked, table)
    H = matrix(reference)
    theta = np.linalg.lstsq(H, reference["ldl"], rcond=None)[0]
    np.testing.assert_allclose(plan.expected, theta, rtol=1e-9)
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

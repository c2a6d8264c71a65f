"""One result: intervals against scipy, the table against statsmodels, JSON, trials."""

import json

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm

import privest as pv
from privest.errors import InvalidInput
from privest.estimator import Estimate

NAMES = ("intercept", "age", "bmi")


def sample(**more):
    cov = np.array([[4.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 0.25]])
    given = {"value": np.array([1.0, -2.0, 3.0]), "covariance": cov, "names": NAMES}
    return Estimate(**given | more)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_intervals(confidence):
    found = sample()
    low, high = scipy.stats.norm.interval(confidence, found.value, found.standard_error)
    np.testing.assert_allclose(found.interval(confidence), np.stack([low, high], 1), rtol=1e-13)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan"), "0.9"])
def test_confidences_that_are_not(confidence):
    for of in (Estimate.interval, Estimate.summary, Estimate.to_dict):
        with pytest.raises(InvalidInput, match="confidence"):
            of(sample(), confidence)


def test_the_split():
    found = sample(sampling=np.eye(3) / 8, classical=np.eye(3) / 9, bound=np.eye(3) / 2)
    np.testing.assert_array_equal(found.sampling + found.privacy, found.covariance)
    np.testing.assert_allclose(found.classical_error, 1 / 3, rtol=1e-15)
    assert found.efficiency == pytest.approx(1.5 / 5.25, rel=1e-15)
    bare = sample()
    assert bare.privacy is bare.classical_error is bare.efficiency is None


def test_to_dict_is_json():
    found = sample(classical=np.eye(3), simulated=True)
    record = json.loads(json.dumps(found.to_dict(0.9)))
    assert record["names"] == list(NAMES)
    assert record["confidence"] == 0.9
    for name in ("value", "covariance", "classical", "standard_error", "classical_error"):
        np.testing.assert_array_equal(record[name], getattr(found, name))
    np.testing.assert_array_equal(record["interval"], found.interval(0.9))
    assert record["bound"] is record["efficiency"] is record["privacy"] is None
    assert record["simulated"] is True


def test_many_trials():
    theta = np.arange(12.0).reshape(4, 3)
    found = sample(value=theta)
    assert found.interval().shape == (4, 3, 2)
    np.testing.assert_array_equal(found.interval()[2], sample(value=theta[2]).interval())
    with pytest.raises(InvalidInput, match="4 of them"):
        found.summary()
    assert np.shape(json.loads(json.dumps(found.to_dict()))["interval"]) == (4, 3, 2)
    each = np.arange(1.0, 5)[:, None, None] * found.covariance
    several = sample(value=theta, covariance=each, bound=each / 2)
    np.testing.assert_array_equal(several.standard_error[3], 2 * found.standard_error)
    assert several.efficiency == 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"names": ("a", "b")},
        {"covariance": np.eye(2)},
        {"covariance": np.ones(3)},
        {"sampling": np.ones(3)},
        {"classical": np.eye(4)},
    ],
)
def test_shapes_that_do_not_fit(wrong):
    with pytest.raises(InvalidInput, match="3 estimates need 3 names and 3×3 covariances"):
        sample(**wrong)


def test_names_are_made_up_where_there_are_none():
    assert sample(names=()).names == ("θ[0]", "θ[1]", "θ[2]")
    assert sample(names=list(NAMES)).names == NAMES


def test_repr_is_short():
    assert repr(sample()) == "Estimate(3 parameters, standard errors 0.5 to 2)"


def cells(text):
    """The rows of a table of numbers below its rule of dashes, by name."""
    body = text.split("---\n")[-1].splitlines()
    rows = [line.split() for line in body if line and not line.startswith("=")]
    return {row[0]: [float(cell) for cell in row[1:]] for row in rows}


def test_the_table_is_that_of_statsmodels():
    """At a level of 1e14 the release is y to 1e-7: the same numbers, to the digits printed.

    statsmodels prints four decimals of the coefficients and three of the rest: half a unit of
    either, and of ours.
    """
    rng = np.random.default_rng(4)
    H = np.column_stack([np.ones(300), 10 * rng.standard_normal(300), rng.standard_normal(300)])
    y = H @ [40.0, -1.5, 0.2] + 2 * rng.standard_normal(300)
    level = pv.StreamLevel.constant(1e14)
    rls = pv.PrivateRLS(level, 3, pv.noise.Gaussian(cov=4.0))
    rls.update(pv.StreamMechanism(level).simulate(y, rng), H)
    ours = rls.result(NAMES).summary()
    peer = sm.OLS(y, sm.add_constant(H[:, 1:])).fit(
        cov_type="fixed scale", cov_kwds={"scale": 4.0}, use_t=False
    )
    theirs = str(peer.summary(xname=list(NAMES)).tables[1])
    heads = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    for text in (ours, theirs):
        line = next(line for line in text.splitlines() if "std err" in line)
        assert [head for head in heads if head in line] == heads
        assert [line.index(head) for head in heads] == sorted(line.index(head) for head in heads)
    found, expected = cells(ours), cells(theirs)
    assert list(found) == list(expected) == list(NAMES)
    for name in NAMES:
        assert len(found[name]) == 7  # and what it would be without privacy
        np.testing.assert_allclose(found[name][0], expected[name][0], atol=1.1e-4)
        np.testing.assert_allclose(found[name][1:6], expected[name][1:], atol=1.1e-3)
        assert found[name][6] == found[name][1]


def test_a_parameter_known_exactly_and_very_small_numbers():
    found = Estimate(value=np.array([2.0, 3e-9]), covariance=np.diag([0.0, 1e-20]))
    rows = cells(found.summary())
    assert rows["θ[0]"] == [2.0, 0.0, np.inf, 0.0, 2.0, 2.0]
    assert rows["θ[1]"][:3] == [3e-9, 1e-10, 30.0]


def test_a_simulation_says_so():
    assert "SIMULATED" in sample(simulated=True).summary()
    assert "SIMULATED" not in sample(simulated=False).summary()


def test_the_heads_of_a_wide_interval_are_not_rounded():
    found = Estimate(value=np.array([2.0]), covariance=np.eye(1))
    assert "[0.0005" in found.summary(0.999)
    assert "0.9995]" in found.summary(0.999)
    assert "1 parameter\n" in found.summary()


def test_predictions_take_rows_by_order_and_by_name():
    """hθ̂ and √hᵀCh, by hand: h = (1, 2, 0) has variance 4 + 4·0.5 + 4."""
    found = sample()
    for rows in ([1.0, 2.0, 0.0], {"intercept": 1.0, "age": 2.0, "bmi": 0.0}):
        predicted = found.predict(rows)
        np.testing.assert_allclose(predicted.value, [-3.0], rtol=1e-15)
        half = scipy.stats.norm.ppf(0.975) * np.sqrt(10.0)
        np.testing.assert_allclose(predicted.interval, [[-3 - half, -3 + half]], rtol=1e-13)
    with pytest.raises(InvalidInput, match="rows have 2 entries; there are 3"):
        found.predict([1.0, 2.0])

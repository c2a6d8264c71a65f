"""Predictions, Wald tests, contrasts and R² next to statsmodels, on releases almost without noise.

At level 1e12 the privacy noise has variance 1e-12, a part 3e-12 of the residual variance here:
what differs from statsmodels is less than 1e-5 of it (square roots of that part, and rounding).
"""

import numpy as np
import pandas as pd
import pytest
import scipy
import statsmodels.formula.api as smf

import privest as pv
from privest.errors import InvalidInput
from workflow_command import called

CLOSE = 1e-5
# A product of one row and of many rows add up in another order: hᵀCh has 25 terms, each rounded
# three times by 2⁻⁵³, and is above 1e-3 of the sum of their sizes here: 25·3·1.1e-16/1e-3 = 8e-12.
ONE_OR_MANY = 1e-11
LISTS = {"sex": ["f", "m"], "town": ["a", "b", "c"]}
PATSY = [0, 2, 3, 4, 1]  # our coefficients in the order of patsy: categories first
PATSY_OF_OURS = np.argsort(PATSY)
FORMULA = "y ~ age + C(sex) + C(town)"


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(LISTS["town"], n)
    table = {"age": rng.uniform(20, 80, n), "sex": rng.choice(LISTS["sex"], n), "town": town}
    table["y"] = 2 + 0.02 * table["age"] + 0.2 * (town == "b") + rng.normal(0, 0.6, n)
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def both():
    """Our estimate with errors by Student's t, which are those of OLS, and statsmodels'."""
    table = people()
    plan = pv.plan(table, FORMULA, categories=LISTS, form="rows", level=1e12, range=(-1e3, 1e3))
    return pv.estimate(plan.simulate(rng=1), cov_type="t"), smf.ols(FORMULA, table).fit()


def test_predictions_and_their_intervals(both):
    ours, theirs = both
    rows = pd.DataFrame(
        {"age": [30.0, 61.5], "sex": ["m", "f"], "town": ["c", "b"], "other": [1, 2]}
    )
    for confidence in (0.8, 0.95):
        found = ours.predict(rows, confidence=confidence)
        known = theirs.get_prediction(rows).summary_frame(alpha=1 - confidence)
        np.testing.assert_allclose(found.value, known["mean"], rtol=CLOSE)
        ends = known[["mean_ci_lower", "mean_ci_upper"]]
        np.testing.assert_allclose(found.interval, ends, rtol=CLOSE)
        ends = known[["obs_ci_lower", "obs_ci_upper"]]
        np.testing.assert_allclose(found.prediction_interval, ends, rtol=CLOSE)
    frame = found.to_frame()
    assert list(frame) == ["mean", "low", "high", "new_low", "new_high"]
    np.testing.assert_array_equal(frame["new_high"], found.prediction_interval[:, 1])


def test_rows_may_be_given_in_any_form(both):
    ours, _ = both
    named = {"age": 30, "sex": "m", "town": "c"}
    one = ours.predict(named).value
    for rows in ([named], [1, 30, 1, 0, 1], [[1, 30, 1, 0, 1]], pd.DataFrame([named])):
        np.testing.assert_array_equal(ours.predict(rows).value, one)
    two = ours.predict({"age": [30, 40], "sex": "m", "town": "c"}).value
    np.testing.assert_allclose(np.diff(two), 10 * ours.value[1])
    assert ours.predict(people().head(0)).interval.shape == (0, 2)
    for wrong, said in (
        ({"age": [1, 2], "sex": ["m", "f", "m"], "town": "c"}, "one length"),
        ({"age": 1, "sex": "m"}, "'town"),
        ({"age": 1, "sex": "m", "town": "z"}, "not in the public list"),
        ([1.0, 2.0], "2 entries"),
    ):
        with pytest.raises(InvalidInput, match=said):
            ours.predict(wrong)


def test_wald_tests_of_names_categories_and_matrices(both):
    ours, theirs = both
    joint = theirs.wald_test("C(town)[T.b] = 0, C(town)[T.c] = 0", scalar=True)
    for asked in (["town"], ["town=b", "town=c"], np.eye(5)[3:]):
        found = ours.wald_test(asked)
        assert found.restrictions == 2
        assert found.degrees_of_freedom == joint.df_denom
        np.testing.assert_allclose(found.statistic, joint.statistic, rtol=CLOSE)
        np.testing.assert_allclose(found.p_value, joint.pvalue, rtol=100 * CLOSE)
    R = [[0, 0, 0, 1, -1], [0, 10, 0, 0, 0]]
    theirs_R = np.array(R)[:, PATSY]
    known = theirs.wald_test((theirs_R, [0.1, 0.2]), scalar=True)
    np.testing.assert_allclose(ours.wald_test(R, [0.1, 0.2]).statistic, known.statistic, rtol=CLOSE)
    assert str(ours.wald_test("town")).startswith("F(2, 395) = ")
    assert ours.wald_test({"town=b": 1, "town=c": -1}).p_value == ours.wald_test(R[0]).p_value
    with pytest.raises(InvalidInput, match="rows of R are 0"):
        ours.wald_test(np.zeros(5))
    with pytest.raises(InvalidInput, match=r"one for each row of R \(1\); received 2"):
        ours.wald_test("sex", [0.0, 0.0])


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_repeat_each_other_are_refused(both, seed):
    """A row that is a sum of the others by rounded weights: what remains of it is rounding."""
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((2, 5))
    both[0].wald_test(R)
    with pytest.raises(InvalidInput, match="repeat each other"):
        both[0].wald_test([*R, rng.standard_normal(2) @ R])


def test_contrasts_and_r_squared(both):
    ours, theirs = both
    known = theirs.t_test(np.array([0, 0, 1, -1, 0])[PATSY])
    for weights in ({"sex=m": 1, "town=b": -1}, [0, 0, 1, -1, 0]):
        found = ours.contrast(weights)
        np.testing.assert_allclose(found.value, known.effect, rtol=CLOSE)
        np.testing.assert_allclose(found.standard_error, known.sd.ravel(), rtol=CLOSE)
    two = ours.contrast([[0, 0, 1, -1, 0], [0, 10, 0, 0, 0]])
    assert two.names == ("sex=m − town=b", "10·age")
    np.testing.assert_allclose(two.interval()[0], found.interval()[0], rtol=ONE_OR_MANY)
    np.testing.assert_allclose(two.p_values()[1], ours.p_values()[1])
    with pytest.raises(InvalidInput, match="no parameter 'sex'"):
        ours.contrast({"sex": 1, "town=b": -1})  # a category has no weight of its own
    # R² of the population: adjusted for the coefficients, in numerator and denominator.
    rows, n = 400, 5
    explained = theirs.ess / rows - (n - 1) * theirs.mse_resid / rows
    share = explained / (explained + theirs.mse_resid)
    np.testing.assert_allclose(ours.r_squared, share, rtol=CLOSE)
    assert abs(ours.r_squared - theirs.rsquared_adj) < 2 / rows


def test_a_smaller_model_is_compared_by_its_missing_coefficients():
    table = people(3000)
    asked = {"epsilon": 30.0, "range": (-1, 8), "publish": "matrix", "categories": LISTS}
    z = pv.plan(table, FORMULA, **asked).simulate(rng=1)
    whole, part = pv.estimate(z), pv.estimate(z, features=["age", "sex"])
    assert whole.compare(part).to_dict() == whole.wald_test(["town"]).to_dict()
    for other in (whole, smf.ols(FORMULA, table).fit()):
        with pytest.raises(InvalidInput, match="some of these"):
            part.compare(other)


@pytest.mark.parametrize("stated", [{}, {"residual_variance": 0.36}])
def test_a_smaller_model_does_not_take_the_fit_of_the_whole_one(stated):
    """R² and σ² of the whole model, and an interval of one new value by it, are not its own."""
    asked = {"epsilon": 1e3, "range": (-1, 8), "publish": "matrix", "categories": LISTS}
    z = pv.plan(people(3000), FORMULA, **asked, **stated).simulate(rng=1)
    whole, part = pv.estimate(z), pv.estimate(z, features="sex")
    assert whole.r_squared > 0.1
    assert whole.warnings == ()
    assert part.r_squared is part.noise_found is None
    assert part.predict({"sex": "m"}).prediction_interval is None
    assert part.predict({"sex": "m"}, noise=0.6).prediction_interval is not None
    assert "take the coefficients that it lacks as 0" in part.warnings[0]
    with pytest.raises(InvalidInput, match="no feature 'town'"):
        part.predict({"sex": "m", "town": "a"})
    every = pv.estimate(z, features=["town", "age", "sex"])
    np.testing.assert_allclose(every.covariance, whole.covariance, rtol=ONE_OR_MANY)


def test_columns_of_a_smaller_model_and_between_them():
    table = people(3000).assign(x=lambda one: one["y"] + one["age"] / 50)
    asked = {"epsilon": 1e3, "range": {"y": (-1, 8), "x": (-1, 9)}, "publish": "matrix"}
    plan = pv.plan(table, "y + x ~ age + C(sex)", categories={"sex": ["f", "m"]}, **asked)
    z = plan.simulate(rng=1)
    part = pv.estimate(z, features=["age"])
    assert [one.partition(": The intervals")[0] for one in part.warnings] == ["y", "x"]
    assert "take the coefficients that it lacks as 0" in part["x"].warnings[0]
    with pytest.raises(InvalidInput, match="coefficients of one private column"):
        pv.estimate(z).wald_test(["y: age", "x: age"])


def test_rows_of_different_levels_show_the_variance_of_a_new_value():
    """At levels almost without noise their σ² is that of OLS, in the intervals too.

    Its degrees of freedom are from the width of its interval, which is skewed by O(1/f).
    """
    table = people(2000).assign(level=np.repeat([1e12, 1e11], 1000))
    asked = {"form": "rows", "level_column": "level", "range": (-1e3, 1e3)}
    found = pv.estimate(pv.plan(table, "y ~ age", **asked).simulate(rng=1))
    flat = {name: one for name, one in asked.items() if name != "level_column"} | {"level": 1e12}
    peer = pv.estimate(pv.plan(table, "y ~ age", **flat).simulate(rng=1))
    known = peer.predict({"age": 50.0}).prediction_interval
    np.testing.assert_allclose(found.noise_freedom, 1998, rtol=0.01)
    np.testing.assert_allclose(np.diff(found.predict({"age": 50.0}).prediction_interval),
                               np.diff(known), rtol=0.01)  # fmt: skip


def test_a_mean_without_features_has_no_feature_to_name():
    found = pv.estimate(pv.plan(people(), "y ~ 1", form="rows", level=1e3).simulate(rng=1))
    with pytest.raises(InvalidInput, match="coefficients are: none"):
        found.predict({"intercept": 1})
    assert found.predict({}).value == found.value


def test_few_people_in_one_category_do_not_widen_the_intervals_of_others():
    """Nor that of one new value, whose variance is known: its quantile is nearly the normal one.

    Between v₁/(v₁ + σ²) = 0 and 1 the quantile goes from 1.96 to that of the mean.
    """
    table = people(300)
    table["town"] = np.repeat(LISTS["town"], [174, 120, 6])
    asked = {"categories": LISTS, "form": "rows", "level": 1e12, "range": (-1e3, 1e3)}
    found = pv.estimate(pv.plan(table, FORMULA, residual_variance=0.36, **asked).simulate(rng=1))
    rows = [{"age": 50.0, "sex": "m", "town": one} for one in LISTS["town"]]
    joint = found.predict(rows)
    for k, row in enumerate(rows):
        one = found.predict(row)
        np.testing.assert_allclose(one.interval[0], joint.interval[k], rtol=ONE_OR_MANY)
        np.testing.assert_allclose(
            one.prediction_interval[0], joint.prediction_interval[k], rtol=ONE_OR_MANY
        )
    variance = found.contrast([1, 50, 1, 0, 1]).standard_error[0] ** 2
    low, high = joint.prediction_interval[2]
    normal = 2 * scipy.stats.norm.ppf(0.975) * np.sqrt(variance + 0.36)
    assert found.degrees_of_freedom[4] < 6
    assert normal < high - low < 1.02 * normal


def test_shares_and_tests_of_noisy_score_equations(tmp_path):
    """Their weights are not those of maximum likelihood: errors are a few percent larger."""
    table = people(4000)
    table["y"] = np.random.default_rng(1).binomial(1, scipy.special.expit(table["y"] - 3))
    theirs = smf.logit(FORMULA, table).fit(disp=0)
    asked = {"epsilon": 1e3, "family": "binomial", "categories": LISTS, "publish": "matrix"}
    plan = pv.plan(table, FORMULA, **asked)
    plan.simulate(tmp_path / "z.json", rng=1)
    ours = pv.estimate(tmp_path / "z.json")
    errors = theirs.bse.iloc[PATSY_OF_OURS]
    np.testing.assert_allclose(ours.standard_error, errors, rtol=0.1)
    assert np.all(np.abs(ours.value - theirs.params.iloc[PATSY_OF_OURS]) < errors)
    row = {"age": 50.0, "sex": "m", "town": "b"}
    known = theirs.get_prediction(pd.DataFrame([row])).summary_frame()
    np.testing.assert_allclose(ours.predict(row).value, known["predicted"], atol=0.02)
    ends = known[["ci_lower", "ci_upper"]]
    np.testing.assert_allclose(ours.predict(row).interval, ends, atol=0.02)
    joint = theirs.wald_test("C(town)[T.b] = 0, C(town)[T.c] = 0", scalar=True)
    np.testing.assert_allclose(2 * ours.wald_test("town").statistic, joint.statistic, rtol=0.3)
    alone = pv.estimate(pv.plan(table, FORMULA, **asked | {"publish": "estimates"}).simulate(rng=1))
    np.testing.assert_array_equal(alone.standard_error, ours.standard_error)
    with pytest.raises(InvalidInput, match="matrix"):
        alone.wald_test("town")


@pytest.mark.parametrize(
    ("family", "link"), [("binomial", scipy.special.expit), ("poisson", np.exp)]
)
def test_predictions_of_other_families(family, link):
    """A share or a mean count, its interval through the link; one new value has no interval."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    y = rng.binomial(1, link(x)) if family == "binomial" else rng.poisson(link(0.3 * x))
    kind = {"range": (0, 20), "level": 50.0}
    if family == "binomial":
        kind = {"distribution": "randomised response", "epsilon": 8.0}
    plan = pv.plan({"x": x, "y": y}, "y ~ x", form="rows", family=family, **kind)
    found = pv.estimate(plan.simulate(rng=1))
    told, plain = found.predict({"x": 0.5}), found.value @ [1, 0.5]
    assert told.kind == ("share" if family == "binomial" else "mean")
    np.testing.assert_allclose(told.value, link(plain))
    assert told.interval[0, 0] < told.value[0] < told.interval[0, 1]
    assert told.prediction_interval is None
    with pytest.raises(InvalidInput, match="numeric outcome"):
        found.predict({"x": 0.5}, noise=1.0)


def test_what_follows_from_a_matrix_of_sums_says_that_it_assumes_equal_variances(tmp_path):
    """In Python, the terminal and the report; rows and yes/no do not assume it."""
    table, asked = people(2000), {"categories": LISTS, "epsilon": 20.0, "range": (-1, 8)}
    plan = pv.plan(table, FORMULA, publish="matrix", **asked)
    plan.simulate(tmp_path / "z.json", rng=1)
    found = pv.estimate(tmp_path / "z.json")
    row = {"age": 50.0, "sex": "m", "town": "b"}
    for result in (found.predict(row), found.wald_test("town"), found.contrast({"age": 10.0})):
        assert "assume that all residuals have the same variance" in result.note
        assert result.to_dict()["note"] == result.note
    assert found.note in found.contrast({"age": 10.0}).summary()
    assert found.note not in found.summary()  # single coefficients do not assume it
    smaller = pv.estimate(tmp_path / "z.json", features=["age"])
    assert smaller.predict({"age": 50.0}).note == found.compare(smaller).note == found.note
    for asks in (("--at", "age=50,sex=m,town=b"), ("--wald", "town")):
        done = called("estimate", tmp_path / "z.json", *asks)
        assert found.note in " ".join(done.stdout.split())
    assert "same variance" not in called("estimate", tmp_path / "z.json").stdout
    means = {"a": found.predict(row)}
    (section,) = pv.workflow.describe(found, keys=["asked"], means=means)
    assert found.note in " ".join(str(section).split())
    several = pv.plan(table.assign(x=table["y"]), "y + x ~ age", epsilon=20.0, publish="matrix",
                      range={"y": (-1, 8), "x": (-1, 8)})  # fmt: skip
    assert pv.estimate(several.simulate(rng=1)).contrast({"y: age": 1.0}).note == found.note
    rows = pv.plan(table, FORMULA, form="rows", delta=1e-6, **asked)
    assert pv.estimate(rows.simulate(rng=1)).predict(row).note is None
    table["y"] = np.random.default_rng(1).binomial(1, scipy.special.expit(table["y"] - 3))
    answers = {"family": "binomial", "publish": "matrix", "range": None}
    shares = pv.plan(table, FORMULA, **asked | answers)
    assert pv.estimate(shares.simulate(rng=1)).wald_test("town").note is None


def test_a_model_that_is_no_table():
    model = pv.LinearModel(np.column_stack([np.ones(50), np.arange(50.0)]), 0.25, names=("a", "b"))
    z = pv.GaussianMechanism(4.0, measurements=50).simulate(
        np.arange(50.0), rng=np.random.default_rng(1)
    )
    found = pv.estimate(z, model, mechanism=pv.GaussianMechanism(4.0, measurements=50))
    told = found.predict([{"a": 1, "b": 2}], noise=0.25)
    h = np.array([1.0, 2.0])
    error = np.sqrt(h @ found.covariance @ h)
    q = scipy.stats.norm.ppf(0.975)
    np.testing.assert_allclose(np.diff(told.interval)[0, 0], 2 * q * error)
    new = np.sqrt(error**2 + 0.25)
    np.testing.assert_allclose(np.diff(told.prediction_interval)[0, 0], 2 * q * new)
    assert found.predict([1, 2]).prediction_interval is None
    with pytest.raises(InvalidInput, match="'b' has none"):
        found.predict({"a": 1})

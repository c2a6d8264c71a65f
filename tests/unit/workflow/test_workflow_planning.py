"""Plans of files and frames: the same numbers, the readings unread, bad tables refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from privest.data.source import open_source
from privest.errors import InvalidInput, NotIdentifiable
from privest.workflow.plan import make_plan
from privest.workflow.spec import Privacy, Public
from workflow_tables import LEVEL, UNIT, VARIANCE, matrix, people, spec, write


@pytest.fixture(scope="module")
def table():
    return people()


def test_csv_parquet_and_frames_give_the_same_plan(table, tmp_path):
    expected = make_plan(spec(), table)
    files = [write(table, tmp_path / f"people.{end}") for end in ("csv", "parquet")]
    frames = [pd.DataFrame(table), pl.DataFrame(table)]
    for data in (*files, *frames):
        found = make_plan(spec(), data)
        assert (found.names, found.rows) == (expected.names, expected.rows)
        np.testing.assert_array_equal(found.survey.triangle, expected.survey.triangle)
    from_spec = make_plan(spec(files[0]))
    np.testing.assert_array_equal(from_spec.survey.triangle, expected.survey.triangle)
    assert json.loads(json.dumps(expected.to_dict()))["columns"][0]["level"] == LEVEL


def test_the_plan_of_many_blocks_is_that_of_one(monkeypatch):
    """A file of more than one block, against H'H written out."""
    table = people(70_000)
    plan = make_plan(spec(), table)
    H = matrix(table)
    np.testing.assert_allclose(plan.shape, np.linalg.inv(H.T @ H), rtol=1e-8)
    assert len(list(open_source(table).blocks(["age"]))) > 1


def test_nothing_depends_on_the_readings(table):
    """Readings that no computation survives: a plan does not see them."""
    expected = make_plan(spec(), table).to_dict()
    for value in (np.nan, np.inf, -1e300):
        spoiled = table | {"ldl": np.full(len(table["ldl"]), value)}
        assert make_plan(spec(), spoiled).to_dict() == expected
    words = table | {"ldl": np.array(["private"] * len(table["ldl"]))}
    assert make_plan(spec(), words).to_dict() == expected
    with pytest.raises(InvalidInput, match=r"'ldl'.*numbers") as said:
        replace(make_plan(spec(), words), data=words).simulate(rng=np.random.default_rng(1))
    assert "private" not in str(said.value)


def test_missing_values_are_refused_or_dropped(table):
    gaps = {name: np.array(column, dtype=object) for name, column in table.items()}
    gaps["age"][[3, 10]] = None
    gaps["sex"][10:12] = None
    with pytest.raises(InvalidInput, match="'age', row 4"):
        make_plan(spec(), gaps)
    plan = make_plan(spec(missing="drop"), gaps)
    keep = np.delete(np.arange(len(table["age"])), [3, 10, 11])
    kept = make_plan(spec(), {name: column[keep] for name, column in table.items()})
    np.testing.assert_array_equal(plan.survey.triangle, kept.survey.triangle)
    assert (plan.rows, plan.dropped) == (len(keep), 3)


def test_a_mean_needs_no_feature(table):
    plan = make_plan(spec(features=(), categories={}), table)
    rows = len(table["ldl"])
    assert plan.names == ("intercept",)
    assert plan.standard_error[0] == pytest.approx(
        np.sqrt((VARIANCE + UNIT / LEVEL) / rows), rel=1e-12
    )


def test_categories_as_words_codes_and_without_an_intercept(table):
    by_word = make_plan(spec(), table)
    codes = table | {"sex": np.where(table["sex"] == "male", 2, 1)}
    by_code = make_plan(spec(categories={"sex": ("1", "2")}), codes)
    assert by_code.names[-1] == "sex=2"
    np.testing.assert_array_equal(by_word.survey.triangle, by_code.survey.triangle)
    bare = make_plan(spec(intercept=False), table)
    assert bare.names == ("age", "bmi", "sex=female", "sex=male")
    # Another basis of the same space: female = intercept, male = intercept + difference.
    index = by_word.names.index
    assert bare.standard_error[2] == pytest.approx(by_word.standard_error[index("intercept")])


def test_an_unknown_category_is_refused_without_showing_it(table):
    odd = table | {"sex": np.where(np.arange(len(table["sex"])) == 5, "secret", table["sex"])}
    with pytest.raises(InvalidInput, match="'sex', row 6") as caught:
        make_plan(spec(), odd)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "features", "words"),
    [
        ({"c": 5.0}, ("age", "c"), "'c' is constant"),
        ({"c": 0.0}, ("age", "c"), "'c' is 0 in every row"),
        ({"c": 0.0, "d": 0.0}, ("c", "age", "d"), "'c', 'd' are 0 in every row"),
        ({"c": "twice"}, ("age", "c", "bmi"), "'age', 'c' are collinear"),
        ({"c": "sum"}, ("age", "c", "bmi"), "'age', 'c', 'bmi' are collinear"),
        ({"c": "shifted"}, ("age", "c", "bmi"), "'intercept', 'age', 'c' are collinear"),
    ],
)
def test_columns_that_cannot_be_told_apart_are_named(table, change, features, words):
    rows = len(table["age"])
    made = {
        "twice": 2 * table["age"],
        "sum": table["age"] + 1e-3 * table["bmi"],
        "shifted": 273.15 + table["age"],
    }
    more = {n: made[v] if isinstance(v, str) else np.full(rows, v) for n, v in change.items()}
    with pytest.raises(NotIdentifiable) as caught:
        make_plan(spec(features=features, categories={}), table | more)
    assert words in str(caught.value)


def test_nearly_tied_columns_are_no_mistake(table):
    """A thousandth of another column is far from rounding: poor accuracy, but an answer."""
    near = table | {"c": table["age"] + 1e-3 * table["bmi"]}
    assert make_plan(spec(features=("age", "c"), categories={}), near).rows == 200


def test_a_category_that_nobody_has(table):
    with pytest.raises(NotIdentifiable, match=r"no row has 'sex=other'.*off the list"):
        make_plan(spec(categories={"sex": ("female", "male", "other")}), table)


def test_too_few_rows_say_so(table):
    few = {name: column[:3] for name, column in table.items()}
    with pytest.raises(NotIdentifiable, match="3 rows cannot determine 4 coefficients"):
        make_plan(spec(), few)


def test_the_target_must_be_there(table):
    with pytest.raises(InvalidInput, match="no column 'hdl'"):
        make_plan(spec(target="hdl"), table)


def test_references_that_say_nothing(table, tmp_path):
    def plan(reference, **changes):
        path = write(reference, tmp_path / "r.csv")
        return make_plan(spec(public=Public(reference=str(path)), **changes), table)

    few = {name: column[:4] for name, column in table.items()}
    with pytest.raises(InvalidInput, match="4 rows for 4 coefficients: it says nothing"):
        plan(few)
    exact = table | {"ldl": np.zeros(len(table["age"]))}
    with pytest.raises(InvalidInput, match="fitted exactly"):
        plan(exact)
    with pytest.raises(InvalidInput, match="0 or negative"):
        plan(table, transform="log")
    women = {name: column[table["sex"] == "female"] for name, column in table.items()}
    with pytest.raises(NotIdentifiable, match=r"r\.csv: no row has 'sex=male'"):
        plan(women)
    without = {name: column for name, column in table.items() if name != "bmi"}
    with pytest.raises(InvalidInput, match="'bmi'"):
        plan(without)


# --- without a residual variance ------------------------------------------------------------------


def test_a_plan_needs_no_residual_variance():
    """The part of privacy is exact: that of a plan with σ² next to none."""
    table = people()
    plan = make_plan(spec(public=Public()), table)
    assert plan.column.residual_variance is None
    none = make_plan(spec(public=Public(1e-12)), table)
    np.testing.assert_allclose(plan.privacy_error, none.standard_error, rtol=1e-10)
    np.testing.assert_allclose(plan.privacy_error, make_plan(spec(), table).privacy_error)
    assert np.isnan(plan.standard_error).all()
    assert np.isnan(plan.classical_error).all()
    record = json.loads(json.dumps(plan.to_dict(), allow_nan=False))  # NaN is not JSON
    assert record["columns"][0]["standard_error"] == [None] * 4


def test_what_needs_a_residual_variance_says_so():
    table = people()
    plan = make_plan(spec(public=Public()), table)
    with pytest.raises(InvalidInput, match="residual variance"):
        plan.rows_for(0.1, "age")
    with pytest.raises(InvalidInput, match="residual variance"):
        make_plan(spec(public=Public(), privacy=Privacy(standard_error={"age": 0.1})), table)

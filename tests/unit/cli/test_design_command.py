"""`privest design` and `privest plan --level-column`, from a plan to a report, and wrong uses."""

import json

import numpy as np
import pandas as pd
import pytest

from privest.lattice import GRID
from privest.workflow.plan import make_plan
from privest.workflow.spec import load_spec
from workflow_command import runner
from workflow_tables import people, spec, write

ERRORS = "age=0.004,bmi=0.05"


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def data(tmp_path):
    table = people() | {"ward": np.resize(["a", "b", "c"], 200)}
    return write(table, tmp_path / "people.csv")


def planned(run, data, *more):
    return run("plan", data, "--form", "rows",
        "--target", "ldl", "--features", "age,bmi,sex", "--category",
               "sex=female,male", "--residual-variance", 0.3, *more)  # fmt: skip


@pytest.fixture
def plan(run, data, tmp_path):
    """A plan with equal levels."""
    file = tmp_path / "plan.toml"
    done = planned(run, data, "--level", 2, "--save", file)
    assert done.code == 0, done.err
    return file


def words(text):
    return " ".join(text.split())


def test_from_a_design_to_the_report(run, data, plan, tmp_path):
    levels, file, table, page = (
        tmp_path / name for name in ("levels.csv", "own.toml", "z.csv", "page.html")
    )
    done = run("design", plan, "--standard-error", ERRORS, "--output", levels)
    assert done.code == 0, done.err
    assert run("design", plan, "--output", levels).code == 2  # it exists
    done = planned(run, levels, "--level-column", "level", "--delta", 1e-6,
                   "--set", "privacy.sensitivity=1",
                   "--save", file, "--want", "age=0.003")  # fmt: skip
    assert done.code == 0, done.err
    said, found = words(done.out), make_plan(load_spec(file))
    assert found.standard_error[1] == pytest.approx(0.004, rel=1e-4)
    assert "200 rows, 4 coefficients: all of them can be estimated." in said
    assert "its own privacy level, the public column “level”" in said
    assert f"Level 0, withheld: {found.found.levels.withheld} rows." in said
    assert "These sentences are for the rows with the largest level" in said
    assert "For a difference of at most 1, not enforced: ε =" in said
    assert f"For age=0.003 at this level {found.rows_for(0.003, 'age'):,} rows" in said
    done = run("release", file, "-o", table)
    assert done.code == 0, done.err
    assert "200 rows released at privacy levels per row up to" in words(done.err)
    done = run("estimate", table)
    assert done.code == 0, done.err
    record = json.loads(run("estimate", table, "--json").out)
    assert record["release"]["plan"]["privacy"]["level_column"] == "level"
    done = run("report", file, table, "-o", page)
    assert done.code == 0, done.err
    told = words(page.read_text())
    assert "the public column “level”. The largest" in told
    assert "released at privacy levels per row up to s =" in told
    done = run("report", plan, table, "-o", tmp_path / "other.html")
    assert done.code == 2
    assert "a different level_column" in words(done.err)
    assert run("design", file).code == 2  # it has its levels


def test_a_plan_with_a_level_column_and_no_noise_variance(run, tmp_path):
    table = write(people() | {"level": np.linspace(0, 2, 200)}, tmp_path / "people.csv")
    done = run(
        "plan",
        table,
        "--form",
        "rows",
        "--target",
        "ldl",
        "--features",
        "age,bmi",
        "--level-column",
        "level",
    )
    assert done.code == 0, done.err
    assert "privacy alone" in words(done.out)
    assert "nan" not in done.out


def test_the_table_that_is_written_is_the_table_with_its_levels(run, tmp_path):
    table = {name: list(column) for name, column in people(100).items()} | {
        "note": ['a "quoted", word', None, *["b"] * 98]
    }
    table["age"][7] = None
    file = write(table, tmp_path / "people.csv")
    planned(run, file, "--level", 2, "--missing", "drop", "--save", tmp_path / "plan.toml")
    done = run("design", tmp_path / "plan.toml", "-o", tmp_path / "levels.csv")
    assert done.code == 0, done.err
    before, after = pd.read_csv(file), pd.read_csv(tmp_path / "levels.csv")
    pd.testing.assert_frame_equal(after.drop(columns="level"), before)
    assert after["level"][7] == 0
    assert after["level"].sum() / 99 == pytest.approx(2.0, rel=1e-4)
    done = planned(run, tmp_path / "levels.csv", "--level", 2, "--save", tmp_path / "again.toml",
                   "--missing", "drop")  # fmt: skip
    done = run("design", tmp_path / "again.toml", "-o", tmp_path / "more.csv")
    assert done.code == 2
    assert "the table has a column 'level' already" in words(done.err)


def test_what_a_design_shows(run, plan, tmp_path):
    done = run("design", plan, "--standard-error", ERRORS)
    assert done.code == 0, done.err
    said = words(done.out)
    assert "Standard errors of 200 rows" in said
    assert "0.004" in said
    assert "Equal levels for the same accuracy lose" in said
    assert "Proved: no levels within the limits have a privacy loss below" in said
    record = json.loads(run("design", plan, "--standard-error", ERRORS, "--json").out)
    assert record["design"]["gap"] <= 1e-6
    assert 200 * record["mean"] >= record["design"]["floor"] * (1 - 1e-4)
    asked = dict(zip(record["names"], record["standard_error"]))
    assert max(asked["age"] / 0.004, asked["bmi"] / 0.05) == pytest.approx(1, rel=1e-4)


def test_no_row_is_above_the_cap(run, plan):
    record = json.loads(run("design", plan, "--standard-error", ERRORS, "--cap", 3, "--json").out)
    assert 3.0 - 1e-9 < record["level"] <= 3.0


def test_levels_that_the_grid_cannot_hold_are_withheld(run, data, tmp_path):
    planned(run, data, "--level", 2, "--range", "0,0.003", "--save", tmp_path / "narrow.toml")
    levels = tmp_path / "levels.csv"
    done = run("design", tmp_path / "narrow.toml", "-o", levels)
    assert done.code == 0, done.err
    done = planned(run, levels, "--level-column", "level", "--range", "0,0.003")
    assert done.code == 0, done.err
    own = pd.read_csv(levels)["level"]
    assert own[own > 0].min() >= (4 * GRID / 0.003) ** 2


def test_without_options_it_is_what_the_plan_asks_for(run, plan):
    record = json.loads(run("design", plan, "--json").out)
    assert record["mean"] == pytest.approx(2.0, rel=1e-4)
    other = json.loads(run("design", plan, "--budget", 400, "--json").out)
    assert other["mean"] == pytest.approx(2.0, rel=1e-4)
    assert other["design"]["value"] < other["design"]["equal"]


def test_equalised_levels_are_the_lowest_largest(run, data, plan, tmp_path):
    equal = json.loads(run("design", plan, "--standard-error", ERRORS, "--equalised",
                           "--json").out)  # fmt: skip
    least = json.loads(run("design", plan, "--standard-error", ERRORS, "--json").out)
    assert equal["level"] < least["level"]
    assert equal["mean"] > least["mean"]
    planned(run, data, "--standard-error", ERRORS, "--save", tmp_path / "own.toml")
    own = json.loads(run("design", tmp_path / "own.toml", "--equalised", "--json").out)
    assert own["level"] == equal["level"]  # a plan's own errors
    done = run("design", plan, "--standard-error", ERRORS, "--equalised")
    assert "The largest privacy loss of a measurement is" in words(done.out)


def test_groups(run, plan):
    done = run("design", plan, "--groups", "ward")
    assert done.code == 0, done.err
    assert "Levels by ward" in done.out
    record = json.loads(run("design", plan, "--groups", "sex", "--json").out)
    assert {one["group"] for one in record["groups"]} == {"female", "male"}
    assert sum(one["rows"] for one in record["groups"]) == 200
    many = run("design", plan, "--groups", "age")
    assert many.code == 0, many.err
    assert "more with lower levels" in words(many.out)


WRONG = {
    "two ways": (["--budget", 3, "--standard-error", "age=1"], "leave one of them out"),
    "equalised alone": (["--equalised"], "--equalised goes with --standard-error"),
    "no budget": (["--budget", 0], "--budget"),
    "a negative cap": (["--cap", -1], "--cap"),
    "a cap below the mean": (["--cap", 1], "the cap must be above the mean"),
    "no names": (["--standard-error", 0.1], "write NAME=NUMBER"),
    "no number": (["--standard-error", "age=x"], "write NAME=NUMBER"),
    "twice": (["--standard-error", "age=1,age=2"], "there twice"),
    "no such coefficient": (["--standard-error", "agee=1"], "Did you mean 'age'?"),
    "below the classical bound": (["--standard-error", "age=0.0001"], "without any privacy it is"),
    "below what the cap allows": (
        ["--standard-error", "age=0.004", "--cap", 0.1], "within the caps and limits"),
    "no such column": (["--groups", "wart"], "wart"),
    "groups of the target": (["--groups", "ldl"], "public column"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_uses_get_a_sentence(run, plan, case):
    arguments, sentence = WRONG[case]
    done = run("design", plan, *arguments)
    assert done.code == 2
    assert sentence in words(done.err)
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["--level", 2], "needs the residual variance"),
        (["--level", 2, "--set", "model.weights=age"], "without weights"),
        (
            ["--epsilon", 1, "--set", "privacy.sensitivity=1", "--distribution", "laplace"],
            "Gaussian noise",
        ),
    ],
)
def test_plans_that_a_design_is_not_for(run, data, tmp_path, changes, sentence):
    done = run("plan", data, "--form", "rows",
        "--target", "ldl", "--features", "age,bmi", *changes, "--save",
               tmp_path / "other.toml")  # fmt: skip
    assert done.code == 0, done.err
    done = run("design", tmp_path / "other.toml")
    assert done.code == 2
    assert sentence in words(done.err)


def test_several_errors_without_allocation(run, data):
    done = planned(run, data, "--standard-error", ERRORS, "--json")
    (record,) = json.loads(done.out)["columns"]
    errors = make_plan(spec(data)).at(record["level"]).standard_error
    assert record["standard_error"] == pytest.approx(errors.tolist())
    assert max(errors[1] / 0.004, errors[2] / 0.05) == pytest.approx(1.0)
    done = planned(run, data, "--standard-error", 0.1)
    assert done.code == 2
    assert "write NAME=NUMBER" in words(done.err)


def test_levels_that_hide_a_coefficient_are_refused_by_its_name(run, tmp_path):
    rng = np.random.default_rng(4)
    table = {"age": rng.uniform(20, 80, 60), "kind": np.repeat(["a", "b"], [57, 3]),
             "y": rng.standard_normal(60)}  # fmt: skip
    file, plan = write(table, tmp_path / "rare.csv"), tmp_path / "plan.toml"
    run("plan", file, "--form", "rows",
        "--target", "y", "--features", "age,kind", "--category", "kind=a,b",
        "--residual-variance", 1, "--level", 1, "--save", plan)  # fmt: skip
    done = run("design", plan, "--standard-error", "age=0.05")
    assert done.code == 2
    assert "do not reveal 'kind=b'. Ask for a standard error of that too" in words(done.err)
    assert run("design", plan, "--standard-error", "age=0.05,kind=b=5").code == 0

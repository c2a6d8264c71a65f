"""`privest design` and `privest plan --allocate`, from the plan to the report, and wrong uses."""

import json
import re

import numpy as np
import pytest
import scipy

import privest as pv
from privest.workflow import load_spec, make_plan
from privest.workflow._allocating import held_rows, model_of
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
    return run("plan", data, "--target", "ldl", "--features", "age,bmi,sex", "--category",
               "sex=female,male", "--noise-variance", 0.3, *more)  # fmt: skip


@pytest.fixture
def plan(run, data, tmp_path):
    """A plan with equal levels."""
    file = tmp_path / "plan.toml"
    done = planned(run, data, "--level", 2, "--save", file)
    assert done.code == 0, done.err
    return file


def words(text):
    return " ".join(text.split())


def test_from_plan_to_report(run, data, tmp_path):
    file, table, page = tmp_path / "plan.toml", tmp_path / "z.csv", tmp_path / "page.html"
    done = planned(run, data, "--standard-error", ERRORS, "--allocate", "--delta", 1e-6,
                   "--move", 1, "--save", file, "--want", "age=0.003")  # fmt: skip
    assert done.code == 0, done.err
    said = words(done.out)
    found = make_plan(load_spec(file))
    own = found.spread
    assert "200 rows, 4 coefficients: all of them can be estimated." in said
    assert "by their public features: from 0 to" in said
    assert f"Of {100 * own.silent:.3g} % of the rows nothing is shown" in said
    assert f"show {100 * (1 - own.mean / own.equal):.3g} % less in total" in said
    assert "The tenth of the rows with the highest levels bears" in said
    assert "(proved)" in said
    assert "The reading of the row with the highest level: whoever sees" in said
    assert "As differential privacy: ε =" in said
    assert f"For age=0.003 at these levels {found.rows_for(0.003, 'age'):,} rows" in said
    done = run("release", file, "-o", table)
    assert done.code == 0, done.err
    assert "200 rows released at privacy levels per row up to" in words(done.err)
    done = run("estimate", table)
    assert done.code == 0, done.err
    assert "Errors: REML over the levels, Knapp-Hartung" in words(done.out)
    assert "Check of the stated noise variance" in words(done.out)
    record = json.loads(run("estimate", table, "--json").out)
    assert record["release"]["columns"][0]["levels"]["standard_error"] == {
        "age": 0.004, "bmi": 0.05}  # fmt: skip
    assert run("estimate", table, "--errors", "stated").code == 0
    done = run("report", file, table, "-o", page)
    assert done.code == 0, done.err
    told = words(page.read_text())
    assert "Who gives up how much" in told
    assert "privacy level s up to" in told
    assert "was released at privacy levels per row, the largest of them s =" in told
    assert "How many rows have which privacy level" in told  # what the picture shows, in words
    done = run("plan", file, "--png", tmp_path / "curve.png")
    assert done.code == 0, done.err


def test_a_release_under_another_allocation_is_told_apart(run, data, tmp_path):
    files = [tmp_path / "one.toml", tmp_path / "two.toml", tmp_path / "three.toml"]
    planned(run, data, "--standard-error", ERRORS, "--allocate", "--save", files[0])
    planned(run, data, "--standard-error", "age=0.005", "--allocate", "--save", files[1])
    planned(run, data, "--level", 2, "--save", files[2])
    assert run("release", files[0], "-o", tmp_path / "z.csv", "--simulate").code == 0
    for other in files[1:]:
        done = run("report", other, tmp_path / "z.csv", "-o", tmp_path / "page.html")
        assert done.code == 2
        assert "levels of the rows (--allocate) differs" in words(done.err)


def test_what_a_design_shows(run, plan, tmp_path):
    done = run("design", plan, "--standard-error", ERRORS, "--figure", tmp_path / "who.png")
    assert done.code == 0, done.err
    said = words(done.out)
    assert "Standard errors of 200 rows" in said
    assert "0.004" in said
    assert "show" in said
    assert "% less in total" in said
    assert "One per cent more in total lowers" in said
    assert (tmp_path / "who.png").stat().st_size > 1000
    record = json.loads(run("design", plan, "--standard-error", ERRORS, "--json").out)
    assert record["design"]["gap"] <= 1e-6
    assert record["spread"]["total"] >= record["design"]["floor"]
    asked = dict(zip(record["names"], record["standard_error"]))
    assert asked["age"] <= 0.004 * (1 + 1e-12)
    assert asked["bmi"] <= 0.05 * (1 + 1e-12)
    assert max(asked["age"] / 0.004, asked["bmi"] / 0.05) > 1 - 1e-6


def test_the_same_levels_as_a_plan_with_allocate(run, data, plan, tmp_path):
    planned(run, data, "--standard-error", ERRORS, "--allocate", "--cap", 3, "--save",
            tmp_path / "own.toml")  # fmt: skip
    own = make_plan(load_spec(tmp_path / "own.toml"))
    for arguments in ((tmp_path / "own.toml",), (plan, "--standard-error", ERRORS, "--cap", 3)):
        record = json.loads(run("design", *arguments, "--json").out)
        assert record["spread"]["total"] == pytest.approx(own.spread.total, rel=1e-9)
        assert record["level"] == own.level


def test_without_options_it_is_what_the_plan_asks_for(run, plan):
    record = json.loads(run("design", plan, "--json").out)
    assert record["spread"]["mean"] == pytest.approx(2.0, rel=1e-6)
    assert record["levels"]["criterion"] == "A"
    other = json.loads(run("design", plan, "--budget", 400, "--criterion", "D", "--json").out)
    assert other["spread"]["mean"] == pytest.approx(2.0, rel=1e-6)
    assert other["design"]["value"] < other["design"]["equal"]


def test_equalised_levels_are_the_lowest_largest(run, data, plan, tmp_path):
    equal = json.loads(run("design", plan, "--standard-error", ERRORS, "--equalised",
                           "--json").out)  # fmt: skip
    least = json.loads(run("design", plan, "--standard-error", ERRORS, "--json").out)
    assert equal["level"] < least["level"]
    assert equal["spread"]["total"] > least["spread"]["total"]
    planned(run, data, "--standard-error", ERRORS, "--save", tmp_path / "own.toml")
    own = json.loads(run("design", tmp_path / "own.toml", "--equalised", "--json").out)
    assert own["level"] == equal["level"]  # a plan's own errors
    done = run("design", plan, "--standard-error", ERRORS, "--equalised")
    assert "Every row has the privacy level s =" in words(done.out)
    assert "No levels give these errors with a lower largest one" in words(done.out)


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
    "two ways": (["--budget", 3, "--standard-error", "age=1"], "ask for opposite things"),
    "equalised alone": (["--equalised"], "--equalised goes with --standard-error"),
    "a criterion of errors": (
        ["--criterion", "D", "--standard-error", "age=1"], "goes with a budget"),
    "an unknown criterion": (["--criterion", "F"], "--criterion must be one of A, D, E"),
    "no budget": (["--budget", 0], "--budget"),
    "a negative cap": (["--cap", -1], "--cap"),
    "a cap below the mean": (["--cap", 1], "the cap must be above the mean"),
    "no names": (["--standard-error", 0.1], "say of which coefficients"),
    "no number": (["--standard-error", "age=x"], "write NAME=NUMBER"),
    "twice": (["--standard-error", "age=1,age=2"], "there twice"),
    "no such coefficient": (["--standard-error", "agee=1"], "Did you mean 'age'?"),
    "below the classical bound": (["--standard-error", "age=0.0001"], "without any privacy it is"),
    "below what the cap allows": (
        ["--standard-error", "age=0.004", "--cap", 0.1], "standard errors are at best 'age' 0.0"),
    "no such column": (["--groups", "wart"], "wart"),
    "groups of the target": (["--groups", "ldl"], "public column"),
    "a figure of no kind": (["--figure", "who.doc"], "the figure can be"),
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
        (["--level", 2], "states no noise variance"),
        (["--level", 2, "--person", "ward"], "persons with several rows"),
        (["--level", 2, "--weights", "age"], "weights"),
        (["--epsilon", 1, "--move", 1, "--law", "laplace"], "law laplace"),
    ],
)
def test_plans_that_a_design_is_not_for(run, data, tmp_path, changes, sentence):
    done = run("plan", data, "--target", "ldl", "--features", "age,bmi", *changes, "--save",
               tmp_path / "other.toml")  # fmt: skip
    assert done.code == 0, done.err
    done = run("design", tmp_path / "other.toml")
    assert done.code == 2
    assert sentence in words(done.err)


def test_several_errors_without_allocation(run, data):
    done = planned(run, data, "--standard-error", ERRORS, "--json")
    record = json.loads(done.out)
    level = make_plan(spec(data)).errors_at(record["level"])
    assert record["standard_error"] == pytest.approx(level.tolist())
    assert max(record["standard_error"][1] / 0.004, record["standard_error"][2] / 0.05) == (
        pytest.approx(1.0))  # fmt: skip
    done = planned(run, data, "--standard-error", 0.1)
    assert done.code == 2
    assert "standard_error needs `of`" in words(done.err)


def test_the_price_of_standard_errors_is_of_the_errors_and_not_of_their_squares(run, plan):
    said = words(run("design", plan, "--standard-error", "age=0.004").out)
    less = float(said.split("(age 0.004) by ")[1].split(" %")[0])
    record = json.loads(run("design", plan, "--standard-error", "age=0.004", "--json").out)
    more = {"budget": 1.01 * record["design"]["spent"]}
    found = make_plan(load_spec(plan))
    rows = held_rows(found.spec, None, None)
    better = pv.design.allocate(
        model_of(found, rows), criterion=pv.design.C([0, 1, 0, 0]), **more
    ).value
    assert less == pytest.approx(100 * (1 - np.sqrt(better) / 0.004), rel=0.02)


def test_levels_that_hide_a_coefficient_are_refused_by_its_name(run, tmp_path):
    rng = np.random.default_rng(4)
    table = {"age": rng.uniform(20, 80, 60), "kind": np.repeat(["a", "b"], [57, 3]),
             "y": rng.standard_normal(60)}  # fmt: skip
    file = write(table, tmp_path / "rare.csv")
    asked = ("plan", file, "--target", "y", "--features", "age,kind", "--category", "kind=a,b",
             "--noise-variance", 1, "--allocate", "--standard-error")  # fmt: skip
    done = run(*asked, "age=0.05")
    assert done.code == 2
    assert "do not show 'kind=b'. Ask for a standard error of that too" in words(done.err)
    assert run(*asked, "age=0.05,kind=b=5").code == 0


def test_levels_of_as_many_rows_as_coefficients_are_refused_before_the_release(run, tmp_path):
    rng = np.random.default_rng(3)
    table = {"x": np.r_[0.0, 100.0, rng.uniform(49, 51, 40)], "y": rng.standard_normal(42)}
    file = write(table, tmp_path / "few.csv")
    asked = ("plan", file, "--target", "y", "--features", "x", "--noise-variance", 0.1,
             "--allocate", "--level", 0.01, "--criterion", "D")  # fmt: skip
    done = run(*asked)
    assert done.code == 2
    assert "the best levels show 2 of 42 rows" in words(done.err)
    assert run(*asked, "--cap", 0.02).code == 0


def test_a_range_that_hides_rows_does_not_miss_what_was_asked_for_in_silence(run, data):
    done = planned(run, data, "--allocate", "--standard-error", ERRORS, "--range", "0,0.003")
    assert done.code == 2
    assert "the range is so narrow" in words(done.err)
    assert "asked for: 0.004" in words(done.err)


def test_a_plan_that_shows_few_rows_says_what_that_costs(run, tmp_path):
    rng = np.random.default_rng(3)
    table = tmp_path / "few.csv"
    rows = np.round(rng.standard_normal((40, 3)), 3)
    lines = ["a,b,y", *(",".join(map(str, row)) for row in rows)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    common = ["plan", table, "--target", "y", "--features", "a,b", "--noise-variance", "0.01"]
    few = words(run(*common, "--allocate", "--level", "0.005").out)
    shown = int(re.search(r"Only (\d+) rows are shown", few)[1])
    wide = scipy.stats.t.ppf(0.975, shown - 3) / scipy.stats.norm.ppf(0.975)
    assert f"{wide:.3g} times as wide" in few
    assert "are missing" in few
    assert "rows are shown, for" not in words(run(*common, "--allocate", "--level", "100").out)

"""`--person` through the commands: plan, release, estimate, report, and every wrong use."""

import json

import numpy as np
import pandas as pd
import pytest

from workflow_command import runner


@pytest.fixture
def run(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.resize([1, 2, 5, 8], 40)
    person = np.repeat(np.arange(40), rows)
    frame = pd.DataFrame({"id": [f"P{k:02d}" for k in person]})
    frame["age"], frame["week"] = rng.integers(20, 80, 40)[person], rng.integers(0, 9, len(frame))
    frame["ldl"] = 3 + 0.01 * frame.age + 0.5 * rng.standard_normal(40)[person]
    frame["ldl"] += 0.5 * rng.standard_normal(len(frame))
    path = tmp_path / "clinic.csv"
    frame.to_csv(path, index=False)
    return path


def planned(run, data, *more):
    return run("plan", data, "--target", "ldl", "--features", "age,week", "--person", "id",
               "--epsilon", 8, "--range", "0,10", *more)  # fmt: skip


def words(text):
    return " ".join(text.split())


def test_from_plan_to_report(run, data, tmp_path):
    plan, table = tmp_path / "plan.toml", tmp_path / "z.json"
    done = planned(run, data, "--save", plan)
    assert done.code == 0, done.err
    said = words(done.out)
    assert "160 rows, 3 coefficients" in said
    assert "40 people with 1 to 8 rows each (4 on average)" in said
    assert "privacy alone" in said
    done = run("release", plan, "-o", table)
    assert done.code == 0, done.err
    done = run("estimate", table)
    assert "From 40 people with 160 rows" in words(done.out)
    assert "squares of the sums of each person" in words(done.out)
    done = run("estimate", table, "--json")
    assert json.loads(done.out)["rows"] == 160
    assert run("verify", table, "--ledger", tmp_path / "privest-ledger.db").code == 0
    assert run("report", plan, table, "-o", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "40 people with 160 rows" in page
    done = run("release", plan, "-o", tmp_path / "again.json")
    assert done.code != 0
    assert "was released" in done.err


def test_errors_to_expect_and_a_cap(run, data):
    done = planned(
        run, data, "--residual-variance", 0.5, "--set", "model.most_rows=3", "--want", "age=0.002"
    )
    said = words(done.out)
    assert "beyond the first 3 rows of a person: 70 rows" in said
    assert "the largest possible" in said
    assert "people like these are needed" in said


@pytest.mark.parametrize(
    ("change", "options", "told"),
    [
        (lambda t: t.assign(id="me"), (), "one person only"),
        (lambda t: t.assign(id=range(len(t))), (), "Leave the column of persons out"),
        (lambda t: t.assign(id=t.id.where(t.index != 2)), (), "does not say whose row it is"),
        (lambda t: t.rename(columns={"id": "who"}), (), "no column 'id'"),
        (lambda t: t, ("--set", "model.most_rows=0"), "most_rows must be a whole number"),
        (lambda t: t, ("--set", "model.weights=age"), "has no survey weights"),
        (lambda t: t, ("--form", "rows"), "need the aggregate form, with an epsilon"),
        (lambda t: t, ("--want", "age=0.1"), "need the residual variance"),
    ],
)
def test_wrong_uses_are_told(run, data, change, options, told):
    change(pd.read_csv(data)).to_csv(data, index=False)
    done = planned(run, data, *options)
    assert done.code != 0
    assert told in words(done.err)
    assert "Traceback" not in done.err

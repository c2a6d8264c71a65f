"""`privest look`: what a table holds, and options of `privest plan` that state it."""

import json
import shlex

import pytest

from workflow_command import runner

ROWS = [
    (str(20 + k), ("weiblich", "männlich")[k % 2], "999" if k % 20 == 3 else f"2{k % 9},5", "3,2")
    for k in range(40)
]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lines = ["Alter;Geschlecht;BMI;LDL", *(";".join(row) for row in ROWS)]
    (tmp_path / "clinic.csv").write_text("\n".join(lines), encoding="cp1252")
    return runner(capsys, monkeypatch)


def test_the_options_that_it_prints_are_taken_by_a_plan(run):
    """They are made of the columns that are stated as public."""
    done = run("look", "clinic.csv", "--public", "Alter,Geschlecht,BMI")
    assert done.code == 0, done.err
    assert "40 rows" in done.out
    assert "missing code? 999" in done.out
    options = shlex.split(done.out.splitlines()[-1])
    plan = (
        "plan",
        "clinic.csv",
        "--form",
        "rows",
        "--target",
        "LDL",
        "--features",
        "Geschlecht",
        "--level",
        1,
    )
    assert run(*plan).code == 2
    done = run(*plan, *options)
    assert done.code == 0, done.err
    assert "Geschlecht=weiblich" in done.out


def test_for_programs(run):
    public = ("--public", "Alter,Geschlecht,BMI")
    found = json.loads(run("look", "clinic.csv", *public, "--format", "decimal=,", "--json").out)
    assert [one["kind"] for one in found["columns"]] == ["number", "text", "number", "unread"]
    done = run("look", "clinic.csv")
    assert "Only names were read" in done.out
    assert "weiblich" not in done.out
    done = run("look", "clinic.csv", "--format", "decmal=,")
    assert (done.code, "'decmal' is not known" in done.err) == (2, True)

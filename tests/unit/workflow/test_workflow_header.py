"""The document of a release: every fact checked, none believed that another one contradicts."""

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from charged import charged
from privest.errors import InvalidInput
from privest.privacy import grid_statement
from privest.workflow import TableRelease, read_release
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Privacy, Public
from resealed import resealed, written
from workflow_tables import LEVEL, people, spec, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    write(people(60, seed=1), folder / "reference.csv")
    public = Public(reference=str(folder / "reference.csv"))
    asked = Privacy(LEVEL, delta=1e-6, sensitivity=1.0)
    plan = make_plan(spec(public=public, privacy=asked), people())
    simulate_release(plan, folder / "z.csv", np.random.default_rng(3), people())
    return folder


@pytest.fixture
def made(folder, tmp_path):
    """A copy of a release, and its document as plain values."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path / "z.csv", json.loads((tmp_path / "z.csv.json").read_text())


def put(table, record):
    text = record if isinstance(record, str) else written(record)
    Path(f"{table}.json").write_text(text, encoding="utf-8")


def refused(table):
    with pytest.raises(InvalidInput) as found:
        estimate(table)
    assert "\n" not in str(found.value)
    return str(found.value)


def changed(record, change):
    """The document with other values at these places: "facts.rows"; "columns.level" of the first
    column. `...` removes what is there."""
    record = copy.deepcopy(record)
    for place, value in change.items():
        *path, last = place.split(".")
        part = record
        for name in path:
            part = part[name][0] if name == "columns" else part.setdefault(name, {})
        if value is ...:
            part.pop(last, None)
        else:
            part[last] = value
    return record


MODEL, PRIVACY = "plan.model.", "plan.privacy."
LAX = grid_statement(3.0, delta=1e-6, sensitivity=1.0).epsilon
PLACE = {"ledger": "0" * 32, "subject": "ldl", "sequence": 3, "hash": "0" * 64}
REAL = {"facts.simulated": False, "facts.warning": None, "grid": 2.0**-10}
OTHER = [
    {"format": "privest stream"}, {"format": 3}, {"version": 3}, {"version": 5}, {"version": "4"},
    {"table": "y.csv"}, {"table": ""}, {"table": 3}, {"more": 1}, {"path": "/etc/passwd"},
    {"drawn": ...}, {"drawn": 3}, {"drawn": {}}, {"drawn.law": {"name": "none"}},
    {"drawn.range": {"low": 0, "high": 0, "exponent": 0}},
    {"drawn.range": {"low": 0, "high": 1, "exponent": -3}},
    {"facts": 3}, {"facts.more": 1}, {"plan": 3}, {"plan": {}}, {"plan.more": 1},
    {"plan.model": 3}, {"plan.privacy": []}, {"plan.public": {}},
    {"facts.rows": 199}, {"facts.rows": 10**6}, {"facts.rows": 0}, {"facts.rows": True},
    {"facts.dropped": 1}, {"facts.dropped": -5}, {"facts.dropped": 0.5},
    {MODEL + "target": ["hdl"]}, {MODEL + "target": []}, {MODEL + "target": ["ldl", "hdl"]},
    {"columns.target": "hdl"}, {"columns.target": ""},
    {MODEL + "transform": "log"}, {MODEL + "transform": "weird"}, {MODEL + "family": "gamma"},
    {MODEL + "family": "binomial"}, {MODEL + "family": "poisson"}, {MODEL + "intercept": False},
    {MODEL + "more": 1}, {MODEL + "formula": "ldl ~ age"}, {MODEL + "missing": "perhaps"},
    {MODEL + "features": ["age", "bmi"]}, {MODEL + "features": ["bmi", "age", "sex"]},
    {MODEL + "weights": "w"}, {MODEL + "weights": "z"}, {MODEL + "weights": "age"},
    {MODEL + "person": "id"}, {MODEL + "person": 3}, {MODEL + "most_rows": 3},
    {MODEL + "person": "id", "facts.persons": 3}, {MODEL + "person": "id", "facts.most_rows": 3},
    {MODEL + "person": "id", "facts.persons": 3, "facts.most_rows": 3},
    {MODEL + "person": "age", "facts.persons": 3, "facts.most_rows": 3},
    {MODEL + "person": "id", MODEL + "most_rows": 2, "facts.persons": 3, "facts.most_rows": 3},
    {"facts.persons": 3}, {"facts.most_rows": 3}, {"facts.persons": "x"},
    {"facts.coefficients": ["intercept", "age", "bmi"]},
    {"facts.coefficients": ["age", "bmi", "sex=male"]},
    {"facts.coefficients": ["intercept", "bmi", "age", "sex=male"]},
    {"facts.coefficients": "age"}, {"facts.coefficients": [1]}, {"facts.coefficients": []},
    {"facts.coefficients": ["a", "a"]}, {"facts.coefficients": ["a", "z"]},
    {"facts.categories": {}}, {"facts.categories": 3}, {"facts.categories": {"sex": 3}},
    {"facts.categories": {"sex": [1, 2]}}, {"facts.categories": {"sex": ["female", "femal"]}},
    {"facts.categories": {"age": ["female", "male"]}}, {MODEL + "categories": {}},
    {MODEL + "categories": {"sex": ["man", "male"]}}, {"facts.categories": {"sex": ["male"]}},
    {"columns": []}, {"columns": 3}, {"columns": [3]}, {"columns": [{}]}, {"columns.more": 1},
    {"columns.level": 3.0}, {"columns.level": -1}, {"columns.level": "2"},
    {"columns.level": 10**400}, {"columns.level": True}, {"columns.level": 0},
    {"columns.level": 3.0, "facts.epsilon": LAX}, {PRIVACY + "level": 3.0},
    {"columns.name": "y"}, {"columns.name": 3}, {"columns.unit": 0.5}, {"columns.unit": 0},
    {"columns.zero": 0.5}, {"columns.zero": "x"},
    {"columns.residual_variance": 0.01}, {"columns.residual_variance": True},
    {"columns.residual_variance": 0}, {"columns.residual_variance": None},
    {"columns.reference_rows": 61}, {"columns.reference_rows": 0}, {"columns.reference_rows": 4},
    {"columns.reference_rows": None},
    {"facts.epsilon": 0.001}, {"facts.epsilon": None}, {"facts.epsilon": True},
    {"facts.epsilon": "x"},
    {PRIVACY + "delta": 1e-3}, {PRIVACY + "delta": 1.0}, {PRIVACY + "delta": ...},
    {PRIVACY + "sensitivity": 0.1}, {PRIVACY + "sensitivity": ...}, {PRIVACY + "sensitivity": -1},
    {PRIVACY + "sensitivity": 1e300}, {PRIVACY + "range": {"ldl": [1, 0]}},
    {PRIVACY + "range": 3}, {PRIVACY + "range": {"ldl": [0, "x"]}},
    {PRIVACY + "range": {"hdl": [0, 1]}}, {PRIVACY + "range": {"ldl": [0.0, 0.5]}},
    {PRIVACY + "delta": ..., PRIVACY + "sensitivity": ..., "facts.epsilon": None},
    {PRIVACY + "level": ..., PRIVACY + "epsilon": 0.1},
    {PRIVACY + "level": ..., PRIVACY + "level_column": "age"},
    {PRIVACY + "distribution": "cauchy"}, {PRIVACY + "distribution": "laplace"},
    {PRIVACY + "distribution": "randomised response"}, {PRIVACY + "distribution": 1},
    {"facts.simulated": False}, {"facts.simulated": False, "facts.warning": None},
    {"facts.simulated": 1}, {"grid": 2.0**-10}, {"grid": "x"}, {"grid": None}, REAL,
    REAL | {"columns.unit": 2.0**-10 / LEVEL**0.5},
    {"facts.warning": None}, {"facts.warning": "Safe to publish."}, {"facts.warning": 3},
    {"entry": 3}, {"entry": {}}, {"entry": PLACE}, {"signature": "0" * 64},
    {"entry": PLACE, "signature": "0" * 64}, {"signature": "x"},
    {"sha256": "0" * 64}, {"sha256": None}, {"checksum": "0" * 64}, {"checksum": None},
]  # fmt: skip
# What somebody who makes the checksum again can still say: facts that nothing here contradicts.
FREE = [
    {"facts.dropped": 1}, {"columns.residual_variance": 0.01}, {"columns.reference_rows": 61},
    {"columns.reference_rows": None}, {"checksum": "0" * 64}, {"checksum": None},
    {MODEL + "target": ["hdl"], "columns.target": "hdl"},
    {"columns.level": 3.0, PRIVACY + "level": 3.0, "facts.epsilon": LAX},
    {PRIVACY + "delta": ..., PRIVACY + "sensitivity": ..., "facts.epsilon": None},
]  # fmt: skip


def label(change):
    return "-".join(f"{name}={str(value)[:12]}" for name, value in change.items())


@pytest.mark.parametrize("change", OTHER, ids=label)
def test_an_edited_document_is_refused(made, change):
    table, record = made
    put(table, changed(record, change))
    refused(table)


@pytest.mark.parametrize("change", [one for one in OTHER if one not in FREE], ids=label)
def test_a_new_checksum_does_not_make_it_true(made, change):
    table, record = made
    put(table, resealed(changed(record, change)))
    assert "checksum is not" not in refused(table)


@pytest.mark.parametrize("change", FREE, ids=label)
def test_what_nothing_contradicts(made, change):
    """Only the signature shows these, which needs the key of a ledger (`verify`)."""
    table, record = made
    put(table, resealed(changed(record, change)))
    estimate(table)


def test_every_field_is_among_the_edits(made):
    _, record = made
    listed = {one.rpartition(".")[2] for change in OTHER for one in change}
    known = [*record, *record["facts"], *record["columns"][0], *record["plan"]["model"],
             *record["plan"]["privacy"]]  # fmt: skip
    assert set(known) <= listed


@pytest.mark.parametrize(
    "name", ["format", "sha256", "columns", "plan", "facts.rows", "facts.epsilon",
             "columns.level", "plan.model", "plan.privacy", "entry", "grid"],
)  # fmt: skip
def test_a_document_without_a_field_is_refused(made, name):
    table, record = made
    put(table, resealed(changed(record, {name: ...})))
    refused(table)


# --- the levels of a release are those that its privacy section gives -----------------------------

ENDS = {"ldl": (-5.0, 9.0)}
PROMISES = {
    "epsilon": (Privacy(epsilon=2.0, delta=1e-6, range=ENDS), {PRIVACY + "epsilon": 1.0}),
    "laplace": (
        Privacy(epsilon=2.0, range=ENDS, distribution="laplace"), {PRIVACY + "epsilon": 1.0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROMISES)
def test_a_promise_that_its_level_does_not_keep(kind, tmp_path):
    """A real release that says, checksum included, that it promised more privacy."""
    asked, change = PROMISES[kind]
    table = tmp_path / "z.csv"
    charged(stated_plan(spec(privacy=asked)), table, people())
    record = json.loads(Path(f"{table}.json").read_text())
    estimate(table)
    put(table, resealed(changed(record, change)))
    assert "privacy section" in refused(table)


# --- tables ---------------------------------------------------------------------------------------


def test_a_changed_table_is_refused(made):
    table, _ = made
    content = table.read_bytes()
    for other in (content.replace(b"1", b"2", 1), content[:-20], content + b"1,2,3,4\n"):
        table.write_bytes(other)
        assert "changed or replaced" in refused(table)


@pytest.mark.parametrize("text", ["[]", "3", "{", "", "null", '{"format": "privest release"}'])
def test_what_is_no_document(made, text):
    table, _ = made
    put(table, text)
    assert "z.csv.json" in refused(table)


def test_a_document_that_is_not_there(made):
    table, _ = made
    Path(f"{table}.json").unlink()
    assert "side by side" in refused(table)


def test_renamed_files_are_told_their_names(made):
    table, _ = made
    (table.parent / "z.csv.json").rename(table.parent / "q.csv.json")
    with pytest.raises(InvalidInput, match="there is no table"):
        estimate(table.parent / "q.csv")
    table.rename(table.parent / "q.csv")
    with pytest.raises(InvalidInput, match=r"is called 'z\.csv'"):
        estimate(table.parent / "q.csv")


def test_tables_that_change_places(made):
    table, _ = made
    simulate_release(
        stated_plan(spec()), table.parent / "other.csv", np.random.default_rng(4), people()
    )
    (table.parent / "other.csv").replace(table)
    assert "it was changed or replaced" in refused(table)


def test_document_round_trip(made):
    table, record = made
    assert read_release(table).to_dict() == record
    again = TableRelease.from_dict(record)
    assert again.to_dict() == record
    with pytest.raises(InvalidInput, match="read_release finds it"):
        _ = again.values


def test_another_machine_may_round_epsilon_otherwise(made):
    table, record = made
    stated = record["facts"]["epsilon"]
    put(table, resealed(changed(record, {"facts.epsilon": stated * (1 + 1e-12)})))
    assert read_release(table).epsilon == stated

"""The header of a release: every fact checked, none believed that another one contradicts."""

import json
import shutil

import numpy as np
import pytest

from privest.cli import _workflow as command
from privest.errors import InvalidInput
from privest.privacy import grid_statement
from privest.workflow import (
    Privacy,
    Public,
    TableRelease,
    estimate,
    load_spec,
    make_plan,
    read_release,
    save_spec,
    simulate_release,
)
from privest.workflow import _header as module
from workflow_tables import LEVEL, people, spec, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A plan file and its release."""
    folder = tmp_path_factory.mktemp("made")
    write(people(), folder / "people.csv")
    write(people(60, seed=1), folder / "reference.csv")
    own = spec(
        folder / "people.csv",
        public=Public(reference=str(folder / "reference.csv")),
        privacy=Privacy(LEVEL, delta=1e-6, sensitivity=1.0),
    )
    save_spec(own, folder / "plan.toml")
    plan = make_plan(load_spec(folder / "plan.toml"))
    simulate_release(plan, folder / "z.csv", np.random.default_rng(3))
    return folder


@pytest.fixture
def made(folder, tmp_path):
    """A copy of them, and the header as plain values."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path / "z.csv", json.loads((tmp_path / "z.csv.json").read_text())


def put(table, record):
    text = record if isinstance(record, str) else json.dumps(record)
    (table.parent / "z.csv.json").write_text(text, encoding="utf-8")


def refused(table):
    """What `estimate` and `report` say; both must refuse."""
    with pytest.raises(InvalidInput) as by_estimate:
        estimate(table)
    page = table.parent / "r.html"
    with pytest.raises(InvalidInput) as by_report:
        command.report(table.parent / "plan.toml", table, page)
    assert not page.exists()
    assert str(by_estimate.value) == str(by_report.value)
    return str(by_estimate.value)


def sealed(record):
    """The header of a forger who knows how the checksum is made."""
    outside = (*module.DERIVED, *module.OUTSIDE)
    facts = {name: value for name, value in record.items() if name not in outside}
    if isinstance(facts["columns"], list):
        facts["columns"] = [
            {name: value for name, value in one.items() if name != "epsilon"}
            for one in facts["columns"]
            if isinstance(one, dict)
        ]
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return record | {"checksum": module.hashlib.sha256(text.encode()).hexdigest()}


def changed(record, change):
    """A header with other values; those of its column where a column has that name."""
    inside = {name: value for name, value in change.items() if name in record["columns"][0]}
    outside = {name: value for name, value in change.items() if name not in inside}
    return record | {"columns": [record["columns"][0] | inside]} | outside


LAX = grid_statement(3.0, delta=1e-6, sensitivity=1.0).epsilon
PLACE = {"ledger": "0" * 32, "subject": "ldl", "sequence": 3, "hash": "0" * 64}
OTHER = [
    {"kind": "stream release"}, {"kind": "privest release"}, {"table": "y.csv"}, {"table": ""},
    {"rows": 199}, {"rows": 10**6}, {"rows": 0}, {"rows": True}, {"dropped": 1},
    {"dropped": -5}, {"dropped": 0.5},
    {"target": "hdl"}, {"target": ""}, {"transform": "log"}, {"transform": "weird"},
    {"transform": "box-cox"}, {"exponent": 0.5}, {"transform": "box-cox", "exponent": 0.4},
    {"names": ["intercept", "age", "bmi"]}, {"names": ["age", "bmi", "sex=male"]},
    {"names": ["intercept", "bmi", "age", "sex=male"]}, {"names": ["intercept", "ldl"]},
    {"names": "age"}, {"names": [1]}, {"names": []}, {"names": ["a", "a"]}, {"names": ["a", "z"]},
    {"categories": {}}, {"categories": 3}, {"categories": {"sex": 3}},
    {"categories": {"sex": [1, 2]}}, {"categories": {"sex": ["female", "femal"]}},
    {"categories": {"age": ["female", "male"]}},
    {"categories": {"sex": ["man", "male"]}}, {"categories": {"sex": ["male"]}},
    {"level": 3.0}, {"level": -1}, {"level": "2"}, {"level": 10**400}, {"level": True},
    {"name": "y"}, {"name": 3}, {"law": "cauchy"}, {"law": 1}, {"alone": False}, {"alone": 0},
    {"person": {"design": "A", "rows": 2, "capped": False}}, {"person": 2},
    {"scale": 0.0}, {"scale": "x"},
    {"columns": []}, {"columns": 3}, {"columns": [3]}, {"columns": [{}]},
    {"family": "gamma"}, {"family": 2}, {"people": {}}, {"people": 3}, {"persons": 3},
    {"people": {"column": "id", "design": "A", "most": None}},
    {"people": {"column": "age", "design": "A", "most": None}, "persons": 3},
    {"people": {"column": "id", "design": "C", "most": None}, "persons": 3},
    {"weights": {"column": "w"}}, {"weights": {"column": "z", "kind": "survey"}},
    {"weights": {"column": "w", "kind": "heavy"}},
    {"residual_variance": 0.01}, {"residual_variance": True}, {"residual_variance": 0},
    {"reference_rows": 61}, {"reference_rows": 0}, {"reference_rows": 4}, {"reference_rows": None},
    {"epsilon": 0.001}, {"epsilon": None}, {"epsilon": True}, {"epsilon": "x"},
    {"delta": 1e-3}, {"delta": 1.0}, {"delta": None}, {"move": 0.1}, {"move": None}, {"move": -1},
    {"move": 1e300}, {"delta": None, "move": None, "epsilon": None},
    {"simulated": False}, {"simulated": False, "warning": None}, {"simulated": 1},
    {"grid": 2.0**-10}, {"grid": "x"}, {"simulated": False, "warning": None, "grid": 2.0**-10},
    {"simulated": False, "warning": None, "grid": 2.0**-10, "unit": 2.0**-10 / LEVEL**0.5},
    {"unit": 0.5}, {"unit": 0}, {"zero": 0.5}, {"zero": "x"}, {"law": "laplace"}, {"law": "coin"},
    {"law": "bit"}, {"law": "bit", "range": [0, 1], "move": None, "delta": None}, {"scale": 2.0},
    {"person": 3},
    {"range": [-9, 9]}, {"range": [1, 0]}, {"range": 3},
    {"range": [0, "x"]}, {"entry": 3}, {"entry": {}}, {"entry": PLACE}, {"signature": "0" * 64},
    {"entry": PLACE, "signature": "0" * 64}, {"signature": "x"},
    {"warning": None}, {"warning": "Safe to publish."}, {"warning": 3},
    {"sha256": "0" * 64}, {"sha256": None}, {"checksum": "0" * 64}, {"checksum": None},
    {"more": 1}, {"path": "/etc/passwd"},
]  # fmt: skip
# What somebody who makes the checksum again can still say: facts that nothing here contradicts.
# (`report` compares most of these with the plan; see below.)
FREE = [
    {"categories": {}}, {"categories": {"sex": ["man", "male"]}}, {"dropped": 1},
    {"target": "hdl"}, {"residual_variance": 0.01},
    {"reference_rows": 61}, {"reference_rows": None},
    {"names": ["age", "bmi", "sex=male"]}, {"level": 3.0, "epsilon": LAX},
    {"delta": None, "move": None, "epsilon": None}, {"range": [-9, 9]},
    {"checksum": "0" * 64}, {"checksum": None},
]  # fmt: skip


def label(change):
    return "-".join(f"{name}={str(value)[:12]}" for name, value in change.items())


@pytest.mark.parametrize("change", OTHER, ids=label)
def test_an_edited_header_is_refused(made, change):
    table, record = made
    put(table, changed(record, change))
    said = refused(table)
    assert "z.csv" in said
    words = ("changed", "must", "another version", "goes with", "go together", "not a privest")
    for word in (*words, "a range is", "entry needs", "needs [", "is said of", ' is "', "removed"):
        if word in said:
            return
    assert "not the table that its header was made for" in said or "small enough" in said, said


@pytest.mark.parametrize("name", [*module.DERIVED, "rows", "sha256", "columns"])
def test_a_header_without_a_field_is_refused(made, name):
    table, record = made
    del record[name]
    put(table, record)
    assert "another version of privest, or was changed" in refused(table)


@pytest.mark.parametrize("change", [one for one in OTHER if one not in FREE], ids=label)
def test_a_new_checksum_does_not_make_it_true(made, change):
    table, record = made
    put(table, sealed(changed(record, change)))
    assert "checksum is not" not in refused(table)


@pytest.mark.parametrize("change", FREE[:9], ids=label)
def test_a_report_also_knows_the_plan(made, change):
    table, record = made
    put(table, sealed(changed(record, change)))
    estimate(table)
    with pytest.raises(InvalidInput, match="differs"):
        command.report(table.parent / "plan.toml", table, table.parent / "r.html")


def test_every_field_is_among_the_edits(made):
    _, record = made
    fields = set(record) | set(record["columns"][0])
    assert {name for change in OTHER for name in change} - {"more", "path"} == fields


def test_a_changed_table_is_refused(made):
    table, _ = made
    content = table.read_bytes()
    for changed in (content.replace(b"1", b"2", 1), content[:-20], content + b"1,2,3,4\n"):
        table.write_bytes(changed)
        assert "not the table that its header was made for" in refused(table)


@pytest.mark.parametrize(
    ("text", "words"),
    [("[]", "not a privest"), ("3", "not a privest"), ("{", "not JSON"), ("", "not JSON")],
)
def test_what_is_no_header(made, text, words):
    table, _ = made
    put(table, text)
    said = refused(table)
    assert words in said
    assert "z.csv.json" in said


def test_a_header_that_is_not_there(made):
    table, _ = made
    (table.parent / "z.csv.json").unlink()
    assert "side by side" in refused(table)


def test_renamed_files_are_told_their_names(made):
    table, _ = made
    (table.parent / "z.csv.json").rename(table.parent / "q.csv.json")
    with pytest.raises(InvalidInput, match="there is no table"):
        estimate(table.parent / "q.csv")
    table.rename(table.parent / "q.csv")
    with pytest.raises(InvalidInput, match=r"that one is called 'z\.csv'"):
        estimate(table.parent / "q.csv")


def test_tables_that_change_places(made):
    table, _ = made
    plan = make_plan(load_spec(table.parent / "plan.toml"))
    simulate_release(plan, table.parent / "other.csv", np.random.default_rng(4))
    (table.parent / "other.csv").replace(table)
    assert "it was changed or replaced" in refused(table)


def test_header_round_trip(made):
    table, record = made
    header = read_release(table)
    assert header.to_dict() == record
    again = TableRelease.from_dict(record)
    assert again == header
    with pytest.raises(InvalidInput, match="read_release finds it"):
        _ = again.values


def test_another_machine_may_round_epsilon_otherwise(made):
    """ε is written for readers; the checksum is over what it follows from."""
    table, record = made
    stated = record["columns"][0]["epsilon"]
    put(table, changed(record, {"epsilon": stated * (1 + 1e-12)}))
    assert read_release(table).epsilon == stated

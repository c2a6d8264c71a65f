"""A release reads the table that its plan was made for, or is refused before anything is spent."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.workflow import (
    Account,
    People,
    Privacy,
    make_plan,
    release,
    simulate_release,
    stated_terms,
)
from privest.workflow._planning_levels import with_levels
from workflow_tables import matrix, people, spec, write

CHANGED = "changed since the plan was made"
BY_ROW = Privacy(level=2.0, allocate=True)
BY_WARD = Privacy(level=2.0, allocate=True, groups="ward")


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


def wards(rows=200):
    """People, every tenth of them in a ward whose ages tell more."""
    table = people(rows)
    table["ward"] = np.where(np.arange(rows) % 10 == 0, "b", "a")
    table["age"] = np.where(table["ward"] == "b", 5 * table["age"], table["age"]).round(3)
    return table


def in_order(table, order):
    return {name: np.asarray(column)[order] for name, column in table.items()}


def rewritten(table, path):
    """The same file, as its stamp says, with another content of the same length."""
    before = path.stat()
    write(table, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_ino) == (before.st_size, before.st_ino)


def refused(plan, folder, data, words=CHANGED):
    """Neither a trial nor a release is made, nothing is charged and nothing is left."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    with pytest.raises(InvalidInput, match=words):
        simulate_release(plan, out / "t.csv", np.random.default_rng(1), data)
    with Account(out / "ledger.db", "us") as account, pytest.raises(InvalidInput, match=words):
        release(plan, out / "z.csv", data, account=account)
    assert list(out.iterdir()) == []


# --- levels of the rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", [BY_ROW, BY_WARD], ids=["rows", "groups"])
@pytest.mark.parametrize("kind", ["frame", "file", "same stamp"])
def test_rows_of_a_sorted_table_do_not_leave_at_the_levels_of_others(tmp_path, kind, privacy):
    table = wards()
    other = in_order(table, np.argsort(table["ward"], kind="stable"))
    path = tmp_path / "people.csv"
    data = table if kind == "frame" else write(table, path)
    plan = make_plan(spec(path, privacy=privacy), data)
    assert len(np.unique(plan.row_levels())) > 1
    if kind == "frame":
        return refused(plan, tmp_path, other)
    write(other, path) if kind == "file" else rewritten(other, path)
    refused(plan, tmp_path, data)
    refused(plan, tmp_path, None)
    return None


def test_groups_that_are_no_features_are_compared_too(tmp_path):
    """The features of every row are as they were; who is in which ward is not."""
    table = wards()
    plan = make_plan(spec(privacy=BY_WARD), table)
    refused(plan, tmp_path, table | {"ward": np.roll(table["ward"], 1)})
    refused(plan, tmp_path, table | {"ward": np.where(table["ward"] == "b", "c", "a")})
    assert release(plan, tmp_path / "z.csv", table).rows == 200


def test_groups_of_numbers(tmp_path):
    table = wards() | {"ward": np.arange(200) % 10 // 9}
    stated = spec(features=("age", "bmi", "ward"), categories={}, privacy=BY_WARD)
    plan = make_plan(stated, table)
    assert release(plan, tmp_path / "z.csv", table).rows == 200
    refused(plan, tmp_path, table | {"ward": np.roll(table["ward"], 1)})


def test_one_feature_of_one_row_is_another(tmp_path):
    table = people()
    plan = make_plan(spec(privacy=BY_ROW), table)
    ages = table["age"].copy()
    ages[150] += 1e-3
    refused(plan, tmp_path, table | {"age": ages})


def test_levels_given_by_hand(tmp_path):
    table, levels = people(), np.linspace(1.0, 3.0, 200)
    plan = with_levels(make_plan(spec(), table), levels, np.arange(1, 201), matrix(table))
    refused(plan, tmp_path, in_order(table, np.arange(200)[::-1]))
    assert release(plan, tmp_path / "z.csv", table).rows == 200


def test_rows_without_a_reading_are_left_out_and_the_others_keep_their_levels(tmp_path):
    table = wards()
    gaps = np.arange(200) % 7 == 0
    table["ldl"] = np.where(gaps, np.nan, table["ldl"])
    plan = make_plan(
        spec(missing="drop", formula="ldl ~ log(age) + bmi:age", features=(), categories={},
             privacy=BY_WARD), table
    )  # fmt: skip
    found = replace(plan, _data=table).simulate(seed=1)
    assert (found.rows, found.dropped) == (int((~gaps).sum()), int(gaps.sum()))
    levels = np.concatenate([block.levels for block in found.blocks()])
    np.testing.assert_array_equal(levels, plan.row_levels()[~gaps])
    refused(plan, tmp_path, in_order(table, np.arange(200)[::-1]))


# --- one level for all ----------------------------------------------------------------------------


def asked(path):
    return pv.plan(path, "ldl ~ age + bmi", level=2.0, noise_variance=0.3)


@pytest.mark.parametrize("ending", ["csv", "parquet", "xpt"])
def test_a_file_that_was_changed_since_is_refused(tmp_path, ending):
    path = write(people(), tmp_path / f"people.{ending}")
    plan = asked(path)
    assert plan.simulate(seed=1).rows == 200
    write(people(150), path)
    for one in (plan, plan.at(1.0)):
        with pytest.raises(InvalidInput, match=f"people.{ending} was {CHANGED}"):
            one.release(tmp_path / "z.csv")
        with pytest.raises(InvalidInput, match=CHANGED):
            one.simulate()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert asked(path).release(tmp_path / "z.csv").rows == 150


def test_a_file_put_in_its_place_is_another_one(tmp_path):
    path = write(people(), tmp_path / "people.csv")
    plan, old = asked(path), path.stat()
    other = write(people(), tmp_path / "other.csv")
    os.utime(other, ns=(old.st_atime_ns, old.st_mtime_ns))
    other.replace(path)
    with pytest.raises(InvalidInput, match=CHANGED):
        plan.simulate()


def test_the_same_name_in_another_folder(tmp_path, monkeypatch):
    """The plan's own file is meant, wherever the process is now."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        write(people(), tmp_path / folder / "people.csv")
    monkeypatch.chdir(tmp_path / "here")
    plan = asked("people.csv")
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(InvalidInput, match=CHANGED):
        plan.simulate()


def test_another_file_can_be_named_and_terms_need_no_table(tmp_path):
    path = write(people(), tmp_path / "people.csv")
    plan, terms = make_plan(spec(path)), stated_terms(spec(path))
    copy = shutil.copyfile(path, tmp_path / "copy.csv")
    assert release(plan, tmp_path / "a.csv", copy).rows == 200
    write(people(150), path)
    assert release(terms, tmp_path / "b.csv").rows == 150


def test_a_frame_with_fewer_rows_or_more(tmp_path):
    plan = make_plan(spec(), people())
    for rows in (150, 250):
        refused(plan, tmp_path, people(rows), f"{rows} rows now, and had 200")


# --- persons --------------------------------------------------------------------------------------


def visits(most):
    table = people()
    who = np.arange(200) % 100
    who[100 : 100 + most - 1] = 0  # person 0 has `most` rows or one more
    return table | {"id": np.array([f"p{k}" for k in who])}


def test_no_person_leaves_with_more_rows_than_the_promise_was_made_for(tmp_path):
    before, after = visits(2), visits(5)
    privacy = Privacy(epsilon=3.0, delta=1e-6, range=(-5.0, 10.0))
    plan = make_plan(spec(person=People("id"), privacy=privacy), before)
    rows = plan.people.person.rows
    assert np.unique(after["id"], return_counts=True)[1].max() > rows
    refused(plan, tmp_path, after, f"the plan was made for {rows}")
    assert release(plan, tmp_path / "z.csv", before).rows == 200


def test_a_changed_file_of_persons_is_refused(tmp_path):
    path = write(visits(2), tmp_path / "people.csv")
    plan = make_plan(spec(path, person=People("id")))
    write(visits(2) | {"age": people(seed=5)["age"]}, path)
    refused(plan, tmp_path, None)

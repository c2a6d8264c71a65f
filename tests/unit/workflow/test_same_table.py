"""A release reads the table that its plan was made for, or is refused before anything is spent."""

import os
import shutil

import numpy as np
import pytest

import privest as pv
from charged import charged
from privest.errors import InvalidInput
from privest.workflow.account import Account
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release, simulate_release
from privest.workflow.spec import Privacy
from workflow_tables import people, spec, write

CHANGED = "changed since the plan was made"


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))


def refused(plan, folder, data, words=CHANGED):
    """Neither a trial nor a release is made, nothing is charged and nothing is left."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    with pytest.raises(InvalidInput, match=words):
        simulate_release(plan, out / "t.csv", np.random.default_rng(1), data)
    with Account(out / "ledger.db", "us") as account, pytest.raises(InvalidInput, match=words):
        release(plan, out / "z.csv", data, account=account)
    assert list(out.iterdir()) == []


def asked(path):
    return pv.plan(path, "ldl ~ age + bmi", form="rows", level=2.0, residual_variance=0.3)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_that_was_changed_since_is_refused(tmp_path, tmp_path_factory, ending):
    account = pv.Ledger(tmp_path_factory.mktemp("ledger") / "l.db").account("ldl")
    path = write(people(), tmp_path / f"people.{ending}")
    plan = asked(path)
    assert plan.simulate(rng=1).rows == 200
    write(people(150), path)
    for one in (plan, plan.at(1.0)):
        with pytest.raises(InvalidInput, match=f"people.{ending} was {CHANGED}"):
            one.release(tmp_path / "z.csv", account=account)
        with pytest.raises(InvalidInput, match=CHANGED):
            one.simulate(rng=1)
    assert {one.name for one in tmp_path.iterdir()} <= {path.name, "marks"}
    assert asked(path).release(tmp_path / "z.csv", account=account).rows == 150


def test_a_file_put_in_its_place_is_another_one(tmp_path):
    path = write(people(), tmp_path / "people.csv")
    plan, old = asked(path), path.stat()
    other = write(people(), tmp_path / "other.csv")
    os.utime(other, ns=(old.st_atime_ns, old.st_mtime_ns))
    other.replace(path)
    with pytest.raises(InvalidInput, match=CHANGED):
        plan.simulate(rng=1)


def test_the_same_name_in_another_folder(tmp_path, monkeypatch):
    """The plan's own file is meant, wherever the process is now."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        write(people(), tmp_path / folder / "people.csv")
    monkeypatch.chdir(tmp_path / "here")
    plan = asked("people.csv")
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(InvalidInput, match=CHANGED):
        plan.simulate(rng=1)


def test_another_file_can_be_named_and_terms_need_no_table(tmp_path):
    path = write(people(), tmp_path / "people.csv")
    plan, terms = make_plan(spec(path)), stated_plan(spec(path))
    copy = shutil.copyfile(path, tmp_path / "copy.csv")
    assert charged(plan, tmp_path / "a.csv", copy).rows == 200
    write(people(150), path)
    assert charged(terms, tmp_path / "b.csv").rows == 150


def test_a_frame_with_fewer_rows_or_more(tmp_path):
    plan = make_plan(spec(), people())
    for rows in (150, 250):
        refused(plan, tmp_path, people(rows), f"{rows} rows now, and had 200")


@pytest.mark.parametrize("person", [None, "id"], ids=["rows", "persons"])
@pytest.mark.parametrize("changed", ["sorted", "a feature"])
def test_a_table_in_memory_that_was_changed_since(tmp_path, person, changed):
    """Sums weigh values by the planned features: those of another row would be no estimate."""
    table = visits(2)
    privacy = Privacy(epsilon=3.0, range={"ldl": (-5.0, 10.0)}, form="aggregate")
    plan = make_plan(spec(person=person, privacy=privacy), table)
    assert simulate_release(plan, tmp_path / "z.json", np.random.default_rng(1)).rows == 200
    if changed == "sorted":
        table |= {name: table[name][np.argsort(table["ldl"])] for name in ("age", "bmi", "ldl")}
    else:
        table["age"] = table["age"] + (np.arange(200) == 7)
    with pytest.raises(InvalidInput, match=CHANGED):
        simulate_release(plan, tmp_path / "a.json", np.random.default_rng(1))
    with Account(tmp_path / "ledger.db", "us") as account, pytest.raises(InvalidInput):
        release(plan, tmp_path / "a.json", account=account)
    assert {one.name for one in tmp_path.iterdir()} == {"z.json"}


def visits(most):
    """Two rows per person, or `most` of the first one."""
    who = np.arange(200) % 100
    who[100 : 100 + most - 1] = 0
    return people() | {"id": np.array([f"p{k}" for k in who])}


def test_no_person_leaves_with_more_rows_than_the_promise_was_made_for(tmp_path):
    before, after = visits(2), visits(5)
    privacy = Privacy(epsilon=3.0, range={"ldl": (-5.0, 10.0)}, form="aggregate")
    plan = make_plan(spec(person="id", privacy=privacy), before)
    assert np.unique(after["id"], return_counts=True)[1].max() > plan.most
    with pytest.raises(InvalidInput, match="was changed since the plan was made"):
        charged(plan, tmp_path / "z.json", after)
    assert charged(plan, tmp_path / "z.json", before).rows == 200

"""A release and its ledger: paid for before it appears, never twice, never under another name."""

import functools
import importlib
import json
import os
import secrets
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from charged import charged
from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.files import part_path
from privest.ledger import Budget, Ledger
from privest.mechanism.source import Protected, seeded
from privest.workflow import read_release
from privest.workflow.account import Account
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan, stated_plan
from privest.workflow.release import release
from privest.workflow.spec import Privacy, Public
from workflow_tables import LEVEL, people, spec, write

module = importlib.import_module("privest.workflow.release")


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture
def terms():
    return stated_plan(spec(privacy=Privacy(LEVEL, delta=1e-6, sensitivity=1.0)))


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger" / "l.db", marks=tmp_path / "marks") as found:
        yield found


def test_the_entry_of_a_release(terms, table, ledger, tmp_path):
    made = release(terms, tmp_path / "z.csv", table, account=Account(ledger, "ldl"))
    entry = ledger.history("ldl")[-1]
    assert (made.entry.ledger, made.entry.subject) == (ledger.id, "ldl")
    assert (made.entry.sequence, made.entry.hash) == (entry.sequence, entry.hash)
    assert (entry.start, entry.stop) == (0, 200)
    assert float(entry.cost.information) == LEVEL
    assert ledger.account("ldl").budget == Budget(level=LEVEL)
    assert ledger.account("ldl").remaining.level == 0
    assert ledger.check(made.signed_text, made.signature)
    assert read_release(tmp_path / "z.csv").to_dict() == made.to_dict()
    ledger.verify()


@pytest.mark.parametrize("how", [{}, {"account": None}, {"account": "ledger.db"}])
def test_without_an_account_there_is_no_release(terms, table, tmp_path, how):
    with pytest.raises((TypeError, InvalidInput), match="account"):
        release(terms, tmp_path / "z.csv", table, **how)
    assert not list(tmp_path.iterdir())


def test_the_same_readings_are_not_released_twice(terms, table, ledger, tmp_path):
    release(terms, tmp_path / "z.csv", table, account=Account(ledger, "ldl"))
    with pytest.raises(BudgetExceeded, match=r"was released on .*nothing is left"):
        release(terms, tmp_path / "y.csv", table, account=Account(ledger, "ldl"))
    with pytest.raises(BudgetExceeded, match="more than the budget"):
        release(terms, tmp_path / "y.csv", table, account=Account(ledger, "ldl", again=True))
    as_file = write(table, tmp_path / "people.parquet")  # the same rows in another form
    for data in (table, as_file):
        with pytest.raises(InvalidInput, match=r"for the account 'ldl'") as no:
            release(terms, tmp_path / "y.csv", data, account=Account(ledger, "other"))
        assert "\n" not in str(no.value)
    assert ledger.subjects() == ["ldl"]
    assert sorted(os.listdir(tmp_path)) == [
        "ledger", "marks", "people.parquet", "z.csv", "z.csv.json",
    ]  # fmt: skip
    ledger.account("ldl").change_budget(Budget(level=2 * LEVEL))
    with pytest.raises(BudgetExceeded, match="a level of 2 is left"):
        release(terms, tmp_path / "y.csv", table, account=Account(ledger, "ldl"))
    twice = release(terms, tmp_path / "y.csv", table, account=Account(ledger, "ldl", again=True))
    assert ledger.account("ldl").remaining.level == 0
    assert (twice.values != read_release(tmp_path / "z.csv").values).any()
    ledger.verify()


def test_a_budget_that_is_stated(terms, table, ledger, tmp_path):
    with pytest.raises(BudgetExceeded, match="more than the budget allows"):
        release(terms, tmp_path / "z.csv", table, account=Account(ledger, "ldl", LEVEL / 2))
    release(terms, tmp_path / "z.csv", table, account=Account(ledger, "ldl", 3 * LEVEL))
    assert float(ledger.account("ldl").remaining.level) == 2 * LEVEL
    again = Account(ledger, "ldl", 9 * LEVEL, again=True)
    with pytest.raises(InvalidInput, match="has an account with the budget level 6"):
        release(terms, tmp_path / "y.csv", table, account=again)


def test_an_old_ledger_under_a_newer_release(terms, table, tmp_path):
    """Its mark forged too: the release file alone says that entries are not there."""
    place, marks = tmp_path / "l.db", tmp_path / "marks"
    with Ledger(place, marks=marks) as ledger:
        ledger.account("ldl", budget=Budget(level=LEVEL))
    copies = shutil.copytree(marks, tmp_path / "old-marks")
    old = place.read_bytes()
    with Ledger(place, marks=marks) as ledger:
        release(terms, tmp_path / "z.csv", table, account=Account(ledger, "ldl"))
    for ending in ("-wal", "-shm"):
        Path(f"{place}{ending}").unlink(missing_ok=True)
    with place.open("r+b") as file:  # the same file, as it was
        file.truncate()
        file.write(old)
    for folder, error in ((marks, "old copy"), (copies, r"z\.csv\.json is entry 3 of the ledger")):
        with Ledger(place, marks=folder) as ledger, pytest.raises(LedgerError, match=error):
            release(terms, tmp_path / "y.csv", table, account=Account(ledger, "ldl"))
        assert not (tmp_path / "y.csv").exists()


def test_what_cannot_be_charged(terms, table, ledger, tmp_path):
    with pytest.raises(InvalidInput, match="simulation"):
        release(terms, tmp_path / "z.csv", table, source=seeded(1), account=Account(ledger, "ldl"))
    assert ledger.subjects() == []


@pytest.mark.parametrize("step", ["_write_document", "digest"])
def test_an_error_after_the_entry_keeps_the_table(
    terms, table, ledger, tmp_path, monkeypatch, step
):
    """A full disk: what is paid for waits, and the same call shows it. Before: nothing is left."""

    def fail(*given):
        raise OSError("disk")

    account = Account(ledger, "ldl")
    with monkeypatch.context() as patch:
        patch.setattr(module, step, fail)
        with pytest.raises(OSError, match="disk"):
            release(terms, tmp_path / "z.csv", table, account=account)
    part = part_path(tmp_path / "z.csv")
    assert part.exists() == (step == "_write_document")
    kept = part.read_bytes() if part.exists() else None
    assert not (tmp_path / "z.csv").exists()
    made = release(terms, tmp_path / "z.csv", table, account=account)
    assert kept in (None, (tmp_path / "z.csv").read_bytes())
    assert (made.rows, made.dropped) == (200, 0)
    assert read_release(tmp_path / "z.csv").to_dict() == made.to_dict()
    assert len([one for one in ledger.history("ldl") if one.cost is not None]) == 1


def test_a_draft_is_finished_under_its_own_plan_only(terms, table, ledger, tmp_path, monkeypatch):
    account = Account(ledger, "ldl")

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_write_document", interrupted)
        with pytest.raises(KeyboardInterrupt):
            release(terms, tmp_path / "z.csv", table, account=account)
    other = replace(terms, columns=(replace(terms.column, residual_variance=0.9),))
    with pytest.raises(InvalidInput, match="facts"):
        release(other, tmp_path / "z.csv", table, account=account)
    assert part_path(tmp_path / "z.csv").exists()
    release(terms, tmp_path / "z.csv", table, account=account)


@pytest.mark.parametrize("fails", ["before", "in"])
def test_nothing_drawn_outlives_a_ledger_that_cannot_be_written(terms, table, tmp_path, fails):
    """Before anything is drawn where that is known; else the draft goes."""
    place, drawn = tmp_path / "l.db", []

    class Counted(Protected):
        def add_noise(self, *args, **how):
            drawn.append(1)
            return super().add_noise(*args, **how)

    def full(*args, **how):
        raise LedgerError("the disk is full. Nothing was released.")

    class Full(Ledger):
        def account(self, *args, **how):
            account = super().account(*args, **how)
            account.spend_and_write = full
            return account

    Ledger(place).close()
    other = sqlite3.connect(place, isolation_level=None)
    if fails == "before":
        other.execute("BEGIN IMMEDIATE")
    with (
        (Ledger if fails == "before" else Full)(place, busy=0.05) as ledger,
        pytest.raises(LedgerError, match="Nothing was released"),
    ):
        release(terms, tmp_path / "z.csv", table, source=Counted(), account=Account(ledger, "x"))
    other.close()
    assert bool(drawn) == (fails == "in")
    assert not [one for one in os.listdir(tmp_path) if one.endswith(".part") or "z.csv" in one]
    with Ledger(place) as ledger:
        assert ledger.subjects() == []


def test_a_ledger_that_cannot_be_made_is_refused_before_anything_is_drawn(
    terms, table, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="not a folder"):
        release(terms, tmp_path / "z.csv", table, account=Account(tmp_path / "file" / "l.db", "x"))
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "file" / "marks"))
    with pytest.raises(InvalidInput, match="not a folder"):
        release(terms, tmp_path / "z.csv", table, account=Account(tmp_path / "l.db", "x"))
    assert os.listdir(tmp_path) == ["file"]


def test_a_mark_that_fails_after_the_entry_keeps_the_table(terms, table, tmp_path, monkeypatch):
    """It is paid for: the same call shows it, once the mark is on disk."""
    real, account = os.fsync, Account(tmp_path / "l.db", "x")

    def failing(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(tmp_path / "marks")):
            raise OSError(30, "Read-only file system")
        return real(descriptor)

    class Late(Ledger):
        def account(self, *args, **how):
            account = super().account(*args, **how)
            write = account.spend_and_write

            def late(*args, **how):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(os, "fsync", failing)
                    return write(*args, **how)

            account.spend_and_write = late
            return account

    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    with Late(tmp_path / "l.db") as ledger, pytest.raises(LedgerError, match="Read-only"):
        release(terms, tmp_path / "z.csv", table, account=Account(ledger, "x"))
    kept = part_path(tmp_path / "z.csv").read_bytes()
    with account:
        release(terms, tmp_path / "z.csv", table, account=account)
    assert (tmp_path / "z.csv").read_bytes() == kept
    assert not part_path(tmp_path / "z.csv").exists()


# --- whose rows these are: by public columns, never by readings -----------------------------------


def decided(y, second, *, again=False, feature=None):
    """What is said when `second` is released after `y` under another name, and what is kept."""
    rows = len(y)
    age = np.linspace(20, 80, rows) if feature is None else np.resize(feature, rows)
    own = spec(features=("age",), categories={}, privacy=Privacy(LEVEL, range={"ldl": (0.0, 9.0)}))
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVEST_STATE_HOME", place)
        with Ledger(Path(place) / "l.db") as ledger:
            said = []
            for name, values in (("one", y), ("two", second)):
                account = Account(ledger, name, again=again)
                try:
                    release(
                        stated_plan(own), Path(place) / f"{name}.csv", {"age": age, "ldl": values},
                        account=account,
                    )  # fmt: skip
                    said.append("released")
                except InvalidInput as error:
                    said.append(str(error).replace(place, ""))
            entries = [one.to_dict() for one in ledger.history()]
    for one in entries:  # the key ends with the hash of the release
        del one["time"], one["hash"]
        one["key"] = one["key"] and one["key"].split(".")[:-1]
    return said, entries[1:]


ZEROS = np.zeros(20)
values = st.lists(st.floats(-1, 10), min_size=20, max_size=20).map(np.array)
hows = st.sampled_from([(), (("again", True),), (("feature", tuple(range(9))),)])
of_zeros = functools.cache(lambda how: decided(ZEROS, ZEROS, **dict(how)))


@given(values, values | st.none(), hows)
@example(ZEROS, np.append(ZEROS[1:], 1.0), ())
@example(ZEROS, np.append(ZEROS[1:], 1.0), (("feature", tuple(range(9))),))
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_no_reading_decides_whose_rows_these_are(y, other, how):
    """All zeros, the same readings twice, one reading that differs: decided and kept alike."""
    said, kept = of_zeros(how)
    assert decided(y, y if other is None else other, **dict(how)) == (said, kept)
    assert ("account 'one'" in said[1]) == (not how)


def test_two_groups_without_an_event_are_both_released(ledger, tmp_path):
    """An intercept alone says nothing of whose rows these are; other public columns say it."""
    mean = stated_plan(spec(features=(), categories={}))
    for k in range(3):
        rows = {"ldl": np.zeros(30)}
        release(mean, tmp_path / f"m{k}.csv", rows, account=Account(ledger, f"group {k}"))
        rows = people(seed=k) | {"ldl": np.zeros(200)}
        release(stated_plan(spec()), tmp_path / f"r{k}.csv", rows, account=Account(ledger, f"{k}"))
    assert len(ledger.subjects()) == 6


def test_what_the_public_header_shows_is_not_made_of_readings(tmp_path, monkeypatch):
    """Two ledgers, the same noise and two tables whose z are the same: the same entry.hash."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    monkeypatch.setattr(secrets, "token_bytes", lambda size: b"k" * size)

    class Same(Protected):
        def add_noise(self, shown, **how):
            return 0.0 * super().add_noise(shown, **how)

    found = []
    for k in range(2):
        monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / f"marks{k}"))
        with Ledger(tmp_path / f"{k}" / "l.db") as ledger:
            rows = people() | {"ldl": people(seed=k)["ldl"]}
            account = Account(ledger, "ldl")
            terms = stated_plan(spec())
            made = release(terms, tmp_path / f"{k}/z.csv", rows, source=Same(), account=account)
            found.append((made.sha256, made.entry.hash))
    assert found[0] == found[1]


# --- values -----------------------------------------------------------------------------------


def test_no_value_is_refused(ledger, tmp_path):
    """Whatever the readings are: a release of the same form, and nothing said."""
    wild = people()
    wild["ldl"][:6] = [np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0]
    for transform in ("none", "log"):
        own = spec(transform=transform, privacy=Privacy(LEVEL, range={"ldl": (0.5, 4.0)}))
        made = charged(make_plan(own, wild), tmp_path / f"{transform}.csv", wild)
        assert made.rows == 200
        low, high = made.limits(made.column).low, made.limits(made.column).high
        inside = made.values[:6] * np.sqrt(LEVEL)
        assert (
            np.abs(inside - np.sqrt(LEVEL) * np.array([high, low, high, low, low, low])) < 8
        ).all()
    plain = charged(make_plan(spec(), wild), tmp_path / "wide.csv", wild)
    assert np.abs(plain.values[:2]) == pytest.approx(2.0**42 / np.sqrt(LEVEL))


def test_nothing_holds_a_reading(tmp_path, caplog):
    """Release, header, ledger with its log, marks, export, log: neither eight bytes nor digits."""
    own = people(300)
    own["ldl"] = 1.0 + np.arange(300) * 0.0123456789012345 + 1e-9
    plan = make_plan(spec(), own)
    data = write(own, tmp_path / "people.csv")
    out = tmp_path / "out"
    with Ledger(out / "l.db", marks=out / "marks") as ledger, caplog.at_level("DEBUG"):
        account = Account(ledger, "ldl of people.csv")
        release(plan, out / "z.csv", data, account=account)
        ledger.account(account.subject).change_budget(Budget(level=2 * LEVEL))
        again = Account(ledger, account.subject, again=True)
        release(plan, out / "z.parquet", data, account=again)
        with pytest.raises(BudgetExceeded) as told:
            release(plan, out / "y.csv", data, account=account)
        (out / "export.json").write_text(ledger.export())
        (out / "estimate.json").write_text(json.dumps(estimate(out / "z.csv").to_dict()))
        files = [one for one in out.rglob("*") if one.is_file()]
        assert {one.name for one in files} >= {"z.csv", "z.parquet", "l.db", "l.db-wal"}
        written = b"\n".join(one.read_bytes() for one in files)
    written += str(told.value).encode() + caplog.text.encode()
    for y in own["ldl"].tolist():
        for scaled in (y, y * np.sqrt(LEVEL)):
            assert struct.pack("<d", scaled) not in written
            assert repr(scaled).encode()[:12] not in written
    assert repr(float(own["age"][0])).encode() in written  # the same search finds what is public


# --- killed ---------------------------------------------------------------------------------------


def killed(folder, seed, count, form="rows"):
    script = Path(__file__).parents[2] / "killed_release.py"
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(seed), str(count), form],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.processes
@pytest.mark.parametrize("form", ["rows", "aggregate"])
def test_killed_at_every_step_and_at_random(tmp_path, form):
    """Never a table without its entry, never two tables for one, and the same call finishes it."""
    assert sum(killed(tmp_path, 1, 4, form).values()) == 4


@pytest.mark.slow
def test_killed_often(tmp_path):
    found = killed(tmp_path, 2, 300)
    assert sum(found.values()) == 300
    assert "drawing" in found  # "paid" lasts a 300th of the time: `POINTS` kill there, by name


RANGES = {"ldl": (-5.0, 9.0), "bmi": (10.0, 50.0)}


def test_a_column_among_others_is_still_the_same(ledger, tmp_path):
    """Released alone it has an account: with a second column beside it, it is not another one."""
    table = people()
    both = spec(
        target=("ldl", "bmi"),
        features=("age", "sex"),
        privacy=Privacy(epsilon=3.0, range=RANGES, form="aggregate"),
        public=Public(),
    )
    account = Account(ledger, "ldl and bmi")
    release(make_plan(both, table), tmp_path / "both.json", table, account=account)
    for target in ("ldl", "bmi"):
        features = ("age", "sex")
        one = spec(target=target, features=features, public=Public())
        with pytest.raises(InvalidInput, match="released for the account 'ldl and bmi'"):
            release(
                make_plan(one, table), tmp_path / "z.csv", table, account=Account(ledger, target)
            )


@pytest.mark.parametrize(
    "change",
    [
        {"transform": "log", "privacy": Privacy(0.5, range={"ldl": (0.5, 9.0)})},
        {"target": ("ldl", "bmi"), "features": ("age", "sex"), "public": Public(),
         "privacy": Privacy(0.5, range=RANGES, form="aggregate")},
    ],
    ids=["transform", "columns"],
)  # fmt: skip
def test_levels_of_different_measures_do_not_add_up(ledger, tmp_path, change):
    table = people() | {"id": np.arange(200) // 2}
    first = spec(privacy=Privacy(1.0))
    release(make_plan(first, table), tmp_path / "a.csv", table, account=Account(ledger, "x", 9.0))
    other = make_plan(spec(**change), table)
    with pytest.raises(InvalidInput, match="another measure"):
        release(
            other,
            tmp_path / ("b.json" if other.splits else "b.csv"),
            table,
            account=Account(ledger, "x", again=True),
        )
    release(
        make_plan(first, table), tmp_path / "c.csv", table, account=Account(ledger, "x", again=True)
    )

"""A release goes with the rows it was made of: others under its account are refused."""

import json
import math

import numpy as np
import pytest

import privest as pv
from privest.errors import CheckpointError, InvalidInput
from privest.ledger import Ledger
from privest.streaming import Account, Replay, ReplayPlan, privacy_of
from privest.streaming._marks import FIRST, LEAST, READINGS, Marks

READ = [round(5 + 4 * math.sin(3 * k), 3) for k in range(40)]
BESIDE = [round(math.cos(5 * k), 3) for k in range(40)]


def table(folder, readings, beside, name="meter.csv"):
    path = folder / name
    rows = zip(beside, reversed(beside), readings)
    path.write_text("x,w,load\n" + "".join(f"{x},{w},{y}\n" for x, w, y in rows), "utf-8")
    return path


def plan(folder, source, output="a.jsonl", **more):
    given = {
        "source": source, "target": "load", "features": ("x",), "block": 4,
        "privacy": privacy_of(known_to=0.5), "span": (0.0, 10.0), "output": folder / output,
        "account": Account(folder / "ledger.db", "load of meter.csv"),
    }  # fmt: skip
    return ReplayPlan(**(given | more))


def play(asked, blocks=99):
    with Replay(asked) as replay:
        while blocks and replay.next_block():
            blocks -= 1
        return replay.state()


def written(asked):
    return [json.loads(line) for line in asked.output.read_text("utf-8").splitlines()[1:]]


@pytest.fixture
def sent(tmp_path):
    """The first 16 of 40 readings, released in blocks of four."""
    asked = plan(tmp_path, table(tmp_path, READ, BESIDE))
    play(asked, 4)
    return written(asked)


def test_another_file_under_the_account_is_refused(tmp_path, sent):
    """Next month's file of the same name: no old release beside a new row."""
    asked = plan(tmp_path, table(tmp_path, READ[::-1], BESIDE[::-1]), "b.jsonl")
    with pytest.raises(InvalidInput, match="not those that were released under this account") as no:
        play(asked)
    assert not asked.output.read_bytes()
    assert "--subject" in str(no.value)
    assert "--continue" in str(no.value)
    assert "load of meter.csv" in str(no.value)
    for value in READ:
        assert str(value) not in str(no.value)


def test_other_readings_beside_the_same_columns_are_refused(tmp_path, sent):
    """One of them is enough; what was written before it is what was sent before."""
    other = [y + 3.137 * (k == 5) for k, y in enumerate(READ)]
    asked = plan(tmp_path, table(tmp_path, other, BESIDE), "b.jsonl")
    with pytest.raises(InvalidInput, match="not those that were released"):
        play(asked)
    lines = written(asked)
    assert [line["z"] for line in lines] == [line["z"] for line in sent][: len(lines)]
    assert len(lines) < LEAST


def test_other_readings_are_refused_by_the_checkpoint_too(tmp_path, sent):
    asked = plan(tmp_path, table(tmp_path, [10 - y for y in READ], BESIDE))
    before = asked.output.read_bytes()
    with pytest.raises(CheckpointError, match="readings"):
        Replay(asked)
    assert asked.output.read_bytes() == before
    state = play(plan(tmp_path, table(tmp_path, READ, BESIDE)))
    assert (state.resumed, state.used) == (True, 40)


@pytest.mark.parametrize("more", [{"block": 7}, {"block": 1}, {"features": ("w",)}])
def test_the_same_rows_and_new_ones_go_on(tmp_path, sent, more):
    """In blocks of another size, or beside other public columns."""
    asked = plan(tmp_path, table(tmp_path, READ, BESIDE), "b.jsonl", **more)
    state = play(asked)
    assert state.used == 40
    assert "16 steps sent again as they were." in state.counts
    assert [line["z"] for line in written(asked)[:16]] == [line["z"] for line in sent]
    # and what was added is known again, whatever the blocks were
    other = [*READ[:30], 0.5, *READ[31:]]
    with pytest.raises(InvalidInput, match="not those that were released"):
        play(plan(tmp_path, table(tmp_path, other, BESIDE), "c.jsonl"))


def test_a_resumed_stream_marks_what_it_adds(tmp_path, sent):
    """Stopped within a mark: the readings before it count."""
    source = table(tmp_path, READ, BESIDE)
    for _ in range(6):
        play(plan(tmp_path, source), 1)
    play(plan(tmp_path, source, "b.jsonl"))
    other = [*READ[:38], 0.5, READ[39]]
    with pytest.raises(InvalidInput, match="not those that were released"):
        play(plan(tmp_path, table(tmp_path, other, BESIDE), "c.jsonl"))


def test_a_ledger_of_before_has_nothing_to_compare_and_it_is_said(tmp_path, monkeypatch):
    real = Ledger.spend_and_write
    with monkeypatch.context() as old:
        unmarked = lambda *args, **more: real(*args, **(more | {"marks": None}))  # noqa: E731
        old.setattr(Ledger, "spend_and_write", unmarked)
        play(plan(tmp_path, table(tmp_path, READ, BESIDE)), 4)
    asked = plan(tmp_path, table(tmp_path, READ[::-1], BESIDE[::-1]), "b.jsonl")
    assert "whether 16 of these are of the same rows is not known" in play(asked).counts


# --- under another name -----------------------------------------------------------------------


def test_the_same_readings_under_another_name_are_refused(tmp_path, sent):
    """Before anything is drawn, in blocks of whatever size; the file may be shorter or longer."""
    for rows, block in ((40, 1), (16, 5), (40, 40)):
        source = table(tmp_path, READ[:rows], BESIDE[:rows], "copy.csv")
        account = Account(tmp_path / "ledger.db", "somebody else")
        asked = plan(tmp_path, source, "b.jsonl", account=account, block=block)
        with pytest.raises(InvalidInput, match=r"have an account: 'load of meter\.csv'"):
            Replay(asked)
    with pv.Ledger(tmp_path / "ledger.db") as ledger:
        assert [one.kind for one in ledger.history("somebody else")] == ["account"]


@pytest.mark.parametrize(
    "readings",
    [READ[1:], [*READ[:15], 9.5, *READ[16:]], [READ[0]] * 40],
    ids=["later", "one", "alike"],
)
def test_other_readings_have_an_account_of_their_own(tmp_path, readings):
    play(plan(tmp_path, table(tmp_path, READ, BESIDE)))
    play(plan(tmp_path, table(tmp_path, [READ[0]] * 40, BESIDE), "off.jsonl",
              account=Account(tmp_path / "ledger.db", "a sensor that is off")))  # fmt: skip
    account = Account(tmp_path / "ledger.db", "another")
    asked = plan(tmp_path, table(tmp_path, readings, BESIDE), "b.jsonl", account=account)
    assert play(asked).used == min(40, len(readings))


# --- what the ledger keeps --------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 4, 5, 40])
def test_no_mark_is_of_a_few_readings(tmp_path, block):
    """Who has the ledger has its key: a mark of one reading would give that reading away."""
    play(plan(tmp_path, table(tmp_path, READ, BESIDE), block=block))
    with pv.Ledger(tmp_path / "ledger.db") as ledger:
        entries = [one for one in ledger.history() if one.kind == "spent"]
        assert ledger.verify().sequence == entries[-1].sequence
    covered = [
        one.stop - int(name.removeprefix(READINGS))
        for one in entries for name in one.marks if name.startswith(READINGS)
    ]  # fmt: skip
    assert min(covered) >= LEAST >= 16
    assert sum(covered) > 40 - LEAST
    assert sum(FIRST in one.marks for one in entries) == 1


def test_readings_that_are_equal_have_one_mark():
    marks = Marks(lambda data: data.hex(), 1)
    values = np.arange(20.0)
    values[:2] = 0.0, np.nan
    same = values.copy()
    same[:2] = -0.0, -np.nan
    assert marks.new(values, {}) == marks.new(same, {})
    assert marks.new(values, {}) != marks.new(np.nan_to_num(values), {})
    assert len(marks.new(values, {})) == 2

"""A release goes with the rows it was made of: others under its account are refused."""

import json
import math

import numpy as np
import pytest

import privest as pv
from privest.ledger import Ledger
from privest.streaming._marks import FIRST, LEAST, READINGS, Marks
from workflow_command import called

READ = [round(5 + 4 * math.sin(3 * k), 3) for k in range(40)]
BESIDE = [round(math.cos(5 * k), 3) for k in range(40)]


def table(folder, readings, beside, name="meter.csv"):
    path = folder / name
    rows = zip(beside, reversed(beside), readings)
    path.write_text("x,w,load\n" + "".join(f"{x},{w},{y}\n" for x, w, y in rows), "utf-8")
    return path


def stream(source, output="a.jsonl", account="load of meter.csv", block=4, features="x"):
    """`privest stream` of a table: exit code, output, what it said."""
    folder = source.parent
    done = called(
        "stream", source, "--target", "load", "--features", features, "--level", 4, "--range",
        "0,10", "--emit", "releases", "--output", folder / output, "--checkpoint",
        folder / f"{output}.going", "--ledger", folder / "ledger.db", "--subject", account,
        "--block", block,
    )  # fmt: skip
    return done.returncode, folder / output, " ".join(done.stderr.split())


def written(output):
    return [json.loads(line) for line in output.read_text("utf-8").splitlines()[1:]]


@pytest.fixture
def sent(tmp_path):
    """The first 16 of 40 readings, released in blocks of four."""
    code, output, said = stream(table(tmp_path, READ[:16], BESIDE[:16]))
    assert code == 0, said
    return written(output)


def test_another_file_under_the_account_is_refused(tmp_path, sent):
    """Next month's file of the same name: no old release beside a new row."""
    code, output, said = stream(table(tmp_path, READ[::-1], BESIDE[::-1]), "b.jsonl")
    assert code == 2
    assert "not those that were released under this account" in said
    assert not output.read_bytes()
    for word in ("--subject", "--continue", "load of meter.csv"):
        assert word in said
    for value in READ:
        assert str(value) not in said


def test_other_readings_beside_the_same_columns_are_refused(tmp_path, sent):
    """One of them is enough; what was written before it is what was sent before."""
    other = [y + 3.137 * (k == 5) for k, y in enumerate(READ)]
    code, output, said = stream(table(tmp_path, other, BESIDE), "b.jsonl")
    assert (code, "not those that were released" in said) == (2, True)
    lines = written(output)
    assert [line["z"] for line in lines] == [line["z"] for line in sent][: len(lines)]
    assert len(lines) < LEAST


def test_other_readings_are_refused_by_the_checkpoint_too(tmp_path, sent):
    before = (tmp_path / "a.jsonl").read_bytes()
    code, output, said = stream(table(tmp_path, [10 - y for y in READ], BESIDE))
    assert (code, "its readings" in said) == (2, True)
    assert output.read_bytes() == before
    code, output, said = stream(table(tmp_path, READ, BESIDE))
    assert (code, len(written(output)), "resumed" in said) == (0, 40, True)


@pytest.mark.parametrize("more", [{"block": 7}, {"block": 1}, {"features": "w"}])
def test_the_same_rows_and_new_ones_go_on(tmp_path, sent, more):
    """In blocks of another size, or beside other public columns."""
    code, output, said = stream(table(tmp_path, READ, BESIDE), "b.jsonl", **more)
    assert code == 0, said
    assert "16 steps sent again as they were." in said
    assert [line["z"] for line in written(output)[:16]] == [line["z"] for line in sent]
    # and what was added is known again, whatever the blocks were
    other = [*READ[:30], 0.5, *READ[31:]]
    code, _, said = stream(table(tmp_path, other, BESIDE), "c.jsonl")
    assert (code, "not those that were released" in said) == (2, True)


def test_a_resumed_stream_marks_what_it_adds(tmp_path, sent):
    """Stopped within a mark: the readings before it count."""
    for rows in range(20, 41, 4):
        assert stream(table(tmp_path, READ[:rows], BESIDE[:rows]))[0] == 0
    assert stream(table(tmp_path, READ, BESIDE), "b.jsonl")[0] == 0
    other = [*READ[:38], 0.5, READ[39]]
    code, _, said = stream(table(tmp_path, other, BESIDE), "c.jsonl")
    assert (code, "not those that were released" in said) == (2, True)


def test_a_ledger_of_before_has_nothing_to_compare_and_it_is_said(tmp_path, monkeypatch):
    real = Ledger.spend_and_write
    with monkeypatch.context() as old:
        unmarked = lambda *args, **more: real(*args, **(more | {"marks": None}))  # noqa: E731
        old.setattr(Ledger, "spend_and_write", unmarked)
        assert stream(table(tmp_path, READ[:16], BESIDE[:16]))[0] == 0
    _, _, said = stream(table(tmp_path, READ[::-1], BESIDE[::-1]), "b.jsonl")
    assert "whether 16 of these are of the same rows is not known" in said


# --- under another name -----------------------------------------------------------------------


def test_the_same_readings_under_another_name_are_refused(tmp_path, sent):
    """Before anything is drawn, in blocks of whatever size; the file may be shorter or longer."""
    for rows, block in ((40, 1), (16, 5), (40, 40)):
        source = table(tmp_path, READ[:rows], BESIDE[:rows], "copy.csv")
        code, _, said = stream(source, "b.jsonl", account="somebody else", block=block)
        assert (code, "have an account: 'load of meter.csv'" in said) == (2, True)
    with pv.Ledger(tmp_path / "ledger.db") as ledger:
        assert [one.kind for one in ledger.history("somebody else")] == ["account"]


@pytest.mark.parametrize(
    "readings",
    [READ[1:], [*READ[:15], 9.5, *READ[16:]], [READ[0]] * 40],
    ids=["later", "one", "alike"],
)
def test_other_readings_have_an_account_of_their_own(tmp_path, readings):
    assert stream(table(tmp_path, READ, BESIDE))[0] == 0
    off = table(tmp_path, [READ[0]] * 40, BESIDE)
    assert stream(off, "off.jsonl", account="a sensor that is off")[0] == 0
    code, output, said = stream(table(tmp_path, readings, BESIDE), "b.jsonl", account="another")
    assert code == 0, said
    assert len(written(output)) == len(readings)


# --- what the ledger keeps --------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 4, 5, 40])
def test_no_mark_is_of_a_few_readings(tmp_path, block):
    """Who has the ledger has its key: a mark of one reading would give that reading away."""
    assert stream(table(tmp_path, READ, BESIDE), block=block)[0] == 0
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

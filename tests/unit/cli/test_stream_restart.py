"""Streams for real, taken up again: nothing is drawn twice, whatever came from a backup."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest.mechanism.source import Protected
from privest.stream_file import check_lines
from privest.workflow.verify import verify
from workflow_command import runner

LEVEL = ("--level", 4, "--lags", "0.5")
RELEASES = (*LEVEL, "--emit", "releases")
ESTIMATES = (*LEVEL, "--residual-variance", 1)


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    return runner(capsys, monkeypatch)


@pytest.fixture
def drawn(monkeypatch):
    """How often noise was put on each step's reading; a step that shows nothing does not count."""
    count, real = {}, Protected.add_noise

    def counted(self, shown, *, at=0, sizes=None, **how):
        def looked():
            found = shown()
            for k, value in enumerate(found.high.tolist()):
                if value == value:
                    count[at + k] = count.get(at + k, 0) + 1
            return found

        return real(self, looked, at=at, sizes=sizes, **how)

    monkeypatch.setattr(Protected, "add_noise", counted)
    return count


def write(rows, name="m.csv", start=0, change=()):
    y = {k: f"{np.sin(k):.3f}" for k in range(rows)} | dict(change)
    text = "".join(f"{k + 0.5},{y[k]}\n" for k in range(start, rows))
    Path(name).write_text("x,y\n" + text)


def steps(path):
    text = Path(path).read_text()
    if path.endswith(".csv"):
        return [int(line.split(",")[0]) for line in text.splitlines()[1:]]
    return [one["step"] for one in map(json.loads, text.splitlines()) if "step" in one]


def run(privest, *arguments):
    done = privest("stream", *arguments)
    assert done.code == 0, done
    done = type(done)(done.code, done.out, " ".join(done.err.split()))
    return done


@pytest.mark.parametrize("output", ["z.jsonl", "z.csv", "e.jsonl", "e.csv"])
@pytest.mark.parametrize("block", [1, 4])
def test_an_older_checkpoint_under_a_newer_output(privest, drawn, output, block):
    """The output holds steps that the checkpoint does not know: it is refused."""
    kind = RELEASES if output[0] == "z" else ESTIMATES
    command = ("m.csv", *kind, "--block", block, "--output", output, "--checkpoint", "c")
    write(8)
    run(privest, *command)
    shutil.copy("c", "old")
    write(20)
    run(privest, *command)
    before = Path(output).read_text()
    shutil.copy("old", "c")
    write(31)
    done = privest("stream", *command)
    assert (done.code, "from a backup" in " ".join(done.err.split())) == (2, True)
    assert Path(output).read_text() == before
    assert drawn == dict.fromkeys(range(20), 1)


def test_a_corrected_reading_sends_the_old_numbers(privest, drawn):
    command = ("m.csv", *RELEASES, "--block", 4, "--output", "z.jsonl", "--checkpoint", "c")
    write(8)
    run(privest, *command)
    before = Path("z.jsonl").read_text()
    cut = before.rindex('{"step": 6')  # a crash: the last lines are not all there
    Path("z.jsonl").write_text(before[: cut + 9])
    write(8, change={5: "1e6", 6: "", 7: "-7"})
    run(privest, *command)
    assert Path("z.jsonl").read_text() == before
    assert drawn == dict.fromkeys(range(8), 1)


def test_an_output_that_is_not_the_one_that_was_saved(privest):
    command = ("m.csv", *RELEASES, "--output", "z.jsonl", "--checkpoint", "c")
    write(8)
    run(privest, *command)
    text = Path("z.jsonl").read_text()
    Path("z.jsonl").write_text(text.replace('"z": ', '"z": 1'))
    write(9)
    done = privest("stream", *command)
    assert (done.code, "holds other lines" in done.err) == (2, True), done
    Path("z.jsonl").write_text(text + "not a line of a stream\n")
    done = privest("stream", *command)
    assert (done.code, "holds other lines" in done.err) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [("--ledger", "l.db", "--simulate"), ("--subject", "a"),
     ("--budget", 2),
     ("--from", "releases", "--range", "0,1"),
     ("--from", "releases", "--ledger", "l.db"), ("--from", "releases", "--simulate")],
)  # fmt: skip
def test_options_that_do_not_go_together(privest, arguments):
    write(3)
    assert privest("stream", "m.csv", *ESTIMATES, *arguments).code == 2
    assert not Path("l.db").exists()


def test_it_says_when_nothing_is_remembered(privest):
    write(3)
    done = run(privest, "m.csv", *RELEASES)
    assert "This release is recorded nowhere" in done.err
    assert "remembered" not in run(privest, "m.csv", *RELEASES, "--simulate").err
    assert "remembered" not in run(privest, "m.csv", *RELEASES, "--checkpoint", "c").err


# --- with a ledger --------------------------------------------------------------------------------

BOOK = ("--ledger", "l.db", "--output", "z.jsonl")


def test_a_ledger_sends_the_same_again(privest, drawn):
    write(10, change={3: "", 9: "inf"})
    command = ("m.csv", *RELEASES, "--block", 4, *BOOK)
    run(privest, *command)
    text = Path("z.jsonl").read_text()
    # another file from the same readings; corrected ones too: what was missing stays missing
    write(10, change={3: "5", 4: "", 5: "1e9"})
    done = run(privest, *command, "--overwrite")
    assert "10 steps sent again as they were" in done.err
    assert Path("z.jsonl").read_text() == text
    # longer now: the last block, which was not full, stays as it was
    write(17)
    run(privest, *command, "--overwrite")
    lines = Path("z.jsonl").read_text()
    assert lines.startswith(text)
    assert drawn == dict.fromkeys(set(range(17)) - {3}, 1)
    with pv.Ledger("l.db") as book:
        found = check_lines(lines.splitlines(keepends=True))
        assert (found.steps, found.missing) == (17, 1)
        assert verify("z.jsonl", book).verified
        assert (found.facts["ledger"]["ledger"], book.subjects()) == (book.id, ["y of m.csv"])
        spent = [one for one in book.history() if one.kind == "spent"]
        assert [(one.start, one.stop) for one in spent] == [(0, 4), (4, 8), (8, 10), (10, 14),
                                                            (14, 17)]  # fmt: skip
        # S + W²S = 4 + 1 is all that is ever shown of a reading
        assert 4.99 < float(book.account("y of m.csv").spent.level) <= 5.0
        assert float(book.account("y of m.csv").budget.level) == 5.0
    done = privest("stream", "m.csv", "--level", 1, "--emit", "releases", "--ledger", "l.db")
    assert (done.code, done.out) == (2, "")
    assert "y of m.csv" in done.err


def test_other_rows_under_the_account_are_refused(privest, drawn):
    """A file that begins elsewhere; what it is told to do then works."""
    write(9)
    run(privest, "m.csv", *RELEASES, *BOOK, "--block", 4)
    sent = Path("z.jsonl").read_text()
    write(21, start=9)
    again = ("--ledger", "l.db", "--output", "b.jsonl")
    done = privest("stream", "m.csv", *RELEASES, *again)
    assert (done.code, Path("b.jsonl").read_text()) == (2, "")
    said = " ".join(done.err.split())
    assert "'y of m.csv': the rows up to step 3 are not those that were released" in said
    assert drawn == dict.fromkeys(range(9), 1)
    run(privest, "m.csv", *RELEASES, *again, "--subject", "next month")
    assert steps("b.jsonl") == list(range(12))
    run(privest, "m.csv", *RELEASES, "--ledger", "l.db", "--output", "c.jsonl", "--continue")
    assert steps("c.jsonl") == list(range(21))
    write(21)
    run(privest, "m.csv", *RELEASES, "--ledger", "l.db", "--output", "d.jsonl")
    assert Path("d.jsonl").read_text().startswith(sent)


def test_a_budget_ends_a_stream_before_anything_leaves(privest, drawn):
    write(6)
    more = ("--ledger", "l.db", "--subject", "anna")
    run(privest, "m.csv", "--level", 1, "--emit", "releases", *more, "--budget", 2.5)
    run(privest, "m.csv", "--level", 1.5, "--emit", "releases", *more)
    done = privest("stream", "m.csv", "--level", 0.25, "--emit", "releases", *more)
    assert (done.code, done.out, "anna" in done.err) == (2, "", True)
    assert drawn == dict.fromkeys(range(6), 2)


def test_a_disk_that_does_not_take_it_means_nothing_is_sent(privest, monkeypatch):
    """An fsync that fails: what was not certain is not printed."""
    command = ("m.csv", *RELEASES, "--output", "z.jsonl", "--checkpoint", "c")
    write(4)
    run(privest, *command)
    before = Path("z.jsonl").read_text()
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        real(descriptor)

    write(9)
    monkeypatch.setattr(os, "fsync", full)
    assert privest("stream", *command).code != 0
    monkeypatch.setattr(os, "fsync", real)
    held = steps("z.jsonl")
    with pv.Checkpoint(
        "c", mechanism=pv.StreamMechanism(pv.StreamLevel.constant(4.0, lags=[0.5]))
    ) as kept:
        assert kept.resume()
        last = kept.pending.start
    assert last >= held[-1] >= 3
    run(privest, *command)
    assert Path("z.jsonl").read_text().startswith(before)
    assert steps("z.jsonl") == list(range(9))


def test_a_filter_with_a_ledger_sends_the_same_again(privest, drawn):
    Path("walk.toml").write_text("A = 1.0\nC = 1.0\nQ = 0.1\nR = 0.5\ncov0 = 1.0\n")
    common = ("filter", "m.csv", "--model", "walk.toml", "--measurements", "y", "--level", 4)
    releases = (*common, "--ledger", "l.db", "--emit", "releases")
    write(6, change={2: ""})
    first = privest(*releases)
    assert first.code == 0, first
    write(9, change={2: "3", 4: "1e300"})
    second = privest(*releases)
    assert second.out.startswith(first.out)
    assert drawn == dict.fromkeys(set(range(9)) - {2}, 1)
    with pv.Ledger("l.db") as book:
        Path("z.jsonl").write_text(second.out)
        assert verify("z.jsonl", book).verified
        assert float(book.account("y of m.csv").spent.level) <= 4.0
    done = privest(*common, "--ledger", "l.db")  # estimates of the same releases
    assert (done.code, max(drawn.values())) == (0, 1)
    assert "This release is recorded nowhere" in " ".join(privest(*common).err.split())


@pytest.mark.parametrize("kind", ["replay", "continue"])
def test_an_older_checkpoint_with_a_ledger(privest, drawn, kind):
    """What the ledger has is sent as it was; where its rows do not come again, it is burnt."""
    command = (*RELEASES, "--block", 3, *BOOK, "--checkpoint", "c", f"--{kind}", "--subject", "a")
    first = 0 if kind == "replay" else 7
    write(7)
    run(privest, "m.csv", *command)
    for name in ("c", "z.jsonl"):
        shutil.copy(name, f"old.{name}")
    write(14, start=first)
    run(privest, "m.csv", *command)
    sent = Path("z.jsonl").read_text()
    for name in ("c", "z.jsonl"):
        shutil.copy(f"old.{name}", name)
    write(16, start=14 if first else 0)
    done = run(privest, "m.csv", *command)
    lines = Path("z.jsonl").read_text()
    assert drawn == dict.fromkeys(range(16), 1)
    assert check_lines(lines.splitlines(keepends=True)).steps == 16
    if kind == "replay":
        assert "7 steps sent again as they were" in done.err
        assert lines.startswith(sent)
    else:
        assert "7 steps were sent before and cannot be recovered" in done.err
        assert steps("z.jsonl") == list(range(16))


def test_an_older_ledger_under_a_newer_output(privest, drawn):
    """The whole folder of the ledger, marks and all, from a backup."""
    command = ("m.csv", *RELEASES, *BOOK, "--checkpoint", "c")
    write(8)
    run(privest, *command)
    shutil.copytree("marks", "old.marks")
    shutil.copy("l.db", "old.db")
    write(14)
    run(privest, *command)
    before = Path("z.jsonl").read_text()
    for name in Path().glob("l.db*"):
        name.unlink()
    shutil.copy("old.db", "l.db")
    shutil.rmtree("marks")
    shutil.copytree("old.marks", "marks")
    write(16)
    done = privest("stream", *command)
    if done.code:  # the ledger itself may notice: another file in its place
        assert "ledger" in done.err
        assert Path("z.jsonl").read_text() == before
        with pv.Ledger("l.db") as book:
            book.adopt()
        done = run(privest, *command)
    after = Path("z.jsonl").read_text()
    assert after.startswith(before)
    assert steps("z.jsonl") == list(range(16))
    assert drawn == dict.fromkeys(range(16), 1)
    with pv.Ledger("l.db") as book:
        assert "retired" in [one.kind for one in book.history("y of m.csv")]


@pytest.mark.parametrize("value", ["inf", "-1e999", "1e308"])
def test_a_stream_goes_on_after_any_reading(privest, drawn, value):
    """A checkpoint remembers the last readings; which they are must not stop it."""
    command = ("m.csv", *RELEASES, "--output", "z.jsonl", "--checkpoint", "c")
    write(4, change={3: value})
    run(privest, *command)
    write(8, change={3: value})
    run(privest, *command)
    assert drawn == dict.fromkeys(range(8), 1)
    z = [json.loads(line)["z"] for line in Path("z.jsonl").read_text().splitlines()[1:]]
    # steps 3 and 4, which looks back, are clipped to what the grid holds; 2^13 is noise
    assert [abs(abs(one) - 2**52) < 2**14 for one in z] == [k in (3, 4) for k in range(8)]

"""`privest verify`: 0 where all was examined and is true, 1 for every forgery and every gap."""

import hashlib
import json
from pathlib import Path

import pytest

from privest.workflow.verify import verify
from workflow_command import called

STREAM = ("stream", "m.csv", "--target", "load", "--level", 2, "--emit", "releases", "--block", 4)
MODEL = "A = 1.0\nC = [[1.0], [1.0]]\nQ = 0.1\nR = [[0.5, 0.0], [0.0, 0.5]]\ncov0 = 1.0\n"


def run(*arguments):
    done = called(*arguments)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """z.jsonl: 10 steps in blocks of 4, step 3 missing, and its ledger; others beside it."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRIVEST_STATE_HOME", str(folder / "marks"))
        rows = [f"{k},{'' if k == 3 else k % 3}\n" for k in range(10)]
        Path("m.csv").write_text("x,load\n" + "".join(rows))
        run(*STREAM, "--ledger", "l.db", "--output", "z.jsonl")
        Path("half.csv").write_text("x,load\n" + "".join(rows[:4]))
        run(*STREAM, "--ledger", "other.db", "--output", "other.jsonl")
        run(*STREAM, "--output", "free.jsonl")
        run(*STREAM, "--simulate", "--output", "trial.jsonl")
        run(*STREAM, "--ledger", "l.db", "--subject", "as csv", "--output", "z.csv")
        more = ("--ledger", "l.db", "--subject", "months")
        run("stream", "half.csv", *STREAM[2:], *more, "--output", "first.jsonl")
        run(*STREAM, *more, "--continue", "--output", "later.jsonl")
        Path("two.csv").write_text("a,b\n" + "".join(f"{k},{k % 2}\n" for k in range(5)))
        Path("model.toml").write_text(MODEL)
        run("filter", "two.csv", "--model", "model.toml", "--level", 4, "--emit", "releases",
            "--ledger", "l.db", "--output", "two.jsonl")  # fmt: skip
    return folder


@pytest.fixture
def here(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(made / "marks"))


def read(name="z.jsonl"):
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def linked(records, *, signed=False):
    """Lines with a chain that is right, as anybody can write it; `signed`: with old signatures."""
    previous, text = "", ""
    for record in records:
        own = {name: value for name, value in record.items() if name not in ("hash", "hmac")}
        body = json.dumps(own)[:-1]
        previous = hashlib.sha256((previous + body).encode()).hexdigest()
        tail = f', "hmac": "{record["hmac"]}"' if signed and "hmac" in record else ""
        text += f'{body}, "hash": "{previous}"{tail}}}\n'
    return text


def changed(at, **what):
    return lambda records: [*records[:at], records[at] | what, *records[at + 1 :]]


def renumbered(records):
    return [records[0]] + [one | {"step": k} for k, one in enumerate(records[1:])]


# what a forger does to z.jsonl, whose lines are text, and what the command says
FORGERIES = {
    "a byte that is not UTF-8": (lambda text: text.encode().replace(b'"z"', b'"\xff"', 1), "UTF-8"),
    "no lines": (lambda text: "", "no first line"),
    "zero bytes": (lambda text: text + "\0\n", "zero bytes"),
    "one z": (lambda text: text.replace('"z": ', '"z": 1', 1), "changed"),
    "a line left out": (lambda text: without(text, 3), "changed"),
    "a line repeated": (lambda text: repeated(text, 3), "changed"),
    "the end, within a block": (lambda text: first(text, 8), "the steps from 4 on: they bear no"),
    "the end, at a block": (lambda text: first(text, 9), "steps 8 to 9: the ledger has them"),
    "the end, within a line": (lambda text: text[:-9], "not finished"),
    "all but the first line": (lambda text: first(text, 1), "steps 0 to 9: the ledger has them"),
    "a line more": (lambda text: text + "\n", "changed"),
}
RELINKED = {
    "z changed": (changed(5, z=77), "step 4"),
    "z of a missing step": (changed(4, z=77), "step 3"),
    "z taken away": (changed(5, z=None), "signature"),
    "nothing but the signatures": (lambda records: records, "signature"),
    "a feature": (changed(5, x=4.5), "signature"),
    "a line left out": (lambda r: renumbered([*r[:3], *r[4:]]), "step"),
    "a line repeated": (lambda r: renumbered([*r[:3], r[2], *r[3:]]), "step"),
    "a hole": (lambda r: [*r[:3], *r[4:]], "next step"),
    "two lines swapped": (lambda r: renumbered([*r[:2], r[3], r[2], *r[4:]]), "step"),
    "a step more": (lambda r: [*r, r[-1] | {"step": 10}], "step 10"),
    "the end": (lambda r: r[:9], "signature"),
    "another entry": (changed(4, entry=2), "entry"),
    "an entry that is not there": (changed(4, entry=99), "entry 99"),
    "no ledger in the first line": (changed(0, ledger=None), "charged to none"),
    "another ledger": (changed(0, ledger={"ledger": "0", "subject": "a", "key": ""}), "another"),
    "a ledger that is a number": (changed(0, ledger=7), "line 1"),
    "a width that the entries do not have": (changed(0, together=2), "step 1"),
    "another account": (
        lambda r: [r[0] | {"ledger": r[0]["ledger"] | {"subject": "nobody"}}, *r[1:]], "no account",
    ),
    "another release of the account": (
        lambda r: [r[0] | {"ledger": r[0]["ledger"] | {"key": "x"}}, *r[1:]], "step 0",
    ),
    "another range": (changed(0, range=[0, 1]), "signature"),
    "simulated": (
        lambda r: [r[0] | {"simulated": True, "grid": 0}, *(one | {"grid": 0} for one in r[1:])],
        "simulation",
    ),
}  # fmt: skip


def without(text, at):
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:at], *lines[at + 1 :]])


def repeated(text, at):
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:at], lines[at - 1], *lines[at:]])


def first(text, count):
    return "".join(text.splitlines(keepends=True)[:count])


def refused(words, *arguments):
    done = called("verify", *arguments)
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, words in said) == (1, True), (done.returncode, said)
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("name", ["z.jsonl", "later.jsonl", "two.jsonl"])
def test_what_is_true(here, name):
    done = run("verify", name, "--ledger", "l.db")
    assert "not examined" not in done.stdout
    found = verify(name, "l.db")
    assert found.verified
    assert json.loads(run("verify", name, "--ledger", "l.db", "--json").stdout)["verified"]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_changed_file(here, name):
    forge, words = FORGERIES[name]
    text = forge(Path("z.jsonl").read_text())
    Path("f.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(words, "f.jsonl", "--ledger", "l.db")


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", RELINKED)
def test_a_chain_that_was_made_anew(here, name, signed):
    forge, words = RELINKED[name]
    Path("f.jsonl").write_text(linked(forge(read()), signed=signed))
    if signed and name == "nothing but the signatures":  # the file itself
        assert Path("f.jsonl").read_text() == Path("z.jsonl").read_text()
    else:
        refused("" if signed else words, "f.jsonl", "--ledger", "l.db")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other.jsonl", "another ledger"), ("free.jsonl", "charged to none"),
        ("trial.jsonl", "simulation"), ("z.csv", "no such file"), ("none.jsonl", "no release"),
        ("first.jsonl", "steps 4 to 13: the ledger has them"),
    ],
)  # fmt: skip
def test_other_files(here, name, words):
    refused(words, name, "--ledger", "l.db")
    refused("", name)


def test_without_the_ledger(here):
    """Nobody can tell who made a release, or where a stream ended: it is said, and no exit 0."""
    said = refused("not examined: who made it, and whether it was charged", "z.jsonl")
    assert "10 steps, each line linked" in said
    assert not verify("z.jsonl").verified
    refused("not examined: where the stream ended", "trial.jsonl", "--allow-simulated")
    refused("in no ledger", "trial.jsonl", "--allow-simulated", "--ledger", "l.db")

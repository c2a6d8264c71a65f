"""Nothing that `stream`, `filter` and agents write or say holds a reading.

A reading that could be recognised anywhere is looked for in every byte of every file, in what is
printed and in the log. A checkpoint of a level that looks back holds its last readings, for its
owner alone, and is left out where it does.
"""

import logging
import struct
from pathlib import Path

import numpy as np
import pytest

import privest as pv
from privest import network
from privest.ledger import Budget, cost_of
from privest.mechanism.source import Kept
from workflow_command import runner

SENTINEL = 31415.92653589793


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVEST_STATE_HOME", str(tmp_path / "marks"))
    return runner(capsys, monkeypatch)


def traces(factor):
    """The sentinel as text, as a double and as what is shown of it, in either order of bytes."""
    found = [b"31415.9", b"3.14159"]
    for number in (SENTINEL, factor * SENTINEL, factor * SENTINEL * 1024):
        found += [struct.pack("<d", number), struct.pack(">d", number), repr(number)[:12].encode()]
    return found


def scan(done, caplog, *inputs, factor=2.0):
    """Every file but the inputs, and every word."""
    said = (done.out + done.err + caplog.text).encode()
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for trace in traces(factor):
        assert trace not in said
        for path, content in files.items():
            assert trace not in content or path.name in inputs, path
    return files


def rows(bad=""):
    return f"x,y\n1,{SENTINEL}\n2,-{SENTINEL}\n3,{SENTINEL}\n4,{bad or SENTINEL}\n5,{SENTINEL}\n"


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_stream(privest, caplog, kind):
    caplog.set_level(logging.DEBUG)
    Path("m.csv").write_text(rows())
    common = ("stream", "m.csv", "--level", 4, "--block", 2, "--ledger", "l.db")
    done = privest(*common, "--emit", "releases", "--output", f"z.{kind}", "--checkpoint", "c")
    assert done.code == 0, done
    assert {"c", "l.db", f"z.{kind}"} <= {path.name for path in scan(done, caplog, "m.csv")}
    done = privest(*common, "--residual-variance", 1, "--output", "e.csv")
    assert done.code == 0, done
    scan(done, caplog, "m.csv")
    # sums of readings are in a checkpoint of a level that looks back; nowhere else
    done = privest("stream", "m.csv", "--level", 4, "--lags", "0.5", "--emit", "releases",
                   "--output", "back.jsonl", "--checkpoint", "back")  # fmt: skip
    assert done.code == 0, done
    scan(done, caplog, "m.csv", "back")
    assert struct.pack("<d", SENTINEL) in Path("back").read_bytes()
    assert Path("back").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("bad", ["31415.92653589793x", "--31415.92653589793"])
def test_a_line_that_is_refused(privest, caplog, bad):
    Path("m.csv").write_text(rows(bad))
    done = privest("stream", "m.csv", "--level", 4, "--emit", "releases", "--output", "z.jsonl",
                   "--checkpoint", "c")  # fmt: skip
    assert done.code == 2
    scan(done, caplog, "m.csv")
    Path("walk.toml").write_text("A = 1.0\nC = 1.0\nQ = 0.1\nR = 0.5\ncov0 = 1.0\n")
    done = privest("filter", "m.csv", "--model", "walk.toml", "--measurements", "y", "--level", 4)
    assert done.code == 2
    scan(done, caplog, "m.csv")


def test_filter(privest, caplog):
    Path("m.csv").write_text(rows())
    Path("walk.toml").write_text("A = 1.0\nC = 1.0\nQ = 0.1\nR = 0.5\ncov0 = 1.0\n")
    common = ("filter", "m.csv", "--model", "walk.toml", "--measurements", "y", "--level", 4)
    done = privest(*common, "--ledger", "l.db", "--emit", "releases", "--output", "z.jsonl")
    assert done.code == 0, done
    scan(done, caplog, "m.csv")
    done = privest(*common, "--ledger", "l.db", "--output", "x.csv")
    assert done.code == 0, done
    scan(done, caplog, "m.csv")


@pytest.mark.parametrize("ledger", [False, True])
def test_agents(privest, caplog, capsys, ledger):
    """What an agent keeps and sends: (x_i, r_i) of its release."""
    caplog.set_level(logging.DEBUG)
    Path("m.csv").write_text(rows())
    if ledger:
        book = pv.Ledger("l.db")
        book.account("a", budget=Budget(level=4.0))
        noise = book.account("a").source(cost_of(4.0), start=0, level=4.0)
    else:
        noise = Kept("m.csv.release", level=4.0)
    table = np.genfromtxt("m.csv", delimiter=",", names=True)
    sensor = network.Sensor(np.column_stack([np.ones(len(table)), table["x"]]), 0.25, 4.0)
    parts = [sensor.contribution(sensor.release(table["y"], noise)) for _ in range(3)]
    for part in parts[1:]:
        assert np.array_equal(part.x, parts[0].x)
    Path("sent").write_bytes(parts[0].x.tobytes() + parts[0].r.tobytes())
    found = network.consensus(parts, network.Graph.ring(3))
    assert found.simulated is False
    Path("found").write_text(repr(found.to_dict()))
    done = privest("ledger", "show", "l.db") if ledger else privest("--version")
    assert done.code == 0, done
    scan(done, caplog, "m.csv")
    if ledger:
        book.close()

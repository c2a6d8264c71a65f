"""Whether a step is drawn, sent again or refused: by account, index and public columns alone."""

import functools
import json
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import privest as pv
from workflow_command import called

READ = [round(5 + 4 * math.sin(3 * k), 3) for k in range(40)]
BESIDE = [round(math.cos(5 * k), 3) for k in range(40)]


def table(folder, measurements, beside, name="meter.csv"):
    path = folder / name
    rows = zip(beside, reversed(beside), measurements)
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
    for word in ("another subject", "new rows only", "load of meter.csv"):
        assert word in said
    for value in READ:
        assert str(value) not in said


@pytest.mark.parametrize("more", [{"block": 7}, {"block": 1}, {"features": "w"}])
def test_the_same_rows_and_new_ones_go_on(tmp_path, sent, more):
    """In blocks of another size, or beside other public columns; readings may be corrected."""
    corrected = [y + 3.137 * (k == 5) for k, y in enumerate(READ)]
    code, output, said = stream(table(tmp_path, corrected, BESIDE), "b.jsonl", **more)
    assert (code, len(written(output))) == (0, 40)
    assert "16 steps sent again as they were (measurements are not compared)." in said
    assert [line["z"] for line in written(output)[:16]] == [line["z"] for line in sent]


def test_a_resumed_stream_does_not_compare_readings(tmp_path, sent):
    code, output, said = stream(table(tmp_path, [10 - y for y in READ], BESIDE))
    assert (code, len(written(output)), "resumed" in said) == (0, 40, True)
    assert written(output)[:16] == sent


# --- neighbours: the same decisions whatever the readings are -----------------------------------

measurements = st.lists(st.floats(0, 10).map(lambda y: round(y, 3)), min_size=20, max_size=20)


def decided(before, now, name):
    """All that is decided when `now` follows `before`, and what the ledger holds beside z."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        folder = Path(place)
        patch.setenv("PRIVEST_STATE_HOME", place)
        stream(table(folder, before[:10], BESIDE[:10]), block=5)
        code, _, said = stream(table(folder, now, BESIDE[:20]), "b.jsonl", name, block=5)
        with pv.Ledger(folder / "ledger.db") as ledger:
            entries = [one.to_dict() for one in ledger.history()]
    for one in entries:
        del one["time"], one["hash"]
    return code, said, entries


OFF = [0.0] * 20
of_off = functools.cache(lambda name: decided(OFF, OFF, name))
names = st.sampled_from(["load of meter.csv", "another sensor"])


@given(measurements, measurements | st.none(), names)
@example(OFF, [*OFF[1:], 1.0], "another sensor")
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_no_reading_decides(before, now, name):
    """The same readings again, two sensors that are off, one reading that differs: all alike."""
    assert decided(before, before if now is None else now, name) == of_off(name)
    assert of_off(name)[0] == 0

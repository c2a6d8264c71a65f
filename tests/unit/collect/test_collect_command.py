"""`privest collect` and `privest contribute`: what they refuse, merge, check and write."""

import contextlib
import csv
import logging
import os
import sqlite3
import stat

import pytest

from privest.collect import Report, in_process, load_plan, open_store
from privest.collect.server import Tokens
from workflow_command import called

PLAN = """
name = "meter"
features = ["hour"]
range = [0, 2]
residual_variance = 0.04
steps = 100
[levels]
low = 1.0
"""


@pytest.fixture
def plan_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def fill(path, plan_file, steps):
    with open_store(path, load_plan(plan_file)) as store:
        store.add(
            [Report(f"{k:032x}", "d", k, "low", (k * 512,), 1000 + 7 * k * k % 500) for k in steps]
        )


def test_stores_are_merged_checked_and_written_as_a_course(plan_file, tmp_path):
    fill("a.db", plan_file, range(30))
    fill("b.db", plan_file, range(20, 50))
    done = called("collect", "plan.toml", "--store", "a.db", "--merge", "b.db")
    assert (done.returncode, done.stderr.strip()) == (0, "counted: 30")
    done = called("collect", "plan.toml", "--store", "a.db", "--check", "--course", "course.csv")
    assert done.returncode == 0
    assert "the sums are those of 50 reports" in done.stderr.lower()
    assert "hour" in done.stdout
    rows = list(csv.DictReader((tmp_path / "course.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == list(range(1, 50))
    for row in rows:
        assert 0 < float(row["bound hour"]) <= float(row["s.e. hour"])


@pytest.mark.parametrize("how", [("--store", "a.db", "--merge", "other.db"),
                                 ("--store", "other.db", "--check")])  # fmt: skip
def test_a_database_of_something_else_is_no_store(plan_file, tmp_path, how):
    fill("a.db", plan_file, range(5))
    with contextlib.closing(sqlite3.connect("other.db")) as other:
        other.execute("CREATE TABLE mine (x)")
    before = (tmp_path / "other.db").read_bytes()
    done = called("collect", "plan.toml", *how)
    assert done.returncode == 2
    assert "other.db is a database of something else" in " ".join(done.stderr.split())
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_changed_store_is_told(plan_file):
    fill("a.db", plan_file, range(5))
    with open_store("a.db", load_plan(plan_file)) as store:
        store._run("DELETE FROM reports WHERE step = 3")
    done = called("collect", "plan.toml", "--store", "a.db", "--check")
    assert done.returncode == 2
    assert "the store was changed" in done.stderr


def test_a_token_for_a_device_and_its_budget(plan_file, tmp_path):
    words = "collect", "plan.toml", "--tokens", "t.txt"
    done = called(*words, "--add-device", "m1", "--budget", "2")
    assert done.returncode == 0
    name, _, most = (tmp_path / "t.txt").read_text().split()
    assert (name, float(most)) == ("m1", 2.0)
    assert done.stdout.strip() not in (tmp_path / "t.txt").read_text()
    assert Tokens(tmp_path / "t.txt").owner(f"Bearer {done.stdout.strip()}") == ("m1", 2.0)
    for wrong, budget, said in (
        ("a b", "1", "name of a device"), ("#m2", "1", "name of a device"),
        ("m2", "0.5", "lowest level"), ("m2", "nan", "lowest level"),
        ("m1", "1", "m1 has a token"),  # the old one would go on with its own budget
    ):  # fmt: skip
        refused = called(*words, "--add-device", wrong, "--budget", budget)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert said in refused.stderr
    (tmp_path / "t.txt").write_text((tmp_path / "t.txt").read_text().strip())  # by hand
    other = called(*words, "--add-device", "m3", "--budget", "1.23456789")
    owner = Tokens(tmp_path / "t.txt").owner(f"Bearer {other.stdout.strip()}")
    assert owner == ("m3", 1.23456789)
    assert len((tmp_path / "t.txt").read_text().splitlines()) == 2


def test_tokens_are_their_owners_alone_from_the_first_byte(plan_file, tmp_path):
    umask, file = os.umask(0), tmp_path / "t.txt"
    try:
        words = "collect", "plan.toml", "--tokens", "t.txt", "--add-device"
        assert called(*words, "m1").returncode == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o640)  # whoever shares it knows why
        assert called(*words, "m2").returncode == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
    finally:
        os.umask(umask)
    assert [line.split()[0] for line in file.read_text().split("\n") if line] == ["m1", "m2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "file of tokens"), (["--add-device", "m1"], "file of tokens"),
        (["--open", "--mqtt", "localhost:1883"], "address of a broker"),
        (["--open", "--mqtt", "mqtt://localhost:abc"], "address of a broker"),
        (["--open", "--mqtt", "mqtt://localhost:65536"], "address of a broker"),
        (["--open", "--mqtt", "mqtt://[:::]"], "address of a broker"),
        (["--open", "--mqtt", "mqtt://[::1"], "address of a broker"),
        (["--merge", "none.db"], "no store none.db"),
        (["--check"], "no store collection.db"),
        (["--open", "--store", "none/c.db"], "cannot be used"),
        (["--open", "--store", "postgresql://nobody@127.0.0.1:1/none"], "does not answer"),
        (["--open", "--tokens", "t.txt"], "open to all"),
        (["--open", "--store", "postgresql://nobody@h/none?other=1"], "does not answer"),
        (["--open", "--key", "k.pem"], "certificate of this key"),
        (["--open", "--certificate", "none.pem"], "certificate or its key"),
        (["--open", "--mqtt", "mqtt://h:61883", "--certificate", "plan.toml"], "certificate or"),
    ],
)  # fmt: skip
def test_what_a_collector_refuses(plan_file, words, said):
    logs = logging.getLogger("uvicorn")
    before = list(logs.handlers)
    done = called("collect", "plan.toml", *words)
    assert logs.handlers == before  # the logging of the process stays as it is
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_device_without_a_collector(plan_file, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    (tmp_path / "day.csv").write_text("hour,load\n0.5,1.0\n")
    words = "--target", "load", "--device", "m1", "--budget", "1"
    done = called("contribute", "http://127.0.0.1:1", "day.csv", *words)
    assert done.returncode == 2
    assert done.stderr.count("Trying again") == 7
    assert "does not answer" in done.stderr
    for wrong in ("ftp://example", "http://[::1"):
        done = called("contribute", wrong, "day.csv", *words)
        assert done.returncode == 2
        assert "begins with https" in done.stderr
        assert "Traceback" not in done.stderr
    done = called("contribute", "mqtt://127.0.0.1:1", "day.csv", *words)
    assert "the name of the plan, after the broker's address" in done.stderr
    assert not (tmp_path / "privest-device.db").exists()


def test_a_file_of_measurements_is_protected_and_sent(plan_file, tmp_path, monkeypatch):
    """Twice the same file: nothing is drawn again."""
    store = open_store("c.db", load_plan(plan_file))

    monkeypatch.setattr("privest.collect.device._post", in_process(store))
    (tmp_path / "day.csv").write_text("hour,load\n0.25,1.0\n0.5,\n0.75,1.5\n")
    words = "contribute", "https://c", "day.csv", "--target", "load", "--device", "m1"
    asked = called(*words, "--budget", "1")
    assert asked.returncode == 2
    assert "would leave unprotected" in asked.stderr
    words = *words, "--features", "hour"
    first = called(*words, "--budget", "1")
    assert first.returncode == 0, first.stderr
    assert "3 rows, 2 protected now; 2 reports answered." in first.stderr
    again = called(*words, "--budget", "1")
    assert "3 rows, 0 protected now; 0 reports answered." in again.stderr
    assert [one.step for one in store.reports()] == [0, 2]
    assert "For all 100 of a device, epsilon = " in again.stderr
    (tmp_path / "privest-device.db.outbox").unlink()
    lost = called(*words, "--budget", "1")
    assert lost.returncode == 2
    assert "2 reports did not count" in lost.stderr
    store.close()
    refused = called(*words, "--budget", "0.5")
    assert refused.returncode == 2
    assert "above the budget" in refused.stderr
    (tmp_path / "day.csv").write_text("hour,load\n0.25,x\n")
    assert "is no number" in called(*words, "--budget", "1").stderr
    assert "no column" in called(*words[:4], "none", *words[5:], "--budget", "1").stderr


def test_the_collector_cannot_ask_for_the_private_column(plan_file, tmp_path, monkeypatch):
    """Nor for a column that the owner did not name; the hash of a plan names its features."""
    (tmp_path / "other.toml").write_text(PLAN.replace('["hour"]', '["hour", "load"]'))
    made = load_plan(tmp_path / "other.toml")
    with open_store("c.db", made) as store:
        monkeypatch.setattr("privest.collect.device._post", in_process(store))
        (tmp_path / "day.csv").write_text("hour,load,age\n0.25,1.0,7\n")
        words = "contribute", "https://c", "day.csv", "--device", "m1", "--budget", "1"
        own = *words, "--target", "load"
        for more in (["--features", "hour,load"], ["--plan-hash", made.hash]):
            done = called(*own, *more)
            assert done.returncode == 2
            assert "asks for the column 'load'" in done.stderr
        assert store.count() == (0, 0)
        done = called(*words, "--target", "age", "--features", "hour")
        assert "asks for the column 'load'" in done.stderr
        assert called(*words, "--target", "age", "--plan-hash", made.hash).returncode == 0


def test_a_long_file_is_sent_in_parts(plan_file, tmp_path, monkeypatch):
    """What is protected first is sent first, so that a stop loses little."""
    store, sizes = open_store("c.db", load_plan(plan_file)), []

    def post(url, body, headers):
        sizes.append(store.count()[0])
        return in_process(store)(url, body, headers)

    monkeypatch.setattr("privest.collect.device._post", post)
    monkeypatch.setattr("privest.collect.device.BATCH", 40)
    (tmp_path / "day.csv").write_text("hour,load\n" + "0.25,1.0\n" * 100)
    words = "--target", "load", "--features", "hour", "--device", "m1", "--budget", "1"
    assert called("contribute", "https://c", "day.csv", *words).returncode == 0
    assert (sizes, store.count()[0]) == ([0, 0, 40, 80], 100)
    store.close()


def test_the_epsilon_of_a_level_is_rounded_up(plan_file, tmp_path, monkeypatch):
    """What is promised is not less than what holds: 11.017, and 21.881 for three of them."""
    (tmp_path / "plan.toml").write_text(
        PLAN.replace("low = 1.0", "low = 1.003").replace("100", "3")
    )
    made = load_plan("plan.toml")
    assert 11.0 < made.statement("low").epsilon < 11.05
    assert 21.88 < made.epsilon_of_all("low") < 21.89
    (tmp_path / "day.csv").write_text("hour,load\n0.25,1.0\n")
    with open_store("c.db", made) as store:
        monkeypatch.setattr("privest.collect.device._post", in_process(store))
        words = "--target", "load", "--features", "hour", "--device", "m1", "--budget", "2"
        done = called("contribute", "https://c", "day.csv", *words)
    said = " ".join(done.stderr.split())
    assert "epsilon = 11.1 at" in said
    assert "For all 3 of a device, epsilon = 21.9." in said


def test_what_a_wrong_row_left_behind_is_sent_by_the_next_run(plan_file, tmp_path, monkeypatch):
    """A row without a feature and a value is a gap, not an error; a word is an error."""
    store = open_store("c.db", load_plan(plan_file))
    monkeypatch.setattr("privest.collect.device._post", in_process(store))
    words = "contribute", "https://c", "day.csv", "--target", "load", "--device", "m1"
    words = *words, "--features", "hour", "--budget", "1"
    (tmp_path / "day.csv").write_text("hour,load\n0.25,1.0\n,\n0.5,x\n")
    for _ in range(2):
        done = called(*words)
        assert done.returncode == 2
        assert "line 4: a cell is no number" in done.stderr
    assert [one.step for one in store.reports()] == [0]
    (tmp_path / "day.csv").write_text("hour,load\n0.25,1.0\n,\n0.5,1.0\n")
    assert called(*words).returncode == 0
    assert [one.step for one in store.reports()] == [0, 2]
    (tmp_path / "token.txt").write_text("one\nSECRET")
    done = called(*words, "--token-file", "token.txt")
    assert done.returncode == 2
    assert "a token must be" in done.stderr
    assert "SECRET" not in done.stderr
    store.close()

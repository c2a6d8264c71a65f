"""`privest ledger`: accounts for people and programs, clear errors, nothing sensitive printed."""

import json
import os
import shutil

import pytest

import workflow_command
from privest.ledger import Cost, Ledger


@pytest.fixture
def privest(capsys, monkeypatch):
    return workflow_command.runner(capsys, monkeypatch)


@pytest.fixture
def path(tmp_path, privest):
    path = tmp_path / "ledger.db"
    assert privest("ledger", "budget", path, "--subject", "people.csv", "--level", 4).code == 0
    return path


def test_an_account_has_its_name_in_a_narrow_terminal(path, privest):
    """At 80 columns, beside the longest budget."""
    limits = ("--level", 4, "--epsilon", 3, "--delta", 1e-6, "--sensitivity", 0.5)
    for name in ("ldl of people.csv", "blood pressure of nhanes-2017-2018-examined.csv"):
        assert privest("ledger", "budget", path, "--subject", name, *limits).code == 0
    lines = privest("ledger", "show", path).out.splitlines()
    column = "".join(line[1:].split("│")[0].strip() for line in lines if line.startswith("│"))
    for name in ("people.csv", "ldl of people.csv", "nhanes-2017-2018-examined.csv"):
        assert name in column


def test_a_life_of_a_ledger(path, privest):
    with Ledger(path) as ledger:
        ledger.account("people.csv").spend(Cost(1.5), start=0, stop=300)
    shown = privest("ledger", "show", path)
    assert shown.code == 0
    for text in ("people.csv", "level 4", "level 1.5", "level 2.5", "Head: "):
        assert text in shown.out
    record = json.loads(privest("ledger", "show", path, "--json", "--subject", "people.csv").out)
    account = record["accounts"]["people.csv"]
    assert (account["spent"]["level"], account["remaining"]["level"]) == (1.5, 2.5)
    assert [one["kind"] for one in record["entries"]] == ["account", "spent"]
    head = ":".join(str(record["head"][name]) for name in ("ledger", "sequence", "hash"))
    assert privest("ledger", "verify", path, "--head", head).code == 0
    assert json.loads(privest("ledger", "verify", path, "--json").out)["verified"]
    other = head[:-1] + ("0" if head[-1] != "0" else "1")
    wrong = privest("ledger", "verify", path, "--head", other)
    assert wrong.code == 2
    assert "not the one that was noted" in wrong.err.replace("\n", " ")


def test_a_budget_of_differential_privacy(tmp_path, privest):
    path = tmp_path / "new" / "ledger.db"
    stated = ("--epsilon", 1, "--delta", 1e-6, "--sensitivity", 0.5)
    assert privest("ledger", "budget", path, "--subject", "meter", *stated).code == 0
    again = ("ledger", "budget", path, "--subject", "meter", "--level", 2)
    assert privest(*again).code == 2
    assert "Keep the sensitivity" in privest(*again, "--change").err
    assert privest(*again, "--sensitivity", 0.5, "--change").code == 0


def test_export(path, privest, tmp_path):
    out = tmp_path / "ledger.json"
    assert privest("ledger", "export", path, "--output", out).code == 0
    record = json.loads(out.read_text())
    assert [one["sequence"] for one in record["entries"]] == [1, 2]
    with Ledger(path) as ledger, ledger._store.reading():
        key = ledger._key().hex()
    assert key not in out.read_text()
    assert privest("ledger", "export", path, "--output", out).code == 2  # it is there


def test_copies(path, privest, tmp_path):
    shutil.copy(path, tmp_path / "copy.db")
    assert "copy of a ledger" in privest("ledger", "show", tmp_path / "copy.db").out.replace(
        "\n", " "
    )
    assert privest("ledger", "verify", tmp_path / "copy.db").code == 2
    assert privest("ledger", "adopt", tmp_path / "copy.db").code == 0
    assert privest("ledger", "verify", tmp_path / "copy.db").code == 0
    assert privest("ledger", "verify", path).code == 2
    for bad in ("people.csv", "=3", "people.csv=x", "people.csv=9" * 9, "other=1"):
        assert privest("ledger", "recover", path, "--highest", bad).code == 2
    assert privest("ledger", "recover", path, "--highest", "people.csv=9").code == 0
    assert privest("ledger", "verify", path).code == 0


@pytest.mark.parametrize("command", ["show", "verify", "export", "adopt"])
def test_what_is_no_ledger(privest, tmp_path, command):
    text = tmp_path / "text.db"
    text.write_text("not a ledger\n" * 100)
    text.chmod(0o600)
    for file in (text, tmp_path / "none.db", tmp_path):
        done = privest("ledger", command, file)
        assert done.code == 2
        assert "Traceback" not in done.err
        assert done.err.startswith("privest:")
    assert sorted(os.listdir(tmp_path)) == ["text.db"]

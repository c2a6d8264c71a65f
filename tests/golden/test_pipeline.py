"""What plan, release and estimate give for every kind of plan, in numbers and in words.

`kinds/NAME/` holds a plan and a real release. Tables, entries and `ledger.db` are of privest 0.2;
the headers were written anew as version 4 and signed with the key of that ledger. `of-0.2` holds a
plan and a release as 0.2 wrote them: they are refused with what to do.
`expected.json` has the numbers of today, `plan.txt` and `estimate.txt` the words. GOLDEN=write
writes these three again: the difference is for a person to read and to decide about.
"""

import json
import os
import re
import shlex
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from golden_kinds import KINDS, STREAMS, tables
from workflow_command import called

HERE = Path(__file__).parent / "kinds"
WRITE = os.environ.get("GOLDEN") == "write"
SEED = "7"
CLOSE = 1e-9  # relative: sums of 60 rows in another order move about 1e-13
CLIMBED = 1e-6  # of a standard error: where a search for a maximum ends
PLAN = ("rows", "dropped", "names", "distribution", "epsilon", "most_rows", "columns")
ESTIMATED = ("value", "interval", "covariance", "degrees_of_freedom")
ESTIMATE = ("names", "value", "covariance", "interval", "degrees_of_freedom", "method")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("golden")
    for name, table in tables().items():
        table.to_csv(made / name, index=False)
    return made


def printed(*arguments):
    done = called(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def charged(kind):
    """What a real release writes into its ledger: the public part of the key, and the cost."""
    printed("release", f"{kind}.toml", "--output", f"real-{kind}.csv", "--ledger", f"{kind}.db")
    return charged_in(f"{kind}.db")


def charged_in(ledger):
    """The last entry; costs as doubles, since what is computed from ε differs by processor."""
    entry = json.loads(printed("ledger", "export", ledger))["entries"][-1]
    parts = [part for part in entry["key"].split(".") if part[0] in "tm" and len(part) != 32]
    return {"subject": entry["subject"], "key": parts, "stop": entry["stop"],
            "cost": doubles(entry["cost"])}  # fmt: skip


def doubles(cost):
    """The same tree with numbers m·2^e as doubles."""
    if isinstance(cost, dict):
        return {name: doubles(value) for name, value in cost.items()}
    if isinstance(cost, list):
        return [doubles(value) for value in cost]
    found = re.fullmatch(r"(\d+)p(-?\d+)", cost) if isinstance(cost, str) else None
    return cost if found is None else float(int(found[1]) * Fraction(2) ** int(found[2]))


def plan_facts(told):
    return {name: told[name] for name in PLAN}


def estimate_facts(told):
    several = [told, *told.get("parts", [])]
    return [{name: one[name] for name in ESTIMATE if name in one} for one in several]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_plan(kind, folder, monkeypatch):
    monkeypatch.chdir(folder)
    case, kept, found, words = KINDS[kind], HERE / kind, {}, {}
    data = folder / case.table
    stated = ("plan", data, "--form", "rows", *shlex.split(case.plan))
    words["plan.txt"] = printed(*stated)
    told = printed(*stated, "--json", "--save", f"{kind}.toml")
    found["plan"] = plan_facts(json.loads(told))
    printed(
        "release", f"{kind}.toml", "--simulate", "--seed", SEED, "--output", f"simulated-{kind}.csv"
    )
    rows = Path(f"simulated-{kind}.csv").read_text().splitlines()
    found["simulated"] = [[float(cell) for cell in row.split(",")] for row in rows[1:6]]
    found["header"] = json.loads(Path(f"simulated-{kind}.csv.json").read_text())
    found["charged"] = charged(kind)
    for name in ("plan.toml", "release.csv", "release.csv.json"):
        shutil.copy(kept / name, name)
    old = plan_facts(json.loads(printed("plan", "plan.toml", "--json")))
    calls = {options: ("estimate", "release.csv", *options.split()) for options in case.estimates}
    found["estimates"] = {
        options: estimate_facts(json.loads(printed(*call, "--json")))
        for options, call in calls.items()
    }
    words["estimate.txt"] = "\n".join(printed(*call) for call in calls.values())
    if WRITE:
        (kept / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        for name, text in words.items():
            (kept / name).write_text(text)
    close(old, found["plan"], "the plan file")
    expected = json.loads((kept / "expected.json").read_text())
    for one in (found, expected):  # they change with the last digit of a residual variance
        for name in ("checksum", "sha256"):
            one["header"].pop(name, None)
    close(found, expected, kind)
    for name, text in words.items():
        assert text == (kept / name).read_text(), name


def close(found, expected, where):
    """Equal, numbers to `CLOSE`, estimates to `CLIMBED`."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            if name in ESTIMATED and value is not None and expected.get("covariance"):
                close_in_errors(found, expected, name, where)
            else:
                close(found[name], value, f"{where}: {name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            close(one, other, f"{where}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=CLOSE, abs=1e-12), where
    else:
        assert found == expected, where


def close_in_errors(found, expected, name, where):
    """Arrays of an estimate in units of its standard errors; degrees of freedom relatively."""
    one, other, covariance = (
        np.array(told, float) for told in (found[name], expected[name], expected["covariance"])
    )
    error = np.sqrt(np.diag(covariance))
    unit = {"covariance": np.outer(error, error), "interval": error[:, None], "value": error}
    known = np.isfinite(other)
    assert np.array_equal(one[~known], other[~known], equal_nan=True), f"{where}: {name}"
    unit = np.broadcast_to(unit.get(name, np.abs(other)), other.shape)[known]
    assert (np.abs(one[known] - other[known]) <= CLIMBED * unit).all(), f"{where}: {name}"


def test_a_ledger_of_before(folder, monkeypatch):
    """The ledger of all these releases, once it is adopted here, vouches for each of them."""
    monkeypatch.chdir(folder)
    shutil.copy(HERE / "ledger.db", "ledger.db")
    Path("ledger.db").chmod(0o600)  # git does not keep this
    printed("ledger", "adopt", "ledger.db")
    printed("ledger", "verify", "ledger.db")
    for kind in KINDS:
        for name in ("release.csv", "release.csv.json"):
            shutil.copy(HERE / kind / name, name)
        assert called("verify", "release.csv", "--ledger", "ledger.db").returncode == 0, kind


def test_documents_of_before_are_refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("plan.toml", "release.csv", "release.csv.json"):
        shutil.copy(HERE.parent / "of-0.2" / name, name)
    for call in (("plan", "plan.toml"), ("estimate", "release.csv"), ("verify", "release.csv")):
        done = called(*call)
        assert done.returncode in (1, 2), call
        assert "read by privest 0.2" in " ".join(done.stderr.split()), call


@pytest.mark.parametrize("kind", STREAMS)
def test_a_kind_of_stream(kind, folder, monkeypatch):
    monkeypatch.chdir(folder)
    lines = printed("stream", "people.csv", *shlex.split(STREAMS[kind])).splitlines()
    found = [json.loads(line) for line in lines]
    kept = HERE.parent / "streams" / f"{kind}.jsonl"
    if WRITE:
        kept.write_text("\n".join(lines) + "\n")
    expected = [json.loads(line) for line in kept.read_text().splitlines()]
    close(found, expected, kind)

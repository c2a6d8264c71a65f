"""What is taken along runs, and comes to the numbers of the app, to the last digit."""

import contextlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import privest
from along_cases import CASES
from privest.app._along import Along, ledger_entry, save_along
from privest.app._along_cells import call_of
from privest.cli._workflow import rows_given
from privest.errors import InvalidInput, LedgerError
from privest.ledger import Ledger
from privest.report import save_report
from privest.workflow import (
    Account,
    Estimate,
    Noise,
    Plan,
    Privacy,
    Spec,
    estimate_release,
    load_spec,
    make_plan,
    release,
    simulate_release,
    trial_source,
)
from privest.workflow._commands import Steps

SEED = 11


@dataclass(frozen=True)
class Work:
    """As the app does it: the data in a private folder, the results in another."""

    plan: Plan
    estimate: Estimate
    along: Along
    table: Path
    unpacked: Path


def do(case, folder, *, trial, report=False):
    """Plan, release and estimate; and the archive, unpacked beside a copy of the data."""
    private, results, unpacked = (folder / name for name in ("private", "results", "unpacked"))
    for one in (private, results):
        one.mkdir(parents=True)
    spec = CASES[case](private)
    file = next(private.iterdir(), None)
    found = make_plan(spec, file)
    table, ledger = results / "release.csv", results / "led ger.db"
    if trial:
        simulate_release(found, table, trial_source(found, SEED), file)
        steps = Steps(table=table, made=True, seed=SEED)
    else:
        with Account(ledger, "it's us\n") as account:
            release(found, table, file, account=account)
        steps = Steps(table=table, made=True, ledger=ledger, subject="it's us\n")
    if case == "embedded":
        steps = replace(steps, confidence=0.9, errors="t", at=({"age": 50.0, "bmi": 25.5},))
    if case == "several":
        steps = replace(steps, at=({"age": 40.0},), total=True)
    estimate = estimate_release(table, steps.errors)
    along = Along(replace(spec, data=str(file or spec.data)), steps)
    page = results / "page.html"
    if report:
        save_report(found, estimate, along.commands, page)
    save_along(
        folder / "all.zip", along, table=None if trial else table, report=page if report else None,
        entry=None if trial else ledger_entry(ledger, estimate.release),
    )  # fmt: skip
    with zipfile.ZipFile(folder / "all.zip") as archive:
        archive.extractall(unpacked)
    if file is not None:
        shutil.copy(file, unpacked)
    return Work(found, estimate, along, table, unpacked)


def require_numbers(work, text):
    """Every number of plan and estimate stands in the text, with all its digits."""
    level = work.along.steps.confidence
    plans = getattr(work.plan, "plans", (work.plan,))
    parts = getattr(work.estimate, "parts", (work.estimate,))
    numbers = [one.privacy_error for one in plans] + [one.standard_error for one in plans]
    for one in parts:
        numbers += [one.estimate, one.standard_error, one.interval(level).ravel()]
        numbers += [[one.mean_at(row, level).mean for row in work.along.steps.at]]
        numbers += [[one.total(level).total]] if work.along.steps.total else []
    wanted = [repr(float(x)) for x in np.concatenate(numbers) if np.isfinite(x)]
    assert len(wanted) >= 5 * len(work.plan.names)
    assert [x for x in wanted if x not in text] == []


def cells(work):
    """The code cells of the notebook."""
    record = json.loads((work.unpacked / "reproduce.ipynb").read_text(encoding="utf-8"))
    return ["".join(one["source"]) for one in record["cells"] if one["cell_type"] == "code"]


def executed(parts, folder, monkeypatch):
    """The output of code, run in this process, but for its pictures, which take long."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("privest.report.save_report", lambda *given, **how: given[-1].touch())
    names, out = {}, io.StringIO()
    with contextlib.redirect_stdout(out):
        for part in parts:
            exec(compile(part, "cell", "exec"), names)
    return out.getvalue()


QUICK = [(case, True) for case in CASES] + [("messy", False), ("several", False)]


@pytest.mark.parametrize(("case", "trial"), QUICK)
def test_script_and_notebook_come_to_the_same_numbers(case, trial, tmp_path, monkeypatch):
    """All kinds as trials, some as real releases; the slow test has all of both."""
    work = do(case, tmp_path, trial=trial)
    script = (work.unpacked / "reproduce.py").read_text(encoding="utf-8")
    assert (work.unpacked / "release.csv").exists() is not trial
    text = executed([script], work.unpacked, monkeypatch)
    require_numbers(work, text)
    assert executed(cells(work), work.unpacked, monkeypatch) == text
    for name in ("release.csv", "release.csv.json"):
        assert (work.unpacked / name).read_bytes() == (work.table.parent / name).read_bytes()
    assert (work.unpacked / "report.html").exists()


@pytest.mark.parametrize("case", CASES)
def test_plan_file_and_call_are_the_plan(case, tmp_path, monkeypatch):
    spec = CASES[case](tmp_path)
    monkeypatch.chdir(tmp_path)
    along = Along(spec, Steps())
    Path("plan.toml").write_text(along.plan, encoding="utf-8")
    assert load_spec("plan.toml") == spec
    names = {"pv": privest}
    assert eval(call_of(spec), names).spec == spec


RUN = """
import contextlib, io, json, os, sys
from pathlib import Path
for folder in sys.argv[1:]:
    os.chdir(folder)
    script = Path("reproduce.py").read_text(encoding="utf-8")
    book = json.loads(Path("reproduce.ipynb").read_text(encoding="utf-8"))
    code = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
    for name, parts in (("script", [script]), ("notebook", code)):
        names, out = {"__name__": "__main__"}, io.StringIO()
        with contextlib.redirect_stdout(out):
            for part in parts:
                exec(compile(part, name, "exec"), names)
        Path(name + ".out").write_text(out.getvalue(), encoding="utf-8")
"""
ENV = os.environ | {"NO_COLOR": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize("trial", [True, False], ids=["trial", "real"])
def test_everything_runs_in_processes_of_its_own(trial, tmp_path):
    works = {case: do(case, tmp_path / case, trial=trial, report=True) for case in CASES}
    folders = [work.unpacked for work in works.values()]
    subprocess.run([sys.executable, "-c", RUN, *folders], check=True)
    for case, work in works.items():
        for name in ("script.out", "notebook.out"):
            require_numbers(work, (work.unpacked / name).read_text(encoding="utf-8"))
        for name in ("release.csv", "release.csv.json"):
            same = (work.table.parent / name).read_bytes()
            assert (work.unpacked / name).read_bytes() == same
            if trial:  # the commands make it once more
                (work.unpacked / name).unlink()
        if not trial and case not in ("embedded", "messy"):
            continue  # five processes each: as trials they are all typed
        before = (work.unpacked / "report.html").read_bytes()
        done = subprocess.run(
            ["bash", "commands.sh"], cwd=work.unpacked, capture_output=True, text=True, check=False,
            env=ENV,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (work.unpacked / "release.csv").read_bytes() == work.table.read_bytes()
        for name in work.plan.names:
            assert name in done.stdout
        assert len((work.unpacked / "report.html").read_bytes()) > len(before) / 2


def test_a_colleague_without_the_data_estimates(tmp_path, monkeypatch):
    work = do("messy", tmp_path, trial=False)
    (work.unpacked / "Über uns (1).csv").unlink()
    text = executed(cells(work), work.unpacked, monkeypatch)
    assert all(repr(float(x)) in text for x in work.estimate.estimate)
    assert (work.unpacked / "report.html").exists()
    done = subprocess.run(
        ["bash", "commands.sh"], cwd=work.unpacked, capture_output=True, text=True, check=False,
        env=ENV,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in work.plan.names)


def test_of_a_plan_alone_there_is_what_a_plan_has(tmp_path, monkeypatch):
    spec = CASES["messy"](tmp_path)
    names = save_along(tmp_path / "all.zip", Along(spec, Steps()))
    assert names == ["README.txt", "plan.toml", "commands.sh", "reproduce.py", "reproduce.ipynb"]
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        archive.extractall(tmp_path)
        assert stat.S_IMODE(archive.getinfo("commands.sh").external_attr >> 16) == 0o755
    script = (tmp_path / "reproduce.py").read_text(encoding="utf-8")
    text = executed([script], tmp_path, monkeypatch)
    found = make_plan(spec)
    assert all(repr(float(x)) in text for x in found.privacy_error)
    assert "# plan.release('release.csv')" in script
    readme = (tmp_path / "README.txt").read_text(encoding="utf-8")
    assert "nothing was spent" in readme
    assert all(f"  {name} " in readme for name in names[1:])


def test_nothing_private_is_taken_along(tmp_path):
    """No path, no key of the ledger; of a real release no reading, of a trial no table."""
    for trial in (True, False):
        folder = tmp_path / f"pytest-{trial}"
        work = do("messy", folder, trial=trial, report=not trial)
        (data,) = (folder / "private").iterdir()
        readings = {line.split(";")[2] for line in data.read_text("utf-8").splitlines()[1:]}
        readings |= {reading.replace(",", ".") for reading in readings}
        with zipfile.ZipFile(folder / "all.zip") as archive:
            names = archive.namelist()
            texts = {name: archive.read(name).decode() for name in names}
        assert ("release.csv" in names) is not trial
        assert ("ledger-entry.json" in names) is not trial
        for name, text in texts.items():
            assert str(tmp_path) not in text, name
            assert "pytest" not in text, name
            found = set(re.findall(r"\d+[.,]\d+", re.sub(r"base64,[^\"]*", "", text)))
            assert not readings & found, name
    entry = json.loads(texts["ledger-entry.json"])
    place = work.estimate.release.entry
    assert [(one["sequence"], one["hash"]) for one in entry["entries"]] == [
        (place.sequence, place.hash)
    ]
    with Ledger(folder / "results" / "led ger.db", create=False) as ledger:
        assert ledger._key().hex() not in "".join(texts.values())


def test_the_entry_of_a_ledger_that_is_not_there_makes_none(tmp_path):
    made = make_plan(CASES["embedded"](tmp_path))
    with Account(tmp_path / "own.db", "us") as account:
        found = release(made, tmp_path / "z.csv", account=account)
    with pytest.raises(LedgerError):
        ledger_entry(tmp_path / "gone.db", found)
    assert not (tmp_path / "gone.db").exists()


def test_of_several_columns_the_shell_asks_for_no_total(tmp_path):
    asked = Steps(total=True, at=({"age": 40.0},))
    assert "--total" in str(Along(CASES["mean"](tmp_path), asked).commands)
    several = str(Along(CASES["several"](tmp_path), asked).commands)
    assert "--total" not in several
    assert "--at" not in several


def test_the_table_of_a_trial_is_refused(tmp_path):
    spec = CASES["embedded"](tmp_path)
    with pytest.raises(InvalidInput, match="protects nothing"):
        save_along(tmp_path / "a.zip", Along(spec, Steps(seed=1)), table=tmp_path / "release.csv")
    assert not (tmp_path / "a.zip").exists()


HOSTILE = (
    "a\nimport os; os.system('touch hacked')\r\"\"\"'''$(touch hacked)`touch hacked`"
    "\x1b[31m\u2028\u202e\x7f"
)


def test_names_that_would_be_code_stay_names(tmp_path, monkeypatch):
    """In comments, strings, shells and Markdown: whatever a column is called."""
    folder = tmp_path / "x"
    folder.mkdir()
    spec = Spec(HOSTILE + ".csv", HOSTILE, ("age", HOSTILE + "2"), Privacy(2.0), Noise(0.3))
    for steps in (
        Steps(), Steps(made=True, subject=HOSTILE, ledger=HOSTILE, at=({HOSTILE: HOSTILE},)),
        Steps(made=True, seed=3, table=f"-{HOSTILE}.csv"),
    ):  # fmt: skip
        along = Along(spec, steps)
        assert load_text(along.plan, tmp_path) == replace(spec, data=str(tmp_path / spec.data))
        compile(along.script, "script", "exec")
        code = [line for line in along.script.splitlines() if not line.startswith("#")]
        assert "import os; os.system" not in [line.strip() for line in code]
        strange = set(along.script + along.shell + along.notebook) & set("\r\x1b\u2028\u202e\x7f")
        assert not strange
        # A shell sees comments and privest alone: a stand-in writes down what it was given.
        done = subprocess.run(
            ["bash", "-c", "privest() { printf '%s\\0' \"$@\"; }\n" + along.shell], cwd=folder,
            capture_output=True, check=True,
        )  # fmt: skip
        assert not done.stderr
        assert os.listdir(folder) == []
        words = done.stdout.decode().split("\0")
        alone = steps.made and steps.seed is None  # a colleague, without the data
        assert words[:2] == (["estimate", "release.csv"] if alone else ["plan", "plan.toml"])
        if steps.at:
            (row,) = rows_given([words[words.index("--at") + 1]]).values()
            assert row == {HOSTILE: HOSTILE}
        if steps.seed is not None:
            assert f"./-{HOSTILE}.csv" in words


def load_text(text, folder):
    (folder / "p.toml").write_text(text, encoding="utf-8")
    return load_spec(folder / "p.toml")


def test_the_notebook_is_one(tmp_path):
    """The rules of nbformat 4.5 that matter to a reader."""
    record = json.loads(Along(CASES["embedded"](tmp_path), Steps(made=True, seed=2)).notebook)
    assert (record["nbformat"], record["nbformat_minor"]) == (4, 5)
    assert record["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in record["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in ids)
    for cell in record["cells"]:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        assert all(line.endswith("\n") for line in cell["source"][:-1])

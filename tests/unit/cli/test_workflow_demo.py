"""`privest demo`: what it prints can be typed, and gives the same again."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from workflow_command import runner

ENV = {
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "PYTHONIOENCODING": "utf-8",
    "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}
FILES = ["people.csv", "plan.toml", "reference.csv", "z.json"]


def shell(script, folder):
    return subprocess.run(
        ["bash", "-c", f"set -e\n{script}"],
        capture_output=True, text=True, check=True, env=ENV, cwd=folder,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    start = time.monotonic()
    done = shell("privest demo --simulate --out 'my demo'", folder)
    return folder, done.stdout, time.monotonic() - start


def test_it_is_quick_and_says_where_the_report_is(made):
    folder, text, seconds = made
    assert seconds < 30
    assert text.splitlines()[-1].endswith("my demo/report.html")
    assert sorted(os.listdir(folder / "my demo")) == sorted([*FILES, "report.html"])
    assert "The noise is simulated" in text
    typed = [line for line in text.splitlines() if line.startswith("$ ")]
    for line in text.splitlines():
        assert len(line) <= 80 or line in typed  # a command is one line, to be copied


@pytest.mark.slow
def test_the_commands_it_prints_do_it_again(made):
    folder, text, _ = made
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    assert [line.split()[1] for line in commands] == ["plan", "release", "estimate", "report"]
    page = folder / "my demo" / "report.html"
    names = ("z.json", "report.html")
    first = {name: (page.parent / name).read_bytes() for name in names}
    refused = subprocess.run(
        ["bash", "-c", commands[1]], capture_output=True, text=True, check=False, env=ENV,
        cwd=folder,
    )  # fmt: skip
    assert refused.returncode == 2  # what is released is not released again by a slip
    for name in names:
        (page.parent / name).unlink()
    again = shell("\n".join(commands), folder)
    assert (page.parent / "z.json").read_bytes() == first["z.json"]
    # The tables printed by the commands are those of the demo, line by line.
    for line in again.stdout.splitlines():
        assert line in text
    # `report` cannot know the seed, the demo can; all else is the same page.
    seed = b" <span>--seed</span> <span>1</span>"
    assert first["report.html"].count(seed) == 1
    assert page.read_bytes() == first["report.html"].replace(seed, b"")


def test_it_runs_twice_but_takes_nothing_away_from_others(made, tmp_path, capsys, monkeypatch):
    privest = runner(capsys, monkeypatch)
    folder, _, _ = made
    estimates = []
    for _ in range(2):
        document = json.loads((folder / "my demo" / "z.json").read_text())
        estimates.append(document["sums"][0]["estimate"])
        assert privest("demo", "--simulate", "--out", folder / "my demo").code == 0
    # The last digits of a solve depend on where its arrays lie.
    assert estimates[1] == pytest.approx(estimates[0], rel=1e-9)
    for name in ("people.csv", "plan.toml", "report.html"):
        mine = tmp_path / name.split(".")[0]
        mine.mkdir()
        (mine / name).write_text("mine")
        done = privest("demo", "--out", mine)
        assert done.code == 2
        assert "was not made by the demo" in " ".join(done.err.split())
        assert os.listdir(mine) == [name]
        assert (mine / name).read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    done = privest("demo", "--out", tmp_path / "file")
    assert done.code == 2
    assert "--out" in done.err


def test_the_real_one(tmp_path, capsys, monkeypatch):
    """It releases for real, is charged, and runs again; typed again its release is refused."""
    privest = runner(capsys, monkeypatch)
    folder, tables = tmp_path / "demo", []
    for _ in range(2):
        done = privest("demo", "--out", folder)
        assert done.code == 0, done.err
        text = " ".join(done.out.split())
        assert "nothing of its budget is left" in text
        assert "simulated" not in text
        assert sorted(os.listdir(folder)) == sorted([*FILES, "privest-ledger.db", "report.html"])
        tables.append((folder / "z.json").read_bytes())
    assert tables[0] != tables[1]
    (folder / "z.json").unlink()
    done = privest("release", folder / "plan.toml", "--output", folder / "z.json")
    assert done.code == 2
    assert "was released on" in done.err
    shutil.rmtree(folder)  # make clean
    assert privest("demo", "--out", folder).code == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "the noise is exact and from the operating system" in " ".join(page.split())
    assert "simulated" not in page

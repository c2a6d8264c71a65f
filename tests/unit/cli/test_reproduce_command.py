"""`privest reproduce`: tables, points, pictures."""

import json
import os
import subprocess
import sys

import pytest
import typer

from privest import cli
from privest.cli import reproduce as commands
from privest.errors import InvalidInput
from privest.paper import _fig4

ENV = {
    "COLUMNS": "120",
    "NO_COLOR": "1",
    "PATH": "",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}


def reproduce(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from privest.cli import main; main()", "reproduce", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=ENV,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fig1")
    arguments = ["--quick", "--trials", "60", "--workers", "1"]
    files = ["--json", str(folder / "deep" / "p.json"), "--png", str(folder / "p.png")]
    return folder, reproduce("fig1", *arguments, *files), reproduce("fig1", *arguments)


def test_the_files(made):
    folder, done, _ = made
    assert done.returncode == 0, done.stderr
    points = json.loads((folder / "deep" / "p.json").read_text())
    assert len(points) == 7 * 8
    assert set(points[0]) == {
        "mechanism", "label", "s", "mse", "standard_error", "median", "bound", "trials",
        "worst_information_over_s",
    }  # fmt: skip
    assert {p["trials"] for p in points} == {60}
    assert all(p["mse"] > 0.3 * p["bound"] for p in points)
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_what_it_prints(made):
    _, done, again = made
    for words in ("Gaussian, least squares", "private bound", "levels 8"):
        assert words in done.stdout
    assert again.stdout == done.stdout  # nothing was drawn again: same numbers


def test_help_and_errors():
    assert "fig1" in reproduce("--help").stdout
    refused = reproduce("fig1", "--trials", "1")
    assert refused.returncode == 2


def test_the_fourth_figure(tmp_path):
    arguments = ["--quick", "--trials", "40", "--workers", "1", "--json", str(tmp_path / "p.json")]
    done = reproduce("fig4", "--png", str(tmp_path / "p.png"), *arguments)
    assert done.returncode == 0, done.stderr
    points = json.loads((tmp_path / "p.json").read_text())
    assert {p["trials"] for p in points} == {40}
    assert {p["method"] for p in points} == {
        "optimal", "likelihood", "averaging-gaussian", "averaging-laplace",
    }  # fmt: skip
    assert {p["count"] for p in points} == {10, 100, 1000}
    assert all(p["bound"] < p["floor"] <= p["predicted"] * (1 + 1e-9) for p in points)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    for words in ("does not exist", "floor of estimates", "Holds", "in the limit"):
        assert words in done.stdout
    cauchy = reproduce("fig4", "--noise", "cauchy", "--trials", "20", "--quick", "--workers", "1")
    assert "no mean" in cauchy.stdout


@pytest.mark.parametrize(
    ("arguments", "trials", "counts"),
    [(["--quick"], 300, [10, 100, 1000]), ([], None, None), (["--trials", "7"], 7, None)],
)
def test_how_many_trials_the_fourth_figure_has(monkeypatch, arguments, trials, counts):
    """A stated number; else 300 in short, and what `fig4` has by itself: 5000."""
    asked = []

    def figure(noise, counts, *, trials=None, **rest):
        asked.extend([trials, counts])
        raise InvalidInput("enough")

    monkeypatch.setattr(commands, "fig4", figure)
    monkeypatch.setattr("sys.argv", ["privest", "reproduce", "fig4", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    assert asked == [trials, counts]
    assert _fig4.TRIALS == 5000


def test_refusals_come_before_the_work(tmp_path):
    for arguments in (["--png", "x.txt"], ["--json", str(tmp_path)], ["--noise", "gauss"]):
        refused = reproduce("fig4", *arguments)
        assert refused.returncode != 0
        assert "Traceback" not in refused.stderr


def test_stopped_it_ends_without_a_traceback(capsys):
    with pytest.raises(typer.Exit) as stopped, commands.progress_bar():
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130
    assert "Stopped" in capsys.readouterr().err

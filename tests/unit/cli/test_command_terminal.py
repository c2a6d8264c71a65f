"""Names that steer a terminal, or that rich takes for markup: shown, never obeyed."""

import json
import re
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import privest
from privest.report.sections import printable
from workflow_command import runner

HOSTILE = [
    "[/][bold]x[/bold][link=http:x]y[/link]:smile:\\[h",
    "a\x1b[31mred\x07bell\x9b2J\u202egnirts\u2066f\u2069$\\x^2$</td><b>",
]
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def privest_command(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Two columns with a hostile name each, and another as the target."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)

    def made(name):
        import csv

        with open("t.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([name, f"{name}2", "x"])
            writer.writerows(rng.normal(size=(30, 3)).tolist())
        return tmp_path / "t.csv"

    return made


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_through_the_workflow(privest_command, table, tmp_path, name):
    table(name)
    more = ("--features", f"{name}2,x", "--residual-variance", 1, "--level", 2)
    runs = [
        (
            "plan",
            "t.csv",
            "--form",
            "rows",
            "--target",
            name,
            *more,
            "--save",
            "p.toml",
            "--want",
            f"{name}2=0.1",
        ),
        ("release", "p.toml", "-o", "z.csv"),
        ("estimate", "z.csv"),
        ("estimate", "z.csv", "--json"),
        ("report", "p.toml", "z.csv", "-o", "r.html"),
        ("plan", "t.csv", "--form", "rows", "--target", name, *more, "--json"),
        ("bound", "--h", "t.csv", "--noise-variance", 1, "--level", 1),
        ("bound", "--h", "t.csv", "--noise-variance", 1, "--level", 1, "--json"),
        ("stream", "t.csv", "--target", "x", "--residual-variance", 1, "--level", 2, "--block", 30),
        ("plan", "t.csv", "--form", "rows", "--target", f"{name}3", *more),
        ("plan", f"{name}.csv", "--form", "rows", "--target", name, *more),
        ("estimate", name, name),
    ]
    for arguments in runs:
        done = privest_command(*arguments)
        assert done.code == (2 if arguments in runs[-3:] else 0), (arguments, done)
        shown = done.out if arguments[0] != "stream" else ""  # lines of data, as they are
        assert not CONTROLS.search(shown + done.err), arguments
        if arguments in (runs[0], runs[2], runs[-3]):  # not taken as markup either
            whole = "".join((done.out + done.err).split()).replace("│", "").replace("\\\\", "\\")
            assert printable(name) in whole, arguments
            assert arguments != runs[0] or "rowsliketheseareneeded" in whole  # nothing is cut
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not CONTROLS.search(page)
    assert printable(name) in unescape(re.sub(r"<[^>]*>", "", page))
    found = json.loads(privest_command(*runs[3]).out)
    assert found["names"][1] == f"{name}2"  # spelled so that it reads back


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_in_a_figure(privest_command, table, tmp_path, name):
    """matplotlib takes $ for mathematics, and fails on what is none."""
    table(name)
    done = privest_command("stream", "t.csv", "--target", "x", "--residual-variance", 1,
                           "--level", 2, "--png", "f.png", "--output", "e.csv")  # fmt: skip
    assert done.code == 0, done.err
    assert (tmp_path / "f.png").stat().st_size > 0


def test_only_one_place_makes_consoles_and_texts():
    """Others would obey what they are given."""
    for file in (Path(privest.__file__).parent / "cli").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name != "console.py":
            assert not re.search(r"\b(Console|Text)\(|^ *print\(", text, re.MULTILINE), file.name


def test_what_is_printable():
    assert printable("größe [kg/m²] \u00a0θ\nη") == "größe [kg/m²] \u00a0θ\nη"
    assert printable("می\u200cخواهم") == "می\u200cخواهم"  # a joiner is part of the word
    assert printable("\x1b\r\u2028\ud800") == "\\x1b\\r\\u2028\\ud800"


LOADING = """
import sys
from privest_command import main
print("started", flush=True)
sys.argv = ["privest", "bound", "--help"]
main()
"""


def test_ctrl_c_while_it_loads_is_no_traceback():
    """Whenever it comes: the first second is imports."""
    for wait in np.linspace(0, 0.9, 5):
        with subprocess.Popen(
            [sys.executable, "-c", LOADING],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout.readline() == "started\n"
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        # While Python itself ends, nobody handles signals any more: the shell says 130 too.
        assert process.returncode in (0, 130, -signal.SIGINT), (wait, err)
        # An interrupt in a callback of Python's own import lock is swallowed there, and told.
        own = r"Exception ignored in: <function _get_module_lock.*\n(.*\n)*?KeyboardInterrupt: *\n"
        assert "Traceback" not in re.sub(own, "", err)

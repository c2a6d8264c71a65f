"""`privest stream` on files as they are: other separators, decimal commas, other alphabets."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from privest.data import Format
from privest.data.lines import csv_records, open_lines
from workflow_command import runner

ROWS = [("time", "Wärme", "y")] + [
    (f"2024-01-01T{k:02}:00", f"{k}.5", f"{0.25 * (k * k % 7)}") for k in range(12)
]
TRIAL = ("--level", 4, "--intercept", "--simulate", "--seed", 1, "--block", 12)


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("plain.csv").write_text(written(","), encoding="utf-8")
    return runner(capsys, monkeypatch)


def written(separator, decimal="."):
    rows = [ROWS[0]] + [
        (when, *(cell.replace(".", decimal) for cell in own)) for when, *own in ROWS[1:]
    ]
    return "".join(separator.join(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "separator", "decimal", "encoding", "options"),
    [
        ("s.csv", ";", ",", "utf-8", ("--format", "decimal=,")),
        ("s.csv", ";", ",", "cp1252", ("--format", "decimal=comma", "--format", "encoding=cp1252")),
        ("s.csv", ";", ",", "utf-16", ("--format", "separator=;", "--format", "decimal=,")),
        ("s.csv", "|", ".", "utf-8-sig", ()),
        ("s.tsv", "\t", ".", "utf-8", ()),
        ("s.csv", "\t", ".", "utf-8", ("--format", "separator=tab")),
    ],
)
def test_the_same_numbers_however_they_are_written(
    privest, name, separator, decimal, encoding, options
):
    expected = privest("stream", "plain.csv", *TRIAL)
    assert expected.code == 0, expected.err
    assert "Wärme" in expected.out
    text = written(separator, decimal)
    Path(name).write_text(text, encoding=encoding)
    done = privest("stream", name, *TRIAL, *options)
    assert (done.code, done.out) == (0, expected.out), done.err
    Path(f"{name}.gz").write_bytes(gzip.compress(text.encode(encoding)))
    assert privest("stream", f"{name}.gz", *TRIAL, *options).out == expected.out


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        (
            written(";"),
            ("--format", "separator=,"),
            "state the `separator`",
        ),
        (
            written(";"),
            ("--format", "decimal=,"),
            "line 2: 'Wärme' is not a number",
        ),  # 0.5 is none there
        (written(";", ","), (), "line 2: 'Wärme' is not a number"),
        (written(","), ("--format", "decimal=,", "--format", "separator=,"), "cannot be both"),
        (written(","), ("--format", "encoding=morse"), "no encoding known here"),
        (written(","), ("--format", "encoding=utf-16"), "is not UTF-16"),
    ],
)
def test_what_is_wrong_is_said(privest, text, options, why):
    Path("s.csv").write_text(text, encoding="utf-8")
    done = privest("stream", "s.csv", *TRIAL, *options)
    assert done.code == 2
    assert why in " ".join(done.err.split())


def test_a_separator_is_told_by_the_first_line():
    def endless(first):
        yield first
        raise AssertionError("the second line was waited for")

    assert csv_records(endless("x,y\n"))[1] == ["x", "y"]
    assert csv_records(endless("x;y;z, in euro\n"))[1] == ["x", "y", "z, in euro"]
    assert csv_records(iter(["\n", "a,b;c\n", "1,2\n"]))[1] == ["a", "b;c"]
    assert csv_records(iter([]))[1] is None


def test_other_alphabets_come_line_by_line(monkeypatch):
    """A live sensor: the first line is there before the second was written."""
    ends = os.pipe()
    read = io.TextIOWrapper(io.BufferedReader(io.FileIO(ends[0])))
    monkeypatch.setattr(sys, "stdin", read)
    first, write = threading.Event(), os.fdopen(ends[1], "wb", buffering=0)

    def sensor():
        write.write("Wärme;y\n".encode("utf-16-le"))
        first.wait(10)
        write.write("1;2\n".encode("utf-16-le"))
        write.close()

    thread = threading.Thread(target=sensor)
    thread.start()
    with open_lines("-", format=Format(encoding="utf-16-le")) as lines:
        assert next(lines) == "Wärme;y\n"
        first.set()
        assert list(lines) == ["1;2\n"]
    thread.join()
    read.close()

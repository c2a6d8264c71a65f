"""`privest` in this process, as a shell would call it: exit code, what it printed, no traceback."""

import contextlib
import functools
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from unittest import mock

import typer.main

from privest.cli import main

typer.main.get_command = functools.cache(typer.main.get_command)  # 0.1 s a call else


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def called(*arguments, text=None, columns=200):
    """The same with what a process of its own gives back; `text` is its standard input.

    A process takes a second to import everything, this nothing.
    """
    given = io.TextIOWrapper(io.BytesIO((text or "").encode()), encoding="utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    wide = {"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns), "NO_COLOR": "1"}
    code = 0
    with (
        mock.patch.object(sys, "argv", ["privest", *map(str, arguments)]),
        mock.patch.object(sys.modules["__main__"], "__package__", None),  # not "python -m pytest"
        mock.patch.object(sys, "stdin", given),
        mock.patch.dict(os.environ, wide),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
        finally:
            printed = []
            for stream in (out, err):
                stream.flush()
                printed.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(arguments, code, *printed)


def runner(capsys, monkeypatch):
    """A function that runs a command; 80 columns, no colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["privest", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run

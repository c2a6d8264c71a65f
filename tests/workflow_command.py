"""`privest` in this process, as a shell would call it: exit code, what it printed, no traceback."""

import sys
from dataclasses import dataclass

from privest.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


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

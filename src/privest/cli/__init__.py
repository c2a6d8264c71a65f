"""The command line. Thin: it reads files, calls the library and prints; no formulas."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `privest` command: exit code 2 and one message for bad input."""
    try:
        from privest.cli.app import run
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        sys.exit('privest: the command line needs two more packages: pip install "privest[cli]"')
    run()

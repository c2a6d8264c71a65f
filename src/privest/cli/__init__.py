"""The command line: it reads options and files, calls the library and prints; no formulas.

app.py      which commands there are; each module is loaded when its command is called
options.py  options that commands share; console.py: how they print
"""

from __future__ import annotations

import gc
import io
import sys
import warnings
from importlib.machinery import ModuleSpec


class NotNeeded:
    """Packages that no command uses are not loaded: they take a third of a second.

    Arrow looks for pandas, and does without it; SciPy imports NumPy's Fortran tools.
    """

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
        empty = ModuleSpec(fullname, None, is_package=True)
        return empty if fullname == "numpy.f2py" else None


def main() -> None:
    """Entry point of the `privest` command: exit code 2 and one message for bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show θ is no reason to fail.
            stream.reconfigure(errors="replace")
    warnings.formatwarning = lambda message, *_: f"privest: {message}\n"
    gc.set_threshold(100_000)  # what is imported stays: nothing to collect there
    sys.meta_path.insert(0, finder := NotNeeded())
    try:
        from privest.cli.app import run

        run()
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(
            "privest: the command line needs typer and rich: install the extra 'cli', "
            'for example with pip install "privest[cli]"'
        )
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        sys.meta_path.remove(finder)

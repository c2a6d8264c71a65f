"""`import privest` against `import numpy`, each in a fresh interpreter."""

import subprocess
import sys

from benchmarks.timing import compare


def _importing(module):
    def run():
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    return run


def rows():
    yield compare(
        "import privest (fresh interpreter)",
        _importing("privest"),
        "import numpy",
        _importing("numpy"),
        limit=2,
        repeats=15,
    )

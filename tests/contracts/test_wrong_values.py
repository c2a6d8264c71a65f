"""Every public call with a wrong argument answers, or raises a documented error, and ends.

`wrong_calls.py` has a valid call of each name; here it runs in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "wrong_calls.py"


def undocumented(*asked):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *asked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *found, count = done.stdout.splitlines()
    assert " calls of " in count
    return found


def test_wrong_values_in_turn():
    assert undocumented() == []


@pytest.mark.slow
def test_all_wrong_values():
    assert undocumented("full") == []

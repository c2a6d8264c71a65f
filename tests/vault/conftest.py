"""Ledgers of tests are in memory where there is such a folder: each entry waits for its disk twice,
and no test here needs the disk. What is tested are the calls, not the hardware.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path(tmp_path):
    if "EMULATE" in os.environ or not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="privest-ledger-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder)

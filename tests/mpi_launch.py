"""mpiexec for tests: where it is, and a clean environment to start it in."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

BESIDE = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
MPIEXEC = shutil.which("mpiexec", path=BESIDE)

needs_mpi = [
    pytest.mark.skipif(
        importlib.util.find_spec("mpi4py") is None, reason="needs the extra 'mpi': mpi4py"
    ),
    pytest.mark.skipif(MPIEXEC is None, reason="needs the extra 'mpi': no mpiexec"),
]


def launched(agents, script, *arguments, options=(), folder=None):
    """Run a script in `agents` processes: the finished process, and the seconds it took."""
    # This process may itself be an MPI process of one: its children must not think they are in it.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "HYD", "MPI"))}
    start = time.monotonic()
    done = subprocess.run(
        [MPIEXEC, *options, "-n", str(agents), sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        env=clean | {"OPENBLAS_NUM_THREADS": "1"},
    )
    return done, time.monotonic() - start

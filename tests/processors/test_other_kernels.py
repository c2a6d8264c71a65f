"""Releases that one kind of processor wrote are understood by others, in processes of their own.

Core types of OpenBLAS stand in for processors (`processor_kinds`).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import privest as pv
from processor_kinds import CORES, neighbours, runnable, without_features
from processor_work import refused

TESTS = Path(__file__).parents[1]
WORK, GOLDEN = TESTS / "processor_work.py", TESTS / "golden" / "any-processor"
RUNNABLE = runnable()
OTHERS = [core for core in ("Nehalem", "Prescott", "SkylakeX") if core in RUNNABLE]


def work(task, folder, **kernels):
    env = {name: value for name, value in os.environ.items() if name not in KERNELS} | kernels
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", WORK, task, folder],
        env=env | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


KERNELS = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")


@pytest.mark.skipif(not {"Haswell", *OTHERS} <= set(RUNNABLE), reason="no core types to choose")
def test_releases_of_one_processor_hold_on_others(tmp_path):
    """Before, 1 to 4 of about 50 were refused; these are at ε at which the last bits differ."""
    work("write", tmp_path / "made", OPENBLAS_CORETYPE="Haswell")
    kinds = [{"OPENBLAS_CORETYPE": core} for core in OTHERS[:2]]
    oldest = without_features().get("no AVX2")
    if oldest is not None:
        kinds.append({"NPY_DISABLE_CPU_FEATURES": oldest} | kinds.pop())
    if "SkylakeX" in OTHERS:
        kinds.append({"OPENBLAS_CORETYPE": "SkylakeX"})
    for kernels in kinds:
        assert json.loads(work("check", tmp_path / "made", **kernels)) == [], kernels


def test_golden_releases_hold_on_this_processor(tmp_path):
    """And on those of `make processors`."""
    shutil.copytree(GOLDEN, tmp_path / "made")
    (tmp_path / "made" / "ledger.db").chmod(0o600)  # git does not keep this
    with pv.Ledger(tmp_path / "made" / "ledger.db", marks=tmp_path / "made" / "marks") as ledger:
        ledger.adopt()
    assert refused(tmp_path / "made") == []


FLAGS = {"old": "pni sse4_2", "middle": "pni sse4_2 avx avx2 fma", "new": "pni " + " ".join(
    sorted(set().union(*CORES.values())))}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "ours", "expected"),
    [
        ("old", "Nehalem", ["Prescott"]),
        ("middle", "Haswell", ["Nehalem", "Sandybridge"]),
        ("middle", "Zen", ["Nehalem", "Sandybridge"]),
        ("new", "Haswell", ["Sandybridge", "SkylakeX"]),
        ("new", "SkylakeX", ["Sandybridge", "Haswell"]),
        ("new", "Cooperlake", ["Haswell", "SkylakeX"]),
        ("new", "Prescott", ["Nehalem"]),
        ("middle", "Excavator", ["Sandybridge", "Haswell"]),
    ],
)
def test_no_core_type_is_offered_whose_instructions_are_not_there(
    flags, ours, expected, tmp_path, monkeypatch
):
    (tmp_path / "cpuinfo").write_text(f"model name : any\nflags : {FLAGS[flags]}\n")
    monkeypatch.setattr("processor_kinds.CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("processor_kinds.threadpool_info", lambda: [{"architecture": ours}])
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert neighbours() == expected
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert neighbours() == []

"""Documents that one processor writes are verified by every other: none is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import processor_kinds

SCRIPT = Path(__file__).parents[1] / "verified_vault.py"
CORES = processor_kinds.runnable()


def called(*words, **more):
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    environment = os.environ | more
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=900, env=environment
    ).stdout


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents") / "made"
    called("make", folder, 24)
    return folder


def test_documents_of_many_promises_are_verified(documents):
    assert json.loads(called("check", documents)) == []
    assert len(list(documents.glob("*.json"))) == 24


@pytest.mark.skipif(len(CORES) < 2, reason="one kind of processor")
def test_other_processors_verify_them(documents):
    core = next(core for core in CORES if core != processor_kinds.own())
    assert json.loads(called("check", documents, OPENBLAS_CORETYPE=core)) == []


@pytest.mark.processes
def test_two_hundred_documents_under_every_kernel(tmp_path):
    called("make", tmp_path / "made", 200)
    for core in CORES:
        assert json.loads(called("check", tmp_path / "made", OPENBLAS_CORETYPE=core)) == []

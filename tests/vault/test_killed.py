"""Runs that are killed at every step of the door, and races: charged once, the same integers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "killed_vault.py"


def faults(task, folder, count):
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    command = [sys.executable, str(SCRIPT), task, str(folder), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    return json.loads(done.stdout), done.stderr


def test_what_a_kill_leaves_is_finished_by_the_next_run(tmp_path):
    assert faults("kills", tmp_path, 2) == ([], "")


def test_six_processes_make_one_release(tmp_path):
    assert faults("races", tmp_path, 5) == ([], "")


@pytest.mark.processes
def test_kills_at_every_time_of_every_step(tmp_path):
    assert faults("kills", tmp_path, 8) == ([], "")


@pytest.mark.processes
def test_two_hundred_races(tmp_path):
    assert faults("races", tmp_path, 200) == ([], "")

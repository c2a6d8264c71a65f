"""`privest audit` as a shell calls it: exit codes, and what is printed."""

import json

import pytest

from workflow_command import runner


@pytest.fixture
def privest(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


def test_a_claim_that_fails_is_exit_code_1(privest):
    done = privest("audit", "naive", "--samples", "1000", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert found["passed"] is False
    outcomes = {check["claim"]: check["outcome"] for check in found["checks"]}
    assert outcomes["one grid for all readings"] == "failed"
    assert outcomes["low digits tell nothing"] == "failed"
    assert found["impossible"] > 0.3
    assert "claims do not hold" in privest("audit", "naive", "--samples", "1000").out


@pytest.mark.parametrize("level", ["1e-21", "1e300"])
def test_levels_that_cannot_be_measured_are_refused(privest, level):
    """At 1e300 an honest release was called broken, at 1e-320 an error of NaN passed."""
    done = privest("audit", "gaussian", "--level", level)
    assert (done.code, done.out) == (2, "")
    assert "an audit measures levels from 1e-20 to 1e+20" in done.err

"""Files that this version wrote, kept for all later ones: they must stay readable.

`of-1.0/` holds a real aggregate release with its ledger, and a checkpoint of a real stream
that looks back, as `python tests/golden/test_upgrade.py` wrote them. Plans and row-level releases
of this version are in `kinds/` (`test_pipeline.py`). What is older is read, or refused with what to
do (`test_pipeline.py`, `test_ledgers.py`, `test_checkpoint.py`).
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import privest as pv

HERE = Path(__file__).parent / "of-1.0"
H = np.column_stack([np.ones(12), np.linspace(-1, 1, 12)])


def stream():
    level = pv.StreamLevel.constant(4.0, lags=[0.5])
    return pv.StreamMechanism(level), pv.PrivateRLS(level, parameters=2, noise=0.25)


def write():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 300)
    table = {"x": x.round(3), "y": (1 + 0.5 * x + rng.normal(0, 0.3, 300)).round(3)}
    HERE.mkdir()
    os.chdir(HERE)
    os.environ["PRIVEST_STATE_HOME"] = "/tmp/privest-of-1.0"
    asked = {"epsilon": 3.0, "range": (-1, 3), "publish": "matrix"}
    plan = pv.plan(table, "y ~ x", **asked)
    ledger = pv.Ledger("ledger.db")
    plan.release("release.json", account=ledger.account("people"))
    mechanism, rls = stream()
    with pv.Checkpoint("stream.ckpt", mechanism=mechanism, estimator=rls) as kept:
        kept.resume()
        for h, y in zip(H, H @ [1.0, 0.5] + rng.normal(0, 0.5, 12)):
            sent = mechanism.release(float(y))
            rls.update(sent, h[None])
            kept.save(pending=sent)
    facts = {
        "release": pv.estimate("release.json").value.tolist(),
        "stream": rls.estimate.value.tolist(),
        "pending": sent.values.tolist(),
    }
    Path("facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    Path("stream.ckpt.lock").unlink(missing_ok=True)


@pytest.fixture
def facts(tmp_path, monkeypatch):
    for name in HERE.iterdir():
        shutil.copy(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("ledger.db", "stream.ckpt"):  # git does not keep this
        (tmp_path / name).chmod(0o600)
    return json.loads((tmp_path / "facts.json").read_text())


def test_a_release_and_its_ledger(facts):
    with pv.Ledger("ledger.db") as ledger:
        ledger.adopt()
        assert ledger.account("people").spent
    assert pv.verify("release.json", ledger="ledger.db").verified
    np.testing.assert_allclose(pv.estimate("release.json").value, facts["release"], rtol=1e-12)


def test_a_checkpoint(facts):
    mechanism, rls = stream()
    with pv.Checkpoint("stream.ckpt", mechanism=mechanism, estimator=rls) as kept:
        assert kept.resume()
        assert mechanism.steps == rls.steps == 12
        assert kept.pending.values.tolist() == facts["pending"]
        np.testing.assert_allclose(rls.estimate.value, facts["stream"], rtol=1e-12)
        rls.update(mechanism.release(1.0), H[:1])  # and it goes on
        assert rls.steps == 13


if __name__ == "__main__":
    write()

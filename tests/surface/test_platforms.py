"""Other systems, emulated in a process of its own: what works there, and what is refused.

`make matrix` runs more of the suite on an emulated Windows.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIFFERS = r"\b(fcntl|msvcrt|O_NOFOLLOW|geteuid|getuid|fchmod|fork|os\.link|pread|pwrite|st_uid"
DIFFERS += r"|os\.chmod|umask|SIGHUP|sys\.platform|os\.name)\b"
BROWSER = """
import os, sys
sys.path.insert(0, "tests")
from emulated import emulate
emulate("browser")
sys.modules |= dict.fromkeys(["pyarrow", "pandas", "numba", "matplotlib", "typer"])

import numpy as np
import privest as pv

rng = np.random.default_rng(0)
model = pv.LinearModel(np.column_stack([np.ones(6), np.arange(6.0)]), noise=0.04)
print(pv.bound(model, 1.0).standard_error.round(3).tolist())
print(round(pv.PrivacyLevel(1.0).to_epsilon(delta=1e-6, sensitivity=5.0), 1))
table = {"age": rng.uniform(20, 80, 500)}
table["ldl"] = 2.0 + 0.02 * table["age"] + rng.normal(0, 0.6, 500)
plan = pv.plan(table, "ldl ~ age", epsilon=1.0, range=(0, 10))
print(pv.estimate(plan.simulate(rng=1)).names)
mechanism = pv.GaussianMechanism(1.0, measurements=6)
print(mechanism.simulate(np.zeros(6), rng=rng).shape)
for release in (
    lambda: mechanism.release(np.zeros(6)),
    lambda: plan.release("z.json", account=pv.Ledger("ledger.db").account("ldl")),
):
    try:
        release()
    except pv.errors.NotReleasable as refused:
        print("refused:", refused)
print(os.path.exists("ledger.db"), os.path.exists("z.json"))
"""


def test_what_differs_between_systems_is_in_one_module():
    sources = (ROOT / "src").rglob("*.py")
    using = {path.name for path in sources if re.search(DIFFERS, path.read_text("utf-8"))}
    # The vault imports nothing of privest but its errors; the upgrade goes with it.
    core = {"ledger.py", "mark.py", "upgrade.py"}
    assert using == {"files.py"} | core


def run(*command, **more):
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")} | more
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def test_a_browser_computes_and_simulates_and_refuses_releases():
    done = run("-c", BROWSER)
    assert done.returncode == 0, done.stderr
    *found, left = done.stdout.splitlines()
    assert found[:4] == ["[0.738, 0.244]", "35.6", "('intercept', 'age')", "(6,)"]
    assert len(set(found[4:])) == 1
    assert len(found[4:]) == 2
    assert found[4].startswith("refused: a release needs a disk that survives a crash")
    assert left == "False False"


ELSEWHERE = """
import os, pathlib, sys
sys.path.insert(0, "tests")
from emulated import emulate
emulate("windows")
import privest as pv
folder = pathlib.Path(sys.argv[1])
os.environ["HOME"] = str(folder / "me")
pv.Ledger(folder / "me" / "ledger.db").account("a", budget=1.0)
for elsewhere in (
    lambda: pv.Ledger(folder / "all" / "ledger.db"),
    lambda: pv.Checkpoint(folder / "stream.ckpt", estimator=pv.PrivateRLS(1.0, 1, 1.0)).save(),
):
    try:
        elsewhere()
    except pv.errors.PrivestError as refused:
        print(refused)
with pv.Checkpoint(folder / "me" / "stream.ckpt"):
    try:
        pv.Checkpoint(folder / "me" / "stream.ckpt")
    except pv.errors.CheckpointError as refused:
        print(refused)
"""


def test_private_files_on_an_emulated_windows_stay_in_the_users_folder(tmp_path):
    (tmp_path / "me").mkdir()
    done = run("-c", ELSEWHERE, tmp_path, PRIVEST_STATE_HOME=str(tmp_path / "me" / "marks"))
    assert done.returncode == 0, done.stderr
    ledger, checkpoint, second = done.stdout.splitlines()
    assert "all may be open to other users" in ledger
    assert "stream.ckpt may be open to other users" in checkpoint
    assert "is being written by another process" in second  # locks work there
    assert (tmp_path / "me" / "ledger.db").exists()
    assert not list(tmp_path.glob("all/*"))


def test_files_and_ledgers_on_an_emulated_windows():
    files = ["tests/unit/test_files.py", "tests/golden/test_ledgers.py"]
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, EMULATE="windows")
    assert done.returncode == 0, done.stdout[-3000:]

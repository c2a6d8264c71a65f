"""What the installed wheel does in an environment of its own: `.ci/matrix` runs this.

python installed_wheel.py alone    numpy and scipy only: bound, plan, release, estimate, and the
                                   command says which extra it needs
python installed_wheel.py app      with the extra: the app answers on this machine, and stops

Prints the name of each part that works.
"""

import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import numpy as np

import privest as pv
from app_process import AppProcess


def alone(folder):
    model = pv.LinearModel(np.ones((4, 1)), noise=1.0)
    assert pv.bound(model, 1.0).standard_error.round(3).tolist() == [0.707]  # √((1 + 1)/4)
    print("bound")
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(20, 80, 500)}
    table["ldl"] = 2.0 + 0.02 * table["age"] + rng.normal(0, 0.6, 500)
    plan = pv.plan(table, "ldl ~ age", epsilon=2.0, range=(0, 10))
    print("plan")
    with pv.Ledger(folder / "ledger.db") as ledger:
        plan.release(folder / "z.json", account=ledger.account("ldl", budget=10.0))
        assert ledger.account("ldl").spent.level > 0
    print("release")
    assert pv.estimate(folder / "z.json").names == ("intercept", "age")
    print("estimate")
    command = Path(sys.executable).with_name("privest")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "privest[cli]"' in done.stderr
    assert "Traceback" not in done.stderr
    print("hint")


def app(folder):
    started = AppProcess(folder)
    try:
        with urllib.request.urlopen(started.address, timeout=30) as page:
            assert page.status == 200
            assert b"privest" in page.read()
    finally:
        code = started.stop()
    assert code in (0, 130)
    print("app")


if __name__ == "__main__":
    assert "site-packages" in pv.__file__, pv.__file__
    with tempfile.TemporaryDirectory() as made:
        os.environ["PRIVEST_STATE_HOME"] = f"{made}/marks"
        inner = Path(made, "work")
        inner.mkdir()
        {"alone": alone, "app": app}[sys.argv[1]](inner)

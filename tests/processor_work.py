"""What one processor writes and another must understand: processor_work.py TASK FOLDER.

write   real releases of tables with their ledger, plans, and what a seed and a level give
golden  the same of three releases (`golden/any-processor` is of an AMD EPYC with AVX-512)
check   prints as JSON what was refused: [] is right
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest.errors import PrivestError
from privest.mechanism.source import seeded
from workflow_command import called
from workflow_tables import people, write

SEX = {"sex": ["female", "male"]}
ASKED = {"categories": SEX, "range": (-4, 6)}
# At these ε, μ was seen to differ between core types in its last bit.
EPSILONS = (0.109, 0.34, 0.717, 1.46, 1.656, 4.65)
PLANS = {f"sums {x}": ASKED | {"epsilon": x} for x in EPSILONS} | {
    "sums level": ASKED | {"level": 2.0},
    "sums accuracy": ASKED | {"residual_variance": 0.3, "standard_error": {"age": 0.005}},
    "rows level": ASKED | {"level": 2.0, "form": "rows"},
    **{
        f"rows {x}": ASKED | {"epsilon": x, "delta": 1e-6, "form": "rows", "residual_variance": 0.3}
        for x in EPSILONS[3:]
    },
}
GOLDEN = ("sums 1.46", "sums accuracy", "rows 1.656")


def planned(name, folder):
    return pv.plan(folder / "people.csv", "ldl ~ age + bmi + C(sex)", **PLANS[name])


def file_of(name, folder):
    return folder / f"{name.replace(' ', '-')}.{'csv' if name.startswith('rows') else 'json'}"


def computed(folder):
    """Numbers that must agree to rounding, and names of levels that must be the same."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((5, 5))
    singular = root[:, :2] @ root[:, :2].T
    regular = root @ root.T
    y = np.arange(20.0)
    levels = [
        pv.StreamLevel.constant(singular), pv.StreamLevel.constant(regular, lags=[0.5]),
        pv.StreamLevel([singular, 0 * singular, regular, regular]),
        pv.StreamLevel.from_epsilon(1.46, delta=1e-6, sensitivity=1.0),
    ]  # fmt: skip
    shown = [pv.StreamMechanism(one).simulate(y, seeded(1)).values.tolist() for one in levels]
    fits = [
        pv.estimate(planned(name, folder).simulate(rng=1)).value.tolist()
        for name in ("sums 1.46", "rows 1.656")
    ]
    return {"names": [one.fingerprint for one in levels], "numbers": [*shown, *fits]}


def make(folder, names):
    folder.mkdir(parents=True)
    os.chdir(folder)
    folder = Path()  # plans name the table by the path that they were given
    write(people(300), folder / "people.csv")
    with pv.Ledger(folder / "ledger.db", marks=folder / "marks") as ledger:
        for name in names:
            plan = planned(name, folder)
            plan.save(folder / f"{name.replace(' ', '-')}.toml")
            plan.release(file_of(name, folder), account=ledger.account(name), again=True)
    (folder / "computed.json").write_text(json.dumps(computed(folder)))


def refused(folder):
    found, names = [], [name for name in PLANS if file_of(name, folder).exists()]
    with pv.Ledger(folder / "ledger.db", marks=folder / "marks") as ledger:
        for name in names:
            try:
                assert pv.verify(file_of(name, folder), ledger).verified
                pv.estimate(file_of(name, folder))
            except PrivestError as error:
                found.append(f"{name}: {error}")
    for name in GOLDEN:
        plan, page = folder / f"{name.replace(' ', '-')}.toml", folder / "page.html"
        done = called("report", plan, file_of(name, folder), "--output", page, "--overwrite")
        if done.returncode:
            found.append(f"report of {name}: {done.stderr}")
    here, there = computed(folder), json.loads((folder / "computed.json").read_text())
    if here["names"] != there["names"]:
        found.append("names of levels differ")
    for one, other in zip(here["numbers"], there["numbers"], strict=True):
        # Estimates are to 1e-7 of their errors where a search ends; sums of ≤ 25 terms to 1e-14.
        if not np.allclose(one, other, rtol=1e-7, atol=1e-9):
            found.append(f"a simulation differs: {one[:5]} {other[:5]}")
    return found


if __name__ == "__main__":
    task, place = sys.argv[1], Path(sys.argv[2]).resolve()
    if task == "check":
        print(json.dumps(refused(place)))
    else:
        make(place, PLANS if task == "write" else GOLDEN)

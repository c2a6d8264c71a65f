"""The workflow on a CSV file of a million rows, each step against pandas reading the file once."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import compare
from privest.data import write_table
from privest.workflow import (
    Noise,
    Privacy,
    Spec,
    estimate_release,
    make_plan,
    simulate_release,
    stated_terms,
)

ROWS = 1_000_000
BLOCK = 100_000
NAMES = ("age", "bmi", "bp", "hdl", "ldl")


def _table(path):
    rng = np.random.default_rng(0)

    def blocks():
        for _ in range(0, ROWS, BLOCK):
            X = rng.normal([50, 27, 120, 55], [15, 4, 20, 12], (BLOCK, 4))
            X = X.round(1)
            y = X @ [0.1, 0.5, 0.2, -0.3] + 10 * rng.standard_normal(len(X))
            yield [*X.T, y.round(4)]

    write_table(path, NAMES, blocks())


def _spec(path):
    return Spec(str(path), "ldl", NAMES[:-1], Noise(100.0), Privacy(0.05))


def rows():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "people.csv"
        _table(data)
        plan, number = make_plan(_spec(data)), itertools.count()

        def release(planned, ending="csv"):
            table = folder / f"z{next(number)}.{ending}"
            simulate_release(planned(), table, np.random.default_rng(0))
            return table

        def planning():
            return make_plan(_spec(data))

        def stated():
            return stated_terms(_spec(data))

        table = release(planning)
        steps = {
            "plan": planning,
            "simulated release": lambda: release(lambda: plan),
            # As the command does it where the level is stated: one pass over the file.
            "simulated release from the plan file": lambda: release(stated),
            # Where the level is that of a wanted accuracy, or the noise is seeded: two passes.
            "plan and simulated release": lambda: release(planning),
            "estimate from the release": lambda: estimate_release(table),
        }
        for step, work in steps.items():
            read = table if step.startswith("estimate") else data
            yield compare(
                f"workflow: {step}, {ROWS:,} rows",
                work,
                "pandas.read_csv of its input",
                lambda read=read: pd.read_csv(read),
                limit=None if " and " in step else 5,  # two steps in one: for information
                repeats=5,
            )

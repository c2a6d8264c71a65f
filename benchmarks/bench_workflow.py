"""The workflow on a CSV file of a million rows, each step against pandas doing as much with it.

A step that reads: pandas reading its input once. A release reads a table and writes one: pandas
reading its input and writing the table of the release, which is what one would do by hand.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import privest as pv
from benchmarks.timing import compare, report
from privest.data.writer import write_table
from privest.workflow.plan import stated_plan

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


def _plan(path):
    return pv.plan(path, target="ldl", features=NAMES[:4], level=0.05, form="rows")


def rows():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "people.csv"
        _table(data)
        plan, number = _plan(data), itertools.count()

        def release(planned, ending="csv"):
            table = folder / f"z{next(number)}.{ending}"
            planned().simulate(table, rng=np.random.default_rng(0))
            return table

        def planning():
            return _plan(data)

        def stated():  # as the command does it where the level is stated: the table is not read
            return stated_plan(plan.spec)

        table = release(planning)
        reads = {
            "plan": (planning, data, 3),
            "estimate, Student's t": (lambda: pv.estimate(table, cov_type="t"), table, 3),
            "estimate, HC3": (lambda: pv.estimate(table, cov_type="HC3"), table, 6),
        }
        writes = {
            "simulated release": lambda: release(lambda: plan),
            "simulated release from the plan file": lambda: release(stated),
            # Where the level is that of a wanted accuracy: two passes.
            "plan and simulated release": lambda: release(planning),
        }
        for step, (work, path, limit) in reads.items():
            yield compare(
                f"workflow: {step}, {ROWS:,} rows",
                work,
                "pandas.read_csv of its input",
                lambda path=path: pd.read_csv(path),
                limit=limit,
                repeats=5,
            )
        frame = pd.read_csv(table)

        def by_hand():
            pd.read_csv(data)
            frame.to_csv(folder / "by-hand.csv", index=False)

        def charged():
            k = next(number)
            with pv.Ledger(folder / f"ledger{k}.db", marks=folder / "marks") as ledger:
                stated().release(folder / f"z{k}.csv", account=ledger.account("ldl"))

        yield compare(
            f"workflow: release from the plan file, with a ledger, {ROWS:,} rows",
            charged,
            "the simulated one",
            lambda: release(stated),
            limit=1.5,
            repeats=5,
        )
        for step, work in writes.items():
            yield compare(
                f"workflow: {step}, {ROWS:,} rows",
                work,
                "pandas.read_csv of its input and to_csv of its output",
                by_hand,
                limit=1,
                repeats=3,
            )


if __name__ == "__main__":
    report(rows())

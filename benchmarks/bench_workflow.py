"""The workflow on a CSV file of a million rows, each step against pandas doing as much with it.

A step that reads: pandas reading its input once. A release reads a table and writes one: pandas
reading its input and writing the table of the release, which is what one would do by hand.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import compare, report
from privest.data import write_table
from privest.ledger import Ledger
from privest.workflow import (
    Account,
    People,
    Privacy,
    Spec,
    estimate_release,
    make_plan,
    simulate_release,
    stated_terms,
)
from privest.workflow import release as real_release

ROWS = 1_000_000
BLOCK = 100_000
NAMES = ("age", "bmi", "bp", "hdl", "ldl", "person")
VISITS = 4  # rows of a person


def _table(path):
    rng = np.random.default_rng(0)

    def blocks():
        for first in range(0, ROWS, BLOCK):
            X = rng.normal([50, 27, 120, 55], [15, 4, 20, 12], (BLOCK, 4))
            X = X.round(1)
            y = X @ [0.1, 0.5, 0.2, -0.3] + 10 * rng.standard_normal(len(X))
            yield [*X.T, y.round(4), np.arange(first, first + BLOCK) // VISITS]

    write_table(path, NAMES, blocks())


def _spec(path, **more):
    return Spec(str(path), "ldl", NAMES[:4], privacy=Privacy(0.05), **more)


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

        def of_persons():
            return make_plan(_spec(data, person=People("person")))

        table, persons = release(planning), release(of_persons)
        reads = {
            "plan": (planning, data, 3),
            "plan, persons": (of_persons, data, 6),
            "estimate, Student's t": (lambda: estimate_release(table, "t"), table, 3),
            "estimate, HC3": (lambda: estimate_release(table, "HC3"), table, 6),
            "estimate, persons (CR2)": (lambda: estimate_release(persons), persons, 6),
        }
        writes = {
            "simulated release": lambda: release(lambda: plan),
            # As the command does it where the level is stated: one pass over the file.
            "simulated release from the plan file": lambda: release(stated),
            # Where the level is that of a wanted accuracy, or the noise is seeded: two passes.
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
            with Ledger(folder / f"ledger{k}.db", marks=folder / "marks") as ledger:
                real_release(stated(), folder / f"z{k}.csv", account=Account(ledger, "ldl"))

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

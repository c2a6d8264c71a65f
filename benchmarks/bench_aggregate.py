"""The aggregate form on a million rows of ten features, each step against reading the file once."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import privest as pv
from benchmarks.timing import compare, report
from privest.workflow.plan import make_plan

ROWS, FEATURES = 1_000_000, [f"x{k}" for k in range(10)]


def _table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, len(FEATURES))).round(4)
    frame = pd.DataFrame(X, columns=FEATURES)
    frame["y"] = (X @ np.linspace(-0.3, 0.3, len(FEATURES)) + rng.standard_normal(ROWS)).round(4)
    return frame


def rows():
    with tempfile.TemporaryDirectory() as name:
        folder, frame, number = Path(name), _table(), itertools.count()
        frame.to_csv(folder / "people.csv", index=False)
        frame.to_parquet(folder / "people.parquet", index=False)
        for ending, read, limit in (("csv", pd.read_csv, 3.5), ("parquet", pd.read_parquet, None)):
            data = folder / f"people.{ending}"

            def planning(data=data):
                return pv.plan(
                    data, target="y", features=FEATURES, form="aggregate", epsilon=1.0,
                    range=(-5, 5),
                )  # fmt: skip

            plan = planning()

            def release(plan):
                plan.simulate(folder / f"z{next(number)}.json", rng=np.random.default_rng(0))

            steps = {
                "plan": (planning, limit),
                "release": (lambda plan=plan: release(plan), limit),
                "release from the plan file": (
                    lambda plan=plan: release(make_plan(plan.spec)),
                    None,
                ),
            }
            for step, (work, most) in steps.items():
                yield compare(
                    f"aggregate: {step}, {ROWS:,} rows of {ending}",
                    work,
                    f"pandas.{read.__name__}",
                    lambda read=read, data=data: read(data),
                    limit=most,
                    repeats=5,
                )


if __name__ == "__main__":
    report(rows())

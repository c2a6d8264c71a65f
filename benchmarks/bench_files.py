"""A million rows out of files and back, against pandas reading the same file.

pandas 3.1 parses CSV in several threads, so both sides have every core. What only reads has a
limit; what writes is for information: formatting a double takes longer than parsing it.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import compare
from privest.data import Features, open_source, read_rows, write_table

ROWS = 10**6
NUMBERS = Features(("a", "b", "c", "d", "e"))
MIXED = Features(("age", "sex", "bmi", "bp", "group"), {
    "sex": ("female", "male"), "group": ("p", "q", "r", "s"),
})  # fmt: skip


def numbers(rng):
    """Six columns of 17 digits, about 118 MB."""
    return pd.DataFrame(rng.standard_normal((ROWS, 6)), columns=[*NUMBERS.columns, "y"])


def mixed(rng):
    """Two columns of categories, four of short numbers, about 30 MB."""
    return pd.DataFrame({
        "age": rng.integers(20, 90, ROWS),
        "sex": rng.choice(MIXED.categories["sex"], ROWS),
        "bmi": rng.normal(27, 5, ROWS).round(1),
        "bp": rng.normal(120, 10, ROWS).round(),
        "group": rng.choice(MIXED.categories["group"], ROWS),
        "y": rng.standard_normal(ROWS).round(4),
    })  # fmt: skip


def read(data, features):
    assert sum(len(block) for block in read_rows(open_source(data), features, "y")) == ROWS


def write(path, data, features):
    """The features and a vector beside them, as a release has them."""
    blocks = read_rows(open_source(data), features, "y")
    parts = ([*block.H.T[1:], block.y] for block in blocks)
    assert write_table(path, [*features.names[1:], "z"], parts) == ROWS


def of_table(what, features, frame, folder):
    table, packed = folder / "in.csv", folder / "in.parquet"
    frame.to_csv(table, index=False)
    frame.to_parquet(packed, index=False)
    against = functools.partial(
        compare,
        reference_name="pandas.read_csv",
        reference=functools.partial(pd.read_csv, table),
        items=ROWS,
        repeats=5,
    )
    yield against(f"rows of a CSV file, 10⁶, {what}", lambda: read(table, features), limit=3)
    yield against("... of a Parquet file", lambda: read(packed, features), limit=2)
    yield against("... of a frame", lambda: read(frame, features), limit=2)
    for ending in ("csv", "parquet"):
        out = folder / f"out.{ending}"
        yield against(f"frame to .{ending}", lambda out=out: write(out, frame, features))
        yield against(f"CSV file to .{ending}", lambda out=out: write(out, table, features))


def rows():
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        yield from of_table("6 columns", NUMBERS, numbers(rng), Path(folder))
        yield from of_table("4 and 2 text columns", MIXED, mixed(rng), Path(folder))


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name}: {row.seconds * 1e3:.0f} ms, {row.ratio:.2f} of", end=" ")
        print(f"{row.reference} ({row.reference_seconds * 1e3:.0f} ms)", row.limits, row.verdict)

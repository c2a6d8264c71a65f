"""A million rows out of files and back, against pandas doing the same.

pandas 3.1 parses CSV in several threads, so both sides have every core. What reads is measured
against pandas reading the CSV file; what writes against pandas reading, if there was something to
read, and writing the table that was written.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import compare, report
from privest.data.features import Features
from privest.data.rows import read_rows
from privest.data.source import open_source
from privest.data.writer import write_table

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
    assert sum(len(block) for block in read_rows(open_source(data), features, ["y"])) == ROWS


def write(path, data, features):
    """The features and a vector beside them, as a release has them."""
    blocks = read_rows(open_source(data), features, ["y"])
    parts = ([*block.H.T[1:], block.targets[:, 0]] for block in blocks)
    assert write_table(path, [*features.names[1:], "z"], parts) == ROWS


def of_table(what, features, frame, folder):
    table, packed = folder / "in.csv", folder / "in.parquet"
    frame.to_csv(table, index=False)
    frame.to_parquet(packed, index=False)
    against = functools.partial(compare, items=ROWS, repeats=5)
    reading = ("pandas.read_csv", lambda: pd.read_csv(table))
    yield against(
        f"rows of a CSV file, 10⁶, {what}", lambda: read(table, features), *reading, limit=3
    )
    yield against("... of a Parquet file", lambda: read(packed, features), *reading, limit=2)
    yield against("... of a frame", lambda: read(frame, features), *reading, limit=2)
    for ending, limit in (("csv", 1), ("parquet", None)):
        out, by_hand = folder / f"out.{ending}", folder / f"by-hand.{ending}"
        write(out, frame, features)
        written = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
        save = functools.partial(getattr(written, f"to_{ending}"), by_hand, index=False)
        yield compare(
            f"frame to .{ending}", lambda out=out: write(out, frame, features),
            f"pandas to_{ending}", save, items=ROWS, limit=limit, repeats=3,
        )  # fmt: skip
        yield compare(
            f"CSV file to .{ending}", lambda out=out: write(out, table, features),
            f"pandas.read_csv and to_{ending}", lambda save=save: (pd.read_csv(table), save()),
            items=ROWS, limit=limit, repeats=3,
        )  # fmt: skip


def rows():
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        yield from of_table("6 columns", NUMBERS, numbers(rng), Path(folder))
        yield from of_table("4 and 2 text columns", MIXED, mixed(rng), Path(folder))


if __name__ == "__main__":
    report(rows())

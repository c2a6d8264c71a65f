"""Readings of a dynamic model from CSV text: no step is lost in silence, no cell is shown."""

from __future__ import annotations

import csv
import io

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput

MISSING = {"", "na", "nan", "null", "none"}


def read_readings(text: str, count: int, columns: str | None) -> Array:
    """Readings (K, m) from CSV text, NaN where a cell is empty. Errors name places only."""
    try:
        lines = list(csv.reader(io.StringIO(text.rstrip())))
    except csv.Error:
        raise InvalidInput("the input is not a CSV file.") from None
    if not lines:
        raise InvalidInput("the input has no rows.")
    place = _places([name.strip() for name in lines[0]], count, columns)
    rows, names = [], lines[0]
    for number, cells in enumerate(lines[1:], start=2):
        if not cells:  # skipped, it would move all later steps; in one column it is an empty cell
            raise InvalidInput(f"line {number} is empty: write NA where a reading is missing.")
        if len(cells) != len(names):
            raise InvalidInput(f"line {number} has {len(cells)} columns; the first {len(names)}.")
        rows.append([_number(cells[j], number, j + 1) for j in place])
    if not rows:
        raise InvalidInput("the input has no rows.")
    return np.array(rows)


def _places(names: list[str], count: int, columns: str | None) -> list[int]:
    """Where the readings are. The first line is shown only if the caller has named it himself."""
    if columns is None and any(_is_number(name) for name in names):
        raise InvalidInput("the first line must name the columns; it holds numbers.")
    chosen = names if columns is None else [name.strip() for name in columns.split(",")]
    for name in chosen:
        if name not in names:
            raise InvalidInput(
                f"there is no column {name!r} in the first line, which must name the columns."
            )
    if len(chosen) != count:
        raise InvalidInput(
            f"the model has {count} readings a step; {len(chosen)} columns are given. Choose them "
            "with --readings."
        )
    if len(set(chosen)) != count or any(names.count(name) > 1 for name in chosen):
        raise InvalidInput("the columns of the readings must have different names.")
    return [names.index(name) for name in chosen]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, line: int, column: int) -> float:
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        value = float(cell)
    except ValueError:
        raise InvalidInput(f"line {line}, column {column} is not a number.") from None
    if np.isinf(value):
        raise InvalidInput(f"line {line}, column {column} must be finite.")
    return value

"""Rows of a stream, one at a time, from CSV or JSON lines. Errors name places, never contents."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from privest.errors import InvalidInput

RESERVED = {"step", "level", "z", "intercept"}
MISSING = {"", "na", "nan", "null", "none"}


class Row(NamedTuple):
    """One reading (NaN: missing) with its features; `given` holds further columns, as they are."""

    features: list[float]
    value: float
    given: dict[str, Any]


class Rows:
    """An iterator of rows; the names of the features are known once it is made.

    CSV needs a first line that names the columns; JSON lines are objects. Without `features` they
    are all columns but `value` and those of `others`.
    """

    def __init__(
        self,
        lines: Iterable[str],
        *,
        json_lines: bool,
        value: str,
        features: Sequence[str] | None,
        others: Sequence[str] = (),
    ) -> None:
        self.value, self.others = value, tuple(others)
        self._records, names = _json_records(lines) if json_lines else _csv_records(lines)
        self.empty = names is None
        self.features = list(features or ())
        if names is None:
            return
        if features is None:
            self.features = [name for name in names if name not in (value, *others)]
        self._check(names)

    def _check(self, names: list[str]) -> None:
        for name in (*self.features, self.value):
            if name not in names:
                # The first line may hold readings: it is not shown.
                raise InvalidInput(
                    f"there is no column {name!r} among the {len(names)} of the first line. CSV "
                    "needs a first line of names, separated by commas; JSON lines need "
                    "--input-format jsonl; releases need --from releases."
                )
        if not self.features:
            raise InvalidInput("there is no column of features.")
        if self.value in self.features:
            raise InvalidInput(
                f"{self.value!r} is the reading: it cannot be a feature, which is public."
            )
        taken = sorted(set(self.features) & RESERVED)
        if taken:
            raise InvalidInput(
                f"a feature cannot be called {taken[0]!r}: the output has a column of that name. "
                "Rename it."
            )

    def __iter__(self) -> Iterator[Row]:
        for number, record in self._records:
            features = [self._number(record, name, number) for name in self.features]
            for name, found in zip(self.features, features):
                if math.isnan(found):
                    raise InvalidInput(
                        f"line {number}: {name!r} is missing. Features are public and must be "
                        "given; only a reading may be missing."
                    )
            value = self._number(record, self.value, number)
            yield Row(features, value, {name: record.get(name) for name in self.others})

    def _number(self, record: dict[str, Any], name: str, number: int) -> float:
        if name not in record:
            raise InvalidInput(
                f"line {number} has no {name!r} (a missing reading is an explicit null)."
            )
        cell = record[name]
        if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
            return math.nan
        try:
            found = float(cell)
        except (TypeError, ValueError):
            hint = "" if name == self.value else " Choose the columns with --features."
            raise InvalidInput(f"line {number}: {name!r} is not a number.{hint}") from None
        except OverflowError:
            found = math.inf
        if math.isinf(found):
            raise InvalidInput(f"line {number}: {name!r} is not finite.")
        return found


Records = Iterator[tuple[int, dict[str, Any]]]


def _csv_records(lines: Iterable[str]) -> tuple[Records, list[str] | None]:
    """The rows, and the names of the first line (None: there is no line)."""
    reader = csv.reader(_without_mark(lines))
    try:
        header: list[str] = next((cells for cells in reader if cells), [])
    except csv.Error:
        raise InvalidInput("the first line is not CSV.") from None
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        raise InvalidInput("two columns of the first line have the same name.")
    if names and all(_is_number(name) for name in names):
        raise InvalidInput("the first line must name the columns; it holds numbers.")

    def rows() -> Records:
        try:
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise InvalidInput(
                        f"line {reader.line_num} has {len(cells)} columns; the first line names "
                        f"{len(names)}."
                    )
                yield reader.line_num, dict(zip(names, cells))
        except csv.Error:
            raise InvalidInput(f"line {reader.line_num} is not CSV.") from None

    return rows(), names or None


def _json_records(lines: Iterable[str]) -> tuple[Records, list[str] | None]:
    """The objects, and the keys of the first one (None: there is none)."""

    def rows() -> Records:
        for number, line in enumerate(_without_mark(lines), start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise InvalidInput(f"line {number} is not a JSON object.")
            yield number, record

    every = rows()
    first = next(every, None)
    if first is None:
        return every, None
    return itertools.chain([first], every), list(first[1])


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    """Lines without a byte-order mark; what is not UTF-8 is an error that names the line."""
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError:
        raise InvalidInput(f"the input is not UTF-8 (after line {number}).") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

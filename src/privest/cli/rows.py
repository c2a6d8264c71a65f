"""Rows of a stream, one at a time, from CSV or JSON lines. Errors name places, never contents."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from privest.errors import InvalidInput

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
        self._records = _json_records(lines) if json_lines else _csv_records(lines)
        first = next(self._records, None)
        names = [] if first is None else list(first[1])
        if features is None:
            features = [name for name in names if name not in (value, *others)]
        self.features = list(features)
        if first is not None:
            for name in (*self.features, value):
                if name not in names:
                    raise InvalidInput(
                        f"there is no column {name!r} (there are: {', '.join(names)})."
                    )
            if not self.features:
                raise InvalidInput("there is no column of features.")
            self._records = itertools.chain([first], self._records)

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
        cell = record.get(name)
        if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
            return math.nan
        try:
            found = float(cell)
        except (TypeError, ValueError):
            raise InvalidInput(f"line {number}: {name!r} is not a number.") from None
        if math.isinf(found):
            raise InvalidInput(f"line {number}: {name!r} is not finite.")
        return found


def _csv_records(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(lines)
    try:
        names = [name.strip() for name in next(reader, [])]
        if names and all(_is_number(name) for name in names):
            raise InvalidInput("the first line must name the columns; it holds numbers.")
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


def _json_records(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise InvalidInput(f"line {number} is not a JSON object.")
        yield number, record


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Measurements out of text: rows of a stream one at a time, steps of a dynamic model at once.

Errors name places, never contents.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from privest.arrays import Array
from privest.data.cells import absent_columns, is_date, is_number, number
from privest.data.lines import csv_records, csv_rows, json_records, require_width
from privest.errors import InvalidInput
from privest.stream_file import OWN, steps_only
from privest.streaming._choices import StreamPlan

RESERVED = {*OWN, "intercept"}
BESIDE = tuple(name for name in OWN if name != "z")  # columns of a release
LONGEST_TIME = 64  # letters


class Row(NamedTuple):
    """One measurement (NaN: missing) with its features; `given` holds further columns."""

    features: list[float]
    value: float
    given: dict[str, Any]
    times: tuple[str, ...] = ()  # public, as they are written


class Rows:
    """An iterator over the rows of `lines`; the names of the features are known once it is made.

    CSV needs a first line that names the columns; JSON lines are objects. Where the plan names no
    features, all columns but the measurement are, and but one of dates, which is then in `times`.
    A simulation refuses infinite measurements; a real release clips them. `facts`: what the first
    line of releases says, once it is read.
    """

    times: list[str]
    features: list[str]

    def __init__(self, lines: Iterable[str], plan: StreamPlan) -> None:
        received = plan.choices.from_releases
        self.facts: dict[str, Any] = {}
        self.value: str = "z" if received else plan.columns.target
        self.others: tuple[str, ...] | tuple[()] = BESIDE if received else ()
        self.finite: bool = received or plan.choices.simulate
        self.times = [] if plan.columns.time is None else [plan.columns.time]
        self._plain, self._format = plan.format.plain or plan.json_in, plan.format
        if not plan.json_in:
            separator = plan.format.separator_of(plan.source)
            self._records, names = csv_records(lines, separator=separator)
        else:
            lines = steps_only(lines, self.facts) if received else lines
            self._records, names = json_records(lines, any_number=not self.finite)
        self.empty: bool = names is None
        self.features = list(plan.features or ())
        if names is not None:
            if plan.features is None:
                self._find_features(names)
            self._check(names, certain=plan.json_in)

    def _find_features(self, names: list[str]) -> None:
        taken = (self.value, *self.others, *self.times)
        self.features = [name for name in names if name not in taken]
        if not self.times:
            self._look_for_times()

    def _look_for_times(self) -> None:
        first = next(self._records, None)
        if first is None:
            return
        self._records = itertools.chain([first], self._records)
        # A column whose first cell is a date is one of times. (Features, so public by choice.)
        dated = [name for name in self.features if is_date(first[1].get(name))][:1]
        self.times = dated
        self.features = [name for name in self.features if name not in dated]

    def _check(self, names: list[str], certain: bool) -> None:
        absent = [name for name in (*self.features, *self.times, self.value) if name not in names]
        if absent:
            raise InvalidInput(
                f"the input has {absent_columns(absent, names, certain=certain)} CSV needs a first "
                "line of names and the right separator. JSON lines need the input format jsonl; "
                "releases must be stated as such."
            )
        if not self.features:
            raise InvalidInput("there is no column of features.")
        if self.value in self.features:
            raise InvalidInput(
                f"{self.value!r} is the measurement: it cannot be a feature, which is public."
            )
        if set(self.times) & {self.value, *self.features}:
            raise InvalidInput(
                f"the time {self.times[0]!r} is the measurement or a feature already."
            )
        taken = sorted({*self.features, *self.times} & RESERVED)
        if taken:
            raise InvalidInput(
                f"a feature cannot be called {taken[0]!r}: the output has a column of that name. "
                "Rename it."
            )

    def __iter__(self) -> Iterator[Row]:
        for line, record in self._records:
            *features, value = self._checked(record, line)
            given = {name: record.get(name) for name in self.others}
            times = tuple(_text(record.get(name)) for name in self.times)
            if any(len(text) > LONGEST_TIME for text in times):
                raise InvalidInput(f"line {line}: a time has more than {LONGEST_TIME} letters.")
            yield Row(features, value, given, times)

    def _checked(self, record: dict[str, Any], line: int) -> list[float]:
        """One by one: the features, all of them there, and the measurement, perhaps missing."""
        found = [self._number(record, name, line) for name in self.features]
        if self.others and math.isnan(value := self._number(record, self.value, line)):
            return [*(0.0 if math.isnan(one) else one for one in found), value]
        for name, value in zip(self.features, found):
            if math.isnan(value):
                raise InvalidInput(
                    f"line {line}: {name!r} is missing. Features are public and must be "
                    "given; only a measurement may be missing."
                )
        return [*found, self._number(record, self.value, line)]

    def _number(self, record: dict[str, Any], name: str, line: int) -> float:
        if name not in record:
            raise InvalidInput(
                f"line {line} has no {name!r} (a missing measurement is an explicit null)."
            )
        cell = record[name]
        try:
            found = number(cell if self._plain else self._format.with_point(cell))
        except ValueError:
            hint = "" if name == self.value else " Choose the columns of features."
            raise InvalidInput(f"line {line}: {name!r} is not a number.{hint}") from None
        if math.isinf(found) and (self.finite or name != self.value):
            raise InvalidInput(f"line {line}: {name!r} is not finite.")
        return found


def read_series(
    lines: Iterable[str], measured: Sequence[str] | None, inputs: Sequence[str] | None = (),
    *, finite: bool = True,
) -> tuple[Array, Array]:  # fmt: skip
    """Measurements (K, m) of K steps, NaN where a cell is missing, and public inputs (K, p).

    One of the two lists may be None: all columns that are not in the other. `finite`: refuse
    infinite measurements, as simulations do; a real release clips them.
    """
    rows = csv_rows(lines)
    names = [name.strip() for name in next(rows, (0, []))[1]]
    if not names:
        raise InvalidInput("the input has no rows.")
    place, beside = _places(names, measured, inputs)
    found, public = [], []
    for line, cells in _steps(rows, names):
        found.append([_cell(cells[j], line, j + 1, finite) for j in place])
        public.append([_cell(cells[j], line, j + 1, True) for j in beside])
        if gaps := [j for j, value in zip(beside, public[-1]) if math.isnan(value)]:
            raise InvalidInput(
                f"line {line}, column {gaps[0] + 1}: an input is missing. Inputs are public and "
                "must be given; only a measurement may be missing."
            )
    if not found:
        raise InvalidInput("the input has no rows.")
    return np.array(found), np.array(public).reshape(len(public), len(beside))


def _places(
    names: list[str], measured: Sequence[str] | None, inputs: Sequence[str] | None
) -> tuple[list[int], list[int]]:
    """The places of measurements and inputs among the columns."""
    if (measured is None or inputs is None) and any(map(is_number, names)):
        raise InvalidInput("the first line must name the columns; it holds numbers.")
    if measured is None:
        measured = [name for name in names if name not in (inputs or ())]
    if inputs is None:
        inputs = [name for name in names if name not in measured]
    _require_apart(measured, inputs, names)
    return [*map(names.index, measured)], [*map(names.index, inputs)]


def _require_apart(measured: Sequence[str], inputs: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that are not there, or stand for two things."""
    if set(measured) & set(inputs):
        raise InvalidInput("a column cannot be a measurement, which is private, and an input.")
    chosen = [*measured, *inputs]
    if absent := [name for name in chosen if name not in names]:
        raise InvalidInput(f"the input has {absent_columns(absent, names, certain=False)}")
    if len(set(chosen)) != len(chosen) or any(names.count(name) > 1 for name in chosen):
        raise InvalidInput("the columns that are used must have different names.")


def _steps(
    rows: Iterator[tuple[int, list[str]]], names: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    """All rows; a blank line is an error unless nothing follows it.

    Passed over, it would move all later steps; in one column it is an empty cell.
    """
    blank = None
    for line, cells in rows:
        if not "".join(cells).strip() and len(cells) <= 1:
            blank = blank or line
            continue
        if blank is not None:
            raise InvalidInput(f"line {blank} is empty: write NA where a measurement is missing.")
        require_width(cells, names, line)
        yield line, cells


def _cell(cell: str, line: int, column: int, finite: bool) -> float:
    try:
        found = number(cell)
    except ValueError:
        raise InvalidInput(f"line {line}, column {column} is not a number.") from None
    if finite and math.isinf(found):
        raise InvalidInput(f"line {line}, column {column} must be finite.")
    return found


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()

"""Measurements out of text: rows of a stream one at a time, steps of a dynamic model at once.

Errors name places, never contents.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from privest.arrays import Array, plural
from privest.data.cells import absent_columns, is_date, is_number, number, numbers
from privest.data.format import Format
from privest.data.lines import csv_records, csv_rows, json_records, open_lines, require_width
from privest.errors import InvalidInput
from privest.stream_file import OWN, steps_only
from privest.streaming._choices import StreamPlan

RESERVED = {*OWN, "intercept"}
LONGEST_TIME = 64  # letters


class Row(NamedTuple):
    """One measurement (NaN: missing) with its features; `given` holds further columns."""

    features: list[float]
    value: float
    given: dict[str, Any]
    times: tuple[str, ...] = ()  # public, as they are written


class Rows:
    """An iterator of rows; the names of the features are known once it is made.

    CSV needs a first line that names the columns; JSON lines are objects. Without `features` they
    are all columns but `value` and those of `others`, and but one of dates, whose name is then in
    `times` (or `time`, where it is given). `finite`: refuse an infinite measurement, as simulations
    do; a real release clips it. `reading`: how CSV is written; `file`: its name.
    """

    def __init__(
        self,
        lines: Iterable[str],
        *,
        json_lines: bool,
        value: str,
        features: Sequence[str] | None,
        others: Sequence[str] = (),
        finite: bool = True,
        time: str | None = None,
        reading: Format = Format(),  # noqa: B008 - frozen
        file: str = "",
    ) -> None:
        self.times = [] if time is None else [time]
        self.value, self.others, self.finite = value, tuple(others), finite
        self._plain, self._reading = reading.plain or json_lines, reading
        self._records, names = (
            json_records(lines, any_number=not finite)
            if json_lines
            else csv_records(lines, separator=reading.separator_of(file))
        )
        self.empty = names is None
        self.features = list(features or ())
        if names is None:
            return
        if features is None:
            self.features = [name for name in names if name not in (value, *others, *self.times)]
            if time is None:
                self._look_for_times()
        self._check(names, certain=json_lines)

    def _look_for_times(self) -> None:
        """A column whose first cell is a date is one of times. (Features, so public by choice.)"""
        first = next(self._records, None)
        if first is None:
            return
        self._records = itertools.chain([first], self._records)
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
        take = itemgetter(*self.features, self.value)
        for line, record in self._records:
            try:
                found = numbers(self._cells(take(record)))
            except (KeyError, ValueError):
                found = [math.nan]
            if not math.isfinite(sum(found)):
                found = self._checked(record, line)
            *features, value = found
            given = {name: record.get(name) for name in self.others}
            yield Row(features, value, given, self._time(record, line))

    def _cells(self, cells: tuple[Any, ...]) -> Sequence[Any]:
        """Cells that hold numbers, with decimal points."""
        return cells if self._plain else [*map(self._reading.with_point, cells)]

    def _time(self, record: dict[str, Any], line: int) -> tuple[str, ...]:
        found = tuple(_text(record.get(name)) for name in self.times)
        if any(len(text) > LONGEST_TIME for text in found):
            raise InvalidInput(f"line {line}: a time has more than {LONGEST_TIME} letters.")
        return found

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
        try:
            found = number(self._cells((record[name],))[0])
        except ValueError:
            hint = "" if name == self.value else " Choose the columns of features."
            raise InvalidInput(f"line {line}: {name!r} is not a number.{hint}") from None
        if math.isinf(found) and (self.finite or name != self.value):
            raise InvalidInput(f"line {line}: {name!r} is not finite.")
        return found


def opened_rows(plan: StreamPlan, stack: ExitStack) -> tuple[Rows, dict[str, Any]]:
    """Rows as they come, and what the first line of releases says once it is read."""
    lines = stack.enter_context(open_lines(plan.source, format=plan.format))
    received = plan.sides.from_releases
    facts: dict[str, Any] = {}
    rows = Rows(
        steps_only(lines, facts) if received and plan.json_in else lines,
        json_lines=plan.json_in,
        value="z" if received else plan.target,
        features=plan.features,
        others=[name for name in OWN if name != "z"] if received else (),
        finite=received or plan.trial.simulate,
        time=plan.time,
        reading=plan.format,
        file=plan.source,
    )
    return rows, facts


def read_series(
    lines: Iterable[str], count: int, columns: str | None, inputs: Sequence[str] = (),
    *, finite: bool = True,
) -> tuple[Array, Array]:  # fmt: skip
    """Readings (K, m) of K steps, NaN where a cell is missing, and public inputs (K, p).

    No step is lost in silence. `finite`: refuse infinite measurements, as simulations do; a
    real release clips them. Without `columns` all that are no inputs are measurements.
    """
    rows, names = _named(lines, columns is None)
    _require_names(inputs, names, "inputs")
    chosen = _measured(names, columns, inputs)
    if len(chosen) != count:
        raise InvalidInput(
            f"the model has {plural(count, 'measurement')} per step; given: "
            f"{plural(len(chosen), 'column')}. Choose that many."
        )
    place, beside = ([names.index(name) for name in some] for some in (chosen, inputs))
    found, public = [], []
    for line, cells in _steps(rows, names):
        found.append([_reading(cells[j], line, j + 1, finite) for j in place])
        public.append([_input(cells[j], line, j + 1) for j in beside])
    if not found:
        raise InvalidInput("the input has no rows.")
    return np.array(found), np.array(public).reshape(len(public), len(beside))


def _measured(names: Sequence[str], columns: str | None, inputs: Sequence[str]) -> list[str]:
    """The columns of measurements: those named, or all that are no inputs."""
    if columns is None:
        chosen = [name for name in names if name not in inputs]
    else:
        chosen = [name.strip() for name in columns.split(",")]
    _require_names(chosen, names, "measurements")
    if set(chosen) & set(inputs):
        raise InvalidInput("a column cannot be a measurement, which is private, and an input.")
    return chosen


def read_inputs(lines: Iterable[str], columns: Sequence[str] | None) -> Array:
    """Public inputs (K, p), all of them there; of all columns, or of those that are named."""
    rows, names = _named(lines, columns is None)
    chosen = names if columns is None else columns
    _require_names(chosen, names, "inputs")
    place = [names.index(name) for name in chosen]
    found = [[_input(cells[j], line, j + 1) for j in place] for line, cells in _steps(rows, names)]
    if not found:
        raise InvalidInput("it has no rows.")
    return np.array(found)


def _named(
    lines: Iterable[str], must_name: bool
) -> tuple[Iterator[tuple[int, list[str]]], list[str]]:
    """The rows after the first, and the names in the first."""
    rows = csv_rows(lines)
    names = [name.strip() for name in next(rows, (0, []))[1]]
    if not names:
        raise InvalidInput("the input has no rows.")
    if must_name and any(is_number(name) for name in names):
        raise InvalidInput("the first line must name the columns; it holds numbers.")
    return rows, names


def _require_names(chosen: Sequence[str], names: Sequence[str], what: str) -> None:
    absent = [name for name in chosen if name not in names]
    if absent:
        raise InvalidInput(f"the input has {absent_columns(absent, names, certain=False)}")
    if len(set(chosen)) != len(chosen) or any(names.count(name) > 1 for name in chosen):
        raise InvalidInput(f"the columns of the {what} must have different names.")


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


def _reading(cell: str, line: int, column: int, finite: bool) -> float:
    try:
        found = number(cell)
    except ValueError:
        raise InvalidInput(f"line {line}, column {column} is not a number.") from None
    if finite and math.isinf(found):
        raise InvalidInput(f"line {line}, column {column} must be finite.")
    return found


def _input(cell: str, line: int, column: int) -> float:
    found = _reading(cell, line, column, True)
    if math.isnan(found):
        raise InvalidInput(
            f"line {line}, column {column}: an input is missing. Inputs are public and must be "
            "given; only a measurement may be missing."
        )
    return found


def _text(cell: object) -> str:
    """A time as it is written; empty where it is missing."""
    return "" if cell is None else str(cell).strip()

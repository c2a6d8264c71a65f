"""What `privest identify` says of a fit: a table for people, JSON, rows of a CSV, a picture."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
from rich.console import Console

from privest.arrays import CONFIDENCE, Array
from privest.cli._console import new_table, shown
from privest.dynamics import Fit, Forecast, Intervals
from privest.records import Record, plain, standard_errors
from privest.report.figures import Course
from privest.report.numbers import value as rounded


def print_fit(
    console: Console, found: Fit, intervals: Intervals, level: float, *, exposed: bool,
    inputs: str | None = None,
) -> None:  # fmt: skip
    """The parameters, how well they are known, and what privacy costs.

    `exposed`: releases look back, so that readings that move together are shown more; `inputs`:
    the names of their columns.
    """
    title = (
        f"{found.family!r} from {found.observations} releases at privacy level {level:g} (a larger "
        "s reveals more)"
    )
    table = new_table(
        title, "name", "estimate", f"{100 * intervals.confidence:g} % interval", "s.e.",
        "least s.e.", "no privacy",
    )  # fmt: skip
    table.columns[0].min_width = 5
    errors = found.standard_error
    p = len(errors)
    least, free = (np.broadcast_to(_floor(own), p) for own in (found.bound, found.classical))
    for j, name in enumerate(found.names):
        table.add_row(
            shown(name), _value(found.estimate[j], errors[j]), _interval(intervals, j),
            *map(_error, (errors[j], least[j], free[j])),
        )  # fmt: skip
    console.print(table)
    if not np.isnan(least).all():
        console.print(
            shown(
                "Least s.e.: no unbiased estimate from releases at this level has a smaller one, "
                "at these parameters; no privacy: from the readings themselves."
            )
        )
    if inputs is not None:
        console.print(shown(f"Inputs 1, 2, …: {inputs}."))
    for line in _notes(found, intervals):
        console.print(shown(line))
    if exposed:
        console.print(shown(_exposure(found, level)))


def _floor(covariance: Array | None) -> Array:
    """Least standard errors; NaN where they could not be found."""
    return np.array([math.nan]) if covariance is None else standard_errors(covariance)


def _error(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}"


def _value(value: float, error: float) -> str:
    known = math.isfinite(error) and error > 0
    return rounded((value, error)) if known else f"{value:.4g}".replace("-", "−")


def _interval(intervals: Intervals, j: int) -> str:
    """Round brackets are open ends: no value up to there is excluded."""
    (first, last), ends = intervals.open_ends[j], (intervals.low[j], intervals.high[j])
    low, high = (_value(end, (ends[1] - ends[0]) / 4) for end in ends)
    return f"{'(' if first else '['}{low}, {high}{')' if last else ']'}"


def _notes(found: Fit, intervals: Intervals) -> list[str]:
    """Sentences below the table."""
    notes = [
        f"log-likelihood {found.log_likelihood:.2f}, AIC {found.aic:.2f}, BIC {found.bic:.2f} "
        "(compare fits of the same releases only)."
    ]
    if not found.converged:
        notes.append("The search did not reach a maximum: take none of this for granted.")
    said = [*intervals.notes, *(flat.words for flat in found.flat)]
    return notes + [note if note.endswith(".") else f"{note}." for note in said]


def _exposure(found: Fit, level: float) -> str:
    """What lags show of readings that move together."""
    return (
        f"With --lags all releases together show one reading at level {level:.4g}, but readings "
        f"that move together at {found.exposure:.4g}, {found.exposure / level:.3g} times that "
        "(λmax of the level of all readings): whoever many readings are of is shown that much."
    )


def record_of(found: Fit, intervals: Intervals, forecast: Forecast | None) -> dict[str, Any]:
    """For programs, with the names of the library."""
    ahead = {} if forecast is None else {"forecast": _foreseen(forecast)}
    own: dict[str, Any] = Record.to_dict(found)  # its interval is the one that was found
    own |= {"confidence": intervals.confidence, "interval": plain(intervals.ends)}
    return own | {"intervals": intervals.to_dict()} | ahead


def _foreseen(forecast: Forecast) -> dict[str, Any]:
    ends = {"confidence": CONFIDENCE, "interval": plain(forecast.interval())}
    own: dict[str, Any] = forecast.to_dict()
    return own | ends


def courses_of(found: Fit, forecast: Forecast | None) -> list[Course]:
    """The series as the releases show it, and as they foresee it, along the steps."""
    series = found.signal()
    low, high = series.interval()[:, 0].T
    steps = np.arange(float(found.steps))
    courses = [Course("from all releases", steps, series.estimate[:, 0], low, high)]
    if forecast is not None:
        low, high = forecast.interval()[:, 0].T
        later = found.steps + np.arange(float(len(low)))
        courses.append(Course("forecast", later, forecast.estimate[:, 0], low, high))
    return courses


def rows_of(courses: list[Course]) -> str:
    """CSV: one row a step, what kind of estimate it is, and its 95 % interval."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["step", "kind", "estimate", "low", "high"])
    for course, kind in zip(courses, ("smoothed", "forecast")):
        columns = (course.middle.tolist(), course.low.tolist(), course.high.tolist())
        writer.writerows(
            [int(step), kind, *map(repr, row)] for step, *row in zip(course.times, *columns)
        )
    return buffer.getvalue()

"""Dates where numbers are wanted: how they are noticed, and what to do instead."""

from __future__ import annotations

import datetime
import re

DAYS = "give the year, or the days since a public day, as a number"
# 2024-03-01, 2024/3/1 12:30, 20240301T12; 1.3.2024, 03/01/24; 12:30, 12:30:05.
DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{8}T\d{2}.*|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})"
    r"( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?)$"
)
_DATE = re.compile(DATE)


def is_date(value: object) -> bool:
    """Whether a cell is a date or a time: an object of one, or a text that is written as one.

    >>> [is_date(one) for one in ("2024-03-01", "1.3.2024", "12:30", "1.32", datetime.date.today())]
    [True, True, True, False, True]
    """
    if isinstance(value, str):
        return _DATE.match(value.strip()) is not None
    return isinstance(value, datetime.date | datetime.time | datetime.timedelta) or (
        type(value).__name__ in ("datetime64", "timedelta64")
    )


def dates_held(where: str, kind: object = "dates") -> str:
    """What to say of a column of them."""
    return f"{where} holds {kind}, not numbers: {DAYS}."


def durations_held(where: str) -> str:
    """What to say of a column of times between two moments."""
    return f"{where} holds durations, not numbers: give the days, or hours, as a number."

"""What a cell of a table means: a number, a gap, a date or a text. One rule for every reader."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Flags, as_double


def _any_case(word: str) -> list[str]:
    return ["".join(letters) for letters in product(*({c, c.upper()} for c in word))]


# Missing values in text files, and in text columns of any source. Arrow compares texts as they are,
# so every spelling is listed.
WORDS = ("na", "n/a", "nan", "null", "none")
MISSING = ("", ".", *(text for word in WORDS for text in _any_case(word)))
_GAPS = frozenset(MISSING)
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}  # in any case

DAYS = "give the year, or the days since a public day, as a number"
# 2024-03-01, 2024/3/1 12:30, 20240301T12; 1.3.2024, 03/01/24; 12:30, 12:30:05.
DATE = re.compile(
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{8}T\d{2}.*|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})"
    r"( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?)$"
)


def is_number(text: str) -> bool:
    """Whether a text is written as a number: with a decimal point, nothing between thousands.

    >>> [is_number(text) for text in ("-1.5e3", " 2 ", "inf", "1,5", "1_000", "")]
    [True, True, True, False, False, False]
    """
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # Python also reads 1_000, and digits of any script


def number(cell: object) -> float:
    """The number in a cell of text or JSON: NaN for a gap, 1 and 0 for true and false.

    An infinity stays one, for the caller to refuse. Raises ValueError for anything else.
    """
    try:
        found = as_double(cell)
    except (TypeError, ValueError):
        return _word(cell)
    if isinstance(cell, str) and not (cell.isascii() and "_" not in cell):
        raise ValueError
    return found


def numbers(cells: Sequence[Any]) -> list[float]:
    """`number` of every cell; in one go where all of them are plain texts."""
    try:
        text = "".join(cells)
        if text.isascii() and "_" not in text:
            return list(map(float, cells))
    except (TypeError, ValueError):
        pass
    return [number(cell) for cell in cells]


def _word(cell: object) -> float:
    text = "" if cell is None else str(cell).strip()
    if text in _GAPS:
        return math.nan
    if text.lower() not in TRUTHS:
        raise ValueError
    return TRUTHS[text.lower()]


def is_date(value: object) -> bool:
    """Whether a cell is a date or a time: an object, or a text that is written as one.

    >>> [is_date(one) for one in ("2024-03-01", "1.3.2024", "12:30", "1.32", datetime.date.today())]
    [True, True, True, False, True]
    """
    if isinstance(value, str):
        return DATE.match(value.strip()) is not None
    return isinstance(value, datetime.date | datetime.time | datetime.timedelta) or (
        type(value).__name__ in ("datetime64", "timedelta64")
    )


def dates_held(where: str) -> str:
    """The message about a column of dates where numbers are needed."""
    return f"{where} holds dates, not numbers: {DAYS}."


def durations_held(where: str) -> str:
    """The message about a column of durations."""
    return f"{where} holds durations, not numbers: give the days, or hours, as a number."


def is_missing(value: object) -> bool:
    """None, NaN, and pandas' NA and NaT (by name: pandas may not be installed)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts, `distinct[codes]`: trimmed, None where missing.

    `distinct` (objects) ends with None, so that code −1 is missing. It may name a text twice.
    """

    distinct: AnyArray
    codes: AnyArray

    @classmethod
    def of(cls, distinct: Sequence[object], codes: AnyArray) -> Texts:
        """From distinct values of any type, and codes with −1 where missing."""
        found = np.empty(len(distinct) + 1, dtype=object)
        for place, value in enumerate(distinct):
            text = None if is_missing(value) else str(value).strip()
            found[place] = None if text in _GAPS else text
        return cls(found, codes)

    @classmethod
    def encode(cls, cells: Sequence[Any]) -> Texts:
        """From the cells themselves, which must be hashable."""
        place = {value: k for k, value in enumerate(dict.fromkeys(cells))}
        codes = np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))
        return cls.of(list(place), codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Flags | slice) -> Texts:
        return Texts(self.distinct, self.codes[rows])

    @property
    def gaps(self) -> Flags:
        """Which of `distinct` are None."""
        return np.array([text is None for text in self.distinct.tolist()], dtype=bool)

    @property
    def missing(self) -> Flags:
        """Which cells are missing."""
        return self.look_up(self.gaps)

    def look_up(self, values: Sequence[Any] | AnyArray) -> AnyArray:
        """For every cell, the value given for its distinct text."""
        found: AnyArray = np.asarray(values)[self.codes]
        return found

    def array(self) -> AnyArray:
        """The texts as an array of objects."""
        found: AnyArray = self.distinct[self.codes]
        return found

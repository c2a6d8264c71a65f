"""Cells and names of a table: numbers, gaps, dates, texts; how names are compared and listed."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import product
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Flags, as_double, plural
from privest.errors import InvalidInput

# Missing values in text files, and in text columns of any source. Arrow compares texts as they are,
# so every spelling is listed.
WORDS = ("na", "n/a", "nan", "null", "none")
MISSING = ("", ".", *("".join(one) for w in WORDS for one in product(*({c, c.upper()} for c in w))))
GAPS = frozenset(MISSING)
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}  # in any case

DAYS = "give the year, or the days since a public day, as a number"
# 2024-03-01, 2024/3/1 12:30, 20240301T12; 1.3.2024, 03/01/24; 12:30, 12:30:05.
DATE = re.compile(
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{8}T\d{2}.*|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})"
    r"( .*)?|\d{1,2}:\d{2}(:\d{2}.*)?)$"
)


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point, and nothing between thousands."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # Python also reads 1_000, and digits of any script


def number(cell: object) -> float:
    """The number in a cell: NaN for a gap, 1 and 0 for true and false; else ValueError."""
    if not isinstance(cell, str):
        try:
            return math.nan if cell is None else as_double(cell)
        except TypeError:
            raise ValueError from None
    text = cell.strip()
    if text in GAPS:
        return math.nan
    if text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    if not is_number(text):
        raise ValueError
    return float(text)


def numbers(cells: Sequence[Any]) -> list[float]:
    try:
        text = "".join(cells)
        if text.isascii() and "_" not in text:
            return list(map(float, cells))
    except (TypeError, ValueError):
        pass
    return [number(cell) for cell in cells]


def is_date(value: object) -> bool:
    """Whether a cell is a date or a time: an object, or a text that is written as one."""
    if isinstance(value, str):
        return DATE.match(value.strip()) is not None
    return isinstance(value, datetime.date | datetime.time | datetime.timedelta) or (
        type(value).__name__ in ("datetime64", "timedelta64")
    )


def is_missing(value: object) -> bool:
    """None, NaN, and pandas' NA and NaT (by name: pandas may not be installed)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def not_numbers(where: str, kind: object) -> InvalidInput:
    return InvalidInput(
        f"{where} holds {kind}, not numbers: convert it (of dates, {DAYS}), or give it a public "
        "list of categories."
    )


# --- texts ----------------------------------------------------------------------------------------


class Texts:
    """A column of texts: the different ones, trimmed, and the place of every cell's text.

    distinct  str, or None where a text is missing; the last is None, so that code −1 is missing.
    """

    distinct: AnyArray
    codes: AnyArray

    def __init__(self, distinct: AnyArray, codes: AnyArray) -> None:
        self.distinct, self.codes = distinct, codes

    @classmethod
    def encode(cls, cells: Sequence[Any]) -> Texts:
        """From the cells themselves."""
        place = dict.fromkeys(cells, -1)
        values = [value for value in place if not is_missing(value)]
        place |= {value: k for k, value in enumerate(values)}
        codes = np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))
        return cls.of(values, codes)

    @classmethod
    def of(cls, values: Sequence[Any], codes: AnyArray) -> Texts:
        """From different values, none of them missing, and codes with −1 for a missing cell."""
        found = np.empty(len(values) + 1, dtype=object)
        for k, value in enumerate(values):
            text = str(value).strip()
            found[k] = None if text in GAPS else text
        return cls(found, codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Flags | slice) -> Texts:
        return Texts(self.distinct, self.codes[rows])

    @property
    def missing(self) -> Flags:
        return self.look_up([text is None for text in self.distinct.tolist()])

    def look_up(self, values: Sequence[Any] | AnyArray) -> AnyArray:
        found: AnyArray = np.asarray(values)[self.codes]
        return found

    def __array__(self, dtype: object = None, copy: bool | None = None) -> AnyArray:
        return self.look_up(self.distinct)

    def tolist(self) -> list[str | None]:
        found: list[str | None] = self.look_up(self.distinct).tolist()
        return found


# --- names ----------------------------------------------------------------------------------------


MOST = 20  # names that a message lists
# A sign may begin a number, a time or a grade such as ++; else a spreadsheet computes it.
FORMULA = re.compile(r"[=@\t\r\n]|[+-](?!([\d.,:'\s]*(e[+-]?\d+)?%?|[+/-]*)\Z)", re.IGNORECASE)


def composed(name: str) -> str:
    """A text with composed letters (Unicode's NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def joined(names: Iterable[str]) -> str:
    r"""Names with commas between them, in double quotes where one needs them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(names)
    return text.getvalue().removesuffix("\r\n")


def require_no_formula(texts: Iterable[str], what: str = "") -> None:
    """Refuse texts that a spreadsheet would compute in a CSV file; `what` stands for a cell."""
    for text in texts:
        if FORMULA.match(text):
            raise InvalidInput(
                f"{what or repr(text)} begins as a formula, which a spreadsheet would compute in a "
                "CSV file: change it, or write another format (.parquet, JSON lines)."
            )


def meant(name: str, known: Sequence[str]) -> str:
    """` Did you mean …?`, where one of the known names is like this one; else nothing."""
    alike = {_likeness(one): one for one in reversed(known)}
    found = get_close_matches(_likeness(name), list(alike), n=1)
    return f" Did you mean {alike[found[0]]!r}?" if found else ""


def _likeness(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name).casefold()
    bare = "".join(one for one in letters if not unicodedata.combining(one))
    return " ".join(re.sub(r"[_.-]", " ", bare).split())


def is_value(name: str) -> bool:
    """Whether a name looks like a cell: a number, with a point or a comma, or a date."""
    return is_number(name) or is_number(name.replace(",", ".", 1)) or is_date(name)


def absent_columns(absent: Sequence[str], known: Sequence[str], *, certain: bool) -> str:
    """Which columns are absent, which may be meant, and which there are.

    The first line of a CSV file (not `certain`) may be a person's data: it is shown only where none
    of it is a value, and one name is like one that was asked for.
    """
    quoted = ", ".join(repr(name) for name in absent)
    hints = dict.fromkeys(meant(name, known) for name in absent)
    values = [name for name in known if is_value(name)]
    if known and len(values) == len(known):
        return f"no column {quoted}: its first line holds numbers, add one with the column names."
    if not certain and (values or not any(hints)):
        return f"no column {quoted}; its first line names {plural(len(known), 'column')}."
    listed = ", ".join(repr(name) for name in known[:MOST])
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"no column {quoted}.{''.join(hints)} There are {listed}{more}."

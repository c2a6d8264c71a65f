"""How a file is to be read, where the file does not say it itself: one small public record."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.data._cells import MISSING, is_number
from privest.data._dates import DATE, DAYS
from privest.errors import InvalidInput

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SPELLED = {
    "comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|",
}  # fmt: skip
DECIMALS = {"point": ".", "comma": ","}
THOUSANDS = {",": ",", ".": r"\.", "'": "['’]", " ": "[ \u00a0\u202f]"}  # as patterns
MARKS = {"comma": ",", "point": ".", "apostrophe": "'", "space": " ", "none": ""}
GROUPED = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$"  # 139,750: commas between thousands
WITH_COMMAS = r"^[+-]?[\d.]+(,[\d.]+)+$"
WITH_POINTS = r"^[+-]?[\d,]+([.][\d,]+)+$"
LIMIT = r"^[<>≤≥]=?\s*[\d.,]+$"
YES_NO = r"(?i)^(yes|no|y|n|ja|nein|oui|non)$"
# Alphabets that turn into Unicode piece by piece, under the names that `codecs` gives them.
ENCODINGS = frozenset(
    ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp437", "cp850", "cp852", "cp866"]
    + [f"cp125{k}" for k in range(9)]
    + [f"iso8859-{k}" for k in range(1, 17) if k != 12]
    + ["mac-roman", "koi8-r", "koi8-u", "gbk", "gb18030", "big5", "shift_jis", "cp932", "euc_jp"]
    + ["euc_kr", "cp949"]
)


@dataclass(frozen=True)
class Reading:
    """How a table file is read. All of it is public; what is None is found, or the usual.

    separator      between the columns of a text file: , ; | or a tab (the words comma, semicolon,
                   tab and bar do too). None: a tab in .tsv files, else found in the first lines.
    decimal        "." (None, too) or ",", the decimal comma.
    thousands      between thousands: "," "." "'" or " "; "" (None, too): nothing. Never found.
    encoding       of a text file: "utf-8", "utf-16", "latin-1", "cp1252" (Windows) and others.
                   None: UTF-8, or UTF-16 where the file begins with its mark.
    missing_codes  what stands for a missing value beside an empty cell, NA and their like: "77777"
                   in every column, "bmi=999" in one. Numbers are compared as numbers.
    sheet          of a workbook (.xlsx). None: the first.

    >>> Reading(separator="semicolon", missing_codes=(77777, "bmi=999")).to_dict()
    {'separator': ';', 'missing_codes': ['77777', 'bmi=999']}
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing_codes: tuple[str, ...] = ()
    sheet: str | None = None
    thousands: str | None = None

    def __post_init__(self) -> None:
        for name, check in (
            ("separator", _separator), ("decimal", _decimal), ("encoding", _encoding),
            ("sheet", _sheet), ("thousands", _thousands),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(_text(value, name)))
        object.__setattr__(self, "missing_codes", _codes(self.missing_codes))
        if self.separator is not None and self.separator == self.decimal:
            raise InvalidInput(
                "reading: a comma cannot be both between columns and in numbers; state the "
                "separator, for example ';'."
            )
        if self.thousands == (self.decimal or "."):
            raise InvalidInput(
                "reading: the same mark cannot be between thousands and before decimals: state "
                "the decimal mark too (decimal, --decimal)."
            )

    def separator_of(self, name: str) -> str | None:
        """What is between columns, where it is stated, or the name of the file tells it."""
        tabs = name.lower().removesuffix(".gz").removesuffix(".xz").endswith(".tsv")
        return self.separator or ("\t" if tabs else None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without what was not given."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given["missing_codes"] = list(self.missing_codes)
        return {name: value for name, value in given.items() if value not in (None, [])}

    @cached_property
    def _by_column(self) -> Mapping[str | None, tuple[str, ...]]:
        """The codes of each column; under None those of every column."""
        found: dict[str | None, tuple[str, ...]] = {}
        for one in self.missing_codes:
            name, code = _split(one)
            found[name] = (*found.get(name, ()), code)
        return found

    @property
    def coded_columns(self) -> tuple[str, ...]:
        """The columns that have codes of their own."""
        return tuple(name for name in self._by_column if name is not None)

    def of_columns(self, names: Collection[str]) -> Reading:
        """The same for a table that has these columns only: codes of others are left out."""
        kept = (one for one in self.missing_codes if _split(one)[0] in (None, *names))
        return replace(self, missing_codes=tuple(kept))

    def codes(self, column: str) -> tuple[str, ...]:
        """What stands for a missing value in a column, as it was written."""
        own = self._by_column
        return (*own.get(None, ()), *own.get(column, ()))

    def code_numbers(self, column: str) -> Array:
        """Those of its codes that are numbers."""
        return np.array([self.as_number(code) for code in self.codes(column) if self._is(code)])

    def as_number(self, text: str) -> float:
        """A text that is written as a number, with the decimal mark of the file; NaN if it is not.

        >>> Reading(decimal=",").as_number("1,5"), Reading().as_number("1,5")
        (1.5, nan)
        """
        text = self.with_point(text)
        return float(text) if is_number(text) else math.nan

    def with_point(self, text: str) -> str:
        """A number with a decimal point, as Python reads it; a point where commas are used is none.

        >>> Reading(decimal=",").with_point("1,5"), Reading(decimal=",").with_point("1.5")
        ('1.5', '1!5')
        >>> Reading(thousands=",").with_point("139,750.5"), Reading(thousands=",").with_point("1,5")
        ('139750.5', '1,5')
        """
        if self.plain or text.strip() in MISSING:
            return text
        if self.thousands and re.match(self.pattern, text.strip()):
            text = re.sub(THOUSANDS[self.thousands], "", text.strip())
        return text.replace(".", "!").replace(",", ".") if self.decimal == "," else text

    @property
    def plain(self) -> bool:
        """Whether numbers have a decimal point, and nothing between thousands."""
        return self.decimal != "," and not self.thousands

    @cached_property
    def pattern(self) -> str:
        """Of numbers as they are written; thousands have marks between all of them, or none."""
        point, whole = "," if self.decimal == "," else r"\.", ""
        if self.thousands:
            whole = rf"\d{{1,3}}({THOUSANDS[self.thousands]}\d{{3}})+({point}\d*)?|"
        number = rf"({whole}\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?"
        return rf"^[+-]?({number}|(?i:inf|infinity|nan))$"

    def not_a_number(self, text: str) -> str:
        """What to do about a text that is not a number, by what it is like; never the text."""
        if re.match(DATE, text):
            return f"a date or a time, not a number; {DAYS}"
        if self.decimal != "," and re.match(GROUPED, text):
            return (
                'not a number; it has commas between thousands: say so (thousands = ",", '
                "--thousands ,)"
            )
        if self.decimal != "," and re.match(WITH_COMMAS, text):
            return (
                "not a number; it has a comma: where that is the decimal comma say so (decimal = "
                '",", --decimal ,)'
            )
        if self.decimal == "," and re.match(WITH_POINTS, text):
            return (
                "not a number; it has a point, and the decimal mark is said to be a comma: correct "
                "what is said, or say what is between thousands (thousands, --thousands)"
            )
        if re.match(LIMIT, text):
            return (
                "a limit, not a number: write a number in its place (half of a limit of detection, "
                "say), or say that it stands for a missing value (missing_codes, --missing-code)"
            )
        if re.match(YES_NO, text):
            return (
                "a yes or no in words, not a number: write 1 for yes and 0 for no, or give a "
                "public column its list of categories"
            )
        return (
            "not a number; correct it, say that it stands for a missing value (missing_codes, "
            "--missing-code), or give the column a public list of categories"
        )

    def _is(self, code: str) -> bool:
        return not math.isnan(self.as_number(code))


def as_reading(given: object) -> Reading:
    """A `Reading`, also from names and values, as a plan file has them; None is the plain one."""
    if given is None:
        return Reading()
    if isinstance(given, Reading):
        return given
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"reading must be a privest.data.Reading, or names with values; received "
            f"{type(given).__name__}."
        )
    known = [one.name for one in fields(Reading)]
    unknown = sorted(map(str, set(given) - set(known)))
    if unknown:
        raise InvalidInput(f"reading: {unknown[0]!r} is not known. Names are {', '.join(known)}.")
    return Reading(**given)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"reading: {name} must be a text; received {type(value).__name__}.")
    return value


def _separator(given: str) -> str:
    found = SPELLED.get(given.lower(), given)
    if found not in SEPARATORS:
        raise InvalidInput(
            f"reading: the separator is one of , ; | or tab; received {given!r}. Other files must "
            "be converted first."
        )
    return found


def _decimal(given: str) -> str:
    found = DECIMALS.get(given.lower(), given)
    if found not in (".", ","):
        raise InvalidInput(f"reading: decimal is a point or a comma; received {given!r}.")
    return found


def _thousands(given: str) -> str:
    found = MARKS.get(given.lower(), given)
    if found not in ("", *THOUSANDS):
        raise InvalidInput(
            "reading: between thousands is a comma, a point, an apostrophe, a space or none; "
            f"received {given!r}."
        )
    return found


def _encoding(given: str) -> str:
    try:
        found = codecs.lookup(given).name
    except (LookupError, ValueError):  # a NUL in the name
        found = ""
    found = {"utf-8-sig": "utf-8"}.get(found, found)
    if found not in ENCODINGS:
        raise InvalidInput(
            f"reading: {given!r} is no encoding known here. Most files are utf-8, utf-16, cp1252 "
            "(Windows, Western Europe) or latin-1."
        )
    return found


def _sheet(given: str) -> str:
    if not given.strip():
        raise InvalidInput("reading: the name of a sheet is empty; leave it out for the first.")
    return given


def _codes(given: object) -> tuple[str, ...]:
    if isinstance(given, str | int | float) or not isinstance(given, list | tuple):
        raise InvalidInput(
            f"reading: missing_codes is a list, of numbers, words or NAME=CODE; received "
            f"{type(given).__name__}."
        )
    found = []
    for one in given:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise InvalidInput(
                f"reading: a missing code is a number or a text; received {type(one).__name__}."
            )
        name, code = _split(str(one))
        if not code or name == "":
            raise InvalidInput(
                f"reading: the missing code {one!r} has no {'name' if code else 'code'}: write "
                "77777, or NAME=77777 for one column. (Empty cells are missing anyway.)"
            )
        if code not in MISSING:
            found.append(code if name is None else f"{name}={code}")
    return tuple(dict.fromkeys(found))


def _split(text: str) -> tuple[str | None, str]:
    """The column, None for all, and the code; a name may hold "=", a code may not."""
    name, mark, code = text.rpartition("=")
    return (name.strip() if mark else None), code.strip()

"""The format of a table file, where the file does not state it itself."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array
from privest.data.cells import DATE, DAYS, MISSING, Texts, is_number
from privest.errors import InvalidInput

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# Of each field: words for its signs.
CHOICES: Mapping[str, Mapping[str, str]] = {
    "separator": {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"},
    "decimal": {"point": ".", "comma": ","},
}
# Encodings that become Unicode piece by piece, under the names that `codecs` gives them.
ENCODINGS = frozenset(
    ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp437", "cp850", "cp852", "cp866"]
    + [f"cp125{k}" for k in range(9)]
    + [f"iso8859-{k}" for k in range(1, 17) if k != 12]
    + ["mac-roman", "koi8-r", "koi8-u", "gbk", "gb18030", "big5", "shift_jis", "cp932", "euc_jp"]
    + ["euc_kr", "cp949"]
)
STATE_ENCODING = (
    "save the file as UTF-8, or state its `encoding`: older Windows programs write cp1252"
)
GROUPED = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$"  # 139,750: commas between thousands
# What a text that is no number is like, and what to do about it. Never the text itself.
HINTS = (
    (DATE.pattern, f"a date or a time, not a number; {DAYS}"),
    (GROUPED, "not a number; it has commas between thousands: remove them from the file"),
    (
        r"^[+-]?[\d.,]*[.,][\d.,]*$",
        "not a number; it has points or commas: state the `decimal` mark, and write nothing "
        "between thousands",
    ),
    (
        "",
        "not a number; correct it, state it in `missing_codes`, or give the column a public "
        "list of categories",
    ),
)


@dataclass(frozen=True)
class Format:
    """The format of a table file. All of it is public; None: detected, or the default.

    separator      of a text file: , ; | or a tab, or their names. None: detected; .tsv: a tab.
    decimal        "." or ","; None: a point.
    encoding       of a text file, such as "cp1252" (Windows). None: UTF-8, or UTF-16 where the
                   file begins with its mark.
    missing_codes  stand for a missing value beside an empty cell, NA and their like: "77777"
                   in every column, "bmi=999" in one. Numbers are compared as numbers.
    sheet          of a workbook (.xlsx). None: the first.

    >>> Format(separator="semicolon", missing_codes=(77777, "bmi=999")).to_dict()
    {'separator': ';', 'missing_codes': ['77777', 'bmi=999']}
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing_codes: tuple[str, ...] = ()
    sheet: str | None = None

    def __post_init__(self) -> None:
        for name in ("separator", "decimal", "encoding", "sheet"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _checked(name, value))
        object.__setattr__(self, "missing_codes", _codes(self.missing_codes))
        if self.separator is not None and self.separator == self.decimal:
            raise InvalidInput(
                "format: a comma cannot be both between columns and in numbers; state the "
                "`separator`, for example ';'."
            )

    def separator_of(self, name: str) -> str | None:
        return self.separator or ("\t" if re.search(r"\.tsv(\.gz|\.xz)?$", name.lower()) else None)

    def to_dict(self) -> dict[str, Any]:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given["missing_codes"] = list(self.missing_codes)
        return {name: value for name, value in given.items() if value not in (None, [])}

    # --- missing codes ----------------------------------------------------------------------------

    @property
    def coded_columns(self) -> tuple[str, ...]:
        names = (_split(one)[0] for one in self.missing_codes)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def of_columns(self, names: Collection[str]) -> Format:
        """The same format without the codes of other columns."""
        kept = (one for one in self.missing_codes if _split(one)[0] in (None, *names))
        return replace(self, missing_codes=tuple(kept))

    def codes(self, column: str) -> tuple[str, ...]:
        both = map(_split, self.missing_codes)
        return tuple(code for name, code in both if name in (None, column))

    def code_numbers(self, column: str) -> Array:
        found = np.array([self.as_number(code) for code in self.codes(column)], dtype=np.float64)
        return found[~np.isnan(found)]

    def without_codes(self, column: AnyArray | Texts, name: str) -> AnyArray | Texts:
        codes, values = self.codes(name), self.code_numbers(name)
        if not codes:
            return column
        if not isinstance(column, Texts):
            coded = np.isin(column, values)
            return np.where(coded, np.nan, column) if coded.any() else column
        distinct = column.distinct.copy()
        for place, text in enumerate(distinct):
            if text is not None and (text in codes or self.as_number(text) in values):
                distinct[place] = None
        return Texts(distinct, column.codes)

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def plain(self) -> bool:
        return self.decimal != ","

    @property
    def pattern(self) -> str:
        """The regular expression of a number in this format."""
        point = r"\." if self.plain else ","
        number = rf"(\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?"
        return rf"^[+-]?({number}|(?i:inf|infinity|nan))$"

    def with_point(self, text: str) -> str:
        """The text with a decimal point; with decimal commas a point makes it no number."""
        if self.plain or text.strip() in MISSING:
            return text
        return text.replace(".", "!").replace(",", ".")

    def as_number(self, text: str) -> float:
        """A text that is a number in this format; NaN if it is not."""
        text = self.with_point(text)
        return float(text) if is_number(text) else math.nan

    def not_a_number(self, text: str) -> str:
        """Advice about a text that is not a number; it never quotes the text."""
        return next(hint for pattern, hint in HINTS if re.match(pattern, text))


def as_format(given: object) -> Format:
    """A `Format`, also from names and values; None is the plain one."""
    if given is None:
        return Format()
    if isinstance(given, Format):
        return given
    if not isinstance(given, Mapping):
        raise InvalidInput("format must be a privest.data.Format, or names with values.")
    known = [one.name for one in fields(Format)]
    unknown = sorted(map(str, set(given) - set(known)))
    if unknown:
        raise InvalidInput(f"format: {unknown[0]!r} is not known. Names are {', '.join(known)}.")
    return Format(**given)


def _checked(name: str, given: object) -> str:
    if not isinstance(given, str) or (not given.strip(" ") and name == "sheet"):
        raise InvalidInput(f"format: {name} must be a text that is not empty.")
    if name == "encoding":
        return _encoding(given)
    if name == "sheet":
        return given
    found = CHOICES[name].get(given.lower(), given)
    if found not in CHOICES[name].values():
        raise InvalidInput(
            f"format: {name} is one of {', '.join(CHOICES[name])}; received {given!r}."
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
            f"format: {given!r} is no encoding known here. Most files are utf-8, utf-16, cp1252 "
            "(Windows, Western Europe) or latin-1."
        )
    return found


def _codes(given: object) -> tuple[str, ...]:
    found = []
    for one in given if isinstance(given, list | tuple) else [None]:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise InvalidInput("format: missing_codes is a list of numbers, words or NAME=CODE.")
        name, code = _split(str(one))
        if not code or name == "":
            raise InvalidInput(
                f"format: the missing code {one!r} has no {'name' if code else 'code'}: write "
                "77777, or NAME=77777 for one column. (Empty cells are missing anyway.)"
            )
        if code not in MISSING:
            found.append(code if name is None else f"{name}={code}")
    return tuple(dict.fromkeys(found))


def _split(text: str) -> tuple[str | None, str]:
    """The column, None for all, and the code; a name may hold "=", a code may not."""
    name, mark, code = text.rpartition("=")
    return (name.strip() if mark else None), code.strip()

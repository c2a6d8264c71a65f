"""How a text file is written, where it does not say so: by evidence, and only where it is clear."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from privest.data._cells import is_number
from privest.data._dates import is_date
from privest.data._recoding import encoding_of
from privest.data._text_table import opened
from privest.errors import InvalidInput

PART = 1 << 18  # bytes
START = 1 << 12
FEWEST = 4  # letters that tell UTF-16 from other bytes
OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive, as Excel workbooks are: give it the ending .xlsx if it is one",
    b"PAR1": "a Parquet file: give it the ending .parquet",
    b"\x1f\x8b": "packed: give it the ending .csv.gz",
    b"\xfd7zXZ\x00": "packed: give it the ending .csv.xz",
    b"HEADER RECORD*": "a SAS transport file: give it the ending .xpt",
    b"%PDF": "a PDF: save the table itself as .csv or .xlsx",
    b"\xd0\xcf\x11\xe0": "of an older Office program: save it as .xlsx or .csv",
    b"SQLite format 3\x00": "a database: save the table as .csv",
}
NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that Windows' alphabet does not have
SOME_COMMA = re.compile(r"[+-]?\d*,\d+$")  # 1,5 and 1,234: which may have thousands, too
CLEAR_COMMA = re.compile(r"[+-]?(\d*,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+)$")
DOUBTFUL = "?"
MOSTLY = 0.8  # of the different texts of a column
POINT = re.compile(r"[+-]?\d*\.\d+$")


def found_encoding(path: Path, name: str) -> str:
    """By its mark; else UTF-8 where all of it is that; else the likely one, which may be another.

    Reads the whole file, in parts. What is no text at all is refused, with what it seems to be.
    """
    with opened(path, name) as file:
        start = file.read(START)
        marked = encoding_of(start[:4])
        if marked != "utf-8":
            return marked
        _require_text(start, name)
        wide = _unmarked_utf16(start)
        if wide is not None:
            return wide
        file.seek(0)
        if _is_utf8(_parts(file)):
            return "utf-8"
        file.seek(0)
        return "iso8859-1" if any(map(NOT_CP1252.search, _parts(file))) else "cp1252"


def _parts(file: BinaryIO) -> Iterator[bytes]:
    while part := file.read(PART):
        yield part


def _is_utf8(parts: Iterable[bytes]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for part in parts:
            decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _require_text(start: bytes, name: str) -> None:
    for mark, kind in OTHER_KINDS.items():
        if start.startswith(mark):
            raise InvalidInput(f"{name} is not a text table. It seems to be {kind}.")
    if b"\0" in start and _unmarked_utf16(start) is None:
        raise InvalidInput(
            f"{name} is not a text table but binary data: save the table as .csv or .xlsx."
        )


def _unmarked_utf16(start: bytes) -> str | None:
    """Where most second bytes are 0 it is UTF-16 of a Western text, though nothing says so."""
    half = len(start) // 2
    for name, place in (("utf-16-le", 1), ("utf-16-be", 0)):
        zeros = start[place::2].count(0), start[1 - place :: 2].count(0)
        if half >= FEWEST and zeros[0] > 0.6 * half and not zeros[1]:
            return name
    return None


def found_decimal(columns: Iterable[Iterable[str]]) -> str | None:
    """The mark in the numbers of some rows: "," or "."; None where that is not clear.

    A comma: some column holds numbers with commas and little else, one of which cannot have
    thousands (1,5 and 0,123 can not, 1,234 can), and no column has decimal points.

    >>> found_decimal([["1,5", "2"], ["a", "b"]]), found_decimal([["1,234", "2,500"]])
    (',', None)
    >>> found_decimal([["1,5"], ["1.5"]]) is None, found_decimal([["1.5"], ["a, b"]])
    (True, '.')
    """
    found = {_mark_of([cell for cell in cells if not is_date(cell)]) for cells in columns}
    if "," in found:
        return None if "." in found else ","
    return None if DOUBTFUL in found else "."


def _mark_of(texts: Sequence[str]) -> str | None:
    """The mark in one column; DOUBTFUL where its commas may stand between thousands; None: none."""
    commas = [cell for cell in texts if SOME_COMMA.match(cell)]
    if commas and _mostly(lambda c: _is_whole(c) or bool(SOME_COMMA.match(c)), texts):
        return "," if any(CLEAR_COMMA.match(cell) for cell in commas) else DOUBTFUL
    has_points = any(POINT.match(cell) for cell in texts) and _mostly(is_number, texts)
    return "." if has_points else None


def _mostly(is_it: Callable[[str], bool], texts: Sequence[str]) -> bool:
    """Some words among numbers stand for missing values."""
    return sum(map(is_it, texts)) >= MOSTLY * len(texts)


def _is_whole(text: str) -> bool:
    return "." not in text and is_number(text)

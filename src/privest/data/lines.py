"""Text lines as they come: rows of CSV and JSON lines, one at a time, and small matrices."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from privest.arrays import Array, plural
from privest.data.cells import is_number
from privest.data.format import SEPARATORS, Format
from privest.errors import InvalidInput
from privest.reading import parse_json, text_lines

UNPACKED = {".gz": "gzip", ".xz": "lzma"}  # lzma is not in every Python
MARKS = {  # the longer first: UTF-32 begins as UTF-16 does
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

Cells = Iterator[tuple[int, list[str]]]
Records = Iterator[tuple[int, dict[str, Any]]]


def encoding_of(start: bytes) -> str:
    """The encoding by the mark at the start of a file; UTF-8 without one."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8")


@contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked; `name` begins the messages."""
    prefix = f"{name}: " if name else ""
    try:
        opener: Any = import_module(UNPACKED.get(path.suffix.lower(), "io"))
        file = opener.open(path, "rb")
    except ImportError as missing:
        raise InvalidInput(f"{prefix}this Python does not unpack it: {missing}.") from None
    except OSError as error:
        raise InvalidInput(f"{prefix}it cannot be read: {error.strerror}.") from None
    with file:
        try:
            yield file
        except (getattr(opener, "LZMAError", EOFError), EOFError, gzip.BadGzipFile, zlib.error):
            raise InvalidInput(f"{prefix}it is damaged, or not what its name says.") from None


@contextmanager
def open_lines(
    source: str, name: str | None = None, most: int | None = None, format: Format | None = None
) -> Iterator[Iterator[str]]:
    """The lines of a file, or of standard input ("-"), each as soon as it is there.

    `name` begins the messages (None: the path); `most`: bytes, for a caller who keeps all lines;
    `format`: states the encoding, or the mark at the start of the file does.
    """
    where = source if name is None else name
    with nullcontext(sys.stdin.buffer) if source == "-" else opened(Path(source), where) as file:
        encoding = "utf-8"
        if format is not None:
            peek = getattr(file, "peek", lambda count: b"")  # what is there stays to be read
            encoding = format.encoding or encoding_of(peek(4)[:4])
        with text_lines(file, most, encoding) as lines:
            yield lines


# --- CSV ------------------------------------------------------------------------------------------


def first_rows(text: str, separator: str) -> tuple[list[str], int, list[str]]:
    """The header, the letters up to its end, and the row after it."""
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=separator)
    rows = (row for row in reader if any(cell.strip() for cell in row))
    names = next(rows, [])
    end = stream.tell()
    return names, end, next(rows, [])


def found_separator(text: str) -> str:
    """The separator that gives header and first row as many fields, or else most fields."""

    def fields(one: str) -> tuple[bool, int]:
        try:
            names, _, first = first_rows(text, one)
        except csv.Error:  # one long field
            return False, 0
        return len(names) == len(first) > 1, len(names)

    return max(SEPARATORS, key=fields)


def csv_rows(lines: Iterable[str], separator: str = ",") -> Cells:
    reader = csv.reader(lines, delimiter=separator)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error:
        raise InvalidInput(
            f"line {max(reader.line_num, 1)}: not a CSV file (binary data, or a quote that is not "
            "closed)."
        ) from None


def csv_records(
    lines: Iterable[str], separator: str | None = None
) -> tuple[Records, list[str] | None]:
    """Rows by column name, and the names of the first line (None: there is no line)."""
    rest, before = iter(lines), []
    for line in rest:
        before.append(line)
        if line.strip():
            break
    between = separator or found_separator("".join(before))
    rows = (row for row in csv_rows(itertools.chain(before, rest), between) if row[1])
    names = [cell.strip() for cell in next(rows, (0, []))[1]]
    if len(names) == 1 and any(sign in names[0] for sign in SEPARATORS):
        raise InvalidInput(
            f"the first line has no {SEPARATORS[between]}, and other signs: state the `separator`."
        )
    if len(set(names)) < len(names):
        raise InvalidInput("two columns of the first line have the same name.")
    require_names(names, "the input")
    return _named(rows, names), names or None


def _named(rows: Cells, names: Sequence[str]) -> Records:
    for line, cells in rows:
        require_width(cells, names, line)
        yield line, dict(zip(names, cells))


def require_names(names: Sequence[str], where: str) -> None:
    """Refuse a first line of numbers: without a header it is a row of data, and is not shown."""
    if names and all(is_number(name) for name in names):
        raise InvalidInput(f"{where}: the first line must name the columns; it holds numbers.")


def require_width(cells: Sequence[str], names: Sequence[object], line: int) -> None:
    if len(cells) != len(names):
        raise InvalidInput(
            f"line {line} has {plural(len(cells), 'column')}; the first line has {len(names)}."
        )


# --- JSON lines -----------------------------------------------------------------------------------


def json_records(
    lines: Iterable[str], *, any_number: bool = False
) -> tuple[Records, list[str] | None]:
    """The objects of JSON lines, and the keys of the first one (None: there is none)."""

    def records() -> Records:
        for line, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            try:
                record = parse_json(text, any_number=any_number)
            except InvalidInput as error:
                why = str(error).removeprefix("the input ")
                raise InvalidInput(f"line {line} is not a JSON object: it {why}") from None
            if not isinstance(record, dict):
                raise InvalidInput(f"line {line} is not a JSON object.")
            yield line, record

    every = records()
    first = next(every, None)
    if first is None:
        return every, None
    return itertools.chain([first], every), list(first[1])


# --- a matrix -------------------------------------------------------------------------------------


def read_matrix(lines: Iterable[str]) -> tuple[Array, list[str] | None]:
    """A matrix of finite numbers, and its column names if the first line is words."""
    rows = [row for row in csv_rows(lines) if row[1]]
    first = [cell.strip() for cell in rows[0][1]] if rows else []
    named = bool(first) and all(map(_is_word, first))
    if len(rows) <= named:
        raise InvalidInput("the file holds no numbers.")
    found = np.empty((len(rows) - named, len(first)))
    for k, (line, cells) in enumerate(rows[named:]):
        require_width(cells, first, line)
        found[k] = [float(cell) if is_number(cell) else np.nan for cell in cells]
        bad = np.flatnonzero(~np.isfinite(found[k]))
        if len(bad):
            raise InvalidInput(
                f"line {line}, column {bad[0] + 1} is not a finite number. Columns are separated "
                "by commas, decimals by points; nothing may be missing."
            )
    return found, first if named else None


def _is_word(cell: str) -> bool:
    return bool(cell) and not is_number(cell) and cell[0] not in "0123456789+-.;"

"""Text tables line by line, as they come: CSV and JSON lines. Errors name places, never contents.

Commas between fields, points in numbers, UTF-8 with or without a mark at its start, any line
ending, quotes where a field has commas or line ends; plain or packed (.gz, .xz). With a `Reading`
also what it states, or what the first lines show. `_csv` reads the same dialects faster, for tables
that are read in blocks; what a cell means is in `_cells`.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import lzma
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from privest.arrays import Array, plural
from privest.data._cells import is_number, number, numbers
from privest.data._reading_options import SEPARATORS, Reading
from privest.data._recoding import Recoded, encoding_of
from privest.errors import InvalidInput
from privest.reading import parse_json, text_lines

MARK = "\ufeff"
UNPACKED = {".gz": gzip.open, ".xz": lzma.open}
OTHER_SEPARATORS = {sign: word for sign, word in SEPARATORS.items() if sign != ","}
FIRST_LINES = 64  # that are looked at for what is between columns, blank ones and all

Cells = Iterator[tuple[int, list[str]]]
Records = Iterator[tuple[int, dict[str, Any]]]


@contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked; `name` begins the messages, unless it is empty."""
    prefix = f"{name}: " if name else ""
    opener: Any = UNPACKED.get(path.suffix.lower(), open)
    try:
        file = opener(path, "rb")
    except FileNotFoundError:
        raise InvalidInput(f"{prefix}there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput(f"{prefix}a folder, not a file.") from None
    except OSError as error:
        raise InvalidInput(f"{prefix}it cannot be read: {error.strerror}.") from None
    with file:
        try:
            yield file
        except (lzma.LZMAError, EOFError, gzip.BadGzipFile, zlib.error):
            raise InvalidInput(f"{prefix}it is damaged, or not what its name says.") from None


@contextmanager
def open_lines(
    source: str,
    name: str | None = None,
    most: int | None = None,
    reading: Reading | None = None,
) -> Iterator[Iterator[str]]:
    """The lines of a file, or of standard input ("-"), each as soon as it is there.

    `name` begins the messages: the path, unless the caller names it himself ("").
    `most`: bytes, for a caller who keeps all lines. `reading`: its encoding is that of the file;
    where it states none, one that begins with the mark of UTF-16 is that.
    """
    if source == "-":
        with text_lines(_as_utf8(sys.stdin.buffer, reading, "the input"), most) as lines:
            yield lines
        return
    named = source if name is None else name
    with (
        opened(Path(source), named) as file,
        text_lines(_as_utf8(file, reading, named), most) as lines,
    ):
        yield lines


def _as_utf8(file: BinaryIO, reading: Reading | None, name: str) -> BinaryIO:
    if reading is None:
        return file
    peek = getattr(file, "peek", lambda count: b"")  # what is there stays to be read
    encoding = reading.encoding or encoding_of(peek(4)[:4])
    if encoding == "utf-8":
        return file
    return cast(BinaryIO, io.BufferedReader(Recoded(file, encoding, name)))


def column_names(cells: Sequence[str], name: str, separator: str) -> list[str]:
    """The names in a first line, trimmed; what has other signs between them is refused."""
    if len(cells) == 1:
        for sign, word in SEPARATORS.items():
            if sign in cells[0] and sign != separator:
                raise InvalidInput(
                    f"{name} has {word} between its columns, and was to be read with "
                    f"{SEPARATORS[separator]}: state --separator {sign!r}."
                )
    return [cell.strip() for cell in cells]


def first_rows(text: str, separator: str) -> tuple[list[str], int, list[str]]:
    """The header, where the next row starts, and that row; blank lines are passed over."""
    stream = io.StringIO(text, newline="")
    rows = (row for row in csv.reader(stream, delimiter=separator) if row)
    names = next(rows)
    start = stream.tell()
    return names, start, next(rows, [])


def found_separator(text: str) -> str:
    r"""What is between the columns: what gives header and first row as many fields, two or more; of
    several of these, and where there is none, what gives most; a comma before the others.

    >>> found_separator("load;price, in euro\n1;2\n"), found_separator("load\n1\n")
    (';', ',')
    """

    def fields(one: str) -> tuple[bool, int]:
        try:
            names, _, first = first_rows(text, one)
        except csv.Error:  # one long field
            return False, 0
        return len(names) == len(first) > 1, len(names)

    return max(SEPARATORS, key=fields)  # the first of them, if several are alike


def _separated(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """What is between the columns, by the first lines, and all lines again.

    The second is waited for only where the first leaves a doubt.
    """
    rest, text, rows, seen = iter(lines), "", 0, []
    for line in itertools.islice(rest, FIRST_LINES):
        seen.append(line)
        text += line
        rows += bool(line.strip()) and text.count('"') % 2 == 0  # else within quotes
        if rows > 1 or (rows and not any(sign in text for sign in OTHER_SEPARATORS)):
            break
    between = found_separator(text) if text.strip() else ","
    return between, itertools.chain(seen, rest)


def csv_rows(lines: Iterable[str], separator: str = ",") -> Cells:
    """(line number, cells) of every row; a blank line has no cells."""
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
    lines: Iterable[str], name: str = "the input", separator: str | None = None
) -> tuple[Records, list[str] | None]:
    """Rows by column name, and the names of the first line (None: there is no line).

    Blank lines are passed over. The first line must not hold numbers, nor a name twice.
    `separator`: None: found in the first lines.
    """
    between = separator
    if between is None:
        between, lines = _separated(lines)
    rows = ((line, cells) for line, cells in csv_rows(lines, between) if cells)
    names = column_names(next(rows, (0, []))[1], name, between)
    if len(set(names)) < len(names):
        raise InvalidInput("two columns of the first line have the same name.")
    require_names(names)

    def records() -> Records:
        for line, cells in rows:
            require_width(cells, names, line)
            yield line, dict(zip(names, cells))

    return records(), names or None


def json_records(
    lines: Iterable[str], *, any_number: bool = False
) -> tuple[Records, list[str] | None]:
    """The objects of JSON lines, and the keys of the first one (None: there is none).

    `any_number` as in `parse_json`.
    """

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


def require_names(names: Sequence[str]) -> None:
    """Refuse a first line of numbers: without a header it is a row of data, and is not shown."""
    if names and all(is_number(name) for name in names):
        raise InvalidInput("the first line must name the columns; it holds numbers.")


def require_width(cells: Sequence[str], names: Sequence[str], line: int) -> None:
    """Refuse a row that is longer or shorter than the first line."""
    if len(cells) != len(names):
        raise InvalidInput(
            f"line {line} has {plural(len(cells), 'column')}; the first line names {len(names)}."
        )


def read_matrix(lines: Iterable[str]) -> tuple[Array, list[str] | None]:
    """A matrix of finite numbers, one row a line, and its column names if it has any.

    A first line in which every cell starts like a word is taken for names.
    """
    every = list(lines)
    rows = (row for row in csv_rows(every) if row[1])
    first, names, skip = next(rows, (0, [])), None, 0
    if _is_header(first[1]):
        skip, names = first[0], [cell.strip() for cell in first[1]]
        first = next(rows, (0, []))
    width = len(first[1])
    if not width:
        raise InvalidInput("the file holds no numbers.")
    if names is not None and len(names) != width:
        named = plural(len(names), "column")
        raise InvalidInput(f"the first line names {named}; the others have {width}.")
    quick = _read_quickly(every[skip:])
    return (_read_carefully([first, *rows]) if quick is None else quick), names


def _read_quickly(lines: Sequence[str]) -> Array | None:
    """By NumPy's parser, where the text is plain and nothing is wrong with it; else None."""
    text = "".join(lines)
    if not text.isascii() or "_" in text or '"' in text:
        return None
    try:
        found = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None)
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _read_carefully(rows: Sequence[tuple[int, list[str]]]) -> Array:
    """Cell by cell: knows what is wrong, and where."""
    width = len(rows[0][1])
    found = np.array([_numbers(cells, line, width) for line, cells in rows])
    if not np.isfinite(found).all():
        line, cells = rows[int(np.argmin(np.isfinite(found).all(axis=1)))]
        raise InvalidInput(_fault(cells, line))
    return found


def _numbers(cells: Sequence[str], line: int, width: int) -> list[float]:
    if len(cells) != width:
        found = plural(len(cells), "column")
        raise InvalidInput(f"line {line} has {found}; the lines before have {width}.")
    try:
        return numbers(cells)
    except ValueError:
        raise InvalidInput(_fault(cells, line)) from None


def _is_header(cells: Sequence[str]) -> bool:
    words = [cell.strip() for cell in cells]
    return bool(words) and all(
        word and not is_number(word) and word[0] not in "0123456789+-.;" for word in words
    )


def _fault(cells: Sequence[str], line: int) -> str:
    """The first cell of a row that is not a finite number."""
    for column, cell in enumerate(cells, start=1):
        where, text = f"line {line}, column {column}", cell.strip()
        if not text:
            return f"{where} is empty."
        try:
            finite = np.isfinite(number(text))
        except ValueError:
            if any(mark in text for mark in (*OTHER_SEPARATORS, " ")):
                return f"{where}: columns must be separated by commas, decimals by points."
            return f"{where} is not a number."
        if not finite:
            return f"{where} must be finite; it is missing, NaN or an infinity."
    return f"line {line} is not a row of numbers."

"""Text tables read in blocks: cut into pieces of whole rows, which Arrow parses at the same time.

The dialect is that of `_text_table`, and others, stated or found: commas, semicolons, tabs or bars
between columns, a decimal comma, other alphabets than UTF-8. Blank lines do not count as rows; with
one column they are missing values, as nothing else tells them from one.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from privest.arrays import Array
from privest.data._arrow import AtRow, arrow, in_threads, numbers, parse, require_utf8, texts
from privest.data._cells import MISSING
from privest.data._reading_options import GROUPED, SEPARATORS, Reading
from privest.data._recoding import STATE_ENCODING, Recoded, encoding_of
from privest.data._source import Columns, FileSource
from privest.data._text_table import MARK, first_rows, found_separator, opened
from privest.errors import DoubtfulNumbers, InvalidInput
from privest.reading import MOST_COLUMNS

PIECE = 1 << 20  # bytes
ROWS_IN_PIECE = 64
LONGEST_ROW = 1 << 26
MARK_BYTES = MARK.encode()


class CsvSource(FileSource):
    """A text table with a header. Cost of a pass: about that of pandas.read_csv.

    A piece is parsed to doubles in one go. If that fails, it is parsed again as text, which either
    knows what to do (true and false, spaces around a missing value) or knows column and row.
    """

    certain = False

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        arrow()  # rather now than at the first block
        self._encoding = reading.encoding or self._marked()
        with self._opened() as file:
            self._header = read_header(file, self.name, reading.separator_of(self.path.name))
        self.columns = self._header.names
        self._doubted: set[str] = set()

    @property
    def separator(self) -> str:
        """What is between the columns, as stated or found."""
        return self._header.separator

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        before = 0
        self._doubt([name for name in columns if name not in text])
        with self._opened() as file:
            found = in_threads(
                partial(self._parsed, columns=columns, text=text),
                pieces(file, self._header, self.name),
            )
            try:
                with closing(found):
                    for chunk in found:
                        yield chunk
                        before += len(chunk[columns[0]])
            except AtRow as bad:
                raise bad.counted_from(before) from None

    def _parsed(self, piece: memoryview, columns: tuple[str, ...], text: frozenset[str]) -> Columns:
        """The columns of some rows. Raises AtRow with rows counted from the first of them."""
        pa = arrow()
        types = {name: pa.string() if name in text else pa.float64() for name in columns}
        try:
            table = self._read(piece, types)
            plain = True
        except pa.ArrowException:
            table = self._read(piece, dict.fromkeys(columns, pa.string()), strict=True)
            plain = False
        found: Columns = {}
        for name in columns:
            column = table.column(name).combine_chunks()
            if name in text:
                require_utf8(column, self._where(name))
                found[name] = texts(column, self._where(name))
            else:
                found[name] = self._numbers(column, name, plain)
        return found

    def _doubt(self, columns: Sequence[str]) -> None:
        """Warn of decimal commas that may be thousands: 139,750 and no 1,5 in the first piece."""
        wanted = [name for name in columns if name not in self._doubted]
        self._doubted.update(wanted)
        if self.reading.decimal != "," or self.reading.thousands is not None or not wanted:
            return
        pa = arrow()
        with self._opened() as file:
            piece = next(pieces(file, self._header, self.name), None)
        if piece is None:
            return
        match = pa.compute.match_substring_regex
        try:
            table = self._read(piece, dict.fromkeys(wanted, pa.string()), strict=True)
        except AtRow:
            return  # said when the rows are read
        for name in wanted:
            cells = pa.compute.utf8_trim_whitespace(table.column(name))
            commas = cells.filter(match(cells, ",").fill_null(False))
            if len(commas) and pa.compute.all(match(commas, GROUPED)).as_py():
                warnings.warn(
                    f"{self._where(name)}: its numbers have three digits after every comma, which "
                    "is read as the decimal comma, as stated: 139,750 is 139.75. If commas stand "
                    'between thousands, say so instead (thousands = ",", --thousands ,); if not, '
                    'say that nothing does (thousands = "none", --thousands none).',
                    DoubtfulNumbers,
                    stacklevel=2,
                )

    def _numbers(self, column: Any, name: str, plain: bool) -> Array:  # noqa: ANN401
        where, reading = self._where(name), self.reading
        if plain:
            return numbers(column, where)
        return parse(column, where, reading, reading.codes(name))

    def _read(self, piece: memoryview, types: dict[str, Any], strict: bool = False) -> Any:  # noqa: ANN401
        """Arrow's table. With `strict` a failure is told in our words: its own may show a cell."""
        pa = arrow()
        try:
            return pa.csv.read_csv(
                pa.py_buffer(piece),
                read_options=pa.csv.ReadOptions(
                    use_threads=False,  # the pieces are in threads
                    block_size=len(piece),
                    column_names=self.columns,
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self._header.separator,
                    newlines_in_values=True,
                    ignore_empty_lines=len(self.columns) > 1,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=MISSING,
                    strings_can_be_null=True,
                    check_utf8=False,
                    decimal_point=self.reading.decimal or ".",
                ),
            )
        except pa.ArrowException:
            if not strict:
                raise
            raise self._ragged(piece) from None

    def _ragged(self, piece: memoryview) -> AtRow | InvalidInput:
        """The first row of another width. Read anew: Arrow's own callback cannot give a row that
        is not UTF-8, and prints so.
        """
        wide = len(self.columns)
        text = io.StringIO(bytes(piece).decode("utf-8", errors="surrogateescape"), newline="")
        between = self._header.separator
        rows = (cells for cells in csv.reader(text, delimiter=between) if cells or wide == 1)
        try:
            for row, cells in enumerate(rows, start=1):
                if len(cells or [""]) != wide:
                    return AtRow(
                        self.name,
                        row,
                        f" (counted from 1 after the header, without blank lines): {len(cells)} "
                        f"fields where the header has {wide}. The columns are taken to have "
                        f"{SEPARATORS[between]} between them (separator, --separator): one in a "
                        f"field needs quotes; or a quote is not closed.{_why_wider(cells, wide)}",
                    )
        except csv.Error:  # a field of more than 128 KiB
            pass
        return InvalidInput(f"{self.name} is not a well-formed CSV file.")

    def _marked(self) -> str:
        with opened(self.path, self.name) as file:
            return encoding_of(file.read(4))

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with opened(self.path, self.name) as file:
            utf8 = self._encoding == "utf-8"
            yield file if utf8 else cast(BinaryIO, Recoded(file, self._encoding, self.name))


@dataclass(frozen=True)
class Header:
    """Column names and what is between them; where the first row starts (bytes); what ends a line;
    how much to parse.
    """

    names: tuple[str, ...]
    separator: str
    start: int
    line_end: bytes
    piece: int


def read_header(file: BinaryIO, name: str, separator: str | None = None) -> Header:
    """From the start of a file; `name` is for messages. A separator that is not given is found."""
    raw = _beyond_the_first_line(file, name)
    mark = len(MARK_BYTES) if raw.startswith(MARK_BYTES) else 0
    if len(raw) > MOST_COLUMNS:
        end = _line_end(raw)
        if any(raw.count(one.encode(), 0, end) >= MOST_COLUMNS for one in SEPARATORS):
            raise InvalidInput(f"{name} has more than {MOST_COLUMNS} columns.")
    # Only the header must be right here; a cell that is not UTF-8 is found with its row later.
    text = raw[mark:].decode("utf-8", errors="surrogateescape")
    try:
        between = separator or found_separator(text)
        names, start, first = first_rows(text, between)
    except csv.Error:  # a NUL, a field of more than 128 KiB
        raise InvalidInput(
            f"{name}: its first lines are not those of a CSV file (binary data, or a quote that is "
            "not closed)."
        ) from None
    if any("\udc80" <= letter <= "\udcff" for letter in "".join(names)):
        raise InvalidInput(f"{name}: the header is not UTF-8 text; {STATE_ENCODING}.")
    before = text[:start].encode("utf-8", errors="surrogateescape")
    longest = max(len(before), sum(len(cell) + 3 for cell in first))
    return Header(
        names=tuple(cell.strip() for cell in names),
        separator=between,
        start=mark + len(before),
        line_end=b"\n" if b"\n" in raw else b"\r",
        piece=max(PIECE, ROWS_IN_PIECE * longest),
    )


def _why_wider(cells: list[str], wide: int) -> str:
    """What else may be wrong with a row that has more fields than the header."""
    if len(cells) == wide + 1 and not cells[-1].strip():
        return " This row ends with a separator and the header does not: add one to the first line."
    if wide == 1 < len(cells):
        return " Lines above the column names must be deleted."
    return ""


def _line_end(raw: bytes) -> int:
    """Where the first line that is not blank ends."""
    found = re.search(rb"[^\s][^\r\n]*", raw)
    return len(raw) if found is None else found.end()


def _beyond_the_first_line(file: BinaryIO, name: str) -> bytes:
    start, wanted = b"", PIECE
    while chunk := file.read(wanted):
        start += chunk
        if b"\n" in start.lstrip() or b"\r" in start.lstrip():
            break
        if len(start) >= LONGEST_ROW:
            raise InvalidInput(f"{name} has no line end in its first {LONGEST_ROW >> 20} MiB.")
        wanted = len(start)
    if not start.removeprefix(MARK_BYTES).strip():
        raise InvalidInput(f"{name} is empty: a table has a line of column names, then its rows.")
    return start


def pieces(file: BinaryIO, header: Header, name: str) -> Iterator[memoryview]:
    """The rest of the file, cut after line ends that are not between quotes.

    Each piece has whole rows, so they can be parsed at the same time. A piece is as long as
    `header.piece`, or a row where that is longer, up to LONGEST_ROW.
    """
    file.seek(header.start)
    rest = b""
    while True:
        buffer = bytearray(len(rest) + header.piece)  # read into: no further copy of the file
        buffer[: len(rest)] = rest
        end = _fill(file, buffer, len(rest))
        last = end < len(buffer)
        cut = end if last else _cut(buffer, header.line_end)
        if cut:
            yield memoryview(buffer)[:cut]
        if last:
            return
        rest = bytes(memoryview(buffer)[cut:])
        if len(rest) > LONGEST_ROW:
            raise InvalidInput(
                f"{name} has a row of more than {LONGEST_ROW >> 20} MiB, or a quote is not closed."
            )


def _fill(file: BinaryIO, buffer: bytearray, start: int) -> int:
    """Read until the buffer is full or the file at its end; packed files come in small parts."""
    view = memoryview(buffer)
    while start < len(buffer):
        count = file.readinto(view[start:])  # type: ignore[attr-defined]
        if not count:
            break
        start += count
    return start


def _cut(data: bytearray, line_end: bytes) -> int:
    """Behind the last line end with an even number of quotes before it; 0 without one."""
    end = data.rfind(line_end)
    while end >= 0 and data.count(b'"', 0, end) % 2:
        end = data.rfind(line_end, 0, data.rfind(b'"', 0, end))
    return end + 1

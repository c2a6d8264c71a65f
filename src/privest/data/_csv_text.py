"""The text of a CSV file: its header, and pieces of whole rows that can be parsed on their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from privest.errors import InvalidInput

PIECE = 1 << 20  # bytes
ROWS_IN_PIECE = 64
LONGEST_ROW = 1 << 26
MARK = b"\xef\xbb\xbf"
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


@dataclass(frozen=True)
class Header:
    """Column names; where the first row starts (bytes); what ends a line; how much to parse."""

    names: tuple[str, ...]
    start: int
    line_end: bytes
    piece: int


def read_header(file: BinaryIO, name: str) -> Header:
    """From the start of a file; `name` is for messages."""
    raw = _beyond_the_first_line(file, name)
    mark = len(MARK) if raw.startswith(MARK) else 0
    # Only the header must be right here; a cell that is not UTF-8 is found with its row later.
    stream = io.StringIO(raw[mark:].decode("utf-8", errors="surrogateescape"), newline="")
    rows = csv.reader(stream)
    try:
        names = next(row for row in rows if row)
        start = stream.tell()
        first = next((row for row in rows if row), [])
    except csv.Error:  # a NUL, a field of more than 128 KiB
        raise InvalidInput(
            f"{name}: its first lines are not those of a CSV file (binary data, or a quote that is "
            "not closed)."
        ) from None
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{name}: the header is not UTF-8 text; save the file as UTF-8."
        ) from None
    if len(names) == 1:
        for separator, word in OTHER_SEPARATORS.items():
            if separator in names[0]:
                raise InvalidInput(
                    f"{name} has {word} between its columns: save it with commas (and points in "
                    "the numbers)."
                )
    before = stream.getvalue()[:start].encode("utf-8", errors="surrogateescape")
    longest = max(len(before), sum(len(cell) + 3 for cell in first))
    return Header(
        names=tuple(names),
        start=mark + len(before),
        line_end=b"\n" if b"\n" in raw else b"\r",
        piece=max(PIECE, ROWS_IN_PIECE * longest),
    )


def _beyond_the_first_line(file: BinaryIO, name: str) -> bytes:
    start, wanted = b"", PIECE
    while chunk := file.read(wanted):
        start += chunk
        if b"\n" in start.lstrip() or b"\r" in start.lstrip():
            break
        if len(start) >= LONGEST_ROW:
            raise InvalidInput(f"{name} has no line end in its first {LONGEST_ROW >> 20} MiB.")
        wanted = len(start)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{name} is UTF-16 text: save it as UTF-8.")
    if not start.removeprefix(MARK).strip():
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

"""Text tables: Arrow's CSV reader behind our header, our numbers and our messages.

The file is cut into blocks of whole rows, which Arrow parses at the same time. (Its streaming
reader can wait for the interpreter while that waits for it.)
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from privest.arrays import Index
from privest.data.arrow import (
    AtRow,
    arrow,
    in_threads,
    numbers,
    parsed_numbers,
    require_utf8,
    texts,
)
from privest.data.cells import MISSING
from privest.data.format import SEPARATORS, STATE_ENCODING, Format
from privest.data.lines import encoding_of, first_rows, found_separator, opened
from privest.data.source import Columns, FileSource
from privest.errors import InvalidInput
from privest.reading import MOST_COLUMNS

HEAD, LONGEST_HEAD = 1 << 16, 1 << 22  # bytes that are looked at for the header
BLOCK = 1 << 20  # bytes that are parsed at once
ROWS_IN_BLOCK = 64
LONGEST_ROW = 1 << 24  # bytes
RAGGED = re.compile(r"CSV parse error: Row #(\d+): Expected \d+ columns, got (\d+): ")


class CsvSource(FileSource):
    """A text table with a header. Blank lines are no rows; in one column they are gaps."""

    columns: tuple[str, ...]

    certain = False
    separator: str

    def __init__(self, path: Path, form: Format) -> None:
        super().__init__(path, form)
        arrow()  # rather now than at the first block
        with opened(path, self.name) as file:
            start = file.read(HEAD)
            while len(start) < LONGEST_HEAD and not re.search(rb"\S\s*[\r\n]", start):
                if not (more := file.read(len(start))):
                    break
                start += more
            whole = not file.read(1)
        self._encoding = form.encoding or encoding_of(start)
        # A cell that is not UTF-8 is found with its row, later.
        errors = "surrogateescape" if self._encoding == "utf-8" else "strict"
        text = self._decoded(codecs.getincrementaldecoder(self._encoding)(errors), start, whole)
        self._header = read_header(text, form.separator_of(self.name), whole, self.name)
        self.columns, self.separator = self._header.names, self._header.separator

    def _decoded(self, decoder: codecs.IncrementalDecoder, part: bytes, final: bool = False) -> str:
        try:
            return decoder.decode(part, final)
        except UnicodeError:
            raise InvalidInput(
                f"{self.name} is not {self._encoding} text: state the `encoding` it was saved in."
            ) from None

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        before = 0
        with opened(self.path, self.name) as file:
            convert = partial(self._columns, columns=columns, text=text)
            try:
                with closing(in_threads(convert, self._whole_rows(file))) as found:
                    for chunk in found:
                        yield chunk
                        before += len(chunk[columns[0]])
            except AtRow as bad:
                raise InvalidInput(f"{bad.where}, row {before + bad.row}{bad.what}") from None

    def _whole_rows(self, file: BinaryIO) -> Iterator[memoryview]:
        """The file after its header, in UTF-8, cut after line ends that are not between quotes."""
        header, rest, left = self._header, b"", self._header.start
        decoder, utf8 = codecs.getincrementaldecoder(self._encoding)(), self._encoding == "utf-8"
        while part := file.read(header.block):
            part = part if utf8 else self._decoded(decoder, part).encode()
            data = rest + part if not left else part[left:]
            left = max(left - len(part), 0)
            edges, cut = quote_edges(data, self.separator), data.rfind(header.line_end) + 1
            while cut and (inside := int(np.searchsorted(edges, cut))) % 2:
                cut = data.rfind(header.line_end, 0, int(edges[inside - 1])) + 1
            if cut:
                yield memoryview(data)[:cut]
            rest = data[cut:]
            if len(rest) > LONGEST_ROW:
                raise InvalidInput(
                    f"{self.name} has a row of more than {LONGEST_ROW >> 20} MiB, or a quote is "
                    "not closed."
                )
        if not utf8:
            self._decoded(decoder, b"", final=True)
        if len(quote_edges(rest, self.separator)) % 2:
            raise InvalidInput(f"{self.name}: a quote is not closed.")  # it would hide later rows
        if rest.strip(b"\r\n"):
            yield memoryview(rest)

    def _columns(
        self, block: memoryview, columns: tuple[str, ...], text: frozenset[str]
    ) -> Columns:
        """The columns of some rows. Numbers in one go, failing that out of texts."""
        pa = arrow()
        table = self._parsed(block, columns, text, pa.float64())
        plain = table is not None
        if not plain:
            table = self._parsed(block, columns, text, pa.string())
        found: Columns = {}
        for name in columns:
            cells, where = table.column(name).combine_chunks(), self._where(name)
            if name in text:
                require_utf8(cells, where)
                found[name] = texts(cells, where)
            elif plain:
                found[name] = numbers(cells, where)
            else:
                found[name] = parsed_numbers(cells, where, self.format, self.format.codes(name))
        return found

    def _parsed(
        self,
        block: memoryview,
        columns: Iterable[str],
        text: frozenset[str],
        other: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Arrow's table, texts as dictionaries; None where cells are not of the type `other`."""
        pa = arrow()
        coded = pa.dictionary(pa.int32(), pa.string())
        types = {name: coded if name in text else other for name in columns}
        try:
            return pa.csv.read_csv(
                pa.py_buffer(block),
                pa.csv.ReadOptions(
                    use_threads=False,  # the blocks are in threads
                    block_size=len(block),
                    column_names=self.columns,
                ),
                pa.csv.ParseOptions(
                    delimiter=self.separator,
                    newlines_in_values=True,
                    ignore_empty_lines=len(self.columns) > 1,
                ),
                pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=MISSING,
                    strings_can_be_null=True,
                    check_utf8=False,
                    decimal_point=self.format.decimal or ".",
                ),
            )
        except pa.ArrowException as error:
            if other == pa.string():
                raise self._malformed(str(error)) from None
            return None

    def _malformed(self, said: str) -> AtRow | InvalidInput:
        found, wide, between = RAGGED.match(said), len(self.columns), self.separator
        if found is None:
            return InvalidInput(f"{self.name} is not a well-formed CSV file.")
        fields, more = int(found[2]), ""
        if fields == wide + 1 and said.endswith(between):
            more = " It ends with a separator and the header does not: add one to the first line."
        elif wide == 1:
            more = " Lines above the column names must be deleted."
        return AtRow(
            self.name,
            int(found[1]),
            f" (counted from 1 after the header, without blank lines): {fields} fields where the "
            f"header has {wide}. The columns have {SEPARATORS[between]} between them, as stated or "
            f"found: one in a field needs quotes; or a quote is not closed.{more}",
        )


def quote_edges(data: bytes, separator: str) -> Index:
    """Where fields in quotes begin and end, in turn; `data` begins with a row.

    A quote within a field that began without one is an ordinary character.
    """
    if b'"' not in data:
        return np.empty(0, dtype=np.intp)
    quotes = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord('"'))
    before = np.frombuffer(b"\n" + data, dtype=np.uint8)[quotes[::2]]
    if np.isin(before, list(f'\r\n"{separator}'.encode())).all():  # no quote is a letter
        return quotes
    sign = re.escape(separator.encode())
    quoted = re.compile(rb'(?:(?<=[\r\n%b])|\A)"[^"]*+(?:""[^"]*+)*+("?)' % sign)
    found = [
        (one.start(), one.end() - 1) if one[1] else (one.start(),) for one in quoted.finditer(data)
    ]
    return np.array([edge for pair in found for edge in pair], dtype=np.intp)


@dataclass(frozen=True)
class Header:
    """Column names, separator, start of the rows (bytes of UTF-8), line end, size of a block."""

    names: tuple[str, ...]
    separator: str
    start: int
    line_end: bytes
    block: int


def read_header(text: str, separator: str | None, whole: bool, name: str) -> Header:
    """From the start of a file; `whole`: it is all of it."""
    mark = len(codecs.BOM_UTF8) * text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise InvalidInput(f"{name} is empty: a table has a line of column names, then its rows.")
    try:
        between = separator or found_separator(text)
        names, end, first = first_rows(text, between)
    except csv.Error:  # a NUL, a field of more than 128 KiB
        raise InvalidInput(
            f"{name}: its first lines are not those of a CSV file (binary data, or a quote that is "
            "not closed)."
        ) from None
    if end == len(text) and not whole:
        raise InvalidInput(f"{name} has no line end in its first {LONGEST_HEAD >> 20} MiB.")
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(f"{name} has more than {MOST_COLUMNS} columns.")
    if any("\udc80" <= letter <= "\udcff" for letter in "".join(names)):
        raise InvalidInput(f"{name}: the header is not UTF-8 text; {STATE_ENCODING}.")
    longest = ROWS_IN_BLOCK * max(end, sum(len(cell) + 3 for cell in first))
    return Header(
        names=tuple(cell.strip() for cell in names),
        separator=between,
        start=len(text[:end].encode("utf-8", "surrogateescape")) + mark,
        line_end=b"\n" if "\n" in text else b"\r",
        block=min(max(BLOCK, longest), LONGEST_ROW),
    )

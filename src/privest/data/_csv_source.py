"""Comma-separated files, plain or compressed, parsed by Arrow in pieces.

Commas between fields, points in numbers, UTF-8 with or without a mark at its start, any line
ending, quotes where a field has commas or line ends. Blank lines do not count as rows; with one
column they are missing values, as nothing else tells them from one.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from privest.data._arrow import AtRow, arrow, numbers, parse, require_utf8, texts
from privest.data._csv_text import pieces, read_header
from privest.data._source import Columns, FileSource
from privest.data._texts import MISSING
from privest.data._threads import in_threads
from privest.errors import InvalidInput


class CsvSource(FileSource):
    """A CSV file with a header. Cost of a pass: about that of pandas.read_csv.

    A piece is parsed to doubles in one go. If that fails, it is parsed again as text, which either
    knows what to do (true and false, spaces around a missing value) or knows column and row.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        arrow()  # rather now than at the first block
        with self._opened() as file:
            self._header = read_header(file, self.name)
        self.columns = self._header.names

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        self.require_unchanged()
        before = 0
        with self._opened() as file:
            found = in_threads(
                partial(self._parsed, columns=columns, text=text),
                pieces(file, self._header, self.name),
            )
            try:
                with closing(found):
                    for block in found:
                        rows = len(block[columns[0]])
                        for start in range(0, rows, size):
                            part = slice(start, start + size)
                            yield {name: column[part] for name, column in block.items()}
                        before += rows
            except AtRow as bad:
                raise bad.counted_from(before) from None
        self.require_unchanged()

    def _parsed(self, piece: memoryview, columns: tuple[str, ...], text: frozenset[str]) -> Columns:
        """The columns of some rows. Raises AtRow with rows counted from the first of them."""
        pa = arrow()
        types = {name: pa.string() if name in text else pa.float64() for name in columns}
        where = {name: f"{self.name}, column {name!r}" for name in columns}
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
                require_utf8(column, where[name])
                found[name] = texts(column, where[name])
            else:
                found[name] = (numbers if plain else parse)(column, where[name])
        return found

    def _read(self, piece: memoryview, types: dict[str, Any], strict: bool = False) -> Any:  # noqa: ANN401
        """Arrow's table. With `strict` a failure is told in our words: its own may show a cell."""
        pa = arrow()
        ragged: list[tuple[int, int]] = []

        def refuse(row: Any) -> str:  # noqa: ANN401
            ragged.append((row.number, row.actual_columns))
            return "error"

        try:
            return pa.csv.read_csv(
                pa.py_buffer(piece),
                read_options=pa.csv.ReadOptions(
                    use_threads=False,  # the pieces are in threads, and `refuse` gets row numbers
                    block_size=len(piece),
                    column_names=self.columns,
                ),
                parse_options=pa.csv.ParseOptions(
                    newlines_in_values=True,
                    ignore_empty_lines=len(self.columns) > 1,
                    invalid_row_handler=refuse,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=MISSING,
                    strings_can_be_null=True,
                    check_utf8=False,
                ),
            )
        except pa.ArrowException:
            if not strict:
                raise
            if not ragged:
                raise InvalidInput(f"{self.name} is not a well-formed CSV file.") from None
            row, fields = ragged[0]
            raise AtRow(
                self.name,
                row,
                f" (counted from 1 after the header, without blank lines): {fields} fields where "
                f"the header has {len(self.columns)}. A comma in a field needs quotes, a number a "
                "decimal point; or a quote is not closed.",
            ) from None

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        name = self.name.lower()
        try:
            if name.endswith(".xz"):
                with lzma.open(self.path) as unpacked:
                    yield cast(BinaryIO, unpacked)
            elif name.endswith(".gz"):
                with gzip.open(self.path) as unzipped:
                    yield cast(BinaryIO, unzipped)
            else:
                with self.path.open("rb") as file:
                    yield file
        except (lzma.LZMAError, EOFError, gzip.BadGzipFile, zlib.error):
            raise InvalidInput(f"{self.name} is damaged, or not what its name says.") from None
        except OSError as error:
            raise InvalidInput(f"{self.name} cannot be read: {error.strerror}.") from None

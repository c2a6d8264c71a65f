"""Columns of Arrow as numpy: numbers with NaN, texts with None; Parquet files.

pyarrow's messages quote cells: none of them is ever shown.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from privest.arrays import Array
from privest.data.cells import MISSING, TRUTHS, Texts, not_numbers
from privest.data.format import STATE_ENCODING, Format
from privest.data.source import Columns, FileSource
from privest.errors import InvalidInput
from privest.lazy import needed
from privest.reading import HELD_WHOLE, size_text

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(4, os.cpu_count() or 1)


def arrow() -> Any:  # noqa: ANN401 - pyarrow has no types
    """pyarrow, or the extra that brings it."""
    why = "CSV and Parquet files need pyarrow"
    pyarrow = needed("pyarrow", why, "data", "; or pass a frame")
    import_module("pyarrow.csv")
    return pyarrow


def compute() -> Any:  # noqa: ANN401
    """pyarrow's functions on columns, which take long to load."""
    import pyarrow.compute

    return pyarrow.compute


def numbers(column: Any, where: str) -> Array:  # noqa: ANN401
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, types = column.type, pa.types
    if types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    ):
        raise not_numbers(where, kind)
    if kind != pa.float64():
        column = column.cast(pa.float64(), safe=False)  # large integers are rounded, as in CSV
    found: Array = column.to_numpy(zero_copy_only=False)
    return found


def texts(column: Any, where: str) -> Texts:  # noqa: ANN401
    """A column as texts, trimmed; numbers as they are written."""
    pa = arrow()
    kind = column.type
    try:
        if pa.types.is_duration(kind):  # whole numbers, of a unit nobody sees
            raise TypeError
        if not pa.types.is_dictionary(kind):
            column = column.dictionary_encode()
        distinct = column.dictionary
        if distinct.type != pa.string():
            distinct = distinct.cast(pa.string())
        distinct.validate(full=True)
    except (pa.ArrowException, TypeError):  # lists, bytes, not UTF-8
        raise InvalidInput(f"{where} holds {kind}, not texts.") from None
    codes = column.indices.to_numpy(zero_copy_only=False)
    if column.null_count:  # floats, with NaN
        codes = np.where(np.isnan(codes), -1, codes)
    return Texts.of(distinct.to_pylist(), codes.astype(np.int32, copy=False))


def parsed(column: Any, form: Format) -> tuple[Any, Any]:  # noqa: ANN401
    """Numbers out of trimmed texts in this format, correctly rounded; and which are none."""
    pa, pc = arrow(), compute()
    if form.plain:
        try:
            return column.cast(pa.float64()), pa.repeat(False, len(column))
        except pa.ArrowInvalid:
            pass
    lower = pc.utf8_lower(column)
    for word, value in TRUTHS.items():
        column = pc.if_else(pc.equal(lower, word), str(int(value)), column)
    bad = pc.invert(pc.match_substring_regex(column, form.pattern)).fill_null(False)
    column = pc.if_else(bad, None, column)
    if not form.plain:
        column = pc.replace_substring(column, ",", ".")
    return column.cast(pa.float64()), bad


class AtRow(Exception):
    where: str
    row: int
    what: str

    def __init__(self, where: str, row: int, what: str) -> None:
        super().__init__()
        self.where, self.row, self.what = where, row, what


def parsed_numbers(column: Any, where: str, form: Format, codes: Sequence[str]) -> Array:  # noqa: ANN401
    """Numbers out of the cells of a text file; the first that is none raises AtRow."""
    pa, pc = arrow(), compute()
    require_utf8(column, where)
    column = pc.utf8_trim_whitespace(column)
    column = pc.if_else(pc.is_in(column, pa.array([*MISSING, *codes])), None, column)
    found, bad = parsed(column, form)
    row = pc.index(bad, True).as_py()
    if row >= 0:
        raise AtRow(where, row + 1, f": {form.not_a_number(column[row].as_py())}.")
    return numbers(found, where)


def require_utf8(column: Any, where: str) -> None:  # noqa: ANN401
    """Raise AtRow at the first cell that is not UTF-8."""
    pa = arrow()
    coded = pa.types.is_dictionary(column.type)
    try:
        (column.dictionary if coded else column).validate(full=True)
    except pa.ArrowInvalid:
        cells = column.dictionary_decode() if coded else column
        for row, cell in enumerate(cells.view(pa.binary()).to_pylist(), start=1):
            try:
                (cell or b"").decode()
            except UnicodeDecodeError:
                raise AtRow(where, row, f": not UTF-8 text; {STATE_ENCODING}.") from None


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result]:
    """As map(work, items), in order; at most THREADS + 1 items wait."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # left early, or an error: nobody waits for the rest
            for future in waiting:
                future.cancel()


class ParquetSource(FileSource):
    """A Parquet file."""

    def __init__(self, path: Path, form: Format) -> None:
        super().__init__(path, form)
        with self._opened() as file:
            schema = file.schema_arrow
        types = arrow().types
        self.columns: tuple[str, ...] = tuple(schema.names)
        self._strings = {
            field.name
            for field in schema
            if types.is_string(field.type) or types.is_large_string(field.type)
        }

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        with self._opened(text & self._strings) as file:
            self._require_readable(file, columns, text)
            batches = file.iter_batches(size, columns=list(columns), use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (arrow().ArrowException, OSError):
                    raise self._damaged("a Parquet file") from None
                if batch is None:
                    break
                yield {
                    name: (texts if name in text else numbers)(batch[name], self._where(name))
                    for name in columns
                }

    def _require_readable(
        self,
        file: Any,  # noqa: ANN401
        columns: tuple[str, ...],
        text: frozenset[str],
    ) -> None:
        """Refuse by types and sizes, before a page is unpacked: a dictionary is held whole."""
        for name in columns:
            none = arrow().array([], file.schema_arrow.field(name).type)
            (texts if name in text else numbers)(none, self._where(name))
        for place in range(len(file.schema)):
            if (name := file.schema.column(place).name) not in columns:
                continue
            for group in range(file.num_row_groups):
                chunk = file.metadata.row_group(group).column(place)
                packs_texts = chunk.physical_type == "BYTE_ARRAY"
                if packs_texts and chunk.total_uncompressed_size > HELD_WHOLE:
                    raise InvalidInput(
                        f"{self._where(name)} has more than {size_text(HELD_WHOLE)} of texts in a "
                        "row group: write smaller row groups, or leave the column out."
                    )

    def _opened(self, text: Collection[str] = ()) -> Any:  # noqa: ANN401
        pa = arrow()
        try:
            # A buffer instead of whole column chunks: a row group may be as large as the file.
            # Texts come as codes, the way they are stored where they repeat.
            from pyarrow.parquet import ParquetFile

            return ParquetFile(
                self.path, buffer_size=1 << 16, pre_buffer=False, read_dictionary=list(text)
            )
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise self._damaged("a Parquet file") from None

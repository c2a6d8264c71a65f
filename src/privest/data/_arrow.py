"""Arrow columns as numpy: numbers with NaN, texts with None; Parquet files.

pyarrow is imported when needed. Arrow and numpy let go of the interpreter while they parse, cast
and format: work on blocks pays in a few threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from privest.arrays import Array
from privest.data._cells import MISSING, TRUTHS, Spelled, Texts
from privest.data._dates import dates_held, durations_held
from privest.data._reading_options import THOUSANDS, Reading
from privest.data._recoding import STATE_ENCODING
from privest.data._source import Columns, FileSource
from privest.errors import InvalidInput, MissingDependency

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(4, os.cpu_count() or 1)


def arrow() -> Any:  # noqa: ANN401 - pyarrow has no types
    """pyarrow, with the parts used here, or the extra that brings it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as missing:
        raise MissingDependency(
            "CSV and Parquet files need pyarrow: install the extra 'data', for example with "
            'pip install ".[data]" in the source folder; or pass a frame.'
        ) from missing
    return pyarrow


def numbers(column: Any, name: str) -> Array:  # noqa: ANN401
    """A column of numbers or booleans as float64. `name` is where it is, for the message."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        if pa.types.is_temporal(kind):
            raise InvalidInput((durations_held if pa.types.is_duration(kind) else dates_held)(name))
        raise InvalidInput(
            f"{name} holds {kind}, not numbers: convert it first, or give it a public list of "
            "categories."
        )
    floats = column.cast(pa.float64(), safe=False)  # large integers are rounded, as in a CSV file
    found: Array = floats.to_numpy(zero_copy_only=False)
    return found


def texts(column: Any, name: str) -> Texts:  # noqa: ANN401
    """A column as texts, trimmed; numbers as they are written. No Python object a text.

    Arrow trims what Python's `strip` trims (tests/unit/data holds that for every character).
    """
    pa = arrow()
    kind, pc = column.type, pa.compute
    given = pa.types.is_dictionary(kind)  # a file's own: it may name a text twice
    if pa.types.is_duration(kind):  # Arrow writes them as whole numbers, of a unit nobody sees
        raise InvalidInput(durations_held(name))
    try:
        if not given:
            column = column.dictionary_encode()
        distinct = column.dictionary.cast(pa.string())
        distinct.validate(full=True)
        trimmed = pc.utf8_trim_whitespace(distinct)
    except pa.ArrowException:  # lists, bytes, not UTF-8
        raise InvalidInput(f"{name} holds {kind}, not texts.") from None
    codes = column.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    gap = pc.is_in(trimmed, pa.array(MISSING, pa.string()), skip_nulls=False)
    if given or trimmed.null_count or pc.any(gap).as_py() or not trimmed.equals(distinct):
        again = pc.if_else(gap, None, trimmed).dictionary_encode()
        trimmed = again.dictionary
        places = again.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
        codes = np.append(places, np.int32(-1))[codes]
    return Texts(_spelled(trimmed), codes)


def _spelled(column: Any) -> Spelled:  # noqa: ANN401
    """Texts of Arrow, none of them missing."""
    _, ends, data = column.buffers()
    count = len(column) + 1
    offsets = np.frombuffer(ends, dtype=np.int32, count=count, offset=4 * column.offset)
    held = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    start, stop = int(offsets[0]), int(offsets[-1])
    return Spelled(held[start:stop], (offsets - start).astype(np.intp))


class AtRow(Exception):
    """Something is wrong in a row, which is counted from the first of a block until it is known
    where that block is.
    """

    def __init__(self, where: str, row: int, what: str) -> None:
        super().__init__()
        self.where, self.row, self.what = where, row, what

    def counted_from(self, before: int) -> InvalidInput:
        """The error to show, with `before` rows before the block."""
        return InvalidInput(f"{self.where}, row {before + self.row}{self.what}")


def parse(column: Any, name: str, reading: Reading, gaps: Collection[str] = ()) -> Array:  # noqa: ANN401
    """Numbers out of texts: spaces around, the words true and false (any case), gaps.

    `reading`: how numbers are written; `gaps`: what else stands for a missing value. The first cell
    that is none of these raises AtRow.
    """
    pa = arrow()
    pc = pa.compute
    require_utf8(column, name)
    column = pc.utf8_trim_whitespace(column)
    column = pc.if_else(pc.is_in(column, pa.array([*MISSING, *gaps])), None, column)
    column = _with_truths(column)
    bad = pc.invert(pc.match_substring_regex(column, reading.pattern)).fill_null(False)
    row = pc.index(bad, True).as_py()
    if row >= 0:
        raise AtRow(name, row + 1, f": {reading.not_a_number(column[row].as_py())}.")
    return numbers(_with_points(column, reading).cast(pa.float64()), name)


def spelled_numbers(texts: Spelled, reading: Reading) -> Array:
    """The number that each text is, as `parse` reads it; NaN where it is none."""
    pa = arrow()
    pc = pa.compute
    ends, data = pa.py_buffer(texts.offsets.astype(np.int32)), pa.py_buffer(texts.data)
    column = pa.Array.from_buffers(pa.string(), len(texts), [None, ends, data])
    try:
        if reading.plain:  # in one go, where all of them are
            return numbers(column.cast(pa.float64()), "")
    except pa.ArrowException:
        pass
    column = _with_truths(column)
    written = pc.match_substring_regex(column, reading.pattern)
    column = _with_points(pc.if_else(written, column, None), reading)
    return numbers(column.cast(pa.float64()), "")


def _with_truths(column: Any) -> Any:  # noqa: ANN401
    """The words true and false, in any case, as the numbers they stand for."""
    pc = arrow().compute
    lower = pc.utf8_lower(column)
    for word, value in TRUTHS.items():
        column = pc.if_else(pc.equal(lower, word), str(int(value)), column)
    return column


def _with_points(column: Any, reading: Reading) -> Any:  # noqa: ANN401
    """Numbers as Arrow reads them, from those that match the pattern."""
    pc = arrow().compute
    if reading.thousands:
        column = pc.replace_substring_regex(column, THOUSANDS[reading.thousands], "")
    return pc.replace_substring(column, ",", ".") if reading.decimal == "," else column


def require_utf8(column: Any, name: str) -> None:  # noqa: ANN401
    """Raise AtRow at the first cell that is not UTF-8."""
    pa = arrow()
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        for row, cell in enumerate(column.view(pa.binary()).to_pylist()):  # on failure only
            try:
                (cell or b"").decode()
            except UnicodeDecodeError:
                what = f": not UTF-8 text; {STATE_ENCODING}."
                raise AtRow(name, row + 1, what) from None
        raise


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS
) -> Generator[Result]:
    """As map(work, items); the caller's thread takes the items, up to `threads` + 1 ahead."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # left early, or an error: nobody waits for the rest
            for future in waiting:
                future.cancel()


class ParquetSource(FileSource):
    """A Parquet file. Memory of a pass: a block, and one page a column of the columns read."""

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        with self._opened() as file:
            schema = file.schema_arrow
        self.columns = tuple(schema.names)
        self._strings = {field.name for field in schema if _is_string(field.type)}

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        pa = arrow()
        with self._opened(text & self._strings) as file:
            batches = file.iter_batches(size, columns=list(columns), use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError):
                    raise self._damaged() from None
                if batch is None:
                    break
                yield {
                    name: (texts if name in text else numbers)(
                        batch.column(name), self._where(name)
                    )
                    for name in columns
                }

    def _opened(self, text: Collection[str] = ()) -> Any:  # noqa: ANN401
        pa = arrow()
        try:
            # A buffer instead of whole column chunks: a row group may be as large as the file.
            # Texts come as codes, the way they are stored where they repeat.
            return pa.parquet.ParquetFile(
                self.path, buffer_size=1 << 16, pre_buffer=False, read_dictionary=list(text)
            )
        except UnicodeDecodeError:
            raise InvalidInput(f"{self.name}: its column names are not UTF-8 text.") from None
        except (pa.ArrowException, OSError):
            raise self._damaged() from None

    def _damaged(self) -> InvalidInput:
        return InvalidInput(f"{self.name} is damaged, or not a Parquet file.")


def _is_string(kind: Any) -> bool:  # noqa: ANN401
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))

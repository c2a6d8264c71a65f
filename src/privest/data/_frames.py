"""Tables as vectors of Python objects or numpy: pandas and polars frames, mappings of names to
vectors, and SAS transport files, which pyreadstat gives as lists.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_double
from privest.data._cells import Texts, is_missing
from privest.data._dates import DAYS, dates_held, durations_held, is_date
from privest.data._reading_options import Reading
from privest.data._source import Columns, FileSource, Source
from privest.errors import InvalidInput, MissingDependency

CELLS = 1 << 21  # of a transport file in a chunk; each is a Python object on its way


class _InMemory(Source):
    rows: int

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        for start in range(0, self.rows, size):
            stop = min(start + size, self.rows)
            yield {
                name: self._text(name, start, stop)
                if name in text
                else self._number(name, start, stop)
                for name in columns
            }

    def _wrong(self, name: str, kind: object, *, dates: bool = False) -> InvalidInput:
        if dates:
            return InvalidInput(dates_held(self._where(name)))
        return InvalidInput(
            f"{self._where(name)} has type {kind}, not numbers: convert it, or give it a public "
            "list of categories."
        )

    @abstractmethod
    def _number(self, name: str, start: int, stop: int) -> Array: ...

    @abstractmethod
    def _text(self, name: str, start: int, stop: int) -> Texts: ...


class PandasSource(_InMemory):
    """A pandas frame: numpy, nullable, Arrow and categorical columns; the index is ignored."""

    def __init__(self, frame: Any) -> None:  # noqa: ANN401
        self.frame, self.name, self.rows = frame, "pandas frame", len(frame)
        self.columns = tuple(str(name) for name in frame.columns)

    def _part(self, name: str, start: int, stop: int) -> Any:  # noqa: ANN401
        return self.frame.iloc[start:stop, self.columns.index(name)]

    def _number(self, name: str, start: int, stop: int) -> Array:
        part = self._part(name, start, stop)
        kind = part.dtype
        if kind.name == "category":
            kind = kind.categories.dtype
            part = part.astype(object)
        if kind.kind == "O" or part.dtype == object:
            return object_numbers(part.to_numpy(dtype=object), self._where(name), start)
        if kind.kind not in "biuf":
            raise self._wrong(name, kind, dates=kind.kind in "mM")
        with np.errstate(all="ignore"):  # as in `object_numbers`
            found: Array = part.to_numpy(dtype=np.float64, na_value=np.nan)
        return found

    def _text(self, name: str, start: int, stop: int) -> Texts:
        part = self._part(name, start, stop)
        try:
            codes, distinct = part.factorize()
        except TypeError:
            raise self._wrong(name, part.dtype) from None
        return Texts.of(list(distinct), codes)


class PolarsSource(_InMemory):
    """A polars frame; null and NaN are missing."""

    def __init__(self, frame: Any) -> None:  # noqa: ANN401
        self.frame, self.name, self.rows = frame, "polars frame", frame.height
        self.columns = tuple(frame.columns)

    def _part(self, name: str, start: int, stop: int) -> Any:  # noqa: ANN401
        return self.frame.get_column(name).slice(start, stop - start)

    def _number(self, name: str, start: int, stop: int) -> Array:
        import polars

        part = self._part(name, start, stop)
        if not (part.dtype.is_numeric() or part.dtype in (polars.Boolean, polars.Null)):
            raise self._wrong(name, part.dtype, dates=part.dtype.is_temporal())
        found: Array = part.cast(polars.Float64).to_numpy()
        return found

    def _text(self, name: str, start: int, stop: int) -> Texts:
        import polars

        part = self._part(name, start, stop)
        if part.dtype.is_nested():
            raise self._wrong(name, part.dtype)
        if part.dtype == polars.Duration:  # polars has no texts for them
            raise InvalidInput(durations_held(self._where(name)))
        cells = np.array(part.cast(polars.String).to_list(), dtype=object)
        return object_texts(cells, self._where(name))


class ArraySource(_InMemory):
    """Vectors by name, all of one length: numbers, booleans, texts; None and NaN are missing."""

    def __init__(self, columns: Mapping[Any, ArrayLike], name: str) -> None:
        self.name = name
        self.columns = tuple(str(key) for key in columns)
        self._vectors = [np.asarray(column) for column in columns.values()]
        shapes = {vector.shape for vector in self._vectors}
        if any(isinstance(column, np.ma.MaskedArray) for column in columns.values()):
            raise InvalidInput(f"{name} has a masked array: write NaN where a value is missing.")
        if len(shapes) != 1 or any(len(shape) != 1 for shape in shapes):
            raise InvalidInput(
                f"{name} must have one or more columns that are vectors of one length; received "
                f"shapes {sorted(shapes)}."
            )
        self.rows = len(self._vectors[0])

    def _number(self, name: str, start: int, stop: int) -> Array:
        part = self._vectors[self.columns.index(name)][start:stop]
        return object_numbers(part, self._where(name), start)

    def _text(self, name: str, start: int, stop: int) -> Texts:
        part = self._vectors[self.columns.index(name)][start:stop]
        return object_texts(part, self._where(name))


class TransportSource(FileSource):
    """A SAS transport file (.xpt), in chunks of rows. Special values (.A to .Z) are missing.

    pandas' reader turns 0.0 into 5.4e-79; pyreadstat does not. It cannot seek: to read a chunk it
    reads all rows before it, so chunks are larger than blocks. A file of many millions of rows is
    better converted to Parquet once.
    """

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading)
        self.columns = tuple(self._read(metadataonly=True)[1].column_names)
        if not all(isinstance(name, str) for name in self.columns):  # None: of a damaged file
            raise self._damaged()

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        chunk = max(size, CELLS // len(columns))
        before, rows = 0, chunk
        while rows == chunk:
            found, _ = self._read(usecols=list(columns), row_offset=before, row_limit=chunk)
            rows = len(next(iter(found.values()), ()))
            yield {name: self._column(found[name], name, name in text, before) for name in columns}
            before += rows

    def _column(self, values: Sequence[Any], name: str, text: bool, before: int) -> Any:  # noqa: ANN401
        where, column = self._where(name), np.asarray(values)
        return object_texts(column, where) if text else object_numbers(column, where, before)

    def _read(self, **options: Any) -> tuple[dict[str, Any], Any]:  # noqa: ANN401
        try:
            import pyreadstat
        except ImportError as missing:
            raise MissingDependency(
                "SAS transport files need pyreadstat: install the extra 'data', for example with "
                'pip install ".[data]" in the source folder; or convert the table to .csv.'
            ) from missing
        try:
            found: tuple[dict[str, Any], Any] = pyreadstat.read_xport(
                str(self.path), output_format="dict", **options
            )
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError):
            raise self._damaged() from None
        return found

    def _damaged(self) -> InvalidInput:
        return InvalidInput(f"{self.name} is damaged, or not a SAS transport file.")


def object_numbers(column: AnyArray, where: str, before: int) -> Array:
    """An array of any type as float64; objects must be numbers, booleans or missing."""
    if column.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # longer doubles, signalling NaN: no word of a value
            return column.astype(np.float64, copy=False)
    if column.dtype.kind in "mM":
        raise InvalidInput(dates_held(where))
    if column.dtype.kind != "O":
        raise InvalidInput(
            f"{where} has type {column.dtype}, not numbers: convert it, or give it a public list "
            "of categories."
        )
    found = np.empty(len(column))
    for row, value in enumerate(column):  # objects allow nothing faster
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            found[row] = np.nan if is_missing(value) else as_double(value)
        except (TypeError, ValueError):
            todo = "convert the column, or give it a public list of categories"
            raise InvalidInput(
                f"{where}, row {before + row + 1}: not a number but {type(value).__name__}; "
                f"{DAYS if is_date(value) else todo}."
            ) from None
    return found


def object_texts(column: AnyArray, where: str) -> Texts:
    """An array of any type as texts."""
    try:
        found = Texts.encode((column.astype(str) if column.dtype.kind == "S" else column).tolist())
    except TypeError:
        raise InvalidInput(f"{where} holds lists or other containers, not texts.") from None
    return found

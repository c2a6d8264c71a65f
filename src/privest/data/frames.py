"""Tables in memory: pandas and polars frames, and mappings of names to vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_double
from privest.data.arrow import arrow, numbers, texts
from privest.data.cells import DAYS, Texts, not_numbers, is_date, is_missing
from privest.data.source import Columns, Source
from privest.errors import InvalidInput


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
            raise _wrong_type(self._where(name), kind)
        with np.errstate(all="ignore"):  # as in `object_numbers`
            found: Array = part.to_numpy(dtype=np.float64, na_value=np.nan)
        return found

    def _text(self, name: str, start: int, stop: int) -> Texts:
        part = self._part(name, start, stop)
        try:
            codes, distinct = part.factorize()
        except TypeError:
            raise _wrong_type(self._where(name), part.dtype) from None
        return Texts.encode([*distinct, None])[codes]  # missing: −1


class PolarsSource(_InMemory):
    """A polars frame, by Arrow; null and NaN are missing."""

    def __init__(self, frame: Any) -> None:  # noqa: ANN401
        self.frame, self.name, self.rows = frame, "polars frame", frame.height
        self.columns = tuple(frame.columns)

    def _part(self, name: str, start: int, stop: int) -> Any:  # noqa: ANN401
        arrow()
        return self.frame.get_column(name).slice(start, stop - start).to_arrow()

    def _number(self, name: str, start: int, stop: int) -> Array:
        return numbers(self._part(name, start, stop), self._where(name))

    def _text(self, name: str, start: int, stop: int) -> Texts:
        return texts(self._part(name, start, stop), self._where(name))


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


def object_numbers(column: AnyArray, where: str, before: int) -> Array:
    """An array of any type as float64; objects must be numbers, booleans or missing."""
    if column.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # longer doubles, signalling NaN: no word of a value
            return column.astype(np.float64, copy=False)
    if column.dtype.kind != "O":
        raise _wrong_type(where, column.dtype)
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


def _wrong_type(where: str, kind: Any) -> InvalidInput:  # noqa: ANN401 - numpy's, or pandas' own
    return not_numbers(where, kind)

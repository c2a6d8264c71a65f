"""One table, read in blocks of rows, as often as needed, wherever it lies.

Messages name columns, row numbers and counts, never what a cell holds.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from privest.arrays import AnyArray, Array
from privest.data.cells import Texts, absent_columns, composed
from privest.data.format import Format, as_format
from privest.errors import InvalidInput
from privest.reading import LONGEST_TEXT

Columns: TypeAlias = dict[str, AnyArray | Texts]

SIZE = 65_536  # rows of a block
EMBEDDED = "diabetes"
TEXT, PACKED = (".csv", ".tsv", ".txt"), (".gz", ".xz")
OTHERS = (".parquet", ".xlsx")
ENDINGS = (*TEXT, *(f"{kind}{packed}" for kind in TEXT for packed in PACKED), *OTHERS)


class Stamp(NamedTuple):
    """The state of a file, by which one sees that it was changed or replaced."""

    path: str
    size: int
    changed: int
    number: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        try:
            found = path.stat()
        except OSError as error:
            raise InvalidInput(f"{path.name} cannot be read: {error.strerror}.") from None
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns, found.st_ino)


class Source(ABC):
    """A table with named columns, readable several times from its start.

    columns   in their order; a repeated name cannot be read. Names are compared in Unicode's NFC.
    certain   `columns` are names; a CSV file without a header has a person's data there.
    stamp     of its file, when it was opened; None where it is no file.
    size      rows of a block.
    """

    name: str
    columns: tuple[str, ...]
    certain: ClassVar[bool] = True
    format: Format = Format()
    stamp: Stamp | None = None
    separator: str | None = None
    sheets: tuple[str, ...] = ()
    size: int = SIZE

    def blocks(
        self, columns: Sequence[str], *, text: Collection[str] = (), size: int | None = None
    ) -> Iterator[Columns]:
        """These columns, block by block from the first row, at most `size` rows each.

        Numbers are float64 with NaN where missing; columns in `text` are `Texts`.
        """
        wanted = tuple(dict.fromkeys(columns))
        if isinstance(columns, str) or not wanted or not set(text) <= set(wanted):
            raise InvalidInput(
                f"{self.name}: columns must be a list of names, and text part of it."
            )
        self.require(wanted)
        held = {name: self._named[composed(name)][0] for name in wanted}
        inside = frozenset(held[name] for name in text)
        blocks = self._blocks(tuple(dict.fromkeys(held.values())), inside, size or self.size)
        if not self.format.missing_codes and all(name == own for name, own in held.items()):
            return blocks
        return (
            {name: self.format.without_codes(block[own], own) for name, own in held.items()}
            for block in blocks
        )

    def read(self, columns: Sequence[str]) -> dict[str, Array]:
        blocks = list(self.blocks(columns))
        return {
            name: np.concatenate([np.empty(0), *(np.asarray(block[name]) for block in blocks)])
            for name in columns
        }

    @abstractmethod
    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]: ...

    def _where(self, column: str) -> str:
        return f"{self.name}, column {column!r}"

    def require(self, wanted: Sequence[str]) -> None:
        count = {name: len(self._named.get(composed(name), ())) for name in wanted}
        absent = [name for name in wanted if not count[name]]
        if absent:
            said = absent_columns(absent, self.columns, certain=self.certain)
            others = ", ".join(map(repr, self.sheets[1:])) if self.format.sheet is None else ""
            first = f" Its first sheet was read; there are also {others}: state the `sheet`."
            raise InvalidInput(f"{self.name} has {said}{first if others else ''}")
        repeated = ", ".join(repr(name) for name in wanted if count[name] > 1)
        if repeated:
            raise InvalidInput(
                f"{self.name} has more than one column called {repeated}: rename them."
            )

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        """The columns by their names as people see them."""
        found: dict[str, list[str]] = {}
        for own in self.columns:
            found.setdefault(composed(own), []).append(own)
        return found


class FileSource(Source):
    """A file; every pass reads the same one."""

    name: str
    format: Format

    path: Path

    def __init__(self, path: Path, form: Format) -> None:
        self.path, self.name, self.format = path, path.name, form
        self.stamp: Stamp = Stamp.of(path)

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        self._require_unchanged()
        for chunk in self._chunks(columns, text, size):
            for start in range(0, len(chunk[columns[0]]), size):
                yield {name: column[start : start + size] for name, column in chunk.items()}
        self._require_unchanged()

    @abstractmethod
    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        """Rows in parts of any length, which `_blocks` cuts to `size`."""

    def _require_unchanged(self) -> None:
        """Two passes over different rows would calibrate one table and release another."""
        if Stamp.of(self.path) != self.stamp:
            raise InvalidInput(f"{self.name} was changed while it was in use: start again.")

    def _damaged(self, kind: str) -> InvalidInput:
        return InvalidInput(f"{self.name} is damaged, or not {kind}.")


def open_source(data: object, format: Format | Mapping[str, Any] | None = None) -> Source:
    """The source of a file (`ENDINGS`), a frame, arrays, a `Table` or the embedded table.

    >>> source = open_source({"age": [50, 61], "sex": ["male", None]})
    >>> next(source.blocks(["sex"], text=["sex"]))["sex"].tolist()
    ['male', None]
    """
    stated = as_format(format)
    if isinstance(data, Source):
        if stated not in (Format(), data.format):
            raise InvalidInput(f"{data.name} is open already, and its format is stated there.")
        return data
    found = _opened(data, stated)
    if any(len(name) > LONGEST_TEXT for name in found.columns):
        raise InvalidInput(
            f"{found.name}: the name of a column has more than {LONGEST_TEXT} letters."
        )
    found.format = stated
    found.require(stated.coded_columns)
    return found


def stamp_of(data: object) -> Stamp | None:
    """The stamp of what `open_source` takes; None where it is no file."""
    if isinstance(data, Source):
        return data.stamp
    if not isinstance(data, (str, os.PathLike)) or os.fspath(data) == EMBEDDED:
        return None
    return Stamp.of(Path(os.fsdecode(data)))


def _opened(data: object, form: Format) -> Source:
    from privest.data.frames import (
        FEATURES,
        RESPONSE,
        ArraySource,
        DaskSource,
        PandasSource,
        PolarsSource,
        Table,
        load_diabetes,
    )

    if isinstance(data, (str, os.PathLike)) and os.fspath(data) != EMBEDDED:
        return _open_file(os.fspath(data), form)
    if isinstance(data, str):
        table = load_diabetes()
        return ArraySource(
            dict(zip(FEATURES, table.features.T)) | {RESPONSE: table.response}, EMBEDDED
        )
    if isinstance(data, Table):
        named = dict(zip(data.feature_names, data.features.T))
        return ArraySource(named | {data.response_name: data.response}, data.source)
    if isinstance(data, Mapping):
        return ArraySource(data, "the table")
    # A frame exists only if its library is loaded: no import, and none is needed.
    kinds: dict[str, type[Any]] = {
        "pandas": PandasSource,
        "polars": PolarsSource,
        "dask.dataframe": DaskSource,
    }
    for library, kind in kinds.items():
        module = sys.modules.get(library)
        if module is not None and isinstance(data, module.DataFrame):
            found: Source = kind(data)
            return found
    raise InvalidInput(
        "data must be a path, a pandas, polars or Dask DataFrame (not a LazyFrame), a mapping of "
        f"names to vectors, or a table of privest.data; received {type(data).__name__}."
    )


def _open_file(given: str | bytes, form: Format) -> Source:
    from privest.data.arrow import ParquetSource
    from privest.data.csv_file import CsvSource
    from privest.data.xlsx import WorkbookSource

    if given == "-":
        raise InvalidInput(
            "standard input can be read only once, and a plan reads its data more often (to check, "
            "to bound, to release): save it as a file and name that."
        )
    path = Path(os.fsdecode(given))
    ending = require_ending(path.name)
    if not path.is_file():
        kind = "is not a file" if path.exists() else "does not exist"
        raise InvalidInput(f"{path} {kind}: name a {ending} file.")
    others: dict[str, type[FileSource]] = {".parquet": ParquetSource, ".xlsx": WorkbookSource}
    return others.get(ending, CsvSource)(path, form)


def ending_of(name: str) -> str | None:
    """The ending that says which kind of table a file is; None: none of them."""
    return next((one for one in ENDINGS if name.lower().endswith(one)), None)


def require_ending(name: str) -> str:
    found = ending_of(name)
    if found is None:
        raise InvalidInput(
            f"{name!r}: a table can be {', '.join(TEXT)} (these also {' or '.join(PACKED)}), "
            f"{', '.join(OTHERS)}, or the word {EMBEDDED}. Save it as .csv or .xlsx."
        )
    return found

"""Parquet files, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from privest.data._arrow import arrow, numbers, texts
from privest.data._source import Columns, FileSource
from privest.errors import InvalidInput


class ParquetSource(FileSource):
    """A Parquet file. Memory of a pass: a block, and one page a column of the columns read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._opened() as file:
            schema = file.schema_arrow
        self.columns = tuple(schema.names)
        self._strings = {field.name for field in schema if _is_string(field.type)}

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        self.require_unchanged()
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
                yield {name: self._column(batch, name, name in text) for name in columns}
        self.require_unchanged()

    def _column(self, batch: Any, name: str, text: bool) -> Any:  # noqa: ANN401
        column, where = batch.column(name), f"{self.name}, column {name!r}"
        return texts(column, where) if text else numbers(column, where)

    def _opened(self, text: Collection[str] = ()) -> Any:  # noqa: ANN401
        pa = arrow()
        try:
            # A buffer instead of whole column chunks: a row group may be as large as the file.
            # Texts come as codes, the way they are stored where they repeat.
            return pa.parquet.ParquetFile(
                self.path, buffer_size=1 << 16, pre_buffer=False, read_dictionary=list(text)
            )
        except (pa.ArrowException, OSError):
            raise self._damaged() from None

    def _damaged(self) -> InvalidInput:
        return InvalidInput(f"{self.name} is damaged, or not a Parquet file.")


def _is_string(kind: Any) -> bool:  # noqa: ANN401
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))

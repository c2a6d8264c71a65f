"""SAS transport files (.xpt) through pyreadstat, in chunks of rows.

pandas' reader turns 0.0 into 5.4e-79; pyreadstat does not. It cannot seek: to read a chunk it reads
all rows before it, so chunks are larger than blocks. A file of many millions of rows is better
converted to Parquet once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privest.data._frames import object_numbers, object_texts
from privest.data._source import Columns, FileSource
from privest.errors import InvalidInput, MissingDependency

CELLS = 1 << 21  # in a chunk; each is a Python object on its way


class TransportSource(FileSource):
    """A SAS transport file. Special missing values (.A to .Z) are missing."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.columns = tuple(self._read(metadataonly=True)[1].column_names)

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        self.require_unchanged()
        chunk = max(size, CELLS // len(columns))
        before, rows = 0, chunk
        while rows == chunk:
            found, _ = self._read(usecols=list(columns), row_offset=before, row_limit=chunk)
            rows = len(next(iter(found.values()), ()))
            block = {
                name: self._column(found[name], name, name in text, before) for name in columns
            }
            for start in range(0, rows, size):
                yield {name: column[start : start + size] for name, column in block.items()}
            before += rows
        self.require_unchanged()

    def _column(self, values: Sequence[Any], name: str, text: bool, before: int) -> Any:  # noqa: ANN401
        where, column = f"{self.name}, column {name!r}", np.asarray(values)
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
            raise InvalidInput(f"{self.name} is damaged, or not a SAS transport file.") from None
        return found

"""SAS transport files (.xpt), in chunks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privest.data.format import Format
from privest.data.frames import object_numbers, object_texts
from privest.data.source import Columns, FileSource
from privest.lazy import needed

CELLS = 1 << 21  # in a chunk; each is a Python object on its way


class TransportSource(FileSource):
    """A SAS transport file. Special values (.A to .Z) are missing.

    pandas' reader turns 0.0 into 5.4e-79; pyreadstat does not, but for a chunk it reads all rows
    before it: chunks are large.
    """

    def __init__(self, path: Path, form: Format) -> None:
        super().__init__(path, form)
        self.columns = tuple(self._read(metadataonly=True)[1].column_names)
        if not all(isinstance(name, str) for name in self.columns):  # None: of a damaged file
            raise self._damaged("a SAS transport file")

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        chunk = max(size, CELLS // len(columns))
        before, rows = 0, chunk
        while rows == chunk:
            found, _ = self._read(usecols=list(columns), row_offset=before, row_limit=chunk)
            rows = len(next(iter(found.values()), ()))
            held = {name: np.asarray(found[name]) for name in columns}
            yield {
                name: object_texts(cells, self._where(name))
                if name in text
                else object_numbers(cells, self._where(name), before)
                for name, cells in held.items()
            }
            before += rows

    def _read(self, **options: Any) -> tuple[dict[str, Any], Any]:  # noqa: ANN401
        why = "SAS transport files need pyreadstat"
        pyreadstat = needed("pyreadstat", why, "data", "; or convert the table to .csv")
        try:
            found: tuple[dict[str, Any], Any] = pyreadstat.read_xport(
                str(self.path), output_format="dict", **options
            )
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError):
            raise self._damaged("a SAS transport file") from None
        return found

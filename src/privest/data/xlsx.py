"""Sheets of a workbook (.xlsx): the values stored in the cells, not the formulas."""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from privest.data.cells import Texts
from privest.data.format import Format
from privest.data.frames import object_numbers
from privest.data.source import Columns, FileSource
from privest.errors import InvalidInput
from privest.lazy import needed
from privest.reading import HELD_WHOLE, MOST_COLUMNS

ROWS = 8192  # in a chunk; each cell is a Python object on its way
MOST_ROWS = 1 << 20  # of a sheet, by the format; a damaged file may claim others
LARGEST = 1 << 31  # bytes of a sheet: a million rows of 50 columns
SHEETS = "xl/worksheets/"  # the parts that are read row by row; all others are held whole
PART = 1 << 18  # bytes
LONGEST_ROW = 1 << 24  # bytes of XML: 100 times what Excel's 16,384 columns of numbers take
LONGEST_CELL = 32_767  # letters, Excel's own limit
ROW = re.compile(rb"<(?:\w+:)?row[\s/>]")

Row = tuple[Any, ...]


class WorkbookSource(FileSource):
    """A sheet of a workbook, its first row with a value the header; blank rows do not count."""

    certain = False

    def __init__(self, path: Path, form: Format) -> None:
        super().__init__(path, form)
        self._require_size()
        with self._rows() as rows:
            header = next(rows, None)
        if header is None:
            raise InvalidInput(
                f"{self.name} is empty: a table has a row of column names, then its rows."
            )
        if len(header) > MOST_COLUMNS:
            raise InvalidInput(f"{self.name} has more than {MOST_COLUMNS} columns.")
        names = ["" if cell is None else str(cell).strip() for cell in header]
        self.columns: tuple[str, ...] = tuple(
            names[: max(k for k, cell in enumerate(names, 1) if cell)]
        )

    def _chunks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        before, form = 0, self.format
        with self._rows() as rows:
            next(rows)
            while chunk := list(islice(rows, ROWS)):
                found: Columns = {}
                for name in columns:
                    k = self.columns.index(name)
                    cells = [row[k] if k < len(row) else None for row in chunk]
                    if name in text:
                        found[name] = Texts.encode([_as_text(cell) for cell in cells])
                        continue
                    held = np.empty(len(cells), dtype=object)
                    held[:] = cells
                    found[name] = object_numbers(
                        held, self._where(name), before, form, form.codes(name)
                    )
                yield found
                before += len(chunk)

    @contextmanager
    def _rows(self) -> Iterator[Iterator[Row]]:
        why = ".xlsx files need openpyxl"
        openpyxl = needed("openpyxl", why, "data", "; or save the table as .csv")
        options = {"read_only": True, "data_only": True, "keep_links": False}
        with self.path.open("rb") as file:  # by name, it would be left open where it is damaged
            book = self._asked(lambda: openpyxl.load_workbook(file, **options))
            try:
                sheet = self._asked(lambda: self._sheet(book))
                rows = self._asked(lambda: sheet.iter_rows(1, min_col=1, values_only=True))
                yield self._filled(rows)
            finally:
                book.close()

    def _sheet(self, book: Any) -> Any:  # noqa: ANN401
        """The one that is asked for, or the first."""
        sheets = {sheet.title: sheet for sheet in book.worksheets}
        self.sheets: tuple[str, ...] = tuple(sheets)
        wanted = self.format.sheet or next(iter(sheets), "of cells")
        if wanted not in sheets:
            listed = ", ".join(map(repr, sheets)) or "none"
            raise InvalidInput(f"{self.name} has no sheet {wanted!r}. There are: {listed}.")
        sheets[wanted].reset_dimensions()  # what the file claims of its size may be wrong
        return sheets[wanted]

    def _filled(self, rows: Iterator[Row]) -> Iterator[Row]:
        for count in range(MOST_ROWS + 1):
            row = self._asked(lambda: next(rows, None))
            if row is None:
                return
            if count == MOST_ROWS:
                raise self._damaged("an .xlsx workbook")
            if any(isinstance(cell, str) and len(cell) > LONGEST_CELL for cell in row):
                raise InvalidInput(
                    f"{self.name}: a cell has more than {LONGEST_CELL:,} letters, the most that "
                    "Excel allows: shorten it."
                )
            if any(cell is not None and cell != "" for cell in row):
                yield row

    def _asked(self, ask: Callable[[], Any]) -> Any:  # noqa: ANN401
        """openpyxl's answer, without its warnings; any error is a damaged file."""
        silence_openpyxl()
        try:
            return ask()
        except InvalidInput:
            raise
        except Exception:  # it raises what it meets: of XML, of zip, KeyError, TypeError ...
            raise self._damaged("an .xlsx workbook") from None

    def _require_size(self) -> None:
        """Refuse a workbook too large to read, by the sizes in its archive."""
        with self._asked(lambda: ZipFile(self.path)) as parts:
            sizes = {part.filename: part.file_size for part in parts.infolist()}
            sheets = [name for name in sizes if name.startswith(SHEETS)]
            held = sum(size for name, size in sizes.items() if name not in sheets)
            if held > HELD_WHOLE or max(sizes.values(), default=0) > LARGEST:
                raise self._too_large("a sheet, or its texts and styles, are too large")
            for name in sheets:
                self._asked(partial(self._require_rows, parts, name))

    def _require_rows(self, parts: ZipFile, name: str) -> None:
        """Refuse a row that is too long to be held at once."""
        before, since = b"", 0
        with parts.open(name) as sheet:
            while data := sheet.read(PART):
                since = 0 if ROW.search(data) else since + len(data)
                # A section or an entity (<!) may be longer than it looks.
                if since > LONGEST_ROW or b"<!" in before + data:
                    raise self._too_large("a row is too long")
                before = data[-1:]

    def _too_large(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"{self.name}: {what} for a workbook: save the table as .csv or .parquet."
        )


def silence_openpyxl() -> None:
    """No more warnings of openpyxl, which quote cells; `catch_warnings` is not safe in threads."""
    warnings.filterwarnings("ignore", module=r"openpyxl\.")


def _as_text(cell: object) -> object:
    """A cell as it is seen: whole numbers without a point, days without a time of 0:00."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date()
    return cell

"""Columns of a table in a file: SAS transport (.xpt) or comma-separated (.csv, .csv.xz)."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput, MissingDependency

ENDINGS = (".xpt", ".csv", ".csv.xz")
MISSING = ("", "NA", "NaN", ".")


def find_table(folder: Path, stem: str) -> Path | None:
    """The file of a table in a folder, whatever the case of its name; .xpt before .csv."""
    wanted = [(stem + ending).lower() for ending in ENDINGS]
    present = {path.name.lower(): path for path in folder.iterdir() if path.is_file()}
    return next((present[name] for name in wanted if name in present), None)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """These columns, in the order of the rows; NaN where a value is missing.

    Transport files are read with pyreadstat: pandas' reader turns 0.0 into 5.4e-79.
    """
    name = path.name.lower()
    if name.endswith(".xpt"):
        return _read_transport(path, names)
    if name.endswith((".csv", ".csv.xz")):
        return _read_csv(path, names)
    raise InvalidInput(f"{path}: a table can be {', '.join(ENDINGS)}.")


def _read_transport(path: Path, names: Sequence[str]) -> dict[str, Array]:
    try:
        import pyreadstat
    except ImportError as missing:
        raise MissingDependency(
            "SAS transport files need pyreadstat: install the extra 'data', for example with "
            'pip install ".[data]" in the source folder; or convert the tables to .csv.'
        ) from missing
    try:
        found, _ = pyreadstat.read_xport(str(path), output_format="dict")
    except pyreadstat.ReadstatError as bad:
        raise InvalidInput(f"{path} is not a SAS transport file ({bad}).") from None
    _require(path, names, list(found))
    try:
        return {name: np.asarray(found[name], dtype=float) for name in names}
    except (TypeError, ValueError):
        raise InvalidInput(f"{path}: one of {', '.join(names)} does not hold numbers.") from None


def _read_csv(path: Path, names: Sequence[str]) -> dict[str, Array]:
    with _opened(path) as text:
        lines = csv.reader(text)
        header = next(lines, [])
        _require(path, names, header)
        places = [header.index(name) for name in names]
        columns: list[list[float]] = [[] for _ in names]
        for line in lines:
            if not line:
                continue
            if len(line) != len(header):
                raise InvalidInput(
                    f"{path}, line {lines.line_num}: {len(line)} fields where the heading has "
                    f"{len(header)}."
                )
            for column, place, name in zip(columns, places, names):
                column.append(_number(line[place], path, lines.line_num, name))
    return {name: np.array(column) for name, column in zip(names, columns)}


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        if path.name.lower().endswith(".xz"):
            with lzma.open(path, "rt", encoding="utf-8", newline="") as text:
                yield text
        else:
            with path.open(encoding="utf-8-sig", newline="") as text:
                yield text
    except (lzma.LZMAError, EOFError, UnicodeDecodeError, csv.Error):
        raise InvalidInput(f"{path} is damaged, or not what its name says.") from None


def _number(text: str, path: Path, line: int, name: str) -> float:
    if text.strip() in MISSING:
        return np.nan
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{path}, line {line}: {name} is not a number.") from None


def _require(path: Path, names: Sequence[str], present: Sequence[str]) -> None:
    absent = [name for name in names if name not in present]
    if absent:
        raise InvalidInput(
            f"{path} has no column {', '.join(absent)}; it has {len(present)} columns."
        )

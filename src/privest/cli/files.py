"""Numbers from the command line: a number, or a CSV file of numbers."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput


def read_table(path: Path, name: str) -> tuple[Array, list[str] | None]:
    """A matrix from a CSV file, one row a line, and the column names if the first line has them.

    A first line without any number in it is taken for names. Errors name the file, the line and
    the column, never the content of a cell.
    """
    if not path.exists():
        raise InvalidInput(f"{name}: there is no file {path}.")
    if not path.is_file():
        raise InvalidInput(f"{name}: {path} is not a file.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            first = next(csv.reader(lines), [])
            names = [cell.strip() for cell in first] if _is_header(first) else None
            skip = 0 if names is None else 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty file is reported below
            matrix = np.loadtxt(
                path, delimiter=",", ndmin=2, skiprows=skip, comments=None, encoding="utf-8-sig"
            )
    except UnicodeDecodeError:
        raise InvalidInput(f"{name}: {path} is not a text file in UTF-8.") from None
    except OSError as error:
        raise InvalidInput(f"{name}: {path} cannot be read ({error.strerror}).") from None
    except ValueError:
        raise InvalidInput(_what_is_wrong(path, name, skip)) from None
    if matrix.size == 0:
        raise InvalidInput(f"{name}: {path} holds no numbers.")
    return matrix, names


def read_value(text: str, name: str) -> Array | float:
    """A number, or the content of a CSV file: one row or column is a vector, else a matrix."""
    try:
        return float(text)
    except ValueError:
        matrix, _ = read_table(Path(text), name)
    return matrix.ravel() if 1 in matrix.shape else matrix


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_header(cells: list[str]) -> bool:
    return bool(cells) and all(cell.strip() and not _is_number(cell) for cell in cells)


def _what_is_wrong(path: Path, name: str, skip: int) -> str:
    """Name the first bad place of a file that could not be read as numbers."""
    width = None
    with path.open(newline="", encoding="utf-8-sig") as lines:
        for number, cells in enumerate(csv.reader(lines), start=1):
            if number <= skip or not cells:
                continue
            for column, cell in enumerate(cells, start=1):
                if not _is_number(cell):
                    what = "is empty" if not cell.strip() else "is not a number"
                    return f"{name}: {path}, line {number}, column {column} {what}."
            if width is not None and len(cells) != width:
                return (
                    f"{name}: {path}, line {number} has {len(cells)} columns; "
                    f"the lines before have {width}."
                )
            width = len(cells)
    return f"{name}: {path} is not a CSV file of numbers."

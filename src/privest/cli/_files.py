"""Numbers from the command line: a number, or a CSV file of numbers."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput


def read_table(source: str) -> tuple[Array, list[str] | None]:
    """A matrix from a CSV file ("-": standard input), and its column names if it has any.

    One row a line. A first line in which every cell starts like a word is taken for names. Errors
    name the line and the column, never the content of a cell.
    """
    text = _read(source)
    try:
        first = next(csv.reader(io.StringIO(text)), [])
    except csv.Error:
        raise InvalidInput("not a CSV file of numbers.") from None
    names = [cell.strip() for cell in first] if _is_header(first) else None
    body = text.split("\n", 1)[1] if names and "\n" in text else "" if names else text
    if not body.strip():
        raise InvalidInput("the file holds no numbers.")
    try:
        matrix = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2, comments=None)
    except ValueError:
        matrix = None
    if matrix is None or not np.isfinite(matrix).all():
        raise InvalidInput(_first_fault(text, skip=0 if names is None else 1))
    if names is not None and len(names) != matrix.shape[1]:
        raise InvalidInput(
            f"the first line names {len(names)} columns; the others have {matrix.shape[1]}."
        )
    return matrix, names


def read_value(text: str) -> Array | float:
    """A number, or the content of a CSV file: one row or column is a vector, else a matrix."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        exists = text == "-" or (text != "" and Path(text).exists())
    except OSError:
        exists = False
    if not exists:
        raise InvalidInput("neither a number nor an existing file.")
    matrix, _ = read_table(text)
    return matrix.ravel() if 1 in matrix.shape else matrix


def _read(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InvalidInput("there is no such file.") from None
    except IsADirectoryError:
        raise InvalidInput("this is a folder, not a file.") from None
    except UnicodeDecodeError:
        raise InvalidInput("not a text file in UTF-8.") from None
    except OSError as error:
        raise InvalidInput(f"the file cannot be read ({error.strerror}).") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_header(cells: list[str]) -> bool:
    return bool(cells) and all(
        cell.strip() and not _is_number(cell) and cell.strip()[0] not in "0123456789+-.;"
        for cell in cells
    )


def _first_fault(text: str, skip: int) -> str:
    """The first place that keeps the file from being a matrix of finite numbers."""
    width = None
    for number, cells in enumerate(csv.reader(io.StringIO(text)), start=1):
        if number <= skip or not cells:
            continue
        for column, cell in enumerate(cells, start=1):
            where = f"line {number}, column {column}"
            if not cell.strip():
                return f"{where} is empty."
            if not _is_number(cell):
                if any(mark in cell.strip() for mark in (";", "\t", " ")):
                    return f"{where}: columns must be separated by commas, decimals by points."
                return f"{where} is not a number."
            if not np.isfinite(float(cell)):
                return f"{where} must be finite; it is NaN or an infinity."
        if width is not None and len(cells) != width:
            return f"line {number} has {len(cells)} columns; the lines before have {width}."
        width = len(cells)
    return "not a CSV file of numbers."

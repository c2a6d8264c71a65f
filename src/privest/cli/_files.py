"""Numbers from the command line: a number, or a CSV file of numbers."""

from __future__ import annotations

from pathlib import Path

from privest.arrays import Array
from privest.data._cells import is_number
from privest.data._text_table import open_lines, read_matrix
from privest.errors import InvalidInput


def read_table(source: str) -> tuple[Array, list[str] | None]:
    """A matrix from a CSV file ("-": standard input), and its column names if it has any."""
    with open_lines(source) as lines:
        return read_matrix(lines)


def read_value(text: str) -> Array | float:
    """A number, or the content of a CSV file: one row or column is a vector, else a matrix."""
    if is_number(text):
        return float(text)
    try:
        exists = text == "-" or (text != "" and Path(text).exists())
    except OSError:
        exists = False
    if not exists:
        raise InvalidInput("neither a number nor an existing file.")
    matrix, _ = read_table(text)
    return matrix.ravel() if 1 in matrix.shape else matrix

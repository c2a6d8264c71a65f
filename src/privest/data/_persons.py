"""Whose row it is: persons numbered 1, 2, ... by first appearance, and how many rows each has."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index
from privest.data._cells import Texts


class Persons:
    """The numbers of persons, and their rows so far.

    A person is a text, trimmed: "007" and "7" are two. Memory: a text and a number a person,
    whatever the number of rows.

    >>> persons = Persons()
    >>> persons.numbers(Texts.encode(["b", "a", "b"])).tolist(), persons.count
    ([1, 2, 1], 2)
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.rows: Index = np.zeros(0, dtype=np.intp)  # of person 1, 2, ...

    @property
    def count(self) -> int:
        """How many persons were met."""
        return len(self._known)

    def numbers(self, cells: Texts) -> Index:
        """The numbers of these rows, from 1; nobody is missing there. Rows are not counted yet."""
        present, first = np.unique(cells.codes, return_index=True)
        table = np.zeros(len(cells.distinct), dtype=np.intp)
        for code in present[np.argsort(first)].tolist():
            name = cells.distinct[code]
            table[code] = self._known.setdefault(name, len(self._known) + 1)
        return table[cells.codes]

    def add(self, numbers: Index) -> Index:
        """Count these rows; how many rows of the same person were before each of them."""
        grown = np.zeros(max(self.count, len(self.rows)), dtype=np.intp)
        grown[: len(self.rows)] = self.rows
        before = grown[numbers - 1] + ranks(numbers)
        self.rows = grown + np.bincount(numbers - 1, minlength=len(grown))
        return before

    @property
    def most(self) -> int:
        """Of the rows of one person."""
        return int(self.rows.max(initial=0))


def ranks(labels: Array | Index) -> Index:
    """For every entry, how many equal ones are before it.

    >>> ranks(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    sizes = np.diff(np.r_[starts, len(ordered)])
    found = np.empty(len(order), dtype=np.intp)
    found[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    return found

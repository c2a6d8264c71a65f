"""Persons with several rows: a number for each, and the rows that each has."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index
from privest.data.cells import Texts


class Persons:
    """Persons: their numbers 1, 2, … by first appearance, and their rows so far.

    A person is a text, trimmed: "007" and "7" are two.

    >>> Persons().numbers(Texts.encode(["b", "a", "b"])).tolist()
    [1, 2, 1]
    """

    def __init__(self, before: Persons | None = None) -> None:
        self._known: dict[str | None, int] = {} if before is None else before._known
        self._places: Index = np.zeros(self.count, dtype=np.intp)

    @property
    def count(self) -> int:
        return len(self._known)

    def numbers(self, cells: Texts) -> Index:
        """The numbers of these rows, from 1. Rows are not counted yet."""
        places, first = np.unique(cells.codes, return_index=True)
        table = np.zeros(len(cells.distinct), dtype=np.intp)
        for place in places[np.argsort(first)].tolist():
            table[place] = self._known.setdefault(cells.distinct[place], self.count + 1)
        return np.asarray(table[cells.codes])

    def add(self, numbers: Index) -> Index:
        """Count these rows; how many rows of the same person were before each of them."""
        self._grow()
        before = self.rows[numbers - 1] + ranks(numbers)
        self.tally(numbers)
        return before

    def tally(self, numbers: Index) -> None:
        self._grow()
        np.add.at(self.rows, numbers - 1, 1)

    def _grow(self) -> None:
        if self.count > len(self._places):
            grown = np.zeros(2 * self.count, dtype=np.intp)
            grown[: len(self._places)] = self._places
            self._places = grown

    @property
    def rows(self) -> Index:
        return self._places[: self.count]

    @property
    def most(self) -> int:
        return int(self.rows.max(initial=0))


def ranks(labels: Array | Index) -> Index:
    """For every entry, how many equal ones are before it."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    sizes = np.diff(np.r_[starts, len(ordered)])
    found = np.empty(len(order), dtype=np.intp)
    found[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    return found

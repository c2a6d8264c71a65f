"""Whose row it is: persons numbered 1, 2, ... by first appearance, and how many rows each has."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index
from privest.data._cells import Texts
from privest.data._known_names import KnownNames


class Persons:
    """The numbers of persons, and their rows so far.

    A person is a text, trimmed: "007" and "7" are two. Memory: a text and a number a person,
    whatever the number of rows. `before`: of an earlier pass over the same rows, with its numbers.

    >>> persons = Persons()
    >>> persons.numbers(Texts.encode(["b", "a", "b"])).tolist(), persons.count
    ([1, 2, 1], 2)
    """

    def __init__(self, before: Persons | None = None) -> None:
        self._known: KnownNames = KnownNames() if before is None else before._known
        self._places: Index = np.zeros(self.count, dtype=np.intp)

    @property
    def count(self) -> int:
        """How many persons were met."""
        return self._known.count

    def numbers(self, cells: Texts) -> Index:
        """The numbers of these rows, from 1; nobody is missing there. Rows are not counted yet."""
        names, codes = cells.spelled()
        order = _first_seen(codes, len(names))
        table = np.zeros(len(names), dtype=np.intp)
        table[order] = self._known.numbers(names, order)
        return np.asarray(table[codes])

    def add(self, numbers: Index) -> Index:
        """Count these rows; how many rows of the same person were before each of them."""
        self._grow()
        before = self.rows[numbers - 1] + ranks(numbers)
        self.tally(numbers)
        return before

    def tally(self, numbers: Index) -> None:
        """Count these rows."""
        self._grow()
        if not len(numbers):
            return
        low, high = int(numbers.min()) - 1, int(numbers.max())  # near each other in most files
        self.rows[low:high] += np.bincount(numbers - 1 - low, minlength=high - low)

    def _grow(self) -> None:
        """Places for all persons, and for as many again: a block costs no copy of all of them."""
        if self.count > len(self._places):
            grown = np.zeros(2 * self.count, dtype=np.intp)
            grown[: len(self._places)] = self._places
            self._places = grown

    @property
    def rows(self) -> Index:
        """Of person 1, 2, ..., so far."""
        return self._places[: self.count]

    @property
    def most(self) -> int:
        """Of the rows of one person."""
        return int(self.rows.max(initial=0))


def _first_seen(codes: Index, distinct: int) -> Index:
    """The codes that are there, in the order in which they first are."""
    first = np.full(distinct, len(codes), dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment stays: the first place
    present = np.flatnonzero(first < len(codes))
    return np.asarray(present[np.argsort(first[present])])


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

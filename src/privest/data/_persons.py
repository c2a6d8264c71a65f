"""Whose row it is: persons numbered 1, 2, ... by first appearance, and how many rows each has."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index
from privest.data._cells import Texts


class Persons:
    """The numbers of persons, and their rows so far.

    A person is a text, trimmed: "007" and "7" are two. Memory: a text and a number a person,
    whatever the number of rows. `before`: of an earlier pass over the same rows, with its numbers.

    >>> persons = Persons()
    >>> persons.numbers(Texts.encode(["b", "a", "b"])).tolist(), persons.count
    ([1, 2, 1], 2)
    """

    def __init__(self, before: Persons | None = None) -> None:
        self._known: _Numbers = _Numbers() if before is None else before._known
        self.rows: Index = np.zeros(0, dtype=np.intp)  # of person 1, 2, ...

    @property
    def count(self) -> int:
        """How many persons were met."""
        return len(self._known)

    def numbers(self, cells: Texts) -> Index:
        """The numbers of these rows, from 1; nobody is missing there. Rows are not counted yet."""
        order = _first_seen(cells.codes, len(cells.distinct))
        names = cells.distinct[order]
        table = np.zeros(len(cells.distinct), dtype=np.intp)
        table[order] = np.fromiter(map(self._known.__getitem__, names), np.intp, len(names))
        return np.asarray(table[cells.codes])

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


class _Numbers(dict[str, int]):
    """The next number for who is not known yet; looked up without a step of Python a name."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self) + 1
        return number


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

"""Persons with several rows: a number for each, and the rows that each has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privest.arrays import Array, Index
from privest.data.cells import Texts

Keys = NDArray[np.uint64]
LEAST = 1 << 10  # places of the table


class Persons:
    """Persons: their numbers 1, 2, ... by first appearance, their rows so far.

    A person is a text, trimmed: "007" and "7" are two. Texts are compared by a 64-bit hash. At 10⁶
    persons two share one with probability 10⁻⁷; they are then one person, with no less protection.
    Memory: some ten numbers per person. `before`: an earlier pass over the same rows, whose numbers
    are used.

    >>> persons = Persons()
    >>> persons.numbers(Texts.encode(["b", "a", "b"])).tolist(), persons.count
    ([1, 2, 1], 2)
    """

    def __init__(self, before: Persons | None = None) -> None:
        self._known: Numbering = Numbering() if before is None else before._known
        self._places: Index = np.zeros(self.count, dtype=np.intp)

    @property
    def count(self) -> int:
        """How many persons were met."""
        return self._known.count

    def numbers(self, cells: Texts) -> Index:
        """The numbers of these rows, from 1; nobody is missing there. Rows are not counted yet."""
        codes, keys = cells.codes, cells.words.keys
        first = np.full(len(keys), len(codes))
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment stays
        present = np.flatnonzero(first < len(codes))
        table = np.zeros(len(keys), dtype=np.intp)
        table[present] = self._known.numbers(keys[present], first[present])
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
        np.add.at(self.rows, numbers - 1, 1)

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
        """Rows of the person who has most."""
        return int(self.rows.max(initial=0))


class Numbering:
    """Numbers 1, 2, ... for keys that are random: a hash table, at most half full."""

    def __init__(self) -> None:
        self.count = 0
        self._keys, self._number = np.zeros(LEAST, np.uint64), np.zeros(LEAST, np.intp)

    def numbers(self, keys: Keys, order: Index) -> Index:
        """Of these keys; the new ones get the next numbers, by their `order`."""
        found = self._find(keys)
        new = np.flatnonzero(found == 0)
        if len(new):
            new = new[np.argsort(order[new])]
            different, first, back = np.unique(keys[new], return_index=True, return_inverse=True)
            fresh = np.empty(len(first), dtype=np.intp)
            fresh[np.argsort(first)] = np.arange(len(first)) + self.count + 1
            found[new] = fresh[back]
            self.count += len(first)
            if 2 * self.count > len(self._keys):
                here = self._number > 0
                different = np.concatenate([self._keys[here], different])
                fresh = np.concatenate([self._number[here], fresh])
                places = 1 << (2 * self.count).bit_length()
                self._keys, self._number = np.zeros(places, np.uint64), np.zeros(places, np.intp)
            self._put(different, fresh)
        return found

    def _find(self, keys: Keys) -> Index:
        """Their numbers; 0 for an unknown key. A key lies at its home, or beyond others there."""
        found = np.zeros(len(keys), dtype=np.intp)
        left, at = np.arange(len(keys)), self._home(keys)
        while len(left):
            number, same = self._number[at], self._keys[at] == keys[left]
            found[left[same]] = number[same]
            other = (number > 0) & ~same
            left, at = left[other], self._next(at[other])
        return found

    def _put(self, keys: Keys, numbers: Index) -> None:
        """Different keys that are not there."""
        left, at = np.arange(len(keys)), self._home(keys)
        while len(left):
            free = self._number[at] == 0
            self._number[at[free]] = numbers[left[free]]  # of several at one place one stays
            there = free & (self._number[at] == numbers[left])
            self._keys[at[there]] = keys[left[there]]
            left, at = left[~there], self._next(at[~there])

    def _home(self, keys: Keys) -> Index:
        return (keys & np.uint64(len(self._keys) - 1)).astype(np.intp)

    def _next(self, at: Index) -> Index:
        return (at + 1) & (len(self._keys) - 1)


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

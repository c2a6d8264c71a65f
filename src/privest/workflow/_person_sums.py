"""Sums of whole persons from a table in blocks: held for all of them, or as the table goes by."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.estimator.inference import group_sums
from privest.workflow._column import Column
from privest.workflow._held import HELD

Rows = Iterator[tuple[Array, Index]]  # X (rows, m), and the number of each row's person, from 1
TOGETHER = 4096  # persons at a time: their sums stay in cache
SIZE = 1 << 16  # rows at a time


class Scattered(Exception):
    """The rows of a person are not one after another."""


class PersonSums:
    """XᵀX (m, m) of every person, to be gone through as often as needed.

    rows    opens the table anew: blocks of X (rows, m) with the persons' numbers.
    people  how many there are, m the width of X.

    Few persons (HELD numbers): their sums are kept, and the table is read once. Many, with their
    rows one after another (numbers never go down): only a block is kept, and the table is read for
    every pass. Many and scattered (`Scattered` is raised on the way): `hold` keeps the sums of all
    of them, m² numbers a person; `in_order` all rows.
    """

    def __init__(self, rows: Callable[[], Rows], people: int, width: int) -> None:
        self._rows, self.people, self.width = rows, people, width
        self._held: Array | None = None
        self._keep = people * width**2 <= HELD

    def hold(self) -> None:
        """From now on keep the sums of all persons."""
        self._keep = True

    def __iter__(self) -> Iterator[Array]:
        """Sums (some persons, m, m), one person after another; each person once."""
        return self.turned(None)

    def turned(self, by: Array | None) -> Iterator[Array]:
        """Sums of the rows X·by, by (m, m); None: of X."""
        if not self._keep:
            yield from self._streamed(by)
            return
        if self._held is None:
            self._held = self._gathered()
        for at in range(0, self.people, TOGETHER):
            part = self._held[at : at + TOGETHER]
            yield part if by is None else by.T @ part @ by

    def _gathered(self) -> Array:
        sums = np.zeros((self.people, self.width, self.width))
        for X, numbers in self._rows():
            self._require_known(numbers)
            present, place = np.unique(numbers, return_inverse=True)
            sums[present - 1] += group_sums(X, place, len(present))
        return sums

    def _streamed(self, by: Array | None) -> Iterator[Array]:
        """Persons as they end; the one that is open at the end of a block goes on in the next."""
        last, rest = 0, np.zeros((self.width, self.width))
        for X, numbers in self._rows():
            self._require_known(numbers)
            steps = np.diff(numbers)
            if numbers[0] < last or (steps < 0).any():
                raise Scattered
            first = numbers[0]
            sums = group_sums(X if by is None else X @ by, *_places(steps))
            if first == last:
                sums[0] += rest
            elif last:
                sums = np.concatenate([rest[None], sums])
            last, rest = int(numbers[-1]), sums[-1].copy()
            yield sums[:-1]
        if last:
            yield rest[None]

    def _require_known(self, numbers: Index) -> None:
        if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= self.people:
            raise InvalidInput(
                f"the column of persons has numbers beyond 1 to {self.people}, which its header "
                "states: it was changed."
            )


def _places(steps: Index) -> tuple[Index, int]:
    """Which of the different numbers each of ascending ones is, and how many there are."""
    place = np.zeros(len(steps) + 1, dtype=np.intp)
    np.cumsum(steps > 0, out=place[1:])
    return place, int(place[-1]) + 1


def in_order(blocks: Rows) -> Callable[[], Rows]:
    """The same rows, all of them in memory, those of a person one after another."""
    parts, held = zip(*blocks)
    numbers = np.concatenate(held)
    order = np.argsort(numbers, kind="stable")
    rows, numbers = np.concatenate(parts)[order], numbers[order]
    return lambda: (
        (rows[at : at + SIZE], numbers[at : at + SIZE]) for at in range(0, len(rows), SIZE)
    )


def as_numbers(column: Array) -> Index:
    """Numbers of persons, as a table holds them."""
    numbers = column.astype(np.intp)
    if not (numbers == column).all():
        raise InvalidInput("the column of persons holds other than whole numbers: it was changed.")
    return numbers


def readings_of(column: Column, z: Array, numbers: Array) -> Array:
    """Readings with their noise, from z̃/√s of all rows of a table."""
    assert column.person is not None
    which = as_numbers(numbers)
    rows = column.person.rows if column.person.capped else np.bincount(which)[which]
    return np.asarray(z * np.sqrt(rows))

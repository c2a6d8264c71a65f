"""How the rows of persons leave: their level, their cap, and whole persons together under B.

Under A a row leaves when it is read, once the rows of every person are counted (one pass over the
column of persons; none with a cap, where the level of a row does not depend on them). Under B a
person leaves when all of the rows are there: rows of persons that are not complete are kept, one
person's where a table is sorted by person, all rows of a table at worst where they are scattered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data._persons import Persons
from privest.errors import InvalidInput
from privest.mechanism.source import Source
from privest.workflow._modelled import clipped, extended
from privest.workflow._person import count_persons, rows_of_persons
from privest.workflow._planning import Plan
from privest.workflow._same_table import table_of
from privest.workflow._terms import Terms


class LeavingPeople:
    """The rows of a table as they leave, block by block: features, the person's number, z.

    `dropped`: rows left out so far, for gaps; how many are beyond a cap is what the cap is there to
    hide, and is not counted. `readings`: a digest, as of a table whose rows are persons, of those
    beyond the cap too. `persons`: how many there are.
    """

    def __init__(self, plan: Terms, source: Source, data: object) -> None:
        if not isinstance(plan, Plan):
            raise InvalidInput("rows of persons are released under a plan: make_plan(spec).")
        self.plan, self.spec, self.source = plan, plan.spec, source
        self.data = table_of(plan, data)
        column = plan.column
        assert plan.spec.person is not None
        assert column.person is not None
        self.column, self.rows = column, column.person
        self.most = plan.spec.person.most
        self.mechanism = column.person.mechanism(column.level, column.limits)
        self.dropped, self.readings, self.persons = 0, [hashlib.sha256()], 0
        self.expected = self._counted()

    def _counted(self) -> Index | None:
        """How many rows of each person will leave; None where it does not matter."""
        if self.rows.capped:
            return None
        counts = count_persons(self.spec, self.data, readings=True).rows
        if self.most is not None:
            counts = np.minimum(counts, self.most)
        largest = int(counts.max())
        if largest > self.rows.rows:  # under a cap too, if nobody was near it in the plan
            raise InvalidInput(
                f"{self.data.name}: a person has {largest:,} rows, and the plan was made for "
                f"{self.rows.rows:,} at most: plan for these data."
            )
        return counts

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """The columns of each block, in the order of the header's `table_columns`."""
        leave = self._one_by_one if self.rows.design == "A" else self._together
        first = int(self.spec.design.intercept)
        for H, numbers, z in leave():
            yield [*H.T[first:], numbers.astype(float), z]

    def _kept(self) -> Iterator[tuple[Array, Index, Array]]:
        """Rows that leave: H, the persons' numbers in the data, modelled readings."""
        persons = Persons()
        for block, cells in rows_of_persons(
            self.spec, self.data, readings=True, infinite=not self.source.simulated
        ):
            assert block.y is not None
            numbers = persons.numbers(cells)
            before = persons.add(numbers)
            H, y = block.H, block.y
            self.dropped += block.dropped
            self.readings[0].update(np.add(y, 0.0, dtype="<f8").tobytes())  # −0 is 0
            if self.most is not None:
                kept = before < self.most
                H, y, numbers = H[kept], y[kept], numbers[kept]
            self.persons = persons.count
            if len(y):
                yield H, numbers, self._modelled(y)

    def _modelled(self, y: Array) -> Array:
        column = self.column
        how = clipped if self.rows.design == "A" else extended
        return how(column.transform, column.exponent, column.range, y)

    def _one_by_one(self) -> Iterator[tuple[Array, Index, AnyArray]]:
        """Design A: every row by itself, at the level of its person's rows."""
        made = self.mechanism
        for H, numbers, y in self._kept():
            rows = None if self.expected is None else self.expected[numbers - 1]
            if self.source.simulated:
                yield H, numbers, self._as_readings(made.simulate_rows(y, rows, self.source))
            else:
                yield H, numbers, made.release_rows(y, rows, self.source).astype(np.int64)

    def _together(self) -> Iterator[tuple[Array, Index, AnyArray]]:
        """Design B: persons who are complete, numbered as they leave."""
        assert self.expected is not None
        left, waiting = 0, _nothing(len(self.spec.design.names))
        for part in self._kept():
            H, numbers, y = (np.concatenate(pair) for pair in zip(waiting, part))
            order = np.argsort(numbers, kind="stable")
            names, sizes = np.unique(numbers, return_counts=True)
            whole = sizes == self.expected[names - 1]
            leaves = np.repeat(whole, sizes)
            at, counts = order[leaves], sizes[whole]
            if len(at):
                new = np.repeat(np.arange(left + 1, left + 1 + len(counts)), counts)
                yield H[at], new, self._noisy(y[at], counts)
                left += len(counts)
            rest = order[~leaves]
            waiting = H[rest], numbers[rest], y[rest]
        if len(waiting[2]):
            raise InvalidInput(f"{self.data.name} was changed while it was in use: start again.")

    def _noisy(self, y: Array, sizes: Index) -> AnyArray:
        if self.source.simulated:
            return self._as_readings(self.mechanism.simulate(y, sizes, self.source))
        return self.mechanism.release(y, sizes, self.source).astype(np.int64)

    def _as_readings(self, shown: Array) -> Array:
        """z̃/√s: what the table of a trial has."""
        return np.asarray(shown / np.sqrt(self.column.level))


def _nothing(parameters: int) -> tuple[Array, Index, Array]:
    return np.zeros((0, parameters)), np.zeros(0, dtype=np.intp), np.zeros(0)

"""How the rows of persons leave: their level, and their cap.

A row leaves when it is read, once the rows of every person are counted (one pass over the column of
persons; none with a cap, where the level of a row does not depend on them).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data import Persons
from privest.errors import InvalidInput
from privest.mechanism.source import Source, as_integers
from privest.workflow._modelled import clipped
from privest.workflow._person import count_persons, rows_of_persons
from privest.workflow._planning import Plan
from privest.workflow._same_table import table_of
from privest.workflow._terms import Terms


class LeavingPeople:
    """The rows of a table as they leave, block by block: features, the person's number, z.

    `dropped`: rows left out so far, for gaps; how many are beyond a cap is what the cap is there to
    hide, and is not counted. `persons`: how many there are.
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
        self.dropped, self.persons = 0, 0
        self.expected = self._counted()

    def _counted(self) -> Index | None:
        """How many rows of each person will leave; None where it does not matter."""
        if self.rows.capped:
            return None
        counts = count_persons(self.spec, self.data, readings=True).rows
        largest = int(counts.max())
        if largest > self.rows.rows:
            raise InvalidInput(
                f"{self.data.name}: a person has {largest:,} rows, and the plan was made for "
                f"{self.rows.rows:,} at most: plan for these data."
            )
        return counts

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """The columns of each block, in the order of the header's `table_columns`."""
        made, first = self.mechanism, int(self.spec.design.intercept)
        for H, numbers, y in self._kept():
            rows = None if self.expected is None else self.expected[numbers - 1]
            z: AnyArray
            if self.source.simulated:  # z̃/√s: what the table of a trial has
                z = made.simulate(y, rows, self.source) / np.sqrt(self.column.level)
            else:
                z = as_integers(made.release(y, rows, self.source))
            yield [*H.T[first:], numbers.astype(float), z]

    def _kept(self) -> Iterator[tuple[Array, Index, Array]]:
        """Rows that leave: H, the persons' numbers in the data, modelled readings."""
        persons, column = Persons(), self.column
        for block, cells in rows_of_persons(
            self.spec, self.data, readings=True, infinite=not self.source.simulated
        ):
            assert block.y is not None
            numbers = persons.numbers(cells)
            before = persons.add(numbers)
            H, y = block.H, block.y
            self.dropped += block.dropped
            if self.most is not None:
                kept = before < self.most
                H, y, numbers = H[kept], y[kept], numbers[kept]
            self.persons = persons.count
            if len(y):
                yield H, numbers, clipped(column.transform, column.range, y)

"""Units of privacy: whose values change together, and with which weights their rows leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Index
from privest.lattice import literal_root
from privest.privacy import GridStatement, person_level, person_root, person_statement
from privest.workflow.distribution import Distribution, Gaussian, Record


@dataclass(frozen=True)
class Row:
    """Every row is a person of its own: its values, one per private column, change together."""

    def weights(self, level: float, rows: Index | None) -> Array:
        """The largest doubles c with c² ≤ level."""
        return literal_root(np.array([level]))

    def epsilon(
        self, distribution: Distribution, record: Record, delta: float | None, *, enforced: bool
    ) -> float:
        """ε for replacing the values of one row."""
        return distribution.epsilon(record, delta)

    def statement(self, record: Record, delta: float, *, enforced: bool) -> GridStatement:
        """What Gaussian noise promises to one row."""
        return Gaussian().statement(record, delta)

    def factor(
        self, distribution: Distribution, epsilon: float, delta: float | None, record: Record,
        *, enforced: bool,
    ) -> float:  # fmt: skip
        """The largest factor on the levels of a record that keeps ε."""
        return distribution.factor(epsilon, delta, record)


@dataclass(frozen=True)
class Person(Row):
    """A person has several rows, of level s/r each: all of them together have the level s.

    most    the most rows that any person has.
    capped  every row has the level s/most, whatever the number of rows of its person.
    """

    most: int
    capped: bool = False

    def weights(self, level: float, rows: Index | None) -> Array:
        """The largest doubles c with r·c² ≤ level exactly; `rows` of the person of each row."""
        if self.capped or rows is None:
            return np.array([person_root(level, self.most)])
        counts, place = np.unique(rows, return_inverse=True)
        return np.array([person_root(level, int(r)) for r in counts])[place]

    def divided(self, rows: Index) -> Array:
        """By how much the level of a row is below that of its person."""
        return (np.full_like(rows, self.most) if self.capped else rows).astype(float)

    def epsilon(
        self, distribution: Distribution, record: Record, delta: float | None, *, enforced: bool
    ) -> float:
        """ε for replacing all values of one person."""
        assert delta is not None
        return self.statement(record, delta, enforced=enforced).epsilon

    def statement(self, record: Record, delta: float, *, enforced: bool) -> GridStatement:
        """What Gaussian noise promises to a whole person."""
        ((level, sensitivity),) = record
        return person_statement(
            level, self.most, move=sensitivity, capped=self.capped, delta=delta, enforced=enforced
        )

    def factor(
        self, distribution: Distribution, epsilon: float, delta: float | None, record: Record,
        *, enforced: bool,
    ) -> float:  # fmt: skip
        """The largest factor on the level of a person that keeps ε."""
        ((level, sensitivity),) = record
        assert delta is not None
        found = person_level(
            epsilon, delta=delta, rows=self.most, move=sensitivity, capped=self.capped,
            enforced=enforced,
        )  # fmt: skip
        return found / level

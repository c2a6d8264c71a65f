"""What a plan knows of persons: how many rows they have, and what accuracy the features allow.

With V = (σ² + noise)·I + τ²·11ᵀ for the rows of a person, generalised least
squares has the covariance (Σ HᵀV⁻¹H)⁻¹. It depends on the features through Σ HᵀH and Σ Hᵀ11ᵀH of
persons with equally many rows. σ² and τ², within and between persons, are guesses before a release;
at σ² = τ² = 0 it is what privacy alone adds, which is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privest.arrays import Array, Index
from privest.data import Persons, Source
from privest.errors import InvalidInput
from privest.estimator.inference import PeopleNoise
from privest.records import Record, standard_errors
from privest.workflow._column import UNIT
from privest.workflow._person import PersonRows, count_persons, person_rows, rows_of_persons
from privest.workflow._spec import Spec

UNEQUAL = 20  # times the usual number of rows: beyond it a cap is worth a word


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedPeople(Record):
    """Persons of a plan.

    persons  how many; `largest`: the most rows that one of them has, before a cap.
    cut      rows beyond the cap, which will not leave.
    person   how the level is spread over the rows of a person.
    rows     (strata,): different numbers of rows, `people` (strata,) with so many.
    """

    persons: int
    largest: int
    cut: int
    person: PersonRows
    rows: Index
    people: Index
    _inner: Array = field(repr=False)  # (strata, n, n): Σ HᵀH
    _outer: Array = field(repr=False)  # Σ Hᵀ11ᵀH

    DERIVED: ClassVar[tuple[str, ...]] = ("mean_rows", "advice")

    @property
    def mean_rows(self) -> float:
        """Rows that leave, a person."""
        return float(self.rows @ self.people / self.persons)

    @property
    def advice(self) -> str | None:
        """What a cap would change, where one person has far more rows than the others have."""
        usual = int(np.median(np.repeat(self.rows, self.people)))
        if self.person.capped or self.rows[-1] < UNEQUAL * usual:
            return None
        return (
            f"One person has {self.largest:,} rows, half of the persons have {usual:,} or fewer: "
            "each of these rows leaves with so much more noise, and they hardly count. That number "
            f"is public too. A cap (--most-rows {max(2 * usual, 2)}) leaves further rows out."
        )

    def errors(self, level: float, within: float = 0.0, between: float = 0.0) -> Array:
        """Standard errors at a level for σ² within and τ² between persons, (n,).

        For 0 and 0: what privacy alone adds. `level` ∞: without privacy.
        """
        most = self.person.rows if self.person.capped else None
        v = PeopleNoise(level / UNIT, most).variances(self.rows) + within
        k = between / (v + self.rows * between)
        information = np.tensordot(1 / v, self._inner, 1) - np.tensordot(k / v, self._outer, 1)
        scale = 1 / np.sqrt(information.diagonal())
        inverse = np.linalg.inv(information * scale * scale[:, None])
        return standard_errors(inverse * scale * scale[:, None])

    def mean_error(self, level: float) -> float:
        """1/√s: how well the release shows the mean of the readings of one person."""
        return float(1 / np.sqrt(level))


class PeopleReader:
    """The rows of a plan with persons: H without what a cap cuts, and sums on the way.

    One pass over the column of persons to count, one over the features. Memory: a row of H and a
    text a person.
    """

    def __init__(self, spec: Spec, source: Source) -> None:
        assert spec.person is not None
        self.spec, self.source, self.most = spec, source, spec.person.most
        counted = count_persons(spec, source, readings=False)
        self._counted, self.person = counted, person_rows(spec.person, counted)
        self.largest, self.persons = counted.most, counted.count
        self.leaving = counted.rows
        if self.most is not None:
            self.leaving = np.minimum(counted.rows, self.most)
        self.cut = int((counted.rows - self.leaving).sum())
        n = len(spec.design.names)
        self.rows, self.people = np.unique(self.leaving, return_counts=True)
        self._stratum = np.searchsorted(self.rows, self.leaving)
        self._inner: Array = np.zeros((len(self.rows), n, n))
        self._total: Array = np.zeros((n, self.persons))

    def blocks(self) -> Iterator[tuple[Array, int]]:
        """H of the rows that will leave, and how many were dropped for gaps."""
        persons = Persons(self._counted)
        for block, cells in rows_of_persons(self.spec, self.source, readings=False):
            numbers = persons.numbers(cells)
            H, which = block.H, numbers - 1
            if self.most is not None:
                kept = persons.add(numbers) < self.most
                H, which = H[kept], which[kept]
            self._add(H, which)
            yield H, block.dropped

    def _add(self, H: Array, which: Index) -> None:
        """The sums of rows, which are of these persons, from 0."""
        if which.max(initial=-1) >= self.persons:
            raise InvalidInput(f"{self.source.name} was changed while it was in use: start again.")
        low, high = int(which.min(initial=0)), int(which.max(initial=-1)) + 1
        for j, column in enumerate(H.T):  # persons of a block are near each other in most files
            self._total[j, low:high] += np.bincount(which - low, column, high - low)
        if len(self.rows) == 1:
            self._inner[0] += H.T @ H
            return
        strata = self._stratum[which]
        for place in np.unique(strata).tolist():
            part = H[strata == place]
            self._inner[place] += part.T @ part

    def facts(self) -> PlannedPeople:
        """After all blocks."""
        outer = np.zeros_like(self._inner)
        for place in range(len(self.rows)):
            part = self._total[:, self._stratum == place]
            outer[place] = part @ part.T
        return PlannedPeople(
            persons=self.persons, largest=self.largest, cut=self.cut, person=self.person,
            rows=self.rows, people=self.people, _inner=self._inner, _outer=outer,
        )  # fmt: skip

"""The only reader of private values of the aggregate form: they become noisy sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from privest.aggregate import FeatureRows, RowPersons, SumDesign
from privest.arrays import AnyArray, Array, Index
from privest.data import Persons, Texts, open_source, read_rows
from privest.errors import InvalidInput
from privest.mechanism.source import Source
from privest.workflow.aggregate import Published, design_of, released
from privest.workflow.plan import Plan
from privest.workflow.rows import CHANGED, require_numbers, require_unchanged
from privest.workflow.squares import add_rows, new_sums, require_full, triangle_of
from privest.workflow.terms import modelled


class LeavingSums:
    """What leaves of a table under a plan: `blocks` reads it once, `released` draws the noise.

    rows, dropped  used, and left out for missing values; persons: how many there are.
    """

    def __init__(self, plan: Plan, noise: Source, data: object) -> None:
        spec = plan.spec
        self.plan, self.noise = plan, noise
        self.table = open_source(spec.data if data is None else data, spec.format)
        require_unchanged(spec, plan.found, data, self.table.stamp)
        require_numbers(spec, self.table)
        self.rows, self.dropped = 0, 0
        self.persons: int | None = None
        self._values: list[Array] = []
        self._numbers: list[Index] = []

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """The public columns of each block, and a column of nothing; values are kept."""
        for H, values, numbers in self._read():
            self._values.append(values)
            self._numbers.append(numbers)
            self.rows += len(H)
            if len(H):
                yield [*H.T[int(self.plan.spec.design.intercept) :], np.zeros(len(H))]
        expected = self.plan.rows + self.plan.dropped
        if self.plan.model.person is None and self.rows + self.dropped != expected:
            raise InvalidInput(
                f"the table has {self.rows + self.dropped:,} rows now, and had {expected:,}: it "
                f"{CHANGED}"
            )

    def _read(self) -> Iterator[tuple[Array, Array, Index]]:
        """H, private values and whose they are; the same rows in every pass."""
        spec, person = self.plan.spec, self.plan.model.person
        beside = () if person is None else (person,)
        persons, self.dropped = Persons(), 0
        for block in read_rows(
            self.table, spec.design, spec.targets, beside=beside, text=beside,
            missing=spec.model.missing, infinite=not self.noise.simulated,
        ):  # fmt: skip
            self.dropped += block.dropped
            H, values, numbers = block.H, block.targets, np.zeros(0, dtype=np.intp)
            if person is not None:
                cells = block.beside[person]
                assert isinstance(cells, Texts)
                numbers = persons.numbers(cells)
                before = persons.add(numbers)
                if spec.model.most_rows is not None:
                    kept = before < spec.model.most_rows
                    H, values, numbers = H[kept], values[kept], numbers[kept]
                self.persons = persons.count
            yield H, values, numbers - 1

    def released(self, blocks: Iterator[Sequence[AnyArray]]) -> tuple[Published, ...]:
        """What leaves of every private column; `blocks` are read to their end first."""
        for _ in blocks:
            pass
        plan, design = self.plan, self._design()
        matrix = plan.privacy.publish == "matrix"
        found, y = [], np.concatenate(self._values)
        self._values.clear()
        for column, own, values in zip(plan.columns, plan.splits, y.T, strict=True):
            limits, ends = plan.limits(column), plan.ends(column)
            assert limits is not None
            assert ends is not None
            clipped = modelled(plan.model.transform, np.clip(values, *ends))
            found.append(
                released(
                    column.target, plan.model.family, design, design.rows.parts(clipped), limits,
                    own, self.noise, matrix=matrix,
                )
            )  # fmt: skip
        return tuple(found)

    def _design(self) -> SumDesign:
        """That of the plan, where every planned row has its values; else of the rows that have."""
        design, names = self.plan.survey.sums, self.plan.names
        assert design is not None
        if self.rows == design.rows.count:
            return design
        rows, sums = FeatureRows(len(names)), new_sums(len(names))
        for H, _, _ in self._read():
            rows.add(H)
            add_rows(sums, H)
        require_full(sums, names, self.table.name, rows.count)
        persons = None
        if self.plan.model.person is not None:
            numbers = np.concatenate(self._numbers)
            persons = RowPersons(rows.parts(numbers), np.bincount(numbers))
            if persons.rows.max() > (self.plan.most or 0):
                raise InvalidInput(f"{self.table.name} {CHANGED}")
        return design_of(rows, triangle_of(sums), persons)

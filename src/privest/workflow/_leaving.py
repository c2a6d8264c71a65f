"""How rows leave: the mechanism of each private column, and the table that is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_positive
from privest.data import read_rows
from privest.mechanism import RunningMechanism, StreamMechanism
from privest.mechanism.source import Source, as_integers
from privest.privacy import Range
from privest.workflow._column import Column
from privest.workflow._header_fields import unit_of
from privest.workflow._modelled import clip_ends, clipped
from privest.workflow._planning import Plan
from privest.workflow._pure_rows import CoinRows, LaplaceRows, RowsMechanism
from privest.workflow._route_weighted import require_weights
from privest.workflow._row_levels import require_levels
from privest.workflow._same_table import require_all_rows, table_of
from privest.workflow._terms import Terms, add_rows, new_sums, require_full
from privest.workflow._unequal_rows import UnequalRows


class TableMechanism:
    """What puts noise on the rows of a table: z_k = y_k + e_k/√s, e_k of unit variance, I_z ≤ s·I.

    A stream at level s, z = z̃/√s: rows may come in blocks of any size. `range`: of the readings;
    beyond it they are clipped, at the last multiples of the grid within it (`ends`).

    >>> mechanism = TableMechanism(4.0)
    >>> mechanism.simulate([0.3, 0.1], np.random.default_rng(1)).round(3).tolist()
    [0.473, 0.511]
    >>> mechanism.unit, mechanism.release([0.3, 0.1]).dtype.name
    (0.00048828125, 'int64')
    """

    def __init__(self, level: float, *, range: tuple[float, float] | None = None) -> None:
        self.level = as_positive(level, "level")
        self._stream, self._root = StreamMechanism(self.level, range=range), math.sqrt(self.level)
        # Refuses here, and never later, a range that the grid cannot hold.
        self.ends = clip_ends(self.level, None if range is None else Range(*range))
        self.unit = unit_of(self.level, simulated=False)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z of the next rows, with simulated noise."""
        return self._stream.simulate(y, rng).values / self._root

    def release(self, y: ArrayLike, source: Source | None = None) -> AnyArray:
        """Whole numbers n of the next rows, with protected noise: n·`unit` is y and its noise.

        I_z(y) ≤ s literally. No value is refused: beyond the range (or what the grid can hold) it
        is clipped. NaN is missing: NaN comes back, among whole doubles.
        """
        made = self._stream.release(y, source)
        return as_integers(made.values / made.grid)

    def as_mechanism(self, readings: int = 1) -> RunningMechanism:
        """A table of so many rows as one mechanism, for an audit, in units of the noise: √s·z.

        Every draw is a table of its own, in one block.
        """
        fresh = type(self)

        def draw(y: Array, rng: np.random.Generator | Source) -> Array:
            return self._root * fresh(self.level).simulate(y, rng)

        return RunningMechanism.at_level(self.level, readings, draw, repr(self))

    def __repr__(self) -> str:
        return f"TableMechanism({self.level:g})"


def mechanism_of(column: Column) -> RowsMechanism | UnequalRows:
    """What puts noise on the readings of a column, after their transform."""
    limits = column.limits
    ends = None if limits is None else (limits.low, limits.high)
    if column.level_column is not None:
        return UnequalRows(ends, repr(column.level))
    if column.law == "coin":
        return CoinRows(column.coin)
    if column.law == "laplace":
        return LaplaceRows(column.level, range=ends)
    return TableMechanism(column.level, range=ends)


class LeavingRows:
    """The rows of a table as they leave, block by block: public columns, and z for each target.

    `dropped`: rows left out so far, for gaps.
    """

    persons: int | None = None  # `LeavingPeople` counts them

    def __init__(self, plan: Terms, source: Source, data: object) -> None:
        self.plan, self.source = plan, source
        self.data = table_of(plan, data)
        self.dropped = 0
        self.mechanisms = [mechanism_of(column) for column in plan.columns]

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """The columns of each block, in the order of the header's `table_columns`."""
        plan, spec, design = self.plan, self.plan.spec, self.plan.spec.design
        sums, rows = None if isinstance(plan, Plan) else new_sums(design), 0
        weights = None if spec.weights is None else spec.weights.column
        beside = [name for name in (weights, spec.privacy.level_column) if name is not None]
        for block in read_rows(
            self.data, design, spec.targets, beside=beside, missing=spec.missing,
            infinite=not self.source.simulated,
        ):  # fmt: skip
            self.dropped += block.dropped
            rows += len(block.H)
            if sums is not None:
                add_rows(sums, block.H)
            public = [np.asarray(block.beside[name]) for name in beside]
            if weights is not None:
                require_weights(public[0], weights, self.data.name)
            levels = None
            if spec.privacy.level_column is not None:
                levels = public[0]
                require_levels(levels, plan.level, self.data.name)
            noisy = [
                self._noisy(mechanism, column, y, levels)
                for mechanism, column, y in zip(self.mechanisms, plan.columns, block.targets.T)
            ]
            yield [*block.H.T[int(design.intercept) :], *public, *noisy]
        if sums is not None:
            require_full(sums, design.names, self.data.name, rows)
        require_all_rows(plan, rows + self.dropped)

    def _noisy(
        self,
        mechanism: RowsMechanism | UnequalRows,
        column: Column,
        readings: Array,
        levels: Array | None,
    ) -> AnyArray:
        y = clipped(column.transform, column.range, readings)
        if isinstance(mechanism, UnequalRows):
            assert levels is not None
            if self.source.simulated:
                return mechanism.simulate(y, levels, self.source)
            return mechanism.release(y, levels, self.source)
        if self.source.simulated:
            return mechanism.simulate(y, self.source)
        return mechanism.release(y, self.source)

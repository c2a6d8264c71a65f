"""Row-level releases: a noisy value for every row, beside its public columns (the local model)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data.cells import Texts
from privest.data.persons import Persons
from privest.data.rows import Block, read_rows
from privest.data.source import Source as TableSource
from privest.data.writer import table_writer
from privest.errors import InvalidInput
from privest.lattice import literal_root
from privest.linalg import RunningLeastSquares
from privest.mechanism.rows import RowMechanism
from privest.mechanism.simulated import simulate
from privest.mechanism.source import Generated, Source
from privest.records import standard_errors
from privest.workflow.rows_planner import RowGrid, level_column_rows
from privest.workflow.spec import Spec
from privest.workflow.survey import (
    CHANGED,
    Survey,
    inverse_of,
    require_levels,
    require_unchanged,
    require_weights,
    survey,
    table_of,
)
from privest.workflow.terms import Column, Terms, modelled, solve

if TYPE_CHECKING:
    from privest.workflow.aggregate import Published
    from privest.workflow.document import TableRelease
    from privest.workflow.plan import Plan
    from privest.workflow.result import TableEstimate

LOOKED_AT = 1000  # rows of a private column, for a message about texts
Blocks = Iterator[Sequence[AnyArray]]


@dataclass(frozen=True, eq=False)
class PlannedErrors:
    """Standard errors of the coefficients of one column, (n,) each; NaN where unknown.

    classical   without privacy. privacy: by the privacy noise alone. total: with privacy.
    relative    sd of the noise of squares over the variance that they show; else None.
    """

    classical: Array
    privacy: Array
    total: Array
    relative: Array | None = None


class Rows:
    """A noisy value for every row. With A = (HᵀH)⁻¹ and a(s) the variance of the privacy noise,

        cov θ̂ = (σ² + a(s))·A      (`thm:crbound` for Gaussian noise, a = 1/s and the grid's part)

    and for yes/no and counts, by Fisher scoring at one mean with variance v, (v + a)/v²·A.
    """

    def survey(self, spec: Spec, data: object) -> Survey:
        return survey(spec, data)

    def solve(self, spec: Spec, found: Survey) -> Terms:
        terms = solve(
            spec.model, spec.privacy, found.known, shape=inverse_of(found.triangle),
            largest=None if found.levels is None else found.levels.largest,
        )  # fmt: skip
        _mechanism(terms)
        grid_of(terms, found)
        return terms

    def errors(self, plan: Plan, column: Column, level: float | None) -> PlannedErrors:
        if plan.survey.levels is not None:
            return _level_column_errors(plan, column, level)
        s = column.level if level is None else level
        root, limits = standard_errors(plan.shape), plan.limits(column)
        added = plan.distribution.variance(s, limits)
        if plan.model.family == "gaussian":
            own = math.nan if column.residual_variance is None else column.residual_variance
            return PlannedErrors(*(root * math.sqrt(x) for x in (own, added, own + added)))
        own = plan.mean * (1 - plan.mean) if plan.model.family == "binomial" else plan.mean
        total = (own + added) / own**2
        return PlannedErrors(*(root * math.sqrt(x) for x in (1 / own, total - 1 / own, total)))

    def require_name(self, table: Path) -> None:
        table_writer(table)

    def leaving(self, plan: Plan, noise: Source, data: object) -> LeavingRows:
        return LeavingRows(plan, noise, data)

    def estimate(self, release: TableRelease, errors: str) -> TableEstimate:
        from privest.workflow.estimate import fit_rows

        return fit_rows(release, errors)


def _level_column_errors(plan: Plan, column: Column, level: float | None) -> PlannedErrors:
    if level is not None:
        raise InvalidInput(
            "the levels of this plan are a column of its table: change them there, and plan again."
        )
    assert plan.survey.levels is not None
    total = standard_errors(inverse_of(plan.survey.levels.triangle))
    if column.residual_variance is None:
        none = np.full(len(plan.names), np.nan)
        return PlannedErrors(none, total, none)
    classical = math.sqrt(column.residual_variance) * standard_errors(plan.shape)
    return PlannedErrors(classical, np.sqrt(np.maximum(total**2 - classical**2, 0.0)), total)


# --- rows that leave ------------------------------------------------------------------------------


class Leaving:
    """The private table of a plan on its way out; `dropped` and `persons` so far."""

    plan: Plan
    spec: Spec
    noise: Source
    dropped: int

    def __init__(self, plan: Plan, noise: Source, data: object) -> None:
        spec, data = plan.spec, plan.data if data is None else data
        self.plan, self.spec, self.noise = plan, spec, noise
        self.dropped, self.persons = 0, None if plan.model.person is None else 0
        self.table: TableSource = table_of(spec, data)
        require_unchanged(spec, plan.found, data, self.table.stamp)
        self.table.require(spec.targets)
        for target in spec.targets:  # numbers, as far as a look shows
            next(self.table.blocks([target], size=LOOKED_AT), None)

    def private(self) -> Iterator[tuple[Array, Array, Index, Block]]:
        model, persons, self.dropped = self.spec.model, Persons(), 0
        for block in read_rows(
            self.table, self.spec.design, self.spec.targets,
            beside={name: name == model.person for name in self.plan.beside},
            missing=model.missing, infinite=not self.noise.simulated,
        ):  # fmt: skip
            self.dropped += block.dropped
            H, values, numbers = block.H, block.targets, np.zeros(0, dtype=np.intp)
            if model.person is not None:
                cells = block.beside[model.person]
                assert isinstance(cells, Texts)
                numbers = persons.numbers(cells)
                before = persons.add(numbers)
                self.persons = persons.count
                if model.most_rows is not None:
                    kept = before < model.most_rows
                    H, values, numbers = H[kept], values[kept], numbers[kept]
            yield H, values, numbers, block

    def require_rows(self, rows: int) -> None:
        now, planned = rows + self.dropped, self.plan.rows + self.plan.dropped
        if self.plan.model.person is None and now != planned:
            raise InvalidInput(f"the table has {now:,} rows now, and had {planned:,}: it {CHANGED}")


class LeavingRows(Leaving):
    """The rows as they leave, block by block: public columns, and z."""

    def __init__(self, plan: Plan, noise: Source, data: object) -> None:
        super().__init__(plan, noise, data)
        self.mechanism: RowMechanism = _mechanism(plan)
        self.grid = grid_of(plan, plan.found)

    def write(
        self, release: TableRelease, file: BinaryIO, blocks: Blocks
    ) -> tuple[int, tuple[Published, ...]]:
        return table_writer(Path(release.table))(file, release.table_columns, blocks), ()

    def blocks(self) -> Blocks:
        if isinstance(self.noise, Generated):
            column = self.column()
            return self.rendered(self._simulated(self.noise.rng, column), column.public)
        return self._at_once()

    # --- in two passes, through whole numbers ---

    def column(self) -> PrivateColumn:
        """The first pass: the private column, whole, and the hash of the public ones."""
        targets, levels, public = [], [], PublicHash()
        for H, beside, y, weights in self._passed():
            public.add(H, beside)
            targets.append(y)
            if weights is not None:
                levels.append(weights)
        joined = np.concatenate(levels) if levels else None
        return PrivateColumn(np.concatenate(targets), joined, public.hexdigest())

    def _simulated(self, rng: np.random.Generator, column: PrivateColumn) -> Index:
        map = self.grid.map(len(column.values), column.levels)
        if self.plan.limits(self.plan.column) is None:
            self._require_room(column.values)
        drawn = simulate(column.values, rng, map=map, law=self.grid.law, range=self.grid.range)
        return np.asarray(drawn.integers)

    def _require_room(self, values: Array) -> None:
        """Refuse a simulation of values that would be clipped where no range was stated."""
        reach = math.ldexp(self.grid.range.high, self.grid.range.exponent)
        if np.abs(values).max(initial=0.0) > reach:  # the message cannot show it
            raise InvalidInput(
                "a measurement is so large beside its noise that it would be lost in rounding. "
                "Either the measurement is too large for this level (state measurements in units "
                "in which they are smaller, or a range), or the level is too large."
            )

    def rendered(self, integers: Index, public: str) -> Blocks:
        """The second pass: the public columns, read again, beside the integers; private values are
        not looked at. Refused at the end where the public columns are not those of the hash.
        """
        start, again = 0, PublicHash()
        for H, beside, _, levels in self._passed():
            again.add(H, beside)
            z = integers[start : start + len(H)]
            start += len(H)
            if levels is not None:
                z = np.where(levels > 0, z, 0)  # a row that is withheld
            if len(z) < len(H):
                break
            if len(H):
                yield [*H.T[int(self.spec.design.intercept) :], *beside, z]
        if start != len(integers) or again.hexdigest() != public:
            raise InvalidInput(f"{self.table.name} was changed while it was in use: start again.")

    def _passed(self) -> Iterator[tuple[Array, list[Array], Array, Array | None]]:
        """H, columns beside it, the private column as it counts, and levels, block by block."""
        for H, values, block in self._checked():
            public = self._beside(block)
            levels = None if self.spec.privacy.level_column is None else public[0]
            yield H, public, self._as_counted(values[:, 0]), levels

    # --- block by block, with the noise of before: real releases until they go through the door ---

    def _at_once(self) -> Blocks:
        for H, values, block in self._checked():
            public, weights = self._public(block)
            noisy = self._noisy(values[:, 0], weights)
            if len(H):
                yield [*H.T[int(self.spec.design.intercept) :], *public, noisy]

    def _checked(self) -> Iterator[tuple[Array, Array, Block]]:
        """The rows of H and the targets; refused at the end where they are not those planned."""
        design, rows = self.spec.design, 0
        sums = RunningLeastSquares(len(design.names)) if self.plan.found is None else None
        for H, values, _, block in self.private():
            rows += len(H)
            if sums is not None:
                sums.add_matrix(H)
            yield H, values, block
        if sums is not None:
            sums.require_full(design.names, self.table.name, rows)
        else:
            self.require_rows(rows)

    def _beside(self, block: Block) -> list[Array]:
        model, level = self.spec.model, self.plan.column.level
        public = [np.asarray(block.beside[name]) for name in self.plan.beside]
        if model.weights is not None:
            require_weights(public[0], model.weights, self.table.name)
        if self.spec.privacy.level_column is not None:
            require_levels(public[0], level, self.table.name)
        return public

    def _public(self, block: Block) -> tuple[list[Array], Array | None]:
        public = self._beside(block)
        if self.spec.privacy.level_column is None:
            return public, None
        return public, literal_root(public[0])

    def _as_counted(self, values: Array) -> Array:
        ends = self.plan.ends(self.plan.column)
        within = values if ends is None else np.clip(values, *ends)
        return modelled(self.spec.model.transform, within)

    def _noisy(self, values: Array, weights: Array | None) -> AnyArray:
        y = self._as_counted(values)
        c = _root(self.plan.column.level) if weights is None else weights
        return self.mechanism.release(y, c, self.noise)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateColumn:
    """The private column as it counts, the level of each row, SHA-256 of the public columns."""

    values: Array
    levels: Array | None
    public: str


class PublicHash:
    """SHA-256 of the public columns, in whatever blocks they come."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, H: Array, beside: Sequence[Array]) -> None:
        rows = np.column_stack([H, *beside]) + 0.0  # −0 is 0
        self._digest.update(rows.astype("<f8").tobytes())

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def grid_of(terms: Terms, found: Survey | None) -> RowGrid:
    """The steps and noise of the rows of a plan; refuses a range that they cannot hold."""
    column = terms.column
    limits, by = terms.limits(column), terms.privacy.sensitivity
    if limits is not None and by is not None and by >= limits.width:
        by = None
    levels = None if found is None else found.levels
    if levels is not None:
        return level_column_rows(levels.largest, levels.smallest, limits, by)
    level, epsilon = column.level, terms.privacy.epsilon
    if epsilon is not None:
        # The level of a plan is that of the grid 2⁻¹⁰, whose ε differs in the fourth digit.
        width = terms.sensitivity(column) or 0.0
        delta = terms.privacy.delta
        keeps = terms.distribution.level_at_door(epsilon, delta, width, limits, by)
        level = min(level, keeps)
    return terms.distribution.grid(level, limits, by)


def _mechanism(terms: Terms) -> RowMechanism:
    """The mechanism of a plan; refuses a range that the grid cannot hold."""
    level = terms.column.level
    found = terms.distribution.mechanism(level, terms.limits(terms.column))
    found.require(_root(level))
    return found


def _root(level: float) -> Array:
    """The largest double c with c² ≤ level."""
    return literal_root(np.array([level]))

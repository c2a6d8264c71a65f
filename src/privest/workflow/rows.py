"""Row-level releases: the survey of the public columns, and the rows as they leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data import Block, Persons, Source, Stamp, Texts, open_source, read_rows, stamp_of
from privest.errors import InvalidInput
from privest.estimator import reference_variance
from privest.lattice import GRID, literal_root
from privest.linalg import RunningLeastSquares, least_squares
from privest.mechanism import RowMechanism
from privest.mechanism.source import Source as NoiseSource
from privest.release import extra_variance
from privest.workflow.spec import Spec
from privest.workflow.strategies import Gaussian
from privest.workflow.terms import Column, Known, Terms, modelled, modelled_range

ADDED = 1.0 + extra_variance(GRID)  # variance of Gaussian noise of level 1 on the grid
CHANGED = "was changed since the plan was made: make the plan again."
LOOKED_AT = 1000  # rows of a private column, for a message about texts


# --- survey ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Strata:
    """Persons with equally many rows, and their sums of H.

    rows, persons   (strata,): different numbers of rows, and how many persons have them.
    inner, outer    (strata, n, n): Σ HᵀH and Σ Hᵀ11ᵀH of these persons.
    largest         most rows of a person before a cap; `cut`: rows beyond the cap.
    """

    rows: Index
    persons: Index
    inner: Array = field(repr=False)
    outer: Array = field(repr=False)
    largest: int
    cut: int

    @property
    def count(self) -> int:
        """Persons."""
        return int(self.persons.sum())

    @property
    def mean_rows(self) -> float:
        """Rows that leave, per person."""
        return float(self.rows @ self.persons / self.count)

    @property
    def usual(self) -> int:
        """The median number of rows of a person."""
        return int(np.median(np.repeat(self.rows, self.persons)))


@dataclass(frozen=True, eq=False)
class Levels:
    """A level column: the largest and the mean level, rows of level 0, and the errors' triangle.

    triangle   R with RᵀR = Σ hhᵀ/(σ² + a/s_k); σ² = 0 where it is unknown.
    """

    largest: float
    mean: float
    withheld: int
    triangle: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class Survey:
    """What a plan knows of its table: public columns and the reference only.

    rows, dropped   rows of H, and rows left out for missing features.
    triangle        R with RᵀR = HᵀH; with survey weights (RᵀR)⁻¹ = A·HᵀW²H·A, A = (HᵀWH)⁻¹.
    known           what the reference, or the specification, says of each target's residuals.
    covariance      of the residuals of several targets, by the reference.
    """

    rows: int
    dropped: int
    triangle: Array = field(repr=False)
    known: tuple[Known, ...]
    covariance: Array | None = None
    strata: Strata | None = None
    levels: Levels | None = None
    stamp: Stamp | None = field(default=None, repr=False)

    def most_rows(self, spec: Spec) -> int | None:
        """The most rows of a person that leave: the cap, or the most that anybody has."""
        return None if self.strata is None else spec.model.most_rows or self.strata.largest


def survey(spec: Spec, data: object = None) -> Survey:
    """One pass over the public columns, in blocks; persons are counted first.

    Without any feature, for a mean, rows are counted by the target: whether it is there.
    Raises NotIdentifiable for constant or collinear features.
    """
    model, design = spec.model, spec.design
    table = open_source(spec.data if data is None else data, spec.format)
    table.require(spec.targets)
    known, covariance = reference_facts(spec)
    parts = _Accumulators(spec, table, known)
    sums, rows, dropped = RunningLeastSquares(len(design.names)), 0, 0
    for block in _public_blocks(spec, table):
        H = parts.add(block)
        sums.add_matrix(H)
        rows, dropped = rows + len(H), dropped + block.dropped
    sums.require_full(design.names, table.name, rows)
    triangle = sums.upper if model.weights is None else parts.weighted_triangle()
    return Survey(
        rows, dropped, triangle, known, covariance, parts.strata(), parts.levels(), table.stamp
    )


def features_again(spec: Spec, data: object) -> Iterator[Array]:
    """The rows of H once more."""
    table = open_source(spec.data if data is None else data, spec.format)
    for block in read_rows(table, spec.design, _counted_by(spec), missing=spec.model.missing):
        yield block.H


def _counted_by(spec: Spec) -> tuple[str, ...] | None:
    return None if spec.design.columns else spec.targets


def _public_blocks(spec: Spec, table: Source) -> Iterator[Block]:
    model = spec.model
    if model.person is not None:
        yield from _person_blocks(spec, table, values=False)
        return
    beside = [one for one in (model.weights, spec.privacy.level_column) if one is not None]
    yield from read_rows(
        table, spec.design, _counted_by(spec), beside=beside, missing=model.missing
    )


class _Accumulators:
    """Sums beside HᵀH: of survey weights, of levels, of persons."""

    def __init__(self, spec: Spec, table: Source, known: tuple[Known, ...]) -> None:
        self.spec, self.table, n = spec, table, len(spec.design.names)
        self.once, self.twice, self.levelled = (
            RunningLeastSquares(n),
            RunningLeastSquares(n),
            RunningLeastSquares(n),
        )
        self.variance = known[0].variance or 0.0
        self.largest, self.total, self.shown, self.rows = 0.0, 0.0, 0, 0
        self.persons = None if spec.model.person is None else _PersonSums(spec, table)

    def add(self, block: Block) -> Array:
        """The rows of H that count."""
        model, H = self.spec.model, block.H
        if self.persons is not None:
            return self.persons.add(block)
        if model.weights is not None:
            weights = np.asarray(block.beside[model.weights])
            require_weights(weights, model.weights, self.table.name)
            self.once.add_matrix(H * np.sqrt(weights)[:, None])
            self.twice.add_matrix(H * weights[:, None])
        column = self.spec.privacy.level_column
        if column is not None:
            self._add_levels(np.asarray(block.beside[column]), H, column)
        return H

    def _add_levels(self, levels: Array, H: Array, column: str) -> None:
        if not bool((np.isfinite(levels) & (levels >= 0)).all()):
            raise InvalidInput(
                f"{self.table.name}, column {column!r}: levels are finite numbers, 0 or more."
            )
        ends = self.spec.privacy.range.get(self.spec.targets[0])
        limits = modelled_range(self.spec.model.transform, ends)
        Gaussian().mechanism(1.0, limits, "").require(literal_root(levels))
        known = levels / (ADDED + self.variance * levels)
        self.levelled.add_matrix(H * np.sqrt(known)[:, None])
        self.largest = max(self.largest, float(levels.max(initial=0.0)))
        self.total += float(levels.sum())
        self.shown += int(np.count_nonzero(levels))
        self.rows += len(levels)

    def weighted_triangle(self) -> Array:
        """R with (RᵀR)⁻¹ = A·HᵀW²H·A."""
        root = self.twice.upper @ self.once.inverse()
        return np.asarray(np.linalg.qr(np.linalg.inv(root).T, mode="r"))

    def levels(self) -> Levels | None:
        column, names = self.spec.privacy.level_column, self.spec.design.names
        if column is None:
            return None
        if self.shown <= len(names):
            raise InvalidInput(
                f"{self.table.name}, column {column!r}: {self.shown} rows have a level above 0, "
                f"and {len(names)} coefficients need more."
            )
        where = f"{self.table.name}, rows with a level above 0"
        self.levelled.require_full(names, where, self.shown)
        return Levels(
            self.largest, self.total / self.rows, self.rows - self.shown,
            self.levelled.upper,
        )  # fmt: skip

    def strata(self) -> Strata | None:
        return None if self.persons is None else self.persons.strata()


class _PersonSums:
    """Sums of H by persons with equally many rows. Memory: a row of H and a text per person."""

    def __init__(self, spec: Spec, table: Source) -> None:
        assert spec.model.person is not None
        self.column, self.cap, self.table = spec.model.person, spec.model.most_rows, table
        self.counted = count_persons(spec, table, values=False)
        rows = self.counted.rows
        self.leaving = rows if self.cap is None else np.minimum(rows, self.cap)
        self.sizes, self.people = np.unique(self.leaving, return_counts=True)
        self.stratum = np.searchsorted(self.sizes, self.leaving)
        n = len(spec.design.names)
        self.inner = np.zeros((len(self.sizes), n, n))
        self.total: Array = np.zeros((n, self.counted.count))
        self.again = Persons(self.counted)

    def add(self, block: Block) -> Array:
        cells = block.beside[self.column]
        assert isinstance(cells, Texts)
        numbers, H = self.again.numbers(cells), block.H
        if self.cap is not None:
            kept = self.again.add(numbers) < self.cap
            H, numbers = H[kept], numbers[kept]
        which = numbers - 1
        if which.max(initial=-1) >= self.total.shape[1]:
            raise InvalidInput(f"{self.table.name} was changed while it was in use: start again.")
        for j, values in enumerate(H.T):
            np.add.at(self.total[j], which, values)
        strata = self.stratum[which]
        for place in np.flatnonzero(np.bincount(strata)).tolist():
            part = H if len(self.sizes) == 1 else H[strata == place]
            self.inner[place] += part.T @ part
        return H

    def strata(self) -> Strata:
        outer = np.zeros_like(self.inner)
        for place in range(len(self.sizes)):
            part = self.total[:, self.stratum == place]
            outer[place] = part @ part.T
        cut = int((self.counted.rows - self.leaving).sum())
        return Strata(self.sizes, self.people, self.inner, outer, self.counted.most, cut)


# --- reference ------------------------------------------------------------------------------------


def reference_facts(spec: Spec) -> tuple[tuple[Known, ...], Array | None]:
    """What the specification, or its reference, says of the residuals of each target."""
    public, targets = spec.public, spec.targets
    if public.reference is None:
        return (Known(public.residual_variance),) * len(targets), None
    design, transform = spec.design, spec.model.transform
    columns = (*design.columns, *targets)
    table = open_source(public.reference, spec.format.of_columns(columns))
    blocks = list(read_rows(table, design, targets, missing=spec.model.missing))
    H = np.concatenate([block.H for block in blocks])
    values = np.concatenate([block.targets for block in blocks])
    sums = RunningLeastSquares(len(design.names))
    sums.add_matrix(H)
    sums.require_full(design.names, table.name, len(H))
    if transform == "log" and not (values > 0).all():
        raise InvalidInput(
            f"{table.name}: a target has values that are 0 or negative, which have no logarithm."
        )
    y = modelled(transform, values)
    theta = np.column_stack([least_squares(H, one)[0] for one in y.T])
    known = tuple(
        Known(reference_variance(H, one, table.name), len(H), tuple(own.tolist()))
        for one, own in zip(y.T, theta.T)
    )
    residuals = y - H @ theta
    return known, np.asarray(residuals.T @ residuals / (len(H) - H.shape[1]))


# --- persons --------------------------------------------------------------------------------------


def _person_blocks(
    spec: Spec, table: Source, *, values: bool, infinite: bool = False
) -> Iterator[Block]:
    """Rows with whose they are; `values`: with the private columns."""
    column = spec.model.person
    assert column is not None
    targets = spec.targets if values or not spec.design.columns else None
    return read_rows(
        table, spec.design, targets, beside=(column,), text=(column,),
        missing=spec.model.missing, infinite=infinite,
    )  # fmt: skip


def count_persons(spec: Spec, table: Source, *, values: bool) -> Persons:
    """One pass that counts the rows of every person, without the rows that are dropped."""
    column, found = spec.model.person, Persons()
    assert column is not None
    table.require([column])
    if spec.model.missing == "drop":
        blocks: Iterator[Mapping[str, AnyArray | Texts]] = (
            block.beside for block in _person_blocks(spec, table, values=values, infinite=True)
        )
    else:
        blocks = table.blocks([column], text=[column])
    before = 0
    for block in blocks:
        names = block[column]
        assert isinstance(names, Texts)
        if names.missing.any():
            raise InvalidInput(
                f"{table.name}, column {column!r}, row {before + int(names.missing.argmax()) + 1}: "
                "it does not say whose row it is. Fill the gap, or drop such rows (missing)."
            )
        found.tally(found.numbers(names))
        before += len(names)
    if found.count == 0:
        raise InvalidInput(f"{table.name} has no rows, only column names.")
    if found.count == 1:
        raise InvalidInput(
            f"{table.name}: column {column!r} names one person only. Name the column that tells "
            "persons apart, or leave it out where every row is a person."
        )
    if found.most == 1:
        raise InvalidInput(
            f"{table.name}: every person of column {column!r} has one row. Leave the column of "
            "persons out: rows are persons."
        )
    return found


# --- rows that leave ------------------------------------------------------------------------------


class Leaving:
    """The rows of a table as they leave, block by block: public columns, and z of each target.

    terms    of the release; `found`: the survey of a plan, None where no plan was made.
    dropped  rows left out so far for missing values; `persons`: how many there are.
    """

    def __init__(
        self, spec: Spec, terms: Terms, found: Survey | None, noise: NoiseSource, data: object
    ) -> None:
        self.spec, self.terms, self.survey, self.noise = spec, terms, found, noise
        self.table = open_source(spec.data if data is None else data, spec.format)
        require_unchanged(spec, found, data, self.table.stamp)
        require_numbers(spec, self.table)
        self.dropped, self.persons = 0, None if spec.model.person is None else 0
        self.mechanisms = [self._mechanism(column) for column in terms.columns]
        self.counts = self._counts()

    def _mechanism(self, column: Column) -> RowMechanism:
        terms = self.terms
        level = column.level
        made = terms.distribution.mechanism(level, terms.limits(column), repr(level))
        made.require(terms.unit.weights(level, None))
        return made

    def _counts(self) -> Index | None:
        """Rows of each person that will leave, where the weights depend on them."""
        if self.spec.model.person is None or self.spec.model.most_rows is not None:
            return None
        counts = count_persons(self.spec, self.table, values=True).rows
        largest = int(counts.max())
        if largest > (self.terms.most or 0):
            raise InvalidInput(
                f"{self.table.name}: a person has {largest:,} rows, and the plan was made for "
                f"{self.terms.most:,} at most: plan for these data."
            )
        return counts

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        """The columns of each block, in the order of `table_columns`."""
        design, rows = self.spec.design, 0
        sums = RunningLeastSquares(len(design.names)) if self.survey is None else None
        for H, values, public, weights in self._rows():
            rows += len(H)
            if sums is not None:
                sums.add_matrix(H)
            noisy = [
                self._noisy(mechanism, column, y, weights)
                for mechanism, column, y in zip(self.mechanisms, self.terms.columns, values.T)
            ]
            if len(H):
                yield [*H.T[int(design.intercept) :], *public, *noisy]
        if sums is not None:
            sums.require_full(design.names, self.table.name, rows)
        elif self.survey is not None and self.spec.model.person is None:
            expected = self.survey.rows + self.survey.dropped
            if rows + self.dropped != expected:
                raise InvalidInput(
                    f"the table has {rows + self.dropped:,} rows now, and had {expected:,}: it "
                    f"{CHANGED}"
                )

    def _rows(self) -> Iterator[tuple[Array, Array, list[Array], Array | None]]:
        """H, private values, public columns, and the weights of rows with levels of their own."""
        model, infinite = self.spec.model, not self.noise.simulated
        if model.person is not None:
            yield from self._person_rows(infinite)
            return
        column = self.spec.privacy.level_column
        beside = [one for one in (model.weights, column) if one is not None]
        for block in read_rows(
            self.table, self.spec.design, self.spec.targets, beside=beside,
            missing=model.missing, infinite=infinite,
        ):  # fmt: skip
            self.dropped += block.dropped
            public = [np.asarray(block.beside[name]) for name in beside]
            if model.weights is not None:
                require_weights(public[0], model.weights, self.table.name)
            weights = None
            if column is not None:
                require_levels(public[0], self.terms.column.level, self.table.name)
                weights = literal_root(public[0])
            yield block.H, block.targets, public, weights

    def _person_rows(
        self, infinite: bool
    ) -> Iterator[tuple[Array, Array, list[Array], Array | None]]:
        persons, cap = Persons(), self.spec.model.most_rows
        for block in _person_blocks(self.spec, self.table, values=True, infinite=infinite):
            cells = block.beside[self.spec.model.person or ""]
            assert isinstance(cells, Texts)
            numbers = persons.numbers(cells)
            before = persons.add(numbers)
            H, values = block.H, block.targets
            self.dropped, self.persons = self.dropped + block.dropped, persons.count
            if cap is not None:
                kept = before < cap
                H, values, numbers = H[kept], values[kept], numbers[kept]
            rows = None if self.counts is None else self.counts[numbers - 1]
            weights = self.terms.unit.weights(self.terms.column.level, rows)
            yield H, values, [numbers.astype(float)], weights

    def _noisy(
        self, mechanism: RowMechanism, column: Column, values: Array, weights: Array | None
    ) -> AnyArray:
        """z: whole numbers of a real release; of a simulation doubles in units of the model."""
        ends = self.terms.ends(column)
        y = modelled(self.spec.model.transform, values if ends is None else np.clip(values, *ends))
        c = self.terms.unit.weights(column.level, None) if weights is None else weights
        if not self.noise.simulated:
            return mechanism.release(y, c, self.noise)
        z = mechanism.simulate(y, c, self.noise)
        return self.terms.distribution.simulated(z, self.terms.unit_level(column))


def require_weights(weights: Array, column: str, where: str) -> None:
    """Refuse survey weights that are not above 0."""
    if len(weights) and not (np.min(weights) > 0 and np.isfinite(weights).all()):
        raise InvalidInput(
            f"{where}, column {column!r}: weights must be above 0. Leave rows of weight 0 out of "
            "the table before the plan."
        )


def require_levels(levels: Array, most: float, where: object) -> None:
    """Refuse levels of rows that are not between 0 and the promised one."""
    if not bool(((levels >= 0) & (levels <= most)).all()):
        raise InvalidInput(
            f"{where}: the level of a row is not between 0 and {most:g}, the largest of the plan: "
            "the table was changed."
        )


def require_numbers(spec: Spec, table: Source) -> None:
    """Refuse a private column of texts, by its first rows; a bad cell is found by the release."""
    table.require(spec.targets)
    for target in spec.targets:
        next(table.blocks([target], size=LOOKED_AT), None)


def require_unchanged(
    spec: Spec, found: Survey | None, data: object, now: Stamp | None = None
) -> None:
    """Refuse a file that was changed since the plan was made for it."""
    now = stamp_of(data) if now is None else now
    before = None if found is None else found.stamp
    if before is None or now is None or now == before:
        return
    if data is None or now.path == before.path:
        raise InvalidInput(f"{spec.data} {CHANGED}")

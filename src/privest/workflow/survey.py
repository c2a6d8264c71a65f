"""The survey of a table: what a plan knows of its public columns and of the reference."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy

from privest.aggregate import FeatureRows, SumDesign
from privest.arrays import EPS, AnyArray, Array, Index, plural
from privest.data.cells import Texts, is_number
from privest.data.persons import Persons
from privest.data.rows import Block, read_rows
from privest.data.source import Source, Stamp, open_source, stamp_of
from privest.errors import InvalidInput
from privest.lattice import literal_root
from privest.linalg import RunningLeastSquares
from privest.workflow.rows_planner import LEVEL_COLUMN_VARIANCE
from privest.workflow.spec import FRAME, Spec, beside_of
from privest.workflow.strategies import Gaussian
from privest.workflow.terms import Known, limits_of, modelled

CHANGED = "was changed since the plan was made: make the plan again."


@dataclass(frozen=True, eq=False)
class Strata:
    """Persons with equally many rows.

    rows, persons   (strata,): numbers of rows, and how many persons have them.
    largest         most rows of a person before a cap; `cut`: rows beyond the cap.
    numbers         (rows,) person of each row, from 0; `leaving`: how many rows each has.
    """

    rows: Index
    persons: Index
    largest: int
    cut: int
    numbers: Index = field(repr=False)
    leaving: Index = field(repr=False)

    @property
    def count(self) -> int:
        return int(self.persons.sum())

    @property
    def mean_rows(self) -> float:
        return float(self.rows @ self.persons / self.count)


@dataclass(frozen=True, eq=False)
class Levels:
    """A level column: the largest and the mean level, and rows of level 0.

    triangle   R with RᵀR = Σ hhᵀ/(σ² + a/s_k); σ² = 0 where it is unknown.
    smallest   level above 0.
    """

    largest: float
    mean: float
    withheld: int
    triangle: Array = field(repr=False)
    smallest: float


@dataclass(frozen=True, eq=False)
class Survey:
    """The public columns of a plan's table, and the reference.

    rows, dropped   rows of H, and rows left out for missing features.
    triangle        R with RᵀR = HᵀH; with survey weights (RᵀR)⁻¹ = A·HᵀW²H·A, A = (HᵀWH)⁻¹.
    known           of each target's residuals.
    sums, features  of the aggregate form: rows, their weights and public sums; CRC-32 of H.
    """

    rows: int
    dropped: int
    triangle: Array = field(repr=False)
    known: tuple[Known, ...]
    strata: Strata | None = None
    levels: Levels | None = None
    sums: SumDesign | None = field(default=None, repr=False)
    stamp: Stamp | None = field(default=None, repr=False)
    features: int = field(default=0, repr=False)

    def most_rows(self, spec: Spec) -> int | None:
        """The most rows of a person that leave: the cap, or the most that anybody has."""
        return None if self.strata is None else spec.model.most_rows or self.strata.largest


def survey(spec: Spec, data: object = None, kept: FeatureRows | None = None) -> Survey:
    """One pass over the public columns, in blocks; persons are counted first. kept: gets H."""
    model, design = spec.model, spec.design
    table = table_of(spec, data)
    table.require(spec.targets)
    known = reference_facts(spec)
    parts = _Accumulators(spec, table, known)
    sums, rows, dropped, features = RunningLeastSquares(len(design.names)), 0, 0, 0
    beside = {name: name == model.person for name in beside_of(model, spec.privacy)}
    for block in _blocks(spec, table, beside):
        H = parts.add(block)
        sums.add_matrix(H)
        if kept is not None:
            kept.add(H)
            features = zlib.crc32(H.tobytes(), features)
        rows, dropped = rows + len(H), dropped + block.dropped
    sums.require_full(design.names, table.name, rows)
    triangle = sums.upper if model.weights is None else parts.weighted_triangle()
    return Survey(
        rows, dropped, triangle, known, parts.strata(), parts.levels(),
        stamp=table.stamp, features=features,
    )  # fmt: skip


def table_of(spec: Spec, data: object = None) -> Source:
    """The table: `data`, or the file that the specification names."""
    if data is None and spec.data.endswith(FRAME):
        raise InvalidInput(
            "the plan was made from a frame, which a copied or saved plan does not hold: make it "
            "again from the frame."
        )
    return open_source(spec.data if data is None else data, spec.format)


def inverse_of(triangle: Array) -> Array:
    inverse = scipy.linalg.lapack.dtrtri(triangle)[0]
    return np.asarray(inverse @ inverse.T)


def _blocks(spec: Spec, table: Source, beside: Mapping[str, bool]) -> Iterator[Block]:
    """Public columns; without any feature the rows that have a value in the private ones.

    Those are read as texts, so that no cell but an empty one matters.
    """
    counted = () if spec.design.columns else spec.targets
    others = {**dict.fromkeys(counted, True), **beside}
    return read_rows(table, spec.design, beside=others, missing=spec.model.missing)


class _Accumulators:
    def __init__(self, spec: Spec, table: Source, known: tuple[Known, ...]) -> None:
        self.spec, self.table, n = spec, table, len(spec.design.names)
        self.once, self.twice, self.levelled = (RunningLeastSquares(n) for _ in range(3))
        self.variance = known[0].variance or 0.0
        self.largest, self.total, self.shown, self.rows = 0.0, 0.0, 0, 0
        self.smallest = np.inf
        self.persons = None if spec.model.person is None else _PersonSums(spec, table)

    def add(self, block: Block) -> Array:
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
        limits = limits_of(self.spec.model, self.spec.privacy, self.spec.targets[0])
        Gaussian().mechanism(1.0, limits).require(literal_root(levels))
        known = levels / (LEVEL_COLUMN_VARIANCE + self.variance * levels)
        self.levelled.add_matrix(H * np.sqrt(known)[:, None])
        self.largest = max(self.largest, float(levels.max(initial=0.0)))
        self.smallest = min(self.smallest, float(levels[levels > 0].min(initial=np.inf)))
        self.total += float(levels.sum())
        self.shown += int(np.count_nonzero(levels))
        self.rows += len(levels)

    def weighted_triangle(self) -> Array:
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
        mean, withheld = self.total / self.rows, self.rows - self.shown
        return Levels(self.largest, mean, withheld, self.levelled.upper, self.smallest)

    def strata(self) -> Strata | None:
        return None if self.persons is None else self.persons.strata()


class _PersonSums:
    def __init__(self, spec: Spec, table: Source) -> None:
        assert spec.model.person is not None
        self.column, self.cap, self.table = spec.model.person, spec.model.most_rows, table
        self.counted = count_persons(spec, table)
        rows = self.counted.rows
        self.leaving = rows if self.cap is None else np.minimum(rows, self.cap)
        self.sizes, self.people = np.unique(self.leaving, return_counts=True)
        self.again = Persons(self.counted)
        self.numbers: list[Index] = []

    def add(self, block: Block) -> Array:
        cells = block.beside[self.column]
        assert isinstance(cells, Texts)
        numbers, H = self.again.numbers(cells), block.H
        if self.cap is not None:
            kept = self.again.add(numbers) < self.cap
            H, numbers = H[kept], numbers[kept]
        which = numbers - 1
        self.numbers.append(which)
        if which.max(initial=-1) >= self.counted.count:
            raise InvalidInput(f"{self.table.name} was changed while it was in use: start again.")
        return H

    def strata(self) -> Strata:
        cut = int((self.counted.rows - self.leaving).sum())
        return Strata(
            self.sizes, self.people, self.counted.most, cut,
            np.concatenate(self.numbers), self.leaving,
        )  # fmt: skip


# --- reference ------------------------------------------------------------------------------------


def reference_facts(spec: Spec) -> tuple[Known, ...]:
    public, targets = spec.public, spec.targets
    if public.reference is None:
        return (Known(public.residual_variance),) * len(targets)
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
    return tuple(Known(_residual_variance(H, one, table.name), len(H)) for one in y.T)


def _residual_variance(H: Array, y: Array, name: str) -> float:
    """RSS/(m − n) of least squares on public rows H (m, n), of full rank, and y."""
    left = len(H) - H.shape[1]
    if left < 1:
        raise InvalidInput(
            f"{name} has {plural(len(H), 'row')} for {plural(H.shape[1], 'coefficient')}: it says "
            "nothing about the noise. Give more rows."
        )
    scaled = H / np.linalg.norm(H, axis=0)
    residual = y - scaled @ np.linalg.lstsq(scaled, y)[0]
    if np.linalg.norm(residual) <= EPS * len(H) * np.linalg.norm(y):
        raise InvalidInput(f"{name} is fitted exactly: it shows no noise. Give the variance.")
    return float(residual @ residual / left)


# --- persons --------------------------------------------------------------------------------------


def count_persons(spec: Spec, table: Source) -> Persons:
    """One pass that counts the rows of every person, without the rows that are dropped."""
    column, found = spec.model.person, Persons()
    assert column is not None
    table.require([column])
    if spec.model.missing == "drop":
        blocks: Iterator[Mapping[str, AnyArray | Texts]] = (
            block.beside for block in _blocks(spec, table, {column: True})
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


# --- checks ---------------------------------------------------------------------------------------


def require_weights(weights: Array, column: str, where: str) -> None:
    if len(weights) and not (np.min(weights) > 0 and np.isfinite(weights).all()):
        raise InvalidInput(
            f"{where}, column {column!r}: weights must be above 0. Leave rows of weight 0 out of "
            "the table before the plan."
        )


def require_levels(levels: Array, most: float, where: object) -> None:
    if not bool(((levels >= 0) & (levels <= most)).all()):
        raise InvalidInput(
            f"{where}: the level of a row is not between 0 and {most:g}, the largest of the plan: "
            "the table was changed."
        )


def require_unchanged(
    spec: Spec, found: Survey | None, data: object, now: Stamp | None = None
) -> None:
    now = stamp_of(data) if now is None else now
    before = None if found is None else found.stamp
    if before is None or now is None or now == before:
        return
    if data is None or now.path == before.path:
        raise InvalidInput(f"{spec.data} {CHANGED}")


# --- public rows, for a design --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldRows:
    """All rows that a plan counts: H, their numbers in the table, and the group of each."""

    H: Array
    lines: Index
    dropped: int
    groups: Index | None = None
    labels: tuple[str, ...] = ()


def held_rows(spec: Spec, groups: str | None) -> HeldRows:
    if groups is not None and groups in spec.targets:
        raise InvalidInput(
            f"{groups!r} is the target, which is private: groups are of a public column."
        )
    # A column that is a feature too is read as the model needs it.
    beside = {} if groups is None else {groups: groups not in spec.design.columns}
    blocks = list(_blocks(spec, table_of(spec), beside))
    H, lines = (np.concatenate([getattr(one, name) for one in blocks]) for name in ("H", "line"))
    dropped = sum(block.dropped for block in blocks)
    if groups is None:
        return HeldRows(H, lines, dropped)
    cells = [_group_name(cell) for block in blocks for cell in block.beside[groups].tolist()]
    names = {name: place for place, name in enumerate(dict.fromkeys(cells))}
    return HeldRows(H, lines, dropped, np.array([names[x] for x in cells]), tuple(names))


def _group_name(value: object) -> str:
    text = str(value)
    return f"{float(text):.15g}" if is_number(text) else text

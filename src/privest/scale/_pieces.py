"""What a worker does with one partition: its rows become a triangle of n + 1 numbers squared.

    [R  q]   orthogonally from   g_k [h_k, z_k] ,   g_k = 1/√(σ_k² + 1/s_k)
    [0  ρ]

For U = 0 the whitened rows of different readings are independent (theory.md 1 and 2), so triangles
of partitions are put together by QR in any order. Rows never leave the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array, Flags
from privest.data import Features
from privest.data._cells import Texts
from privest.data._frames import PandasSource
from privest.data._source import Columns
from privest.errors import InvalidInput
from privest.linalg._running import RunningLeastSquares
from privest.linalg._tall import tall_triangle
from privest.linalg.tolerances import rounding

BLOCK = 16384  # rows of H at a time: they stay in cache between filling and multiplying


@dataclass(frozen=True)
class Job:
    """What to do with every partition; all of it public.

    level, variance   a number, or the name of a column with one for every row.
    drop              leave out rows with gaps (and count them) instead of refusing them.
    seed              None: `target` is the release. Else the noise is simulated here, from a
                      generator of its own for every partition.
    """

    features: Features
    target: str
    level: float | str
    variance: float | str
    drop: bool = False
    seed: tuple[int, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read; the rest of the frame is left alone."""
        named = [name for name in (self.level, self.variance) if isinstance(name, str)]
        return tuple(dict.fromkeys([*self.features.columns, self.target, *named]))

    @property
    def uniform(self) -> bool:
        """All rows have the same weight."""
        return not isinstance(self.level, str) and not isinstance(self.variance, str)

    def generator(self, partition: int) -> np.random.Generator | None:
        """The simulation generator of a partition: of (seed, partition) and nothing else."""
        if self.seed is None:
            return None
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(partition,)))


@dataclass(frozen=True, eq=False)
class Piece:
    """What is known of some partitions.

    triangle  (n + 1, n + 1) of the whitened rows [G, ζ].
    bare      the same without privacy noise in the weights, g = 1/σ; None where the level and the
              variance are numbers (it is then a multiple of `triangle`).
    valued    columns that have a value somewhere.
    gaps      column → (partition, row) of a gap that was met, if gaps are refused.
    """

    triangle: Array
    bare: Array | None
    rows: int = 0
    dropped: int = 0
    valued: frozenset[str] = frozenset()
    gaps: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def reduce_partition(part: Any, partition: int, job: Job) -> Piece:  # noqa: ANN401 - a pandas frame
    """One partition, O(K n²) in blocks that stay in cache; columns of doubles are not copied.

    Refused, with column and row: as in `data.read_rows`. A column without any value here may have
    some elsewhere, so that is judged when all pieces are together (`judge`).
    """
    sums, bare = _empty(job), None if job.uniform else _empty(job)
    rows = _Rows(job, f"partition {partition}", job.generator(partition))
    before = kept = 0
    valued: set[str] = set()
    gaps: dict[str, tuple[int, int]] = {}
    for columns in _blocks(part, rows.where, job):
        first, before = before + 1, before + len(next(iter(columns.values())))
        missing = _missing(columns, first, rows.where)
        valued.update(name for name in columns if name not in missing or not missing[name].all())
        if missing and not job.drop:
            for name, gap in missing.items():
                gaps.setdefault(name, (partition, first + int(np.argmax(gap))))
            _refuse_gaps(gaps, valued)
        if gaps:  # the table will be refused: only what decides the message still matters
            continue
        kept += rows.add(columns, missing, first, sums, bare)
    return Piece(
        sums.triangle,
        None if bare is None else bare.triangle,
        kept,
        before - kept,
        frozenset(valued),
        gaps,
    )


def merge(pieces: Sequence[Piece], job: Job) -> Piece:
    """Several pieces as one, always in the same order: the same bits whoever does it."""
    sums, bare = _empty(job), None if job.uniform else _empty(job)
    gaps: dict[str, tuple[int, int]] = {}
    for piece in pieces:
        sums.add_triangle(piece.triangle)
        if bare is not None and piece.bare is not None:
            bare.add_triangle(piece.bare)
        gaps = {**piece.gaps, **gaps}
    return Piece(
        sums.triangle,
        None if bare is None else bare.triangle,
        sum(piece.rows for piece in pieces),
        sum(piece.dropped for piece in pieces),
        frozenset().union(*(piece.valued for piece in pieces)),
        gaps,
    )


def judge(piece: Piece, job: Job) -> None:
    """Refuse what only the whole table shows: columns without a value, no rows."""
    rows = piece.rows + piece.dropped
    if not rows:
        raise InvalidInput("the frame has no rows, only column names.")
    _refuse_gaps(piece.gaps, piece.valued)
    for name in job.columns:
        if name not in piece.valued:
            raise InvalidInput(f"the frame, column {name!r}: every value is missing.")
    if not piece.rows:
        raise InvalidInput(f"the frame: each of its {rows} rows has a missing value.")


def _blocks(part: Any, where: str, job: Job) -> Iterator[Columns]:  # noqa: ANN401
    """The columns in blocks. Converted once (pandas is slow on small slices), then cut up."""
    source = PandasSource(part)
    source.name = where
    whole: Columns = {}
    for name in job.columns:
        column = part[name]
        if name not in job.features.text and column.dtype == np.float64:
            whole[name] = column.to_numpy()  # as it is
            continue
        text = job.features.text & {name}
        for converted in source.coded_blocks([name], text=text, size=max(source.rows, 1)):
            whole |= converted
    for at in range(0, source.rows, BLOCK):
        yield {name: column[at : at + BLOCK] for name, column in whole.items()}


def _empty(job: Job) -> RunningLeastSquares:
    parameters = len(job.features.names)
    return RunningLeastSquares(parameters, rounding(parameters))


def _missing(columns: Columns, first: int, where: str) -> dict[str, Flags]:
    """Where values are missing, for the columns in which some are. An infinity is refused."""
    found: dict[str, Flags] = {}
    for name, values in columns.items():
        if isinstance(values, Texts):
            gap: Flags = values.missing
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(values.sum()):  # one pass when all is well
                    continue
            infinite = np.isinf(values)
            if infinite.any():
                row = first + int(np.argmax(infinite))
                raise InvalidInput(f"{where}, column {name!r}, row {row}: not a finite number.")
            gap = np.isnan(values)
        if gap.any():
            found[name] = gap
    return found


def _refuse_gaps(gaps: Mapping[str, tuple[int, int]], valued: set[str] | frozenset[str]) -> None:
    for name, (partition, row) in gaps.items():
        if name in valued:
            raise InvalidInput(
                f"partition {partition}, column {name!r}, row {row}: a value is missing. Fill the "
                "gaps, or leave out such rows with missing='drop' (they are counted)."
            )


class _Rows:
    """Blocks of columns as whitened rows.

    H is filled into one buffer that stays in cache: Dask's workers hand memory back to the system
    at once, so that a new block every time would cost three times the arithmetic.
    """

    def __init__(self, job: Job, where: str, rng: np.random.Generator | None) -> None:
        self.job, self.where, self.rng = job, where, rng
        self._buffer: Array = np.ones((BLOCK, len(job.features.names)))

    def add(
        self,
        columns: Columns,
        missing: Mapping[str, Flags],
        first: int,
        sums: RunningLeastSquares,
        bare: RunningLeastSquares | None,
    ) -> int:
        """Add the rows without gaps, and tell how many; `first` is the number of the first row."""
        line: AnyArray | range = range(first, first + len(next(iter(columns.values()))))
        if missing:
            whole = ~np.logical_or.reduce(list(missing.values()))
            columns = {name: column[whole] for name, column in columns.items()}
            line = np.asarray(line)[whole]
        if not len(line):
            return 0
        H = self._matrix(columns, line)
        z = np.asarray(columns[self.job.target])
        level = self._positive(self.job.level, columns, line)
        variance = self._positive(self.job.variance, columns, line)
        if self.rng is not None:
            z = z + self.rng.standard_normal(len(z)) / np.sqrt(level)
        weight = 1.0 / np.sqrt(variance + 1.0 / level)
        # Not compiled: every worker would compile for seconds what it runs for milliseconds.
        sums.add_triangle(tall_triangle(H, z, weight, weight, 0.0, compiled=False))
        if bare is not None:
            weight = 1.0 / np.sqrt(variance)
            bare.add_triangle(tall_triangle(H, z, weight, weight, 0.0, compiled=False))
        return len(line)

    def _matrix(self, columns: Columns, line: AnyArray | range) -> Array:
        """`Features.matrix`, into the buffer where all features are numbers."""
        features = self.job.features
        if features.categories:
            try:
                return features.matrix(columns, np.asarray(line))
            except InvalidInput as error:
                raise InvalidInput(f"{self.where}, {error}") from None
        H = self._buffer[: len(line)]
        for place, name in enumerate(features.columns, int(features.intercept)):
            H[:, place] = np.asarray(columns[name])
        return H

    def _positive(
        self, given: float | str, columns: Columns, line: AnyArray | range
    ) -> Array | np.float64:
        if not isinstance(given, str):
            return np.float64(given)
        values = np.asarray(columns[given])
        good = values > 0
        if not good.all():
            row = int(line[int(np.argmin(good))])
            raise InvalidInput(
                f"{self.where}, column {given!r}, row {row}: levels and noise variances must be "
                "> 0; leave out rows of which nothing is released."
            )
        return values

"""What a worker does with one partition: its rows become what an estimator knows of them.

    z̃_k = √s_k z_k : a stream of scalar readings, U = 0

is what `PrivateRLS` takes in blocks; estimators of partitions are joined in any order. Rows never
leave the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, Flags
from privest.data import Columns, Features, PandasSource, gaps_of
from privest.errors import InvalidInput
from privest.estimator import PrivateRLS
from privest.mechanism import StreamMechanism
from privest.mechanism.source import Source, seeded
from privest.noise import Gaussian
from privest.release import StreamRelease
from privest.scale._keeping import ReleaseFolder, public_digests

BLOCK = 32768  # rows at a time, two chunks of `tall_triangle`: they stay in the outer cache


@dataclass(frozen=True)
class Job:
    """What to do with every partition; all of it public.

    level, noise      a number, or the name of a column with one for every row.
    drop              leave out rows with gaps (and count them) instead of refusing them.
    seed, release     None: `target` is the release. Else it is y: the noise is simulated here, or
                      z is released for real and kept in that folder.
    """

    features: Features
    target: str
    level: float | str
    noise: float | str
    drop: bool = False
    seed: int | None = None
    release: ReleaseFolder | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read; the rest of the frame is left alone."""
        named = [name for name in (self.level, self.noise) if isinstance(name, str)]
        return tuple(dict.fromkeys([*self.features.columns, self.target, *named]))

    def estimator(self) -> PrivateRLS:
        """One that has seen nothing yet.

        A level that is a column goes into the readings: √s·y is released at level 1.
        """
        level = 1.0 if isinstance(self.level, str) else self.level
        varied = isinstance(self.level, str) or isinstance(self.noise, str)
        noise = 1.0 if isinstance(self.noise, str) else self.noise
        # Not compiled: every worker would compile for seconds what it runs for milliseconds.
        return PrivateRLS(level, len(self.features.names), noise, classical=varied, compiled=False)

    def source(self, partition: int) -> Source | None:
        """The noise of a partition: of the seed, its number, and each row's place and √s·y.

        The level itself is not among the facts: as a number or as a column, it is the same release.
        So rows whose reading is exactly 0 have the same noise at every level. Where a row
        stands in the whole frame a worker does not know: rows that were cut into other partitions
        have other noise.
        """
        if self.seed is None:
            return None
        return seeded(self.seed, "partition", partition, self.target, list(self.features.names))


@dataclass(frozen=True, eq=False)
class Piece:
    """What is known of some partitions.

    rls       the estimator that has seen their rows.
    valued    columns that have a value somewhere.
    gaps      column → (partition, row) of a gap that was met, if gaps are refused.
    """

    rls: PrivateRLS
    dropped: int = 0
    valued: frozenset[str] = frozenset()
    gaps: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def reduce_partition(part: Any, partition: int, job: Job) -> Piece:  # noqa: ANN401 - a pandas frame
    """One partition, O(K n²) in blocks that stay in cache; columns of doubles are not copied.

    Refused, with column and row: as in `data.read_rows`. A column without any value here may have
    some elsewhere, so that is judged when all pieces are together (`judge`).
    """
    rows = _Rows(job, f"partition {partition}", job.source(partition))
    before = 0
    valued: set[str] = set()
    gaps: dict[str, tuple[int, int]] = {}
    for columns in _blocks(part, partition, job):
        first, before = before + 1, before + len(next(iter(columns.values())))
        missing = gaps_of(columns, rows.where, first - 1)
        valued.update(name for name in columns if name not in missing or not missing[name].all())
        refused = _refused(missing, job)
        if refused:
            for name, gap in refused.items():
                gaps.setdefault(name, (partition, first + int(np.argmax(gap))))
            _refuse_gaps(gaps, valued)
        if gaps:  # the table will be refused: only what decides the message still matters
            continue
        rows.add(columns, missing, first)
    return Piece(rows.rls, before - rows.rls.readings, frozenset(valued), gaps)


def merge(pieces: Sequence[Piece], job: Job) -> Piece:
    """Several pieces as one, always in the same order: the same bits whoever does it."""
    rls = job.estimator()
    gaps: dict[str, tuple[int, int]] = {}
    for piece in pieces:
        rls.join(piece.rls)
        gaps = {**piece.gaps, **gaps}
    dropped = sum(piece.dropped for piece in pieces)
    return Piece(rls, dropped, frozenset().union(*(piece.valued for piece in pieces)), gaps)


def judge(piece: Piece, job: Job) -> None:
    """Refuse what only the whole table shows: columns without a value, no rows."""
    rows = piece.rls.readings + piece.dropped
    if not rows:
        raise InvalidInput("the frame has no rows, only column names.")
    _refuse_gaps(piece.gaps, piece.valued)
    for name in job.columns:
        if name not in piece.valued:
            raise InvalidInput(f"the frame, column {name!r}: every value is missing.")
    if not piece.rls.readings:
        raise InvalidInput(f"the frame: every row has a missing value ({rows:,} in all).")


def _blocks(part: Any, partition: int, job: Job) -> Iterator[Columns]:  # noqa: ANN401
    """The columns in blocks. Converted once (pandas is slow on small slices), then cut up."""
    where = f"partition {partition}"
    source = PandasSource(part, where)
    whole: Columns = {}
    for name in job.columns:
        column = part[name]
        if name not in job.features.text and column.dtype == np.float64:
            whole[name] = column.to_numpy()  # as it is
            continue
        if job.release is not None and name == job.target:
            _require_numbers(column, where)
        text = job.features.text & {name}
        for converted in source.blocks([name], text=text, size=max(source.rows, 1)):
            whole |= converted
    if job.release is not None and source.rows:
        whole[job.target] = _released(whole, partition, job)
    for at in range(0, source.rows, BLOCK):
        yield {name: column[at : at + BLOCK] for name, column in whole.items()}


def _require_numbers(column: Any, where: str) -> None:  # noqa: ANN401 - a pandas series
    """Refuse by its type what would have to be looked at cell by cell."""
    if column.dtype.kind not in "biuf" and len(column):
        raise InvalidInput(
            f"{where}: the readings {column.name!r} have type {column.dtype}, not numbers. To look "
            "at each of them would tell about them: convert the column before."
        )


def _released(columns: Columns, partition: int, job: Job) -> Array:
    """z̃ of a partition, NaN where there is no reading (or no level): the readings end here.

    Public columns are looked at first, so that nothing is released of rows that will be refused;
    of the readings only where they are missing (NaN), which is public.
    """
    assert job.release is not None
    where, y = f"partition {partition}", np.asarray(columns[job.target], dtype=np.float64)
    public = tuple(name for name in job.columns if name != job.target)
    gaps = gaps_of({name: columns[name] for name in public}, where, 0)
    if _refused(gaps, job):
        return np.full(len(y), np.nan)
    shown, level = ~np.isnan(y), np.asarray(job.level if isinstance(job.level, float) else 1.0)
    if isinstance(job.level, str):
        values = np.asarray(columns[job.level])
        shown &= ~np.isnan(values)
        require_positive(values[shown], np.flatnonzero(shown) + 1, job.level, where)
        level = values[shown]
    facts = {"target": job.target, "level": str(job.level), **public_digests(columns, public)}
    return job.release.released(partition, shown, lattice.literal_root(level), y, facts)


def _refused(missing: Mapping[str, Flags], job: Job) -> dict[str, Flags]:
    """Gaps that are refused: none where rows are dropped; never those of readings to be released.

    (A real release takes a reading that is not there as missing.)
    """
    if job.drop:
        return {}
    return {name: gap for name, gap in missing.items() if job.release is None or name != job.target}


def require_positive(values: Array, line: AnyArray | range, name: str, where: str) -> None:
    """Refuse levels and variances that are not > 0, with the number of the row."""
    good = values > 0
    if not good.all():
        row = int(line[int(np.argmin(good))])
        raise InvalidInput(
            f"{where}, column {name!r}, row {row}: levels and noise variances must be "
            "> 0; leave out rows of which nothing is released."
        )


def _refuse_gaps(gaps: Mapping[str, tuple[int, int]], valued: set[str] | frozenset[str]) -> None:
    for name, (partition, row) in gaps.items():
        if name in valued:
            raise InvalidInput(
                f"partition {partition}, column {name!r}, row {row}: a value is missing. Fill the "
                "gaps, or leave out such rows with missing='drop' (they are counted)."
            )


class _Rows:
    """Blocks of columns as releases of a stream, and the estimator that uses them.

    H and z̃ are filled into buffers that stay in cache: Dask's workers hand memory back to the
    system at once, so that a new block every time would cost three times the arithmetic.
    """

    def __init__(self, job: Job, where: str, source: Source | None) -> None:
        self.job, self.where, self.source = job, where, source
        self.rls = job.estimator()
        self._mechanism = StreamMechanism(self.rls.level)
        self._buffer: Array = np.ones((BLOCK, len(job.features.names)))
        self._shown: Array = np.empty(BLOCK)

    def add(self, columns: Columns, missing: Mapping[str, Flags], first: int) -> None:
        """Use the rows without gaps; `first` is the number of the first row."""
        line: AnyArray | range = range(first, first + len(next(iter(columns.values()))))
        if missing:
            whole = ~np.logical_or.reduce(list(missing.values()))
            columns = {name: column[whole] for name, column in columns.items()}
            line = np.asarray(line)[whole]
        if not len(line):
            return
        H = self._matrix(columns, line)
        reading, scale = np.asarray(columns[self.job.target]), None
        level = self._positive(self.job.level, columns, line)
        variance = self._positive(self.job.noise, columns, line)
        if level is not None and self.job.release is None:
            scale = np.sqrt(level)
            reading = np.multiply(scale, reading, out=self._shown[: len(line)])
        elif level is not None:
            scale = lattice.literal_root(level)  # the reading is z̃ already
        noise = None if variance is None else Gaussian(cov=variance)
        self.rls.update(self._released(reading), H, noise=noise, scale=scale)

    def _released(self, reading: Array) -> StreamRelease:
        """The release of these readings, which they are already where nothing is simulated."""
        if self.source is not None:
            return self._mechanism.simulate(reading, self.source)
        level, start = self.rls.level, self.rls.steps
        if self.job.release is not None:  # z̃, made when the partition was opened
            return StreamRelease(
                start, len(reading), reading, None, level.fingerprint, False, lattice.GRID
            )
        root = np.sqrt(level.pointwise(start, start + 1) or 0.0)
        shown = np.multiply(root, reading, out=self._shown[: len(reading)])
        return StreamRelease(start, len(reading), shown, None, level.fingerprint, False)

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
    ) -> Array | None:
        """The values of a column, all > 0; None where one number is given for all rows."""
        if not isinstance(given, str):
            return None
        values = np.asarray(columns[given])
        require_positive(values, line, given, self.where)
        return values

"""The release: z = y + e/√s for every row, with the public features and a header. Never y.

The noise of this version comes from a simulation generator: it protects nothing against somebody
who knows how it was made. The header says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from privest.arrays import Array, ArrayLike, as_positive
from privest.data import open_source, read_rows
from privest.data._writer import table_writer
from privest.errors import InvalidInput
from privest.files import atomic_file, atomic_write, require_writable, stopped_by_exception
from privest.mechanism import RunningMechanism, StreamMechanism
from privest.mechanism.source import Source, as_source, seeded
from privest.privacy import EndlessLevel
from privest.workflow._header import READING, TableRelease, digest, header_path
from privest.workflow._planning import Plan
from privest.workflow._terms import (
    Terms,
    add_rows,
    new_sums,
    require_full,
    require_target,
    transformed,
)


class TableMechanism:
    """What puts noise on the rows of a table: z_k = y_k + e_k/√s, e_k ~ N(0, 1), I_z(y) = s·I.

    A stream at level s, z = z̃/√s: rows may come in blocks of any size.

    >>> mechanism = TableMechanism(4.0)
    >>> mechanism.simulate([0.3, 0.1], np.random.default_rng(1)).round(3).tolist()
    [0.473, 0.511]
    """

    def __init__(self, level: float) -> None:
        self.level = as_positive(level, "level")
        self._stream, self._root = StreamMechanism(self.level), math.sqrt(self.level)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z of the next rows, with simulated noise."""
        return self._stream.simulate(y, rng).values / self._root

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


def trial_source(terms: Terms, seed: int | None) -> Source:
    """The noise of a trial release: fresh for None; a seed repeats the very same release only.

    Bound row by row to √s·y and its place by the source itself, to the level (0 is 0 at every one),
    target and coefficients here: a reading that is released otherwise has other noise. Rows that
    are the same in two tables have the same noise in both.
    """
    spec, names = terms.spec, list(terms.names)
    return seeded(seed, "table", spec.target, spec.transform, names, terms.level)


def simulate_release(
    plan: Terms, path: str | Path, rng: np.random.Generator | Source, data: object = None
) -> TableRelease:
    """Write the release of the plan's data to `path` (.csv or .parquet) and its header beside it.

    In blocks; nobody but the owner can read the table until it is whole and its header is there. A
    file that exists is never written over: the same readings released twice, with new noise, show
    twice as much. What a killed process left unfinished is named and refused.
    `plan` may be bare terms (`stated_terms`): the data are then read once, and features that do
    not determine the coefficients are refused at their end, before the table appears.
    """
    source, table = as_source(rng), Path(path)
    write = table_writer(table)
    require_writable(table)
    _require_free(table)
    _ = plan.epsilon  # now: what can fail must not fail after the noise is drawn
    released = _Rows(plan, source, plan.spec.data if data is None else data)
    columns = [name for name in plan.names if name != "intercept"]
    header, described = header_path(table), False
    with stopped_by_exception():
        try:
            with atomic_file(table, once=True) as file:
                _require_free(table)  # again: now no other process can begin
                rows = write(file, [*columns, READING], released.blocks())
                file.seek(0)
                release = _described(
                    plan, table, rows, released.dropped, source.simulated, digest(file)
                )
                described = True
                text = json.dumps(release.to_dict(), indent=1, ensure_ascii=False)
                atomic_write(header, text + "\n")
        except BaseException:
            if described and not table.exists():
                header.unlink(missing_ok=True)  # a header without its table is no release
            raise
    return release


def _require_free(table: Path) -> None:
    """Refuse to write over a release, a part of one, or anything else."""
    again = "Releasing the same readings again, with new noise, spends their privacy again"
    if table.exists():
        raise InvalidInput(
            f"{table} exists. {again}: use the release that is there, or another name if these are "
            "other readings."
        )
    header = header_path(table)
    if header.exists():
        raise InvalidInput(
            f"{header} exists, without its table. {again}: find the table. If it was never "
            "complete, or nobody has seen it, delete the header."
        )


class _Rows:
    """The rows of a table as they leave: public features and z, block by block."""

    def __init__(self, plan: Terms, source: Source, data: object) -> None:
        self.plan, self.source = plan, source
        self.data = open_source(data)
        require_target(plan.spec, self.data)
        self.dropped = 0

    def blocks(self) -> Iterator[Sequence[Array]]:
        plan, design = self.plan, self.plan.spec.design
        sums = None if isinstance(plan, Plan) else new_sums(design)
        mechanism, rows = TableMechanism(plan.level), 0
        for block in read_rows(self.data, design, plan.spec.target, missing=plan.spec.missing):
            assert block.y is not None
            self.dropped += block.dropped
            rows += len(block.H)
            if sums is not None:
                add_rows(sums, block.H)
            y = transformed(plan.spec, plan.exponent, block.y, self.data.name)
            yield [*block.H.T[int(design.intercept) :], mechanism.simulate(y, self.source)]
        if sums is not None:
            require_full(sums, design.names, self.data.name, rows)


def _described(
    plan: Terms, table: Path, rows: int, dropped: int, simulated: bool, sha256: str
) -> TableRelease:
    """The header of a table."""
    spec = plan.spec
    stated = ("exponent", "names", "level", "noise_variance", "reference_rows")
    return TableRelease(
        **{name: getattr(plan, name) for name in stated},
        table=table.name,
        rows=rows,
        dropped=dropped,
        target=spec.target,
        transform=spec.transform,
        fingerprint=EndlessLevel(plan.level).fingerprint,
        delta=spec.privacy.delta,
        move=spec.privacy.move,
        simulated=simulated,
        sha256=sha256,
        path=table,
    )

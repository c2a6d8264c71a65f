"""The release: a noisy reading for every row, with the public features and a header. Never y.

`release` puts protected noise on the readings and writes whole numbers n, of which n·unit is a
reading with its noise; it refuses nothing because of a value. `simulate_release` is the trial: an
ordinary generator, z = y + e/√s in doubles, no protection, and the header says so.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_positive
from privest.data import open_source, read_rows
from privest.data._writer import table_writer
from privest.errors import BudgetExceeded, InvalidInput
from privest.files import Draft, atomic_write, draft, require_writable
from privest.mechanism import RunningMechanism, StreamMechanism
from privest.mechanism.source import Source, as_protected, as_source, seeded
from privest.privacy import EndlessLevel, Range
from privest.workflow._account import Account
from privest.workflow._header import TableRelease, digest, header_path
from privest.workflow._header_fields import READING, unit_of
from privest.workflow._modelled import clip_ends, clipped
from privest.workflow._planning import Plan
from privest.workflow._terms import (
    Terms,
    add_rows,
    new_sums,
    require_full,
    require_target,
)


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

        I_z(y) ≤ s literally. No value is refused or slower than another: beyond the range (or what
        the grid can hold) it is clipped. NaN is missing: NaN comes back, among whole doubles.
        """
        made = self._stream.release(y, source)
        whole = made.values / made.grid
        return whole.astype(np.int64) if made.missing is None else whole

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
    """A trial of `release`, with simulated noise: the same files, and no protection.

    Refuses readings beside which the noise would be lost in the rounding of doubles.
    """
    return _released(plan, Path(path), as_source(rng), data)


def release(
    plan: Terms,
    path: str | Path,
    data: object = None,
    *,
    source: Source | None = None,
    account: Account | None = None,
) -> TableRelease:
    """Write the release of the plan's data to `path` (.csv or .parquet) and its header beside it.

    The noise is protected (`mechanism.source.Protected`, or `source`) and has no seed. In blocks;
    nobody but the owner can read the table until it is whole, paid for (`account`) and its header
    is there. A file that exists is never written over: the same readings released twice, with new
    noise, show twice as much. A run that was killed is finished by the same call: the very same
    table if it was paid for; else nobody saw it, and it is drawn anew.

    No reading is refused: beyond the plan's range, or what the grid can hold, it is clipped.
    Refused are a cell that is no number (a malformed file) and, unless the plan drops them, rows
    without a reading: which they are is public.
    `plan` may be bare terms (`stated_terms`): the data are then read once, and features that do
    not determine the coefficients are refused at their end, before the table appears.
    Without an `account` nothing is counted: that is then yours to do. Raises BudgetExceeded where
    the budget does not allow it, LedgerError where the ledger cannot be trusted.
    """
    return _released(plan, Path(path), as_protected(source), data, account)


def _released(
    plan: Terms, table: Path, source: Source, data: object, account: Account | None = None
) -> TableRelease:
    write = table_writer(table)
    require_writable(table)
    _ = plan.epsilon  # now: what can fail must not fail after the noise is drawn
    with draft(table) as part:  # now no other process can begin
        part.kept = part.left  # until it is known whether it was paid for
        if table.exists() or account is None or not part.left:
            _require_free(table)
        elif (found := _paid(plan, table, source, part, account)) is not None:
            return _shown(found, table, part)
        _require_free(table)
        part.kept = False
        rows = _Rows(plan, source, plan.spec.data if data is None else data)
        if account is not None:
            account.open(plan, table.resolve().parent)
        part.empty()
        columns = [name for name in plan.names if name != "intercept"]
        count = write(part.file, [*columns, READING], rows.blocks())
        part.settle()
        found = _described(plan, table, source, _digest(part), count, rows.dropped)
        if account is not None:
            found = _charged(plan, found, part, account, rows.readings.digest())
        return _shown(found, table, part)


def _paid(
    plan: Terms, table: Path, source: Source, part: Draft, account: Account
) -> TableRelease | None:
    """What a killed run has left in the draft, if it is whole and in the ledger."""
    part.kept = True  # whatever happens while this is not known
    found = account.paid(_described(plan, table, source, _digest(part)))
    part.kept = found is not None
    return found


def _charged(
    plan: Terms, found: TableRelease, part: Draft, account: Account, readings: bytes
) -> TableRelease:
    """The release, paid for. From here on its draft stays where it is, whatever happens."""
    part.kept = True
    try:
        return account.charge(plan, found, readings)
    except (BudgetExceeded, InvalidInput):
        part.kept = False  # refused, nothing spent
        raise


def _shown(found: TableRelease, table: Path, part: Draft) -> TableRelease:
    """The header, then the table, to their places."""
    header = header_path(table)
    try:
        _write_header(found, header)
        part.publish()
    except BaseException:
        if not part.kept:
            header.unlink(missing_ok=True)  # a header without its table is no release
        raise
    return found


def _digest(part: Draft) -> str:
    part.file.seek(0)
    return digest(part.file)


def _write_header(found: TableRelease, path: Path) -> None:
    atomic_write(path, json.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n")


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
        self.dropped, self.readings = 0, hashlib.sha256()
        limits = plan.limits
        ends = None if limits is None else (limits.low, limits.high)
        self.mechanism = TableMechanism(plan.level, range=ends)

    def blocks(self) -> Iterator[Sequence[AnyArray]]:
        plan, spec, design = self.plan, self.plan.spec, self.plan.spec.design
        sums, rows = None if isinstance(plan, Plan) else new_sums(design), 0
        for block in read_rows(
            self.data, design, spec.target, missing=spec.missing,
            infinite=not self.source.simulated,
        ):  # fmt: skip
            assert block.y is not None
            self.dropped += block.dropped
            rows += len(block.H)
            if sums is not None:
                add_rows(sums, block.H)
            self.readings.update(np.add(block.y, 0.0, dtype="<f8").tobytes())  # −0 is 0
            y = clipped(spec.transform, plan.exponent, spec.privacy.range, block.y)
            yield [*block.H.T[int(design.intercept) :], self._noisy(y)]
        if sums is not None:
            require_full(sums, design.names, self.data.name, rows)

    def _noisy(self, y: Array) -> AnyArray:
        if self.source.simulated:
            return self.mechanism.simulate(y, self.source)
        return self.mechanism.release(y, self.source)


def _described(
    plan: Terms, table: Path, source: Source, sha256: str, rows: int = 1, dropped: int = 0
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
        range=spec.privacy.range,
        simulated=source.simulated,
        grid=source.grid,
        unit=unit_of(plan.level, simulated=source.simulated),
        sha256=sha256,
        path=table,
    )

"""Whether a release file is whole, and whether it is in the ledger of its owner."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array, plural
from privest.data.lines import open_lines
from privest.errors import InvalidInput, LedgerError
from privest.ledger import Entry, Head, Ledger
from privest.reading import counted, read_fields, read_text
from privest.records import Record
from privest.stream_file import CheckedLines, check_lines
from privest.workflow.document import TABLES, LedgerPlace, TableRelease, read_release
from privest.workflow.terms import SAME

CHARGED = {"level": "information", "mu2": "mu2"}  # of a cost
BEYOND = "how the noise was drawn, and on which values"


@dataclass(frozen=True)
class Verification(Record):
    """The checks of a release file that hold, and those that were not made.

    signed         whether it bears the signature of the ledger; None: no ledger was given.
    no_file_shows  what no check of a file can tell.
    """

    path: Path
    simulated: bool
    signed: bool | None
    examined: tuple[str, ...]
    not_examined: tuple[str, ...]
    no_file_shows: str = BEYOND

    @property
    def verified(self) -> bool:
        return not self.not_examined


def verify(
    path: str | Path,
    ledger: str | os.PathLike[str] | Ledger | None = None,
    *,
    allow_simulated: bool = False,
) -> Verification:
    """Check a release: a document, a table with its header, or a stream as JSON lines.

    With the ledger of the data owner: signature, entries, every released number, the chain.
    Without it what the file says of itself, which anybody can write. Simulations are refused
    unless `allow_simulated`.
    """
    file = Path(path)
    opened = Ledger(ledger, create=False) if isinstance(ledger, str | os.PathLike) else ledger
    try:
        check = _table if file.suffix.lower() in (*TABLES, ".json") else _lines
        found = check(file, opened)
    finally:
        if opened is not None and opened is not ledger:
            opened.close()
    if found.simulated and not allow_simulated:
        raise InvalidInput(
            f"{file} is a simulation, which protects nothing: it is no release. (It is whole: "
            "allow_simulated says no more than that.)"
        )
    return found


def _table(file: Path, ledger: Ledger | None) -> Verification:
    found = read_release(file)
    examined = ["every field of the document, and its checksum"] if found.sums else _rows_of(found)
    if ledger is None:
        return _without(file, found.simulated, examined)
    _require_entry(found, ledger)
    assert found.entry is not None
    what = "these estimates" if found.sums else "this table"
    examined += [
        "the signature, with the key of the ledger",
        f"entry {found.entry.sequence} of the ledger: it is of {what}, these rows, this level",
        "all entries of the ledger: chain, totals, budgets, mark",
    ]
    return Verification(file, found.simulated, True, tuple(examined), ())


def _rows_of(found: TableRelease) -> list[str]:
    rows = sum(len(part) for part in found.blocks())
    if rows != found.rows:
        raise InvalidInput(f"{found.path} has {plural(rows, 'row')}, its header says {found.rows}.")
    numbers = ""
    if not found.simulated:
        numbers = f", z: {'bits, 0 or 1' if found.distribution.bits else 'whole numbers'}"
    if found.privacy.level_column is not None:
        numbers += ", a level for every row, none above that of the header"
    return [
        "every field of the header, alone and beside the others, and its checksum",
        f"the table: name, columns, {plural(rows, 'row')}, SHA-256{numbers}",
    ]


def _require_entry(found: TableRelease, ledger: Ledger) -> None:
    place, path = found.entry, ledger.path
    if place is None or found.signature is None:
        raise InvalidInput(f"{found.path} names no entry of a ledger: it was charged to none.")
    if place.ledger != ledger.id:
        raise InvalidInput(f"{found.path} is of another ledger than {path}.")
    if place.sequence > ledger.head.sequence:
        raise LedgerError(
            f"{found.path} is entry {place.sequence} of {path}, which ends at entry "
            f"{ledger.head.sequence}: the ledger is an old copy."
        )
    ledger.verify(Head(place.ledger, place.sequence, place.hash))
    if not ledger.check(found.signed_text, found.signature):
        raise InvalidInput(f"the signature of {found.path} is not one of {path}.")
    _require_same(found, place, ledger)


def _require_same(found: TableRelease, place: LedgerPlace, ledger: Ledger) -> None:
    entry = next(e for e in ledger.history(place.subject) if e.sequence == place.sequence)
    written = ledger.written(entry)
    words = None if written is None else written.integers[:4].astype("<i8").tobytes().hex()
    unit = "mu2" if found.sums else "level"  # of sums μ² is what is promised
    charged = None if entry.cost is None else getattr(entry.cost, CHARGED[unit])
    if words != found.sha256 or (entry.start, entry.stop) != (0, found.charged):
        raise InvalidInput(
            f"entry {place.sequence} of {ledger.path} is not of the table {found.path}."
        )
    # The level was computed again, perhaps on another processor.
    if charged is None or charged < (found.counted(unit) or 0) * (1 - Fraction(SAME)):
        raise InvalidInput(
            f"entry {place.sequence} of {ledger.path} is not of the level of the header."
        )


class _Charged:
    """The record of a stream in a ledger, beside the lines of a file.

    retired   numbers that the ledger has and the file does not show.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.check, self.retired = ledger, ledger.check, 0
        self.entry: Entry | None = None
        self.first = 0  # index of that entry
        self.cells = np.empty((0, 0))  # its numbers, NaN where nothing was shown

    def facts(self, facts: Mapping[str, Any]) -> None:
        if facts["simulated"]:
            raise InvalidInput("it is of a simulation, which is in no ledger.")
        if facts.get("ledger") is None:
            raise InvalidInput("it names no account of a ledger: it was charged to none.")
        texts = dict.fromkeys(("ledger", "subject", "key"), read_text)
        place = read_fields(facts["ledger"], texts, "ledger")
        if place["ledger"] != self.ledger.id:
            raise InvalidInput(f"it is of another ledger than {self.ledger.path}.")
        self.subject, self.key = place["subject"], place["key"]
        self.width = counted(least=1)(facts.get("together", 1), "together")
        self.steps = self.ledger.account(self.subject).next_index(self.key) * self.width

    def step(self, step: int, z: Array | None, entry: int | None) -> None:
        charged = self._numbers(step // self.width)
        if entry is not None and (self.entry is None or self.entry.sequence != entry):
            raise InvalidInput(f"step {step} is not of entry {entry} of {self.ledger.path}.")
        if self.width > 1:
            charged = charged[step % self.width :][:1]  # none: the first line tells another width
        if z is None:
            self.retired += bool(np.isfinite(charged).any())
        elif not np.array_equal(z, charged, equal_nan=True):
            raise InvalidInput(f"z of step {step} is not what {self.ledger.path} has of it.")

    def _numbers(self, index: int) -> Array:
        if self.entry is None or not self.first <= index < self.first + len(self.cells):
            known = self.ledger.account(self.subject).entry_at(index, self.key)
            written = None if known is None else self.ledger.written(known)
            self.entry = None if written is None else known
            if known is None or written is None:
                return np.empty(0)
            values = written.integers.astype(float)
            if written.missing is not None:
                values[written.missing] = np.nan
            self.first = known.start or 0
            self.cells = values.reshape((known.stop or 0) - self.first, -1)
        return np.asarray(self.cells[index - self.first])


def _lines(file: Path, ledger: Ledger | None) -> Verification:
    if not file.is_file():
        raise InvalidInput(f"there is no release {file}.")
    charged = None if ledger is None else _Charged(ledger)
    with open_lines(str(file)) as lines:
        try:
            found = check_lines(lines, charged)
        except InvalidInput as error:
            raise InvalidInput(f"{file}, {error}") from None
    simulated = bool(found.facts["simulated"])
    examined = [f"{plural(found.steps, 'step')}, each line linked to all before it"]
    unseen = ["the line at its end, which is not finished"] if found.torn else []
    if ledger is None or charged is None:
        return _without(file, simulated, examined, [*unseen, "where the stream ended"])
    ledger.verify()
    return _charged_lines(file, found, charged, examined, unseen)


def _charged_lines(
    file: Path, found: CheckedLines, charged: _Charged, examined: list[str], unseen: list[str]
) -> Verification:
    signed = found.signed or 0
    retired = f"; {charged.retired:,} of them were sent and are retired here"
    examined += [
        f"z of every step: the number that the ledger has{retired if charged.retired else ''}",
        "all entries of the ledger: chain, totals, budgets, mark",
    ]
    if signed:
        examined.append(f"the signature of the ledger, up to step {signed - 1}")
    if not signed or signed < found.steps:
        start = f"the steps from {signed} on" if signed else "the first line, features and times"
        unseen.append(f"{start}: they bear no signature of the ledger")
    if found.steps < charged.steps:
        unseen.append(
            f"steps {found.steps} to {charged.steps - 1}: the ledger has them, the file does not"
        )
    return Verification(file, False, signed == found.steps > 0, tuple(examined), tuple(unseen))


def _without(
    file: Path, simulated: bool, examined: list[str], unseen: Sequence[str] = ()
) -> Verification:
    rest = () if simulated else ("who made it, and whether it was charged: only a ledger says so",)
    return Verification(file, simulated, None, tuple(examined), (*unseen, *rest))

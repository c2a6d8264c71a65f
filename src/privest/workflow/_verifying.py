"""Whether a release file is whole, and whether it is in the ledger of whoever says it is theirs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from privest.data._release_lines import check_lines
from privest.data._text_table import open_lines
from privest.errors import InvalidInput, LedgerError
from privest.ledger import Head, Ledger
from privest.records import Record
from privest.workflow._account import signed_text
from privest.workflow._header import TableRelease, read_release
from privest.workflow._laws import BITS
from privest.workflow._record import record_information

TABLES = (".csv", ".parquet")
UNSEEN = "how the noise was drawn, and of which readings: no file can show that"


@dataclass(frozen=True)
class Verified(Record):
    """What was examined of a release file and is true, and what was not examined.

    signed  whether it bears the signature of the ledger; None: no ledger was given.
    """

    path: Path
    simulated: bool
    signed: bool | None
    examined: tuple[str, ...]
    not_examined: tuple[str, ...]


def verify_release(
    path: str | Path,
    ledger: str | os.PathLike[str] | Ledger | None = None,
    *,
    allow_simulated: bool = False,
) -> Verified:
    """Check a release: a table with its header, or a stream as JSON lines.

    Without a ledger: that nothing was changed since it was written. With the ledger of the data
    holder also its signature, its entry, and the chain of all entries. A simulated release is
    refused unless `allow_simulated`. Raises InvalidInput or LedgerError, naming the first thing
    that is wrong.
    """
    file = Path(path)
    opened = Ledger(ledger, create=False) if isinstance(ledger, str | os.PathLike) else ledger
    try:
        verify = _table if file.suffix.lower() in TABLES else _lines
        found = verify(file, opened)
    finally:
        if opened is not None and opened is not ledger:
            opened.close()
    if found.simulated and not allow_simulated:
        raise InvalidInput(
            f"{file} is a simulation, which protects nothing: it is no release. (It is whole; "
            "--allow-simulated says no more than that.)"
        )
    return found


def _table(file: Path, ledger: Ledger | None) -> Verified:
    found = read_release(file)
    rows = sum(len(part) for part in found.blocks())  # whole numbers: checked on the way
    if rows != found.rows:
        raise InvalidInput(f"{file} has {rows} rows, its header says {found.rows}.")
    numbers = "" if found.simulated else f", {_whole_numbers(found)}"
    if found.columns[0].levels is not None:
        numbers += ", a level for every row, none above that of the header"
    examined = [
        "every field of the header, alone and beside the others, and its checksum",
        f"the table: name, columns, {rows:,} rows, SHA-256{numbers}",
    ]
    if ledger is None:
        return _without(file, found.simulated, examined)
    _require_entry(found, ledger)
    assert found.entry is not None
    examined += [
        "the signature, with the key of the ledger",
        f"entry {found.entry.sequence} of the ledger: it is of this table, these rows, this level",
        "all entries of the ledger: chain, totals, budgets, mark",
    ]
    return Verified(file, found.simulated, True, tuple(examined), (UNSEEN,))


def _whole_numbers(found: TableRelease) -> str:
    """Which columns hold them."""
    units = [
        f"{c.name} bits, 0 or 1"
        if c.law in BITS
        else f"{c.name} whole numbers of {c.unit(simulated=False):.6g}"
        for c in found.columns
    ]
    return f"column{'' if len(units) == 1 else 's'} {', '.join(units)}"


def _require_entry(found: TableRelease, ledger: Ledger) -> None:
    """Refuse a table that is not the one of its entry."""
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
    if not ledger.check(signed_text(found), found.signature):
        raise InvalidInput(f"the signature of {found.path} is not one of {path}.")
    entry = next(e for e in ledger.history(place.subject) if e.sequence == place.sequence)
    written = ledger.written(entry)
    words = None if written is None else written.integers[:4].astype("<i8").tobytes().hex()
    level = None if entry.cost is None else entry.cost.information
    if words != found.sha256 or (entry.start, entry.stop) != (0, found.charged):
        raise InvalidInput(f"entry {place.sequence} of {path} is not of the table {found.path}.")
    if level != record_information(found.columns):
        raise InvalidInput(f"entry {place.sequence} of {path} is not of the level of the header.")


def _lines(file: Path, ledger: Ledger | None) -> Verified:
    if not file.is_file():
        raise InvalidInput(f"there is no release {file}.")
    with open_lines(str(file)) as lines:
        try:
            found = check_lines(lines, None if ledger is None else ledger.check)
        except InvalidInput as error:
            raise InvalidInput(f"{file}, {error}") from None
    simulated = bool(found.facts["simulated"])
    tail = "; the line at its end is not finished, and is not counted" if found.torn else ""
    examined = [f"{found.steps:,} steps, each line linked to all before it{tail}"]
    if ledger is None:
        return _without(file, simulated, examined)
    last = max(found.entries, default=0)
    if last > ledger.head.sequence:
        raise LedgerError(
            f"{file} names entry {last} of {ledger.path}, which ends at entry "
            f"{ledger.head.sequence}: the ledger is an old copy, or another one."
        )
    ledger.verify()
    signed = found.signed or 0
    examined += [
        f"signatures with the key of the ledger, up to step {signed - 1}"
        if signed
        else "signatures: there are none",
        "all entries of the ledger: chain, totals, budgets, mark",
    ]
    rest = () if signed == found.steps else (f"who wrote the steps from {signed} on",)
    return Verified(file, simulated, signed == found.steps, tuple(examined), (*rest, UNSEEN))


def _without(file: Path, simulated: bool, examined: list[str]) -> Verified:
    """Without a ledger."""
    unseen = ("who made it, and whether it was charged: that needs the ledger (--ledger)", UNSEEN)
    return Verified(file, simulated, None, tuple(examined), unseen)

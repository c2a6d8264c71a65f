"""A ledger of format 1 (privest 0.1 to 1.0rc1), written anew in format 2: `privest ledger upgrade`.

Every old entry becomes one in new words, with the text and hash that the old chain had under `was`:
the old chain can be computed again from the new file. Id and key go along, so old signatures
verify. The old file stays locked until one write of the mark names the new file: before it the new
file refuses to spend, after it the old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from privest.errors import LedgerError, PrivestError
from privest.vault.cost import decimal_down, decimal_up
from privest.vault.ledger import APPLICATION, BUSY, Book, begin, connect, insert
from privest.vault.maps import pure_amounts
from privest.vault.mark import Mark, MarkFile, mark_of, state_folder, sync_folder

COLUMNS = "seq, time, kind, subject, line, start, stop, of, body, numbers, hash"
KINDS = {"raised": "budget", "spent": "release", "burnt": "retired"}
DYADIC = re.compile(r"([0-9]{1,2000})p(-?[0-9]{1,4})")
ONE_READING = re.compile(r"OneReading\(by=(.*)\)")
EXACT = 40  # digits: doubles are written to 1e-40 of themselves


class OldRow(NamedTuple):
    """A row of format 1; `time` in microseconds."""

    seq: int
    time: int
    kind: str
    subject: str | None
    line: str | None
    start: int | None
    stop: int | None
    of: int | None
    body: str
    numbers: str | None
    hash: str

    def text(self) -> str:
        """What its hash is of, after the hash before it."""
        return json.dumps(self[:-1], separators=(",", ":"))


def old_hash(previous: str, text: str) -> str:
    """hash_k = SHA-256(hash_{k−1} ‖ text of the row), hash_0 = 0."""
    return hashlib.sha256(bytes.fromhex(previous) + text.encode()).hexdigest()


def upgrade(
    path: str | os.PathLike[str],
    *,
    marks: str | os.PathLike[str] | None = None,
    adopt: bool = False,
) -> None:
    """Write a ledger anew in format 2, in its place; run again, it completes what was killed.

    adopt  the file is the newest copy although its mark is gone or names another place.
    """
    place = Path(path).resolve()
    folder = state_folder(marks)
    part = place.with_name(f".{place.name}.format-2")
    with _complaints(place), contextlib.closing(_open_old(place)) as old:
        key = old.execute("SELECT data FROM secret WHERE name = 'key'").fetchone()[0]
        rows = list(_checked_rows(old, place))
        name = json.loads(rows[0].body)["ledger"]
        mark_file = MarkFile(folder, name)
        mark = mark_file.read()
        if mark is None or not _is_named(part, mark):
            _require_newest(place, rows, mark, adopt=adopt)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # of a run that was killed before the mark named its file
            mark = _write(part, old, rows, key, place)
            mark_file.begin(mark)
        if os.name == "nt":
            old.close()  # Windows replaces no open file
        os.replace(part, place)
        sync_folder(place.parent)
    with Book(place, create=False, marks=folder) as book:
        book.check()


# --- the old file ---------------------------------------------------------------------------------


def _open_old(path: Path) -> sqlite3.Connection:
    """The old file, which nobody else reads or writes until it is closed."""
    if not path.is_file():
        raise LedgerError(f"there is no ledger {path}.")
    connection = sqlite3.connect(path.as_uri() + "?mode=rw", uri=True, isolation_level=None)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION:
            raise LedgerError(f"{path} is not a ledger of privest.")
        if version != 1:
            raise LedgerError(f"the ledger {path} is of format {version}: nothing to upgrade.")
        # A log beside the file would be taken for one of the new file: it goes into the old first.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
            raise LedgerError(f"the ledger {path} is in use: close it everywhere, and try again.")
    except BaseException:
        connection.close()
        raise
    return connection


def _checked_rows(connection: sqlite3.Connection, path: Path) -> Iterator[OldRow]:
    previous = "0" * 64
    count = 0
    for row in map(OldRow._make, connection.execute(f"SELECT {COLUMNS} FROM entries ORDER BY seq")):
        count += 1
        if row.seq != count or old_hash(previous, row.text()) != row.hash:
            raise LedgerError(f"the ledger {path} is damaged: the chain breaks at entry {count}.")
        if row.numbers is not None and _digest(_old_numbers(connection, row)) != row.numbers:
            raise LedgerError(f"the ledger {path} is damaged: the numbers of entry {count}.")
        previous = row.hash
        yield row
    if not count:
        raise LedgerError(f"the ledger {path} is damaged: it has no entries.")


def _old_numbers(connection: sqlite3.Connection, row: OldRow) -> bytes:
    query = "SELECT data FROM numbers WHERE seq = ?"
    found = connection.execute(query, (row.seq,)).fetchone()
    return b"" if found is None else bytes(found[0])


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _require_newest(path: Path, rows: list[OldRow], mark: Mark | None, *, adopt: bool) -> None:
    if mark is not None and (
        mark.sequence > len(rows) or mark.hash != rows[mark.sequence - 1].hash
    ):
        raise LedgerError(
            f"{path} is an old copy of its ledger: entry {mark.sequence} was written elsewhere. "
            "Put the newest copy back, or recover this one with the privest that wrote it."
        )
    instances = [json.loads(row.body)["instance"] for row in rows if row.kind in _WITH_INSTANCE]
    if adopt or (mark is not None and mark.instance == instances[-1] and mark.is_at(path)):
        return
    raise LedgerError(
        f"the ledger {path} has no mark at this place: whether it is the newest copy, and the only "
        "one, cannot be told. If it is, upgrade it with --adopt."
    )


_WITH_INSTANCE = ("created", "adopted")


# --- the new file ---------------------------------------------------------------------------------


def _is_named(part: Path, mark: Mark) -> bool:
    """Whether a mark names the last entry of the new file, which then only lacks its name."""
    if not part.exists():
        return False
    with contextlib.closing(connect(part, BUSY)) as connection:
        query = "SELECT hash FROM entry WHERE seq = ? AND kind = 'upgraded'"
        last = connection.execute(query, (mark.sequence,)).fetchone()
    return last is not None and last[0].hex() == mark.hash


def _write(
    part: Path, old: sqlite3.Connection, rows: list[OldRow], key: bytes, place: Path
) -> Mark:
    """The new file, and the mark that will name it."""
    name = json.loads(rows[0].body)["ledger"]
    last = begin(part, BUSY, _new_members(rows[0]), key)
    instance = secrets.token_hex(16)
    with contextlib.closing(connect(part, BUSY)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for row in rows[1:]:
            data = None if row.numbers is None else _old_numbers(old, row)
            last = insert(connection, row.seq, bytes.fromhex(last.hash), _new_members(row), data)
        upgraded = {
            "kind": "upgraded",
            "instance": instance,
            "was": {"format": 1, "hash": rows[-1].hash},
            "salt": secrets.token_hex(16),
            "tags": [],
            "time": int(time.time()),
        }
        last = insert(connection, len(rows) + 1, bytes.fromhex(last.hash), upgraded, None)
        connection.execute("COMMIT")
    sync_folder(part.parent)
    return mark_of(part, name, instance, last.seq, last.hash, path=place)


def _new_members(row: OldRow) -> dict[str, Any]:
    """An old entry in new words."""
    body = json.loads(row.body)
    members: dict[str, Any] = {
        "kind": KINDS.get(row.kind, row.kind),
        "time": row.time // 10**6,
        "tags": sorted(set((row.line or "").split(".")) - {""}),
        "was": {"text": row.text(), "hash": row.hash},
    }
    for place in ("subject", "line", "start", "stop", "of"):
        members[place] = getattr(row, place)
    for name in ("ledger", "instance"):
        if name in body:
            members[name] = body[name]
    if "highest" in body:
        members["highest"] = [list(pair) for pair in sorted(body["highest"].items())]
    if row.kind == "burnt" and row.start is None:
        members |= {"start": 0, "stop": body["floor"]}
    if body.get("facts") is not None:
        members["asked"] = body["facts"]
    if "numbers" in body:
        members["numbers"] = _new_layout(row, body["numbers"])
    if "budget" in body:
        members["budget"] = _new_budget(body["budget"])
    if "cost" in body:
        count = (row.stop or 0) - (row.start or 0)
        members["cost"] = _new_cost(body["cost"], count)
        members["neighbours"] = _neighbours(body["cost"]["move"])
    return members


def _new_layout(row: OldRow, layout: Mapping[str, Any]) -> dict[str, Any]:
    """The bytes stay: int64, then bits where something is missing."""
    count = 1
    for size in layout["shape"]:
        count *= size
    new = {"count": count, "sha256": row.numbers, "type": "<i8", "shape": layout["shape"]}
    return new | ({"missing": True} if layout["missing"] else {})


def _new_cost(cost: Mapping[str, Any], count: int) -> dict[str, Any]:
    """μ² or ε gives ρ where it was not stated, as it was counted; pure ε now costs μ² too."""
    amounts: dict[str, Any] = {}
    information = cost["information"]
    if isinstance(information, dict):
        levels = [(_exact(level), length) for level, length in information["runs"]]
        amounts["information"] = max(level for level, _ in levels)
        if len(levels) > 1:
            amounts["runs"] = [[decimal_up(level, EXACT), length] for level, length in levels]
        amounts["total"] = _exact(information["total"])
    elif isinstance(information, list):
        diagonal = [_exact(line[k]) for k, line in enumerate(information)]
        amounts["information"] = max(diagonal)
        amounts["total"] = count * sum(diagonal)
    elif information is not None:
        amounts["information"] = _exact(information)
    for unit in ("mu2", "rho", "epsilon"):
        if cost[unit] is not None:
            amounts[unit] = _exact(cost[unit])
    if "mu2" in amounts:
        amounts.setdefault("rho", amounts["mu2"] / 2)
    elif "epsilon" in amounts:
        amounts = pure_amounts(amounts["epsilon"]) | amounts
    return {
        name: decimal_up(amount, EXACT) if isinstance(amount, Fraction) else amount
        for name, amount in amounts.items()
    }


def _new_budget(budget: Mapping[str, Any]) -> dict[str, Any]:
    """A level is information at an index, μ its square; of a matrix the largest diagonal entry."""
    limits: dict[str, Fraction] = {}
    names = {"level": "information", "trace": "trace", "rho": "rho", "epsilon": "epsilon"}
    for old, new in names.items():
        if budget[old] is not None:
            limits[new] = _exact(budget[old])
    if budget["matrix"] is not None:
        limits["information"] = max(_exact(line[k]) for k, line in enumerate(budget["matrix"]))
    if budget["mu"] is not None:
        limits["mu2"] = _exact(budget["mu"]) ** 2
    if budget["delta"] is not None and _exact(budget["delta"]) > 0:
        limits["delta"] = _exact(budget["delta"])
    members: dict[str, Any] = {unit: decimal_down(x, EXACT) for unit, x in limits.items()}
    return members | {"neighbours": _neighbours(budget["move"])}


def _neighbours(move: str | None) -> dict[str, Any]:
    """The two tables that an old statement was about, with its text."""
    one_value = ONE_READING.fullmatch(move or "OneReading(by=)")
    if one_value is None:
        kind = "one row" if str(move).startswith("OneRecord") else "one block"
        return {"kind": kind, "was": move}
    return {"kind": "one value"} | ({"by": one_value[1]} if one_value[1] else {})


def _exact(text: str) -> Fraction:
    """m·2^e."""
    match = DYADIC.fullmatch(text)
    if match is None:
        raise LedgerError("the ledger has a number that privest does not write.")
    return int(match[1]) * Fraction(2) ** int(match[2])


@contextlib.contextmanager
def _complaints(path: Path) -> Iterator[None]:
    try:
        yield
    except PrivestError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(f"the ledger {path} cannot be upgraded: {error}.") from None
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = type(error).__name__
        raise LedgerError(f"the ledger {path} is not as privest wrote it ({what}).") from None

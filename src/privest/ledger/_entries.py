"""Entries of a ledger, and the released integers that they hold."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privest.arrays import Array, Flags
from privest.errors import InvalidInput
from privest.ledger._balance import Amount
from privest.ledger._budget import Budget, Cost
from privest.ledger._store import Row, body_of
from privest.records import Record, plain

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Head(Record):
    """The last entry of a ledger; noted elsewhere, it shows that a file was rewritten or is old."""

    ledger: str
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.ledger}:{self.sequence}:{self.hash}"


@dataclass(frozen=True)
class Entry(Record):
    """One entry. `kind`: created, account, raised, spent, retired or adopted.

    (privest 0.2 also wrote reserved and completed; `of` is the reservation that one completes.)
    It covers start ≤ index < stop of `subject`; `key` names the release among those of the subject;
    `facts` is the SHA-256 of the public facts of the release, `marks` are hashes of the public
    columns of its rows, by name, where it has any.
    """

    sequence: int
    time: str
    kind: str
    subject: str | None
    key: str | None
    start: int | None
    stop: int | None
    of: int | None
    cost: Cost | None
    budget: Budget | None
    facts: str | None
    hash: str
    marks: Mapping[str, str] | None = field(default=None, hash=False)


def as_entry(row: Row) -> Entry:
    """A row of the file as an entry."""
    body = body_of(row)
    cost, budget = body.get("cost"), body.get("budget")
    when = datetime.datetime.fromtimestamp(row.time / 1e6, datetime.UTC)
    kind = "retired" if row.kind == "burnt" else row.kind  # the file keeps the word of 0.1
    return Entry(
        row.seq, when.isoformat(), kind, row.subject, row.line, row.start, row.stop, row.of,
        None if cost is None else Cost.from_dict(cost),
        None if budget is None else Budget.from_dict(budget),
        body.get("facts"), row.hash, body.get("marks"),
    )  # fmt: skip


@dataclass(frozen=True)
class Preview(Record):
    """The cost of a release that was not made.

    fits       whether the budget allows it
    breaks     the limits that it would break
    spent      of the indices of the release, at most, after it
    remaining  of these, at least
    """

    fits: bool
    breaks: tuple[str, ...]
    spent: Amount
    remaining: Amount


@dataclass(frozen=True, eq=False)
class Written(Record):
    """Released integers that are on disk, and the entry that holds them.

    resent   the range was released already: these are its integers, and nothing was spent
    missing  True where nothing was released (their integers are 0), or None
    """

    integers: Integers
    missing: Flags | None
    entry: Entry
    resent: bool


def packed(integers: Array | Integers, missing: Flags | None) -> tuple[bytes, dict[str, Any]]:
    """Integers as bytes, and what is needed to read them again."""
    given = np.asarray(integers)
    if given.dtype != np.int64:
        raise InvalidInput(f"released numbers must be int64; received {given.dtype}.")
    if missing is not None and missing.shape != given.shape:
        raise InvalidInput("missing must have the shape of the released numbers.")
    data = given.astype("<i8").tobytes()
    if missing is not None:
        data += np.packbits(missing.ravel()).tobytes()
    return data, {"shape": list(given.shape), "missing": missing is not None}


def unpacked(data: bytes, layout: Mapping[str, Any]) -> tuple[Integers, Flags | None]:
    """The inverse of `packed`."""
    shape = tuple(layout["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    integers = np.frombuffer(data, "<i8", count).astype(np.int64).reshape(shape)
    if not layout["missing"]:
        return integers, None
    bits = np.unpackbits(np.frombuffer(data, np.uint8, offset=8 * count), count=count)
    return integers, bits.astype(bool).reshape(shape)


def facts_hash(facts: Mapping[str, Any]) -> str:
    """SHA-256 of the public facts of a release: level, grid, clip, whatever must be the same."""
    text = json.dumps(plain(dict(facts)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

"""What a ledger tells: entries, heads, what was spent and what is left."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privest.arrays import Array, Flags
from privest.errors import InvalidInput
from privest.ledger._budget import Budget, Cost, as_double
from privest.ledger._exact import Matrix
from privest.ledger._limits import gaussian, spent_epsilon
from privest.ledger._shown import Shown
from privest.ledger._store import Row
from privest.reading import parse_json
from privest.records import Record, plain

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Head(Record):
    """How far a ledger has come; noted elsewhere, it shows that a file was rewritten or is old."""

    ledger: str
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.ledger}:{self.sequence}:{self.hash}"


@dataclass(frozen=True)
class Entry(Record):
    """One entry. `kind`: created, account, raised, spent, reserved, completed, burnt, adopted.

    It covers start ≤ index < stop of `subject`; `key` names the release among those of the subject;
    `facts` is the SHA-256 of what was public of the release, `of` the reservation it completes.
    `marks` are hashes of what is public of its rows, by name, where it has any; privest 0.1 wrote
    marks of readings beside them, which are not used any more.
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
    return Entry(
        row.seq, when.isoformat(), row.kind, row.subject, row.line, row.start, row.stop, row.of,
        None if cost is None else Cost.from_dict(cost),
        None if budget is None else Budget.from_dict(budget),
        body.get("facts"), row.hash, body.get("marks"),
    )  # fmt: skip


def body_of(row: Row) -> dict[str, Any]:
    """What an entry holds, as it was written."""
    found: dict[str, Any] = parse_json(row.body, f"entry {row.seq} of the ledger")
    return found


@dataclass(frozen=True, eq=False)
class Amount(Record):
    """What was spent, or is left, in every unit; None where it is not known or not limited.

    Exact fractions; `epsilon` is a double, to the safe side. `mu2` is μ² of Gaussian releases.
    """

    level: Fraction | None
    trace: Fraction | None
    mu2: Fraction | None
    rho: Fraction | None
    epsilon: float | None
    delta: float | None
    matrix: Matrix | None
    move: str | None

    def to_dict(self) -> dict[str, Any]:
        """Doubles, for people and programs."""
        exact = {name: as_double(getattr(self, name)) for name in ("level", "trace", "mu2", "rho")}
        rows = None if self.matrix is None else [[float(x) for x in row] for row in self.matrix]
        rest = {"epsilon": self.epsilon, "delta": self.delta, "matrix": rows, "move": self.move}
        return {name: plain(value) for name, value in (exact | rest).items()}


def amount_spent(budget: Budget, shown: Shown, trace: Fraction | None) -> Amount:
    """All that was shown, at one index or at most."""
    delta = None if budget.delta is None else float(budget.delta)
    epsilon = None if delta is None else spent_epsilon(shown, delta)
    return Amount(
        shown.level, trace, gaussian(shown), shown.rho, epsilon, delta, shown.matrix or None,
        budget.move,
    )  # fmt: skip


def amount_left(budget: Budget, shown: Shown, trace: Fraction | None) -> Amount:
    """What the limits leave; None for units without a limit or of which nothing is known."""
    spent = amount_spent(budget, shown, trace)

    def left(limit: Fraction | None, used: Fraction | None) -> Fraction | None:
        return None if limit is None or used is None else limit - used

    matrix = budget.matrix
    if matrix is not None and shown.matrix != ():
        matrix = shown.matrix and tuple(
            tuple(b - s for b, s in zip(*rows)) for rows in zip(matrix, shown.matrix)
        )
    epsilon = None
    if budget.epsilon is not None and spent.epsilon is not None:
        epsilon = float(budget.epsilon) - spent.epsilon
    square = None if budget.mu is None else budget.mu**2
    return Amount(
        left(budget.level, shown.level), left(budget.trace, trace), left(square, spent.mu2),
        left(budget.rho, shown.rho), epsilon, spent.delta, matrix, budget.move,
    )  # fmt: skip


@dataclass(frozen=True)
class Preview(Record):
    """What a release would cost: nothing was spent.

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

    resent   they are those of before: the range was released already, nothing was spent
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

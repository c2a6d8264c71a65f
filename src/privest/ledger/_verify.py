"""Every entry checked against all before it, in one pass: chain, order, totals, numbers."""

from __future__ import annotations

import bisect
import sqlite3
from dataclasses import dataclass, field, replace
from typing import Any

from privest.errors import LedgerError, PrivestError
from privest.ledger._balance import (
    Balance,
    Segment,
    added,
    broken_limits,
    keeps_sensitivity,
    merged,
    profile,
    segments_of,
)
from privest.ledger._budget import Budget, Cost, Revealed
from privest.ledger._store import FIRST, Row, Store, body_of, damaged, unpacked


class _Wrong(Exception):
    """An entry that no ledger writes."""


@dataclass
class _Account:
    balance: Balance
    budget: Budget
    history: list[list[Segment]] = field(default_factory=list)  # of the entries that spent
    lines: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def before(self, start: int, stop: int) -> list[Segment]:
        if start >= self.balance.top:
            return [(start, stop, Revealed())]
        return profile(reversed(self.history), start, stop)

    def take(self, line: str, start: int, stop: int) -> None:
        ranges = self.lines.setdefault(line, [])
        at = bisect.bisect(ranges, (start, stop))
        for a, b in ranges[max(at - 1, 0) : at + 1]:
            _require(stop <= a or b <= start, "its range meets that of another release")
        ranges.insert(at, (start, stop))


class _Audit:
    """All accounts so far, and the open reservations of privest 0.2."""

    def __init__(self) -> None:
        self.accounts: dict[str, _Account] = {}
        self.floors: dict[str, int] = {}
        self.reserved: set[int] = set()

    def entry(self, row: Row) -> None:
        known = {
            "created": self._created, "account": self._stated, "raised": self._stated,
            "spent": self._spent, "reserved": self._spent, "completed": self._completed,
            "burnt": self._retired, "adopted": self._adopted,
        }  # fmt: skip
        _require(row.kind in known, "its kind is not known")
        _require((row.seq == 1) == (row.kind == "created"), "it is not where it belongs")
        known[row.kind](row)

    def _created(self, row: Row) -> None:
        _require({"ledger", "instance", "key"} == set(body_of(row)), "it is not a beginning")

    def _adopted(self, row: Row) -> None:
        _require("instance" in body_of(row), "it adopts nothing")

    def _stated(self, row: Row) -> None:
        body, subject = body_of(row), str(row.subject)
        balance, budget = Balance.from_list(body["state"]), Budget.from_dict(body["budget"])
        old = self.accounts.get(subject)
        _require((old is None) == (row.kind == "account"), "the account is there already, or not")
        before = Balance(0, floor=self.floors.get(subject, 0)) if old is None else old.balance
        _require(balance == replace(before, budget=row.seq), "its totals are wrong")
        if old is None:
            self.accounts[subject] = _Account(balance, budget)
        else:
            _require(
                keeps_sensitivity(old.budget, budget), "it changes the sensitivity of an account"
            )
            old.balance, old.budget = balance, budget

    def _spent(self, row: Row) -> None:
        body, account = body_of(row), self._account(row)
        start, stop = row.start, row.stop
        if start is None or stop is None or not account.balance.floor <= start < stop:
            raise _Wrong("its range is none, or retired")
        cost = Cost.from_dict(body["cost"])
        segments = added(account.before(start, stop), cost, account.budget)
        balance = account.balance.after(segments, cost.trace(stop - start))
        _compare(body, balance, segments)
        _require(not broken_limits(account.budget, balance, segments)[0], "it is over the budget")
        account.history.append(segments)
        account.balance = balance
        if row.line is not None:
            account.take(row.line, start, stop)
        if row.kind == "reserved":
            self.reserved.add(row.seq)

    def _completed(self, row: Row) -> None:
        _require(row.of in self.reserved, "what it completes was not reserved, or is complete")
        self.reserved.discard(row.of or 0)
        _compare(body_of(row), self._account(row).balance, [])

    def _retired(self, row: Row) -> None:
        body, subject = body_of(row), str(row.subject)
        if subject not in self.accounts:
            self.floors[subject] = max(self.floors.get(subject, 0), body["floor"])
            return
        account = self.accounts[subject]
        balance = account.balance.retired(account.budget, body["floor"])
        _compare(body, balance, [])
        account.balance = balance
        if row.line is not None and row.start is not None and row.stop is not None:
            account.take(row.line, row.start, row.stop)

    def _account(self, row: Row) -> _Account:
        account = self.accounts.get(str(row.subject))
        if account is None:
            raise _Wrong("its account is not open")
        return account


def _compare(body: dict[str, Any], balance: Balance, segments: list[Segment]) -> None:
    stated = Balance.from_list(body["state"])
    good = stated == balance and segments_of(body) == merged(segments)
    _require(good, "its totals are not the sum of what was spent")


def verify_rows(store: Store, connection: sqlite3.Connection) -> None:
    """Raise LedgerError at the first entry that does not follow from those before it."""
    audit, previous, last, count = _Audit(), FIRST, 0, 0
    time = 0
    for row in store.rows("ORDER BY seq"):
        try:
            _require(row.seq == last + 1 and row.digest(previous) == row.hash, "the chain breaks")
            _require(row.time >= time or row.kind == "adopted", "its time is before the last one")
            audit.entry(row)
            if row.numbers is not None:
                count += 1
                unpacked(store.numbers(row), body_of(row)["numbers"])
        except LedgerError:
            raise
        except (_Wrong, PrivestError, KeyError, TypeError, ValueError, IndexError) as error:
            said = error if isinstance(error, _Wrong) else type(error).__name__
            raise damaged(store.path, f"entry {last + 1}: {said}") from None
        last, previous, time = row.seq, row.hash, row.time
    if connection.execute("SELECT count(*) FROM numbers").fetchone()[0] != count:
        raise damaged(store.path, "there are numbers that belong to no entry")


def _require(good: bool, what: str) -> None:
    if not good:
        raise _Wrong(what)

"""Every entry checked against all before it, in one pass: chain, order, totals, numbers."""

from __future__ import annotations

import bisect
import sqlite3
from dataclasses import dataclass, field, replace

from privest.errors import LedgerError, PrivestError
from privest.ledger._account import (
    Segment,
    State,
    added,
    after,
    broken_limits,
    burnt,
    keeps_move,
    merged,
)
from privest.ledger._book import segments_of
from privest.ledger._budget import Budget, Cost
from privest.ledger._entries import body_of, unpacked
from privest.ledger._shown import Shown
from privest.ledger._store import FIRST, Row, Store, damaged


class _Wrong(Exception):
    """An entry that no ledger writes."""


@dataclass
class _Account:
    """One account, summed up from its entries and from nothing else."""

    state: State
    budget: Budget
    shown: list[Segment] = field(default_factory=list)
    lines: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def before(self, start: int, stop: int) -> list[Segment]:
        """The profile of a range."""
        found, at = [], start
        for a, b, shown in self.shown[self._first(start) :]:
            if a >= stop:
                break
            if a > at:
                found.append((at, a, Shown()))
            found.append((max(a, start), min(b, stop), shown))
            at = min(b, stop)
        return [*found, (at, stop, Shown())] if at < stop else found

    def put(self, segments: list[Segment]) -> None:
        """The profile of a range, from now on."""
        start, stop = segments[0][0], segments[-1][1]
        first = self._first(start)
        last = first
        while last < len(self.shown) and self.shown[last][0] < stop:
            last += 1
        old = self.shown[first:last]
        left = [(a, start, shown) for a, _, shown in old[:1] if a < start]
        right = [(stop, b, shown) for _, b, shown in old[-1:] if b > stop]
        self.shown[first:last] = [*left, *segments, *right]

    def _first(self, start: int) -> int:
        """The first segment that ends beyond `start`."""
        return bisect.bisect_right(self.shown, start, key=lambda segment: segment[1])

    def take(self, line: str, start: int, stop: int) -> None:
        """A range of a release line, which no other may meet."""
        ranges = self.lines.setdefault(line, [])
        at = bisect.bisect(ranges, (start, stop))
        for a, b in ranges[max(at - 1, 0) : at + 1]:
            _require(stop <= a or b <= start, "its range meets that of another release")
        ranges.insert(at, (start, stop))


class _Audit:
    """All accounts and open reservations so far."""

    def __init__(self) -> None:
        self.accounts: dict[str, _Account] = {}
        self.floors: dict[str, int] = {}
        self.reserved: set[int] = set()

    def entry(self, row: Row) -> None:
        known = {
            "created": self._created, "account": self._stated, "raised": self._stated,
            "spent": self._spent, "reserved": self._spent, "completed": self._completed,
            "burnt": self._burnt, "adopted": self._adopted,
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
        state, budget = State.from_list(body["state"]), Budget.from_dict(body["budget"])
        old = self.accounts.get(subject)
        _require((old is None) == (row.kind == "account"), "the account is there already, or not")
        before = State(0, floor=self.floors.get(subject, 0)) if old is None else old.state
        _require(state == replace(before, budget=row.seq), "its totals are wrong")
        if old is None:
            self.accounts[subject] = _Account(state, budget)
        else:
            _require(keeps_move(old.budget, budget), "it changes the move of an account")
            old.state, old.budget = state, budget

    def _spent(self, row: Row) -> None:
        body, account = body_of(row), self._account(row)
        start, stop = row.start, row.stop
        if start is None or stop is None or not account.state.floor <= start < stop:
            raise _Wrong("its range is none, or burnt")
        cost = Cost.from_dict(body["cost"])
        segments = added(account.before(start, stop), cost, account.budget)
        state = after(account.state, segments, cost.trace(stop - start))
        self._compare(row, state, segments)
        _require(not broken_limits(account.budget, state, segments)[0], "it is over the budget")
        account.put(segments)
        account.state = state
        if row.line is not None:
            account.take(row.line, start, stop)
        if row.kind == "reserved":
            self.reserved.add(row.seq)

    def _completed(self, row: Row) -> None:
        _require(row.of in self.reserved, "what it completes was not reserved, or is complete")
        self.reserved.discard(row.of or 0)
        _require(State.from_list(body_of(row)["state"]) == self._account(row).state, "wrong totals")

    def _burnt(self, row: Row) -> None:
        body, subject = body_of(row), str(row.subject)
        if subject not in self.accounts:
            self.floors[subject] = max(self.floors.get(subject, 0), body["floor"])
            return
        account = self.accounts[subject]
        state = burnt(account.state, account.budget, body["floor"])
        self._compare(row, state, [])
        account.state = state
        if row.line is not None and row.start is not None and row.stop is not None:
            account.take(row.line, row.start, row.stop)

    def _account(self, row: Row) -> _Account:
        account = self.accounts.get(str(row.subject))
        if account is None:
            raise _Wrong("its account is not open")
        return account

    def _compare(self, row: Row, state: State, segments: list[Segment]) -> None:
        stated = State.from_list(body_of(row)["state"])
        good = stated == state and segments_of(row) == merged(segments)
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

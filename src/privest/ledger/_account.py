"""The account of one subject: its budget, what was spent of it, and what was released of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from privest.arrays import Flags, as_count
from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.ledger._balance import (
    Amount,
    Balance,
    Preview,
    Segment,
    added,
    amount_left,
    amount_spent,
    broken_limits,
    keeps_sensitivity,
    listed,
    peak_of,
    profile,
    require_within,
    segments_of,
)
from privest.ledger._budget import Budget, Cost, Revealed, sensitivity_words
from privest.ledger._mark import Guard
from privest.ledger._source import Costs, LedgerSource, cost_of
from privest.ledger._store import (
    Entry,
    Integers,
    Row,
    Store,
    Written,
    as_entry,
    body_of,
    damaged,
    facts_hash,
    packed,
    unpacked,
)
from privest.mechanism.source import Source
from privest.privacy import PrivacyLevel, StreamLevel
from privest.reading import read_text

if TYPE_CHECKING:
    from privest.ledger._ledger import Ledger

Draw = Callable[[], tuple[Integers, Flags | None]]


class Account:
    """The account of a subject (a person, a table, a stream) in a ledger: `Ledger.account`.

    Every spend covers a range of indices (rows of the table, steps of the stream). What covers an
    index adds up; ranges that do not meet cost what the larger one does (parallel composition).
    Copies and pickles open the ledger anew, by its path.
    """

    subject: str

    def __init__(self, ledger: Ledger, subject: str) -> None:
        self._ledger: Ledger | None = ledger
        self._place, self.subject = ledger._place, read_text(subject, "subject")

    def __repr__(self) -> str:
        return f"Account({self.subject!r} in {str(self._place[0])!r})"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_ledger": None}

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            from privest.ledger._ledger import Ledger

            path, marks, busy = self._place
            self._ledger = Ledger(path, create=False, marks=marks, busy=busy)
        return self._ledger

    @property
    def _store(self) -> Store:
        return self.ledger._store

    @property
    def _guard(self) -> Guard:
        return self.ledger._guard

    # --- the budget -----------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it has a budget."""
        with self._store.reading():
            return self._found() is not None

    def open(self, budget: Budget | float) -> None:
        """Open the account with a budget (a number: a level); the same again is no change."""
        wanted = as_budget(budget)
        with self._guard.spending():
            found = self._found()
            if found is None:
                self._open(wanted)
            elif found[1] != wanted:
                raise InvalidInput(
                    f"{self.subject!r} has an account with the budget {found[1].in_words()}. What "
                    "was spent stays spent: change the budget explicitly, which is recorded."
                )

    def change_budget(self, budget: Budget | float) -> Entry:
        """Another budget from now on, recorded. Earlier spending stays."""
        wanted = as_budget(budget)
        with self._guard.spending():
            balance, old = self._require_open()
            if not keeps_sensitivity(old, wanted):
                raise InvalidInput(
                    f"the account of {self.subject!r} is for "
                    f"{sensitivity_words(old.sensitivity)}: what was spent was counted for it, "
                    "and is not known for another sensitivity. Keep the "
                    "sensitivity, or open another account."
                )
            balance = replace(balance, budget=self._store.head[0] + 1)
            body = {"budget": wanted.to_dict(), "state": balance.to_list()}
            return as_entry(self._store.append("raised", body, self.subject))

    @property
    def budget(self) -> Budget:
        """The budget that holds now."""
        with self._store.reading():
            return self._require_open()[1]

    @property
    def spent(self) -> Amount:
        """The most that was spent at any index; `trace` is of all indices together."""
        with self._store.reading():
            balance, budget = self._require_open()
        return amount_spent(budget, balance.peak, balance.trace)

    @property
    def remaining(self) -> Amount:
        """The rest of the budget where most was spent."""
        with self._store.reading():
            balance, budget = self._require_open()
        return amount_left(budget, balance.peak, balance.trace)

    def preview(self, cost: Cost, *, start: int = 0, stop: int | None = None) -> Preview:
        """What `spend` would do, without spending."""
        first, end = as_index_range(start, stop)
        with self._store.reading():
            balance, budget = self._require_open()
            segments = added(self._profile(balance, first, end), cost, budget)
            balance = balance.after(segments, cost.trace(end - first))
        units, _ = broken_limits(budget, balance, segments)
        revealed = peak_of(segments)
        return Preview(
            not units and first >= balance.floor,
            tuple(units),
            amount_spent(budget, revealed, balance.trace),
            amount_left(budget, revealed, balance.trace),
        )

    def history(self) -> list[Entry]:
        """The entries of the subject, in their order."""
        with self._store.reading():
            rows = self._store.rows("WHERE subject = ? ORDER BY seq", self.subject)
            return [as_entry(row) for row in rows]

    def next_index(self, key: str = "") -> int:
        """The first index of which nothing was released, and which is not retired."""
        with self._store.reading():
            return self._beginning(key, None)

    def entry_at(self, index: int, key: str = "") -> Entry | None:
        """The entry that covers an index of the release line `key`; None if nothing does."""
        at = as_count(index, "index", least=0)
        with self._store.reading():
            row = self._meets(read_text(key, "key"), at, at + 1)
            return None if row is None else as_entry(row)

    # --- spending -------------------------------------------------------------------------------

    def spend(self, cost: Cost, *, start: int = 0, stop: int | None = None) -> Entry:
        """Spend `cost` on each index of start ≤ index < stop (one index if stop is left out).

        On disk when it returns: spend first, then reveal. Raises BudgetExceeded, spending nothing.
        """
        first, end = as_index_range(start, stop)
        with self._guard.spending():
            body = self._charged(cost, first, end) | {"facts": None}
            return as_entry(self._store.append("spent", body, self.subject, place=(first, end)))

    def spend_and_write(
        self,
        cost: Cost,
        start: int | None,
        count: int,
        facts: Mapping[str, Any],
        draw: Draw,
        *,
        key: str = "",
        shared: Sequence[str] = (),
        since: int | None = None,
        budget: Budget | None = None,
        marks: Mapping[str, str] | None = None,
    ) -> Written:
        """Spend, and write what `draw()` gives, in one transaction: then it may leave.

        The range is start ≤ index < start + count of the release line `key` (start None: the next
        free index). A range that was released with the same facts is sent again as it was; other
        facts, or a range that meets another, are refused.

        draw    gives int64 and missing flags (or None); it is called at most once.
        shared  parts of the key (between points); refused where another subject has one of them.
        since   the last entry that was looked at; refused where others have spent after it.
        budget  of an account that is opened with this spend, if there is none.
        marks   hashes of the public columns of the rows; a release of other rows is refused.

        Facts, key, `shared` and `marks` must be public: then whether it is refused, sent again or
        drawn is the same for all measurements.
        """
        line, size = read_text(key, "key"), as_count(count, "count", least=1)
        digest = facts_hash(facts)
        found = None
        with self._store.reading():
            if budget is None or self._found() is not None:
                first = self._beginning(line, start)
                found = self._released(line, first, first + size, digest, marks)
                if found is None:
                    self._charged(cost, first, first + size)  # refused before it is drawn
        if found is not None:
            with self._guard.spending():  # the mark is at its entry before it leaves again
                return found
        numbers, layout = packed(*draw())
        with self._guard.spending():
            if since is not None:
                self._require_unchanged(since)
            if budget is not None and self._found() is None:
                self._open(budget)
            first = self._beginning(line, start)
            found = self._released(line, first, first + size, digest, marks)
            if found is not None:
                return found
            self._require_own(shared)
            body = self._charged(cost, first, first + size)
            body |= {"facts": digest, "numbers": layout}
            if marks is not None:
                body["marks"] = dict(marks)
            row = self._store.append(
                "spent", body, self.subject, line=line, place=(first, first + size), numbers=numbers
            )
        return Written(*unpacked(numbers, layout), as_entry(row), resent=False)

    def source(
        self,
        cost: Costs,
        *,
        start: int | None = None,
        key: str = "",
        source: Source | None = None,
        known: int | None = None,
        **facts: Any,  # noqa: ANN401 - what JSON holds
    ) -> LedgerSource:
        """Noise for `release(y, source)` that spends `cost` and is written down before it leaves.

        cost   of each index (`cost_of`), or a function of the range (first, stop).
        start  index of the first measurement; None: the next free one.
        key    names the release among several of the same measurements: all of them count.
        known  the highest index that the analyst or a release file has.
        facts  public facts of the release, level=level.fingerprint at least.
        """
        return LedgerSource(
            self, cost, start=start, key=key, source=source, known=known, facts=facts
        )

    def source_at(self, level: PrivacyLevel | StreamLevel) -> LedgerSource:
        """Noise for `release(y, account=)` at a level, paid in information, from index 0 on.

        The same release again is sent as it was; one at another level counts beside it.
        """
        costs: Costs = (
            partial(_steps_cost, level) if isinstance(level, StreamLevel) else cost_of(level)
        )
        return self.source(costs, start=0, key=level.fingerprint[:12], level=level.fingerprint)

    # --- within a transaction: the balance ------------------------------------------------------

    def _rows(self, clause: str, *values: object) -> Iterator[Row]:
        return self._store.rows(f"WHERE subject = ? {clause}", self.subject, *values)

    def _last(self) -> Row | None:
        return next(self._rows("ORDER BY seq DESC LIMIT 1"), None)

    def _found(self) -> tuple[Balance, Budget] | None:
        row = self._last()
        if row is None or "state" not in (body := body_of(row)):
            return None
        balance = Balance.from_list(body["state"])
        stated = self._store.row(balance.budget)
        if stated is None:
            raise damaged(self._store.path, f"entry {row.seq} names a budget that is not there")
        return balance, Budget.from_dict(body_of(stated)["budget"])

    def _require_open(self) -> tuple[Balance, Budget]:
        found = self._found()
        if found is None:
            raise InvalidInput(
                f"{self.subject!r} has no account in {self._store.path}: open it with a budget."
            )
        return found

    def _open(self, budget: Budget) -> None:
        as_subject(self.subject)
        last = self._last()
        floor = 0 if last is None else body_of(last)["floor"]  # retired before it was opened
        balance = Balance(self._store.head[0] + 1, floor=floor)
        body = {"budget": budget.to_dict(), "state": balance.to_list()}
        self._store.append("account", body, self.subject)

    def _profile(self, balance: Balance, start: int, stop: int) -> list[Segment]:
        if start >= balance.top:
            return [(start, stop, Revealed())]
        rows = self._rows("AND start < ? AND stop > ? ORDER BY seq DESC", stop, start)
        return profile((segments_of(body_of(row)) for row in rows), start, stop)

    def _charged(self, cost: Cost, start: int, stop: int) -> dict[str, Any]:
        if not isinstance(cost, Cost):
            raise InvalidInput("cost must be a privest.ledger.Cost.")
        balance, budget = self._require_open()
        if start < balance.floor:
            raise BudgetExceeded(
                f"{self.subject!r}: entries of this ledger were lost, and indices below "
                f"{balance.floor} are retired: what was revealed of them is not known. Received "
                f"index {start}."
            )
        before = self._profile(balance, start, stop)
        segments = added(before, cost, budget)
        balance = balance.after(segments, cost.trace(stop - start))
        require_within(self.subject, budget, balance, segments, before)
        return {"cost": cost.to_dict(), "state": balance.to_list(), "segments": listed(segments)}

    def lose(self, stop: int) -> None:
        """Entries were lost: nothing is drawn where they may have drawn. Within a transaction."""
        found, last = self._found(), self._last()
        if found is None:
            floor = max(stop, 0 if last is None else body_of(last)["floor"])
            self._store.append("burnt", {"floor": floor}, self.subject)
        elif stop or found[0].top:
            self._retire(*found, max(stop, found[0].top))

    def retire_up_to(self, line: str, known: int | None) -> None:
        """Retire indices that the analyst knows, up to `known` of a line, and this ledger lost."""
        if known is None:
            return
        stop = as_count(known, "known", least=-1) + 1
        with self._guard.spending():
            balance, budget = self._require_open()
            top = self._top(line)
            if stop > max(top, balance.floor):
                self._retire(balance, budget, stop, line, max(top, balance.floor))

    def _retire(
        self, balance: Balance, budget: Budget, stop: int,
        line: str | None = None, start: int | None = None,
    ) -> None:  # fmt: skip
        body = {"state": balance.retired(budget, stop).to_list(), "floor": stop}
        place = (None, None) if start is None else (start, stop)
        self._store.append("burnt", body, self.subject, line=line, place=place)

    # --- within a transaction: lines of releases ------------------------------------------------

    def _top(self, line: str) -> int:
        row = next(self._rows("AND line = ? ORDER BY stop DESC LIMIT 1", line), None)
        return 0 if row is None or row.stop is None else row.stop

    def _beginning(self, line: str, start: int | None) -> int:
        balance, _ = self._require_open()
        if start is None:
            return max(self._top(line), balance.floor)
        return start

    def _meets(self, line: str, start: int, stop: int) -> Row | None:
        row = next(self._rows("AND line = ? AND stop > ? ORDER BY stop LIMIT 1", line, start), None)
        return row if row is not None and row.start is not None and row.start < stop else None

    def _require_own(self, shared: Sequence[str]) -> None:
        clause = "WHERE subject <> ? AND instr('.' || line || '.', ?) > 0 ORDER BY seq LIMIT 1"
        for part in shared:
            row = next(self._store.rows(clause, self.subject, f".{part}."), None)
            if row is not None:
                raise InvalidInput(
                    f"a table with the same target and the same public columns was released for "
                    f"the account {row.subject!r} (entry {row.seq} of {self._store.path}). If "
                    "these are the same people, use that account as the subject, so that costs add "
                    "up. If they are different measurements of the same rows, confirm it: again."
                )

    def _require_unchanged(self, since: int) -> None:
        clause = "AND seq > ? AND start IS NOT NULL ORDER BY seq LIMIT 1"
        row = next(self._rows(clause, since), None)
        if row is not None:
            raise BudgetExceeded(
                f"{self.subject!r}: another process has released measurements of this account "
                f"meanwhile (entry {row.seq} of {self._store.path}). Nothing was spent: use that "
                "release."
            )

    def _released(
        self, line: str, start: int, stop: int, facts: str, marks: Mapping[str, str] | None
    ) -> Written | None:
        row = self._meets(line, start, stop)
        if row is None:
            return None
        which, last = f"{self.subject!r} {line!r}".removesuffix(" ''"), (row.stop or 0) - 1
        if row.kind == "burnt":
            raise LedgerError(
                f"{which}: indices up to {last} are retired: entries of this ledger were lost. "
                f"Draw from index {last + 1} on."
            )
        if (row.start, row.stop) != (start, stop):
            raise InvalidInput(
                f"{which}: indices {start} to {stop - 1} meet the release of {row.start} to "
                f"{last} (entry {row.seq}), and are not the same. Ask for that range, or for "
                "indices beyond it; another release of the same measurements needs its own key."
            )
        if body_of(row)["facts"] != facts:
            raise InvalidInput(
                f"{which}: indices {start} to {stop - 1} were released with other public facts "
                f"(level, grid, range; entry {row.seq}). Another release reveals more: choose "
                "another key, and both count."
            )
        if row.kind != "spent":
            raise LedgerError(
                f"{which}: indices {start} to {stop - 1} were reserved by privest 0.2 (entry "
                f"{row.seq}): use that version for them, or indices from {last + 1} on."
            )
        self._require_same_rows(row, marks or {})
        numbers = unpacked(self._store.numbers(row), body_of(row)["numbers"])
        return Written(*numbers, as_entry(row), resent=True)

    def _require_same_rows(self, row: Row, marks: Mapping[str, str]) -> None:
        stored = body_of(row).get("marks") or {}
        if any(stored.get(name, mark) != mark for name, mark in marks.items()):
            raise InvalidInput(
                f"{row.subject!r}: the rows up to step {(row.stop or 0) - 1} are not those that "
                f"were released under this account (entry {row.seq} of {self._store.path}). "
                "Different measurements need an account of their own: choose another subject. A "
                "stream that goes on begins with the rows that were sent, unchanged, or has new "
                "rows only."
            )


def _steps_cost(level: StreamLevel, first: int, stop: int) -> Cost:
    return cost_of(level, start=first, stop=stop)


def spelled(name: str) -> str:
    """A name in its one spelling: Unicode's NFC, nothing unseen, no blanks at its ends."""
    composed = unicodedata.normalize("NFC", name)
    return "".join(filter(str.isprintable, composed)).strip()


def as_subject(given: str) -> str:
    """The name of a new account."""
    name = spelled(read_text(given, "subject"))
    if not name or len(name) > 200:
        raise InvalidInput("a subject is a text of 1 to 200 letters: a person, a table, a stream.")
    if name != given:
        raise InvalidInput(
            f"the subject {given!r} is another spelling, with a budget of its own: write {name!r}."
        )
    return name


def as_budget(given: Budget | float) -> Budget:
    """A budget; a number is a level."""
    return given if isinstance(given, Budget) else Budget(level=given)


def as_index_range(start: int, stop: int | None) -> tuple[int, int]:
    first = as_count(start, "start", least=0)
    return first, first + 1 if stop is None else as_count(stop, "stop", least=first + 1)

"""Accounts and release lines, read and written within a transaction of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.ledger._account import (
    Segment,
    State,
    added,
    after,
    burnt,
    profile,
    require_within,
)
from privest.ledger._budget import Budget, Cost
from privest.ledger._entries import Written, as_entry, body_of, unpacked
from privest.ledger._shown import Shown, whole
from privest.ledger._store import Row, Store, damaged


class Book:
    """What the rows say about accounts and lines; every method within a transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # --- accounts ---------------------------------------------------------------------------------

    def last(self, subject: str) -> Row | None:
        return next(self.store.rows("WHERE subject = ? ORDER BY seq DESC LIMIT 1", subject), None)

    def account(self, subject: str) -> tuple[State, Budget] | None:
        row = self.last(subject)
        if row is None or "state" not in (body := body_of(row)):
            return None
        state = State.from_list(body["state"])
        stated = self.store.row(state.budget)
        if stated is None:
            raise damaged(self.store.path, f"entry {row.seq} names a budget that is not there")
        return state, Budget.from_dict(body_of(stated)["budget"])

    def require_account(self, subject: str) -> tuple[State, Budget]:
        found = self.account(subject)
        if found is None:
            raise InvalidInput(
                f"{subject!r} has no account in {self.store.path}: open_account(subject, "
                "Budget(…)) first."
            )
        return found

    def open(self, subject: str, budget: Budget) -> None:
        last = self.last(subject)
        floor = 0 if last is None else body_of(last)["floor"]  # burnt before it was opened
        state = State(self.store.head[0] + 1, floor=floor)
        self.store.append(
            "account", {"budget": budget.to_dict(), "state": state.to_list()}, subject
        )

    def profile(self, subject: str, state: State, start: int, stop: int) -> list[Segment]:
        if start >= state.top:
            return [(start, stop, Shown())]
        clause = "WHERE subject = ? AND start < ? AND stop > ? ORDER BY seq DESC"
        rows = self.store.rows(clause, subject, stop, start)
        return profile(map(segments_of, rows), start, stop)

    def charge(self, subject: str, cost: Cost, start: int, stop: int) -> dict[str, Any]:
        """The body of an entry that spends; refused where the budget does not allow it."""
        if not isinstance(cost, Cost):
            raise InvalidInput("cost must be a privest.ledger.Cost: cost_of(level) makes one.")
        state, budget = self.require_account(subject)
        if start < state.floor:
            raise BudgetExceeded(
                f"{subject!r}: entries of this ledger were lost, and indices below {state.floor} "
                f"are burnt: what was shown of them is not known. Received index {start}."
            )
        before = self.profile(subject, state, start, stop)
        segments = added(before, cost, budget)
        state = after(state, segments, cost.trace(stop - start))
        require_within(subject, budget, state, segments, before)
        listed = [[a, b, shown.to_list()] for a, b, shown in segments]
        return {"cost": cost.to_dict(), "state": state.to_list(), "segments": listed}

    def lose(self, subject: str, stop: int) -> None:
        """Entries of a subject were lost: nothing is drawn where they may have drawn."""
        found, last = self.account(subject), self.last(subject)
        if found is None:
            floor = max(stop, 0 if last is None else body_of(last)["floor"])
            self.store.append("burnt", {"floor": floor}, subject)
        elif stop or found[0].top:
            self._burn(subject, *found, max(stop, found[0].top))

    def lose_up_to(self, subject: str, line: str, stop: int) -> None:
        """The receiver knows of indices below `stop` of a line: what is not here was lost."""
        state, budget = self.require_account(subject)
        top = self.top(subject, line)
        if stop > max(top, state.floor):
            self._burn(subject, state, budget, stop, line, max(top, state.floor))

    def _burn(
        self, subject: str, state: State, budget: Budget, stop: int,
        line: str | None = None, start: int | None = None,
    ) -> None:  # fmt: skip
        """Close the indices below `stop`; of a trace budget the lost entries may have used all."""
        body = {"state": burnt(state, budget, stop).to_list(), "floor": stop}
        place = (None, None) if start is None else (start, stop)
        self.store.append("burnt", body, subject, line=line, place=place)

    def complete(self, row: Row, numbers: bytes, layout: dict[str, Any]) -> Row:
        """The numbers of a reservation; nothing more is spent."""
        state, _ = self.require_account(str(row.subject))
        body = {"numbers": layout, "state": state.to_list()}
        return self.store.append("completed", body, row.subject, of=row.seq, numbers=numbers)

    # --- lines of releases ---------------------------------------------------------------------

    def top(self, subject: str, line: str) -> int:
        clause = "WHERE subject = ? AND line = ? ORDER BY stop DESC LIMIT 1"
        row = next(self.store.rows(clause, subject, line), None)
        return 0 if row is None or row.stop is None else row.stop

    def beginning(self, subject: str, line: str, start: int | None) -> int:
        state, _ = self.require_account(subject)
        if start is None:
            return max(self.top(subject, line), state.floor)
        return start

    def meets(self, subject: str, line: str, start: int, stop: int) -> Row | None:
        """The first entry of the line that shares an index with the range."""
        clause = "WHERE subject = ? AND line = ? AND stop > ? ORDER BY stop LIMIT 1"
        row = next(self.store.rows(clause, subject, line, start), None)
        return row if row is not None and row.start is not None and row.start < stop else None

    def require_own(self, subject: str, shared: Sequence[str]) -> None:
        """Refuse rows of another subject: one of these public facts is a part of a line of it."""
        clause = "WHERE subject <> ? AND instr('.' || line || '.', ?) > 0 ORDER BY seq LIMIT 1"
        for part in shared:
            row = next(self.store.rows(clause, subject, f".{part}."), None)
            if row is not None:
                raise InvalidInput(
                    f"a table with the same target and the same public columns was released for "
                    f"the account {row.subject!r} (entry {row.seq} of {self.store.path}). If these "
                    "are the same people, use that account (--subject), so that costs add up. If "
                    "they are other measurements of the same rows, say --again."
                )

    def require_unchanged(self, subject: str, since: int) -> None:
        """Refuse a subject of which another process has spent after entry `since`."""
        clause = "WHERE subject = ? AND seq > ? AND start IS NOT NULL ORDER BY seq LIMIT 1"
        row = next(self.store.rows(clause, subject, since), None)
        if row is not None:
            raise BudgetExceeded(
                f"{subject!r}: another process has released readings of this account meanwhile "
                f"(entry {row.seq} of {self.store.path}). Nothing was spent: use that release."
            )

    def completion(self, row: Row) -> Row | None:
        return next(self.store.rows("WHERE of = ?", row.seq), None)

    def unfinished(self, subject: str, line: str, start: int) -> Row | None:
        row = self.meets(subject, line, start, start + 1)
        return row if row is not None and row.kind == "reserved" else None

    def released(
        self,
        subject: str,
        line: str,
        start: int,
        stop: int,
        facts: str,
        marks: Mapping[str, str] | None = None,
    ) -> Written | None:
        """What was released of exactly this range; None if nothing was, or it is only reserved."""
        row = self.meets(subject, line, start, stop)
        if row is None:
            return None
        which, last = f"{subject!r} {line!r}".removesuffix(" ''"), (row.stop or 0) - 1
        if row.kind == "burnt":
            raise LedgerError(
                f"{which}: indices up to {last} are burnt: entries of this ledger were lost. Draw "
                f"from index {last + 1} on."
            )
        if (row.start, row.stop) != (start, stop):
            raise InvalidInput(
                f"{which}: indices {start} to {stop - 1} meet the release of {row.start} to "
                f"{last} (entry {row.seq}), and are not the same. Ask for that range, or for "
                "indices beyond it; another release of the same readings needs a key of its own."
            )
        if body_of(row)["facts"] != facts:
            raise InvalidInput(
                f"{which}: indices {start} to {stop - 1} were released with other public facts "
                f"(level, grid, range; entry {row.seq}). To release them once more is to show "
                "more: choose another key, and both count."
            )
        holder = row if row.kind == "spent" else self.completion(row)
        if holder is None:
            return None
        self._require_same_rows(row, marks or {})
        numbers = self.store.numbers(holder)
        return Written(
            *unpacked(numbers, body_of(holder)["numbers"]), as_entry(holder), resent=True
        )

    def _require_same_rows(self, row: Row, marks: Mapping[str, str]) -> None:
        """Refuse to send a release again beside rows that are not those it is of."""
        stored = body_of(row).get("marks") or {}
        if any(stored.get(name, mark) != mark for name, mark in marks.items()):
            raise InvalidInput(
                f"{row.subject!r}: the rows up to step {(row.stop or 0) - 1} are not those that "
                f"were released under this account (entry {row.seq} of {self.store.path}). What "
                "was sent then says nothing of these, and they were not released. Other readings "
                "need an account of their own: choose another name for it (--subject). A stream "
                "that goes on begins with the rows that were sent, as they were when they were "
                "sent, or has new rows only (--continue)."
            )


def segments_of(row: Row) -> list[Segment]:
    """What was shown at the indices of an entry, after it."""
    found = body_of(row).get("segments", [])
    return [(whole(a), whole(b), Shown.from_list(shown)) for a, b, shown in found]

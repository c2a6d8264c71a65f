"""What a ledger tells: budgets, what was spent, its history, and whether it can be trusted."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any, Self

from privest.arrays import as_count
from privest.errors import InvalidInput, LedgerError
from privest.files import atomic_write
from privest.ledger._account import State, added, after, broken_limits
from privest.ledger._book import Book
from privest.ledger._budget import Budget, Cost
from privest.ledger._entries import (
    Amount,
    Entry,
    Head,
    Preview,
    Written,
    amount_left,
    amount_spent,
    as_entry,
    body_of,
    unpacked,
)
from privest.ledger._export import as_json, events_of
from privest.ledger._guard import Guard
from privest.ledger._mark import marks_folder
from privest.ledger._opening import first_of, make
from privest.ledger._shown import Shown
from privest.ledger._store import Store, damaged
from privest.ledger._verify import verify_rows
from privest.reading import read_text

BUSY = 30.0  # seconds to wait for other writers
LARGEST_INDEX = 2**62


class LedgerView:
    """All that can be asked of a ledger; nothing here spends."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        marks: str | os.PathLike[str] | None = None,
        busy: float = BUSY,
    ) -> None:
        self.path = Path(path).resolve()
        self._folder = marks_folder(marks)
        if not self.path.exists():
            make(self.path, create, busy, self._folder)
        self._store = Store(self.path, busy)
        self._book = Book(self._store)
        with self._store.reading():
            self.id, self._key_hash = first_of(self._store)
        self._guard = Guard(self._store, self._folder, self.id)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({os.fspath(self.path)!r}, {self._store.head[0]} entries)"

    # --- accounts -------------------------------------------------------------------------------

    def subjects(self) -> list[str]:
        """Everybody who has an account."""
        with self._store.reading():
            return [str(row.subject) for row in self._store.rows("WHERE kind = 'account'")]

    def budget(self, subject: str) -> Budget:
        """The budget that holds now."""
        with self._store.reading():
            return self._book.require_account(as_subject(subject))[1]

    def cost(self, subject: str, cost: Cost, *, start: int = 0, stop: int | None = None) -> Preview:
        """What `spend` would do, without spending."""
        name, first, end = as_subject(subject), *as_index_range(start, stop)
        with self._store.reading():
            state, budget = self._book.require_account(name)
            segments = added(self._book.profile(name, state, first, end), cost, budget)
            state = after(state, segments, cost.trace(end - first))
        units, _ = broken_limits(budget, state, segments)
        shown = segments[0][2]
        for _, _, other in segments:
            shown = shown.peak(other)
        return Preview(
            not units and first >= state.floor,
            tuple(units),
            amount_spent(budget, shown, state.trace),
            amount_left(budget, shown, state.trace),
        )

    def next_index(self, subject: str, key: str = "") -> int:
        """The first index that nothing was released of, nor burnt."""
        with self._store.reading():
            return self._book.beginning(as_subject(subject), key, None)

    def entry_at(self, subject: str, index: int, key: str = "") -> Entry | None:
        """The entry that covers an index of the release line `key`; None if nothing does."""
        at = as_count(index, "index", least=0)
        with self._store.reading():
            row = self._book.meets(as_subject(subject), read_text(key, "key"), at, at + 1)
            return None if row is None else as_entry(row)

    # --- what was spent ---------------------------------------------------------------------------

    def spent(self, subject: str, index: int | None = None) -> Amount:
        """What was spent at one index, or at most at any of them; `trace` is of all together."""
        state, budget, shown = self._looked_up(subject, index)
        return amount_spent(budget, shown, state.trace)

    def remaining(self, subject: str, index: int | None = None) -> Amount:
        """What the budget leaves at one index, or where most was spent."""
        state, budget, shown = self._looked_up(subject, index)
        return amount_left(budget, shown, state.trace)

    def _looked_up(self, subject: str, index: int | None) -> tuple[State, Budget, Shown]:
        name = as_subject(subject)
        with self._store.reading():
            state, budget = self._book.require_account(name)
            if index is None:
                return state, budget, state.peak
            at = as_count(index, "index", least=0)
            return state, budget, self._book.profile(name, state, at, at + 1)[0][2]

    def history(self, subject: str | None = None) -> list[Entry]:
        """The entries of a subject, or all, in their order."""
        with self._store.reading():
            if subject is None:
                return [as_entry(row) for row in self._store.rows("ORDER BY seq")]
            clause = "WHERE subject = ? ORDER BY seq"
            return [as_entry(row) for row in self._store.rows(clause, as_subject(subject))]

    def written(self, entry: Entry) -> Written | None:
        """The numbers of an entry, as they were written ahead; None where it has none."""
        mark = self._guard.file.read_if_whole()
        if mark is not None and mark.sequence <= entry.sequence:
            with self._guard.spending():  # a process may have been killed: first the mark
                pass
        with self._store.reading():
            row = self._store.row(entry.sequence)
            if row is None or row.hash != entry.hash:
                raise InvalidInput("this is not an entry of this ledger.")
            if row.numbers is None:
                return None
            numbers = unpacked(self._store.numbers(row), body_of(row)["numbers"])
            return Written(*numbers, as_entry(row), resent=True)

    @property
    def head(self) -> Head:
        """Number and hash of the last entry; note it elsewhere."""
        with self._store.reading():
            return Head(self.id, *self._store.head)

    def verify(self, head: Head | None = None) -> Head:
        """Check everything: pages, chain, totals recomputed, numbers, key, mark; one pass.

        `head`: one that was noted earlier; it must be part of this history.
        Raises LedgerError naming the first thing that is wrong.
        """
        with self._store.reading() as connection:
            self._store.check_pages()
            verify_rows(self._store, connection)
            if hashlib.sha256(self._key()).hexdigest() != self._key_hash:
                raise damaged(self.path, "its key is not the one it was made with")
            self._guard.require()
            if head is not None:
                row = self._store.row(head.sequence)
                if head.ledger != self.id or row is None or row.hash != head.hash:
                    raise LedgerError(
                        f"entry {head.sequence} of {self.path} is not the one that was noted: the "
                        "ledger was rewritten, is an old copy, or is another one."
                    )
            return Head(self.id, *self._store.head)

    def export(self, path: str | os.PathLike[str] | None = None, *, format: str = "json") -> str:
        """All entries as JSON, or ("dp-accounting") what each subject's account composes.

        Written to `path` where one is given; the key and the released integers are not in it.
        """
        if format == "json":
            text = as_json(self.head, self.history())
        elif format == "dp-accounting":
            found = {subject: self.dp_events(subject) for subject in self.subjects()}
            text = json.dumps({"head": self.head.to_dict(), "subjects": found}, indent=1) + "\n"
        else:
            raise InvalidInput('format must be "json" or "dp-accounting".')
        if path is not None:
            atomic_write(path, text)
        return text

    def dp_events(self, subject: str, index: int | None = None) -> dict[str, Any]:
        """What was shown of one index (None: the worst) as events of dp-accounting, described.

        `privest.ledger.dp_event` makes them where dp-accounting is installed.
        """
        return events_of(self.history(subject), index)

    # --- signatures -------------------------------------------------------------------------------

    def sign(self, data: bytes) -> str:
        """HMAC-SHA256 by the ledger's key: the owner can prove that a release is theirs."""
        with self._store.reading():
            return hmac.new(self._key(), data, "sha256").hexdigest()

    def check(self, data: bytes, tag: str) -> bool:
        """Whether `tag` is this ledger's signature of `data`."""
        return hmac.compare_digest(self.sign(data).encode(), tag.encode())

    def _key(self) -> bytes:
        return self._store.secret("key")

    @property
    def trouble(self) -> str | None:
        """Why nothing can be spent from this file; None if all is well."""
        try:
            with self._store.reading():
                self._guard.require()
        except LedgerError as error:
            return str(error)
        return None


def as_subject(given: str) -> str:
    name = read_text(given, "subject")
    if not name or len(name) > 200:
        raise InvalidInput("a subject is a text of 1 to 200 letters: a person, a table, a stream.")
    return name


def as_budget(given: Budget) -> Budget:
    if not isinstance(given, Budget):
        raise InvalidInput("budget must be a privest.ledger.Budget, such as Budget(level=2.0).")
    return given


def as_index_range(start: int, stop: int | None) -> tuple[int, int]:
    first = as_count(start, "start", least=0)
    end = first + 1 if stop is None else as_count(stop, "stop", least=first + 1)
    if end > LARGEST_INDEX:
        raise InvalidInput(f"indices must be below {LARGEST_INDEX}.")
    return first, end

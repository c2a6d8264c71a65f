"""The ledger: budgets, and what was spent of them, on disk before anything leaves."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from privest.arrays import Flags, as_count
from privest.errors import InvalidInput, LedgerError
from privest.files import atomic_write
from privest.ledger._account import State, added, after, broken_limits
from privest.ledger._book import Book
from privest.ledger._budget import Budget, Cost
from privest.ledger._entries import (
    Amount,
    Entry,
    Head,
    Integers,
    Preview,
    Written,
    amount_left,
    amount_spent,
    as_entry,
    body_of,
    facts_hash,
    packed,
    unpacked,
)
from privest.ledger._export import as_json, events_of
from privest.ledger._guard import Guard
from privest.ledger._mark import MarkFile, left_behind, mark_of, marks_folder
from privest.ledger._shown import Shown
from privest.ledger._source import Costs, LedgerSource
from privest.ledger._store import Row, Store, damaged
from privest.ledger._store import create as create_store
from privest.ledger._verify import verify_rows
from privest.mechanism.source import Source
from privest.reading import read_text

BUSY = 30.0  # seconds to wait for other writers
LARGEST_INDEX = 2**62
Draw = Callable[[], tuple[Integers, Flags | None]]


class Ledger:
    """Budgets of subjects and what was spent of them, in a file that survives a crash.

    A subject (a person, a table, a stream) has an account: a budget, and an index line for its
    readings (rows of the table, steps of the stream). Every spend covers a range of indices. Ranges
    that do not meet cost what the larger one does (parallel composition, within one account only);
    what covers an index adds up.

    A spend is on disk, and so are the released integers, before anybody sees them: a crash sends
    the same numbers again and never draws twice. Several processes may use one ledger. Beside the
    file, a mark elsewhere (`marks`, else $PRIVEST_STATE_HOME, $XDG_STATE_HOME/privest/ledgers)
    says how far it had come: an old copy, or a copy used by two, may be read and spends nothing,
    until `recover` or `adopt`. Raises LedgerError where the file cannot be trusted or written.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ledger = Ledger(folder + "/ledger.db", marks=folder + "/marks")
    >>> ledger.open_account("anna", Budget(level=2.0))
    >>> entry = ledger.spend("anna", Cost(information=0.5), start=0, stop=10)
    >>> ledger.spend("anna", Cost(information=1.5), start=10, stop=20).sequence
    4
    >>> float(ledger.spent("anna").level), float(ledger.remaining("anna", index=0).level)
    (1.5, 1.5)
    >>> ledger.verify().sequence
    4
    """

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
            self._make(create, busy)
        self._store = Store(self.path, busy)
        self._book = Book(self._store)
        with self._store.reading():
            self.id, self._key_hash = self._first()
        self._guard = Guard(self._store, self._folder, self.id)

    def _make(self, wanted: bool, busy: float) -> None:
        if not wanted:
            raise LedgerError(f"there is no ledger {self.path}.")
        if left_behind(self._folder, self.path) is not None:
            raise LedgerError(
                f"there was a ledger at {self.path}, and it is gone: a new one would give the same "
                "readings a new budget. Put it back, choose another place, or take leave of what "
                "it knew (privest.ledger.discard)."
            )
        key, own, instance = (secrets.token_bytes(size) for size in (32, 16, 16))
        body = {
            "ledger": own.hex(), "instance": instance.hex(),
            "key": hashlib.sha256(key).hexdigest(),
        }  # fmt: skip
        try:
            create_store(self.path, busy, body, {"key": key}, self._begin_mark)
        except FileExistsError:
            return  # another process was quicker

    def _begin_mark(self, file: Path, row: Row) -> None:
        body = body_of(row)
        mark = mark_of(file, body["ledger"], body["instance"], row.seq, row.hash, at=self.path)
        MarkFile(self._folder, body["ledger"]).begin(mark)

    def _first(self) -> tuple[str, str]:
        row = self._store.row(1)
        body = {} if row is None else body_of(row)
        if row is None or row.kind != "created" or not {"ledger", "instance", "key"} <= set(body):
            raise damaged(self.path, "it does not begin as a ledger does")
        if len(body["ledger"]) != 32 or not set(body["ledger"]) <= set("0123456789abcdef"):
            raise damaged(self.path, "it has no name")
        return body["ledger"], body["key"]

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({os.fspath(self.path)!r}, {self._store.head[0]} entries)"

    # --- budgets --------------------------------------------------------------------------------

    def open_account(self, subject: str, budget: Budget) -> None:
        """Open the account of a subject with its budget; the same again is no change."""
        name, wanted = _subject(subject), _budget(budget)
        with self._guard.spending():
            found = self._book.account(name)
            if found is not None and found[1] == wanted:
                return
            if found is not None:
                raise InvalidInput(
                    f"{name!r} has an account with the budget {found[1].in_words()}. What was "
                    "spent stays spent: change it with raise_budget."
                )
            last = self._book.last(name)
            floor = 0 if last is None else body_of(last)["floor"]  # burnt before it was opened
            state = State(self._store.head[0] + 1, floor=floor)
            self._store.append(
                "account", {"budget": wanted.to_dict(), "state": state.to_list()}, name
            )

    def raise_budget(self, subject: str, budget: Budget) -> Entry:
        """Give a subject another budget, from now on. What was spent stays spent."""
        name, wanted = _subject(subject), _budget(budget)
        with self._guard.spending():
            state, _ = self._book.require_account(name)
            state = replace(state, budget=self._store.head[0] + 1)
            body = {"budget": wanted.to_dict(), "state": state.to_list()}
            return as_entry(self._store.append("raised", body, name))

    def subjects(self) -> list[str]:
        """Everybody who has an account."""
        with self._store.reading():
            return [str(row.subject) for row in self._store.rows("WHERE kind = 'account'")]

    def budget(self, subject: str) -> Budget:
        """The budget that holds now."""
        with self._store.reading():
            return self._book.require_account(_subject(subject))[1]

    # --- spending -------------------------------------------------------------------------------

    def spend(
        self,
        subject: str,
        cost: Cost,
        *,
        start: int = 0,
        stop: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Spend `cost` on each index of start ≤ index < stop (one index if stop is left out).

        On disk when it returns: spend first, then show. Raises BudgetExceeded where the budget does
        not allow it; then nothing is spent. `facts`: what is public of the release, kept as a hash.
        """
        name, first, end = _subject(subject), *_range(start, stop)
        with self._guard.spending():
            body = self._book.charge(name, cost, first, end)
            body["facts"] = None if facts is None else facts_hash(facts)
            return as_entry(self._store.append("spent", body, name, place=(first, end)))

    def cost(self, subject: str, cost: Cost, *, start: int = 0, stop: int | None = None) -> Preview:
        """What `spend` would do, without spending."""
        name, first, end = _subject(subject), *_range(start, stop)
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

    def spend_and_write(
        self,
        subject: str,
        cost: Cost,
        start: int | None,
        count: int,
        facts: Mapping[str, Any],
        draw: Draw,
        *,
        key: str = "",
        known: int | None = None,
    ) -> Written:
        """Spend, and write what `draw()` gives, in one transaction: then it may leave.

        The range is start ≤ index < start + count of the release line `key` (start None: the next
        free index). A range that was released with the same facts is sent again as it was, whatever
        `draw` would give; other facts, or a range that meets another, are refused. `known` is the
        highest index that the receiver or a release file has: if this ledger does not know it,
        entries were lost, and nothing is drawn up to there (burnt). `draw` gives int64 and missing
        flags (or None); it is called at most once, and not where the release is refused.
        """
        name, line, size = (
            _subject(subject),
            read_text(key, "key"),
            as_count(count, "count", least=1),
        )
        digest = facts_hash(facts)
        self._burn_up_to(name, line, known)
        with self._store.reading():
            first = self._book.beginning(name, line, start)
            if (found := self._book.released(name, line, first, first + size, digest)) is not None:
                return found
            if self._book.unfinished(name, line, first) is None:
                self._book.charge(
                    name, cost, first, first + size
                )  # refused before anything is drawn
        numbers, layout = packed(*draw())
        with self._guard.spending():
            if start is None:
                first = self._book.beginning(name, line, None)
            if (found := self._book.released(name, line, first, first + size, digest)) is not None:
                return found
            waiting = self._book.unfinished(name, line, first)
            if waiting is not None:
                row = self._book.complete(waiting, numbers, layout)
            else:
                body = self._book.charge(name, cost, first, first + size)
                body |= {"facts": digest, "numbers": layout}
                row = self._store.append(
                    "spent", body, name, line=line, place=(first, first + size), numbers=numbers
                )
        return Written(*unpacked(numbers, layout), as_entry(row), resent=False)

    def source(
        self,
        subject: str,
        cost: Costs,
        *,
        start: int | None = None,
        key: str = "",
        source: Source | None = None,
        known: int | None = None,
        **facts: Any,  # noqa: ANN401 - what JSON holds
    ) -> LedgerSource:
        """Noise for `release(y, source)` that spends `cost` and is written down before it leaves.

        `cost` is that of each index (`cost_of`), or a function of the range (first, stop). `start`
        is the index of the first reading (of step 0 of a stream); left out, the next free one,
        which is right only for readings that were never handed in: a run that may start again
        states its indices, and gets the same numbers again. `key` names the release among several
        of the same readings: all of them count. `known`: the highest index that the receiver or a
        release file has. `facts`: what is public of the release, level=level.fingerprint at least.
        """
        return LedgerSource(
            self, subject, cost, start=start, key=key, source=source, known=known, facts=facts
        )

    def reserve(
        self,
        subject: str,
        cost: Cost,
        start: int | None,
        count: int,
        facts: Mapping[str, Any],
        *,
        key: str = "",
    ) -> Entry:
        """Spend now for numbers that come later: `complete`, or `spend_and_write` of this range.

        Counts as spent whether or not it is completed.
        """
        name, line, size = (
            _subject(subject),
            read_text(key, "key"),
            as_count(count, "count", least=1),
        )
        with self._guard.spending():
            first = self._book.beginning(name, line, start)
            if self._book.meets(name, line, first, first + size) is not None:
                raise InvalidInput(f"{name!r}: index {first} was released or reserved before.")
            body = self._book.charge(name, cost, first, first + size)
            body["facts"] = facts_hash(facts)
            row = self._store.append("reserved", body, name, line=line, place=(first, first + size))
        return as_entry(row)

    def complete(
        self, reservation: Entry, integers: Integers, missing: Flags | None = None
    ) -> Entry:
        """Write the numbers of a reservation, once; only then may they leave."""
        numbers, layout = packed(integers, missing)
        with self._guard.spending():
            row = self._store.row(reservation.sequence)
            if row is None or row.kind != "reserved" or row.hash != reservation.hash:
                raise InvalidInput("this is not a reservation of this ledger.")
            if self._book.completion(row) is not None:
                raise InvalidInput(f"reservation {row.seq} was completed before.")
            return as_entry(self._book.complete(row, numbers, layout))

    def next_index(self, subject: str, key: str = "") -> int:
        """The first index that nothing was released of, nor burnt."""
        with self._store.reading():
            return self._book.beginning(_subject(subject), key, None)

    def entry_at(self, subject: str, index: int, key: str = "") -> Entry | None:
        """The entry that covers an index of the release line `key`; None if nothing does."""
        at = as_count(index, "index", least=0)
        with self._store.reading():
            row = self._book.meets(_subject(subject), read_text(key, "key"), at, at + 1)
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
        name = _subject(subject)
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
            return [as_entry(row) for row in self._store.rows(clause, _subject(subject))]

    @property
    def head(self) -> Head:
        """Number and hash of the last entry; note it elsewhere."""
        with self._store.reading():
            self._store.read_on()
            return Head(self.id, *self._store.head)

    def verify(self, head: Head | None = None) -> Head:
        """Check everything: pages, chain, totals recomputed, numbers, key, mark; one pass.

        `head`: one that was noted earlier; it must be part of this history.
        Raises LedgerError naming the first thing that is wrong.
        """
        with self._store.reading() as connection:
            self._store.check_pages()
            verify_rows(self._store, connection)
            self._store.read_on()
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

    # --- after a loss -----------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why nothing can be spent from this file; None if all is well."""
        try:
            with self._store.reading():
                self._store.read_on()
                self._guard.require()
        except LedgerError as error:
            return str(error)
        return None

    def adopt(self) -> Entry:
        """This file is the one to go on with: it was moved, restored without loss, or its mark is
        gone. Any other copy is refused from now on. Refused for a file that is behind its mark.
        """
        with self._store.writing():
            mark = self._guard.file.read_if_whole()
            if mark is not None and self._guard.is_behind(mark):
                raise LedgerError(
                    f"{self.path} is behind: it ends at entry {self._store.head[0]}, and entry "
                    f"{mark.sequence} was written. State what was released since: "
                    "recover(highest={subject: index})."
                )
            row = self._adopted({})
        self._guard.begin(row)
        return as_entry(row)

    def recover(self, highest: Mapping[str, int]) -> Entry:
        """Go on with an old copy: nothing is drawn again up to `highest[subject]`.

        State for every account the highest index that was released, from release files or the
        receiver (−1 for none). What the lost entries spent is not known: indices up to there are
        burnt, and a trace budget counts as used up.
        """
        with self._store.writing():
            accounts = {str(row.subject) for row in self._store.rows("WHERE kind = 'account'")}
            missing = accounts - set(highest)
            if missing:
                raise InvalidInput(
                    f"recover needs the highest released index of every account; {len(missing)} "
                    f"are not stated, {min(missing)!r} among them (−1: nothing was released)."
                )
            for subject, index in highest.items():
                self._book.lose(_subject(subject), as_count(index, "highest index", least=-1) + 1)
            row = self._adopted({"highest": dict(highest)})
        self._guard.begin(row)
        return as_entry(row)

    def _burn_up_to(self, subject: str, line: str, known: int | None) -> None:
        if known is None:
            return
        stop = as_count(known, "known", least=-1) + 1
        with self._guard.spending():
            self._book.lose_up_to(subject, line, stop)

    def _adopted(self, body: dict[str, Any]) -> Row:
        return self._store.append("adopted", body | {"instance": secrets.token_hex(16)})


def _subject(given: str) -> str:
    name = read_text(given, "subject")
    if not name or len(name) > 200:
        raise InvalidInput("a subject is a text of 1 to 200 letters: a person, a table, a stream.")
    return name


def _budget(given: Budget) -> Budget:
    if not isinstance(given, Budget):
        raise InvalidInput("budget must be a privest.ledger.Budget, such as Budget(level=2.0).")
    return given


def _range(start: int, stop: int | None) -> tuple[int, int]:
    first = as_count(start, "start", least=0)
    end = first + 1 if stop is None else as_count(stop, "stop", least=first + 1)
    if end > LARGEST_INDEX:
        raise InvalidInput(f"indices must be below {LARGEST_INDEX}.")
    return first, end


def discard(path: str | os.PathLike[str], *, marks: str | os.PathLike[str] | None = None) -> None:
    """Delete a ledger and its mark: whatever it knew of what was shown is lost.

    For readings that are no longer there or were never private (a demonstration). A ledger that is
    made in its place gives everybody a new budget, which is why deleting the file alone does not.
    """
    place, folder = Path(path).resolve(), marks_folder(marks)
    try:
        for ending in ("", "-wal", "-shm"):
            Path(f"{place}{ending}").unlink(missing_ok=True)
        while (mark := left_behind(folder, place, least=0)) is not None:
            (folder / mark.ledger).unlink()
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be deleted: {error.strerror}.") from None

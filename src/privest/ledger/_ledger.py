"""The ledger: budgets, and what was spent of them, on disk before anything leaves."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from privest.arrays import Flags, as_count
from privest.errors import InvalidInput, LedgerError
from privest.ledger._account import keeps_move
from privest.ledger._budget import Budget, Cost, move_words
from privest.ledger._entries import (
    Entry,
    Integers,
    Written,
    as_entry,
    facts_hash,
    packed,
    unpacked,
)
from privest.ledger._source import Costs, LedgerSource
from privest.ledger._store import Row
from privest.ledger._view import LedgerView, as_budget, as_index_range, as_subject
from privest.mechanism.source import Source
from privest.reading import read_text

Draw = Callable[[], tuple[Integers, Flags | None]]


class Ledger(LedgerView):
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

    # --- budgets --------------------------------------------------------------------------------

    def open_account(self, subject: str, budget: Budget) -> None:
        """Open the account of a subject with its budget; the same again is no change."""
        name, wanted = as_subject(subject), as_budget(budget)
        with self._guard.spending():
            found = self._book.account(name)
            if found is None:
                self._book.open(name, wanted)
            elif found[1] != wanted:
                raise InvalidInput(
                    f"{name!r} has an account with the budget {found[1].in_words()}. What was "
                    "spent stays spent: change it with raise_budget."
                )

    def raise_budget(self, subject: str, budget: Budget) -> Entry:
        """Give a subject another budget, from now on. What was spent stays spent."""
        name, wanted = as_subject(subject), as_budget(budget)
        with self._guard.spending():
            state, old = self._book.require_account(name)
            if not keeps_move(old, wanted):
                raise InvalidInput(
                    f"the account of {name!r} is about {move_words(old.move)}: what was spent was "
                    "counted for it, and is not known for another move. Keep the move, or open "
                    "another account."
                )
            state = replace(state, budget=self._store.head[0] + 1)
            body = {"budget": wanted.to_dict(), "state": state.to_list()}
            return as_entry(self._store.append("raised", body, name))

    def require_writable(self) -> None:
        """Refuse a ledger, or a mark, that could not be written now."""
        with self._guard.spending():
            pass

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
        name, first, end = as_subject(subject), *as_index_range(start, stop)
        with self._guard.spending():
            body = self._book.charge(name, cost, first, end)
            body["facts"] = None if facts is None else facts_hash(facts)
            return as_entry(self._store.append("spent", body, name, place=(first, end)))

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
        shared: Sequence[str] = (),
        since: int | None = None,
        budget: Budget | None = None,
        marks: Mapping[str, str] | None = None,
    ) -> Written:
        """Spend, and write what `draw()` gives, in one transaction: then it may leave.

        The range is start ≤ index < start + count of the release line `key` (start None: the next
        free index). A range that was released with the same facts is sent again as it was, whatever
        `draw` would give; other facts, or a range that meets another, are refused. `known` is the
        highest index that the receiver or a release file has: if this ledger does not know it,
        entries were lost, and nothing is drawn up to there (burnt). `draw` gives int64 and missing
        flags (or None); it is called at most once, and not where the release is refused.
        `shared`: parts of the key (between points); refused where another subject has one of them.
        `since`: the last entry that was looked at; where others have spent of this subject after
        it, what was decided then does not hold, and it is refused.
        `budget`: of an account that is opened with this spend, if there is none.
        `marks`: hashes of what is public of the rows, by name, that are kept; where the range was
        released with another mark of the same name it is of other rows, and refused.

        Facts, key, `shared` and `marks` must be public, never made of readings. Then whether it is
        refused, sent again or drawn is the same for all readings; what is sent again was paid for,
        and what is drawn is charged.
        """
        name, line, size = (
            as_subject(subject),
            read_text(key, "key"),
            as_count(count, "count", least=1),
        )
        digest = facts_hash(facts)
        self._burn_up_to(name, line, known)
        found = None
        with self._store.reading():
            if budget is None or self._book.account(name) is not None:
                first = self._book.beginning(name, line, start)
                found = self._book.released(name, line, first, first + size, digest, marks)
                if found is None and self._book.unfinished(name, line, first) is None:
                    self._book.charge(name, cost, first, first + size)  # refused before it is drawn
        if found is not None:
            with self._guard.spending():  # the mark is at its entry before it leaves again
                return found
        numbers, layout = packed(*draw())
        with self._guard.spending():
            if since is not None:
                self._book.require_unchanged(name, since)
            if budget is not None and self._book.account(name) is None:
                self._book.open(name, budget)
            first = self._book.beginning(name, line, start)
            found = self._book.released(name, line, first, first + size, digest, marks)
            if found is not None:
                return found
            waiting = self._book.unfinished(name, line, first)
            if waiting is not None:
                row = self._book.complete(waiting, numbers, layout)
            else:
                self._book.require_own(name, shared)
                body = self._book.charge(name, cost, first, first + size)
                body |= {"facts": digest, "numbers": layout}
                if marks is not None:
                    body["marks"] = dict(marks)
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
            as_subject(subject),
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

    # --- after a loss -----------------------------------------------------------------------------

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
                self._book.lose(as_subject(subject), as_count(index, "highest index", least=-1) + 1)
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

"""Where the release of a table is charged: its entry is on disk before the table appears.

The order is: all of the table in a draft that nobody sees, on disk; the entry, with the SHA-256 of
that table; the header, with the entry; the table to its place. Whoever is killed in between finds
either a draft that no entry knows (nobody saw it: it is emptied and drawn anew) or one that is paid
for (it is finished, the very same table). Whatever fails in between leaves no draft but one that is
paid for. A table that is lost after its entry stays spent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np

from privest.errors import BudgetExceeded, InvalidInput, LedgerError, PrivestError
from privest.files import part_path, require_writable
from privest.ledger import Account as LedgerAccount
from privest.ledger import (
    Budget,
    Cost,
    Entry,
    Ledger,
    cost_of,
    marks_folder,
    require_none_before,
)
from privest.privacy import SequentialLevel
from privest.records import plain
from privest.workflow._account_terms import PublicRows, measure_of, release_cost
from privest.workflow._header import TableRelease, digest, parsed_header
from privest.workflow._header_fields import LedgerPlace
from privest.workflow._record import record_information
from privest.workflow._spending import Spending, left_of
from privest.workflow._terms import Terms

LEDGER = "privest-ledger.db"
# Of a header: what was chosen, not what came of it.
CHOSEN = ("columns", "names", "family", "people", "weights", "grid")


class Account:
    """The account of a table's readings in a ledger.

    ledger   a `Ledger`, or the path of one, which is made when something is spent.
    subject  whose readings they are; never another name for the same ones.
    budget   of an account that is opened by this release: the most Fisher information about one
             reading. None: what this release costs, and nothing more.
    again    True: release once more what was released before, with new noise, if the budget allows
             it; what was shown adds up. Of an account of its own: these are other measurements,
             whatever other accounts have released beside the same public columns.
    """

    def __init__(
        self,
        ledger: Ledger | str | os.PathLike[str],
        subject: str,
        budget: float | None = None,
        *,
        again: bool = False,
    ) -> None:
        self._own = not isinstance(ledger, Ledger)
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self.path = ledger.path if isinstance(ledger, Ledger) else Path(ledger).resolve()
        self.subject, self.budget, self.again = subject, budget, again
        self._seen: int | None = None  # the last entry when it was opened

    @property
    def ledger(self) -> Ledger:
        """The ledger, opened, made if need be."""
        if self._ledger is None:
            self._ledger = Ledger(self.path)
        return self._ledger

    @property
    def _ledger_account(self) -> LedgerAccount:
        """The account in the ledger."""
        return self.ledger.account(self.subject)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the ledger if it was opened here."""
        if self._own and self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy: it opens the ledger anew, by its path."""
        return vars(self) | {"_own": True, "_ledger": None}

    def spend(self, level: SequentialLevel, start: int, stop: int) -> None:
        """Charge the values start ≤ k < stop of a release at a level: then they may be drawn."""
        most = cost_of(level).largest_level
        with self:
            if self.subject not in self.ledger.subjects():
                own = most if self.budget is None else self.budget
                self.ledger.account(self.subject, budget=Budget(level=own))
            cost = cost_of(level, start=start, stop=stop)
            self._ledger_account.spend(cost, start=start, stop=stop)

    def open(self, plan: Terms, folder: Path) -> None:
        """Before anything is drawn: refuse what will not be paid for, or could not be written.

        What is decided here holds for the entries there are now; `charge` asks the ledger whether
        it still does, in the transaction that spends.
        """
        self._require_allowed(plan, folder)
        if self.path.exists():
            self.ledger.require_writable()

    def _require_allowed(self, plan: Terms, folder: Path) -> None:
        self._seen = 0
        if not self.path.exists():  # nothing was spent yet
            require_none_before(self.path, marks_folder())
            for place in (self.path, marks_folder() / "mark"):
                require_writable(place)
            self._require_within(plan, None)
            return
        self._seen = self.ledger.head.sequence
        trouble = self.ledger.trouble
        if trouble is not None:
            raise LedgerError(trouble)
        self._require_newest(folder)
        before = self._releases()
        if before and not self.again:
            last = before[-1]
            raise BudgetExceeded(
                f"{self.subject!r} was released on {last.time[:16].replace('T', ' ')} (entry "
                f"{last.sequence} of {self.path}); {self._left()}. Use that release: the "
                "same readings again, with new noise, show more of them. If that is meant, raise "
                "the budget (privest ledger budget) and say --again. If these are other readings, "
                "name them (--subject)."
            )
        self._require_one_measure(plan, before)
        known = self.subject in self.ledger.subjects()
        stated = self._ledger_account.budget if known else None
        if stated is not None and self.budget is not None and stated != self._budget(plan):
            raise InvalidInput(
                f"{self.subject!r} has an account with the budget {stated.in_words()}: change it "
                "with privest ledger budget, which is recorded."
            )
        self._require_within(plan, stated)

    def preview(self, plan: Terms, table: Path | None = None) -> Spending:
        """What a release under `plan` would spend, and what would be left. Nothing is spent.

        A ledger that is not there is not made. `table`: where the release is to be; a draft that a
        killed run has left there, and that is paid for, is found. Other processes may spend at the
        same time: a release asks again.
        """
        unfinished = table is not None and self._has_paid_draft(table)
        folder = Path() if table is None else table.resolve().parent
        refusal = None if unfinished else self._refusal(plan, folder, self.again)
        shown = record_information(plan.columns)
        facts: dict[str, Any] = {
            "ledger": self.path, "subject": self.subject, "refusal": refusal,
            "refusal_again": refusal and self._refusal(plan, folder, True),
            "unfinished": unfinished, "level": float(shown),
        }  # fmt: skip
        try:
            known = self.path.exists() and self.subject in self.ledger.subjects()
        except LedgerError:  # it cannot be read: the refusal says why
            return Spending(**facts, known=False)
        if not known:
            own = left_of(self._budget(plan), Fraction(0), shown)
            return Spending(**facts, known=False, **own)
        stated, spent = self._ledger_account.budget, self._ledger_account.spent.level
        own = left_of(stated, spent, Fraction(0) if unfinished else shown)
        return Spending(**facts, known=True, earlier=tuple(self._releases()), **own)

    def _refusal(self, plan: Terms, folder: Path, again: bool) -> str | None:
        """Why a release would be refused now; None: it would not be."""
        ledger = self.path if self._ledger is None else self._ledger
        try:
            with Account(ledger, self.subject, self.budget, again=again) as same:
                same._require_allowed(plan, folder)
        except PrivestError as error:
            return str(error)
        return None

    def _require_one_measure(self, plan: Terms, before: Sequence[Entry]) -> None:
        """Levels add up where they count the same thing in the same units, and only there."""
        own = measure_of(plan)
        for entry in before:
            parts = (entry.key or "").split(".")
            if entry.key and own not in parts:
                raise InvalidInput(
                    f"{self.subject!r}: entry {entry.sequence} of {self.path} is of a release in "
                    "another measure (another transform, units, set of columns, or persons in "
                    "place of rows): their levels do not add up to one budget. Release in that "
                    "measure again, or decide by hand what both show together."
                )

    def _require_within(self, plan: Terms, stated: Budget | None) -> None:
        """Refuse what is beyond the budget: `stated` of an account, or that of a new one."""
        if stated is None:
            fits = self._budget(plan).level >= record_information(plan.columns)
        else:
            fits = self._ledger_account.preview(release_cost(plan)).fits
        if not fits:
            raise BudgetExceeded(
                f"{self.subject!r}: a release at level {float(record_information(plan.columns)):g} "
                f"is more than the budget "
                f"allows; {'it is less' if stated is None else self._left()}. Nothing was drawn. "
                "Release at a lower level, or raise the budget (privest ledger budget), which is "
                "recorded."
            )

    def charge(self, plan: Terms, found: TableRelease, rows: PublicRows) -> TableRelease:
        """The release with its entry, which is on disk now; `rows`: what it is known by.

        Nothing of an entry is made of readings: its key of public columns, its numbers of the
        release. Hence neither is its hash, which the header shows, and whether the ledger refuses
        does not depend on them.
        """
        known = rows.names(plan.spec.targets)
        key = ".".join([*known, measure_of(plan), found.sha256[:32]])
        rest = [found.dropped] if found.persons is None else [found.dropped, found.rows]
        numbers = np.append(
            np.frombuffer(bytes.fromhex(found.sha256), dtype="<i8"), np.array(rest, dtype=np.int64)
        )
        written = self._ledger_account.spend_and_write(
            release_cost(plan), 0, found.charged, _facts(found),
            lambda: (numbers, None), key=key, shared=() if self.again else known,
            since=self._seen, budget=self._budget(plan),
        )  # fmt: skip
        return self._sealed(found, written.entry)

    def paid(self, found: TableRelease) -> TableRelease | None:
        """The header of a draft that is complete and paid for, by its SHA-256; None: it is not.

        `found` needs neither rows nor dropped: the entry has them.
        """
        of_table = self._entry_of(found.sha256)
        if of_table is None:
            return None
        entry, (dropped, *rest) = of_table
        charged = (entry.stop or 0) - (entry.start or 0)
        whole = replace(found, rows=charged, dropped=dropped)
        if rest:  # of persons: an entry counts them, and not their rows
            whole = replace(whole, rows=rest[0], persons=charged)
        self._ledger_account.spend_and_write(  # refused where the plan is another one now
            entry.cost or Cost(0.0), 0, whole.charged, _facts(whole),
            lambda: (np.zeros(0, dtype=np.int64), None), key=entry.key or "",
        )  # fmt: skip
        return self._sealed(whole, entry)

    def _entry_of(self, sha256: str) -> tuple[Entry, list[int]] | None:
        """The entry of a table and what it knows of its rows; None: nobody paid for it."""
        for entry in reversed(self._releases() if self.path.exists() else []):
            written = self.ledger.written(entry)
            if written is None or len(written.integers) not in (5, 6):
                continue
            words, rest = np.split(written.integers, [4])
            if words.astype("<i8").tobytes().hex() == sha256:
                return entry, rest.tolist()
        return None

    def is_paid(self, sha256: str) -> bool:
        """Whether a table is known to be in the ledger."""
        try:
            return self._entry_of(sha256) is not None
        except LedgerError:
            return False

    def _has_paid_draft(self, table: Path) -> bool:
        try:
            with part_path(table.resolve()).open("rb") as file:
                return self.is_paid(digest(file))
        except OSError:
            return False

    def _sealed(self, found: TableRelease, entry: Entry) -> TableRelease:
        place = LedgerPlace(self.ledger.id, self.subject, entry.sequence, entry.hash)
        charged = replace(found, entry=place)
        return replace(charged, signature=self.ledger.sign(signed_text(charged)))

    def _budget(self, plan: Terms) -> Budget:
        """Of an account that is opened now."""
        if self.budget is not None:
            return Budget(level=self.budget)
        own, pure = record_information(plan.columns), release_cost(plan)
        if pure.epsilon is None:
            return Budget(level=own)
        return Budget(level=own, epsilon=pure.epsilon, delta=0.0, move=pure.move)

    def _releases(self) -> list[Entry]:
        return [one for one in self.ledger.history(self.subject) if one.cost is not None]

    def _left(self) -> str:
        left = self._ledger_account.remaining.level
        return "nothing is left" if not left else f"a level of {float(left):g} is left"

    def _require_newest(self, folder: Path) -> None:
        """Refuse a ledger that does not know a release which is there: it is an old copy."""
        head = self.ledger.head
        for name, place in _entries_in(folder):
            if place.ledger == self.ledger.id and place.sequence > head.sequence:
                raise LedgerError(
                    f"{name} is entry {place.sequence} of the ledger {self.path}, which "
                    f"ends at entry {head.sequence}: it is an old copy, and new noise would be put "
                    "on readings that were shown already. Put the newest copy back, or state what "
                    "was released since (privest ledger recover)."
                )


def signed_text(found: TableRelease) -> bytes:
    """What the signature of a release is of."""
    return f"{found.KIND} {found.checksum}".encode()


def _facts(found: TableRelease) -> dict[str, object]:
    return {name: plain(getattr(found, name)) for name in CHOSEN}


def _entries_in(folder: Path) -> Iterator[tuple[str, LedgerPlace]]:
    """The places in ledgers of the releases in a folder; what is no header is passed over."""
    names = os.listdir(folder) if folder.is_dir() else []
    for name in sorted(names):
        if name.endswith((".csv.json", ".parquet.json")):
            try:
                found = TableRelease.from_dict(parsed_header(folder / name))
            except (PrivestError, OSError, json.JSONDecodeError):
                continue
            if found.entry is not None:
                yield name, found.entry

"""The ledger: budgets, and what was spent of them, on disk before anything leaves."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from privest.arrays import as_count
from privest.errors import InvalidInput, LedgerError
from privest.ledger._account import Account
from privest.ledger._budget import Budget
from privest.ledger._mark import Guard, first_of, make, marks_folder
from privest.ledger._store import (
    Entry,
    Head,
    Row,
    Store,
    Written,
    as_entry,
    body_of,
    damaged,
    unpacked,
)
from privest.ledger._verify import verify_rows

BUSY = 30.0  # seconds to wait for other writers
FORMAT = "privest ledger export 1"


class Ledger:
    """Budgets of subjects and what was spent of them, in a file that survives a crash.

    A spend and its released integers are on disk before anybody sees them: a crash sends the same
    numbers again and never draws twice. Several processes may use one ledger. A mark elsewhere
    (`marks`, else $PRIVEST_STATE_HOME, $XDG_STATE_HOME/privest/ledgers) records how far it had
    come: an old copy, or a copy used by two, spends nothing until `recover` or `adopt`.

    >>> import tempfile
    >>> from privest.ledger import Cost
    >>> folder = tempfile.mkdtemp()
    >>> ledger = Ledger(folder + "/ledger.db", marks=folder + "/marks")
    >>> anna = ledger.account("anna", budget=2.0)
    >>> entry = anna.spend(Cost(information=0.5), start=0, stop=10)
    >>> anna.spend(Cost(information=1.5), start=10, stop=20).sequence
    4
    >>> float(anna.spent.level), float(anna.remaining.level)
    (1.5, 0.5)
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
        folder = marks_folder(marks)
        self._place = self.path, folder, busy
        if not self.path.exists():
            make(self.path, create, busy, folder)
        self._store = Store(self.path, busy)
        with self._store.reading():
            self.id, self._key_hash = first_of(self._store)
        self._guard = Guard(self._store, folder, self.id)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({os.fspath(self.path)!r}, {self._store.head[0]} entries)"

    # --- accounts -------------------------------------------------------------------------------

    def account(self, subject: str, *, budget: Budget | float | None = None) -> Account:
        """The account of a subject; with a budget (a number: a level) it is opened."""
        found = Account(self, subject)
        if budget is not None:
            found.open(budget)
        return found

    def subjects(self) -> list[str]:
        """Everybody who has an account."""
        with self._store.reading():
            return [str(row.subject) for row in self._store.rows("WHERE kind = 'account'")]

    def history(self, subject: str | None = None) -> list[Entry]:
        """The entries of a subject, or all, in their order."""
        if subject is not None:
            return self.account(subject).history()
        with self._store.reading():
            return [as_entry(row) for row in self._store.rows("ORDER BY seq")]

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

    def export(self) -> str:
        """All entries as JSON; exact numbers are texts m·2^e. Without key and released integers."""
        entries = [one.to_dict() for one in self.history()]
        record = {"format": FORMAT, **self.head.to_dict(), "entries": entries}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    # --- whether it can be trusted --------------------------------------------------------------

    @property
    def head(self) -> Head:
        """Number and hash of the last entry; note it elsewhere."""
        with self._store.reading():
            return Head(self.id, *self._store.head)

    def verify(self, head: Head | None = None) -> Head:
        """Check pages, chain, totals, numbers, key and mark; LedgerError names the first error.

        head  noted earlier: it must be part of this history.
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

    @property
    def trouble(self) -> str | None:
        """Why nothing can be spent from this file; None if all is well."""
        try:
            with self._store.reading():
                self._guard.require()
        except LedgerError as error:
            return str(error)
        return None

    def require_writable(self) -> None:
        """Refuse a ledger, or a mark, that could not be written now."""
        with self._guard.spending():
            pass

    def sign(self, data: bytes) -> str:
        """HMAC-SHA256 by the ledger's key: the owner can prove that a release is theirs."""
        with self._store.reading():
            return hmac.new(self._key(), data, "sha256").hexdigest()

    def check(self, data: bytes, tag: str) -> bool:
        """Whether `tag` is this ledger's signature of `data`."""
        return hmac.compare_digest(self.sign(data).encode(), tag.encode())

    def _key(self) -> bytes:
        return self._store.secret("key")

    # --- after a loss ---------------------------------------------------------------------------

    def adopt(self) -> Entry:
        """Go on with a file that was moved or restored without loss, or whose mark is gone.

        Any other copy is refused from now on.
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

        State for every account the highest index that was released (−1 for none). Indices up to
        there are retired, and a trace budget counts as used up.
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
                self.account(subject).lose(as_count(index, "highest index", least=-1) + 1)
            row = self._adopted({"highest": dict(highest)})
        self._guard.begin(row)
        return as_entry(row)

    def _adopted(self, body: dict[str, Any]) -> Row:
        return self._store.append("adopted", body | {"instance": secrets.token_hex(16)})

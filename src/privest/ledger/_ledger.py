"""The ledger: budgets, and what was spent of them, on disk before anything leaves."""

from __future__ import annotations

import bisect
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privest.arrays import as_count
from privest.errors import InvalidInput, LedgerError, PrivestError
from privest.files import require_disk
from privest.ledger._account import Account, as_subject
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
from privest.ledger._mark import Guard, first_of, make, marks_folder
from privest.ledger._store import (
    FIRST,
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

if TYPE_CHECKING:
    import sqlite3

BUSY = 30.0  # seconds to wait for other writers
FORMAT = "privest ledger export 1"
OTHER_PROCESSOR = 1e-9  # relative: μ and ρ of an ε are computed again, perhaps elsewhere


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

    id: str

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        marks: str | os.PathLike[str] | None = None,
        busy: float = BUSY,
    ) -> None:
        require_disk()
        self.path: Path = Path(path).resolve()
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
        try:
            as_subject(subject)
        except InvalidInput:
            if subject not in self.subjects():  # an account of before goes on under its name
                raise
        found = Account(self, subject)
        if budget is not None:
            found.open(budget)
        return found

    def subjects(self) -> list[str]:
        """The subjects that have an account."""
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
                Account(self, subject).lose(as_count(index, "highest index", least=-1) + 1)
            row = self._adopted({"highest": dict(highest)})
        self._guard.begin(row)
        return as_entry(row)

    def _adopted(self, body: dict[str, Any]) -> Row:
        return self._store.append("adopted", body | {"instance": secrets.token_hex(16)})


# --- every entry checked against all before it: chain, order, totals, numbers ---------------------


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
        broken, _ = broken_limits(account.budget, balance, segments, OTHER_PROCESSOR)
        _require(not broken, "it is over the budget")
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

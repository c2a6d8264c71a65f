"""The ledger, format 2: entries that are only ever added, in SQLite, each bound to the one before.

    hash_k = SHA-256(hash_{k−1} ‖ body_k) ,   hash_0 = 32 zero bytes

over the stored bytes; entry 1 names the ledger. `body` holds all of an entry, the columns beside it
are an index of it. Triggers and chain guard against accident. An old copy, or two that are used
side by side, are known by the mark, which lies elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privest.errors import InvalidInput, LedgerError, PrivestError
from privest.vault.cost import ONE_VALUE, Account, Budget, Cost
from privest.vault.mark import (
    BINARY,
    OWNER_ONLY,
    Mark,
    MarkFile,
    left_behind,
    mark_of,
    state_folder,
    sync_folder,
)
from privest.vault.record import canonical, parse, require_text, unknown_needs

try:
    import sqlite3
except ImportError:  # in a browser, where sums are simulated and no ledger is made
    if sys.platform != "emscripten":
        raise

APPLICATION = 0x70764C67  # "pvLg"
FORMAT = 2
WRITER = (2, 0)  # the least version that may write what this one writes
BUSY = 30.0  # seconds to wait for other writers
FIRST = bytes(32)  # what the first entry follows
CHECKED_WHOLE = 1 << 24  # bytes: pages of a larger file are looked at by `check` only
PART = 1 << 22  # bytes of numbers in one row
ROWS = ("<i2", "<i4", "<i8")  # types of numbers of rows; those of sums are texts
INDEX = ("subject", "line", "start", "stop", "of")
COLUMNS = f"seq, body, hash, kind, {', '.join(INDEX)}"
KINDS = ("key", "account", "budget", "release", "retired", "adopted", "forgotten")
Integers = NDArray[np.int64]

_NEVER = "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
_SAME = {  # rows that INSERT OR REPLACE would delete, past the triggers unless it is told
    "meta": "name = NEW.name",
    "numbers": "seq = NEW.seq AND part = NEW.part",
    "tag": "tag = NEW.tag AND seq = NEW.seq",
    "entry": "(line = NEW.line AND subject = NEW.subject AND start = NEW.start) "
    "OR (kind = NEW.kind AND of = NEW.of)",
}
_MAY_GO = {"numbers": "EXISTS (SELECT 1 FROM entry WHERE kind = 'forgotten' AND of = OLD.seq)"}
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE entry (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL, "
    "kind TEXT NOT NULL, subject TEXT, line TEXT, start INTEGER, stop INTEGER, of INTEGER, "
    "CHECK (line IS NULL OR (subject NOTNULL AND start NOTNULL AND stop NOTNULL "
    "AND start < stop)))",
    "CREATE TABLE numbers (seq INTEGER NOT NULL REFERENCES entry, part INTEGER NOT NULL, "
    "data BLOB NOT NULL, PRIMARY KEY (seq, part))",
    "CREATE TABLE tag (tag TEXT NOT NULL, seq INTEGER NOT NULL REFERENCES entry, "
    "PRIMARY KEY (tag, seq)) WITHOUT ROWID",
    "CREATE UNIQUE INDEX entry_once ON entry (subject, line, start) WHERE line IS NOT NULL",
    "CREATE UNIQUE INDEX entry_of_once ON entry (kind, of) WHERE of IS NOT NULL",
    "CREATE INDEX entry_along ON entry (subject, line, stop)",
    "CREATE INDEX entry_of ON entry (subject, seq)",
    "CREATE TRIGGER entry_next BEFORE INSERT ON entry WHEN NEW.seq <> "
    f"(SELECT coalesce(max(seq), 0) + 1 FROM entry) {_NEVER}",
    *(
        f"CREATE TRIGGER {table}_{name} BEFORE {verb} ON {table} WHEN {when} {_NEVER}"
        for table, same in _SAME.items()
        for name, verb, when in (
            ("update", "UPDATE", "1"),
            ("delete", "DELETE", f"NOT {_MAY_GO.get(table, '0')}"),
            ("replace", "INSERT", f"EXISTS (SELECT 1 FROM {table} WHERE {same})"),
        )
    ),
)


class _Seen(NamedTuple):
    """The chain as far as it was read and checked."""

    seq: int = 0
    hash: bytes = FIRST
    instance: str = ""
    key: int = 0  # number of the newest key
    trouble: str = ""  # why this version may not write


@dataclass(frozen=True)
class Entry:
    """One entry of a ledger: its number, its hash, and its bytes."""

    seq: int
    hash: str
    text: bytes

    @property
    def body(self) -> dict[str, Any]:
        members: dict[str, Any] = json.loads(self.text)
        return members


class Book:
    """A ledger in a file. Every change is one transaction, on disk when it ends.

    Writes stand in `with book.writing():`. Before what was written is revealed, `advance()` moves
    the mark. Raises LedgerError where the file cannot be trusted or written.
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
        self.path: Path = Path(path).resolve()  # a link has the mark of its target
        self.folder: Path = state_folder(marks)
        self.busy = busy
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._seen = _Seen()
        self._accounts: dict[str, Account] = {}
        self._inside = False
        if create and not _exists(self.path):
            _make(self.path, self.folder, busy)
        _require_private(self.path)
        with self.reading() as connection:
            if os.stat(self.path).st_size <= CHECKED_WHOLE:
                self._check_pages(connection)
            self.id = _meta(connection, "id").decode()
            if self._row(1).body.get("ledger") != self.id:
                raise self._damaged("its first entry is of another ledger")
        self.mark = MarkFile(self.folder, self.id)

    # --- transactions ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of entries whose chain was checked; within `writing`, that one."""
        with self._guard, _complaints(self.path):
            connection = self._connected()
            if self._inside:
                yield connection
                return
            connection.execute("BEGIN")
            self._inside = True
            try:
                self._read_on()
                yield connection
            finally:
                self._inside = False
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction that no other writer can come between, if this file is the newest."""
        with self._transaction():
            self._require_newest(self.mark.read())
            yield

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guard, _complaints(self.path):
            if self._inside:
                raise LedgerError("a transaction of this ledger is open already.")
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            self._inside = True
            before = self._seen
            try:
                self._read_on()
                before = self._seen
                if before.trouble:
                    raise LedgerError(f"the ledger {self.path} is read-only: {before.trouble}")
                yield
                connection.execute("COMMIT")
            except BaseException:
                self._seen = before
                self._accounts.clear()
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._inside = False

    def advance(self) -> None:
        """The mark to the last entry, on disk: only then is an entry revealed."""
        with self._transaction():
            self._require_newest(self.mark.read())
            # A process that was killed may have committed, and not yet forced its folder: a power
            # failure would bring its journal back, and undo an entry that this one reveals.
            sync_folder(self.path.parent)
            self.mark.advance(self._seen.seq, self._seen.hash.hex(), self._seen.instance)

    def _connected(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            # A child may not use, nor close, what its parent opened: SQLite would clear its locks.
            _INHERITED.append(self._connection)
            self._connection = None
            self._process = os.getpid()
        if self._connection is None:
            self._connection = connect(self.path, self.busy)
        return self._connection

    def close(self) -> None:
        with self._guard:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    # --- the chain ------------------------------------------------------------------------------

    def _rows(self, clause: str, *values: object) -> Iterator[Entry]:
        """Entries whose columns are those of their bodies."""
        assert self._connection is not None
        query = f"SELECT {COLUMNS} FROM entry {clause}"
        for seq, body, digest, *columns in self._connection.execute(query, values):
            good = type(body) is bytes and type(digest) is bytes  # SQLite keeps texts too
            if not good or not _is_indexed(body, [seq, *columns]):
                raise self._damaged(f"entry {seq} is not as it was written")
            yield Entry(seq, digest.hex(), body)

    def _row(self, seq: int) -> Entry:
        for entry in self._rows("WHERE seq = ?", seq):
            return entry
        raise LedgerError(f"the ledger {self.path} has no entry {seq}.")

    def _read_on(self) -> None:
        """Check the chain from where it was last read to its end."""
        seen = self._seen
        if not seen.seq:
            seen = seen._replace(trouble=self._newer_writer())
        elif self._row(seen.seq).hash != seen.hash.hex():
            raise self._damaged(f"entry {seen.seq} is not what it was a moment ago")
        for entry in self._rows("WHERE seq > ? ORDER BY seq", seen.seq):
            if entry.seq != seen.seq + 1 or entry.hash != _chained(seen.hash, entry.text).hex():
                raise self._damaged(f"the chain is broken at entry {seen.seq + 1}")
            body = entry.body
            needs = ", ".join(unknown_needs(body))
            seen = _Seen(
                entry.seq,
                bytes.fromhex(entry.hash),
                body.get("instance", seen.instance),
                body["key"]["number"] if "key" in body else seen.key,
                seen.trouble
                or (needs and f"entry {entry.seq} needs {needs}: use a later privest."),
            )
        if not seen.seq:
            raise self._damaged("it has no entries")
        self._seen = seen

    def _newer_writer(self) -> str:
        assert self._connection is not None
        query = "SELECT value FROM meta WHERE name GLOB 'min_writer*'"
        for (value,) in self._connection.execute(query):
            major, minor = bytes(value).decode().split(".")
            if (int(major), int(minor)) > WRITER:
                return f"privest {major}.{minor} or later writes it."
        return ""

    @property
    def head(self) -> Entry:
        """The last entry; its number and hash, noted elsewhere, show an old or rewritten file."""
        with self.reading():
            return self._row(self._seen.seq)

    # --- entries --------------------------------------------------------------------------------

    def entry(self, seq: int) -> Entry:
        """An entry, by its number."""
        with self.reading():
            return self._row(seq)

    def entries(self, subject: str | None = None, *, tag: str | None = None) -> list[Entry]:
        """The entries, in their order: all, or those of a subject, or those with a tag."""
        if tag is not None:
            return self._find("WHERE seq IN (SELECT seq FROM tag WHERE tag = ?) ORDER BY seq", tag)
        if subject is not None:
            return self._find("WHERE subject = ? ORDER BY seq", subject)
        return self._find("ORDER BY seq")

    def _find(self, clause: str, *values: object) -> list[Entry]:
        with self.reading():
            return list(self._rows(clause, *values))

    def look_up(self, subject: str, line: str, start: int, stop: int | None = None) -> Entry | None:
        """The first entry of a line that covers an index of start ≤ index < stop."""
        clause = "WHERE subject = ? AND line = ? AND stop > ? ORDER BY stop LIMIT 1"
        meets = self._find(clause, subject, line, start)
        end = start + 1 if stop is None else stop
        return meets[0] if meets and meets[0].body["start"] < end else None

    def completed_by(self, seq: int, kind: str = "release") -> Entry | None:
        """The entry that completes (or forgets) another one: there is one at most."""
        return next(iter(self._find("WHERE kind = ? AND of = ?", kind, seq)), None)

    def next_index(self, subject: str, line: str) -> int:
        """The first index of a line that was not released and is not retired."""
        clause = "WHERE subject = ? AND line = ? ORDER BY stop DESC LIMIT 1"
        with self.reading():
            stops = [entry.body["stop"] for entry in self._rows(clause, subject, line)]
            top: int = max([*stops, self._account(subject).floor])
            return top

    def append(
        self,
        body: Mapping[str, Any],
        numbers: Integers | Sequence[int] | None = None,
        tags: Sequence[str] = (),
    ) -> Entry:
        """A new entry, within `writing`; a cost is within the budget or nothing is written.

        numbers  released integers: an array for rows, a sequence of any whole numbers for sums.
        """
        members = dict(body)
        kind = members.get("kind")
        if kind not in KINDS:
            raise InvalidInput(f"a ledger has no entries of kind {kind!r}.")
        members["tags"] = sorted({require_text(tag, "a tag") for tag in tags})
        self._require_free(members)
        if "cost" in members:
            self._require_within(members)
        data = None
        if numbers is not None:
            data, members["numbers"] = packed(numbers)
        return self._insert(members, data)

    def _insert(self, members: dict[str, Any], data: bytes | None) -> Entry:
        if self._connection is None or not self._connection.in_transaction:
            raise LedgerError("entries are written within `writing`.")
        members = members | {"salt": secrets.token_hex(16), "time": int(time.time())}
        entry = insert(self._connection, self._seen.seq + 1, self._seen.hash, members, data)
        instance = members.get("instance", self._seen.instance)
        digest = bytes.fromhex(entry.hash)
        self._seen = self._seen._replace(seq=entry.seq, hash=digest, instance=instance)
        return entry

    def _require_free(self, members: Mapping[str, Any]) -> None:
        """Names in one spelling, and a range that nothing was released of on this line."""
        subject, line, start, stop, of = map(members.get, INDEX)
        if subject is not None:
            require_text(subject)
        if start is not None and not (type(start) is type(stop) is int and 0 <= start < stop):
            raise InvalidInput("a range of indices has 0 ≤ start < stop.")
        if of is not None and self._row(of).body.get("subject") != subject:
            raise InvalidInput(f"entry {of} is of another subject.")
        if line is None:
            return
        if subject is None or start is None or stop is None:
            raise InvalidInput("a line is of a subject and a range of indices.")
        require_text(line, "a line", empty=True)
        meets = self.look_up(subject, line, start, stop)
        if meets is not None:
            raise InvalidInput(
                f"{subject!r} {line!r}: indices {start} to {stop - 1} meet those of entry "
                f"{meets.seq}. Another release of the same values needs a line of its own."
            )

    def numbers(self, seq: int) -> Integers | list[int]:
        """The released integers of an entry: an array of rows, a list of sums."""
        with self.reading():
            layout = self._layout(seq)
            return unpacked(self.data(seq), layout)

    def data(self, seq: int) -> bytes:
        """The bytes of the numbers of an entry."""
        with self.reading() as connection:
            digest = self._layout(seq)["sha256"]
            query = "SELECT data FROM numbers WHERE seq = ? ORDER BY part"
            data = b"".join(bytes(piece) for (piece,) in connection.execute(query, (seq,)))
            if hashlib.sha256(data).hexdigest() == digest:
                return data
            if self.completed_by(seq, "forgotten"):
                raise InvalidInput(f"the numbers of entry {seq} were forgotten.")
            raise self._damaged(f"the numbers of entry {seq} are not those that were written")

    def _layout(self, seq: int) -> dict[str, Any]:
        layout = self._row(seq).body.get("numbers")
        if not isinstance(layout, dict):
            raise InvalidInput(f"entry {seq} has no numbers.")
        return layout

    # --- accounts -------------------------------------------------------------------------------

    def subjects(self) -> list[str]:
        """The subjects that have an account."""
        with self.reading():
            opened = self._rows("WHERE kind = 'account' ORDER BY seq")
            return [entry.body["subject"] for entry in opened]

    def budget(self, subject: str) -> Budget | None:
        """The budget that holds now; None where there is no account."""
        with self.reading():
            return self._account(subject).budget

    def set_budget(self, subject: str, budget: Budget, *, change: bool = False) -> None:
        """Open an account, within `writing`; or `change` its budget: what was spent stays spent."""
        present = self._account(require_text(subject)).budget
        if present is None or change:
            kind = "account" if present is None else "budget"
            self.append({"kind": kind, "subject": subject, "budget": budget.text()})
        elif present.text() != budget.text():
            raise InvalidInput(
                f"{subject!r} has an account with another budget: change it explicitly, which is "
                "recorded. What was spent stays spent."
            )

    def spent(self, subject: str) -> Account:
        """The account of a subject: its budget, and what was spent."""
        with self.reading():
            account = self._account(subject)
            if account.budget is None:
                raise InvalidInput(f"{subject!r} has no account: open it with a budget first.")
            return account

    def require_budget(
        self,
        subject: str,
        cost: Cost,
        start: int,
        stop: int,
        neighbours: Mapping[str, Any] = ONE_VALUE,
    ) -> None:
        """Raise BudgetExceeded unless the account allows a cost on start ≤ index < stop."""
        with self.reading():
            self.spent(subject).require(Cost.read(cost.text()), neighbours, start, stop)

    def _require_within(self, members: Mapping[str, Any]) -> None:
        cost = Cost.read(members["cost"])
        if members.get("of") is not None and cost.is_nothing:
            return  # paid by the entry that it completes
        if members.get("subject") is None or members.get("start") is None:
            raise InvalidInput("a cost is of a subject and a range of indices.")
        neighbours = members.get("neighbours", ONE_VALUE)
        account = self.spent(members["subject"])
        account.require(cost, neighbours, members["start"], members["stop"])

    def _account(self, subject: str) -> Account:
        """The account of a subject, up to the last entry that was read."""
        clause = "WHERE subject = ? AND kind IN ('account', 'budget') ORDER BY seq DESC LIMIT 1"
        neighbours: Mapping[str, Any] = ONE_VALUE
        for entry in self._rows(clause, subject):
            neighbours = Budget.read(entry.body["budget"]).neighbours
        account = self._accounts.get(subject)
        # Sums of μ², ρ and ε are of one kind of neighbours: for another they are added up anew.
        if account is None or account.neighbours != canonical(dict(neighbours)):
            account = Account(subject, neighbours)
            self._accounts[subject] = account
        clause = "WHERE subject = ? AND seq > ? ORDER BY seq"
        for entry in self._rows(clause, subject, account.seq):
            account.take(entry.seq, entry.body)
        return account

    # --- signatures -----------------------------------------------------------------------------

    def sign(self, data: bytes) -> tuple[int, str]:
        """Number of the newest key, and its HMAC of bytes, which begin with their purpose."""
        with self.reading():
            number = self._seen.key
            return number, hmac.new(self._key(number), data, "sha256").hexdigest()

    def require_signature(self, data: bytes, number: int | None, signature: str) -> None:
        """Raise InvalidInput unless a signature of bytes is by a key (None: any) of this ledger."""
        with self.reading():
            numbers = range(1, self._seen.key + 1)
            for k in (k for k in numbers if number in (None, k)):
                expected = hmac.new(self._key(k), data, "sha256").hexdigest()
                if hmac.compare_digest(expected.encode(), signature.encode()):
                    return
        raise InvalidInput(
            f"the signature is not one of the ledger {self.path}: the file was changed, or is of "
            "another ledger."
        )

    def weights_mac(self, weights: NDArray[np.integer[Any]], number: int | None = None) -> str:
        """HMAC of the whole weights of a release; a key keeps features from being guessed."""
        shape = " ".join(map(str, weights.shape))
        data = b"privest weights 2\n" + shape.encode() + b"\n" + weights.astype("<i8").tobytes()
        with self.reading():
            key = self._key(self._seen.key if number is None else number)
            return hmac.new(key, data, "sha256").hexdigest()

    def has_weights(self, mac: str, weights: NDArray[np.integer[Any]]) -> bool:
        """Whether weights are those of an entry, by the key of its time."""
        with self.reading():
            numbers = range(1, self._seen.key + 1)
            return any(hmac.compare_digest(self.weights_mac(weights, k), mac) for k in numbers)

    def _key(self, number: int) -> bytes:
        assert self._connection is not None
        return _meta(self._connection, f"key.{number}")

    def rekey(self) -> None:
        """A new key from now on, within `writing`; old documents keep theirs."""
        number = self._seen.key + 1
        key = bytes.fromhex(secrets.token_hex(32))
        digest = hashlib.sha256(key).hexdigest()
        assert self._connection is not None
        self._connection.execute("INSERT INTO meta VALUES (?, ?)", (f"key.{number}", key))
        self.append({"kind": "key", "key": {"number": number, "sha256": digest}})
        self._seen = self._seen._replace(key=number)

    # --- whether this is the newest copy, and what then ------------------------------------------

    def require_newest(self) -> None:
        """Refuse an old copy, one of two copies, and a file without a mark."""
        mark = self.mark.read()  # before the chain: a commit in between is no old copy
        with self.reading():
            self._require_newest(mark)

    def _require_newest(self, mark: Mark | None) -> None:
        if mark is None:
            raise LedgerError(
                f"the ledger {self.path} has no mark in {self.folder}: whether it is the newest "
                "copy cannot be told. If it is, adopt it; else recover it."
            )
        if self._is_behind(mark):
            raise LedgerError(
                f"{self.path} is an old copy of its ledger: entry {mark.sequence} was written "
                f"elsewhere, this one ends at {self._seen.seq}. New noise for values that were "
                "released already would reveal more of them. Put the newest copy back, or recover "
                "this one, stating what was released since."
            )
        if mark.instance != self._seen.instance or not mark.is_at(self.path):
            raise LedgerError(
                f"{self.path} is a copy of a ledger that is somewhere else: two that spend from "
                "one budget spend it twice. If only this one is used from now on, adopt it."
            )

    def _is_behind(self, mark: Mark) -> bool:
        marked = next(self._rows("WHERE seq = ?", mark.sequence), None)
        return marked is None or marked.hash != mark.hash

    def adopt(self) -> None:
        """Go on with a file that was moved or restored without loss, or whose mark is gone.

        Any other copy is refused from now on.
        """
        mark = None
        with contextlib.suppress(LedgerError):  # a damaged mark is as good as none
            mark = self.mark.read()
        with self._transaction():
            if mark is not None and self._is_behind(mark):
                self._require_newest(mark)
            entry = self._new_instance({})
        self._begin_mark(entry)

    def recover(self, highest: Mapping[str, int]) -> None:
        """Go on with an old copy: nothing is drawn again up to `highest[subject]` (−1: nothing).

        All accounts are stated. Limits on the trace count as used up.
        """
        with self._transaction():
            unstated = sorted(set(self.subjects()) - set(highest))
            if unstated:
                raise InvalidInput(
                    "recover needs the highest released index of every account (-1: none was); "
                    f"{len(unstated)} are not stated, {unstated[0]!r} among them."
                )
            for subject, index in highest.items():
                self.retire(subject, max(index + 1, self._account(subject).top))
            entry = self._new_instance({"highest": [list(pair) for pair in highest.items()]})
        self._begin_mark(entry)

    def retire(self, subject: str, stop: int) -> None:
        """Nothing is drawn below an index any more, within a transaction: entries were lost."""
        if stop > self._account(subject).floor:
            self.append({"kind": "retired", "subject": subject, "start": 0, "stop": stop})

    def _new_instance(self, members: Mapping[str, Any]) -> Entry:
        return self.append({"kind": "adopted", "instance": secrets.token_hex(16), **members})

    def _begin_mark(self, entry: Entry) -> None:
        instance = entry.body["instance"]
        self.mark.begin(mark_of(self.path, self.id, instance, entry.seq, entry.hash))

    # --- the whole file -------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A copy of the file; put back, it is behind its mark unless nothing came after it."""
        target = Path(path).resolve()
        with self._guard, _complaints(target):
            _new_file(target)
            self._connected().execute("VACUUM INTO ?", (os.fspath(target),))
            sync_folder(target.parent)

    def forget(self, seq: int) -> None:
        """Delete the released integers of an entry from the file; what they cost stays spent."""
        with self.writing():
            self._layout(seq)
            subject = self._row(seq).body.get("subject")
            self.append({"kind": "forgotten", "subject": subject, "of": seq})
            assert self._connection is not None
            self._connection.execute("DELETE FROM numbers WHERE seq = ?", (seq,))
        self.advance()
        with self._guard, _complaints(self.path):
            self._connected().execute("VACUUM")

    def check(self) -> Entry:
        """Check pages, chain, index, numbers, tags, keys and mark; LedgerError names an error."""
        mark = self.mark.read()
        with self.reading() as connection:
            self._check_pages(connection)
            tags: set[tuple[str, int]] = set()
            for entry in self._rows("ORDER BY seq"):
                try:
                    self._check_entry(entry)
                    tags |= {(tag, entry.seq) for tag in entry.body["tags"]}
                except (InvalidInput, KeyError, TypeError, ValueError) as error:
                    raise self._damaged(f"entry {entry.seq}: {error}") from None
            if set(connection.execute("SELECT tag, seq FROM tag")) != tags:
                raise self._damaged("the table of tags is not that of its entries")
            self._require_newest(mark)
            return self.head

    def _check_pages(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise self._damaged("the database is corrupted")

    def _check_entry(self, entry: Entry) -> None:
        body = parse(entry.text)
        previous = self._row(entry.seq - 1).hash if entry.seq > 1 else FIRST.hex()
        digest = _chained(bytes.fromhex(previous), entry.text).hex()
        if digest != entry.hash or canonical(body) != entry.text:
            raise ValueError("it is not as it was written")
        if "key" in body:
            key = self._key(body["key"]["number"])
            if hashlib.sha256(key).hexdigest() != body["key"]["sha256"]:
                raise ValueError("its key is another one")
        if "numbers" in body and not self.completed_by(entry.seq, "forgotten"):
            self.data(entry.seq)

    def _damaged(self, what: str) -> LedgerError:
        return _damaged(self.path, what)


# --- rows and numbers -----------------------------------------------------------------------------


def _chained(previous: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous + body).digest()


def _is_indexed(text: bytes, columns: list[object]) -> bool:
    """Whether the columns beside a body are those of the body."""
    try:
        body = json.loads(text)
        return [body["seq"], body["kind"], *map(body.get, INDEX)] == columns
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def packed(numbers: Integers | Sequence[int]) -> tuple[bytes, dict[str, Any]]:
    """Released integers as bytes, and what an entry says of them."""
    if isinstance(numbers, np.ndarray):
        if numbers.ndim != 1 or numbers.dtype.kind != "i":
            raise InvalidInput("released rows are a vector of signed integers.")
        largest = max(int(numbers.max(initial=0)), -1 - int(numbers.min(initial=0)))
        kind = next(name for name in ROWS if largest <= np.iinfo(name).max)
        data = numbers.astype(kind).tobytes()
    else:
        kind = "text"
        data = "\n".join(str(int(number)) for number in numbers).encode()
    digest = hashlib.sha256(data).hexdigest()
    return data, {"count": len(numbers), "sha256": digest, "type": kind}


def unpacked(data: bytes, layout: Mapping[str, Any]) -> Integers | list[int]:
    if layout["type"] == "text":
        numbers = [int(text) for text in data.split()]
        if len(numbers) != layout["count"]:
            raise InvalidInput("the count of the numbers is wrong.")
        return numbers
    if layout["type"] not in ROWS:
        raise InvalidInput(f"numbers of type {layout['type']!r} need a later privest.")
    return np.frombuffer(data, layout["type"], layout["count"]).astype(np.int64)


# --- the database ---------------------------------------------------------------------------------

_INHERITED: list[object] = []


def connect(path: Path, busy: float) -> sqlite3.Connection:
    """A connection that loses nothing: refused unless it says so itself."""
    connection = sqlite3.connect(
        path.as_uri() + "?mode=rw",
        uri=True,
        timeout=busy,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        _require_ledger(connection, path)  # before anything is set: it may be another's file
        connection.execute("PRAGMA recursive_triggers = ON")  # else REPLACE deletes past them
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA synchronous = EXTRA")
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        level = connection.execute("PRAGMA synchronous").fetchone()[0]
        if (mode, level) != ("delete", 3):
            raise LedgerError(
                f"the ledger {path} cannot be kept safely: SQLite has journal_mode {mode} and "
                f"synchronous {level}, needed are delete and 3 (EXTRA)."
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if os.stat(path).st_size == 0:
        return  # a new file, which is being made
    if application != APPLICATION:
        raise LedgerError(f"{path} is not a ledger of privest.")
    if version == 1:
        raise LedgerError(
            f"the ledger {path} was written by a privest before 1.0: bring it up to date once, "
            f"with `privest ledger upgrade {path}`."
        )
    if version != FORMAT:
        raise LedgerError(f"the ledger {path} is of version {version}: use a later privest.")


def _meta(connection: sqlite3.Connection, name: str) -> bytes:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise LedgerError(f"the ledger is damaged: its {name} is gone.")
    return row[0]


def _make(path: Path, folder: Path, busy: float) -> None:
    """A new ledger with its mark, there whole or not at all."""
    if left_behind(folder, path) is not None:
        raise LedgerError(
            f"there was a ledger at {path}, and it is gone: a new one would give the same values "
            "a new budget. Put it back, or choose another place."
        )
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with _complaints(path):
        os.makedirs(path.parent, exist_ok=True)
        try:
            name = secrets.token_hex(16)
            created = {"ledger": name, "instance": secrets.token_hex(16), "time": int(time.time())}
            first = begin(part, busy, created, bytes.fromhex(secrets.token_hex(32)))
            MarkFile(folder, name).begin(
                mark_of(part, name, first.body["instance"], 1, first.hash, path=path)
            )
            _move_new(part, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part)


def begin(path: Path, busy: float, created: Mapping[str, Any], key: bytes) -> Entry:
    """A new file with its schema and first entry, under a name that nobody uses."""
    _new_file(path)
    members = {"kind": "created", "tags": [], "salt": secrets.token_hex(16)} | dict(created)
    members["key"] = {"number": 1, "sha256": hashlib.sha256(key).hexdigest()}
    with contextlib.closing(connect(path, busy)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for sql in SCHEMA:
            connection.execute(sql)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        meta = {"id": str(created["ledger"]).encode(), "min_writer": b"2.0", "key.1": key}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
        first = insert(connection, 1, FIRST, members, None)
        connection.execute("COMMIT")
    return first


def insert(
    connection: sqlite3.Connection,
    seq: int,
    previous: bytes,
    members: Mapping[str, Any],
    data: bytes | None,
) -> Entry:
    """Write an entry after the one with hash `previous`, its numbers and its tags."""
    body = canonical({"needs": []} | dict(members) | {"seq": seq})
    digest = _chained(previous, body)
    row = [seq, body, digest, members["kind"], *map(members.get, INDEX)]
    blanks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO entry ({COLUMNS}) VALUES ({blanks})", row)
    parts = () if data is None else range(0, max(len(data), 1), PART)
    for part, at in enumerate(parts):
        piece = (data or b"")[at : at + PART]
        connection.execute("INSERT INTO numbers VALUES (?, ?, ?)", (seq, part, piece))
    for tag in members["tags"]:
        connection.execute("INSERT INTO tag VALUES (?, ?)", (tag, seq))
    return Entry(seq, digest.hex(), body)


def _new_file(path: Path) -> None:
    """An empty file of its owner, never over another."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, OWNER_ONLY))


def _move_new(part: Path, path: Path) -> None:
    """Give a file its name unless another process was quicker."""
    with contextlib.suppress(FileExistsError):
        if hasattr(os, "link"):
            os.link(part, path)  # unlike a rename, never over another file
        else:
            os.rename(part, path)  # Windows: never over another file
    sync_folder(path.parent)


def _exists(path: Path) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def _require_private(path: Path) -> None:
    try:
        status = os.stat(path)
    except OSError as error:
        raise LedgerError(f"there is no ledger {path} ({error.strerror}).") from None
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"{path} is not a file, hence no ledger.")
    if hasattr(os, "geteuid") and status.st_mode & 0o077:  # Windows has no modes
        raise LedgerError(
            f"the ledger {path} can be read by others, and holds a key: chmod 600 {path}."
        )


def _damaged(path: Path, what: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} is damaged: {what}. Nothing is released from it. Put back its newest "
        "copy, and recover it, stating what was released since."
    )


@contextlib.contextmanager
def _complaints(path: Path) -> Iterator[None]:
    """Whatever SQLite or the system reports, in one kind of error."""
    try:
        yield
    except PrivestError:
        raise
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            text = "another process holds it; try again"
        raise LedgerError(
            f"the ledger {path} cannot be used: {text}. Nothing was released."
        ) from None
    except sqlite3.Error as error:
        raise _damaged(path, str(error)[:200]) from None
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be used: {error.strerror}. Nothing was released."
        ) from None

"""The file of a ledger: SQLite, entries that are only ever added, each bound to the one before.

Every connection has a write-ahead log and synchronous = FULL: a commit returns when it is on disk.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privest.arrays import Array, Flags
from privest.errors import InvalidInput, LedgerError, PrivestError
from privest.files import (
    IN_BROWSER,
    OWNER_ONLY,
    is_in_own_folder,
    is_open_to_others,
    make_folder,
    move_new,
    sync_folder,
)
from privest.ledger._budget import Budget, Cost
from privest.reading import parse_json
from privest.records import Record, plain

try:
    import sqlite3
except ImportError:  # in a browser, where no ledger is made
    if not IN_BROWSER:
        raise

APPLICATION, VERSION = 0x70764C67, 1  # "pvLg"
FIRST = "0" * 64  # what the first entry follows
CHECKED_WHOLE = 1 << 25  # bytes: a larger file is checked page by page by `verify` only
MOUNTS = Path("/proc/self/mountinfo")
# File systems of other machines: their locks and their fsync are not to be relied upon.
NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph-fuse", "fuse.davfs2",
    "fuse.glusterfs", "fuse.gvfsd-fuse", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3",
    "smbfs", "vboxsf", "virtiofs", "vmhgfs",
}  # fmt: skip
Integers = NDArray[np.int64]
COLUMNS = "seq, time, kind, subject, line, start, stop, of, body, numbers, hash"

_NEVER = "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
SCHEMA = (
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, "
    "subject TEXT, line TEXT, start INTEGER, stop INTEGER, of INTEGER, body TEXT NOT NULL, "
    "numbers TEXT, hash TEXT NOT NULL)",
    "CREATE TABLE numbers (seq INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE secret (name TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE UNIQUE INDEX completed_once ON entries (of) WHERE of IS NOT NULL",
    "CREATE UNIQUE INDEX drawn_once ON entries (subject, line, start) WHERE line IS NOT NULL",
    "CREATE INDEX along_a_line ON entries (subject, line, stop)",
    "CREATE INDEX of_a_subject ON entries (subject, seq)",
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb.upper()} ON {table} {_NEVER}"
        for table in ("entries", "numbers", "secret")
        for verb in ("update", "delete")
    ),
    "CREATE TRIGGER entries_insert BEFORE INSERT ON entries WHEN NEW.seq <= "
    f"(SELECT max(seq) FROM entries) {_NEVER}",
)


class Row(NamedTuple):
    seq: int
    time: int  # microseconds since 1970
    kind: str
    subject: str | None
    line: str | None
    start: int | None
    stop: int | None
    of: int | None
    body: str
    numbers: str | None  # SHA-256 of the released integers
    hash: str

    def digest(self, previous: str) -> str:
        """SHA-256(previous ‖ this row): nothing of it can change, nor what it follows."""
        text = json.dumps(self[:-1], separators=(",", ":"))
        return hashlib.sha256(bytes.fromhex(previous) + text.encode()).hexdigest()


def body_of(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = parse_json(row.body, f"entry {row.seq} of the ledger")
    return found


# --- entries --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Head(Record):
    """The last entry of a ledger; noted elsewhere, it shows that a file was rewritten or is old."""

    ledger: str
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.ledger}:{self.sequence}:{self.hash}"


@dataclass(frozen=True)
class Entry(Record):
    """One entry, of start ≤ index < stop of `subject`.

    kind   created, account, raised, spent, retired or adopted; of privest 0.2 also reserved and
           completed, `of` the reservation.
    key    names the release among those of the subject.
    facts  SHA-256 of the public facts of the release; `marks`: of the public columns of its rows.
    """

    sequence: int
    time: str
    kind: str
    subject: str | None
    key: str | None
    start: int | None
    stop: int | None
    of: int | None
    cost: Cost | None
    budget: Budget | None
    facts: str | None
    hash: str
    marks: Mapping[str, str] | None = field(default=None, hash=False)


def as_entry(row: Row) -> Entry:
    body = body_of(row)
    cost, budget = body.get("cost"), body.get("budget")
    when = datetime.datetime.fromtimestamp(row.time / 1e6, datetime.UTC)
    kind = "retired" if row.kind == "burnt" else row.kind  # the file keeps the word of 0.1
    return Entry(
        row.seq, when.isoformat(), kind, row.subject, row.line, row.start, row.stop, row.of,
        None if cost is None else Cost.from_dict(cost),
        None if budget is None else Budget.from_dict(budget),
        body.get("facts"), row.hash, body.get("marks"),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Written(Record):
    """Released integers that are on disk, and the entry that holds them.

    resent   the range was released already: nothing was spent.
    missing  True where nothing was released (their integers are 0), or None.
    """

    integers: Integers
    missing: Flags | None
    entry: Entry
    resent: bool


def packed(integers: Array | Integers, missing: Flags | None) -> tuple[bytes, dict[str, Any]]:
    given = np.asarray(integers)
    if given.dtype != np.int64:
        raise InvalidInput(f"released numbers must be int64; received {given.dtype}.")
    if missing is not None and missing.shape != given.shape:
        raise InvalidInput("missing must have the shape of the released numbers.")
    data = given.astype("<i8").tobytes()
    if missing is not None:
        data += np.packbits(missing.ravel()).tobytes()
    return data, {"shape": list(given.shape), "missing": missing is not None}


def unpacked(data: bytes, layout: Mapping[str, Any]) -> tuple[Integers, Flags | None]:
    shape = tuple(layout["shape"])
    with np.errstate(invalid="ignore"):  # a damaged shape is found out by the next line
        count = int(np.prod(shape, dtype=np.int64))
    integers = np.frombuffer(data, "<i8", count).astype(np.int64).reshape(shape)
    if not layout["missing"]:
        return integers, None
    bits = np.unpackbits(np.frombuffer(data, np.uint8, offset=8 * count), count=count)
    return integers, bits.astype(bool).reshape(shape)


def facts_hash(facts: Mapping[str, Any]) -> str:
    text = json.dumps(plain(dict(facts)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- the database ---------------------------------------------------------------------------------


class Store:
    """The database: transactions, rows, and the chain checked as far as it was read."""

    def __init__(self, path: Path, busy: float) -> None:
        self.path, self.busy = path, busy
        self._guard, self._seen = threading.RLock(), (0, FIRST)
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        require_private(path)
        require_local(path)
        with self._viewing():
            self._require_ours()
            self.read_on()

    def close(self) -> None:
        with self._guard:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()  # Python 3.13 warns of a connection that only the collector closes

    # --- transactions ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of entries whose chain was checked."""
        with self._viewing() as connection:
            self.read_on()
            yield connection

    @contextlib.contextmanager
    def _viewing(self) -> Iterator[sqlite3.Connection]:
        with self._guard, complaints(self.path):
            connection = self._connected()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that no other writer can come between; on disk when it ends."""
        with self._guard, complaints(self.path):
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            before = self._seen
            try:
                self.read_on()
                before = self._seen
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._seen = before
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _connected(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            # A child may not use, nor close, what its parent opened: SQLite would clear its locks.
            _INHERITED.append(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is None:
            self._connection = connect(self.path, self.busy)
        return self._connection

    # --- rows -----------------------------------------------------------------------------------

    def rows(self, clause: str, *values: object) -> Iterator[Row]:
        assert self._connection is not None
        found = self._connection.execute(f"SELECT {COLUMNS} FROM entries {clause}", values)
        return map(Row._make, found)

    def row(self, seq: int) -> Row | None:
        return next(self.rows("WHERE seq = ?", seq), None)

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last entry that was read and checked."""
        return self._seen

    def read_on(self) -> None:
        """Check the chain from where it was last read to its end; 3 µs a row."""
        last, previous = self._seen
        if last:
            kept = self.row(last)
            if kept is None or kept.hash != previous:
                raise damaged(self.path, f"entry {last} is not what it was a moment ago")
        for row in self.rows("WHERE seq > ? ORDER BY seq", last):
            try:
                good = row.seq == last + 1 and row.digest(previous) == row.hash
            except (TypeError, ValueError):
                good = False
            if not good:
                raise damaged(self.path, f"the chain is broken at entry {last + 1}")
            last, previous = row.seq, row.hash
        if not last:
            raise damaged(self.path, "it has no entries")
        self._seen = (last, previous)

    def append(
        self,
        kind: str,
        body: dict[str, Any],
        subject: str | None = None,
        *,
        line: str | None = None,
        place: tuple[int | None, int | None] = (None, None),
        numbers: bytes | None = None,
    ) -> Row:
        assert self._connection is not None
        last, previous = self._seen
        digest = None if numbers is None else hashlib.sha256(numbers).hexdigest()
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        now = self._now(kind)
        row = Row(last + 1, now, kind, subject, line, *place, None, text, digest, "")
        row = row._replace(hash=row.digest(previous))
        insert = f"INSERT INTO entries ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
        self._connection.execute(insert, row)
        if numbers is not None:
            self._connection.execute("INSERT INTO numbers VALUES (?, ?)", (row.seq, numbers))
        self._seen = (row.seq, row.hash)
        return row

    def _now(self, kind: str) -> int:
        """Times of entries never go back, unless an owner adopts the ledger."""
        now, last = time.time_ns() // 1000, self.row(self._seen[0])
        if last is not None and now < last.time and kind != "adopted":
            raise LedgerError(
                f"the clock went back by {(last.time - now) / 1e6:.3f} s since the last entry of "
                f"{self.path}. Set it right; if the entries before have wrong times, adopt the "
                "ledger."
            )
        return now

    def numbers(self, row: Row) -> bytes:
        assert self._connection is not None
        found = self._connection.execute("SELECT data FROM numbers WHERE seq = ?", (row.seq,))
        data = (found.fetchone() or [b""])[0]
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != row.numbers:
            raise damaged(self.path, f"the numbers of entry {row.seq} are not those it was made of")
        return data

    def secret(self, name: str) -> bytes:
        assert self._connection is not None
        query = "SELECT data FROM secret WHERE name = ?"
        found = self._connection.execute(query, (name,)).fetchone()
        if found is None or not isinstance(found[0], bytes) or len(found[0]) != 32:
            raise damaged(self.path, "its key is gone")
        return found[0]

    # --- whether it is a ledger -------------------------------------------------------------------

    def _require_ours(self) -> None:
        assert self._connection is not None
        application, version = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if application != APPLICATION:
            raise LedgerError(f"{self.path} is not a ledger of privest.")
        if version != VERSION:
            raise LedgerError(
                f"the ledger {self.path} is of version {version}; this privest reads version "
                f"{VERSION}. Use the privest that wrote it."
            )
        found = self._connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if sorted(sql for (sql,) in found) != sorted(SCHEMA):
            raise damaged(self.path, "its tables are not those of a ledger")
        if os.stat(self.path).st_size <= CHECKED_WHOLE:
            self.check_pages()

    def check_pages(self) -> None:
        assert self._connection is not None
        if self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise damaged(self.path, "the database is corrupted")


_INHERITED: list[object] = []


def connect(path: Path, busy: float) -> sqlite3.Connection:
    """A connection that loses nothing: refused unless it says so itself."""
    connection = sqlite3.connect(
        path.as_uri() + "?mode=rw", uri=True, timeout=busy, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous = FULL")
        level = connection.execute("PRAGMA synchronous").fetchone()[0]
        if (mode, level) != ("wal", 2):
            raise LedgerError(
                f"the ledger {path} cannot be kept safely: SQLite has journal_mode {mode} and "
                f"synchronous {level}, needed are wal and 2 (FULL)."
            )
    except BaseException:
        connection.close()
        raise
    return connection


def create(
    path: Path,
    busy: float,
    body: dict[str, Any],
    keys: dict[str, bytes],
    ready: Callable[[Path, Row], None],
) -> None:
    """A new ledger with its first entry, there whole or not at all.

    `ready` is called with the file before it gets its name. Raises FileExistsError.
    """
    make_folder(path)
    require_local(path.parent)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with complaints(path):
        try:
            os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
            connection = connect(part, busy)
            try:
                connection.execute("BEGIN IMMEDIATE")
                for sql in SCHEMA:
                    connection.execute(sql)
                for name, data in keys.items():
                    connection.execute("INSERT INTO secret VALUES (?, ?)", (name, data))
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                text = json.dumps(body, sort_keys=True, separators=(",", ":"))
                now = time.time_ns() // 1000
                row = Row(1, now, "created", None, None, None, None, None, text, None, "")
                row = row._replace(hash=row.digest(FIRST))
                places = ",".join("?" * len(row))
                connection.execute(f"INSERT INTO entries ({COLUMNS}) VALUES ({places})", row)
                connection.execute("COMMIT")
            finally:
                connection.close()
            ready(part, row)
            move_new(part, path)
            sync_folder(path.parent)
        finally:
            made = r"[0-9a-f]{8}" if path.exists() else part.name.split(".")[-2]
            parts = re.compile(rf"\.{re.escape(path.name)}\.{made}\.part(-wal|-shm)?")
            for left in path.parent.iterdir():  # once it is made: those of killed processes too
                if parts.fullmatch(left.name):
                    left.unlink(missing_ok=True)


def damaged(path: Path, what: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} is damaged: {what}. Nothing is released from it. Put back its newest "
        "copy, and state what was released since (recover)."
    )


@contextlib.contextmanager
def complaints(path: Path) -> Iterator[None]:
    """Whatever SQLite or the system reports, in one kind of error."""
    try:
        yield
    except (PrivestError, FileExistsError):
        raise
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            hint = "another process holds it; try again, or give Ledger a longer `busy`"
        elif "full" in text:
            hint = "the disk is full"
        else:
            hint = text
        raise LedgerError(
            f"the ledger {path} cannot be used: {hint}. Nothing was released."
        ) from None
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise damaged(path, str(error)[:200]) from None
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be used: {error.strerror}. Nothing was released."
        ) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(getattr(error, "obj", None), ModuleType):  # a call that this system lacks
            raise LedgerError(
                f"the ledger {path} cannot be used: {error}. Nothing was released."
            ) from None
        # A row whose hash is right and that privest did not write.
        what = f"an entry is not as privest writes it ({type(error).__name__})"
        raise damaged(path, what) from error


# --- where a ledger may be: a file of its owner alone, on a disk of this machine ------------------


def file_system(path: Path) -> str | None:
    """The kind of file system that holds a path; None where there is no Linux."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    target, best, kind = os.fspath(path.resolve()), "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), before.split(" ")[4])
        inside = place == "/" or target == place or target.startswith(f"{place}/")
        if inside and len(place) >= len(best):  # the last of equal ones is on top
            best, kind = place, after.split(" ")[0]
    return kind


def require_local(path: Path) -> None:
    kind = file_system(path)
    if kind in NETWORK:
        raise LedgerError(
            f"{path} is on a network file system ({kind}), where locks and fsync may not hold: two "
            "machines could spend one budget. Keep the ledger on a disk of this machine."
        )
    if not is_in_own_folder(path):
        raise LedgerError(
            f"{path} may be open to other users: files have no modes here, and a ledger holds a "
            f"key. Keep it in your own folder, {Path.home()}."
        )


def require_private(path: Path) -> None:
    try:
        found = os.stat(path)
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be opened: {error.strerror}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{path} is not a file, hence no ledger.")
    if is_open_to_others(found):
        raise LedgerError(
            f"the ledger {path} can be read by others, and holds a key: chmod 600 {path}."
        )
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            raise LedgerError(
                f"{place} is read-only: nothing can be spent, so nothing is released."
            )

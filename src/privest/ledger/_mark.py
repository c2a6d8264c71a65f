"""The high-water mark of a ledger: how far it had come, kept outside of its file.

A ledger that was restored from a backup looks whole, but is behind its mark. Two slots are written
in turn: a write that is cut short spoils one of them, and a mark costs one fsync.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from privest.errors import InvalidInput, LedgerError
from privest.files import OWNER_ONLY, atomic_file, lock
from privest.ledger._store import Row, Store, body_of, create, damaged
from privest.reading import counted, parse_json, read_fields, read_text

SLOT = 1024
BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate ends of lines
STATE = "PRIVEST_STATE_HOME"  # the folder of marks, for whoever keeps them elsewhere


@dataclass(frozen=True)
class Mark:
    ledger: str
    instance: str
    sequence: int
    hash: str
    path: str  # SHA-256 of the resolved path
    device: int
    inode: int

    def is_at(self, path: Path) -> bool:
        found = os.stat(path)
        same = found.st_dev == self.device or path_hash(path) == self.path
        return found.st_ino == self.inode and same


SCHEMA = {
    name: read_text if kind == "str" else counted(-(2**63), 2**128)  # of a device or file: any
    for name, kind in Mark.__annotations__.items()
}  # fmt: skip


def marks_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Where marks are: as given, $PRIVEST_STATE_HOME, $XDG_STATE_HOME or ~/.local/state."""
    if given is not None:
        return Path(given)
    own = os.environ.get(STATE)
    if own:
        return Path(own)
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path.home() / ".local" / "state"
    return home / "privest" / "ledgers"


def path_hash(path: Path) -> str:
    """The name of a place, which others may see."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()


def mark_of(
    path: Path, ledger: str, instance: str, sequence: int, digest: str, at: Path | None = None
) -> Mark:
    found = os.stat(path)
    place = path_hash(path if at is None else at)
    return Mark(ledger, instance, sequence, digest, place, found.st_dev, found.st_ino)


class MarkFile:
    """The mark of one ledger. Raises LedgerError where it cannot be read or written."""

    def __init__(self, folder: Path, ledger: str) -> None:
        self.path = folder / ledger

    def begin(self, mark: Mark) -> None:
        try:
            with atomic_file(self.path, permissions=OWNER_ONLY) as file:
                file.write(_slot(mark) * 2)
        except (OSError, InvalidInput) as error:
            raise self._failed("written", error) from None

    def read(self) -> Mark | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | BINARY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", error) from None
        try:
            lock(descriptor, shared=True)
            return self._best(descriptor)[0]
        finally:
            os.close(descriptor)

    def read_if_whole(self) -> Mark | None:
        try:
            return self.read()
        except LedgerError:
            return None

    def advance(self, sequence: int, digest: str, instance: str) -> None:
        """The mark goes to entry `sequence`, unless it is beyond already, and is forced to disk."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | BINARY)
        except OSError as error:
            raise self._failed("written", error) from None
        try:
            lock(descriptor)  # marks go up only, whichever process writes
            mark, other = self._best(descriptor)
            if mark.instance != instance:
                raise LedgerError(
                    "this ledger was copied, and the copy was adopted while this one was open: "
                    "nothing is released from here any more."
                )
            if mark.sequence < sequence:
                mark = replace(mark, sequence=sequence, hash=digest)
            os.lseek(descriptor, other * SLOT, os.SEEK_SET)
            os.write(descriptor, _slot(mark))
            os.fsync(descriptor)
        except LedgerError:
            raise
        except OSError as error:
            raise self._failed("written", error) from None
        finally:
            os.close(descriptor)

    def _best(self, descriptor: int) -> tuple[Mark, int]:
        """The later of the two whole marks, and the number of the other slot."""
        try:
            data = os.read(descriptor, 2 * SLOT + 1)
        except OSError as error:
            raise self._failed("read", error) from None
        found = [_read_slot(data[k * SLOT : (k + 1) * SLOT]) for k in (0, 1)]
        whole = [(mark.sequence, k) for k, mark in enumerate(found) if mark is not None]
        best = found[max(whole)[1]] if whole and len(data) == 2 * SLOT else None
        if best is None:
            raise LedgerError(
                f"the mark {self.path} is damaged: how far the ledger had come is not known. Adopt "
                "the ledger if you know that it is the newest."
            )
        return best, 1 - max(whole)[1]

    def _failed(self, verb: str, error: Exception) -> LedgerError:
        said = getattr(error, "strerror", None) or error
        return LedgerError(
            f"the mark {self.path} of the ledger cannot be {verb} ({said}): without it an old copy "
            "of the ledger would go unnoticed. Make its folder writable, or name another in "
            f"{STATE}."
        )


def left_behind(folder: Path, path: Path, *, least: int = 2) -> Mark | None:
    """The mark of a ledger that was at `path` and had `least` entries; None if none was.

    A ledger of one entry was being made when its process was killed.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    place = path_hash(path)
    for name in names:
        with contextlib.suppress(LedgerError, OSError):
            with (folder / name).open("rb", buffering=0) as file:
                if place.encode() not in file.read(2 * SLOT):  # a whole mark takes far longer
                    continue
            mark = MarkFile(folder, name).read()
            if mark is not None and mark.path == place and mark.sequence >= least:
                return mark
    return None


def _slot(mark: Mark) -> bytes:
    text = json.dumps(asdict(mark), sort_keys=True).encode()
    line = hashlib.sha256(text).hexdigest().encode() + text
    return line + b" " * (SLOT - 1 - len(line)) + b"\n"


def _read_slot(data: bytes) -> Mark | None:
    digest, text = data[:64], data[64:].rstrip(b" \n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return None
    try:
        return Mark(**read_fields(parse_json(text.decode()), SCHEMA, "a mark"))
    except (InvalidInput, UnicodeDecodeError):
        return None


class Guard:
    """Whether the file of a ledger is the newest one, and the only one."""

    def __init__(self, store: Store, folder: Path, ledger: str) -> None:
        self.store, self.folder, self.ledger = store, folder, ledger
        self.file = MarkFile(folder, ledger)

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """A transaction that spends, or finds what was; then entry and mark are on disk."""
        with self.store.writing():
            instance = self.require()
            yield
            sequence, digest = self.store.head
        self.file.advance(sequence, digest, instance)

    def begin(self, row: Row) -> None:
        path = self.store.path
        self.file.begin(mark_of(path, self.ledger, body_of(row)["instance"], row.seq, row.hash))

    def is_behind(self, mark: Mark) -> bool:
        row = self.store.row(mark.sequence)
        return row is None or row.hash != mark.hash

    def require(self) -> str:
        """The instance; refuses an old copy, a copy used by two, and a mark that is elsewhere."""
        clause = "WHERE kind IN ('created', 'adopted') ORDER BY seq DESC LIMIT 1"
        instance = str(body_of(next(self.store.rows(clause)))["instance"])
        mark, path = self.file.read(), self.store.path
        if mark is None:
            raise LedgerError(
                f"the ledger {path} has no mark in {self.folder}: whether it is the newest "
                "copy cannot be told. If it is, adopt() it; else recover(highest=…)."
            )
        if self.is_behind(mark):
            raise LedgerError(
                f"{path} is an old copy of its ledger: entry {mark.sequence} was written "
                f"elsewhere, this one ends at {self.store.head[0]}. New noise for measurements "
                "that were sent already would reveal more of them. Put the newest copy back, or "
                "state what was released since: recover(highest={subject: index})."
            )
        if mark.instance != instance or not mark.is_at(path):
            raise LedgerError(
                f"{path} is a copy of a ledger that is somewhere else: two that spend from one "
                "budget spend it twice. If only this one is used from now on, adopt() it."
            )
        return instance


# --- how a ledger begins and ends: made whole with its mark, or discarded with it ---------------


def make(path: Path, wanted: bool, busy: float, folder: Path) -> None:
    """A new ledger, unless none is wanted or one was there before."""
    if not wanted:
        raise LedgerError(f"there is no ledger {path}.")
    require_none_before(path, folder)
    key, own, instance = (secrets.token_bytes(size) for size in (32, 16, 16))
    body = {
        "ledger": own.hex(), "instance": instance.hex(),
        "key": hashlib.sha256(key).hexdigest(),
    }  # fmt: skip

    def begin_mark(file: Path, row: Row) -> None:
        own = body_of(row)
        mark = mark_of(file, own["ledger"], own["instance"], row.seq, row.hash, at=path)
        MarkFile(folder, own["ledger"]).begin(mark)

    try:
        create(path, busy, body, {"key": key}, begin_mark)
    except (FileExistsError, LedgerError):
        if not path.exists():  # else another process was quicker
            raise


def require_none_before(path: Path, folder: Path) -> None:
    if left_behind(folder, path) is not None:
        raise LedgerError(
            f"there was a ledger at {path}, and it is gone: a new one would give the same "
            "measurements a new budget. Put it back, or choose another place."
        )


def first_of(store: Store) -> tuple[str, str]:
    """The name of a ledger and the hash of its key; within a transaction."""
    row = store.row(1)
    body = {} if row is None else body_of(row)
    if row is None or row.kind != "created" or not {"ledger", "instance", "key"} <= set(body):
        raise damaged(store.path, "it does not begin as a ledger does")
    if len(body["ledger"]) != 32 or not set(body["ledger"]) <= set("0123456789abcdef"):
        raise damaged(store.path, "it has no name")
    return body["ledger"], body["key"]


def discard(path: str | os.PathLike[str], *, marks: str | os.PathLike[str] | None = None) -> None:
    """Delete a ledger and its mark, for measurements that were never private (a demonstration).

    A ledger made in its place gives everybody a new budget; deleting the file alone does not.
    """
    place, folder = Path(path).resolve(), marks_folder(marks)
    try:
        for ending in ("", "-wal", "-shm"):
            Path(f"{place}{ending}").unlink(missing_ok=True)
        while (mark := left_behind(folder, place, least=0)) is not None:
            (folder / mark.ledger).unlink()
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be deleted: {error.strerror}.") from None

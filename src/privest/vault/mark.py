"""The high-water mark of a ledger: how far it had come, kept outside of its file.

A ledger that was restored from a backup looks whole, but is behind its mark. Two slots are written
in turn: a write that is cut short spoils one of them, and a mark costs one fsync. The
writer holds the ledger's write lock, so that a mark never goes back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from privest.errors import LedgerError

SLOT = 1024  # bytes: a mark has about 400
OWNER_ONLY = 0o600
BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate ends of lines
STATE = "PRIVEST_STATE_HOME"  # the folder of marks, for those who keep them elsewhere


@dataclass(frozen=True)
class Mark:
    """Ledger and instance, number and hash of the last entry, and where the file is.

    path is the SHA-256 of the resolved path. A device number may change when the system starts.
    """

    ledger: str
    instance: str
    sequence: int
    hash: str
    path: str
    device: int
    inode: int

    def is_at(self, path: Path) -> bool:
        status = os.stat(path)
        same_place = status.st_dev == self.device or path_hash(path) == self.path
        return status.st_ino == self.inode and same_place


def mark_of(
    file: Path, ledger: str, instance: str, sequence: int, digest: str, *, path: Path | None = None
) -> Mark:
    """The mark of a file that is, or will be, at `path`."""
    status = os.stat(file)
    place = path_hash(file if path is None else path)
    return Mark(ledger, instance, sequence, digest, place, status.st_dev, status.st_ino)


def path_hash(path: Path) -> str:
    """The name of a resolved path, which others may see."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def state_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where marks are: as stated, $PRIVEST_STATE_HOME, $XDG_STATE_HOME or ~/.local/state."""
    stated = folder or os.environ.get(STATE)
    if stated:
        return Path(stated)
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path.home() / ".local" / "state"
    return home / "privest" / "ledgers"


class MarkFile:
    """The mark of one ledger. Raises LedgerError where it cannot be read or written."""

    def __init__(self, folder: Path, ledger: str) -> None:
        self.path = folder / ledger

    def begin(self, mark: Mark) -> None:
        """A mark from nothing: of a new ledger, or of one that was adopted or upgraded."""
        try:
            os.makedirs(self.path.parent, exist_ok=True)
            write_whole(self.path, _slot(mark) * 2)
        except OSError as error:
            raise self._failed("written", error) from None

    def read(self) -> Mark | None:
        """The mark; None where there is none."""
        for _attempt in (1, 2, 3):  # another process may write a slot while it is read
            try:
                data = read_file(self.path, 2 * SLOT + 1)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise self._failed("read", error) from None
            newest = _newest(data)
            if newest is not None:
                return newest[0]
        raise LedgerError(
            f"the mark {self.path} is damaged: how far the ledger had come is not known. Adopt "
            "the ledger if you know that it is the newest."
        )

    def advance(self, sequence: int, digest: str, instance: str) -> None:
        """The mark goes to an entry, never back, and is on disk. The caller has the write lock."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | BINARY)
        except OSError as error:
            raise self._failed("written", error) from None
        try:
            newest = _newest(os.read(descriptor, 2 * SLOT + 1))
            if newest is None or newest[0].instance != instance:
                raise LedgerError(
                    f"the mark {self.path} is of another copy of this ledger, which was adopted "
                    "meanwhile: nothing is released from this one any more."
                )
            mark, slot = newest
            if mark.sequence < sequence:
                os.lseek(descriptor, (1 - slot) * SLOT, os.SEEK_SET)
                _write_all(descriptor, _slot(replace(mark, sequence=sequence, hash=digest)))
            sync(descriptor)  # also of another process's mark, which may not be on disk yet
        except OSError as error:
            if isinstance(error, LedgerError):
                raise
            raise self._failed("written", error) from None
        finally:
            os.close(descriptor)

    def _failed(self, verb: str, error: OSError) -> LedgerError:
        return LedgerError(
            f"the mark {self.path} of the ledger cannot be {verb} ({error.strerror or error}): "
            "without it an old copy of the ledger would go unnoticed. Make its folder writable, or "
            f"name another in {STATE}."
        )


def left_behind(folder: Path, path: Path, *, least: int = 2) -> Mark | None:
    """The mark of a ledger that was at a path and had `least` entries; None if none was.

    A ledger of one entry was being made when its process was killed.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    place = path_hash(path)
    for name in names:
        with contextlib.suppress(OSError):
            newest = _newest(read_file(folder / name, 2 * SLOT + 1))
            if newest and newest[0].path == place and newest[0].sequence >= least:
                return newest[0]
    return None


def _slot(mark: Mark) -> bytes:
    """SHA-256 and the mark, in a line of 1024 bytes: as privest 1.0rc1 reads it too."""
    text = json.dumps(asdict(mark), sort_keys=True).encode()
    line = hashlib.sha256(text).hexdigest().encode() + text
    return line + b" " * (SLOT - 1 - len(line)) + b"\n"


def _newest(data: bytes) -> tuple[Mark, int] | None:
    """The later of the two whole marks, and the number of its slot."""
    marks = [(_read_slot(data[k * SLOT : (k + 1) * SLOT]), k) for k in (0, 1)]
    whole = [(mark, k) for mark, k in marks if mark is not None]
    return max(whole, key=lambda pair: pair[0].sequence, default=None)


def _read_slot(data: bytes) -> Mark | None:
    digest = data[:64]
    text = data[64:].rstrip(b" \n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return None
    try:
        return Mark(**json.loads(text))
    except (ValueError, TypeError):
        return None


# --- files ----------------------------------------------------------------------------------------


def read_file(path: Path, most: int) -> bytes:
    """The first bytes of a file."""
    descriptor = os.open(path, os.O_RDONLY | BINARY)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes, permissions: int = OWNER_ONLY) -> None:
    """A file that is there whole or not at all, and on disk when it returns."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, permissions)
        try:
            _write_all(descriptor, data)
            sync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    sync_folder(path.parent)


def sync(descriptor: int) -> None:
    """To the disk itself: macOS keeps what fsync was given in a cache of the drive."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Names in a folder to disk; Windows opens no folder, and writes names at once."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

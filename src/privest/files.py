"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Never

from privest.errors import InvalidInput

ORDINARY = 0o666  # less the user's umask
OWNER_ONLY = 0o600
STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def atomic_file(
    path: str | os.PathLike[str],
    *,
    permissions: int = ORDINARY,
    beside: Path | None = None,
    first: bool = False,
) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends, in one move.

    It is written beside `path`, for its owner alone to read, forced to disk, given its permissions,
    then moved; a link is followed. On any exception, on Ctrl-C and SIGTERM too, what was there
    before is untouched and nothing is left behind (a process that is killed leaves a file
    `.NAME.*.part`). Missing folders are made.

    `beside`: the name of that file, for a caller whose lock keeps others away; what a killed
    process left there goes first. `first`: of several who write at once, on one machine or many,
    the first to end wins; the others get FileExistsError.
    Raises InvalidInput if the file cannot be begun.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput(f"{path} cannot be written: it is a folder or a device, not a file.")
    part = beside or target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with stopped_by_exception():
        descriptor = _begun(part, target, replace=beside is not None)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.chmod(part, permissions & ~_umask())
            if not first:
                os.replace(part, target)
            else:
                try:
                    os.link(part, target)  # fails where there is one, on NFS too
                except FileExistsError:
                    raise
                except OSError as error:  # a file system without links
                    raise _refused(target, error) from None
        finally:
            part.unlink(missing_ok=True)  # after the move there is none
        sync_folder(target.parent)


def part_path(path: Path) -> Path:
    """Path of a `draft` of a file while it is not complete."""
    return path.with_name(f".{path.name}.part")


def _begun(part: Path, target: Path, *, replace: bool) -> int:
    """The descriptor of a new file that only its owner can read."""
    make_folder(target)
    try:
        if replace:
            part.unlink(missing_ok=True)
        # O_EXCL: no file or link of another is written into.
        return os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except OSError as error:
        raise _refused(target, error) from None


def require_writable(path: Path) -> None:
    """Refuse what `atomic_file` will not be able to write; nothing is made."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: name a file in it.")
    nearest = next(p for p in (path.absolute(), *path.absolute().parents) if os.path.exists(p))
    if nearest == path.absolute() and path.is_file():
        nearest = path.resolve().parent  # a new file takes its place
    if not os.access(nearest, os.W_OK):
        raise InvalidInput(f"{path} cannot be written: {nearest} does not let you.")
    if nearest != path.absolute() and not nearest.is_dir():
        raise InvalidInput(f"{path} cannot be written: {nearest} is not a folder.")


def make_folder(path: Path) -> None:
    """The folder that a file is to be in, and those above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from None


@contextlib.contextmanager
def stopped_by_exception() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP unwind the stack as Ctrl-C does, and then end the process.

    Only in the main thread, and only where nobody else handles the signal.
    """

    def stop(number: int, frame: FrameType | None) -> Never:
        raise SystemExit(128 + number)

    mine = []
    if threading.current_thread() is threading.main_thread():
        mine = [number for number in STOPS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in mine:
            signal.signal(number, stop)
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def _umask() -> int:
    """The user's umask, which can only be asked for by setting it."""
    found = os.umask(0o077)  # for this moment the strictest: other threads may make files
    os.umask(found)
    return found


def atomic_write(
    path: str | os.PathLike[str], data: str | bytes, *, beside: Path | None = None
) -> None:
    """The file with this content (text in UTF-8), whole or not at all; `beside`: see `atomic_file`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new" / "page.txt"
    >>> atomic_write(path, "θ")
    >>> path.read_text(encoding="utf-8"), [file.name for file in path.parent.iterdir()]
    ('θ', ['page.txt'])
    """
    try:
        with atomic_file(path, beside=beside) as file:
            file.write(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise _refused(Path(path), error) from None


def _refused(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"{path} cannot be written: {error.strerror}.")


def sync_folder(folder: Path) -> None:
    """The move itself to disk, where the system can open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Draft:
    """A file that nobody may see yet: `.NAME.part` beside its place, its owner's alone.

    file   open, to be read and written.
    left   whether a process that was killed left something in it: look at it, or `empty` it.
    kept   True: it stays where it is when the block ends without `publish`.
    """

    def __init__(self, file: BinaryIO, part: Path, target: Path) -> None:
        self.file, self.part, self.target = file, part, target
        self.left = os.fstat(file.fileno()).st_size > 0
        self.kept = False

    def empty(self) -> None:
        """Begin anew."""
        self.file.seek(0)
        self.file.truncate()
        self.left = False

    def settle(self) -> None:
        """All of it on disk, its name too."""
        self.file.flush()
        os.fsync(self.file.fileno())
        sync_folder(self.part.parent)

    def publish(self, permissions: int = ORDINARY) -> None:
        """To its place, in one move, where others may see it."""
        self.settle()
        os.chmod(self.part, permissions & ~_umask())
        os.replace(self.part, self.target)
        self.kept = True
        sync_folder(self.target.parent)


@contextlib.contextmanager
def draft(path: Path) -> Iterator[Draft]:
    """The file that becomes `path` once it is published, written by one process at a time.

    A lock tells a process that is writing, which is refused here, from one that was killed, whose
    file is handed over. On any exception, on Ctrl-C and SIGTERM too, the file goes, unless it is
    `kept`. Missing folders are made.
    """
    target = path.resolve()
    part = part_path(target)
    with stopped_by_exception():
        make_folder(target)
        try:
            descriptor = claimed(part)
        except OSError as error:
            raise _refused(target, error) from None
        with os.fdopen(descriptor, "r+b") as file:  # the lock goes with it
            found = Draft(file, part, target)
            try:
                yield found
            finally:
                if not found.kept:
                    part.unlink(missing_ok=True)


@contextlib.contextmanager
def held_lock(path: Path) -> Iterator[None]:
    """A file that is this process's alone as long as the block runs; made if it is not there.

    The file stays. Raises InvalidInput where another process holds it.
    """
    descriptor = claimed(path)
    try:
        yield
    finally:
        os.close(descriptor)


def claimed(part: Path) -> int:
    """The descriptor of a file, locked until it is closed, or until the process ends.

    No file or link of another is written into.
    """
    import fcntl

    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, OWNER_ONLY)
        try:
            own = os.fstat(descriptor)
            if own.st_uid != os.geteuid() or own.st_nlink > 1:
                raise InvalidInput(f"{part} is there, and it is not yours alone: delete it.")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.stat(part, follow_symlinks=False)
            if os.path.samestat(own, there):
                os.fchmod(descriptor, OWNER_ONLY)
                return descriptor
        except FileNotFoundError:
            pass  # its writer has just published it, or given up: look again
        except BlockingIOError:
            os.close(descriptor)
            raise InvalidInput(
                f"{part} is being written by another process: wait until it has finished."
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)

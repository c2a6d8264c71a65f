"""Files that are there whole or not at all; locks; what differs between operating systems.

Checked on Linux. Windows has its own locks, no owners or modes (a file of its owner alone stays in
that user's own folder) and moves no open file. A browser (Pyodide) has one process and no disk, so
it never releases.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Never

from privest.errors import InvalidInput, NotReleasable, PrivestError

ORDINARY = 0o666  # less the user's umask
OWNER_ONLY = 0o600
STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
HAS_OWNERS = hasattr(os, "geteuid")  # files have an owner and a mode; else Windows
IN_BROWSER = sys.platform == "emscripten"
FAR = 1 << 30  # Windows locks bytes: one beyond all that is written, so that others can read


def require_disk() -> None:
    """Refuse a protected release in a browser, whose disk ends with the page."""
    if IN_BROWSER:
        raise NotReleasable(
            "a release needs a disk that survives a crash, and this Python runs in a browser: "
            "simulate here, and release on a computer."
        )


def most_files() -> int:
    """How many files and connections this process may have open."""
    limit = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 512  # of Windows
    return limit if limit > 0 else 1 << 20  # -1: no limit


def owner_only(path: str, flags: int) -> int:
    """An `opener`: a new file is its owner's alone, whatever the umask, from its first byte on."""
    return os.open(path, flags, OWNER_ONLY)


def is_own(found: os.stat_result) -> bool:
    """Whether a file is the user's; where files have no owner it is taken to be."""
    return not HAS_OWNERS or found.st_uid == os.geteuid()


def is_open_to_others(found: os.stat_result) -> bool:
    """Whether a file's mode lets other users in; without modes its folder decides."""
    return HAS_OWNERS and bool(found.st_mode & 0o077)


def is_in_own_folder(path: Path) -> bool:
    """Whether a path is where only its user reads: without modes, in the user's own folder."""
    return HAS_OWNERS or path.resolve().is_relative_to(Path.home().resolve())


def lock(descriptor: int, *, wait: bool = True, shared: bool = False) -> None:
    """Lock an open file until it is closed or the process ends.

    Raises BlockingIOError where another process has it, unless it is to `wait`.
    """
    try:
        import fcntl
    except ImportError:
        _lock_byte(descriptor, wait)
        return
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)


def _lock_byte(descriptor: int, wait: bool) -> None:
    """The lock of Windows, on one byte; nothing where there is but one process (a browser)."""
    try:
        import msvcrt
    except ImportError:
        return
    windows: Any = msvcrt  # types know it on Windows only
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    while True:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        try:
            windows.locking(descriptor, windows.LK_NBLCK, 1)
            return
        except PermissionError:
            if not wait:
                raise BlockingIOError from None
            time.sleep(0.01)
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)


def move_new(part: Path, target: Path) -> None:
    """Give a file its name unless another has it (FileExistsError); `part` may be left behind."""
    if hasattr(os, "link"):
        os.link(part, target)  # unlike a rename, never over another; on NFS too
    else:
        os.rename(part, target)  # Windows: never over another


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
    Raises InvalidInput if the file cannot be written.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput(f"{path} cannot be written: it is a folder or a device, not a file.")
    if permissions == OWNER_ONLY and not is_in_own_folder(target):
        raise InvalidInput(
            f"{path} may be open to other users: files have no modes here. Keep it in your own "
            f"folder, {Path.home()}."
        )
    part = beside or target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with writing(Path(path), first=first), stopped_by_exception():
        make_folder(target)
        if beside is not None:
            part.unlink(missing_ok=True)
        # O_EXCL: no file or link of another is written into.
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.chmod(part, permissions & ~_umask())
            if first:
                move_new(part, target)
            else:
                os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)  # after the move there is none
        sync_folder(target.parent)


def part_path(path: Path) -> Path:
    """Path of a `draft` of a file while it is not complete."""
    return path.with_name(f".{path.name}.part")


@contextlib.contextmanager
def writing(path: Path, *, first: bool = False) -> Iterator[None]:
    """What the system refuses inside (a full disk, no permission), said of the file at `path`.

    `first`: that another process made it (FileExistsError) is left to the caller.
    """
    try:
        yield
    except PrivestError:
        raise
    except OSError as error:
        if error.errno is None or (first and isinstance(error, FileExistsError)):
            raise  # not the system's, or a matter of the caller
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from None


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
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)


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
    with atomic_file(path, beside=beside) as file:
        file.write(data.encode() if isinstance(data, str) else data)


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

    left: bool
    kept: bool
    file: BinaryIO
    part: Path
    target: Path

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
        if not HAS_OWNERS:
            self.file.close()  # Windows moves no open file
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
    with writing(path), stopped_by_exception():
        make_folder(target)
        descriptor = claimed(part)
        with os.fdopen(descriptor, "r+b") as file:  # the lock goes with it
            found = Draft(file, part, target)
            try:
                yield found
            finally:
                if not HAS_OWNERS:
                    file.close()  # Windows deletes no open file, not even another process's
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
    no_link = getattr(os, "O_NOFOLLOW", 0)
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | no_link, OWNER_ONLY)
        try:
            own = os.fstat(descriptor)
            if not is_own(own) or own.st_nlink > 1:
                raise InvalidInput(f"{part} is there, and it is not yours alone: delete it.")
            lock(descriptor, wait=False)
            there = os.stat(part, follow_symlinks=False)
            if os.path.samestat(own, there):
                os.chmod(part, OWNER_ONLY)
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

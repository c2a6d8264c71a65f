"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from privest.errors import InvalidInput

ORDINARY = 0o666  # less the user's umask
OWNER_ONLY = 0o600


@contextlib.contextmanager
def atomic_file(
    path: str | os.PathLike[str], *, permissions: int = ORDINARY, beside: Path | None = None
) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends, in one move.

    It is written beside `path`, forced to disk, then moved; a link is followed, so the file it
    leads to is replaced. On any exception, Ctrl-C too, what was there before is untouched and
    nothing is left behind (a process that is killed leaves a file `.NAME.*.part`).

    `beside`: the name of that file, for a caller whose lock keeps others away; what a killed
    process left there goes first. Raises InvalidInput if the file cannot be begun.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput(f"{target} cannot be written: it is a folder or a device, not a file.")
    part = beside or target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        part.unlink(missing_ok=True)
        # O_EXCL: no file or link of another is written into.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    except OSError as error:
        raise _refused(target, error) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)  # after the move there is none
    _sync_folder(target.parent)


def atomic_write(path: str | os.PathLike[str], data: str | bytes) -> None:
    """The file with this content (text in UTF-8), whole or not at all, in a folder made if need be.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new" / "page.txt"
    >>> atomic_write(path, "θ")
    >>> path.read_text(encoding="utf-8"), [file.name for file in path.parent.iterdir()]
    ('θ', ['page.txt'])
    """
    try:
        Path(path).resolve().parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.write(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise _refused(Path(path), error) from None


def _refused(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"{path} cannot be written: {error.strerror}.")


def _sync_folder(folder: Path) -> None:
    """The move itself to disk, where the system can open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

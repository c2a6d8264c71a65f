"""Bytes and lines of files, devices and pipes: never more than was allowed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from privest.errors import InvalidInput, PrivestError
from privest.reading._limits import DOCUMENT, LONGEST_LINE

Failure = type[PrivestError]


def read_bytes(
    path: str | os.PathLike[str],
    most: int,
    begins: bytes = b"",
    *,
    what: str = "such a file",
    error: Failure = InvalidInput,
) -> bytes:
    """All of a file, or of a device or pipe that ends, if it has no more than `most` bytes.

    `begins`: what its first bytes must be; nothing else is read of a file that begins otherwise,
    and the message says that it is not `what`.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(begins))
            if start != begins:
                raise error(f"{path} is not {what}: it does not begin as such files do.")
            if os.fstat(file.fileno()).st_size > most:
                raise _too_large(path, most, error)
            rest = _up_to(file, most - len(start))
    except PrivestError:
        raise
    except OSError as failed:
        raise error(f"cannot read {path}: {failed.strerror}.") from None
    except ValueError:
        raise error("the name of a file cannot have a zero byte.") from None
    if rest is None:
        raise _too_large(path, most, error)
    return start + rest


def _up_to(file: BinaryIO, most: int) -> bytes | None:
    """The rest of a file; None if it is longer. Never asks for `most` at once."""
    parts, left = [], most
    while part := file.read(1 << 20):
        left -= len(part)
        if left < 0:
            return None
        parts.append(part)
    return b"".join(parts)


def _too_large(path: object, most: int, error: Failure) -> PrivestError:
    return error(f"{path} has more than {size_text(most)}, the most that is read of such a file.")


def as_text(data: bytes, where: str) -> str:
    """UTF-8, with or without a mark at its start, without zero bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{where} is not UTF-8 text.") from None
    if "\0" in text:
        raise InvalidInput(f"{where} is not a text: it has zero bytes.")
    return text


def read_document(path: str | os.PathLike[str], name: str | None = None) -> str:
    """The text of a small file: a plan, a header, a model. `name`: in messages, else the path."""
    return as_text(read_bytes(path, DOCUMENT), str(path) if name is None else name)


def size_text(count: int) -> str:
    """A limit in words."""
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def require_letters(text: str, where: str) -> None:
    """Refuse a text that cannot be written again: JSON and file names may hold half a letter."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{where} has a text with half a letter (a surrogate).") from None


class _Lines(io.RawIOBase):
    """Bytes on their way to a text, as they come; refuses what can be no text table."""

    def __init__(self, file: BinaryIO, most: int | None) -> None:
        self.file, self.left, self.since = file, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever holds bytes
        part = self.file.read1(len(buffer)) if hasattr(self.file, "read1") else self.file.read(1)
        buffer[: len(part)] = part
        if b"\0" in part:
            raise InvalidInput("not a text file: it has zero bytes.")
        end = max(part.rfind(b"\n"), part.rfind(b"\r"))
        self.since = self.since + len(part) if end < 0 else len(part) - end - 1
        if self.since > LONGEST_LINE:
            raise InvalidInput(f"a line has more than {size_text(LONGEST_LINE)}.")
        if self.left is not None:
            self.left -= len(part)
            if self.left < 0:
                raise InvalidInput("it is larger than what is read at once.")
        return len(part)


@contextmanager
def text_lines(file: BinaryIO, most: int | None = None) -> Iterator[Iterator[str]]:
    """The lines of UTF-8 text, each as soon as it is there; the file itself stays open.

    A byte-order mark is left out; what is not UTF-8 is an error that names the line before it.
    `most`: bytes, where the caller keeps them all; None where it keeps a row at a time.
    """
    yield _decoded(
        io.TextIOWrapper(io.BufferedReader(_Lines(file, most)), encoding="utf-8-sig", newline="")
    )


def _decoded(lines: io.TextIOWrapper) -> Iterator[str]:
    line = 0
    try:
        for line, text in enumerate(lines, start=1):  # noqa: B007 - the last that was read
            yield text
    except UnicodeDecodeError:
        raise InvalidInput(f"not a text file: it is not UTF-8 after line {line}.") from None

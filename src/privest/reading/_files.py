"""Bytes and lines of files, devices and pipes: never more than was allowed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TextIO

from privest.errors import InvalidInput, PrivestError
from privest.reading._limits import DOCUMENT, LONGEST_LINE

Failure = type[PrivestError]


def read_bytes(path: str | os.PathLike[str], most: int, *, error: Failure = InvalidInput) -> bytes:
    """All of a file, or of a device or pipe that ends, if it has no more than `most` bytes."""
    try:
        with open(path, "rb") as file:
            return _whole(file, most, f"{path}: ", error)
    except OSError as failed:
        if isinstance(failed, PrivestError):
            raise
        raise error(f"cannot read {path}: {failed.strerror}.") from None
    except ValueError as failed:
        if isinstance(failed, PrivestError):
            raise
        raise error("the name of a file cannot have a zero byte.") from None


def _whole(file: BinaryIO, most: int, where: str, error: Failure) -> bytes:
    parts, left = [], most + 1
    while left > 0 and (part := file.read(min(left, 1 << 20))):  # never asks for `most` at once
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise error(
            f"{where}it has more than {size_text(most)}, the most that is read of such a file."
        )
    return b"".join(parts)


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
def text_lines(file: BinaryIO, most: int | None = None) -> Iterator[TextIO]:
    """The lines of UTF-8 text, each as soon as it is there; the file itself stays open.

    `most`: bytes, where the caller keeps them all; None where it keeps a row at a time.
    """
    lines = io.TextIOWrapper(io.BufferedReader(_Lines(file, most)), encoding="utf-8", newline="")
    yield lines

"""Bytes, lines and arrays of files, devices and pipes: never more than was allowed."""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from privest.arrays import AnyArray
from privest.errors import InvalidInput, PrivestError

# How much is read of anything, and what an honest file needs of that.
DOCUMENT = 1 << 21  # bytes of a plan, header or model: 100 states are 0.6 MB, 10⁴ names 0.2 MB
ARCHIVE = 1 << 31  # bytes of a level or checkpoint: a dense level of 16,000 measurements
HELD_WHOLE = 1 << 28  # bytes of text held whole (a matrix, one release): 10⁷ numbers; tables that
# are read in blocks and streams have no limit
LONGEST_LINE = 1 << 25  # bytes of a line of text: 10⁶ columns
MOST_COLUMNS = 1 << 20  # of a table
DEEPEST = 32  # lists within lists: ours have 5
# What numpy writes; anything else is not ours.
NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|]?(?:b1|[iu][1248]|f8|U\d{1,6}))', "
    rb"'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n",
    re.DOTALL,
)
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

    `begins`: its first bytes; nothing else is read of a file that begins otherwise, which is then
    not `what`.
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
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def require_letters(text: str, where: str) -> None:
    """Refuse a text that cannot be written again: JSON and file names may hold half a letter."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{where} has a text with half a letter (a surrogate).") from None


class _Lines(io.RawIOBase):
    """Bytes on their way to a text, as they come; refuses what can be no text table."""

    def __init__(self, file: BinaryIO, most: int | None, zeros: bool) -> None:
        self.file, self.left, self.since, self.zeros = file, most, 0, zeros

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever holds bytes
        part = self.file.read1(len(buffer)) if hasattr(self.file, "read1") else self.file.read(1)
        buffer[: len(part)] = part
        if not self.zeros and b"\0" in part:
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
def text_lines(
    file: BinaryIO, most: int | None = None, encoding: str = "utf-8"
) -> Iterator[Iterator[str]]:
    """The lines of a text, each as soon as it is there; the file itself stays open.

    A byte-order mark is left out. `most`: bytes, where the caller keeps them all.
    """
    wide = encoding.startswith(("utf-16", "utf-32"))  # whose letters have zero bytes
    raw = io.BufferedReader(_Lines(file, most, wide))
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    yield _decoded(io.TextIOWrapper(raw, encoding=codec, newline=""), encoding)


def _decoded(lines: io.TextIOWrapper, encoding: str) -> Iterator[str]:
    line = 0
    try:
        for line, text in enumerate(lines, start=1):  # noqa: B007 - the last that was read
            yield text
    except UnicodeError:
        raise InvalidInput(
            f"not a text file: it is not {encoding.upper()} after line {line}."
        ) from None


class _Refused(Exception):
    """Arrays that are not as privest writes them."""


def read_arrays(
    path: str | os.PathLike[str], what: str, *, error: Failure = InvalidInput
) -> dict[str, AnyArray]:
    """The arrays of a file that numpy's `savez` wrote: numbers, flags and texts, not packed.

    Sizes in the directory, in the header of each array and of the file must agree before any
    memory is taken.
    """
    data = read_bytes(path, ARCHIVE, b"PK\x03\x04", what=what, error=error)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(one.compress_type != zipfile.ZIP_STORED for one in members):
                raise _Refused("its parts are packed: privest writes them as they are")
            if sum(one.file_size for one in members) > len(data):
                raise _Refused("its parts are larger than it is")
            names = [one.filename.removesuffix(".npy") for one in members]
            if len(set(names)) < len(names):
                raise _Refused("two of its parts have one name")
            return {name: _array(archive.read(one)) for name, one in zip(names, members)}
    except _Refused as refused:
        raise error(f"{path} is not {what}: {refused}.") from None
    except MemoryError:  # of an honest file that is larger than the machine
        raise
    except Exception as failed:  # whatever a damaged archive makes its reader raise
        raise error(f"{path} is not {what}, or it is damaged ({type(failed).__name__}).") from None


def parse_array(data: bytes, where: str) -> AnyArray:
    """One array that numpy's `save` wrote."""
    try:
        return _array(data)
    except _Refused as refused:
        raise InvalidInput(f"{where}: {refused}.") from None


def _array(data: bytes) -> AnyArray:
    header = NPY.match(data)
    if header is None:
        raise _Refused("a part is not an array of numbers, flags or texts as numpy writes it")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    count = math.prod(shape)
    if len(shape) > DEEPEST or count * dtype.itemsize != len(data) - header.end():
        raise _Refused("the shape of an array is not that of its numbers")
    flat = np.frombuffer(data, dtype, count, header.end())
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C").copy()

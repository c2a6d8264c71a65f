"""Files in another alphabet than UTF-8, as UTF-8 bytes, part by part."""

from __future__ import annotations

import codecs
import io
from typing import TYPE_CHECKING, BinaryIO

from privest.errors import InvalidInput

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PART = 1 << 18  # bytes
MARKS = {  # the longer first: UTF-32 begins as UTF-16 does
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
STATE_ENCODING = (
    "save the file as UTF-8, or state its encoding (encoding, --encoding): files of older Windows "
    "programs are mostly cp1252"
)


def encoding_of(start: bytes) -> str:
    """By the mark at the start of a file; UTF-8 without one."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8")


class Recoded(io.RawIOBase):
    """The bytes of a file, from where it is, as UTF-8, as they come. Where the file can be sought,
    it can be from its start. Memory: a part.
    """

    def __init__(self, file: BinaryIO, encoding: str, name: str) -> None:
        super().__init__()
        self._file, self._encoding, self._name = file, encoding, name
        self._start()

    def _start(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)()
        self._waiting, self._ended = memoryview(b""), False

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As much as there is of the part under way; 0 at the end."""
        while not self._waiting and not self._ended:
            self._waiting = memoryview(self._next())
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._waiting))
        view[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count

    def _next(self) -> bytes:
        # what is there, and not all of a part: a pipe may give the rest much later
        read = getattr(self._file, "read1", self._file.read)
        raw = read(PART)
        self._ended = not raw
        try:
            return self._decoder.decode(raw, final=self._ended).encode()
        except UnicodeError:
            raise InvalidInput(
                f"{self._name} is not {self._encoding} text: state the encoding it was saved in "
                "(encoding, --encoding)."
            ) from None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """To so many bytes of UTF-8 after the start: everything before is read again."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("from the start only")
        self._file.seek(0)
        self._start()
        left = offset
        while left and (part := self.read(min(left, PART))):
            left -= len(part)
        return offset - left

"""Tables of releases that are held in memory, and which frames they are shown as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from privest.arrays import Array
from privest.data import open_source

HELD = 1 << 23  # numbers that are kept in memory so that a file is not read again: 64 MB
Block = TypeVar("Block", bound=Sized)


class KeptBlocks(Generic[Block]):
    """The blocks of a table, from the first pass that came to its end on.

    rows  of the table, by its header: if there are more nothing is kept.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._whole: list[Block] | None = None

    def through(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """The blocks as they are read, and kept; or, once they are, these without reading."""
        if self._whole is not None:
            yield from self._whole
            return
        found, rows = [], 0
        for block in blocks:
            rows += len(block)
            if rows <= self.rows:
                found.append(block)
            yield block
        if rows <= self.rows:
            self._whole = found


def library_of(data: object) -> str:
    """Of which library a table is; pandas where it is of none."""
    return "polars" if type(data).__module__.partition(".")[0] == "polars" else "pandas"


@dataclass(frozen=True, eq=False)
class HeldTable:
    """What is known of a release beside its header, in this process only.

    library  of the frames that it is shown as.
    columns  of the table, where it is held in memory; `text`: the bytes of its file.
    kept     blocks of it, while an estimate is made.
    """

    library: str
    columns: Mapping[str, Array] | None = field(default=None, repr=False)
    text: bytes = field(default=b"", repr=False)
    kept: KeptBlocks[Any] | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path: Path, names: Sequence[str], library: str) -> HeldTable:
        """Of a table file, whole."""
        return cls(library, open_source(path).read(names), path.read_bytes())

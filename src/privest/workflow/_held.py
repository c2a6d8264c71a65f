"""Tables of releases that are held in memory, and which frames they are shown as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from privest.arrays import Array
from privest.data import open_source


def library_of(data: object) -> str:
    """Of which library a table is; pandas where it is of none."""
    return "polars" if type(data).__module__.partition(".")[0] == "polars" else "pandas"


@dataclass(frozen=True, eq=False)
class HeldTable:
    """What is known of a release beside its header, in this process only.

    library  of the frames that it is shown as.
    columns  of the table, where it is held in memory; `text`: the bytes of its file.
    """

    library: str
    columns: Mapping[str, Array] | None = field(default=None, repr=False)
    text: bytes = field(default=b"", repr=False)

    @classmethod
    def read(cls, path: Path, names: Sequence[str], library: str) -> HeldTable:
        """Of a table file, whole."""
        return cls(library, open_source(path).read(names), path.read_bytes())

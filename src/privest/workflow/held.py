"""Tables in memory: of releases, and the public rows of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data import Texts, is_number, open_source, read_rows
from privest.errors import InvalidInput
from privest.workflow.spec import Spec

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


# --- public rows, for a design --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldRows:
    """All rows of a table that a plan counts: H, their numbers in it, and the group of each.

    groups  (rows,) numbers of groups, which `labels` names; None: there are none.
    """

    H: Array
    lines: Index
    groups: Index | None
    dropped: int
    labels: tuple[str, ...] = ()


def held_rows(spec: Spec, data: object, groups: str | None) -> HeldRows:
    """The public rows of a plan, all of them: the private column is not read.

    (Without any feature, for a mean, rows are counted by the target, as the plan does.)
    """
    if groups is not None and groups in spec.targets:
        raise InvalidInput(
            f"{groups!r} is the target, which is private: groups are of a public column."
        )
    source = open_source(spec.data if data is None else data, spec.format)
    beside = () if groups is None else (groups,)
    counted_by = None if spec.design.columns else spec.targets
    # A column that is a feature too is read as the model needs it.
    text = [name for name in beside if name not in spec.design.columns]
    blocks = list(
        read_rows(
            source, spec.design, counted_by, beside=beside, text=text, missing=spec.model.missing
        )
    )
    label: Index | None = None
    names: tuple[str, ...] = ()
    if groups is not None:
        label, names = _labels([block.beside[groups] for block in blocks])
    return HeldRows(
        np.concatenate([block.H for block in blocks]),
        np.concatenate([block.line for block in blocks]),
        label,
        sum(block.dropped for block in blocks),
        names,
    )


def _labels(parts: list[AnyArray | Texts]) -> tuple[Index, tuple[str, ...]]:
    """Numbers 0, 1, ... for the values of a column, the same for the same, and their names."""
    seen: dict[object, int] = {}
    found = []
    for part in parts:
        if isinstance(part, Texts):
            own = np.array([seen.setdefault(text, len(seen)) for text in part.distinct])
            found.append(own[part.codes])
        else:
            found.append(np.array([seen.setdefault(one, len(seen)) for one in part.tolist()]))
    numbers, place = np.unique(np.concatenate(found), return_inverse=True)
    named = tuple(seen)
    return place.astype(np.intp), tuple(group_name(named[k]) for k in numbers)


def group_name(value: object) -> str:
    """A value of the column of groups; whole numbers without a point."""
    text = str(value)
    return f"{float(text):.15g}" if is_number(text) else text

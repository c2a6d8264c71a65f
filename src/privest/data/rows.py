"""The rows of a linear model, block by block: H, y, and columns beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from privest.arrays import AnyArray, Array, Flags, Index, as_choice
from privest.data.cells import Texts
from privest.data.features import Design
from privest.data.source import Columns, Source
from privest.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Block:
    """Rows H (rows, n) and the values of the targets (rows, q); one row or more.

    line     their numbers in the table, counted from 1 after the header.
    dropped  rows left out, for missing values, since the block before.
    """

    H: Array = field(repr=False)
    targets: Array = field(repr=False)
    line: Index = field(repr=False)
    dropped: int = 0
    beside: dict[str, AnyArray | Texts] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.line)


def read_rows(
    source: Source,
    features: Design,
    targets: Sequence[str] = (),
    *,
    beside: Mapping[str, bool] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    infinite: bool = False,
) -> Iterator[Block]:
    """The rows of H and the targets, from the start of the source.

    beside    columns that are handed on as they are (persons, weights), and whether as texts.
    missing   "refuse" stops at the first missing value; "drop" leaves out every row with one.
    infinite  an infinity in a target is handed on, for a release that clips it.

    A column without any value and a table without complete rows are refused in the end: write
    nothing final before the last block.
    """
    as_choice(missing, ("refuse", "drop"), "missing")
    private = [name for name in targets if name in features.columns]
    if private:
        raise InvalidInput(
            f"the target {private[0]!r} is among the features: features are public, it is not."
        )
    others = beside or {}
    wanted = tuple(dict.fromkeys((*features.columns, *targets, *others)))
    if not wanted:
        raise InvalidInput("name a feature or a target: there is no column to count rows by.")
    texts = features.text | {name for name, text in others.items() if text}
    blocks = source.blocks(wanted, text=texts)
    whole = _whole(blocks, source.name, missing == "drop", frozenset(targets if infinite else ()))

    def made(columns: Columns, line: Index, dropped: int) -> Block:
        try:
            H = features.matrix(columns, line)
        except InvalidInput as error:
            raise InvalidInput(f"{source.name}, {error}") from None
        y = [np.asarray(columns[name]) for name in targets]
        values = np.column_stack([np.empty((len(line), 0)), *y])
        return Block(H, values, line, dropped, {name: columns[name] for name in others})

    return _gathered(whole, made)


def _gathered(
    parts: Iterator[tuple[Columns, Index, int]], made: Callable[[Columns, Index, int], Block]
) -> Iterator[Block]:
    """Blocks with rows; those dropped after the last complete row count with its block."""
    waiting, dropped = None, 0
    for columns, line, left_out in parts:
        dropped += left_out
        if len(line):
            if waiting is not None:
                yield waiting
            waiting, dropped = made(columns, line, dropped), 0
    if waiting is not None:
        yield replace(waiting, dropped=waiting.dropped + dropped)


def _whole(
    blocks: Iterator[Columns], name: str, drop: bool, infinite: frozenset[str]
) -> Iterator[tuple[Columns, Index, int]]:
    """The rows without gaps; their numbers, and how many others there were."""
    before = kept = 0
    empty: set[str] = set()
    for columns in blocks:
        gaps = _gaps(columns, name, before, infinite)
        rows = len(next(iter(columns.values())))
        line = np.arange(before + 1, before + rows + 1)
        empty = {one for one in gaps if gaps[one].all() and (not before or one in empty)}
        if gaps:
            gap = np.logical_or.reduce(list(gaps.values()))
            if not drop:
                row = int(np.argmax(gap))
                column = min(gaps, key=lambda one: not gaps[one][row])
                raise InvalidInput(
                    f"{name}, column {column!r}, row {line[row]}: a value is missing. Fill the "
                    'gaps, or leave out such rows, which are counted: "drop" as `missing`.'
                )
            columns, line = {one: column[~gap] for one, column in columns.items()}, line[~gap]
        yield columns, line, rows - len(line)
        before, kept = before + rows, kept + len(line)
    if not before:
        raise InvalidInput(f"{name} has no rows, only column names.")
    if empty:
        raise InvalidInput(f"{name}, column {min(empty)!r}: every value is missing.")
    if not kept:
        raise InvalidInput(f"{name}: every row has a missing value ({before:,} in all).")


def _gaps(columns: Columns, name: str, before: int, infinite: frozenset[str]) -> dict[str, Flags]:
    """Where values are missing, for the columns in which some are; refuses infinities."""
    found: dict[str, Flags] = {}
    for column, values in columns.items():
        if isinstance(values, Texts):
            gap = values.missing
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                if math.isfinite(values.sum()):  # one pass when all is well
                    continue
            beyond = np.isinf(values)
            if beyond.any() and column not in infinite:
                raise InvalidInput(
                    f"{name}, column {column!r}, row {before + int(np.argmax(beyond)) + 1}: "
                    "not a finite number."
                )
            gap = np.isnan(values)
        if gap.any():
            found[column] = gap
    return found

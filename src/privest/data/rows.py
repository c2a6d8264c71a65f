"""The rows of a linear model, block by block: H, y, and columns beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privest.arrays import AnyArray, Array, Flags, as_choice
from privest.data.cells import Texts
from privest.data.features import Design
from privest.data.source import SIZE, Columns, Source
from privest.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Block:
    """Rows H (rows, n) and the values of the targets (rows, q); one row or more.

    line     their numbers in the table, counted from 1 after the header.
    dropped  rows left out, for missing values, since the block before.
    beside   the other columns asked for.
    """

    H: Array = field(repr=False)
    targets: Array = field(repr=False)
    line: NDArray[np.intp] = field(repr=False)
    dropped: int = 0
    beside: dict[str, AnyArray | Texts] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.line)

    @property
    def y(self) -> Array | None:
        """The values of one target; None where there is not one."""
        return self.targets[:, 0] if self.targets.shape[1] == 1 else None


def read_rows(
    source: Source,
    features: Design,
    target: str | Sequence[str] | None = None,
    *,
    beside: Sequence[str] = (),
    text: Sequence[str] = (),
    missing: Literal["refuse", "drop"] = "refuse",
    infinite: bool = False,
    size: int = SIZE,
) -> Iterator[Block]:
    """The rows of H, and y, from the start of the source, at most `size` rows a block.

    beside    columns that are handed on as they are (persons, weights), those in `text` as texts.
    missing   "refuse" stops at the first missing value; "drop" leaves out every row that misses a
              feature or the target, and counts them.
    infinite  an infinity in the target is handed on, for a release that clips it.

    A column without any value and a table without complete rows are refused in the end: write
    nothing final before the last block.

    >>> from privest.data.features import Features
    >>> from privest.data.source import open_source
    >>> source = open_source({"age": [50, 61, None], "y": [1.5, 2.5, 3.5]})
    >>> for block in read_rows(source, Features(("age",)), "y", missing="drop"):
    ...     print(block.H.tolist(), block.y, block.line, block.dropped)
    [[1.0, 50.0], [1.0, 61.0]] [1.5 2.5] [1 2] 1
    """
    as_choice(missing, ("refuse", "drop"), "missing")
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    both = [name for name in targets if name in features.columns]
    if both:
        raise InvalidInput(
            f"the target {both[0]!r} is among the features: features are public, it is not."
        )
    wanted = tuple(dict.fromkeys((*features.columns, *targets, *beside)))
    if not wanted:
        raise InvalidInput("name a feature or a target: there is no column to count rows by.")
    blocks = source.blocks(wanted, text=features.text | frozenset(text), size=size)
    whole = _whole(blocks, source.name, missing == "drop", frozenset(targets if infinite else ()))

    def found() -> Iterator[Block]:
        for columns, line, dropped in whole:
            try:
                H = features.matrix(columns, line)
            except InvalidInput as error:
                raise InvalidInput(f"{source.name}, {error}") from None
            y = [np.asarray(columns[name])[:, None] for name in targets]
            values = y[0] if len(y) == 1 else np.hstack([np.empty((len(line), 0)), *y])
            yield Block(H, values, line, dropped, {name: columns[name] for name in beside})

    return _with_last_dropped(found())


def _whole(
    blocks: Iterator[Columns], name: str, drop: bool, infinite: frozenset[str]
) -> Iterator[tuple[Columns, NDArray[np.intp], int]]:
    """The rows without gaps, perhaps none; their numbers, and how many others there were."""
    before = kept = 0
    empty: set[str] = set()
    for columns in blocks:
        gaps = gaps_of(columns, name, before, infinite)
        rows = len(next(iter(columns.values())))
        line = np.arange(before + 1, before + rows + 1)
        empty = {one for one in gaps if gaps[one].all() and (not before or one in empty)}
        if gaps:
            gap = np.logical_or.reduce(list(gaps.values()))
            if not drop:
                raise _missing(gaps, gap, line, name)
            columns, line = {one: column[~gap] for one, column in columns.items()}, line[~gap]
        yield columns, line, rows - len(line)
        before, kept = before + rows, kept + len(line)
    if not before:
        raise InvalidInput(f"{name} has no rows, only column names.")
    if empty:
        raise InvalidInput(f"{name}, column {min(empty)!r}: every value is missing.")
    if not kept:
        raise InvalidInput(f"{name}: every row has a missing value ({before:,} in all).")


def _missing(gaps: dict[str, Flags], gap: Flags, line: NDArray[np.intp], name: str) -> InvalidInput:
    """The error for the first gap."""
    row = int(np.argmax(gap))
    column = next(one for one in gaps if gaps[one][row])
    return InvalidInput(
        f"{name}, column {column!r}, row {line[row]}: a value is missing. Fill the gaps, or leave "
        'out such rows, which are counted: "drop" as `missing`.'
    )


def _with_last_dropped(blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks with rows only; what was dropped in empty ones goes to a neighbour."""
    waiting: Block | None = None
    dropped = 0
    for block in blocks:
        dropped += block.dropped
        if not len(block):
            continue
        if waiting is not None:
            yield waiting
        waiting, dropped = replace(block, dropped=dropped), 0
    if waiting is not None:
        yield replace(waiting, dropped=waiting.dropped + dropped)


def gaps_of(
    columns: Columns, name: str, before: int, infinite: frozenset[str] = frozenset()
) -> dict[str, Flags]:
    """Where values are missing, for the columns in which some are.

    An infinity is refused, but in the columns `infinite`.
    """
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

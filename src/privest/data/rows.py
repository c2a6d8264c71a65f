"""The rows of a linear model, block by block: H, y, and whose rows they are."""

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
    """Rows H (rows, n), y (rows,) where a target was named; one row or more.

    `several` (rows, q): in place of y, of several targets; `beside`: the other columns asked for.

    `line`: their numbers in the table, counted from 1 after the header, blank lines of a CSV file
    not counted. `dropped`: rows left out, for missing values, since the block before; those after
    the last block are counted in it.
    """

    H: Array = field(repr=False)
    y: Array | None = field(repr=False)
    line: NDArray[np.intp] = field(repr=False)
    dropped: int = 0
    several: Array | None = field(default=None, repr=False)
    beside: dict[str, AnyArray | Texts] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.line)

    @property
    def targets(self) -> Array:
        """The values of one target or several, (rows, q)."""
        if self.several is not None:
            return self.several
        assert self.y is not None
        return self.y[:, None]


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

    `target`: one column, or several. `beside`: columns that are handed on as they are (persons,
    weights), those in `text` as texts.

    `missing`: "refuse" stops at the first missing value; "drop" leaves out every row that misses
    a feature or the target, and counts them. Which rows miss y is itself a fact about people: with
    "drop" the number of rows that a release shows depends on it. `infinite`: an infinity in the
    target is handed on, for a release that clips it.

    Refused before reading: a column that is absent or there twice, the target among the features.
    Refused while reading, with column and row: text in a number column, an infinity, an unknown
    category. A column without any value, a table without (complete) rows: refused in the end, so
    write nothing final before the last block.

    >>> from privest.data import Features, open_source
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
    kept = frozenset(targets if infinite else ())
    found = _rows(blocks, source, features, targets, wanted, missing == "drop", kept, beside)
    return _with_last_dropped(found)


def _rows(
    blocks: Iterator[Columns],
    source: Source,
    features: Design,
    targets: tuple[str, ...],
    wanted: Sequence[str],
    drop: bool,
    infinite: frozenset[str],
    beside: Sequence[str],
) -> Iterator[Block]:
    """As `read_rows`; blocks whose rows were all dropped are there, without rows."""
    before = kept = 0
    valued: set[str] = set()
    for columns in blocks:
        gaps = gaps_of(columns, source.name, before, infinite)
        rows = len(next(iter(columns.values())))
        valued.update(name for name in wanted if name not in gaps or not gaps[name].all())
        line = np.arange(before + 1, before + rows + 1)
        if gaps and not drop:
            raise _missing_value(gaps, source, features, valued, before)
        if gaps:
            whole = ~np.logical_or.reduce(list(gaps.values()))
            columns = {name: column[whole] for name, column in columns.items()}
            line = line[whole]
        H = _matrix(columns, line, source, features)
        y = [np.asarray(columns[name]) for name in targets]
        yield Block(
            H, y[0] if len(y) == 1 else None, line, rows - len(line),
            np.column_stack(y) if len(y) > 1 else None, {name: columns[name] for name in beside},
        )  # fmt: skip
        before, kept = before + rows, kept + len(line)
    _require_values(source, [name for name in wanted if name not in valued], before, kept)


def _require_values(source: Source, empty: Sequence[str], rows: int, kept: int) -> None:
    """What can be said in the end only: no rows, columns without a value, no complete row."""
    if not rows:
        raise InvalidInput(f"{source.name} has no rows, only column names.")
    if empty:
        raise _no_value(source, empty[0])
    if not kept:
        raise InvalidInput(f"{source.name}: every row has a missing value ({rows:,} in all).")


def _matrix(columns: Columns, line: NDArray[np.intp], source: Source, features: Design) -> Array:
    """The rows of H of whole rows."""
    try:
        return features.matrix(columns, line)
    except InvalidInput as error:
        raise InvalidInput(f"{source.name}, {error}") from None


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
    with np.errstate(over="ignore", invalid="ignore"):
        sums = [0.0 if isinstance(held, Texts) else held.sum() for held in columns.values()]
    for (column, values), total in zip(columns.items(), sums):
        if isinstance(values, Texts):
            gap = values.missing
        else:
            if math.isfinite(total):  # one pass when all is well
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


def _missing_value(
    gaps: dict[str, Flags], source: Source, features: Design, valued: set[str], before: int
) -> InvalidInput:
    """For the first row with a gap; a second pass tells whether its column has any value at all."""
    column = min(gaps, key=lambda name: int(np.argmax(gaps[name])))
    row = before + int(np.argmax(gaps[column])) + 1
    if column not in valued:
        again = source.blocks([column], text=features.text & {column})
        every = frozenset({column})  # whether it is finite is not the question
        if all(gaps_of(b, source.name, 0, every).get(column, np.False_).all() for b in again):
            return _no_value(source, column)
    return InvalidInput(
        f"{source.name}, column {column!r}, row {row}: a value is missing. Fill the gaps, or leave "
        'out such rows, which are counted: missing = "drop".'
    )


def _no_value(source: Source, column: str) -> InvalidInput:
    return InvalidInput(f"{source.name}, column {column!r}: every value is missing.")

"""A first look at a table: how it is written, and what is in it. For its owner, before any plan.

Nothing is decided here: what is found is shown, and whoever owns the table confirms it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privest.data._cells import Texts
from privest.data._look_columns import ColumnCounts, ColumnLook
from privest.data._look_writing import found_decimal, found_encoding
from privest.data._names import is_value
from privest.data._reading_options import Reading, as_reading
from privest.data._source import EMBEDDED, OTHERS, SIZE, Source, ending_of, open_source
from privest.data._text_table import require_names
from privest.errors import InvalidInput
from privest.records import Record

CELLS = 1 << 19  # in a block
FIRST = 4096  # rows in which the decimal mark is looked for
PREVIEW = 6  # rows
SHOWN = 60  # letters of a cell in the preview
UNNAMED = "It has no name. Name it in the first line, if it holds anything."
TWICE = "Another column has the same name. Rename one of them."
NOT_UTF8 = (
    "It is not UTF-8 text. It was read as one of Western Europe; if letters with accents look "
    "wrong, choose another encoding."
)
COMMAS = (
    "Some numbers have commas (139,750), and it is not clear whether these are decimal commas or "
    "stand between thousands: say which mark is in the numbers, and what is between thousands."
)
ONE_COLUMN = (
    "Only one column was found. If there are more, something else is between them; or there are "
    "lines above the column names: delete those."
)


@dataclass(frozen=True)
class TableLook(Record):
    """How a table is written, and what is in it. It shows private cells: it is for their owner.

    name, rows    of the table; `columns`: what each of them holds.
    text          whether it is a text file, which can be written in several ways.
    reading       how it was read, and what the file does not say itself as it was found; the codes
                  in it are those that were given, suspicions are in the columns.
    separator, encoding, decimal   as they are in the text file; None where it is none.
    sheets        of a workbook.
    preview       the first rows, as texts; None where a value is missing.
    notes         what its owner should know, in sentences.
    """

    name: str
    rows: int
    columns: tuple[ColumnLook, ...]
    text: bool
    reading: Reading
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheets: tuple[str, ...] = ()
    preview: tuple[tuple[str | None, ...], ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


def look(data: object, reading: Reading | Mapping[str, Any] | None = None) -> TableLook:
    """Look at a table: a file, a frame, or what else `open_source` takes.

    Encoding, separator and decimal mark of a text file are found where `reading` does not state
    them, the mark only where it is clear. Reads the file twice, in blocks; memory: some blocks,
    whatever its length. What cannot be read is an error in words; a column that cannot be used has
    its `problem`.

    >>> found = look({"age": [50, 61, 999, 47], "sex": ["m", "f", "f", None]})
    >>> [(column.name, column.kind, column.missing) for column in found.columns]
    [('age', 'number', 0), ('sex', 'text', 1)]
    >>> found.columns[0].codes[0].code, found.columns[1].different
    ('999', ('f', 'm'))
    """
    source, notes = _opened(data, as_reading(reading))
    _require_header(source)
    problems = _problems(source)
    usable = [k for k, problem in enumerate(problems) if problem is None]
    texts = _texts_only(source, [source.columns[k] for k in usable])
    every = [ColumnCounts(name, source.reading, name in texts) for name in source.columns]
    preview: list[tuple[str | None, ...]] = []
    for block in _blocks(source, [source.columns[k] for k in usable]):
        if len(preview) < PREVIEW:
            preview += _first_rows(block, source.columns, usable, PREVIEW - len(preview))
        for k in usable:
            every[k].add(block[source.columns[k]])
    rows = every[usable[0]].rows
    stated, text = source.reading, _separator(source) is not None
    return TableLook(
        name=source.name,
        rows=rows,
        columns=tuple(counts.found(problem) for counts, problem in zip(every, problems)),
        text=text,
        reading=stated,
        separator=_separator(source),
        encoding=(stated.encoding or "utf-8") if text else None,
        decimal=(stated.decimal or ".") if text else None,
        sheets=getattr(source, "sheets", ()),
        preview=tuple(preview),
        notes=(*notes, *_notes(source, rows)),
    )


def _separator(source: Source) -> str | None:
    """What is between the columns of a text file; None of any other table."""
    found: str | None = getattr(source, "separator", None)
    return found


# --- how it is written ----------------------------------------------------------------------------


def _opened(data: object, stated: Reading) -> tuple[Source, list[str]]:
    """The table; what was found of a text file is now in its reading."""
    notes = []
    path = _text_file(data)
    if path is not None and stated.encoding is None:
        encoding = found_encoding(path, path.name)
        if encoding != "utf-8":
            stated = replace(stated, encoding=encoding)
        if not encoding.startswith("utf"):
            notes.append(NOT_UTF8)
    source = open_source(data, stated)
    if _separator(source) is None:
        return source, notes
    settled = stated.thousands or (stated.thousands == "" and stated.decimal)
    seen = "." if settled else found_decimal(_first_texts(source))
    if seen is None and stated.decimal != ".":
        notes.append(COMMAS)
    decimal = stated.decimal or seen
    wanted = replace(stated, decimal="," if decimal == "," else None, separator=None)
    between = _separator(source)
    if between not in (wanted.decimal, wanted.separator_of(source.name)):
        wanted = replace(wanted, separator=between)
    return (source if wanted == stated else open_source(data, wanted)), notes


def _text_file(data: object) -> Path | None:
    """The file, if it is a text file that is there; all others `open_source` knows how to name."""
    if not isinstance(data, str | os.PathLike) or data == EMBEDDED:
        return None
    path = Path(os.fsdecode(data))
    ending = ending_of(path.name)
    return None if ending is None or ending in OTHERS or not path.is_file() else path


def _first_texts(source: Source) -> Iterator[list[str]]:
    """The different texts of each column in the first rows."""
    problems = _problems(source)
    names = [name for name, problem in zip(source.columns, problems) if problem is None]
    with closing(_blocks(source, names)) as blocks:
        block = next(blocks, {})
    for column in block.values():
        yield [text for text in column[:FIRST].array() if text is not None]


# --- what is in it --------------------------------------------------------------------------------


def _require_header(source: Source) -> None:
    """Refuse what has no line of names, and what has a line above it."""
    first = source.columns[0] if source.columns else ""
    if first.lower().startswith("sep=") and len(source.columns) <= 2:
        raise InvalidInput(
            f"{source.name}: its first line only says what is between the columns ({first[:5]}). "
            "Delete that line: the first one must name the columns."
        )
    if source.certain:
        return
    try:
        require_names(source.columns)
    except InvalidInput as error:
        raise InvalidInput(f"{source.name}: {error}") from None


def _problems(source: Source) -> list[str | None]:
    """Why each column cannot be used; None where it can."""
    count = Counter(source.columns)
    found = [UNNAMED if not name else TWICE if count[name] > 1 else None for name in source.columns]
    usable = [k for k, problem in enumerate(found) if problem is None]
    if not usable:
        raise InvalidInput(
            f"{source.name} has no column that can be used: each needs a name of its own."
        )
    names = [source.columns[k] for k in usable]
    if _separator(source) is None and _unreadable(_blocks(source, names)):
        for k in usable:
            found[k] = _unreadable(_blocks(source, [source.columns[k]]))
        if all(found):
            raise InvalidInput(f"{source.name} has no column that can be read: {found[usable[0]]}")
    return found


def _unreadable(blocks: Generator[Any]) -> str | None:
    """Why these columns cannot be read like this (lists, bytes); None where they can."""
    try:
        with closing(blocks):
            next(blocks, None)
    except InvalidInput as error:
        return str(error)
    return None


def _texts_only(source: Source, names: Sequence[str]) -> frozenset[str]:
    """The columns of a table with types that are no numbers, even where digits are written there:
    they would be refused as such. In files without types every column is one of texts.
    """
    if not source.certain or _unreadable(_numbers(source, names)) is None:
        return frozenset()
    return frozenset(name for name in names if _unreadable(_numbers(source, [name])))


def _numbers(source: Source, names: Sequence[str]) -> Generator[Any]:
    yield from source.coded_blocks(names, size=_size(names))


def _blocks(source: Source, names: Sequence[str]) -> Generator[dict[str, Texts]]:
    """All cells as texts, in blocks of about CELLS."""
    for block in source.coded_blocks(names, text=names, size=_size(names)):
        yield {name: column for name, column in block.items() if isinstance(column, Texts)}


def _size(names: Sequence[str]) -> int:
    return max(1, min(SIZE, CELLS // len(names)))


def _first_rows(
    block: Mapping[str, Texts], names: Sequence[str], usable: Sequence[int], count: int
) -> list[tuple[str | None, ...]]:
    """Some rows of a block, the cells shortened; None where one is missing, or cannot be read."""
    empty = [None] * count
    columns = [
        block[name][:count].array().tolist() if k in usable else empty
        for k, name in enumerate(names)
    ]
    return [tuple(None if c is None else _shortened(c) for c in row) for row in zip(*columns)]


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _notes(source: Source, rows: int) -> Iterator[str]:
    if not rows:
        yield "There are no rows below the column names."
    if len(source.columns) == 1 and not source.certain:
        yield ONE_COLUMN
    values = sum(map(is_value, source.columns))
    if values and not source.certain:
        yield (
            f"{values} of the {len(source.columns)} names in the first line are numbers or dates. "
            "If that line holds data, add one above it with the column names."
        )

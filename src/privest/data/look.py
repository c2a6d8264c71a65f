"""A first look at a table: its format, and what is in it. For its owner, before any plan.

Nothing is decided here: what is found is shown, and the data owner confirms it.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privest.data.cells import Texts, is_date, is_number, is_value
from privest.data.format import Format, as_format
from privest.data.lines import encoding_of, opened, require_names
from privest.data.look_columns import ColumnCounts, ColumnLook
from privest.data.source import EMBEDDED, OTHERS, SIZE, Source, ending_of, open_source
from privest.errors import InvalidInput
from privest.records import Record

CELLS = 1 << 19  # in a block
PART = 1 << 18  # bytes
FIRST = 4096  # rows in which the decimal mark is looked for
PREVIEW = 6  # rows
SHOWN = 60  # letters of a cell in the preview
UNNAMED = "It has no name. Name it in the first line, if it holds anything."
TWICE = "Another column has the same name. Rename one of them."
NOT_UTF8 = (
    "It is not UTF-8 text. It was read as cp1252 (Western Europe); if letters with accents look "
    "wrong, choose another encoding."
)
COMMAS = (
    "Some numbers have commas (139,750), and it is not clear whether these are decimal commas or "
    "stand between thousands: state the `decimal` mark, and what is between `thousands`."
)
ONE_COLUMN = (
    "Only one column was found. If there are more, another sign is between them; or there are "
    "lines above the column names: delete those."
)
BINARY = (b"PK\3\4", b"PAR1", b"\x1f\x8b", b"\xfd7zXZ", b"%PDF")  # beginnings of other files
COMMA = re.compile(r"[+-]?\d*,\d+$")  # 1,5 and 1,234: which may have thousands, too
CLEAR_COMMA = re.compile(r"[+-]?(\d*,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+)$")
POINT = re.compile(r"[+-]?\d*\.\d+$")
MOSTLY = 0.8  # of the different texts of a column; words may stand for missing values


@dataclass(frozen=True)
class TableLook(Record):
    """How a table is written, and what is in it. It shows private cells: it is for their owner.

    name, rows    of the table; `columns`: what each of them holds.
    text          whether it is a text file, which can be written in several ways.
    format        as stated, and as found where the file does not state it; the missing codes are
                  those that were stated, suspicions are in the columns.
    separator, encoding, decimal   of a text file; None where it is none.
    sheets        of a workbook.
    preview       the first rows, as texts; None where a value is missing.
    notes         for the data owner, in sentences.
    """

    name: str
    rows: int
    columns: tuple[ColumnLook, ...]
    text: bool
    format: Format
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheets: tuple[str, ...] = ()
    preview: tuple[tuple[str | None, ...], ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


def look(data: object, format: Format | Mapping[str, Any] | None = None) -> TableLook:
    """Look at a table: a file, a frame, or what else `open_source` takes.

    Encoding, separator and decimal mark of a text file are found where `format` does not state
    them, the mark only where it is clear. Reads the file twice, in blocks; memory: some blocks.
    What cannot be read is an error in words; a column that cannot be used has its `problem`.

    >>> found = look({"age": [50, 61, 999, 47], "sex": ["m", "f", "f", None]})
    >>> [(column.name, column.kind, column.missing) for column in found.columns]
    [('age', 'number', 0), ('sex', 'text', 1)]
    >>> found.columns[0].codes[0].code, found.columns[1].different
    ('999', ('f', 'm'))
    """
    source, notes = _opened(data, as_format(format))
    _require_header(source)
    problems = _problems(source)
    names = [name for name, problem in zip(source.columns, problems) if problem is None]
    texts = {name for name in names if source.certain and _unreadable(source, name, text=False)}
    counts = {name: ColumnCounts(name, source.format, name in texts) for name in names}
    preview: list[tuple[str | None, ...]] = []
    for block in _blocks(source, names):
        preview = preview or _first_rows(block, source.columns)
        for name in names:
            counts[name].add(block[name])
    rows, text = counts[names[0]].rows, source.separator is not None
    return TableLook(
        name=source.name,
        rows=rows,
        columns=tuple(
            counts[name].found() if problem is None else ColumnLook(name, "empty", problem=problem)
            for name, problem in zip(source.columns, problems)
        ),
        text=text,
        format=source.format,
        separator=source.separator,
        encoding=(source.format.encoding or "utf-8") if text else None,
        decimal=(source.format.decimal or ".") if text else None,
        sheets=source.sheets,
        preview=tuple(preview),
        notes=(*notes, *_notes(source, rows)),
    )


# --- format ---------------------------------------------------------------------------------------


def _opened(data: object, stated: Format) -> tuple[Source, list[str]]:
    """The table; what was found of a text file is in its format."""
    notes, path, form = [], _text_file(data), stated
    if path is not None and stated.encoding is None:
        encoding = _found_encoding(path)
        if encoding != "utf-8":
            form = replace(form, encoding=encoding)
        if not encoding.startswith("utf"):
            notes.append(NOT_UTF8)
    source = open_source(data, form)
    if source.separator is None:
        return source, notes
    if form.decimal is None and not form.thousands:
        decimal = found_decimal(_first_texts(source))
        if decimal is None:
            notes.append(COMMAS)
        form = replace(form, decimal="," if decimal == "," else None, separator=None)
    if source.separator not in (form.decimal, form.separator_of(source.name)):
        form = replace(form, separator=source.separator)
    return (source if form == source.format else open_source(data, form)), notes


def _text_file(data: object) -> Path | None:
    """The file, if it is a text file that exists; all others `open_source` refuses or opens."""
    if not isinstance(data, str | os.PathLike) or data == EMBEDDED:
        return None
    path = Path(os.fsdecode(data))
    ending = ending_of(path.name)
    return None if ending is None or ending in OTHERS or not path.is_file() else path


def _found_encoding(path: Path) -> str:
    """By its mark; else UTF-8 where all of it is that; else Windows' of Western Europe."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path, path.name) as file:
        part = file.read(PART)
        marked = encoding_of(part)
        if marked != "utf-8":
            return marked
        if b"\0" in part or part.startswith(BINARY):
            raise InvalidInput(
                f"{path.name} is not a text table but binary data. Give it the ending of its kind "
                "(.xlsx, .parquet, .csv.gz), or save the table as .csv; if it is UTF-16, state the "
                "`encoding`."
            )
        try:
            while part:
                decoder.decode(part)
                part = file.read(PART)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _first_texts(source: Source) -> Iterator[list[str]]:
    """The different texts of each column in the first rows."""
    count = Counter(source.columns)
    names = [name for name in source.columns if name and count[name] == 1]
    if not names:
        return
    with closing(_blocks(source, names)) as blocks:
        block = next(blocks, {})
    for column in block.values():
        yield [text for text in column[:FIRST].tolist() if text is not None]


def found_decimal(columns: Iterable[Iterable[str]]) -> str | None:
    """The mark in the numbers of some rows: "," or "."; None where that is not clear.

    A comma: some column holds numbers with commas and little else, one of which cannot have
    thousands (1,5 and 0,123 can not, 1,234 can), and no column has decimal points.

    >>> found_decimal([["1,5", "2"], ["a", "b"]]), found_decimal([["1,234", "2,500"]])
    (',', None)
    >>> found_decimal([["1,5"], ["1.5"]]) is None, found_decimal([["1.5"], ["a, b"]])
    (True, '.')
    """
    marks = set()
    for cells in columns:
        texts = [cell for cell in cells if not is_date(cell)]
        commas = [cell for cell in texts if COMMA.match(cell)]
        most = MOSTLY * len(texts)
        whole = sum(is_number(one.replace(",", "")) and "." not in one for one in texts)
        if commas and whole >= most:
            marks.add("," if any(map(CLEAR_COMMA.match, commas)) else "?")
        elif any(map(POINT.match, texts)) and sum(map(is_number, texts)) >= most:
            marks.add(".")
    if "," in marks:
        return None if "." in marks else ","
    return None if "?" in marks else "."


# --- what is in it --------------------------------------------------------------------------------


def _require_header(source: Source) -> None:
    """Refuse a table without a line of names, and one with a line above it."""
    first = source.columns[0] if source.columns else ""
    if first.lower().startswith("sep=") and len(source.columns) <= 2:
        raise InvalidInput(
            f"{source.name}: its first line only says what is between the columns ({first[:5]}). "
            "Delete that line: the first one must name the columns."
        )
    if not source.certain:
        require_names(source.columns, source.name)


def _problems(source: Source) -> list[str | None]:
    """Why each column cannot be used; None where it can."""
    count = Counter(source.columns)
    found = [UNNAMED if not name else TWICE if count[name] > 1 else None for name in source.columns]
    if all(found):
        raise InvalidInput(
            f"{source.name} has no column that can be used: each needs a name of its own."
        )
    if source.certain:  # columns with types, some of which no text can be made of
        found = [
            problem or _unreadable(source, name) for name, problem in zip(source.columns, found)
        ]
        if all(found):
            raise InvalidInput(f"{source.name} has no column that can be read: {found[0]}")
    return found


def _unreadable(source: Source, name: str, *, text: bool = True) -> str | None:
    """Why a column cannot be read as texts, or as numbers; None where it can."""
    try:
        next(source.blocks([name], text=[name] if text else (), size=SIZE), None)
    except InvalidInput as error:
        return str(error)
    return None


def _blocks(source: Source, names: Sequence[str]) -> Generator[dict[str, Texts]]:
    """All cells as texts, in blocks of about CELLS."""
    size = max(1, min(SIZE, CELLS // len(names)))
    for block in source.blocks(names, text=names, size=size):
        yield {name: column for name, column in block.items() if isinstance(column, Texts)}


def _first_rows(block: Mapping[str, Texts], names: Sequence[str]) -> list[tuple[str | None, ...]]:
    """The first rows, the cells shortened; None where one is missing, or cannot be read."""
    rows = min(PREVIEW, len(next(iter(block.values()))))
    columns = [block[name][:rows].tolist() if name in block else [None] * rows for name in names]
    return [
        tuple(cell[: SHOWN - 1] + "…" if cell and len(cell) > SHOWN else cell for cell in row)
        for row in zip(*columns)
    ]


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

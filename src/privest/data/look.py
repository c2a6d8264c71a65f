"""A first look at a table, for its owner, who confirms or corrects it before any plan."""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from privest.arrays import Array, Index
from privest.data.arrow import arrow, numbers, parsed
from privest.data.cells import Texts, composed, is_date, is_value
from privest.data.format import Format, as_format
from privest.data.lines import encoding_of, opened, require_names
from privest.data.source import EMBEDDED, OTHERS, SIZE, Source, ending_of, open_source
from privest.errors import InvalidInput
from privest.records import Record

CELLS = 1 << 19  # in a block
PART = 1 << 18  # bytes
FIRST = 4096  # rows in which the decimal mark is looked for
PREVIEW, SHOWN = 6, 60  # rows, and letters of a cell
UNNAMED = "It has no name. Name it in the first line, if it holds anything."
TWICE = "Another column has the same name. Rename one of them."
NOT_UTF8 = (
    "It is not UTF-8 text. It was read as cp1252 (Western Europe); if letters with accents look "
    "wrong, save the file as UTF-8, or state its `encoding`."
)
COMMAS = (
    "Some numbers have commas (139,750): state whether these are decimal commas (the `decimal` "
    "mark); commas between thousands must be removed from the file."
)
ONE_COLUMN = (
    "Only one column was found. If there are more, another sign is between them; or there are "
    "lines above the column names: delete those."
)
BINARY = (b"PK\3\4", b"PAR1", b"\x1f\x8b", b"\xfd7zXZ", b"%PDF")  # beginnings of other files
COMMA = re.compile(r"[+-]?\d*,\d+$")  # 1,5 and 1,234: which may have thousands, too
CLEAR_COMMA = re.compile(r"[+-]?(\d*,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+)$")
POINT = re.compile(r"[+-]?\d*\.\d+$")
Kind = Literal["number", "yes-no", "text", "date", "empty"]
MOST = 60  # different values or texts that are kept; more make no list of categories
LONGEST = 200  # letters of a text that is kept
MOST_WORDS = 20  # different words that a column of numbers may hold
LEAST_NUMBERS = 0.5  # the share of its cells that are numbers
# Typical codes: up to six 7, 8 or 9 (refused, not asked, unknown), and what machines write.
NINES = [float(digit * count) for digit in "789" for count in range(1, 7)]
MACHINES = [-1.0, 99.9, 999.9, 9999.9, 99.99, 999.99, -99.9, -999.9, -32768.0, 32767.0]
CODES = frozenset([*NINES, *(-code for code in NINES), *MACHINES])
SHORT, OFTEN = 12, 3  # letters, and rows, of a word that looks like a code
WORDS = (
    "x",
    "unknown",
    "refused",
    "missing",
    "not available",
    "no answer",
    "don't know",
    "n.a.",
    "n/k",
)


@dataclass(frozen=True)
class MissingCode(Record):
    """A value of a column of numbers that may stand for a missing one, and in how many rows.

    plain  it looks like a code, not like something a person wrote. A plan, which is public, states
           no other code of a private column.
    word   it is no number: the column cannot be used unless it stands for a missing value.
    """

    code: str
    rows: int
    plain: bool = True
    word: bool = False


@dataclass(frozen=True)
class ColumnLook(Record):
    """A column of a table, as it was found.

    different  texts or numbers, sorted; None where they are many.
    whole      all numbers are whole, and none is below 0.
    codes      suspected to stand for a missing value. problem: why it cannot be used.
    """

    name: str
    kind: Kind
    missing: int = 0
    different: tuple[str, ...] | None = None
    whole: bool = False
    codes: tuple[MissingCode, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class TableLook(Record):
    """How a table is written, and what is in it. It shows private cells: it is for their owner.

    format     as stated, and as found where the file does not state it.
    notes      for the data owner, in sentences.
    preview    the first rows, as texts; None where a value is missing.
    """

    name: str
    rows: int
    columns: tuple[ColumnLook, ...]
    text: bool = False
    format: Format = field(default_factory=Format)
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    preview: tuple[tuple[str | None, ...], ...] = field(default=(), repr=False)


def inspect(data: object, format: Format | Mapping[str, Any] | None = None) -> TableLook:
    """The columns of a table and what is suspicious in them: of a file, a frame or a mapping.

    Encoding, separator and decimal mark of a text file are found where `format` does not state
    them, the mark only where it is clear. Memory: a few blocks.

    >>> found = inspect({"age": [50, 61, 999, 47], "sex": ["m", "f", "f", None]})
    >>> [(column.name, column.kind, column.missing) for column in found.columns]
    [('age', 'number', 0), ('sex', 'text', 1)]
    """
    source, notes = _opened(data, as_format(format))
    if not source.certain:
        require_names(source.columns, source.name)
    problems = _problems(source)
    names = [name for name, problem in zip(source.columns, problems) if problem is None]
    counts = {name: ColumnCounts(name, source.format, _holds_texts(source, name)) for name in names}
    preview: list[tuple[str | None, ...]] = []
    for block in _blocks(source, names):
        preview = preview or _first_rows(block, source.columns)
        for name, column in block.items():
            counts[name].add(column)
    rows = counts[names[0]].rows
    columns = tuple(
        counts[name].found() if problem is None else ColumnLook(name, "empty", problem=problem)
        for name, problem in zip(source.columns, problems)
    )
    form, text = source.format, source.separator is not None
    return TableLook(
        source.name, rows, columns, text, form, source.separator,
        (form.encoding or "utf-8") if text else None, (form.decimal or ".") if text else None,
        source.sheets, (*notes, *_notes(source, rows)), tuple(preview),
    )  # fmt: skip


# --- format ---------------------------------------------------------------------------------------


def _opened(data: object, stated: Format) -> tuple[Source, list[str]]:
    """The table, and notes on it; its format as found."""
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
    if form.decimal is None:
        decimal = _found_decimal(_first_texts(source))
        if decimal is None:
            notes.append(COMMAS)
        form = replace(form, decimal="," if decimal == "," else None, separator=None)
    if source.separator not in (form.decimal, form.separator_of(source.name)):
        form = replace(form, separator=source.separator)
    return (source if form == source.format else open_source(data, form)), notes


def _text_file(data: object) -> Path | None:
    """The path, if it is that of a text file."""
    if not isinstance(data, str | os.PathLike) or data == EMBEDDED:
        return None
    path = Path(os.fsdecode(data))
    ending = ending_of(path.name)
    return None if ending is None or ending in OTHERS or not path.is_file() else path


def _found_encoding(path: Path) -> str:
    """By its mark; else UTF-8 where all of it is that; else cp1252."""
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
    names = [name for name, problem in zip(source.columns, _names(source)) if problem is None]
    if not names:
        return
    with closing(_blocks(source, names)) as blocks:
        block = next(blocks, {})
    for column in block.values():
        yield [text for text in column[:FIRST].tolist() if text is not None]


def _found_decimal(columns: Iterable[Iterable[str]]) -> str | None:
    """The decimal mark in the numbers of some rows: "," or "."; None where that is not clear.

    A comma: some number cannot have thousands (1,5 can not, 1,234 can), and none has a point.
    """
    cells = [cell for column in columns for cell in column]
    if not any(map(COMMA.match, cells)):
        return "."
    points = any(map(POINT.match, cells))
    return "," if any(map(CLEAR_COMMA.match, cells)) and not points else None


# --- what is in it --------------------------------------------------------------------------------


def _names(source: Source) -> list[str | None]:
    """Why the name of each column is none; None where it is one."""
    names = [composed(name) for name in source.columns]
    count = Counter(names)
    return [UNNAMED if not name else TWICE if count[name] > 1 else None for name in names]


def _problems(source: Source) -> list[str | None]:
    found = _names(source)
    if all(found):
        raise InvalidInput(
            f"{source.name} has no column that can be used: each needs a name of its own."
        )
    if source.certain:  # columns with types, some of which no text can be made of
        both = zip(source.columns, found)
        found = [problem or _refusal(source, name, text=True) for name, problem in both]
        if all(found):
            raise InvalidInput(f"{source.name} has no column that can be read: {found[0]}")
    return found


def _holds_texts(source: Source, name: str) -> bool:
    """Whether a column holds texts by its type, whatever its cells look like."""
    return source.certain and _refusal(source, name, text=False) is not None


def _refusal(source: Source, name: str, *, text: bool) -> str | None:
    try:
        next(source.blocks([name], text=[name] if text else ()), None)
    except InvalidInput as error:
        return str(error)
    return None


def _blocks(source: Source, names: Sequence[str]) -> Generator[dict[str, Texts]]:
    """All cells as texts, in blocks of about CELLS."""
    size = max(1, min(SIZE, CELLS // len(names)))
    for block in source.blocks(names, text=names, size=size):
        yield {name: column for name, column in block.items() if isinstance(column, Texts)}


def _first_rows(block: Mapping[str, Texts], names: Sequence[str]) -> list[tuple[str | None, ...]]:
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


# --- columns --------------------------------------------------------------------------------------


class ColumnCounts:
    """Counts of a column over its blocks; `texts`: no cell is a number."""

    whole: bool
    dates: bool
    many_words: bool
    name: str
    rows: int
    missing: int
    numbers: int
    many_values: bool

    def __init__(self, name: str, form: Format, texts: bool = False) -> None:
        self.name, self._form, self._texts = name, form, texts
        self.rows = self.missing = self.numbers = 0
        self.whole = self.dates = True
        self.values: dict[float, tuple[int, str]] = {}  # rows and spelling; of many, at the ends
        self.words: dict[str, int] = {}
        self.many_values = self.many_words = False

    def add(self, column: Texts) -> None:
        count = np.bincount(column.codes + 1, minlength=len(column.distinct))
        rows = count[1:]  # of code −1: missing
        texts = arrow().array(column.distinct[:-1], arrow().string())
        there = (rows > 0) & texts.is_valid().to_numpy(zero_copy_only=False)
        self.rows += len(column)
        self.missing += len(column) - int(rows[there].sum())
        values = np.full(len(there), np.nan)
        if not self._texts:
            values = numbers(parsed(texts, self._form)[0], self.name)
        word = np.isnan(values)
        self._add_words(texts, np.flatnonzero(there & word), rows)
        self._add_numbers(texts, np.flatnonzero(there & ~word), rows, values)

    def _add_words(self, texts: object, places: Index, rows: Index) -> None:
        self.dates = self.dates and all(map(is_date, _some(texts, places)))
        for text, count in zip(_some(texts, places[: MOST + 1]), rows[places].tolist()):
            short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
            self.words[short] = self.words.get(short, 0) + count
        if len(self.words) > MOST:
            self.many_words = True
            self.words = dict(list(self.words.items())[:MOST])

    def _add_numbers(self, texts: object, places: Index, rows: Index, values: Array) -> None:
        """Different values; of many, those at the ends."""
        own = values[places]
        self.numbers += int(rows[places].sum())
        finite = own[np.isfinite(own)]
        self.whole = self.whole and bool((finite >= 0).all() and (finite == np.rint(finite)).all())
        half = MOST // 2
        if len(own) > MOST:
            self.many_values = True
            ordered = np.argpartition(own, (half, len(own) - half))
            places = places[np.r_[ordered[:half], ordered[-half:]]]
        for place, text in zip(places.tolist(), _some(texts, places)):
            count, written = self.values.get(values[place], (0, text.removesuffix(".0")))
            self.values[float(values[place])] = count + int(rows[place]), written
        if len(self.values) > MOST:
            self.many_values, kept = True, sorted(self.values)
            self.values = {one: self.values[one] for one in kept[:half] + kept[-half:]}

    def found(self) -> ColumnLook:
        kind = self._kind()
        number = kind in ("number", "yes-no")
        written = [self.values[one][1] for one in sorted(self.values)]
        different = written if number else [*written, *sorted(self.words)]
        many = self.many_values or (self.many_words and not number) or len(different) > MOST
        codes = [*(_number_codes(self.values) if number else ()), *self._word_codes(number)]
        return ColumnLook(
            self.name, kind, self.missing, None if many else tuple(different),
            whole=number and self.whole, codes=tuple(codes),
        )  # fmt: skip

    def _kind(self) -> Kind:
        there = self.rows - self.missing
        if not there:
            return "empty"
        if self.numbers == there:
            return "yes-no" if set(self.values) <= {0.0, 1.0} else "number"
        if not self.numbers and self.dates:
            return "date"
        few = not self.many_words and len(self.words) <= MOST_WORDS
        return "number" if few and self.numbers >= LEAST_NUMBERS * there else "text"

    def _word_codes(self, number: bool) -> Iterator[MissingCode]:
        """In a column of numbers all words; in texts only signs, such as ? and #N/A."""
        for text, rows in self.words.items():
            sign = text.startswith("#") or not any(letter.isalnum() for letter in text)
            often = rows >= OFTEN and len(text) <= SHORT
            plain = "=" not in text and (sign or often or text.casefold() in WORDS)
            if number or (sign and plain):
                yield MissingCode(text, rows, plain, word=number)


def _some(texts: object, places: Index) -> list[str]:
    return texts.take(arrow().array(places)).to_pylist()  # type: ignore[attr-defined, no-any-return]


def _number_codes(seen: Mapping[float, tuple[int, str]]) -> list[MissingCode]:
    """Typical codes beyond the other values of a column, and apart from them."""
    rest = [value for value in sorted(seen) if value not in CODES]
    if len(rest) < 2:  # nobody can say what is far from one value
        return []
    below = [value for value in sorted(seen, reverse=True) if value < rest[0]]
    above = [value for value in sorted(seen) if value > rest[-1]]
    return [*_apart(rest, below, seen), *_apart(rest[::-1], above, seen)]


def _apart(
    rest: list[float], beyond: Sequence[float], seen: Mapping[float, tuple[int, str]]
) -> list[MissingCode]:
    """Codes beyond one end: at least twice as far as the values there are from each other.

    One of them is as far as the rest is wide, or there more than once.
    """
    edge, gap = rest[0], 2 * max(abs(a - b) for a, b in pairwise(rest[:4]))
    kept: list[float] = []
    for value in beyond:
        if kept or abs(value - edge) >= gap:
            kept.append(value)
        else:
            edge = value  # a value like others
    width = abs(edge - rest[-1])
    sure = any(abs(value - edge) >= width or seen[value][0] > 1 for value in kept)
    return [MissingCode(seen[value][1], seen[value][0]) for value in kept] if sure else []

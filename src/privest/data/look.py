"""A first look at a table, for its owner, who confirms or corrects it before any plan."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from privest.arrays import Array, Index
from privest.data.arrow import arrow, numbers, parsed
from privest.data.cells import Texts, composed, is_date, is_value
from privest.data.format import STATE_ENCODING, Format, as_format
from privest.data.lines import encoding_of, opened, require_names
from privest.data.source import EMBEDDED, OTHERS, SIZE, Source, ending_of, open_source
from privest.errors import InvalidInput
from privest.records import Record

CELLS = 1 << 19  # in a block
PART = 1 << 18  # bytes
FIRST = 4096  # rows in which the decimal mark is looked for
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
Kind = Literal["number", "yes-no", "text", "date", "empty", "unread"]
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
    """A column of a table, as it was found; "unread": no cell of it was looked at.

    problem    why it cannot be used.
    different  texts or numbers, sorted; None where they are many.
    codes      suspected to stand for a missing value.
    """

    name: str
    problem: str | None = None
    kind: Kind = "unread"
    missing: int = 0
    different: tuple[str, ...] | None = None
    codes: tuple[MissingCode, ...] = ()


@dataclass(frozen=True)
class TableLook(Record):
    """How a table is written, and what is in its public columns.

    rows       None: no cell was looked at.
    format     as stated, and as found where the file does not state it.
    notes      for the data owner, in sentences.
    """

    name: str
    rows: int | None
    columns: tuple[ColumnLook, ...]
    format: Format
    sheets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def inspect(
    data: object,
    format: Format | Mapping[str, Any] | None = None,
    *,
    public: Collection[str] = (),
) -> TableLook:
    """The columns of a table and what is suspicious in the public ones, whose names are stated.

    A plan is public: nothing in it may come from a private column. So of a column that is not
    stated as public nothing but its name is looked at.

    data    a file, a frame or a mapping. Encoding, separator and decimal mark of a text file are
            found where `format` does not state them, the mark only where it is clear.
    public  names of columns that may be published.

    Memory: a few blocks.

    >>> table = {"age": [50, 61, 999, 47], "sex": ["m", "f", "f", None], "ldl": [3.1, 2.2, 4, 3]}
    >>> found = inspect(table, public=["age", "sex"])
    >>> [(column.name, column.kind, column.missing) for column in found.columns]
    [('age', 'number', 0), ('sex', 'text', 1), ('ldl', 'unread', 0)]
    """
    stated, wanted = as_format(format), frozenset(map(composed, public))
    try:
        return _inspected(data, stated, wanted)
    except InvalidInput as error:
        if stated.encoding is not None or STATE_ENCODING not in str(error):
            raise
    look = _inspected(data, replace(stated, encoding="cp1252"), wanted)
    return replace(look, notes=(NOT_UTF8, *look.notes))


def _inspected(data: object, stated: Format, public: frozenset[str]) -> TableLook:
    source, notes = _opened(data, stated, public)
    if not source.certain:
        require_names(source.columns, source.name)
    source.require(sorted(public.difference(map(composed, source.columns))))
    problems = _problems(source, public)
    names = _readable(source, problems, public)
    counts = {name: ColumnCounts(name, source.format, _holds_texts(source, name)) for name in names}
    for block in _blocks(source, names):
        for name, column in block.items():
            counts[name].add(column)
    columns = [ColumnLook(*one) for one in zip(source.columns, problems)]
    columns = [counts[one.name].found() if one.name in counts else one for one in columns]
    rows = counts[names[0]].rows if names else None
    return TableLook(
        source.name, rows, tuple(columns), source.format, source.sheets,
        (*notes, *_notes(source, rows)),
    )  # fmt: skip


# --- format ---------------------------------------------------------------------------------------


def _opened(data: object, stated: Format, public: Collection[str]) -> tuple[Source, list[str]]:
    """The table, and notes on it; its format as found."""
    _require_text(data, stated)
    source, form, notes = open_source(data, stated), stated, list[str]()
    if source.separator is None:
        return source, notes
    if form.decimal is None:
        decimal = _found_decimal(_first_texts(source, public))
        if decimal is None:
            notes.append(COMMAS)
        form = replace(form, decimal="," if decimal == "," else None, separator=None)
    if source.separator not in (form.decimal, form.separator_of(source.name)):
        form = replace(form, separator=source.separator)
    return (source if form == source.format else open_source(data, form)), notes


def _require_text(data: object, stated: Format) -> None:
    """Refuse the beginning of another kind of file under the name of a text file."""
    if not isinstance(data, str | os.PathLike) or data == EMBEDDED or stated.encoding is not None:
        return
    path = Path(os.fsdecode(data))
    if ending_of(path.name) in (None, *OTHERS) or not path.is_file():
        return
    with opened(path, path.name) as file:
        start = file.read(PART)
    if encoding_of(start) == "utf-8" and (b"\0" in start or start.startswith(BINARY)):
        raise InvalidInput(
            f"{path.name} is not a text table but binary data. Give it the ending of its kind "
            "(.xlsx, .parquet, .csv.gz), or save the table as .csv; if it is UTF-16, state the "
            "`encoding`."
        )


def _first_texts(source: Source, public: Collection[str]) -> Iterator[list[str]]:
    with closing(_blocks(source, _readable(source, _names(source), public))) as blocks:
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


def _readable(source: Source, problems: Sequence[str | None], public: Collection[str]) -> list[str]:
    """The public columns without a problem: no cell of another one is read."""
    named = zip(source.columns, problems)
    return [name for name, problem in named if problem is None and composed(name) in public]


def _problems(source: Source, public: Collection[str]) -> list[str | None]:
    found = _names(source)
    if all(found):
        raise InvalidInput(
            f"{source.name} has no column that can be used: each needs a name of its own."
        )
    if source.certain:  # columns with types, some of which no text can be made of
        refused = {
            name: _refusal(source, name, text=True) for name in _readable(source, found, public)
        }
        found = [problem or refused.get(name) for name, problem in zip(source.columns, found)]
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
    """All cells of these columns as texts, in blocks of about CELLS."""
    if not names:
        return
    size = max(1, min(SIZE, CELLS // len(names)))
    for block in source.blocks(names, text=names, size=size):
        yield {name: column for name, column in block.items() if isinstance(column, Texts)}


def _notes(source: Source, rows: int | None) -> Iterator[str]:
    if rows == 0:
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
        self.dates = True
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
        few = None if many else tuple(different)
        return ColumnLook(self.name, None, kind, self.missing, few, tuple(codes))

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

"""Descriptions of plans, releases, estimates: sections of sentences, tables, charts, commands.

A sentence is a key of `WORDS` and its values, so that tests compare values and not wordings;
renderers make no word and no digit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privest.report import numbers
from privest.report.words import WORDS

KEPT = "\n\u200c\u200d"  # joiners are part of words in some scripts, and they move nothing


def printable(text: str) -> str:
    r"""`text` with its control characters written out: they would steer a terminal or a page.

    >>> printable("age \x1b[31m\u202egnirts"), printable("größe\nθ")
    ('age \\x1b[31m\\u202egnirts', 'größe\nθ')
    """
    if text.isprintable():
        return text
    return "".join(
        one
        if one.isprintable() or one in KEPT or unicodedata.category(one) == "Zs"
        else one.encode("unicode_escape").decode()
        for one in text
    )


@dataclass(frozen=True)
class Sentence:
    """A sentence of `WORDS` with its values; a warning stands out."""

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)
    warning: bool = False

    @property
    def text(self) -> str:
        return numbers.said(WORDS[self.key], self.values)


def say(key: str, **values: Any) -> Sentence:  # noqa: ANN401 - of any kind
    return Sentence(key, values)


def warn(key: str, **values: Any) -> Sentence:  # noqa: ANN401 - of any kind
    return Sentence(key, values, warning=True)


@dataclass(frozen=True)
class Number:
    """A number of a table, and its kind (`numbers.KINDS`)."""

    value: Any
    kind: str

    @property
    def text(self) -> str:
        return numbers.KINDS[self.kind](self.value)


Cell = str | Number | Sentence


def text_of(cell: Cell) -> str:
    """A cell for people: a name as it is, all else by its kind."""
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row names it. `facts`: cells may go over several lines."""

    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: Sentence | None = None
    facts: bool = False


def table(
    header: Sequence[Any],
    rows: Iterable[Iterable[Any]],
    caption: Sentence | None = None,
    *,
    facts: bool = False,
) -> Table:
    """A table of cells; its header by keys of sentences, or sentences."""
    named = tuple(say(one) if isinstance(one, str) else one for one in header)
    return Table(named, tuple(map(tuple, rows)), caption, facts)


@dataclass(frozen=True, eq=False)
class Chart:
    """Intervals of coefficients with and without privacy; alt: the same in a sentence."""

    data: Any
    alt: Sentence
    caption: Sentence


@dataclass(frozen=True)
class Commands:
    """Lines for a terminal, shown exactly."""

    lines: tuple[str, ...]


Part = Sentence | Table | Chart | Commands


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; `details` are folded where the medium can fold.

    key: by which a medium chooses sections. of: the private column, where there are several.
    """

    key: str
    heading: Sentence
    parts: tuple[Part, ...]
    details: tuple[Part, ...] = ()
    of: str = ""

    def __str__(self) -> str:
        from privest.report.terminal import as_text

        return as_text([self]).rstrip()

    def keys(self) -> list[str]:
        named = []
        for part in (self.heading, *self.parts, *self.details):
            if isinstance(part, Sentence):
                named.append(f"warning: {part.key}" if part.warning else part.key)
            elif isinstance(part, Table):
                named.append(f"table: {' | '.join(text_of(cell) for cell in part.header)}")
            elif isinstance(part, Chart):
                named.append("chart")
            else:
                named.append("commands")
        return named


def section(key: str, parts: Sequence[Part]) -> Section:
    return Section(key, say(key), tuple(parts))

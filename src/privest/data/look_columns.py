"""What a column holds, gathered block by block: numbers, words, dates, gaps, possible codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from privest.arrays import Array, Index
from privest.data.arrow import arrow, numbers, parsed
from privest.data.cells import Texts, is_date
from privest.data.format import Format
from privest.records import Record

Kind = Literal["number", "yes-no", "text", "date", "empty"]
MOST = 60  # different values or texts that are kept; more make no list of categories
LONGEST = 200  # letters of a text that is kept
MOST_WORDS = 20  # different words that a column of numbers may hold
LEAST_NUMBERS = 0.5  # the share of its cells that are numbers
# Typical codes: up to six 7, 8 or 9 (refused, not asked, unknown), and what machines write.
NINES = [float(digit * count) for digit in "789" for count in range(1, 7)]
MACHINES = [-1.0, 99.9, 999.9, 9999.9, 99.99, 999.99, -99.9, -999.9, -32768.0, 32767.0]
CODES = frozenset([*NINES, *(-code for code in NINES), *MACHINES])
ENDS = 12  # lowest and highest values among which codes are looked for
CLEAR = 77.0  # from here on one row will do for a code that is far from the rest
SHORT, OFTEN = 12, 3  # letters, and rows, of any other word that may be a code
WORDS = frozenset([
    "-", "--", "---", "?", "*", "x", "unknown", "unk", "refused", "missing", "not available",
    "not applicable", "no answer", "no data", "don't know", "dont know", "do not know", "dk",
    "declined", "prefer not to say", "not asked", "not known", "n.a.", "n/k", "nd", "#n/a", "#na",
    "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!", "(null)", "<na>", "nil",
    "undefined", "k.a.", "k. a.", "keine angabe", "unbekannt", "fehlt", "inconnu", "desconocido",
])  # fmt: skip


@dataclass(frozen=True)
class MissingCode(Record):
    """A value that may stand for a missing one, as it is written, and in how many rows.

    sure   it is far from everything else, or a word that means nothing else.
    plain  it looks like a code, and not like something a person wrote or has: known for it, or
           short and in several rows. A code is stated in the plan, which is public: of a private
           column, no other should be.
    """

    code: str
    rows: int
    sure: bool
    plain: bool = True


@dataclass(frozen=True)
class ColumnLook(Record):
    """A column of a table, as it was found.

    kind      "number"; "yes-no": 0 and 1, true and false; "text"; "date"; "empty": no value at all.
    missing   rows without a value: empty cells, NA and their like.
    different the different texts or numbers, sorted; None where they are many.
    whole     all numbers are whole, and none is below 0.
    words     of a column of numbers: the cells that are no numbers, and in how many rows each is.
    codes     what seems to stand for a missing value; a suspicion, to be confirmed.
    problem   why it cannot be used, if so.
    """

    name: str
    kind: Kind
    missing: int = 0
    different: tuple[str, ...] | None = None
    whole: bool = False
    words: tuple[tuple[str, int], ...] = ()
    codes: tuple[MissingCode, ...] = ()
    problem: str | None = None


class ColumnCounts:
    """What is known of a column after the blocks that were added.

    texts: its cells are texts by their type, and no numbers, whatever they look like.
    """

    def __init__(self, name: str, form: Format, texts: bool = False) -> None:
        self.name, self._form, self._texts = name, form, texts
        self.rows = self.missing = self.numbers = 0
        self.whole = self.dates = True
        self.values: dict[float, tuple[int, str]] = {}  # rows and spelling; of many, at the ends
        self.words: dict[str, int] = {}
        self.many_values = self.many_words = False

    def add(self, column: Texts) -> None:
        """The cells of some more rows."""
        words = column.words
        count = np.bincount(column.codes + 1, minlength=len(words.gaps))
        rows = np.append(count[1:], count[0])  # of code −1, the last
        there = ((rows > 0) & ~words.gaps)[:-1]
        self.rows += len(column)
        self.missing += len(column) - int(rows[:-1][there].sum())
        values = np.full(len(there), np.nan)
        if not self._texts:
            values = numbers(parsed(words.arrow, self._form)[0], self.name)
        word = np.isnan(values)
        self._add_words(words.arrow, np.flatnonzero(there & word), rows)
        self._add_numbers(words.arrow, np.flatnonzero(there & ~word), rows, values)

    def _add_words(self, texts: object, places: Index, rows: Index) -> None:
        self.dates = self.dates and all(map(is_date, _some(texts, places)))
        for text, count in zip(_some(texts, places[: MOST + 1]), rows[places].tolist()):
            short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
            self.words[short] = self.words.get(short, 0) + count
        if len(self.words) > MOST:
            self.many_words = True
            self.words = dict(list(self.words.items())[:MOST])

    def _add_numbers(self, texts: object, places: Index, rows: Index, values: Array) -> None:
        """Different values; of many, those at the ends, which were so after every block."""
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
        """The column, after the last block."""
        kind = self._kind()
        number = kind in ("number", "yes-no")
        written = [self.values[one][1] for one in sorted(self.values)]
        different = written if number else [*written, *sorted(self.words)]
        many = self.many_values or (self.many_words and not number) or len(different) > MOST
        return ColumnLook(
            self.name,
            kind,
            self.missing,
            None if many else tuple(different),
            number and self.whole,
            tuple(self.words.items()) if number else (),
            (*number_codes(self.values), *self._word_codes(True)) if number
            else tuple(self._word_codes(False)),
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

    def _word_codes(self, number: bool) -> list[MissingCode]:
        """Words that may be codes: in a column of numbers all of them are.

        Among texts only a sign is sure: "unknown" may be a category of its own.
        """
        found = []
        for text, rows in self.words.items():
            known = text.casefold() in WORDS
            sign = text.startswith("#") or not any(letter.isalnum() for letter in text)
            if "=" not in text and (number or known):
                plain = known or (rows >= OFTEN and len(text) <= SHORT)
                found.append(MissingCode(text, rows, known and (number or sign), plain))
        return found


def _some(texts: object, places: Index) -> list[str]:
    """The texts at these places of an Arrow array."""
    return texts.take(arrow().array(places)).to_pylist()  # type: ignore[attr-defined, no-any-return]


def number_codes(seen: Mapping[float, tuple[int, str]]) -> list[MissingCode]:
    """Typical codes at the ends of a column's values, apart from the rest.

    Apart: at least twice as far from the rest as the values at that end are from each other. One
    that is as far as the rest is wide is sure, and so are those beyond it.
    """
    ordered = sorted(seen)
    ends = sorted({*ordered[:ENDS], *ordered[-ENDS:]})
    rest = [value for value in ends if value not in CODES]
    if len(rest) < 2:  # nobody can say what is far from one value
        return []
    found = []
    for near, beyond in (
        (rest, [value for value in reversed(ends) if value < rest[0]]),
        (rest[::-1], [value for value in ends if value > rest[-1]]),
    ):
        kept: list[float] = []
        sure = often = False
        for value in beyond:
            distance = abs(value - near[0])
            if not kept and distance < 2 * max(abs(a - b) for a, b in pairwise(near[:4])):
                near = [value, *near]  # a value like others
                continue
            kept.append(value)
            far = distance >= abs(near[0] - near[-1])
            sure = sure or far
            often = often or seen[value][0] > 1 or (far and abs(value) >= CLEAR)
        found += [MissingCode(seen[v][1], seen[v][0], sure) for v in kept if often]
    return found

"""What a column holds, gathered block by block: numbers, words, dates, gaps, possible codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from privest.arrays import AnyArray, Array, Index
from privest.data._cells import TRUTHS, Texts, is_date
from privest.data._format import Format
from privest.records import Record

Kind = Literal["number", "yes-no", "text", "date", "empty"]
MOST = 60  # different values or texts that are kept; more make no list of categories
LONGEST = 200  # letters of a text that is kept
MOST_WORDS = 20  # different words that a column of numbers may hold
LEAST_NUMBERS = 0.5  # the share of its cells that are numbers
# Typical codes: up to six 7, 8 or 9 (refused, not asked, unknown), and what machines write.
CODES = frozenset(
    [float(digit * count) for digit in "789" for count in range(1, 7)]
    + [-float(digit * count) for digit in "789" for count in range(1, 7)]
    + [-1.0, 99.9, 999.9, 9999.9, 99.99, 999.99, -99.9, -999.9, -32768.0, 32767.0]
)
ENDS = 12  # lowest and highest values among which codes are looked for
FEWEST = 2  # rows that a code has, unless it is far beyond the rest
CLEAR = 77.0  # from here on one row will do, if it is far
FEWEST_OTHER = 3  # rows of any other word
SHORT = 12  # letters of any other word that may be a code
WORDS = frozenset([
    "-", "--", "---", "?", "*", "x", "unknown", "unk", "refused", "missing", "not available",
    "not applicable", "no answer", "no data", "don't know", "dont know", "do not know", "dk",
    "declined", "prefer not to say", "not asked", "not known", "n.a.", "n/k", "nd", "#n/a", "#na",
    "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!", "(null)", "<na>", "nil",
    "undefined", "k.a.", "k. a.", "keine angabe", "unbekannt", "fehlt", "inconnu", "desconocido",
])  # fmt: skip

Seen = dict[float, tuple[int, str]]  # rows of a value, and how it is written


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
        self.values: Seen = {}  # all of them, or those at the ends
        self.words: dict[str, int] = {}
        self.many_values = self.many_words = False

    def add(self, column: Texts) -> None:
        """The cells of some more rows."""
        count = np.bincount(column.codes + 1, minlength=len(column.distinct))
        rows = np.append(count[1:], count[0])  # of code −1, the last
        there = (rows > 0) & ~column.gaps
        self.rows += len(column)
        self.missing += len(column) - int(rows[there].sum())
        texts, rows = column.distinct[there], rows[there]
        values = self._values(texts.tolist())
        word = np.isnan(values)
        self._add_words(texts[word], rows[word])
        self._add_numbers(texts[~word], rows[~word], values[~word])

    def _values(self, texts: list[str]) -> Array:
        """The numbers that the texts are; NaN where one is none."""
        if self._texts:
            return np.full(len(texts), np.nan)
        try:
            joined = "".join(texts)
            if self._form.plain and joined.isascii() and "_" not in joined:
                return np.array([*map(float, texts)], dtype=np.float64)
        except ValueError:
            pass
        return np.array(
            [TRUTHS.get(text.lower(), self._form.as_number(text)) for text in texts],
            dtype=np.float64,
        )

    def _add_words(self, texts: AnyArray, rows: Index) -> None:
        self.dates = self.dates and all(map(is_date, texts))
        for text, count in zip(texts[: MOST + 1], rows.tolist()):
            short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
            self.words[short] = self.words.get(short, 0) + count
        if len(self.words) > MOST:
            self.many_words = True
            self.words = dict(list(self.words.items())[:MOST])

    def _add_numbers(self, texts: AnyArray, rows: Index, values: Array) -> None:
        """Different values; of many, those at the ends, which were so after every block."""
        self.numbers += int(rows.sum())
        finite = values[np.isfinite(values)]
        self.whole = self.whole and bool((finite >= 0).all() and (finite == np.rint(finite)).all())
        half, order = MOST // 2, np.argsort(values, kind="stable")
        for place in order if len(order) <= MOST else (*order[:half], *order[-half:]):
            value, text = float(values[place]), texts[place]
            if text.endswith(".0"):  # some formats give it to all
                text = text[:-2]
            count, written = self.values.get(value, (0, text))
            self.values[value] = count + int(rows[place]), written
        self.many_values = self.many_values or max(len(self.values), len(order)) > MOST
        if len(self.values) > MOST:
            ordered = sorted(self.values)
            self.values = {one: self.values[one] for one in ordered[:half] + ordered[-half:]}

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
            self._codes(number),
        )

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

    def _codes(self, number: bool) -> tuple[MissingCode, ...]:
        """Codes among the numbers; and words, which in a column of numbers are nothing else."""
        words = tuple(
            word_code(text, rows, beside_words=not number)
            for text, rows in self.words.items()
            if "=" not in text and (number or is_missing_word(text))
        )
        return (*number_codes(self.values), *words) if number else words


# --- codes ----------------------------------------------------------------------------------------


def word_code(text: str, rows: int, *, beside_words: bool = False) -> MissingCode:
    """A text as a code; `beside_words` as in `is_missing_word`.

    >>> [word_code(*one).plain for one in (("refused", 1), ("<LOD", 3), ("<LOD", 2))]
    [True, True, False]
    """
    plain = is_missing_word(text) or (rows >= FEWEST_OTHER and len(text) <= SHORT)
    return MissingCode(text, rows, is_missing_word(text, beside_words=beside_words), plain)


def is_missing_word(text: str, *, beside_words: bool = False) -> bool:
    """Whether a text is one of those that mostly stand for a missing value.

    `beside_words`: among other texts only a sign is; "unknown" may be a category of its own.
    """
    sign = text.startswith("#") or not any(letter.isalnum() for letter in text)
    return text.casefold() in WORDS and (sign or not beside_words)


def number_codes(seen: Mapping[float, tuple[int, str]]) -> tuple[MissingCode, ...]:
    """Typical codes at the ends of a column's values, apart from the rest.

    Apart: at least twice as far from the rest as the values at that end are from each other. One
    code that is `sure` makes the others at its end that, too.
    """
    ordered = sorted(seen)
    ends = sorted({*ordered[:ENDS], *ordered[-ENDS:]})
    rest = [value for value in ends if value not in CODES]
    if len(rest) < 2:  # nobody can say what is far from one value
        return ()
    below = [value for value in reversed(ends) if value < rest[0]]
    above = [value for value in ends if value > rest[-1]]
    return (*_apart(below, rest, seen), *_apart(above, rest[::-1], seen))


def _apart(
    found: Sequence[float], rest: Sequence[float], seen: Mapping[float, tuple[int, str]]
) -> tuple[MissingCode, ...]:
    """The codes beyond the rest, whose values are sorted from this end; nearest first.

    One that is not apart is a value like others, and those beyond it are measured from there.
    """
    near, sure, often = list(rest), False, False
    kept: list[float] = []
    for value in found:
        distance, rows = abs(value - near[0]), seen[value][0]
        step = max((abs(a - b) for a, b in pairwise(near[:4])), default=0.0)
        if distance < 2 * step and not kept:
            near.insert(0, value)
            continue
        far = distance >= abs(near[0] - near[-1])
        kept.append(value)
        sure = sure or far
        often = often or rows >= FEWEST or (far and abs(value) >= CLEAR)
    if not often:
        return ()
    return tuple(MissingCode(seen[value][1], seen[value][0], sure) for value in kept)

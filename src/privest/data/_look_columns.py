"""What a column holds, gathered block by block: numbers, words, dates, gaps; a few values kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from privest.arrays import Array, Index
from privest.data._arrow import spelled_numbers
from privest.data._cells import TRUTHS, Spelled, Texts
from privest.data._dates import is_date
from privest.data._look_codes import MissingCode, is_missing_word, number_codes, word_code
from privest.data._reading_options import Reading
from privest.records import Record

Kind = Literal["number", "yes-no", "text", "date", "empty"]
MOST = 60  # different values or texts that are kept; more make no list of categories
LONGEST = 200  # letters of a text that is kept
ENDS = 12  # lowest and highest values that are kept
MOST_WORDS = 20  # different words that a column of numbers may hold
LEAST_NUMBERS = 0.5  # the share of its cells that are numbers


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
    missing: int
    different: tuple[str, ...] | None = None
    whole: bool = False
    words: tuple[tuple[str, int], ...] = ()
    codes: tuple[MissingCode, ...] = ()
    problem: str | None = None


class ColumnCounts:
    """What is known of a column after the blocks that were added.

    texts: its cells are texts by their type, and no numbers, whatever they look like.
    """

    def __init__(self, name: str, reading: Reading, texts: bool = False) -> None:
        self.name, self._reading, self._texts = name, reading, texts
        self.rows = self.missing = self.numbers = self.dates = 0
        self.whole = True
        self.values: dict[float, tuple[int, str]] | None = {}  # None: too many
        self.words: dict[str, int] | None = {}
        self.lowest: dict[float, tuple[int, str]] = {}
        self.highest: dict[float, tuple[int, str]] = {}

    def add(self, column: Texts) -> None:
        """The cells of some more rows."""
        spelled, codes = column.spelled()
        there = codes[codes >= 0]
        self.rows += len(codes)
        self.missing += len(codes) - len(there)
        count = np.bincount(there, minlength=len(spelled))
        if self._texts:
            values = np.full(len(spelled), np.nan)
        elif isinstance(column.held, Spelled):
            values = spelled_numbers(spelled, self._reading)
        else:
            values = np.array([self._value(text) for text in spelled.texts[:-1]])
        values = np.where(count > 0, values, np.nan) if len(values) else np.empty(0)
        number = np.flatnonzero(~np.isnan(values))
        self._add_words(spelled, count, np.flatnonzero(np.isnan(values) & (count > 0)))
        self._add_numbers(spelled, count, values, number)

    def _value(self, text: str) -> float:
        return TRUTHS.get(text.lower(), self._reading.as_number(text))

    def _add_words(self, spelled: Spelled, count: Index, which: Index) -> None:
        if self.words is not None:
            for place in which[: MOST + 1]:
                text = _text(spelled, int(place))
                self.words[text] = self.words.get(text, 0) + int(count[place])
                self.dates += int(count[place]) * is_date(text)
            if len(self.words) > MOST:
                self._only_dates()
        if self.words is None and self.dates >= 0:
            every = all(is_date(_text(spelled, int(place))) for place in which)
            self.dates = self.dates + int(count[which].sum()) if every else -1

    def _only_dates(self) -> None:
        """From now on what is asked is whether all are dates: −1 says that they are not."""
        assert self.words is not None
        every = all(map(is_date, self.words))
        self.words, self.dates = None, 0 if every else -1

    def _add_numbers(self, spelled: Spelled, count: Index, values: Array, which: Index) -> None:
        if not len(which):
            return
        found = values[which]
        self.numbers += int(count[which].sum())
        finite = found[np.isfinite(found)]
        self.whole = self.whole and bool((finite >= 0).all() and (finite == np.rint(finite)).all())
        order = np.argsort(found, kind="stable")
        low, high = which[order[:ENDS]], which[order[::-1][:ENDS]]
        self.lowest = _kept(self.lowest, spelled, count, values, low, reverse=False)
        self.highest = _kept(self.highest, spelled, count, values, high, reverse=True)
        if self.values is not None:
            some = which[: MOST + 1]
            together = _joined(self.values, spelled, count, values, some)
            self.values = together if len(together) <= MOST and len(some) == len(which) else None

    # --- what it comes to -------------------------------------------------------------------------

    def found(self, problem: str | None = None) -> ColumnLook:
        """The column, after the last block."""
        kind = self._kind()
        words = self.words or {}
        number = kind in ("number", "yes-no")
        return ColumnLook(
            self.name,
            kind,
            self.missing,
            self._different(number),
            number and self.whole,
            tuple(words.items()) if number else (),
            self._codes(number),
            problem,
        )

    def _kind(self) -> Kind:
        there = self.rows - self.missing
        if not there:
            return "empty"
        if self.numbers == there:
            return "yes-no" if self.values and set(self.values) <= {0.0, 1.0} else "number"
        if not self.numbers and (
            self.dates == there if self.words is not None else self.dates >= 0
        ):
            return "date"
        few = self.words is not None and len(self.words) <= MOST_WORDS
        return "number" if few and self.numbers >= LEAST_NUMBERS * there else "text"

    def _different(self, number: bool) -> tuple[str, ...] | None:
        if self.values is None or (self.words is None and not number):
            return None
        values = [text for _, (_, text) in sorted(self.values.items())]
        if number:
            return tuple(values)
        found = (*values, *sorted(self.words or {}))
        return found if len(found) <= MOST else None

    def _codes(self, number: bool) -> tuple[MissingCode, ...]:
        """Codes among the numbers; and words, which in a column of numbers are nothing else."""
        words = tuple(
            word_code(text, rows, beside_words=not number)
            for text, rows in (self.words or {}).items()
            if "=" not in text and (number or is_missing_word(text))
        )
        if not number:
            return words
        return (*number_codes(self.lowest, self.highest), *words)


def _text(spelled: Spelled, place: int) -> str:
    text = spelled.bytes_at(place).decode("utf-8", "surrogatepass")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _joined(
    known: dict[float, tuple[int, str]],
    spelled: Spelled,
    count: Index,
    values: Array,
    which: Index,
) -> dict[float, tuple[int, str]]:
    """What is known, and these: how often a value is there, and how it is first written."""
    found = dict(known)
    for place in which.tolist():
        value = float(values[place])
        rows, text = found.get(value, (0, ""))
        found[value] = rows + int(count[place]), text or _short(_text(spelled, place), value)
    return found


def _short(text: str, value: float) -> str:
    """A whole number without its ".0", which some formats give to all."""
    return text[:-2] if text.endswith(".0") and value.is_integer() else text


def _kept(
    known: dict[float, tuple[int, str]],
    spelled: Spelled,
    count: Index,
    values: Array,
    which: Index,
    *,
    reverse: bool,
) -> dict[float, tuple[int, str]]:
    """The ENDS lowest, or highest, values; one of them in the end was so after every block."""
    found = _joined(known, spelled, count, values, which)
    return {value: found[value] for value in sorted(found, reverse=reverse)[:ENDS]}

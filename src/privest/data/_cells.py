"""What a cell of a table means: a number, a gap, or a text. Defined here for every reader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privest.arrays import AnyArray, Flags, Index, as_double


def _any_case(word: str) -> list[str]:
    return ["".join(letters) for letters in product(*({c, c.upper()} for c in word))]


# What stands for a missing value: in a text file, and in a text column of any source. These
# spellings one by one, because Arrow compares texts as they are.
WORDS = ("na", "n/a", "nan", "null", "none")
MISSING = ("", ".", *(text for word in WORDS for text in _any_case(word)))
_GAPS = frozenset(MISSING)
TRUTHS = {"true": 1.0, "false": 0.0}  # in any case


def is_number(text: str) -> bool:
    """Whether a text is written as a number: with a decimal point, nothing between thousands.

    >>> [is_number(text) for text in ("-1.5e3", " 2 ", "inf", "1,5", "1_000", "")]
    [True, True, True, False, False, False]
    """
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # Python's own: 1_000, and the digits of any script


def number(cell: object) -> float:
    """The number in a cell of text or JSON: NaN for a gap, 1 and 0 for true and false.

    An infinity stays one, for the caller to refuse. Raises ValueError for anything else.
    """
    try:
        found = as_double(cell)  # whatever a cell holds: most are numbers
    except (TypeError, ValueError):
        return _word(cell)
    if isinstance(cell, str) and not (cell.isascii() and "_" not in cell):  # as in `is_number`
        raise ValueError
    return found


def numbers(cells: Sequence[Any]) -> list[float]:
    """`number` of every cell of a row; in one go where they are texts and plain."""
    try:
        text = "".join(cells)
        if text.isascii() and "_" not in text:
            return list(map(float, cells))
    except (TypeError, ValueError):  # numbers of JSON; gaps, words
        pass
    return [number(cell) for cell in cells]


def _word(cell: object) -> float:
    """A gap or a truth; anything else is no number."""
    text = "" if cell is None else str(cell).strip()
    if text in _GAPS:
        return math.nan
    if text.lower() not in TRUTHS:
        raise ValueError
    return TRUTHS[text.lower()]


@dataclass(frozen=True, eq=False)
class Spelled:
    """Different texts in UTF-8, one after another: no Python object a text until one is asked for.

    The k-th is data[offsets[k] : offsets[k + 1]], bytes.

    >>> held = Spelled.of(["an", "ä"])
    >>> held.sizes.tolist(), held.texts.tolist()
    ([2, 2], ['an', 'ä', None])
    """

    data: NDArray[np.uint8]
    offsets: Index

    @classmethod
    def of(cls, texts: Sequence[str]) -> Spelled:
        """From the texts; half of a surrogate pair, which is no character, is kept as it is."""
        cells = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.zeros(len(cells) + 1, dtype=np.intp)
        np.cumsum([len(cell) for cell in cells], out=offsets[1:])
        return cls(np.frombuffer(b"".join(cells), dtype=np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Index:
        """In bytes."""
        return np.diff(self.offsets)

    @cached_property
    def texts(self) -> AnyArray:
        """An array of objects, and None after the last."""
        count = len(self)
        found = np.empty(count + 1, dtype=object)
        found[:count] = [self.bytes_at(k).decode("utf-8", "surrogatepass") for k in range(count)]
        return found

    def word_at(self, place: Index) -> NDArray[np.uint64]:
        """The eight bytes from these places on, as numbers; what is beyond the last is any."""
        found: NDArray[np.uint64] = self._eights[place]
        return found

    @cached_property
    def _eights(self) -> NDArray[np.uint64]:
        """Eight bytes from each byte on, in one memory: they overlap."""
        padded = np.zeros(len(self.data) + 8, dtype=np.uint8)
        padded[: len(self.data)] = self.data
        return np.ndarray((len(self.data) + 1,), "<u8", padded, strides=(1,))

    def bytes_at(self, place: int) -> bytes:
        """One of them."""
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes()


@dataclass(frozen=True, eq=False)
class Texts:
    """`distinct[codes]`; the last of `distinct` is None, so that code −1 is missing.

    Built with `of`, or from texts that are trimmed and none of MISSING: `held` are they, as
    objects or spelled.
    """

    held: AnyArray | Spelled
    codes: AnyArray

    @classmethod
    def of(cls, distinct: Sequence[object], codes: AnyArray) -> Texts:
        """From the distinct values, of any type, and codes with −1 where missing."""
        found = np.empty(len(distinct) + 1, dtype=object)
        for place, value in enumerate(distinct):
            text = None if is_missing(value) else str(value).strip()
            found[place] = None if text in _GAPS else text
        return cls(found, codes)

    @classmethod
    def encode(cls, cells: Sequence[Any]) -> Texts:
        """From the cells themselves, which must be hashable. Two dictionary steps a cell."""
        place = {value: k for k, value in enumerate(dict.fromkeys(cells))}
        codes = np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))
        return cls.of(list(place), codes)

    @property
    def distinct(self) -> AnyArray:
        """The texts as objects, and None."""
        return self.held.texts if isinstance(self.held, Spelled) else self.held

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Flags | slice) -> Texts:
        return Texts(self.held, self.codes[rows])

    @property
    def missing(self) -> Flags:
        """Where there is none."""
        if isinstance(self.held, Spelled):
            return np.asarray(self.codes < 0)
        return self.look_up([text is None for text in self.held])

    def spelled(self) -> tuple[Spelled, AnyArray]:
        """The texts, each of them once, and the codes among them; −1 where missing."""
        if isinstance(self.held, Spelled):
            return self.held, self.codes
        there = dict.fromkeys(text for text in self.held if text is not None)
        place = {text: k for k, text in enumerate(there)}
        codes = np.array([place.get(text, -1) for text in self.held], dtype=np.intp)
        return Spelled.of(list(there)), codes[self.codes]

    def look_up(self, values: Sequence[Any]) -> AnyArray:
        """For every cell, the value given for its distinct text."""
        found: AnyArray = np.asarray(values)[self.codes]
        return found

    def array(self) -> AnyArray:
        """The texts as an array of objects."""
        found: AnyArray = self.distinct[self.codes]
        return found


def is_missing(value: object) -> bool:
    """None, NaN, and pandas' NA and NaT (by name: pandas may not be there)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))

"""Numbers for names, 1, 2, ... in the order in which they come: a table of names, many at a time.

Names are kept letter by letter and compared so: a hash says only where to look, and two names never
get one number. A name of L bytes is L // 8 + 1 words, its last byte is how many of the last word
are the name's; names of as many words share a table (open addressing, linear probing, at most half
full), so that a block of names is looked up in some steps of NumPy.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from privest.arrays import Flags, Index
from privest.data._cells import Spelled

Words = NDArray[np.uint64]  # (names, words)

LONGEST = 32  # words; longer names are looked up one by one
LEAST = 1 << 10  # places of a table
WORD = 8  # bytes
# Whoever names the persons cannot choose names that all land in one place: Python's hash of a text
# is another in every process. The numbers do not depend on it.
_FACTORS: Words = np.frombuffer(
    hashlib.shake_128(str(hash("names")).encode()).digest(WORD * LONGEST), dtype="<u8"
).astype(np.uint64) | np.uint64(1)


class KnownNames:
    """Names that were met, each with its number. Memory: some three times their letters.

    >>> known = KnownNames()
    >>> known.numbers(Spelled.of(["b", "a"]), np.array([0, 1])).tolist()
    [1, 2]
    >>> known.numbers(Spelled.of(["a", "c", "d"]), np.array([2, 0])).tolist(), known.count
    ([3, 2], 3)
    """

    def __init__(self) -> None:
        self.count = 0
        self._tables: dict[int, _Table] = {}
        self._long: dict[bytes, int] = {}

    def numbers(self, names: Spelled, which: Index) -> Index:
        """Of these of the names; those of them that are new are known from now on."""
        size = names.sizes[which] // WORD + 1
        found = np.zeros(len(which), dtype=np.intp)
        parts = [_Part(names, which, place, width) for width, place in _alike(size)]
        for part in parts:
            found[part.place] = self._found(part)
        new = found == 0
        fresh = int(new.sum())
        found[new] = np.arange(self.count + 1, self.count + fresh + 1)
        self.count += fresh
        for part in parts:
            self._learn(part, new[part.place], found[part.place])
        return found

    def _found(self, part: _Part) -> Index:
        if part.words is None:
            return np.array([self._long.get(name, 0) for name in part.long], dtype=np.intp)
        width = part.words.shape[1]
        if width not in self._tables:
            self._tables[width] = _Table(width)
        return self._tables[width].find(part.words)

    def _learn(self, part: _Part, new: Flags, numbers: Index) -> None:
        if not new.any():
            return
        if part.words is None:
            self._long |= {part.long[k]: int(numbers[k]) for k in np.flatnonzero(new)}
        else:
            self._tables[part.words.shape[1]].put(part.words[new], numbers[new])


class _Part:
    """Names of one number of words: where they are among those asked for, and their words.

    Beyond LONGEST words: their bytes.
    """

    def __init__(self, names: Spelled, which: Index, place: Index | slice, width: int) -> None:
        own = which[place]
        self.place = place
        self.words = _words(names, own, width) if width <= LONGEST else None
        self.long = [] if width <= LONGEST else [names.bytes_at(int(k)) for k in own]


def _alike(sizes: Index) -> list[tuple[int, Index | slice]]:
    """The different sizes, and where each of them is."""
    if len(sizes) and (sizes == sizes[0]).all():
        return [(int(sizes[0]), slice(None))]
    return [(int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes)]


def _words(names: Spelled, which: Index, width: int) -> Words:
    """(names, width): their bytes, and in the last byte how many of the last word are theirs."""
    first, count = names.offsets[which], names.sizes[which] % WORD
    found = np.empty((len(which), width), dtype=np.uint64)
    for k in range(width):
        found[:, k] = names.word_at(first + WORD * k)
    own = (np.uint64(1) << (WORD * count).astype(np.uint64)) - np.uint64(1)
    found[:, -1] &= own
    found[:, -1] |= count.astype(np.uint64) << np.uint64(56)
    return found


class _Table:
    """Names of one number of words: `_numbers` (places,), 0 where nobody is, and `_words` there."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self._make(LEAST, width)

    def _make(self, places: int, width: int) -> None:
        self._numbers: Index = np.zeros(places, dtype=np.intp)
        self._words: Words = np.zeros((places, width), dtype=np.uint64)
        self._shift = np.uint64(64 - (places.bit_length() - 1))

    def _homes(self, words: Words) -> Index:
        """Where to look first: the upper bits of Σ factor·word."""
        mixed = words[:, 0] * _FACTORS[0]
        for k in range(1, words.shape[1]):
            mixed = mixed + words[:, k] * _FACTORS[k]
        return np.asarray(mixed >> self._shift).astype(np.intp)

    def find(self, words: Words) -> Index:
        """Their numbers, 0 for who is not there."""
        found = np.zeros(len(words), dtype=np.intp)
        at, left, last = self._homes(words), np.arange(len(words)), len(self._numbers) - 1
        while len(left):
            number = self._numbers[at]
            same = self._same(words[left] if len(left) < len(words) else words, at)
            hit = same & (number > 0)
            found[left[hit]] = number[hit]
            on = (number > 0) & ~same
            left, at = left[on], (at[on] + 1) & last
        return found

    def _same(self, words: Words, at: Index) -> Flags:
        same: Flags = self._words[at, 0] == words[:, 0]
        for k in range(1, words.shape[1]):
            same &= self._words[at, k] == words[:, k]
        return same

    def put(self, words: Words, numbers: Index) -> None:
        """Names that are different and not there."""
        self.count += len(numbers)
        if 2 * self.count > len(self._numbers):
            here = self._numbers > 0
            words = np.concatenate([self._words[here], words])
            numbers = np.concatenate([self._numbers[here], numbers])
            self._make(1 << (2 * self.count).bit_length(), words.shape[1])
        at, left, last = self._homes(words), np.arange(len(words)), len(self._numbers) - 1
        while len(left):
            free = self._numbers[at] == 0
            self._numbers[at[free]] = numbers[left[free]]  # of several for one place one stays
            got = free & (self._numbers[at] == numbers[left])
            self._words[at[got]] = words[left[got]]
            left, at = left[~got], (at[~got] + 1) & last

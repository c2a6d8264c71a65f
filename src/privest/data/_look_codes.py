"""Values that seem to stand for a missing one: typical codes that stand apart from the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from privest.records import Record

# 7, 8 and 9, up to six of them: refused, not asked, unknown. And what machines write.
TYPICAL = frozenset(
    [float(digit * count) for digit in "789" for count in range(1, 7)]
    + [-float(digit * count) for digit in "789" for count in range(1, 7)]
    + [-1.0, 99.9, 999.9, 9999.9, 99.99, 999.99, -99.9, -999.9]
)
FEWEST = 2  # rows that a typical code has, unless it is far beyond the rest
CLEAR = 77.0  # from here on one row will do, if it is far
FEWEST_OTHER = 3  # rows of any other value, which must be far beyond
SHORT = 12  # letters of any other text that may be a code
DISTANCE = 3.0  # such a value is further from the rest than so many times what it spans
WORDS = frozenset([
    "-", "--", "---", "?", "*", "x", "unknown", "unk", "refused", "missing", "not available",
    "not applicable", "no answer", "no data", "don't know", "dont know", "do not know", "dk",
    "declined", "prefer not to say", "not asked", "not known", "n.a.", "n/k", "nd", "#n/a", "#na",
    "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!", "(null)", "<na>", "nil",
    "undefined", "k.a.", "k. a.", "keine angabe", "unbekannt", "fehlt", "inconnu", "desconocido",
])  # fmt: skip

Seen: TypeAlias = Mapping[
    float, tuple[int, str]
]  # how often a value is there, and how it is written


@dataclass(frozen=True)
class MissingCode(Record):
    """A value that may stand for a missing one, as it is written, and in how many rows.

    sure   it is far from everything else, or a word that means nothing else.
    plain  it looks like a code, and not like what somebody wrote or has: known for it, or short
           and in several rows. A code is stated in the plan, which is public: of a column that is
           not, no other should be.
    """

    code: str
    rows: int
    sure: bool
    plain: bool = True


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


def number_codes(lowest: Seen, highest: Seen) -> tuple[MissingCode, ...]:
    """Those among the lowest and the highest values of a column.

    A typical code is one if it is at least twice as far from the rest as the values at that end
    are from each other; any other value if it is often there, and further away than the rest is
    wide. One code that is `sure` makes the others at its end that, too.
    """
    ends = {**lowest, **highest}
    codes = {value for value in ends if value in TYPICAL}
    rest = sorted(value for value in ends if value not in codes)
    if not rest:
        return ()
    up = _apart(sorted(value for value in highest if value > rest[-1]), rest[::-1], highest)
    down = _apart(sorted((v for v in lowest if v < rest[0]), reverse=True), rest, lowest)
    others = () if up or down else _far(rest, ends)
    return (*down, *others, *up)


def _apart(found: Sequence[float], rest: Sequence[float], seen: Seen) -> tuple[MissingCode, ...]:
    """The typical codes beyond the rest, whose values are sorted from this end; nearest first.

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
    if not often or len(rest) < 2:  # of one value nobody can say what is far from it
        return ()
    return tuple(MissingCode(seen[value][1], seen[value][0], sure) for value in kept)


def _far(rest: Sequence[float], seen: Seen) -> tuple[MissingCode, ...]:
    """A value that is no typical code, often there, and much further away than the rest is wide."""
    found = []
    for value, inner in ((rest[0], rest[1:]), (rest[-1], rest[:-1])):
        if len(inner) > DISTANCE and seen[value][0] >= FEWEST_OTHER:
            width = inner[-1] - inner[0]
            distance = min(abs(value - inner[0]), abs(value - inner[-1]))
            if width > 0 and distance > DISTANCE * width:
                found.append(MissingCode(seen[value][1], seen[value][0], True))
    return tuple(found)

"""From columns to the rows of H: a design is a list of terms, each a product of factors.

A factor is a number a row, or a category with its public list (`_factors`). Categories are coded so
that no column repeats what others say. Within a term a category is coded in full (a column each) or
against its baseline. Terms with the same numbers in them share a space: a term over the categories
{a, b} spans the parts {}, {a}, {b} and {a, b}, each coded against baselines. Parts that terms
before it have brought are left out, and the rest is put together in as few pieces as possible:
{a, b} and {a} are one piece, a against its baseline times b in full. This is the rule of R, patsy
and formulaic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privest.arrays import AnyArray, Array, Flags
from privest.data.cells import MISSING, TRUTHS, Texts, is_number
from privest.data.factors import Category, Factor, Number, plain_factor
from privest.data.names import composed, meant
from privest.errors import InvalidInput

INTERCEPT = "intercept"
RELEASED = "z"  # the column of a release file; a feature of that name could not stand beside it

Part = frozenset[Category]


class Design:
    """How columns become the rows of H: named columns (`Features`), or a formula.

    columns     of the table, that are read; `text`: those of them to be read as texts.
    names       of the columns of H; `intercept`: whether the first of them is a constant.
    categories  the public list of each column that has one, its baseline first.
    """

    terms: tuple[tuple[Factor, ...], ...]
    columns: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    intercept: bool

    @property
    def text(self) -> frozenset[str]:
        """The columns to be read as texts."""
        return frozenset(self.categories)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the columns of H, which are those of θ."""
        return tuple(name or INTERCEPT for piece in self._pieces for name in piece.names)

    @cached_property
    def _pieces(self) -> list[Piece]:
        return _pieces_of(self.terms)

    def matrix(
        self, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp] | None = None
    ) -> Array:
        """The rows of H (rows, n) of a block without missing values.

        `line`: the row numbers for messages; counted from 1 where not given. An unknown category, a
        missing value and an infinity are refused with column and row.
        """
        rows = len(next(iter(block.values())) if not self.columns else block[self.columns[0]])
        line = np.arange(1, rows + 1) if line is None else line
        values = {one: _values(one, block, line) for term in self.terms for one in term}
        H = np.empty((rows, len(self.names)))
        at = 0
        for piece in self._pieces:
            found: AnyArray = np.ones((rows, 1))
            for factor in piece.factors:
                own = values[factor]
                if isinstance(factor, Category) and factor not in piece.full:
                    own = own[:, 1:]
                if len(piece.factors) > 1:  # products of columns; those of the first go slowest
                    own = (found[:, :, None] * own[:, None, :]).reshape(rows, -1)
                found = own
            H[:, at : at + found.shape[1]] = found
            at += found.shape[1]
        return H

    def _require_names(self) -> None:
        """Refuse names that privest uses, no parameters at all, and two of one name."""
        taken = sorted({INTERCEPT, RELEASED} & set(self.columns))
        if taken:
            raise InvalidInput(
                f"a feature cannot be called {taken[0]!r}, a name privest uses: rename the column."
            )
        if not self.names:
            raise InvalidInput("a model needs an intercept or at least one feature.")
        _require_different("the parameters", self.names)


@dataclass(frozen=True)
class Features(Design):
    """Which columns make a row of H, and how. All of it is public, the lists of categories too.

    `categories` gives the list of each categorical column. It becomes one 0/1 column a category
    but the first, the baseline, whose level the intercept carries. Without an intercept the first
    categorical column keeps its baseline too.

    A cell belongs to a category if their texts are equal after trimming; failing that, if both
    are numbers and equal as numbers ("1", 1, 1.0 and "01"), or both the words true or false in any
    case. A list with two names for one number ("1", "01") is matched by text only there. The two
    ways in which Unicode writes an accented letter are one.

    >>> features = Features(("age", "sex"), {"sex": ("female", "male")})
    >>> features.names
    ('intercept', 'age', 'sex=male')
    >>> block = {"age": np.array([50.0, 61.0]), "sex": np.array(["male", "female"], dtype=object)}
    >>> features.matrix(block).tolist()
    [[1.0, 50.0, 1.0], [1.0, 61.0, 0.0]]
    """

    columns: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    intercept: bool = True

    def __post_init__(self) -> None:
        columns = _name_list("the features", self.columns)
        lists = {name: category_list(name, given) for name, given in self.categories.items()}
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "categories", lists)
        stray = [name for name in lists if name not in columns]
        if stray:
            raise InvalidInput(
                f"a list of categories was given for {stray}, not a feature."
                f"{meant(stray[0], columns)}"
            )
        _require_different("the features", columns)  # "sex" twice is clearer than "sex=male" twice
        factors = [plain_factor(name, lists) for name in columns]
        constant: list[tuple[Factor, ...]] = [()] if self.intercept else []
        object.__setattr__(self, "terms", (*constant, *((one,) for one in factors)))
        self._require_names()


def _values(
    factor: Factor, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp]
) -> AnyArray:
    """(rows, 1) of a number, (rows, categories) of a category."""
    if isinstance(factor, Category):
        return _indicators(block[factor.column], factor, line)
    for name in factor.columns:
        if isinstance(block[name], Texts):
            raise InvalidInput(f"column {name!r} was read as text; it has no categories.")
    found = factor.values(block)
    finite = np.isfinite(found)
    if not finite.all():
        raise InvalidInput(
            f"column {factor.label!r}, row {line[np.argmin(finite)]}: missing or infinite."
        )
    return found[:, None]


# --- coding ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Columns of H: the product of the factors, those in `full` with a column for each category."""

    factors: tuple[Factor, ...]
    full: Part

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns; the first factor goes slowest."""
        found: tuple[str, ...] = ("",)
        for factor in self.factors:
            own = (
                (factor.label,) if isinstance(factor, Number) else factor.names(factor in self.full)
            )
            found = tuple(f"{before}:{one}" if before else one for before in found for one in own)
        return found


def _pieces_of(terms: Iterable[Sequence[Factor]]) -> list[Piece]:
    """The pieces of all terms, in their order; the intercept is a term without factors."""
    brought: dict[frozenset[str], set[Part]] = {}
    found = []
    for factors in terms:
        numbers = frozenset(one.label for one in factors if isinstance(one, Number))
        listed = [one for one in factors if isinstance(one, Category)]
        known = brought.setdefault(numbers, set())
        every = (
            frozenset(chosen)
            for size in range(len(listed) + 1)
            for chosen in combinations(listed, size)
        )
        parts = [part for part in every if part not in known]
        known.update(parts)
        for present, full in _together(parts):
            kept = tuple(one for one in factors if isinstance(one, Number) or one in present)
            found.append(Piece(kept, full))
    return found


def _together(parts: Sequence[Part]) -> list[tuple[Part, Part]]:
    """(categories present, those in full): a part takes in one that lacks one of its own."""
    open_: list[tuple[Part, Part]] = [(part, frozenset()) for part in parts]
    merged = True
    while merged:
        merged = False
        for (k, (short, coded)), (j, (long, full)) in combinations(enumerate(open_), 2):
            more = long - short
            if short < long and len(more) == 1 and coded == full:
                open_[j] = (long, full | more)
                del open_[k]
                merged = True
                break
    return open_


# --- categories -----------------------------------------------------------------------------------


def category_place(value: object, listed: tuple[str, ...]) -> int | None:
    """Which of the list a value is, by the rule for cells; None: none of it.

    >>> category_place(1.0, ("0", "1")), category_place("mal", ("female", "male"))
    (1, None)
    """
    place = int(_places(Texts.encode([str(value).strip()]), listed)[0])
    return None if place < 0 else place


def category_list(name: str, given: str | Sequence[object]) -> tuple[str, ...]:
    """A public list of categories, trimmed and checked."""
    found = tuple(one.strip() for one in _name_list(f"the categories of {name!r}", given))
    different = len({composed(one) for one in found})
    if len(found) < 2 or different < len(found):
        raise InvalidInput(
            f"the categories of {name!r} must be two or more and different; received {len(found)}, "
            f"{different} different."
        )
    missing = [one for one in found if one in MISSING]
    if missing:
        raise InvalidInput(
            f"the categories of {name!r} include {missing}, which means a missing value: "
            "give that category another name in the data."
        )
    return found


def _name_list(what: str, given: str | Sequence[object]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidInput(f"{what} must be a list of names, not one text.")
    return tuple(str(one) for one in given)


def _require_different(what: str, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput(f"{what} have a name more than once: {twice}.")


def _indicators(cells: AnyArray | Texts, factor: Category, line: NDArray[np.intp]) -> Flags:
    """(rows, categories): which of the list each cell is; a cell that is none of it is refused."""
    texts = cells if isinstance(cells, Texts) else Texts.encode(cells.tolist())
    places = _places(texts, factor.listed)
    if (places < 0).any():
        row = int(np.argmax(places < 0))
        why = _not_listed(texts.distinct[texts.codes[row]], factor.listed)
        raise InvalidInput(f"column {factor.column!r}, row {line[row]}: {why}")
    found: Flags = places[:, None] == np.arange(len(factor.listed))
    return found


def _places(texts: Texts, listed: tuple[str, ...]) -> NDArray[np.intp]:
    """The place of each cell in the list; −1 where it has none."""
    exact = {composed(one): place for place, one in enumerate(listed)}
    keys = [_key(one) for one in listed]
    count = Counter(keys)
    alike = {key: place for place, key in enumerate(keys) if key is not None and count[key] == 1}

    def place(text: str | None) -> int:
        if text is None:
            return -1
        key = _key(text)
        return exact.get(composed(text), -1 if key is None else alike.get(key, -1))

    return texts.look_up([place(text) for text in texts.distinct])


def _not_listed(text: str | None, listed: tuple[str, ...]) -> str:
    """The message about a cell that has no place in the list: never what it holds."""
    seen = "" if text is None else composed(text).casefold()
    same = [one for one in listed if composed(one).casefold() == seen]
    if same:
        return f"its capital letters are not those of {same[0]!r} in the public list."
    return (
        f"missing, or not in the public list of {len(listed)} categories. Correct the cell or the "
        "list; never make the list from private data."
    )


def _key(text: str) -> tuple[str, float] | None:
    """What a text means beside its letters: a number, or true or false."""
    word = text.lower()
    if word in TRUTHS:
        return "word", TRUTHS[word]
    return ("number", float(text)) if is_number(text) else None

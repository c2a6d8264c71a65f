"""From columns to the rows of H."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privest.arrays import AnyArray, Array, Flags
from privest.data._cells import MISSING, TRUTHS, Texts, is_number
from privest.data._names import composed, meant
from privest.errors import InvalidInput

INTERCEPT = "intercept"
RELEASED = "z"  # the column of a release file; a feature of that name could not stand beside it


class Design(Protocol):
    """How columns become the rows of H: named columns (`Features`), or a formula.

    columns    of the table, that are read; `text`: those of them to be read as texts.
    names      of the columns of H; `intercept`: whether the first of them is a constant.
    categories the public list of each column that has one, its baseline first.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def text(self) -> frozenset[str]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def intercept(self) -> bool: ...
    @property
    def categories(self) -> Mapping[str, tuple[str, ...]]: ...

    def matrix(
        self, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp] | None = None
    ) -> Array:
        """The rows of H (rows, n) of a block without missing values."""
        ...


@dataclass(frozen=True)
class Features:
    """Which columns make a row of H, and how. All of it is public, the lists of categories too.

    `categories` gives the list of each categorical column. It becomes one 0/1 column a category
    but the first, the baseline, whose level the intercept carries. Without an intercept the first
    categorical column keeps its baseline too; with it in others their columns would add up to the
    same vector.

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
        if not columns and not self.intercept:
            raise InvalidInput("a model needs an intercept or at least one feature.")
        taken = sorted({INTERCEPT, RELEASED} & set(columns))
        if taken:
            raise InvalidInput(
                f"a feature cannot be called {taken[0]!r}, a name privest uses: rename the column."
            )
        stray = [name for name in lists if name not in columns]
        if stray:
            raise InvalidInput(
                f"a list of categories was given for {stray}, not a feature."
                f"{meant(stray[0], columns)}"
            )
        require_different("the features", columns)  # "sex" twice is clearer than "sex=male" twice
        require_different("the parameters", self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns of H, which are those of θ."""
        parts: list[tuple[str, ...]] = [(INTERCEPT,)] if self.intercept else []
        for name in self.columns:
            kept = self._kept(name)
            parts.append((name,) if kept is None else tuple(f"{name}={one}" for one in kept))
        return tuple(name for part in parts for name in part)

    @property
    def text(self) -> frozenset[str]:
        """The columns to be read as texts."""
        return frozenset(self.categories)

    def matrix(
        self, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp] | None = None
    ) -> Array:
        """The rows of H (rows, n) of a block without missing values.

        `line`: the row numbers for messages; counted from 1 where not given. An unknown category, a
        missing value and an infinity are refused with column and row.
        """
        if not self.columns:
            rows = len(next(iter(block.values())))
            return np.ones((rows, 1))
        rows = len(block[self.columns[0]])
        line = np.arange(1, rows + 1) if line is None else line
        H = np.empty((rows, len(self.names)))
        H[:, : int(self.intercept)] = 1.0
        at = int(self.intercept)
        for name in self.columns:
            kept = self._kept(name)
            column = block[name]
            if kept is None:
                if isinstance(column, Texts):
                    raise InvalidInput(f"column {name!r} was read as text; it has no categories.")
                finite = np.isfinite(column)
                if not finite.all():
                    raise InvalidInput(
                        f"column {name!r}, row {line[np.argmin(finite)]}: missing or infinite."
                    )
                H[:, at] = column
                at += 1
                continue
            listed = self.categories[name]
            first = len(listed) - len(kept)
            H[:, at : at + len(kept)] = indicator_columns(column, name, listed, line, first)
            at += len(kept)
        return H

    def _kept(self, name: str) -> tuple[str, ...] | None:
        """The categories with a column of their own; None for a number."""
        given = self.categories.get(name)
        if given is None:
            return None
        first = next(one for one in self.columns if one in self.categories)
        return given if not self.intercept and name == first else given[1:]


def indicator_columns(
    cells: AnyArray | Texts,
    name: str,
    listed: tuple[str, ...],
    line: NDArray[np.intp],
    first: int = 0,
) -> Flags:
    """(rows, categories from `first` on): which of the list each cell is; none of it: refused."""
    codes = _codes(cells, listed)
    if (codes < 0).any():
        raise InvalidInput(
            f"column {name!r}, row {line[np.argmax(codes < 0)]}: "
            f"{_not_listed(cells, codes, listed)}"
        )
    found: Flags = codes[:, None] == np.arange(first, len(listed))
    return found


def category_place(value: object, listed: tuple[str, ...]) -> int | None:
    """Which of the list a value is, by the rule for cells; None: none of it.

    >>> category_place(1.0, ("0", "1")), category_place("mal", ("female", "male"))
    (1, None)
    """
    place = int(_codes(Texts.encode([str(value).strip()]), listed)[0])
    return None if place < 0 else place


def require_different(what: str, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput(f"{what} have a name more than once: {twice}.")


def _name_list(what: str, given: str | Sequence[object]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidInput(f"{what} must be a list of names, not one text.")
    return tuple(str(one) for one in given)


def category_list(name: str, given: str | Sequence[object]) -> tuple[str, ...]:
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


def _codes(cells: AnyArray | Texts, categories: tuple[str, ...]) -> NDArray[np.intp]:
    """The place of each cell in the list; −1 where it has none."""
    texts = cells if isinstance(cells, Texts) else Texts.encode(cells.tolist())
    exact = {composed(one): place for place, one in enumerate(categories)}
    keys = [_key(one) for one in categories]
    count = Counter(keys)
    alike = {key: place for place, key in enumerate(keys) if key is not None and count[key] == 1}

    def place(text: str | None) -> int:
        if text is None:
            return -1
        key = _key(text)
        return exact.get(composed(text), -1 if key is None else alike.get(key, -1))

    return texts.look_up([place(text) for text in texts.distinct])


def _not_listed(cells: AnyArray | Texts, codes: NDArray[np.intp], given: tuple[str, ...]) -> str:
    """What to say of the first cell that has no place in the list: never what it holds.

    One of the list (which is public) is named where the cell is the same but for its capitals.
    """
    row = int(np.argmax(codes < 0))
    text = cells.distinct[cells.codes[row]] if isinstance(cells, Texts) else cells[row]
    seen = "" if text is None else composed(str(text)).casefold()
    same = [one for one in given if composed(one).casefold() == seen]
    if same:
        return (
            f"its capital letters are not those of {same[0]!r} in the public list. Write it the "
            "same way in both."
        )
    return (
        f"missing, or not in the public list of {len(given)} categories. Correct the cell or the "
        "list; never make the list from private data."
    )


def _key(text: str) -> tuple[str, float] | None:
    """What a text means beside its letters: a number, or true or false."""
    word = text.lower()
    if word in TRUTHS:
        return "word", TRUTHS[word]
    return ("number", float(text)) if is_number(text) else None

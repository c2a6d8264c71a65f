"""From columns to the rows of H: a design is a list of terms, each a product of factors.

A factor is a number per row, or a category with its public list, coded by 0/1 columns against its
baseline, the first of the list. Without an intercept the first term of categories alone has columns
for baselines too. Other products with a category need their parts: a*b, not a:b alone. The columns
are then those of R, patsy and formulaic.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privest.arrays import AnyArray, Array, Flags
from privest.data.cells import MISSING, TRUTHS, Texts, composed, is_number, meant
from privest.errors import InvalidInput

INTERCEPT = "intercept"
RELEASED = "z"  # the column of a release file; a feature of that name could not stand beside it

FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "exp": np.exp,
    "sqrt": np.sqrt, "abs": np.abs, "I": lambda value: value,
}  # fmt: skip
ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: np.power,
}  # fmt: skip

Block = Mapping[str, AnyArray | Texts]


@dataclass(frozen=True)
class Number:
    """A number per row, called `label`, from numeric columns."""

    label: str
    columns: tuple[str, ...]
    tree: ast.expr = field(compare=False, repr=False)

    def values(self, block: Block) -> Array:
        rows = len(block[self.columns[0]])
        with np.errstate(all="ignore"):
            found = np.asarray(_value(self.tree, block), dtype=np.float64)
        return np.broadcast_to(found, (rows,))

    @property
    def logarithm(self) -> bool:
        tree = self.tree
        return called(tree) == "log" and isinstance(getattr(tree, "args", [0])[0], ast.Name)


@dataclass(frozen=True)
class Category:
    """A column with a public list of categories, the first of them the baseline."""

    column: str
    listed: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def names(self, full: bool) -> tuple[str, ...]:
        """Names of its 0/1 columns; `full`: with the baseline."""
        return tuple(f"{self.column}={one}" for one in self.listed[0 if full else 1 :])


Factor = Number | Category
Lists = Mapping[str, tuple[str, ...]]


def plain_factor(name: str, categories: Lists) -> Factor:
    if name in categories:
        return Category(name, categories[name])
    return Number(name, (name,), ast.Name(id=name))


def called(tree: ast.expr) -> str | None:
    match tree:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name)):
            return name
    return None


def _value(tree: ast.expr, block: Block) -> Any:  # noqa: ANN401 - an array or a number
    match tree:
        case ast.Name(id=name):
            return block[name]
        case ast.Constant(value=int() | float() as value):
            try:
                return np.float64(value)  # at once: whole numbers of Python grow without end
            except OverflowError:
                return np.float64(np.inf)
        case ast.UnaryOp(op=op, operand=inner):
            found = _value(inner, block)
            return -found if isinstance(op, ast.USub) else found
        case ast.BinOp(left=left, op=op, right=right):
            return ARITHMETIC[type(op)](_value(left, block), _value(right, block))
        case ast.Call(args=[inner]):
            return FUNCTIONS[called(tree) or ""](_value(inner, block))
    raise AssertionError(ast.dump(tree))  # `_columns` refuses all others


# --- designs --------------------------------------------------------------------------------------


class Design:
    """How columns become the rows of H: named columns (`Features`), or a formula.

    terms       products of factors; () is the intercept.
    columns     of the table, that are read; `text`: as texts.
    categories  the public list of each column that has one, its baseline first.
    """

    terms: tuple[tuple[Factor, ...], ...]
    columns: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    intercept: bool

    @property
    def text(self) -> frozenset[str]:
        return frozenset(self.categories)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of H and of θ; the first factor of a product goes slowest."""
        found = []
        for term in self.terms:
            parts = (
                one.names(term == self._full) if isinstance(one, Category) else (one.label,)
                for one in term
            )
            found += [":".join(chosen) or INTERCEPT for chosen in product(*parts)]
        return tuple(found)

    @cached_property
    def _full(self) -> tuple[Factor, ...] | None:
        """The term of categories with columns for their baselines too."""
        every = (term for term in self.terms if all(isinstance(one, Category) for one in term))
        return None if () in self.terms else next(every, None)

    def matrix(
        self, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp] | None = None
    ) -> Array:
        """The rows of H (rows, n) of a block without gaps; `line`: their numbers, for messages."""
        rows = len(next(iter(block.values())) if not self.columns else block[self.columns[0]])
        line = np.arange(1, rows + 1) if line is None else line
        values = {one: _values(one, block, line) for term in self.terms for one in term}
        H = np.empty((rows, len(self.names)), order="F")  # written and used by columns
        at = 0
        for term in self.terms:
            found: AnyArray = np.ones((rows, 1))
            for factor in term:
                own = values[factor]
                if isinstance(factor, Category) and term != self._full:
                    own = own[:, 1:]
                if len(term) > 1:
                    own = (found[:, :, None] * own[:, None, :]).reshape(rows, -1)
                found = own
            H[:, at : at + found.shape[1]] = found
            at += found.shape[1]
        return H

    def _require(self) -> None:
        taken = sorted({INTERCEPT, RELEASED} & set(self.columns))
        if taken:
            raise InvalidInput(
                f"a feature cannot be called {taken[0]!r}, a name privest uses: rename the column."
            )
        if not self.terms:
            raise InvalidInput("a model needs an intercept or at least one feature.")
        there = {frozenset(term) for term in self.terms}
        for term in self.terms:
            for one in term:
                part = frozenset(term) - {one}
                known = not part or part in there or term == self._full
                if isinstance(one, Category) and not known:
                    raise InvalidInput(
                        f"formula: a product with the category {one.column!r} needs its parts: "
                        "write a*b in place of a:b."
                    )
        _require_different("the parameters", self.names)


@dataclass(frozen=True)
class Features(Design):
    """Which columns make a row of H, and how. All of it is public, the lists of categories too.

    A cell belongs to a category if their texts are equal after trimming; failing that, if both
    are equal as numbers ("1", 1, 1.0 and "01"), or both the words true or false in any case.

    >>> Features(("age", "sex"), {"sex": ("female", "male")}).names
    ('intercept', 'age', 'sex=male')
    """

    columns: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    intercept: bool = True

    def __post_init__(self) -> None:
        columns = _name_list("the features", self.columns)
        lists = {name: category_list(name, given) for name, given in self.categories.items()}
        stray = [name for name in lists if name not in columns]
        if stray:
            raise InvalidInput(
                f"a list of categories was given for {stray}, not a feature."
                f"{meant(stray[0], columns)}"
            )
        _require_different("the features", columns)  # "sex" twice is clearer than "sex=male" twice
        terms = [(plain_factor(name, lists),) for name in columns]
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "categories", lists)
        object.__setattr__(self, "terms", ((), *terms) if self.intercept else tuple(terms))
        self._require()


def _values(
    factor: Factor, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp]
) -> AnyArray:
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


# --- categories -----------------------------------------------------------------------------------


def category_place(value: object, listed: tuple[str, ...]) -> int | None:
    """The place of a value in the list, by the rule for cells; None: none of it."""
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
    """(rows, categories): which of the list each cell is. A message never shows a cell."""
    texts = cells if isinstance(cells, Texts) else Texts.encode(cells.tolist())
    places = _places(texts, factor.listed)
    if (places < 0).any():
        row = int(np.argmax(places < 0))
        seen = composed(texts.distinct[texts.codes[row]] or "").casefold()
        same = [one for one in factor.listed if composed(one).casefold() == seen]
        why = (
            f"its capital letters are not those of {same[0]!r} in the public list."
            if same
            else f"missing, or not in the public list of {len(factor.listed)} categories. Correct "
            "the cell or the list; never make the list from private data."
        )
        raise InvalidInput(f"column {factor.column!r}, row {line[row]}: {why}")
    found: Flags = places[:, None] == np.arange(len(factor.listed))
    return found


def _places(texts: Texts, listed: tuple[str, ...]) -> NDArray[np.intp]:
    """The place of each cell in the list, or −1."""
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


def _key(text: str) -> tuple[str, float] | None:
    word = text.lower()
    if word in TRUTHS:
        return "word", TRUTHS[word]
    return ("number", float(text)) if is_number(text) else None

"""Formulas as statsmodels users type them: "ldl ~ age + C(sex) + np.log(bmi)", read with distrust.

formulaic's parser takes the text apart into terms; it runs nothing. What a factor may be is in
`_formula_factors`, which columns terms bring in `_formula_coding`. Lists of categories are public
and stated, never learnt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privest.arrays import AnyArray, Array
from privest.data._cells import Texts
from privest.data._features import (
    INTERCEPT,
    RELEASED,
    category_list,
    indicator_columns,
    require_different,
)
from privest.data._formula_coding import Piece, pieces_of
from privest.data._formula_factors import Category, Factor, Number, logarithm_of, read_factor
from privest.data._names import meant
from privest.errors import InvalidInput, MissingDependency

LONGEST = 20_000  # letters
MOST_TERMS = 10_000
MOST_CATEGORIES = 8  # in one product: 2⁸ parts
MOST_COLUMNS = 100_000  # of H, baselines counted; a plan allows fewer
# How many terms an operator makes at most of those on its sides.
GROWTH: Mapping[str, Callable[..., int]] = {
    "~": lambda *sides: sum(sides),
    "+": lambda *sides: sum(sides),
    "-": lambda *sides: sum(sides),
    ":": lambda left, right: left * right,
    "*": lambda left, right: left + right + left * right,
    "/": lambda left, right: left + right + left * right,
}
POWERS = ("**", "^")


@dataclass(frozen=True)
class FormulaFeatures:
    """The right side of a formula: which columns make a row of H, and how. All of it is public.

    The same kind of object as `Features`. The intercept is there unless the formula says `- 1` or
    `0 +`. Coefficients are called as those of `Features`: sex=male, and age:sex=male for a product.

    >>> features = read_formula("y ~ age*C(sex)", {"sex": ("female", "male")}).features
    >>> features.names
    ('intercept', 'age', 'sex=male', 'age:sex=male')
    >>> block = {"age": np.array([50.0, 61.0]), "sex": np.array(["male", "female"], dtype=object)}
    >>> features.matrix(block).tolist()
    [[1.0, 50.0, 1.0, 50.0], [1.0, 61.0, 0.0, 0.0]]
    """

    terms: tuple[tuple[Factor, ...], ...] = field(repr=False)

    def __post_init__(self) -> None:
        _require_size(self.terms)
        factors = [one for term in self.terms for one in term]
        both = self.text & {n for one in factors if isinstance(one, Number) for n in one.columns}
        if both:
            raise InvalidInput(
                f"formula: {min(both)!r} is used as a number and as a category: give it a second "
                "column, under another name."
            )
        lists = {(one.column, one.listed) for one in factors if isinstance(one, Category)}
        if len(lists) > len(self.text):
            raise InvalidInput("formula: a column has two lists of categories: state one.")
        taken = sorted({INTERCEPT, RELEASED} & set(self.columns))
        if taken:
            raise InvalidInput(
                f"a feature cannot be called {taken[0]!r}, a name privest uses: rename the column."
            )
        if not self.names:
            raise InvalidInput("a model needs an intercept or at least one feature.")
        require_different("the parameters", self.names)

    @cached_property
    def _pieces(self) -> list[Piece]:
        return pieces_of(self.terms)

    @property
    def intercept(self) -> bool:
        """Whether the first column of H is a constant."""
        return () in self.terms

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the table, that are read."""
        return tuple(
            dict.fromkeys(name for term in self.terms for one in term for name in one.columns)
        )

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The public list of each column that has one."""
        factors = [one for term in self.terms for one in term]
        return {one.column: one.listed for one in factors if isinstance(one, Category)}

    @property
    def text(self) -> frozenset[str]:
        """The columns to be read as texts."""
        return frozenset(self.categories)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the columns of H, which are those of θ."""
        return tuple(name or INTERCEPT for piece in self._pieces for name in piece.names)

    def matrix(
        self, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp] | None = None
    ) -> Array:
        """The rows of H (rows, n) of a block without missing values; as `Features.matrix`."""
        rows = len(next(iter(block.values())))
        line = np.arange(1, rows + 1) if line is None else line
        values = {one: _values(one, block, line) for term in self.terms for one in term}
        H = np.empty((rows, len(self.names)))
        at = 0
        for piece in self._pieces:
            found = np.ones((rows, 1))
            for factor in piece.factors:
                own = values[factor]
                if isinstance(factor, Category) and factor not in piece.full:
                    own = own[:, 1:]
                found = (found[:, :, None] * own[:, None, :]).reshape(rows, -1)
            H[:, at : at + found.shape[1]] = found
            at += found.shape[1]
        return H


@dataclass(frozen=True)
class Formula:
    """A formula: the private columns, how they are transformed, and the features."""

    targets: tuple[str, ...]
    transform: str
    features: FormulaFeatures


def read_formula(text: object, categories: Mapping[str, Sequence[object]] | None = None) -> Formula:
    """Take a formula apart. `categories`: the public list of each column that is one.

    >>> found = read_formula("np.log(ldl) ~ age + C(sex, levels=['f', 'm'])")
    >>> found.targets, found.transform, found.features.names
    (('ldl',), 'log', ('intercept', 'age', 'sex=m'))
    """
    if not isinstance(text, str) or "~" not in text or len(text) > LONGEST:
        raise InvalidInput(
            f'formula: a text such as "ldl ~ age + C(sex)", of at most {LONGEST} letters, is '
            f"needed; received {_received(text)}."
        )
    lists = {name: category_list(name, given) for name, given in (categories or {}).items()}
    left, right = _sides(text)
    targets, transform = _targets(left)
    terms = [_factors(term, lists) for term in sorted(right, key=_degree)]
    features = FormulaFeatures(tuple(terms))
    unused = sorted(set(lists) - set(features.columns))
    if unused:
        raise InvalidInput(
            f"formula: categories are given for {unused[0]!r}, which it does not name."
            f"{meant(unused[0], features.columns)}"
        )
    private = sorted(set(targets) & set(features.columns))
    if private:
        raise InvalidInput(
            f"formula: {private[0]!r} is the target, which is private: it cannot be a feature."
        )
    return Formula(targets, transform, features)


def _sides(text: str) -> tuple[list[Any], list[Any]]:
    """The terms left and right of ~, by formulaic; no more of them than a model may have."""
    try:
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    except ImportError as missing:
        raise MissingDependency(
            "formulas need formulaic: install the extra 'data', for example with pip install "
            '".[data]" in the source folder; or name target and features.'
        ) from missing
    parser = DefaultFormulaParser()
    try:
        tree = parser.get_ast(text)
        if _most_terms(tree) > MOST_TERMS:
            raise InvalidInput(f"formula: it has more than {MOST_TERMS} terms.")
        found = tree.to_terms()
        return list(found.lhs), list(found.rhs)
    except InvalidInput:
        raise
    except FormulaicError as error:
        why = re.sub(r"\s+", " ", str(error).split("\n\n")[0]).strip().rstrip(".")
        raise InvalidInput(f"formula: it cannot be read: {why}.") from None
    except (SyntaxError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise InvalidInput(
            'formula: it cannot be read. One has the form "target ~ a + b + a:b"; columns whose '
            "names have spaces stand in `backticks`."
        ) from None


def _most_terms(tree: Any) -> int:  # noqa: ANN401 - a node of formulaic
    """How many terms there are at most, before any of them is made: powers grow without end."""
    order, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += getattr(node, "args", ())
    counts: dict[int, int] = {}
    for node in reversed(order):  # the parts before the whole
        counts[id(node)] = _count(node, counts)
    return counts[id(tree)]


def _count(node: Any, counts: Mapping[int, int]) -> int:  # noqa: ANN401
    if not hasattr(node, "operator"):
        return 1
    symbol, sides = node.operator.symbol, [counts[id(part)] for part in node.args]
    if symbol in POWERS:
        power = str(getattr(node.args[1], "token", ""))
        if not re.fullmatch(r"[1-9]", power):
            raise InvalidInput("formula: after ** stands a number from 1 to 9.")
        if sides[0] == 1:
            raise InvalidInput(
                f"formula: a single column {symbol} {power} is the column itself, as powers make "
                f"products of different columns. A power of its values is I(column**{power})."
            )
        found: int = sides[0] ** int(power)
    elif symbol in GROWTH:
        found = GROWTH[symbol](*sides)
    else:
        raise InvalidInput(f"formula: {symbol!r} is not known here: there are + - * : / ** and ~.")
    return min(found, MOST_TERMS + 1)


def _require_size(terms: Sequence[Sequence[Factor]]) -> None:
    """Refuse products of categories with more columns than any model has, before they are made."""
    columns = 0
    for term in terms:
        listed = [len(one.listed) for one in term if isinstance(one, Category)]
        if len(listed) > MOST_CATEGORIES:
            raise InvalidInput(
                f"formula: a product of {len(listed)} categories; at most {MOST_CATEGORIES} may "
                "stand in one."
            )
        columns += math.prod(listed)
        if columns > MOST_COLUMNS:
            raise InvalidInput(f"formula: it has more than {MOST_COLUMNS} columns.")


def _degree(term: Any) -> int:  # noqa: ANN401
    return len(_written(term))


def _written(term: Any) -> list[tuple[str, bool]]:  # noqa: ANN401
    """(text, whether it is a column's name) of the factors; none for the intercept."""
    found = []
    for factor in term.factors:
        kind, text = factor.eval_method.value, str(factor.expr)
        if kind == "literal":
            if text != "1":
                raise InvalidInput(
                    f"formula: the number {text[:20]} is no term: scale a column, I(2*x)."
                )
            continue
        found.append((text, kind == "lookup"))
    return found


def _factors(term: Any, lists: Mapping[str, tuple[str, ...]]) -> tuple[Factor, ...]:  # noqa: ANN401
    found = (read_factor(text, is_name, lists) for text, is_name in _written(term))
    return tuple(dict.fromkeys(found))


def _targets(left: Sequence[Any]) -> tuple[tuple[str, ...], str]:
    """The private columns, and "log" where all of them stand in a logarithm."""
    targets, transforms = [], set()
    for term in left:
        match _written(term):
            case [(name, True)]:
                targets.append(name)
                transforms.add("none")
            case [(text, False)] if (column := logarithm_of(text)) is not None:
                targets.append(column)
                transforms.add("log")
            case _:
                raise InvalidInput(
                    "formula: left of ~ stands the private column, as it is or in a logarithm: "
                    "ldl ~ …, log(ldl) ~ …"
                )
    if len(transforms) != 1:
        raise InvalidInput("formula: all columns left of ~ stand in log(…), or none of them.")
    return tuple(targets), transforms.pop()


def _values(
    factor: Factor, block: Mapping[str, AnyArray | Texts], line: NDArray[np.intp]
) -> AnyArray:
    """(rows, 1) of a number, (rows, categories) of a category."""
    if isinstance(factor, Category):
        return indicator_columns(block[factor.column], factor.column, factor.listed, line)
    found = factor.values(block)
    finite = np.isfinite(found)
    if not finite.all():
        raise InvalidInput(
            f"column {factor.label!r}, row {line[np.argmin(finite)]}: missing or infinite."
        )
    return found[:, None]


def _received(text: object) -> str:
    return f"{len(text)} letters" if isinstance(text, str) else type(text).__name__

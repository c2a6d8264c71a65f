"""Formulas as statsmodels users type them: "ldl ~ age + C(sex) + np.log(bmi)".

A closed grammar, read with distrust: a formula may come from a file that somebody else wrote, and
nothing in it is run. Terms have + - * : / ** and brackets, with the meaning of R, patsy and
formulaic; what a factor may be is in `_factors`. Lists of categories are public and stated, never
learnt.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from privest.data.factors import Category, Factor, Number, Written, read_factor
from privest.data.features import Design, category_list
from privest.data.names import meant
from privest.errors import InvalidInput

LONGEST = 20_000  # letters
MOST_TERMS = 10_000
MOST_CATEGORIES = 8  # in one product: 2⁸ parts
MOST_COLUMNS = 100_000  # of H, baselines counted; a plan allows fewer
DEEPEST = 50  # brackets within brackets
TOKEN = re.compile(
    r"\s*(?:(?P<name>`[^`]*`|[^\W\d][\w.]*)|(?P<number>\d[\w.]*)"
    r"|(?P<sign>\*\*|[-+*/:^()~])|(?P<end>\Z))"
)
# What may hide a bracket in a call, and brackets.
INSIDE = re.compile(r"""`[^`]*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[()]""")
UNREADABLE = (
    'formula: it cannot be read. One has the form "target ~ a + b + a:b"; columns whose names have '
    "spaces stand in `backticks`."
)

Term = tuple[Written, ...]  # a product
CONSTANT: list[Term] = [()]  # the intercept


@dataclass(frozen=True)
class FormulaFeatures(Design):
    """The right side of a formula: which columns make a row of H, and how. All of it is public.

    The intercept is there unless the formula says `- 1` or `0 +`. Coefficients are called as those
    of `Features`: sex=male, and age:sex=male for a product.

    >>> features = read_formula("y ~ age*C(sex)", {"sex": ("female", "male")}).features
    >>> features.names
    ('intercept', 'age', 'sex=male', 'age:sex=male')
    """

    terms: tuple[tuple[Factor, ...], ...] = field(repr=False)

    def __post_init__(self) -> None:
        _require_size(self.terms)
        factors = list(dict.fromkeys(one for term in self.terms for one in term))
        lists = {one.column: one.listed for one in factors if isinstance(one, Category)}
        columns = tuple(dict.fromkeys(name for one in factors for name in one.columns))
        numbers = {name for one in factors if isinstance(one, Number) for name in one.columns}
        both = sorted(numbers & set(lists))
        if both:
            raise InvalidInput(
                f"formula: {both[0]!r} is used as a number and as a category: give it a second "
                "column, under another name."
            )
        if sum(isinstance(one, Category) for one in factors) > len(lists):
            raise InvalidInput("formula: a column has two lists of categories: state one.")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "categories", lists)
        object.__setattr__(self, "intercept", () in self.terms)
        self._require_names()


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
        received = f"{len(text)} letters" if isinstance(text, str) else type(text).__name__
        raise InvalidInput(
            f'formula: a text such as "ldl ~ age + C(sex)", of at most {LONGEST} letters, is '
            f"needed; received {received}."
        )
    lists = {name: category_list(name, given) for name, given in (categories or {}).items()}
    left, right = _Sides(text).read()
    targets, transform = _targets(left)
    terms = sorted(right, key=len)
    read = (dict.fromkeys(read_factor(one, lists) for one in term) for term in terms)
    features = FormulaFeatures(tuple(tuple(term) for term in read))
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


class _Sides:
    """The terms left and right of ~, by precedence: + -, then * /, then :, then ** and brackets."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self._advance()

    def read(self) -> tuple[list[Term], list[Term]]:
        """Both sides; the right one begins with the intercept."""
        left = self._sum([])
        if not self._taken("~"):
            raise InvalidInput(UNREADABLE)
        right = CONSTANT if self.kind == "end" else self._sum(CONSTANT)
        if self.kind != "end":
            raise InvalidInput(UNREADABLE)
        return left, right

    def _advance(self) -> None:
        """The next token: a name, a call, a number, a sign, or the end."""
        found = TOKEN.match(self.text, self.at)
        if found is None:
            sign = self.text[self.at :].strip()[:1]
            raise InvalidInput(
                f"formula: {sign!r} is not known here: there are + - * : / ** and ~."
                if sign.isprintable()
                else UNREADABLE
            )
        self.kind = str(found.lastgroup)
        self.token, self.at = found[self.kind], found.end()
        if self.kind == "name" and self.token[0] != "`" and self.text[self.at : self.at + 1] == "(":
            self.kind, start = "call", self.at
            depth = 0
            for found in INSIDE.finditer(self.text, start):
                depth += {"(": 1, ")": -1}.get(found[0], 0)
                if depth == 0:
                    self.at = found.end()
                    self.token += self.text[start : self.at]
                    return
            raise InvalidInput(UNREADABLE)

    def _taken(self, *signs: str) -> str:
        """The next token, if it is one of these signs, which are passed; else nothing."""
        found = self.token if self.kind == "sign" and self.token in signs else ""
        if found:
            self._advance()
        return found

    def _sum(self, known: Sequence[Term]) -> list[Term]:
        """Terms added and taken away; 0 takes away the intercept."""
        found = {frozenset(term): term for term in known}
        first = True
        while first or (self.kind == "sign" and self.token in ("+", "-")):
            first, added = False, True
            while sign := self._taken("+", "-"):
                added ^= sign == "-"
            if self.kind == "number" and self.token == "0":
                added, terms = not added, CONSTANT
                self._advance()
            else:
                terms = self._product()
            for term in terms:
                if added:
                    found.setdefault(frozenset(term), term)
                else:
                    found.pop(frozenset(term), None)
        return list(found.values())

    def _product(self) -> list[Term]:
        found = self._interaction()
        while sign := self._taken("*", "/"):
            right = self._interaction()
            left = found if sign == "*" else [tuple(dict.fromkeys(itertools.chain(*found)))]
            found = _different([*found, *(right if sign == "*" else ()), *_joined(left, right)])
        return found

    def _interaction(self) -> list[Term]:
        found = self._power()
        while self._taken(":"):
            found = _different(_joined(found, self._power()))
        return found

    def _power(self) -> list[Term]:
        found = self._one()
        while sign := self._taken("**", "^"):
            bracket = self._taken("(")
            if self.kind != "number" or not re.fullmatch("[1-9]", self.token):
                raise InvalidInput("formula: after ** stands a number from 1 to 9.")
            power = int(self.token)
            self._advance()
            if bracket and not self._taken(")"):
                raise InvalidInput(UNREADABLE)
            if len(found) == 1:
                raise InvalidInput(
                    f"formula: a single column {sign} {power} is the column itself, as powers make "
                    "products of different columns. A power of its values is "
                    f"I(column**{power})."
                )
            once = found
            for _ in range(power - 1):
                found = _different(_joined(found, once))
        return found

    def _one(self) -> list[Term]:
        if self._taken("("):
            self.depth += 1
            if self.depth > DEEPEST:
                raise InvalidInput(UNREADABLE)
            found = self._sum([])
            if not self._taken(")"):
                raise InvalidInput(UNREADABLE)
            self.depth -= 1
            return found
        kind, token = self.kind, self.token
        if kind == "number" and token != "1":
            raise InvalidInput(
                f"formula: the number {token[:20]} is no term: scale a column, I(2*x)."
            )
        if kind not in ("name", "call", "number"):
            raise InvalidInput(UNREADABLE)
        self._advance()
        return CONSTANT if kind == "number" else [(_written(token, kind),)]


def _written(token: str, kind: str) -> Written:
    if kind == "name":
        name = token.strip("`")
        return Written(name, ast.Name(id=name))
    return Written.of(token)


def _joined(left: Sequence[Term], right: Sequence[Term]) -> list[Term]:
    """The products of all terms on the left with all on the right."""
    if len(left) * len(right) > MOST_TERMS:
        raise InvalidInput(f"formula: it has more than {MOST_TERMS} terms.")
    return [tuple(dict.fromkeys(one + other)) for one in left for other in right]


def _different(terms: Iterable[Term]) -> list[Term]:
    """Terms that are products of the same factors are one."""
    found: dict[frozenset[Written], Term] = {}
    for term in terms:
        found.setdefault(frozenset(term), term)
    return list(found.values())


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


def _targets(left: Sequence[Term]) -> tuple[tuple[str, ...], str]:
    """The private columns, and "log" where all of them stand in a logarithm."""
    if not left:
        raise InvalidInput(UNREADABLE)
    targets, transforms = [], set()
    for term in left:
        one = term[0] if len(term) == 1 else None
        column = None if one is None else one.column or one.logarithm
        if one is None or column is None:
            raise InvalidInput(
                "formula: left of ~ stands the private column, as it is or in a logarithm: "
                "ldl ~ …, log(ldl) ~ …"
            )
        targets.append(column)
        transforms.add("none" if one.column else "log")
    if len(transforms) != 1:
        raise InvalidInput("formula: all columns left of ~ stand in log(…), or none of them.")
    return tuple(targets), transforms.pop()

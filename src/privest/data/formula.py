"""Formulas as statsmodels users type them: "ldl ~ age + C(sex) + np.log(bmi)".

A closed grammar: a formula may come from a file that somebody else wrote, and nothing in it is run.
Terms have + - * : and brackets, with the meaning of R, patsy and formulaic; a factor is a column,
arithmetic on columns, or C(…). Lists of categories are public and stated, never learnt.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from privest.arrays import as_kind
from privest.data.cells import meant
from privest.data.features import (
    ARITHMETIC,
    FUNCTIONS,
    Category,
    Design,
    Factor,
    Lists,
    Number,
    called,
    category_list,
    plain_factor,
)
from privest.errors import InvalidInput

LONGEST = 20_000  # letters
MOST_TERMS = 10_000
MOST_CATEGORIES = 8  # in one product: 2⁸ parts
MOST_COLUMNS = 100_000  # of H, baselines counted; a plan allows fewer
DEEPEST = 50  # brackets within brackets
TOKEN = re.compile(
    r"\s*(?:(?P<name>`[^`]*`|[^\W\d][\w.]*)|(?P<number>[01](?!\w))|(?P<sign>[-+*:()~]))"
)
# What may hide a bracket in a call, and brackets.
INSIDE = re.compile(r"""`[^`]*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[()]""")
UNREADABLE = (
    'formula: it cannot be read. One has the form "target ~ a + b + a:b", with + - * : and '
    "brackets. Columns whose names have spaces stand in `backticks`; arithmetic stands in I(…), "
    "for example I(x**2)."
)

Term = tuple[Factor, ...]  # a product
CONSTANT: list[Term] = [()]  # the intercept


@dataclass(frozen=True)
class FormulaFeatures(Design):
    """The right side of a formula: which columns make a row of H, and how. All of it is public."""

    terms: tuple[Term, ...] = field(repr=False)

    def __post_init__(self) -> None:
        _require_size(self.terms)
        factors = list(dict.fromkeys(chain.from_iterable(self.terms)))
        lists = {one.column: one.listed for one in factors if isinstance(one, Category)}
        columns = tuple(dict.fromkeys(chain.from_iterable(one.columns for one in factors)))
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
        self._require()


@dataclass(frozen=True)
class Formula:
    targets: tuple[str, ...]
    transform: str
    features: FormulaFeatures


def read_formula(text: object, categories: Mapping[str, Sequence[object]] | None = None) -> Formula:
    """The parts of a formula. `categories`: the public list of each column that is one.

    >>> found = read_formula("np.log(ldl) ~ age + C(sex, levels=['f', 'm'])")
    >>> found.targets, found.transform, found.features.names
    (('ldl',), 'log', ('intercept', 'age', 'sex=m'))
    """
    text = as_kind(text, str, 'formula: a text such as "ldl ~ age + C(sex)" is needed')
    if len(text) > LONGEST:
        raise InvalidInput(f"formula: at most {LONGEST} letters are read; it has {len(text)}.")
    if "~" not in text:
        raise InvalidInput('formula: it has no ~, as in "ldl ~ age + C(sex)".')
    lists = {name: category_list(name, given) for name, given in (categories or {}).items()}
    left, right = _Sides(text, lists).read()
    targets, transform = _targets(left)
    features = FormulaFeatures(tuple(sorted(right, key=len)))
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
    """The terms left and right of ~, by precedence: + and -, then *, then :, then brackets."""

    def __init__(self, text: str, lists: Mapping[str, tuple[str, ...]]) -> None:
        self.text, self.lists, self.at, self.depth = text.rstrip(), lists, 0, 0
        self._advance()

    def read(self) -> tuple[list[Term], list[Term]]:
        """Both sides; the right one begins with the intercept."""
        left = self._sum([])
        if not self._taken("~"):
            raise InvalidInput(UNREADABLE)
        right = self._sum(CONSTANT) if self.token else CONSTANT
        if self.token:
            raise InvalidInput(UNREADABLE)
        return left, right

    def _advance(self) -> None:
        if self.at == len(self.text):
            self.kind = self.token = ""
            return
        found = TOKEN.match(self.text, self.at)
        if found is None:
            raise InvalidInput(UNREADABLE)
        self.kind = str(found.lastgroup)
        self.token, self.at = found[self.kind], found.end()
        if self.kind == "name" and self.token[0] != "`" and self.text[self.at : self.at + 1] == "(":
            self.kind, depth = "call", 0
            for inside in INSIDE.finditer(self.text, self.at):
                depth += {"(": 1, ")": -1}.get(inside[0], 0)
                if depth == 0:
                    self.token += self.text[self.at : inside.end()]
                    self.at = inside.end()
                    return
            raise InvalidInput(UNREADABLE)

    def _taken(self, *signs: str) -> str:
        """The next token, if it is one of these signs; else nothing."""
        found = self.token if self.kind == "sign" and self.token in signs else ""
        if found:
            self._advance()
        return found

    def _sum(self, known: Sequence[Term]) -> list[Term]:
        found = {frozenset(term): term for term in known}
        sign = self._taken("+", "-") or "+"
        while sign:
            while more := self._taken("+", "-"):
                sign = "+" if sign == more else "-"
            if self.kind == "number" and self.token == "0":
                self._advance()
                terms, sign = CONSTANT, "-" if sign == "+" else "+"
            else:
                terms = self._product()
            for term in terms:
                if sign == "+":
                    found.setdefault(frozenset(term), term)
                else:
                    found.pop(frozenset(term), None)
            sign = self._taken("+", "-")
        return list(found.values())

    def _product(self) -> list[Term]:
        found = self._interaction()
        while self._taken("*"):
            right = self._interaction()
            found = _different([*found, *right, *_joined(found, right)])
        return found

    def _interaction(self) -> list[Term]:
        found = self._one()
        while self._taken(":"):
            found = _different(_joined(found, self._one()))
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
        if kind not in ("name", "call", "number") or token == "0":
            raise InvalidInput(UNREADABLE)
        self._advance()
        if kind == "number":
            return CONSTANT
        if kind == "name":
            return [(plain_factor(token.strip("`"), self.lists),)]
        return [(read_call(token, self.lists),)]


def _joined(left: Sequence[Term], right: Sequence[Term]) -> list[Term]:
    if len(left) * len(right) > MOST_TERMS:
        raise InvalidInput(f"formula: it has more than {MOST_TERMS} terms.")
    return [tuple(dict.fromkeys(one + other)) for one in left for other in right]


def _different(terms: Iterable[Term]) -> list[Term]:
    found: dict[frozenset[Factor], Term] = {}
    for term in terms:
        found.setdefault(frozenset(term), term)
    return list(found.values())


def _require_size(terms: Sequence[Term]) -> None:
    """Refuse too many columns of H before they are made."""
    columns = 0
    for term in terms:
        listed = [len(one.listed) for one in term if isinstance(one, Category)]
        columns += math.prod(listed)
        if len(listed) > MOST_CATEGORIES or columns > MOST_COLUMNS:
            raise InvalidInput(
                f"formula: it has a product of more than {MOST_CATEGORIES} categories, or more "
                f"than {MOST_COLUMNS} columns."
            )


def _targets(left: Sequence[Term]) -> tuple[tuple[str, ...], str]:
    """The private columns, and "log" where all of them stand in a logarithm."""
    numbers = [t[0] for t in left if len(t) == 1 and isinstance(t[0], Number)]
    logs = [one for one in numbers if one.logarithm]
    found = logs or [one for one in numbers if one.columns == (one.label,)]
    if len(found) < max(len(left), 1):
        raise InvalidInput(
            "formula: left of ~ stand the private columns, all as they are or all in a logarithm: "
            "ldl ~ …, log(ldl) ~ …"
        )
    return tuple(one.columns[0] for one in found), "log" if logs else "none"


# --- factors that are calls: arithmetic on columns, and C(…) --------------------------------------


def read_call(text: str, categories: Lists) -> Factor:
    quoted = re.findall(r"`([^`]*)`", text)
    places = iter(range(len(quoted)))
    try:
        tree = ast.parse(
            re.sub(r"`[^`]*`", lambda _: f"_column_{next(places)}_", text), mode="eval"
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and (place := re.match(r"_column_(\d+)_", node.id)):
                node.id = quoted[int(place[1])]
        label = re.sub(r"\b(np|numpy)\.", "", ast.unparse(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
        raise InvalidInput(f"formula: {_short(text)} cannot be read.") from None
    if called(tree.body) == "C":
        return _category(tree.body, categories, label)
    columns = tuple(dict.fromkeys(_columns(tree.body, text)))
    if not columns:
        raise InvalidInput(f"formula: {_short(text)} names no column.")
    lists = [name for name in columns if name in categories]
    if lists:
        raise InvalidInput(
            f"formula: {lists[0]!r} has a list of categories, and so is no number in {text!r}."
        )
    return Number(label, columns, tree.body)


# --- numbers --------------------------------------------------------------------------------------


def _columns(tree: ast.expr, text: str, depth: int = 0) -> list[str]:
    """The columns of an expression; anything but arithmetic and FUNCTIONS is refused."""
    if depth > DEEPEST:
        raise InvalidInput(f"formula: {_short(text)} has too many brackets within brackets.")
    match tree:
        case ast.Name(id=name):
            return [name]
        case ast.Constant(value=value) if type(value) in (int, float):
            return []
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            return _columns(inner, text, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return _columns(left, text, depth + 1) + _columns(right, text, depth + 1)
        case ast.Call(args=[inner], keywords=[]) if called(tree) in FUNCTIONS:
            return _columns(inner, text, depth + 1)
    raise InvalidInput(
        f"formula: {_short(text)} is not allowed: columns, numbers, + - * / **, and the functions "
        f"{', '.join(FUNCTIONS)} and C. Nothing else is run; what learns from the data (scale, "
        "poly, bs) is written with public numbers, for example I((age - 50)/10)."
    )


# --- C(…) -----------------------------------------------------------------------------------------


def _category(tree: Any, known: Lists, text: str) -> Category:  # noqa: ANN401 - an ast.Call
    """C(column), C(column, levels=[…]), C(column, Treatment("baseline"))."""
    given = {one.arg: one.value for one in tree.keywords}
    match tree.args:
        case [ast.Name(id=column), *more] if set(given) <= {"levels"} and len(more) <= 1:
            pass
        case _:
            raise InvalidInput(
                f"formula: {_short(text)}: C takes the name of a column, levels=[…] and "
                "Treatment(baseline)."
            )
    listed = known.get(column)
    if "levels" in given:
        levels = _texts(given["levels"], text)
        if listed is not None and listed != levels:
            raise InvalidInput(f"formula: {_short(text)}: categories states another list.")
        listed = levels
    if listed is None:
        raise InvalidInput(
            f"formula: {_short(text)} needs its public list of categories: "
            f'C({column}, levels=["a", "b"]), or categories. It is never learnt from the data: '
            "that would reveal who is in them."
        )
    return Category(column, _from(more[0], listed, text) if more else listed)


def _texts(tree: ast.expr, text: str) -> tuple[str, ...]:
    try:
        found = ast.literal_eval(tree)
    except (ValueError, TypeError, MemoryError, RecursionError):
        found = None
    if isinstance(found, list | tuple) and all(isinstance(x, str | int | float) for x in found):
        return tuple(str(one).strip() for one in found)
    raise InvalidInput(f"formula: {_short(text)}: levels is a list of texts or numbers.")


def _from(contrast: ast.expr, listed: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The list with the baseline of a Treatment(…) first."""
    match contrast:
        case (
            ast.Call(func=ast.Name(id="Treatment"), args=[baseline], keywords=[])
            | ast.Call(
                func=ast.Name(id="Treatment"),
                args=[],
                keywords=[ast.keyword(arg="reference", value=baseline)],
            )
        ):
            (found,) = _texts(ast.List(elts=[baseline]), text)
            if found in listed:
                return (found, *(one for one in listed if one != found))
    raise InvalidInput(
        f"formula: {_short(text)}: categories are coded against a baseline of the list "
        f"{', '.join(listed)}: Treatment(baseline)."
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")

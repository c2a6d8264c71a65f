"""The factors of a formula: a column, arithmetic on columns, or a category with its public list.

The text of a formula may come from a file that somebody else wrote. It is read as a syntax tree and
walked here, node by node: only what is named below exists, and nothing is ever run as Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array
from privest.data.cells import Texts
from privest.errors import InvalidInput

FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "exp": np.exp,
    "sqrt": np.sqrt, "abs": np.abs, "I": lambda value: value,
}  # fmt: skip
ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Pow: np.power,
}  # fmt: skip
LEARNING = (
    "scale", "center", "standardize", "poly", "bs", "cs", "cc", "cr", "te", "ns", "lag", "hashed",
)  # fmt: skip
ALLOWED = f"{', '.join(FUNCTIONS)} and C"
MODULES = ("np", "numpy")
DEEPEST = 50  # brackets within brackets

Block = Mapping[str, AnyArray | Texts]


@dataclass(frozen=True)
class Written:
    """A factor as it is written: the name of a column, or a call. `text` has one spelling."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> Written:
        """From the text; names of columns that are no words of Python stand in backticks."""
        words: dict[str, str] = {}

        def word(found: re.Match[str]) -> str:
            words[f"_column_{len(words)}_"] = found[1]
            return f"_column_{len(words) - 1}_"

        try:
            tree = ast.parse(re.sub(r"`([^`]*)`", word, text), mode="eval").body
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    node.id = words.get(node.id, node.id)
            return cls(ast.unparse(tree), tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InvalidInput(f"formula: {_short(text)} cannot be read.") from None

    @property
    def column(self) -> str | None:
        """The name, where it is one."""
        return self.tree.id if isinstance(self.tree, ast.Name) else None

    @property
    def logarithm(self) -> str | None:
        """The column of which it is the natural logarithm; None if it is anything else."""
        match self.tree:
            case ast.Call(args=[ast.Name(id=name)], keywords=[]) if _called(self.tree) == "log":
                return name
        return None


@dataclass(frozen=True)
class Number:
    """A number a row, from numeric columns. `label` is its name, `tree` how it is computed."""

    label: str
    columns: tuple[str, ...]
    tree: ast.expr = field(compare=False, repr=False)

    def values(self, block: Block) -> Array:
        """(rows,), with NaN or an infinity where it does not exist."""
        rows = len(block[self.columns[0]])
        with np.errstate(all="ignore"):
            found = np.asarray(_value(self.tree, block), dtype=np.float64)
        return np.broadcast_to(found, (rows,))


@dataclass(frozen=True)
class Category:
    """A column with a public list of categories, the first of them the baseline."""

    column: str
    listed: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The one that is read."""
        return (self.column,)

    def names(self, full: bool) -> tuple[str, ...]:
        """Of its 0/1 columns: one a category, or all but the baseline."""
        return tuple(f"{self.column}={one}" for one in self.listed[0 if full else 1 :])


Factor = Number | Category


def plain_factor(name: str, categories: Mapping[str, tuple[str, ...]]) -> Factor:
    """The factor of a column as it is."""
    if name in categories:
        return Category(name, categories[name])
    return Number(name, (name,), ast.Name(id=name))


def read_factor(written: Written, categories: Mapping[str, tuple[str, ...]]) -> Factor:
    """The factor that is written; `categories`: the public list of each column that has one."""
    tree, text = written.tree, written.text
    if written.column is not None:
        return plain_factor(written.column, categories)
    if isinstance(tree, ast.Call) and _called(tree) == "C":
        return _category(tree, categories, text)
    columns = tuple(dict.fromkeys(_columns(tree, text)))
    if not columns:
        raise InvalidInput(f"formula: {text!r} names no column.")
    lists = [name for name in columns if name in categories]
    if lists:
        raise InvalidInput(
            f"formula: {lists[0]!r} has a list of categories, and so is no number in {text!r}."
        )
    return Number(re.sub(r"\b(np|numpy)\.", "", text), columns, tree)


# --- numbers --------------------------------------------------------------------------------------


def _columns(tree: ast.expr, text: str, depth: int = 0) -> list[str]:
    """The columns that an expression uses; anything but arithmetic and FUNCTIONS is refused."""
    if depth > DEEPEST:
        raise InvalidInput(f"formula: {_short(text)} has too many brackets within brackets.")
    match tree:
        case ast.Name(id=name):
            return [name]
        case ast.Constant(value=bool() | complex() | str() | bytes() | None):
            pass
        case ast.Constant(value=int() | float()):
            return []
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            return _columns(inner, text, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return _columns(left, text, depth + 1) + _columns(right, text, depth + 1)
        case ast.Call(args=[inner], keywords=[]) if _called(tree) in FUNCTIONS:
            return _columns(inner, text, depth + 1)
    called = _called(tree)
    if called in LEARNING:
        raise InvalidInput(
            f"formula: {called}(…) learns from the data, which are read in blocks and must not "
            "decide how they are read. Write it with public numbers, for example "
            "I((age - 50)/10), or make the columns before."
        )
    raise InvalidInput(
        f"formula: {_short(text)} is not allowed: columns, numbers, + - * / **, and the functions "
        f"{ALLOWED}. Nothing else in a formula is run."
    )


def _called(tree: ast.expr) -> str | None:
    """The name of the function, with or without `np.` before it."""
    match tree:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
            return name if module in MODULES else None
    return None


def _value(tree: ast.expr, block: Block) -> Any:  # noqa: ANN401 - an array or a number
    """Of a tree that `_columns` has let pass."""
    match tree:
        case ast.Name(id=name):
            return block[name]
        case ast.Constant(value=int() | float() as value):
            return _constant(value)
        case ast.UnaryOp(op=op, operand=inner):
            found = _value(inner, block)
            return -found if isinstance(op, ast.USub) else found
        case ast.BinOp(left=left, op=op, right=right):
            return ARITHMETIC[type(op)](_value(left, block), _value(right, block))
        case ast.Call(args=[inner]):
            return FUNCTIONS[_called(tree) or ""](_value(inner, block))
    raise AssertionError(ast.dump(tree))  # `_columns` refuses all others


def _constant(value: float) -> np.float64:
    """As a double at once: whole numbers of Python grow without end."""
    try:
        return np.float64(value)
    except OverflowError:
        return np.float64(np.inf)


# --- C(…) -----------------------------------------------------------------------------------------


def _category(tree: ast.Call, known: Mapping[str, tuple[str, ...]], text: str) -> Category:
    """C(column), C(column, levels=[…]), C(column, Treatment("baseline"))."""
    match tree.args:
        case [ast.Name(id=column), *more]:
            pass
        case _:
            raise InvalidInput(f"formula: {_short(text)}: C takes the name of a column first.")
    given = {one.arg: one.value for one in tree.keywords}
    if set(given) - {"levels", "contr"} or len(more) > 1 or (more and "contr" in given):
        raise InvalidInput(
            f"formula: {_short(text)}: C takes a column, levels=[…] and Treatment(baseline)."
        )
    listed = known.get(column)
    if "levels" in given:
        levels = _levels(given["levels"], text)
        if listed is not None and listed != levels:
            raise InvalidInput(f"formula: {_short(text)}: categories states another list.")
        listed = levels
    if listed is None:
        raise InvalidInput(
            f"formula: {_short(text)} needs its public list of categories: "
            f'C({column}, levels=["a", "b"]), or categories. It is never learnt from the data: '
            "that would reveal who is in them."
        )
    contrast = more[0] if more else given.get("contr")
    return Category(column, listed if contrast is None else _from(contrast, listed, text))


def _levels(tree: ast.expr, text: str) -> tuple[str, ...]:
    match tree:
        case ast.List(elts=found) | ast.Tuple(elts=found) if found:
            return tuple(_one(element, text) for element in found)
    raise InvalidInput(f"formula: {_short(text)}: levels is a list of texts or numbers.")


def _one(tree: ast.expr, text: str) -> str:
    match tree:
        case ast.Constant(value=bool() | str() | int() | float() as value):
            return str(value).strip()
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return str(-value)
    raise InvalidInput(f"formula: {_short(text)}: levels are texts or numbers.")


def _from(contrast: ast.expr, listed: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The list with the baseline of a Treatment(…) first."""
    match contrast:
        case ast.Name(id="Treatment"):
            return listed
        case ast.Call(
            func=ast.Name(id="Treatment")
            | ast.Attribute(value=ast.Name(id="contr"), attr="treatment"),
            args=args,
            keywords=keywords,
        ) if len(args) + len(keywords) <= 1:
            chosen = [*args, *(k.value for k in keywords if k.arg in ("reference", "base"))]
            baseline = _one(chosen[0], text) if chosen else listed[0]
            if baseline in listed:
                return (baseline, *(one for one in listed if one != baseline))
            raise InvalidInput(
                f"formula: {_short(text)}: the baseline is not on the list {', '.join(listed)}."
            )
    raise InvalidInput(
        f"formula: {_short(text)}: categories are coded against a baseline, Treatment(…), only."
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")

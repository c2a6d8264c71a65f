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
DEEPEST = 50  # brackets within brackets

Block = Mapping[str, AnyArray | Texts]


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

    @property
    def logarithm(self) -> bool:
        """Whether it is the natural logarithm of a column."""
        tree = self.tree
        return _called(tree) == "log" and isinstance(getattr(tree, "args", [0])[0], ast.Name)


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
Lists = Mapping[str, tuple[str, ...]]


def plain_factor(name: str, categories: Lists) -> Factor:
    """The factor of a column as it is."""
    if name in categories:
        return Category(name, categories[name])
    return Number(name, (name,), ast.Name(id=name))


def read_call(text: str, categories: Lists) -> Factor:
    """The factor that is written as a call; `categories`: the public list of each column."""
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
    if _called(tree.body) == "C":
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
    """The columns that an expression uses; anything but arithmetic and FUNCTIONS is refused."""
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
        case ast.Call(args=[inner], keywords=[]) if _called(tree) in FUNCTIONS:
            return _columns(inner, text, depth + 1)
    raise InvalidInput(
        f"formula: {_short(text)} is not allowed: columns, numbers, + - * / **, and the functions "
        f"{', '.join(FUNCTIONS)} and C. Nothing else is run; what learns from the data (scale, "
        "poly, bs) is written with public numbers, for example I((age - 50)/10)."
    )


def _called(tree: ast.expr) -> str | None:
    """The name of the function, with or without `np.` before it."""
    match tree:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name)):
            return name
    return None


def _value(tree: ast.expr, block: Block) -> Any:  # noqa: ANN401 - an array or a number
    """Of a tree that `_columns` has let pass."""
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
            return FUNCTIONS[_called(tree) or ""](_value(inner, block))
    raise AssertionError(ast.dump(tree))  # `_columns` refuses all others


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
    """A list of texts or numbers, as texts."""
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

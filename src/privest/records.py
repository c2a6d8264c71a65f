"""Results as JSON, frames and tables, and intervals about an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, as_choice, as_confidence, read_only
from privest.errors import InvalidInput, MissingDependency

LIBRARIES = ("pandas", "polars")
NOT_FINITE: dict[str, str | None] = {"nan": None, "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """`value` as numbers, texts, lists and dictionaries.

    JSON has no NaN and no infinity. NaN, which stands for nothing, becomes None; an infinity, which
    is a result, the text "Infinity" or "-Infinity", which `float` and JavaScript's Number read.
    Only releases are read back (`from_dict`), and of theirs a missing value is the only one that is
    not finite.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and np.isfinite(value).all():
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else NOT_FINITE[str(value)]
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    return _plain_object(value)


def _plain_object(value: object) -> Any:  # noqa: ANN401
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value) if isinstance(value, Path) else repr(value)


class ReadOnly:
    """A frozen dataclass through which nobody can write to its arrays."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in _parameters(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                object.__setattr__(self, name, read_only(value))


@cache
def _parameters(kind: type) -> tuple[str, ...]:
    """Fields that are given to a dataclass, looked up once: a filter makes results by the step."""
    return tuple(field.name for field in fields(kind) if field.init)


class Record(ReadOnly):
    """A dataclass that goes to JSON: its public fields, and the properties named in `DERIVED`."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, for JSON."""
        own = [field.name for field in fields(self) if not field.name.startswith("_")]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in [*own, *self.DERIVED]}


class Estimated:
    """A result with a `value` (…, n) and its `covariance` (…, n, n), with normal errors.

    `degrees_of_freedom`: of the covariance, where its scale is itself an estimate; a number, or one
    for each entry.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error",)  # of a Record
    degrees_of_freedom: float | Array | None = None

    if TYPE_CHECKING:

        @property
        def value(self) -> Array: ...
        @property
        def covariance(self) -> Array: ...

    @property
    def standard_error(self) -> Array:
        """√diag covariance, (…, n): of each entry of the estimate, privacy included."""
        return standard_errors(self.covariance)

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(…, n, 2): the interval of each entry, value ± q·standard_error.

        q is the normal quantile, or that of Student's t where degrees of freedom are known.
        """
        half = quantile(confidence, self.degrees_of_freedom) * self.standard_error
        return np.stack([self.value - half, self.value + half], axis=-1)


def standard_errors(covariance: Array) -> Array:
    """√diag of each matrix of a stack."""
    return np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))


@overload
def quantile(confidence: float, freedom: float | None = None) -> float: ...
@overload
def quantile(confidence: float, freedom: float | Array | None) -> float | Array: ...
def quantile(confidence: float, freedom: float | Array | None = None) -> float | Array:
    """q with P(|X| ≤ q) = confidence, X normal, or Student's t with these degrees of freedom.

    A float; for an array of degrees of freedom one each.
    """
    upper = (1 + as_confidence(confidence)) / 2
    if freedom is None:
        return float(scipy.special.ndtri(upper))
    found = np.asarray(scipy.special.stdtrit(freedom, upper), dtype=np.float64)
    return float(found) if found.ndim == 0 else found


def as_frame(columns: Mapping[str, Any], library: str = "pandas") -> Any:  # noqa: ANN401
    """A frame with these columns."""
    as_choice(library, LIBRARIES, "library of a frame")
    try:
        if library == "polars":
            import polars

            return polars.DataFrame(dict(columns))
        import pandas
    except ImportError as missing:
        raise MissingDependency(
            f"a frame needs {library}: install it, or use to_dict()."
        ) from missing
    return pandas.DataFrame(dict(columns))


def named_rows(given: object) -> list[dict[str, Any]] | None:
    """Rows with values by name, from a mapping (of numbers or columns), mappings or a frame.

    None: they have no names.

    >>> named_rows({"age": [30, 40], "sex": "male"})
    [{'age': 30, 'sex': 'male'}, {'age': 40, 'sex': 'male'}]
    """
    if hasattr(given, "columns"):
        given = {str(name): list(given[name]) for name in given.columns}  # type: ignore[index]
    if isinstance(given, Mapping):
        return _rows_of(given)
    if isinstance(given, list | tuple) and given and all(isinstance(x, Mapping) for x in given):
        return [dict(one) for one in given]
    return None


def _rows_of(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = {name: list(v) if np.ndim(v) else [v] for name, v in given.items()}
    count = max(map(len, columns.values()), default=1)
    for name, column in columns.items():
        if len(column) not in (1, count):
            raise InvalidInput("columns of rows must have one length, or be one value.")
        columns[name] = column * (count if len(column) == 1 else 1)
    return [{name: column[k] for name, column in columns.items()} for k in range(count)]


def decimals(values: Array) -> list[str]:
    """Four decimals, or four digits where a number is too small or too large for them."""
    return [f"{v:.4f}" if v == 0 or 1e-3 <= abs(v) < 1e5 else f"{v:.4g}" for v in values]


def text_table(names: tuple[str, ...], columns: dict[str, list[str]]) -> list[str]:
    """Right-aligned columns under a rule, as in statsmodels."""
    first = max(map(len, names))
    widths = [max(map(len, [head, *cells])) for head, cells in columns.items()]
    rule = "=" * (first + sum(width + 2 for width in widths))
    lines = [
        label.ljust(first) + "".join("  " + cell.rjust(width) for cell, width in zip(row, widths))
        for label, row in zip(["", *names], [list(columns), *zip(*columns.values())])
    ]
    return [rule, lines[0], "-" * len(rule), *lines[1:], rule]

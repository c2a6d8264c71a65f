"""The fields of a record or a saved state, each checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array, Flags, as_array, as_choice
from privest.errors import InvalidInput
from privest.reading._files import DEEPEST, require_letters

MOST_PARAMETERS = 10_000  # a square matrix of that side takes 0.8 GB
LONGEST_TEXT = 10_000  # letters of a name or a message
LARGEST_COUNT = 2**62  # a whole number that a machine can count to
LARGEST_STATE = 1e150  # of a number in a saved state: sums of its squares are finite

Field = Callable[[object, str], Any]  # checks a value; the text names it in the error


@contextmanager
def about(what: str) -> Iterator[None]:
    """Name what an error is about."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{what}: {error}") from None


def read_fields(
    record: object, schema: Mapping[str, Field], where: str, *, others: bool = False
) -> dict[str, Any]:
    """The fields of a record, each as its reader gives it; all must be there.

    `others`: fields that the schema does not know are left out instead of refused.

    >>> read_fields({"rows": 3, "of": "age"}, {"rows": counted(least=1), "of": read_text}, "it")
    {'rows': 3, 'of': 'age'}
    """
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{where} must be names with values.")
    absent = [name for name in schema if name not in record]
    if absent:
        raise InvalidInput(f"{where} needs {sorted(schema)}; {absent[0]!r} is not there.")
    if not others and set(record) - set(schema):
        raise InvalidInput(f"{where} is of another version: it has fields not known here.")
    return {name: reader(record[name], name) for name, reader in schema.items()}


def optional(reader: Field) -> Field:
    """What the reader takes, or nothing (None)."""
    return lambda given, name: None if given is None else reader(given, name)


def counted(least: int = 0, most: int = LARGEST_COUNT - 1) -> Callable[[object, str], int]:
    """A whole number in a range."""

    def read(given: object, name: str) -> int:
        """A whole number of this range."""
        if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
            top = f" and ≤ {most}" if most < LARGEST_COUNT - 1 else ""
            raise InvalidInput(f"{name} must be a whole number ≥ {least}{top}.")
        return given

    return read


def ranged(low: float = -math.inf, high: float = math.inf) -> Callable[[object, str], float]:
    """A finite number strictly between two others."""

    def read(given: object, name: str) -> float:
        """A finite number of this range; true and false are none."""
        good = isinstance(given, int | float) and not isinstance(given, bool)
        try:
            found = float(given) if good else math.nan  # type: ignore[arg-type]
        except OverflowError:
            found = math.inf
        if not (low < found < high and math.isfinite(found)):
            above = f" > {low:g}" if math.isfinite(low) else ""
            below = f" < {high:g}" if math.isfinite(high) else ""
            raise InvalidInput(f"{name} must be a finite number{above}{below}.")
        return found

    return read


def chosen(*words: str) -> Field:
    """One of these words."""
    return lambda given, name: as_choice(given, words, name)


read_count = counted()
read_number = ranged()
read_positive = ranged(low=0.0)


def read_flag(given: object, name: str) -> bool:
    """True or False."""
    if not isinstance(given, bool):
        raise InvalidInput(f"{name} must be true or false.")
    return given


def read_text(given: object, name: str) -> str:
    """A text of at most LONGEST_TEXT letters, all of them whole."""
    if not isinstance(given, str):
        raise InvalidInput(f"{name} must be a text.")
    if len(given) > LONGEST_TEXT:
        raise InvalidInput(f"{name} must be a text of at most {LONGEST_TEXT} letters.")
    require_letters(given, name)
    return given


def read_flags(given: object, count: int, name: str) -> Flags:
    """True and False, `count` of them."""
    flags = list(given) if isinstance(given, list | tuple) else []
    if len(flags) != count or not all(isinstance(flag, bool) for flag in flags):
        raise InvalidInput(f"{name} must be {count} times true or false.")
    return np.array(flags, dtype=bool)


def read_numbers(given: object, name: str, ndim: int | tuple[int, ...] | None = None) -> Array:
    """Floats from nested lists; None becomes NaN. Refuses NaN, infinities and anything else."""
    try:
        raw: AnyArray = np.array(_filled(given, DEEPEST), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be numbers, in rows of one length.") from None
    as_array(np.where(np.isnan(raw), 0.0, raw), name, ndim=ndim)
    return raw


def _filled(given: object, depth: int) -> object:
    if isinstance(given, list | tuple):
        if not depth:
            raise TypeError
        return [_filled(part, depth - 1) for part in given]
    if given is None:
        return math.nan
    if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given):
        raise TypeError
    return given


def require_parameters(count: int, where: str) -> None:
    """Refuse more parameters than a matrix of all pairs of them has room for."""
    if count > MOST_PARAMETERS:
        raise InvalidInput(
            f"{where}: {count} parameters; at most {MOST_PARAMETERS} are read from a file, because "
            "matrices of all pairs of them are needed."
        )


def state_array(
    state: Mapping[str, AnyArray], name: str, shape: tuple[int | None, ...], kind: str = "f",
    *, squares: bool = True,
) -> AnyArray:  # fmt: skip
    """An array of a saved state, copied: of this shape (None: any size) and kind, and finite.

    `kind`: "f" numbers whose squares are finite too (unless `squares` is False), "b" flags, "i" and
    "u" whole numbers ≥ 0.
    """
    found = state.get(name)
    if not isinstance(found, np.ndarray | np.generic):
        raise InvalidInput(f"the state needs an array {name!r}.")
    good = found.ndim == len(shape) and found.dtype.kind == kind
    if not good or any(wanted not in (None, size) for wanted, size in zip(shape, found.shape)):
        raise InvalidInput(
            f"the state {name!r} must have shape {shape} and type {kind!r}; received "
            f"{found.shape} and {found.dtype.kind!r}."
        )
    # A NaN fails every comparison.
    largest = LARGEST_STATE if squares else np.inf
    if kind != "b" and not (np.abs(found) < largest).all():
        raise InvalidInput(f"the state {name!r} must be finite, and its squares too.")
    if kind == "i" and (found < 0).any():
        raise InvalidInput(f"the state {name!r} must be ≥ 0.")
    return np.array(found)


def state_count(state: Mapping[str, AnyArray], name: str) -> int:
    """A whole number ≥ 0 of a saved state."""
    return read_count(int(state_array(state, name, (), "i")), name)


def state_number(state: Mapping[str, AnyArray], name: str) -> float:
    """A finite number of a saved state."""
    return float(state_array(state, name, ()))


def state_flag(state: Mapping[str, AnyArray], name: str) -> bool:
    """A flag of a saved state."""
    return bool(state_array(state, name, (), "b"))

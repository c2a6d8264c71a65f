"""The fields of a header, one by one and beside each other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from privest.arrays import Array
from privest.data import category_list
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import Range
from privest.reading import read_count, read_fields, read_number, read_text, require_parameters
from privest.records import Record
from privest.workflow._modelled import Ends

READING = "z"
MOST = 2.0**53  # whole numbers are exact up to here


@dataclass(frozen=True)
class LedgerPlace(Record):
    """Which entry of which ledger a release is: `hash` binds all entries before it too."""

    ledger: str
    subject: str
    sequence: int
    hash: str

    @classmethod
    def read(cls, given: object, name: str) -> Self:
        """The inverse of `to_dict`, every field checked."""
        kinds = {
            "ledger": read_text,
            "subject": read_text,
            "sequence": read_count,
            "hash": read_hash,
        }
        return cls(**read_fields(given, kinds, name))


def unit_of(level: float, *, simulated: bool) -> float:
    """What one step of z is, in the units of the modelled target."""
    return 1.0 if simulated else GRID / math.sqrt(level)


def require_whole(z: Array, path: Path) -> None:
    if not bool((np.trunc(z) == z).all() and (np.abs(z) <= MOST).all()):
        raise InvalidInput(
            f"{path}: a real release holds whole numbers in column {READING!r}, and this one does "
            "not: it was changed."
        )


def require_bits(z: Array, path: Path) -> None:
    """Refuse what is neither 0 nor 1 in a column of bits."""
    if not bool(((z == 0) | (z == 1)).all()):
        raise InvalidInput(
            f"{path}: this release holds bits, 0 or 1, and one of them is neither: it was changed."
        )


def read_ends(given: object, name: str) -> Ends:
    """A range, as JSON gives it."""
    ends = list(given) if isinstance(given, list | tuple) else []
    if len(ends) != 2:
        raise InvalidInput(f"{name} must be two numbers, low and high.")
    found = Range(*(read_number(end, name) for end in ends))
    return found.low, found.high


def read_hash(given: object, name: str) -> str:
    text = read_text(given, name)
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise InvalidInput(f"{name} must be 64 hexadecimal digits.")
    return text


def read_categories(given: object, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The lists of categories, as JSON gives them; `names` of coefficients must speak of each."""
    if not isinstance(given, Mapping):
        raise InvalidInput("categories must be names of columns, each with its list.")
    require_parameters(len(given) + 1, "categories")
    found = {}
    for name, listed in given.items():
        values = tuple(listed) if isinstance(listed, list | tuple) else ()
        require_parameters(max(len(values), 1), "categories")
        if not all(isinstance(one, str) for one in values):
            raise InvalidInput("categories must be texts.")
        found[name] = category_list(name, values)
        if not all(any(f"{name}={one}" in own for own in names) for one in values[1:]):
            raise InvalidInput("categories must be those of the coefficients.")
    return found


def read_names(given: object) -> tuple[str, ...]:
    """Names of coefficients, as JSON gives them."""
    names = tuple(given) if isinstance(given, list | tuple) else ()
    require_parameters(len(names), "names")
    good = names and all(isinstance(name, str) and name for name in names)
    if not good or {"intercept", READING} & set(names[1:]) or len(set(names)) < len(names):
        raise InvalidInput("names must be different texts, the intercept first.")
    return names

"""The fields of a header, one by one and beside each other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.privacy import EndlessLevel, Range
from privest.reading import read_count, read_fields, read_number, read_text, require_parameters
from privest.records import Record
from privest.workflow._modelled import Ends
from privest.workflow._spec import TRANSFORMS

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


def require_sense(record: Mapping[str, Any]) -> None:
    """What the fields must be to each other."""
    known, move, delta = record["reference_rows"], record["move"], record["delta"]
    grid = 0.0 if record["simulated"] else GRID
    wrong = {
        "table and target must not be empty": not (record["table"] and record["target"]),
        "rows must be 1 or more": record["rows"] < 1,
        f"transform must be one of {', '.join(TRANSFORMS)}": record["transform"] not in TRANSFORMS,
        "exponent goes with transform box-cox, and only with it": (
            (record["exponent"] is None) == (record["transform"] == "box-cox")
        ),
        "names must not hold the target: it is private": record["target"] in record["names"],
        "reference_rows must be more than the coefficients": (
            known is not None and known <= len(record["names"])
        ),
        "delta and move go together, or delta and a range": (move is not None and delta is None)
        or (delta is not None and move is None and record["range"] is None),
        "delta must be a probability, below 1": (delta or 0.0) >= 1,
        "grid must be that of its noise, 0 where it is simulated": record["grid"] != grid,
        "unit must be grid/√level, 1 where it is simulated": record["unit"]
        != unit_of(record["level"], simulated=record["simulated"]),
        "a transform must have a range above 0": record["transform"] != "none"
        and not (record["range"] and record["range"][0] > 0),
        "a simulated release must have no entry": record["simulated"]
        and record["entry"] is not None,
        "entry and signature go together": (record["entry"] is None)
        != (record["signature"] is None),
        "the fingerprint is not that of the level: one of them was changed": (
            record["fingerprint"] != EndlessLevel(record["level"]).fingerprint
        ),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidInput(f"{what}.")


def unit_of(level: float, *, simulated: bool) -> float:
    """What one step of z is, in the units of the modelled target."""
    return 1.0 if simulated else GRID / math.sqrt(level)


def require_whole(z: Array, path: Path) -> None:
    if not bool((np.trunc(z) == z).all() and (np.abs(z) <= MOST).all()):
        raise InvalidInput(
            f"{path}: a real release holds whole numbers in column {READING!r}, and this one does "
            "not: it was changed."
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


def read_names(given: object) -> tuple[str, ...]:
    """Names of coefficients, as JSON gives them."""
    names = tuple(given) if isinstance(given, list | tuple) else ()
    require_parameters(len(names), "names")
    good = names and all(isinstance(name, str) and name for name in names)
    if not good or {"intercept", READING} & set(names[1:]) or len(set(names)) < len(names):
        raise InvalidInput("names must be different texts, the intercept first.")
    return names

"""Counts, confidences and generators at the door of an audit."""

from __future__ import annotations

import numpy as np

from privest.arrays import as_number
from privest.errors import InvalidInput


def as_count(value: int, name: str, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be a whole number ≥ {least}; received {value!r}.")
    return int(value)


def as_confidence(value: float) -> float:
    """A number between 0 and 1, exclusive."""
    number = as_number(value, "confidence")
    if not 0 < number < 1:
        raise InvalidInput(
            f"confidence must lie between 0 and 1, both excluded; received {number:g}."
        )
    return number


def required(rng: np.random.Generator | None) -> np.random.Generator:
    """The generator, or an error that asks for one."""
    if rng is None:
        raise InvalidInput("this needs random numbers: give rng=numpy.random.default_rng(...).")
    return rng

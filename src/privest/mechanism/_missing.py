"""Readings as they come: numbers, how many, and where they are missing."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_count
from privest.errors import InvalidInput
from privest.lattice import Exactly


def real_numbers(y: ArrayLike) -> Array:
    """Readings as doubles, NaN where they are masked; no value is looked at."""
    try:
        raw = y if isinstance(y, np.ndarray) else np.asarray(y)
    except ValueError:
        raise InvalidInput("readings must be numbers in rows of one length.") from None
    if raw.dtype.kind not in "biuf":
        raise InvalidInput(f"readings must be real numbers; received an array of {raw.dtype}.")
    values = raw.astype(np.float64, copy=False)
    return values.filled(np.nan) if isinstance(values, np.ma.MaskedArray) else values


def of_size(values: Array, readings: int) -> Array:
    """Refuse another number of readings; no value is looked at."""
    if values.ndim == 0 or values.shape[-1] != readings:
        raise InvalidInput(
            f"the mechanism is for {readings} readings; received shape {values.shape}."
        )
    return values


def repeated(values: Array, trials: int | None) -> Array:
    """One row a trial, (trials, m), or as they are."""
    if trials is None:
        return values
    if values.ndim > 1:
        raise InvalidInput(
            f"trials repeat one vector of readings; received readings of shape {values.shape}."
        )
    return np.broadcast_to(values, (as_count(trials, "trials", least=1), values.shape[-1]))


def marked(exact: Exactly, absent: Flags | None) -> Exactly:
    """What is to be shown, NaN where it would read what is missing: the source returns NaN there.

    A source that sends a release of before returns what was missing then.
    """
    if absent is not None:
        exact.high[absent] = np.nan
    return exact


def split_missing(values: Array, *, finite: bool) -> tuple[Array, Flags | None]:
    """The readings with 0 where they are NaN, and where that is (None: nowhere).

    `finite`: refuse infinite ones, as simulations do; a real release clips them.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if finite and math.isfinite(values.sum()):  # one pass when all is well
            return values, None
    absent = np.isnan(values)
    if not absent.any():
        return as_array(values, "the readings") if finite else values, None
    known = np.where(absent, 0.0, values)
    return as_array(known, "the readings") if finite else known, absent

"""Measurements as they come: numbers, and where they are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, Flags, as_array, as_double
from privest.errors import InvalidInput
from privest.lattice import Exactly


def real_numbers(y: ArrayLike) -> Array:
    """Measurements as doubles, NaN where they are masked or None.

    No value is looked at: beyond the doubles it is infinite, without a warning.
    """
    try:
        if _masks_inside(y):
            return np.stack([real_numbers(row) for row in y])  # type: ignore[union-attr]
        raw = y if isinstance(y, np.ndarray) else _as_given(y)
    except ValueError:
        raise InvalidInput("measurements must be numbers in rows of one length.") from None
    absent = np.ma.getmaskarray(raw) if isinstance(raw, np.ma.MaskedArray) else None
    plain = np.ma.getdata(raw)
    if plain.dtype.kind == "O":
        values = _of_objects(plain, absent)
    elif plain.dtype.kind not in "biuf":
        raise InvalidInput(f"measurements must be real numbers; received an array of {raw.dtype}.")
    else:
        with np.errstate(all="ignore"):  # longer doubles, signalling NaN
            values = plain.astype(np.float64, copy=False)
    return values if absent is None else np.where(absent, np.nan, values)


def _masks_inside(y: object) -> bool:
    """Whether a list has masked arrays, whose masks NumPy would drop."""
    if not isinstance(y, Sequence) or isinstance(y, str | bytes):
        return False
    kinds = set(map(type, y))  # one for a million numbers
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        return True
    return any(issubclass(kind, Sequence) for kind in kinds) and any(map(_masks_inside, y))


def _as_given(y: ArrayLike) -> AnyArray:
    try:
        return np.asarray(y)
    except OverflowError:  # an integer beyond the doubles, beside doubles
        return np.asarray(y, dtype=object)


def _of_objects(raw: AnyArray, absent: Flags | None) -> Array:
    values = np.full(raw.size, np.nan)
    for i in range(raw.size) if absent is None else np.flatnonzero(~absent):
        number = raw.flat[i]
        if number is None:
            continue
        if not isinstance(number, Real | np.bool_):
            raise InvalidInput(
                "measurements must be real numbers; received an array of objects, one of type "
                f"{type(number).__name__}."
            )
        values[i] = as_double(number)
    return values.reshape(raw.shape)


def marked(exact: Exactly, absent: Flags | None) -> Exactly:
    """The values to be released, NaN where it depends on a missing value: the source keeps NaN."""
    if absent is not None:
        exact.high[absent] = np.nan
    return exact


def reads(matrix: Array | None, absent: Flags) -> Flags:
    """Which entries of Ay depend on a missing measurement; A None: y itself."""
    return absent if matrix is None else np.asarray(absent.astype(float) @ (matrix != 0).T > 0)


def split_missing(values: Array, *, finite: bool) -> tuple[Array, Flags | None]:
    """The measurements with 0 where they are NaN, and where that is (None: nowhere).

    `finite`: infinite ones raise an error, as in simulations; a real release clips them.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if finite and math.isfinite(values.sum()):  # one pass when all is well
            return values, None
    absent = np.isnan(values)
    if not absent.any():
        return as_array(values, "the measurements") if finite else values, None
    known = np.where(absent, 0.0, values)
    return as_array(known, "the measurements") if finite else known, absent

"""What `PrivateLinearRegression` takes in: H = [1, X], and y without a word about its entries."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
)

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator._history import Beside
from privest.mechanism.rows import real_numbers


def design(given: Array, intercept: bool) -> Array:
    """H = [1, X]."""
    return np.insert(given, 0, 1.0, axis=1) if intercept else given


def readings_of(y: object, *, finite: bool) -> Array:
    """y as a vector. The errors of the conversions may quote entries: ours do not.

    `finite`: refuse what is not, as scikit-learn does. Else NaN is missing (masked, None and the NA
    of pandas too), and only what is no vector of numbers is refused: of its type, not of a value.
    """
    if y is None:
        raise InvalidInput(
            "PrivateLinearRegression requires y to be passed, but the target y is None."
        )
    if isinstance(y, np.ma.MaskedArray) and finite:
        raise InvalidInput("y is a masked array: drop the samples without a reading.")
    if not finite:
        if hasattr(y, "isna") and hasattr(y, "to_numpy"):  # pandas, with its NA
            with suppress(TypeError, ValueError):
                kind = getattr(getattr(y, "dtype", None), "kind", "O")
                wide = np.float64 if kind in "biuf" else object  # objects: integers of any size
                y = y.to_numpy(dtype=wide, na_value=np.nan)
        with suppress(InvalidInput):  # what is no array of numbers may still be a vector
            y = real_numbers(y)  # type: ignore[arg-type]
    readings: Array | None = None
    with suppress(TypeError, ValueError, OverflowError):  # and no context that quotes them
        readings = column_or_1d(y, dtype=np.float64, warn=True)
    if readings is None:
        raise InvalidInput("y must be a vector of real numbers, one a sample.")
    if finite:
        assert_all_finite(readings, input_name="y")
    return readings


def beside_rows(given: Array, weight: object, groups: object) -> Beside:
    """Weights and groups of these rows, checked: finite weights ≥ 0, some > 0; one label a row."""
    weights: Array | None = None
    if weight is not None:
        weights = column_or_1d(np.asarray(weight), dtype=np.float64)
        check_consistent_length(given, weights)
        assert_all_finite(weights, input_name="sample_weight")
        if not weights.min() >= 0 or not weights.any():
            raise InvalidInput(
                "sample_weight must be ≥ 0, and some weight above zero: leave out sample_weight."
            )
    labels = None
    if groups is not None:
        labels = column_or_1d(groups)
        check_consistent_length(given, labels)
    return Beside(len(given), weights, labels)

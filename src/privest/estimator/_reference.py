"""The noise variance from a public reference set."""

from __future__ import annotations

import numpy as np

from privest.arrays import EPS, Array
from privest.errors import InvalidInput


def reference_variance(H: Array, y: Array, where: str = "reference") -> float:
    """σ² = RSS/(m − rank H) of ordinary least squares on rows H (m, n) and readings y: unbiased.

    The set must be public: σ² taken from readings that are to be protected would leak. Dependent
    columns do no harm. Raises InvalidInput where nothing is left to see the noise by.

    >>> reference_variance(np.ones((3, 1)), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    size = np.linalg.norm(H, axis=0)
    scaled = H / np.where(size > 0, size, 1.0)  # the rank must not depend on units
    theta, _, rank, _ = np.linalg.lstsq(scaled, y)
    left = len(H) - int(rank)
    if left < 1:
        raise InvalidInput(
            f"{where} has {len(H)} rows for {rank} coefficients: it says nothing about the noise. "
            "Give more rows."
        )
    residual = y - scaled @ theta
    if np.linalg.norm(residual) <= EPS * len(H) * np.linalg.norm(y):
        raise InvalidInput(f"{where} is fitted exactly: it shows no noise. Give the variance.")
    return float(residual @ residual) / left

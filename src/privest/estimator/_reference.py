"""The noise variance from a public reference set, and what the release itself adds to it."""

from __future__ import annotations

import math

import numpy as np
import scipy

from privest.arrays import EPS, Array, as_array, plural
from privest.errors import InvalidInput


def reference_variance(H: Array, y: Array, where: str = "reference") -> float:
    """σ² of `reference_fit`, without its degrees of freedom."""
    return reference_fit(H, y, where)[0]


def reference_fit(H: Array, y: Array, where: str = "reference") -> tuple[float, int]:
    """σ² = RSS/(m − rank H) of ordinary least squares on rows H (m, n) and readings y: unbiased.

    Also m − rank H, its degrees of freedom.

    The set must be public: σ² taken from readings that are to be protected would leak. Dependent
    columns do no harm. Raises InvalidInput where nothing is left to see the noise by.

    >>> reference_fit(np.ones((3, 1)), np.array([1.0, 2.0, 3.0]))
    (1.0, 2)
    """
    H, y = as_array(H, "H", ndim=2), as_array(y, "y", ndim=1)
    if len(H) != len(y) or not H.size:
        raise InvalidInput(f"H and y need one row a reading; received {H.shape} and {y.shape}.")
    size = np.linalg.norm(H, axis=0)
    scaled = H / np.where(size > 0, size, 1.0)  # the rank must not depend on units
    theta, _, rank, _ = np.linalg.lstsq(scaled, y)
    left = len(H) - int(rank)
    if left < 1:
        raise InvalidInput(
            f"{where} has {plural(len(H), 'row')} for {plural(int(rank), 'coefficient')}: it says "
            "nothing about the noise. "
            "Give more rows."
        )
    residual = y - scaled @ theta
    if np.linalg.norm(residual) <= EPS * len(H) * np.linalg.norm(y):
        raise InvalidInput(f"{where} is fitted exactly: it shows no noise. Give the variance.")
    return float(residual @ residual) / left, left


def pooled_variance(
    reference: float, freedom: int, scatter: float, left: int, added: float
) -> tuple[float, float]:
    """σ² from a reference set and a release together, and the degrees of freedom of σ² + 1/s.

    `reference` = σ̂_r² with `freedom` m; `scatter` = RSS of least squares on the release, with
    `left` = f rows to spare; `added` = 1/s. What a receiver does to a release costs no privacy.

        f (v − v̂)/v² + m (σ² − σ̂_r²)/σ⁴ = 0 ,  v = σ² + 1/s ,  v̂ = RSS/f ;   df = f + m v²/σ⁴

    The root lies between v̂ − 1/s and σ̂_r² and is positive; df is Satterthwaite's. For f = 0 it is
    the reference alone. Intervals by the t quantile of df cover .945 to .955 of 95 % for m ≥ 2 at
    every level (Gaussian noise; the reference alone .92).

    >>> pooled_variance(1.0, 2, 0.0, 0, 1.0)  # no rows to spare: 2·(1 + 1/1)²
    (1.0, 8.0)
    >>> pooled_variance(1.0, 10, 20.0, 10, 1.0)  # the release agrees: v̂ = 2 = 1 + 1
    (1.0, 50.0)
    """
    variance = reference
    if left:
        own = scatter / left - added  # what the release alone says, perhaps negative

        def slope(x: float) -> float:
            return left * (x - own) / (x + added) ** 2 + freedom * (x - reference) / x**2

        # Below this the second term is beyond what the first can be, f·s.
        least = reference * min(0.5, math.sqrt(freedom * added / (2 * left * reference)))
        low, high = min(max(own, least), reference), max(own, reference)
        if low < high:
            variance = float(scipy.optimize.brentq(slope, low, high, xtol=1e-12 * high))
    return variance, left + freedom * ((variance + added) / variance) ** 2


def same_rows(reference: Array, response: Array, H: Array, y: Array) -> bool:
    """Whether a reference set is the private one: its memory, its rows in any order, or some.

    That one set holds all rows of the other counts where the responses of each differ from one
    another: among repeated numbers such rows are chance.
    """
    if np.shares_memory(response, y):
        return True
    smaller, larger = sorted((response, y), key=len)
    if not np.isin(smaller, larger).all():
        return False
    ours, theirs = (
        np.unique(np.column_stack(both), axis=0, return_counts=True)
        for both in ((H, y), (reference, response))
    )
    if all(np.array_equal(a, b) for a, b in zip(ours, theirs)):
        return True
    distinct = all(len(np.unique(each)) == len(each) for each in (smaller, larger))
    together = np.unique(np.concatenate([ours[0], theirs[0]]), axis=0)
    return distinct and len(together) == len(larger)

"""A public range of readings, and what of Lᵀy it leaves: multiples of the grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privest import lattice, privacy
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.mechanism.source import Clip

Range = tuple[float, float]


def as_range(given: object) -> Range | None:
    """(low, high), low < high, both finite; None stays None: what the grid can hold."""
    if given is None:
        return None
    ends = np.asarray(given, dtype=object)
    if ends.shape != (2,):
        raise InvalidInput("a range is a pair of numbers, (low, high).")
    found = privacy.Range(ends[0], ends[1])
    return found.low, found.high


def clip_of(weights: Sequence[Array], span: Range, *, lags: int = 0) -> Clip:
    """Between which multiples of the grid Σ_t c_t y_t lies, where every y_t is in the range.

    One weight: rounded inwards, so that what is shown moves by no more than c·(high − low).
    Several: outwards; the coordinates of Lᵀy are clipped and never the readings (with a correlated
    S that would show more than S). The last `lags` weights are of readings that may be missing:
    these count with 0 too.
    Raises InvalidInput where the grid cannot hold the range.
    """
    if len(weights) == 1:
        up = np.asarray(weights[0]) >= 0
        least = _next_multiple(weights[0], np.where(up, span[0], span[1]))
        most = -_next_multiple(weights[0], -np.where(up, span[1], span[0]))
        if not ((least < most) | (np.asarray(weights[0]) == 0)).all():
            raise InvalidInput(
                f"the range {span[0]:g}, {span[1]:g} is narrower than a step of the grid, "
                f"{lattice.GRID:.1e} deviations of the noise: it would show nothing. Take a wider "
                "range, or a larger level."
            )
    else:
        own = len(weights) - lags
        floor, top = np.zeros(np.shape(weights[0])), np.zeros(np.shape(weights[0]))
        for t, weight in enumerate(weights):
            ends = np.sort([weight * span[0], weight * span[1]], axis=0)
            floor += ends[0] if t < own else np.minimum(ends[0], 0.0)
            top += ends[1] if t < own else np.maximum(ends[1], 0.0)
        least, most = np.floor(floor / lattice.GRID) - 1, np.ceil(top / lattice.GRID) + 1
    size = max(float(np.max(np.abs(least))), float(np.max(np.abs(most))))
    if not size < lattice.MOST:
        raise InvalidInput(
            f"the range reaches {size * lattice.GRID:.1e} deviations of the noise; the grid holds "
            f"{lattice.MOST * lattice.GRID:.1e}. Take a narrower range, or a stricter level."
        )
    return least.astype(np.int64), most.astype(np.int64)


def _next_multiple(weight: Array, end: Array) -> Array:
    """⌈c·y/g⌉, decided by the exact product."""
    with np.errstate(over="ignore", invalid="ignore"):  # what the grid cannot hold is refused
        product = lattice.sum_of_products([(np.asarray(weight), end)])
    high = product.high / lattice.GRID  # a power of two: exact
    return np.asarray(np.ceil(high) + ((high == np.floor(high)) & (product.low > 0)))

"""By how many whole steps of the grid a difference of the measurements shifts a release.

A release shows u = Ay, A = Lᵀ of a level or the rows of all steps of a stream (its FINAL cumulative
level is AᵀA). A shift counts in whole steps, outwards: Σ_i n_i², n_i = ⌈|A_i(y − y')|/g⌉, at its
worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from privest.arrays import EPS, AnyArray, Array, Index
from privest.errors import InvalidInput
from privest.lattice import GRID, MOST, literal_root, sum_of_products
from privest.linalg import PSD, BandedRows, Blocks, IndependentRows
from privest.privacy.adjacency import Adjacency
from privest.privacy.level import PrivacyLevel
from privest.privacy.stream import StreamLevel

Level = PrivacyLevel | StreamLevel
L = TypeVar("L", PrivacyLevel, StreamLevel)
CLOSE = 1e-11  # relative: how near the largest level is found
LEAST = 2.0**-80  # of the level without a grid: nothing shifts by more than one step there
SLACK = 1e-9  # relative: above the rounding of a norm of a million squares


@dataclass(frozen=True)
class Shift:
    """Σ n_i² of the worst pair; `only`: the largest shift in steps if one coordinate shifts."""

    squared: int
    only: Fraction | None = None


@dataclass(frozen=True)
class Entries:
    """A entry by entry: `weights` at (coordinate, measurement)."""

    weights: Array
    coordinates: Index
    columns: Index


def shift_of(level: Level, difference: Adjacency, entries: Entries) -> Shift:
    """The worst shift over all pairs of an adjacency."""
    if difference.kind == "record":
        return _record(level, difference)
    touched = 1 if difference.kind == "measurement" else _touched(level, difference.size)
    if touched == 1 or (isinstance(level, StreamLevel) and level.block == 1):
        return one_measurement(entries, by=difference.length)
    # ‖⌈a⌉‖ ≤ ‖a‖ + √(number of coordinates that show the block): a may point anywhere.
    reach = level.to_mu(sensitivity=difference) * (1 + SLACK) / GRID + math.sqrt(touched)
    return Shift(math.ceil(min(reach, 2 * MOST * math.sqrt(touched)) ** 2))


def _touched(level: Level, size: int | None) -> int:
    """At most how many coordinates show anything of a block."""
    if isinstance(level, StreamLevel):
        return (1 + level.reach) * max(level.sizes_between(0, level.steps or 1))
    matrix = None if level.size is None else level.for_size(level.size)
    wide = max(matrix.sizes) if isinstance(matrix, Blocks) else 1
    if size is None and not isinstance(matrix, Blocks):
        raise InvalidInput(
            "a level of single numbers has no blocks of its own: state the size of a block, "
            "Adjacency.block(by, size)."
        )
    return wide if size is None else size * wide


def one_measurement(entries: Entries, *, by: float | None, widths: AnyArray | None = None) -> Shift:
    """One measurement differs by at most `by`, if given, coordinate i by ≤ widths[i] steps."""
    used = entries.weights != 0
    weights = entries.weights[used]
    columns = entries.columns[used]
    if not weights.size:
        return Shift(0, Fraction(0))
    most = np.full(weights.shape, 2.0 * MOST)  # the grid ends there
    if widths is not None:
        known = np.atleast_1d(np.asarray(widths, dtype=np.float64))  # of an endless level: a step's
        most = np.minimum(most, known[entries.coordinates[used] % len(known)])
    steps = most if by is None else np.minimum(most, steps_up(weights, by))
    squares = np.bincount(columns, steps * steps)
    if np.bincount(columns).max() > 1:
        return Shift(whole_sum(float(squares.max())))
    n = int(steps.max())
    if by is None:
        return Shift(n * n, Fraction(n))
    largest = Fraction(float(np.abs(weights[steps == n]).max()))
    return Shift(n * n, min(Fraction(n), largest * Fraction(by) / Fraction(GRID)))


def steps_up(weights: Array, by: Array | float) -> Array:
    """⌈|c·y|/g⌉ of exact products, at least 1 unless one of them is 0; inf beyond any number."""
    with np.errstate(over="ignore", invalid="ignore"):  # inf: a caller counts it as all of the grid
        product = sum_of_products([(np.abs(weights), np.abs(np.asarray(by)))])
        high = product.high / GRID  # a power of two: exact
    found = np.ceil(high) + ((high == np.floor(high)) & (product.low > 0))
    return np.where((np.asarray(weights) != 0) & (np.asarray(by) != 0), np.maximum(found, 1), 0.0)


def entries_of(level: Level) -> Entries:
    """A of a level; without an end, of all that is ever revealed of one step."""
    if isinstance(level, PrivacyLevel):
        return _of_psd(level.for_size(1 if level.size is None else level.size))
    if level.steps is None:
        own = level.pointwise(0, 1)
        if own is not None:
            return _pointwise(np.atleast_1d(literal_root(np.asarray(own))))
        lags = level.reach + 1
        m = level.block or 0
        blocks = level.blocks(level.reach, level.reach + 1)[:, 0]  # (lag, row, column)
        rows, columns = np.divmod(np.arange(lags * m * m), m)
        return Entries(np.ascontiguousarray(blocks).ravel(), rows, columns)
    if isinstance(level.rows, IndependentRows):
        return _of_psd(level.rows.level)
    if isinstance(level.rows, BandedRows):
        return _banded(level.rows)
    rows, columns = np.nonzero(level.rows.dense())
    return Entries(level.rows.dense()[rows, columns], rows, columns)


def _of_psd(S: PSD) -> Entries:
    if S.pointwise is not None:
        return _pointwise(np.broadcast_to(literal_root(np.asarray(S.pointwise)), S.size))
    terms = S.factor_terms()
    every = np.arange(S.size)
    places = [every if place is None else place for _, place in terms]
    weights = np.concatenate([weight for weight, _ in terms])
    return Entries(weights, np.tile(every, len(terms)), np.concatenate(places))


def _pointwise(roots: Array) -> Entries:
    every = np.arange(len(roots))
    return Entries(roots, every, every)


def _banded(rows: BandedRows) -> Entries:
    m = rows.block
    K = rows.steps
    lag, step, row, column = np.indices((rows.reach + 1, K, m, m)).reshape(4, -1)
    inside = step >= lag
    weights = rows.blocks[: rows.reach + 1].ravel()[inside]
    return Entries(weights, (step * m + row)[inside], ((step - lag) * m + column)[inside])


def _record(level: Level, difference: Adjacency) -> Shift:
    """The corner of the box is the worst: every coordinate shows one measurement of the record."""
    if not isinstance(level, PrivacyLevel):
        raise InvalidInput("Adjacency.record is for one record: state its level, not a stream's.")
    roots = literal_root(difference.levels(level.for_size(len(difference.bounds))))
    return _total(steps_up(roots, difference.vector))


def _total(steps: Array) -> Shift:
    """Σ n_i² of all coordinates together; the grid ends at 2·MOST steps."""
    steps = np.minimum(steps, 2.0 * MOST)
    only = Fraction(int(steps.max())) if (steps > 0).sum() == 1 else None
    return Shift(whole_sum(float((steps * steps).sum())), only)


def whole_sum(total: float) -> int:
    """A sum of squares of whole numbers: exact below 2⁵³, else rounded up."""
    return int(total) if total < 2.0**53 else math.ceil(total * (1 + SLACK))


# --- the largest level that keeps a promise -----------------------------------------------------


def largest_level(mu: float, difference: Adjacency, shape: L) -> L:
    """The largest multiple of `shape` whose real release has g·√(Σ n_i²) ≤ μ.

    To ten digits and on the safe side; refused where not even one step of the grid fits.
    """
    reach = shape.to_mu(sensitivity=difference)
    if reach == 0:
        raise InvalidInput("the shape shows nothing of this sensitivity: any multiple would do.")
    if mu == 0:
        return shape * 0.0
    largest = (mu / reach) * (mu / reach) * (1 - 64 * EPS)
    if not 0 < largest < math.inf:
        raise InvalidInput(
            f"the level of mu = {mu:.3g} at this sensitivity leaves the range of numbers: state "
            "the measurements, and with them the sensitivity, in another unit."
        )
    limit = (Fraction(mu) / Fraction(GRID)) ** 2

    def fits(factor: float) -> bool:
        level = shape * factor
        return shift_of(level, difference, entries_of(level)).squared <= limit

    found = largest_that(fits, largest)
    if found is None:
        raise InvalidInput(
            f"mu = {mu:.3g} is less than one step of the grid of real releases ({GRID:.3g} for "
            "each number that shows a measurement): ask for a larger epsilon or a larger chance "
            "of success, or for fewer lags."
        )
    # Beyond the last bit, in which the roots of a number and of a stream may differ.
    return shape * (found if found == largest else found * (1 - CLOSE / 10))


def largest_that(fits: Callable[[float], bool], high: float) -> float | None:
    """The largest number in [high·LEAST, high] that fits, to `CLOSE`; None where none does."""
    low = high * LEAST
    if not (low > 0 and fits(low)):
        return None
    if fits(high):
        return high
    while high - low > CLOSE * high:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low

"""Row-level releases with public weights; measurements as they come: ranges, missing values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

from privest import lattice, privacy
from privest.arrays import (
    AnyArray,
    Array,
    ArrayLike,
    Flags,
    as_array,
    as_count,
    as_double,
    fingerprint_of,
)
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin, Exactly
from privest.mechanism.source import Clip, Law, Shown, Source, as_integers, as_protected, as_source


class RowMechanism:
    """z̃_k = c_k·y_k + e_k, e_k of unit scale, with public weights c_k: I_z ≤ diag(c²).

    law    "gaussian" (variance 1), "laplace" (scale 1), or a `Coin`: randomised response, which
           has no weights.
    range  of the values; beyond it they are clipped, at the last multiples of the grid within it.
    facts  public: the seed of a simulation is bound to them.

    A row of weight 0 is released as 0. Rows come in blocks of any size.

    >>> rows = RowMechanism()
    >>> rows.simulate([0.3, 0.1], [2.0, 0.0], np.random.default_rng(1)).round(3).tolist()
    [0.946, 0.0]
    >>> rows.release([0.3, 0.1], [2.0, 0.0]).tolist()[1]
    0
    """

    def __init__(
        self, law: Law = "gaussian", *, range: Range | None = None, facts: str = ""
    ) -> None:
        self.law, self.range, self.facts, self.steps = law, as_range(range), facts, 0

    def require(self, weights: ArrayLike) -> None:
        """Raise InvalidInput for weights at which the grid cannot hold the range."""
        self._clip(np.asarray(weights, dtype=np.float64))

    def simulate(
        self, y: ArrayLike, weights: ArrayLike, rng: np.random.Generator | Source
    ) -> Array:
        """z̃ of the next rows with simulated noise, or bits; NaN where a value is missing."""
        if isinstance(self.law, Coin):
            return self._toss(self.law, real_numbers(y), as_source(rng))
        values, absent = split_missing(real_numbers(y), finite=True)
        c = np.broadcast_to(np.asarray(weights, dtype=np.float64), values.shape)
        z = self._draw(lambda: c * np.where(c > 0, values, 0.0), c, as_source(rng))
        return z if absent is None else np.where(absent, np.nan, z)

    def release(self, y: ArrayLike, weights: ArrayLike, source: Source | None = None) -> AnyArray:
        """Whole numbers n = z̃/2⁻¹⁰ of the next rows with protected noise, or bits.

        No value is rejected: beyond the range, or beyond the grid, it is clipped. A missing value
        is NaN, among whole doubles.
        """
        given = real_numbers(y)
        if isinstance(self.law, Coin):
            return as_integers(self._toss(self.law, given, as_protected(source)))
        c = np.broadcast_to(np.asarray(weights, dtype=np.float64), given.shape)

        def exact() -> lattice.Exactly:
            values, absent = split_missing(given, finite=False)
            values = np.where(c > 0, values, 0.0)  # also 0 times an infinite value
            return marked(lattice.sum_of_products([(c, values)]), absent)

        return as_integers(self._draw(exact, c, as_protected(source)) / GRID)

    def _draw(self, shown: Shown, weights: Array, source: Source) -> Array:
        count = len(weights)
        found = source.add_noise(
            shown, shape=(count,), at=self.steps, sizes=(1,) * count, law=self.law,
            clip=self._clip(weights),
            fingerprint=f"rows {self.facts} {fingerprint_of('weights', weights)}",
        )  # fmt: skip
        self.steps += count
        return np.where((weights == 0) & ~np.isnan(found), 0.0, found)

    def _toss(self, coin: Coin, y: Array, source: Source) -> Array:
        bits = source.add_noise(
            lambda: y, shape=y.shape, at=self.steps, sizes=(1,) * y.size, law=coin,
            fingerprint="coin",
        )  # fmt: skip
        self.steps += y.size
        return bits

    def _clip(self, weights: Array) -> Clip | None:
        if self.range is None:
            return None
        distinct, place = np.unique(weights, return_inverse=True)
        least, most = clip_of([distinct], self.range)
        return least[place], most[place]


# --- a public range of measurements, and the range of Lᵀy: multiples of the grid -----------------


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

    One weight: rounded inwards, so that c·y changes by no more than c·(high − low).
    Several: outwards; the coordinates of Lᵀy are clipped and never the measurements (with a
    correlated S that would reveal more than S). The last `lags` weights belong to measurements
    that may be missing: these count with 0 too.
    Raises InvalidInput where the grid cannot hold the range.
    """
    if len(weights) == 1:
        up = np.asarray(weights[0]) >= 0
        least = _next_multiple(weights[0], np.where(up, span[0], span[1]))
        most = -_next_multiple(weights[0], -np.where(up, span[1], span[0]))
        if not ((least < most) | (np.asarray(weights[0]) == 0)).all():
            raise InvalidInput(
                f"the range {span[0]:g}, {span[1]:g} is narrower than a step of the grid, "
                f"{lattice.GRID:.1e} deviations of the noise: take a wider range or a larger level."
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


# --- measurements as they come: numbers, how many, and where they are missing --------------------


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
    """Whether a list has masked arrays, which NumPy would take without their masks."""
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
    """Objects: real numbers, integers of any size, or None (missing)."""
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


def of_size(values: Array, measurements: int) -> Array:
    """The values, if they are so many measurements; no value is looked at."""
    if values.ndim == 0 or values.shape[-1] != measurements:
        raise InvalidInput(
            f"the mechanism is for {measurements} measurements; received shape {values.shape}."
        )
    return values


def repeated(values: Array, trials: int | None) -> Array:
    """One row per trial, (trials, m); None: unchanged."""
    if trials is None:
        return values
    if values.ndim > 1:
        raise InvalidInput(
            f"trials repeat one vector of measurements; received shape {values.shape}."
        )
    return np.broadcast_to(values, (as_count(trials, "trials", least=1), values.shape[-1]))


def marked(exact: Exactly, absent: Flags | None) -> Exactly:
    """The values to be released, NaN where it depends on a missing value: the source keeps NaN.

    A source that sends an earlier release again returns what was missing then.
    """
    if absent is not None:
        exact.high[absent] = np.nan
    return exact


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

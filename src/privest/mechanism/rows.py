"""Row-level releases with public weights, randomised response, and a public range of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privest import lattice, privacy
from privest.arrays import AnyArray, Array, ArrayLike, fingerprint_of
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin
from privest.mechanism.inputs import marked, real_numbers, split_missing
from privest.mechanism.source import Clip, Law, Shown, Source, as_integers, as_protected, as_source


class RowMechanism:
    """z̃_k = c_k·y_k + e_k, e_k of unit scale, with public weights c_k: I_z ≤ diag(c²).

    law    "gaussian" (variance 1), "laplace" (scale 1), or a `Coin`, which has no weights.
    range  of the values; beyond it they are clipped, at the last multiples of the grid within it.

    A row of weight 0 is released as 0. Rows come in blocks of any size.

    >>> rows = RowMechanism()
    >>> rows.simulate([0.3, 0.1], [2.0, 0.0], np.random.default_rng(1)).round(3).tolist()
    [0.946, 0.0]
    >>> rows.release([0.3, 0.1], [2.0, 0.0]).tolist()[1]
    0
    """

    range: Range | None
    steps: int

    def __init__(self, law: Law = "gaussian", *, range: Range | None = None) -> None:
        self.law, self.range, self.steps = law, as_range(range), 0

    def require(self, weights: ArrayLike) -> None:
        """Refuse weights at which the grid cannot hold the range."""
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
            fingerprint=fingerprint_of("weights of rows", weights),
        )  # fmt: skip
        self.steps += count
        return np.where((weights == 0) & ~np.isnan(found), 0.0, found)

    def _toss(self, coin: Coin, y: Array, source: Source) -> Array:
        """A bit of each value by itself, in whatever blocks they come."""
        bits = source.add_noise(
            y.ravel, shape=(y.size,), at=self.steps, sizes=(1,) * y.size, law=coin,
            fingerprint="coin",
        )  # fmt: skip
        self.steps += y.size
        return bits.reshape(y.shape)

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
    found = privacy.as_range(given)
    return found.low, found.high


def clip_of(weights: Sequence[Array], span: Range, *, lags: int = 0) -> Clip:
    """Between which multiples of the grid Σ_t c_t y_t lies, where every y_t is in the range.

    One weight: rounded inwards, so that c·y changes by no more than c·(high − low). Several:
    outwards; the coordinates of Lᵀy are clipped and never the measurements, which could reveal more
    than S. The last `lags` measurements may be missing, and count as 0 then.
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

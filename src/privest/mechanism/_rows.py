"""Rows with public weights: z̃_k = c_k·y_k + e_k, block by block, so that I_z ≤ diag(c²)."""

from __future__ import annotations

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, ArrayLike, fingerprint_of
from privest.lattice import GRID, Coin
from privest.mechanism._missing import marked, real_numbers, split_missing
from privest.mechanism._range import Range, as_range, clip_of
from privest.mechanism.source import Clip, Law, Shown, Source, as_integers, as_protected, as_source


class RowMechanism:
    """z̃_k = c_k·y_k + e_k, e_k of unit scale and the given law; the weights c_k are public.

    law    "gaussian" (variance 1), "laplace" (scale 1), or a `Coin`: randomised response, which
           has no weights.
    range  of the values; beyond it they are clipped, at the last multiples of the grid within it.
    facts  public: the seed of a simulation is bound to them.

    A row of weight 0 leaves as 0. Rows come in blocks of any size.

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
        """Refuse, before anything is drawn, weights at which the grid cannot hold the range."""
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

        No value is refused: beyond the range, or what the grid can hold, it is clipped. A missing
        value is NaN, among whole doubles.
        """
        given = real_numbers(y)
        if isinstance(self.law, Coin):
            return as_integers(self._toss(self.law, given, as_protected(source)))
        c = np.broadcast_to(np.asarray(weights, dtype=np.float64), given.shape)

        def exact() -> lattice.Exactly:
            values, absent = split_missing(given, finite=False)
            values = np.where(c > 0, values, 0.0)  # 0 of an infinite value is shown too
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

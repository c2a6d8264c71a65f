"""Rows that leave with Laplace noise, or as bits: the pure laws of a table."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, ArrayLike
from privest.lattice import GRID, Coin
from privest.mechanism._missing import marked, real_numbers, split_missing
from privest.mechanism._range import clip_of
from privest.mechanism.source import Shown, Source, as_integers, as_protected, as_source


class RowsMechanism(Protocol):
    """What puts noise on the rows of one column, block after block."""

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z of the next rows, with simulated noise."""

    def release(self, y: ArrayLike, source: Source | None = None) -> AnyArray:
        """Whole numbers of the next rows, with protected noise; nothing is refused for a value."""


class LaplaceRows:
    """z_k = y_k + e_k/√s, e_k of Laplace's law with scale 1: I_z ≤ s, and pure ε = √s·move.

    `range`: beyond it readings are clipped, at the last multiples of the grid within it.

    >>> rows = LaplaceRows(4.0)
    >>> rows.simulate([0.3, 0.1], np.random.default_rng(1)).round(3).tolist()
    [0.312, 1.256]
    >>> rows.release([0.3, 0.1]).dtype.name
    'int64'
    """

    def __init__(self, level: float, *, range: tuple[float, float] | None = None) -> None:
        self.root = lattice.literal_root(np.array([level]))
        self.clip = None if range is None else clip_of([self.root], range)
        self.level, self.steps = level, 0

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z of the next rows, with simulated noise."""
        given = real_numbers(y)
        values, absent = split_missing(given, finite=True)
        z = self._shown(lambda: self.root * values, len(values), as_source(rng)) / math.sqrt(
            self.level
        )
        return z if absent is None else np.where(absent, np.nan, z)

    def release(self, y: ArrayLike, source: Source | None = None) -> AnyArray:
        """Whole numbers n of the next rows: n·g/√s is y and its noise."""
        given = real_numbers(y)

        def shown() -> lattice.Exactly:
            values, absent = split_missing(given, finite=False)
            return marked(lattice.sum_of_products([(self.root, values)]), absent)

        whole = self._shown(shown, len(given), as_protected(source)) / GRID
        return as_integers(whole)

    def _shown(self, shown: Shown, count: int, source: Source) -> Array:
        clip = self.clip
        if clip is not None:
            clip = (np.broadcast_to(clip[0], count), np.broadcast_to(clip[1], count))
        found = source.add_noise(
            shown, shape=(count,), at=self.steps, sizes=(1,) * count, law="laplace", clip=clip,
            fingerprint=f"laplace {self.level!r}",
        )  # fmt: skip
        self.steps += count
        return found


class CoinRows:
    """A bit of every row (`lattice.Coin`): 0 or 1, whatever the reading.

    >>> rows = CoinRows(Coin(lattice.flips_for(3.0)))
    >>> rows.simulate([0.0, 1.0, 1.0], np.random.default_rng(1)).tolist()
    [0.0, 1.0, 1.0]
    >>> set(rows.release([0.0, 1.0] * 20).tolist()) <= {0, 1}
    True
    """

    def __init__(self, coin: Coin) -> None:
        self.coin, self.steps = coin, 0

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """Bits of the next rows, with simulated coins."""
        return self._tossed(real_numbers(y), as_source(rng))

    def release(self, y: ArrayLike, source: Source | None = None) -> AnyArray:
        """Bits of the next rows, with the coins of the operating system."""
        return as_integers(self._tossed(real_numbers(y), as_protected(source)))

    def _tossed(self, y: Array, source: Source) -> Array:
        bits = source.add_noise(
            lambda: y, shape=y.shape, at=self.steps, sizes=(1,) * y.size, law=self.coin,
            fingerprint="coin",
        )  # fmt: skip
        self.steps += y.size
        return bits

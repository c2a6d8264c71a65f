"""Rows that leave at levels of their own."""

from __future__ import annotations

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, ArrayLike, fingerprint_of
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.mechanism._missing import marked, real_numbers, split_missing
from privest.mechanism._range import clip_of
from privest.mechanism.source import Clip, Shown, Source, as_integers, as_protected, as_source

Ends = tuple[float, float]


class UnequalRows:
    """z̃_k = √s_k·y_k + e_k, e_k of unit variance: I_z ≤ diag(s), and so ≤ s_k of each reading.

    Levels are public and come with the rows, block by block. A row of level 0 leaves as 0: neither
    its reading nor noise is in it. `range`: of the readings; beyond it they are clipped, at the
    last multiples of the grid within it.

    >>> rows = UnequalRows()
    >>> rows.simulate([0.3, 0.1], [4.0, 0.0], np.random.default_rng(1)).round(3).tolist()
    [0.946, 0.0]
    >>> rows.release([0.3, 0.1], [4.0, 0.0]).tolist()[1]
    0
    """

    def __init__(self, range: Ends | None = None, facts: str = "") -> None:
        self.range, self.facts, self.steps = range, facts, 0

    def require(self, levels: ArrayLike) -> None:
        """Refuse, before anything is drawn, levels at which the grid cannot hold the range."""
        self._clip(_roots(levels))

    def simulate(self, y: ArrayLike, levels: ArrayLike, rng: np.random.Generator | Source) -> Array:
        """z̃ of the next rows, with simulated noise; NaN where a reading is missing."""
        values, absent = split_missing(real_numbers(y), finite=True)
        roots = _roots(levels)
        z = self._shown(lambda: roots * np.where(roots > 0, values, 0.0), roots, as_source(rng))
        return z if absent is None else np.where(absent, np.nan, z)

    def release(self, y: ArrayLike, levels: ArrayLike, source: Source | None = None) -> AnyArray:
        """Whole numbers n of the next rows, with protected noise: n·g/√s_k is y_k and its noise."""
        given, roots = real_numbers(y), _roots(levels)

        def shown() -> lattice.Exactly:
            values, absent = split_missing(given, finite=False)
            values = np.where(roots > 0, values, 0.0)  # infinite ones too: 0 of them is shown
            return marked(lattice.sum_of_products([(roots, values)]), absent)

        whole = self._shown(shown, roots, as_protected(source)) / GRID
        return as_integers(whole)

    def _shown(self, shown: Shown, roots: Array, source: Source) -> Array:
        count = len(roots)
        found = source.add_noise(
            shown, shape=(count,), at=self.steps, sizes=(1,) * count, clip=self._clip(roots),
            fingerprint=f"levels {self.facts} {fingerprint_of('roots', roots)}",
        )  # fmt: skip
        self.steps += count
        return np.where((roots == 0) & ~np.isnan(found), 0.0, found)

    def _clip(self, roots: Array) -> Clip | None:
        return None if self.range is None else clip_of([roots], self.range)


def _roots(levels: ArrayLike) -> Array:
    """The largest doubles whose squares are at most the levels."""
    given = np.asarray(levels, dtype=np.float64)
    if given.ndim != 1 or not (np.isfinite(given).all() and (given >= 0).all()):
        raise InvalidInput("levels of rows are finite numbers, 0 or more, one a row.")
    return lattice.literal_root(given)

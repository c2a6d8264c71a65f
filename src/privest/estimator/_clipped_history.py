"""The releases of a stream of clipped readings, kept for the iterations of maximum likelihood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privest import lattice
from privest.arrays import Array
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._clipped import ClippedRows
from privest.mechanism._rows import Range, clip_of
from privest.noise import GaussianLaw, ScalarLaw
from privest.privacy import SequentialLevel
from privest.release import StreamRelease


class ClippedHistory:
    """Releases and their rows, in the units of the readings: public, all of it.

        z_k = z̃_k/c_k = clip(y_k, a_k, b_k) + e_k/c_k ,   c_k² ≤ s_k the level that was met,

    a_k and b_k the multiples of the grid within the range, which the mechanism clips to. Steps of
    level 0 and missing ones are left out. Memory: n + 4 numbers a reading. `unknown`: nobody knows
    the variance of the law, which is then that of each reading in units of it, 1.
    """

    def __init__(
        self, level: SequentialLevel, span: Range, law: ScalarLaw, *, unknown: bool = False
    ) -> None:
        if level.form != "independent" or level.block != 1:
            raise InvalidInput(
                "a range is for a level that does not look back: with lags the coordinates of A·y "
                "are clipped, and their likelihood is not that of single readings."
            )
        if not isinstance(law, GaussianLaw):
            raise InvalidInput(
                "the likelihood of clipped readings is that of Gaussian noise: give noise as a "
                "variance, or no range."
            )
        self._level, self._span, self._variance = level, span, float(law.variance)
        self.unknown = unknown
        self._kept: tuple[ClippedRows, ...] = ()
        # Why there is no estimate.
        self.hidden: InvalidInput | NotIdentifiable | NumericalFailure | None = None

    def __copy__(self) -> ClippedHistory:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def add(self, release: StreamRelease, rows: Array) -> None:
        """What was just released."""
        own = self._level.pointwise(release.start, release.start + release.steps)
        weight = np.broadcast_to(lattice.literal_root(np.asarray(own)), release.steps)
        least, most = clip_of([weight], self._span)
        shown = weight > 0
        if release.missing is not None:
            shown &= ~release.missing
        if not shown.any():
            return
        unit, grid = weight[shown], lattice.GRID
        block = ClippedRows(
            H=rows[shown].copy(),
            z=release.values[shown] / unit,
            variance=self._variance,
            level=unit**2,
            low=grid * least[shown] / unit,
            high=grid * most[shown] / unit,
        )
        self._kept = (*self._kept, block)

    @property
    def rows(self) -> int:
        """Readings that were released."""
        return sum(int(np.size(block.z)) for block in self._kept)

    def blocks(self) -> Iterator[ClippedRows]:
        """All of them, from the beginning."""
        return iter(self._kept)

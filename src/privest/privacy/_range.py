"""A public range of the readings: what clipping to it makes true, for every value of a reading.

Pointwise levels: every reading is clipped to [low, high], and "one reading moves by at most
high − low" holds whatever it is. Where the level is correlated the coordinates of u = Lᵀy are
clipped instead (docs/theory.md 5): a reading then moves each of them by at most its own range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_number, as_positive
from privest.errors import InvalidInput
from privest.privacy._adjacency import OneReading
from privest.records import Record


@dataclass(frozen=True)
class Range(Record):
    """low ≤ y ≤ high, in the units of the readings: public knowledge, never from private data.

    >>> Range(0.0, 10.0).move
    OneReading(by=10.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = as_number(getattr(self, name), f"the {name} end of the range")
            object.__setattr__(self, name, end)
        if not self.low < self.high or not math.isfinite(self.width):
            raise InvalidInput(
                "a range is low, high with low < high and a width that is a number; received "
                f"{self.low:g}, {self.high:g}."
            )

    @property
    def width(self) -> float:
        """high − low."""
        return self.high - self.low

    @property
    def move(self) -> OneReading:
        """What clipping makes true at a pointwise level: one reading moves by at most the width."""
        return OneReading(self.width)

    def on_grid(self, factor: float, grid: float) -> tuple[int, int]:
        """The first and last whole number n with g·n/L in the range, L = `factor` = √s.

        Clipping n = round(Ly/g) to them is clipping y to their readings g·n/L, which are the ends
        that the likelihood takes. In exact arithmetic.

        >>> Range(-1.0, 1.0).on_grid(2.0, 0.25)
        (-8, 8)
        """
        unit = Fraction(as_positive(grid, "grid")) / Fraction(as_positive(factor, "factor"))
        first = math.ceil(Fraction(self.low) / unit)
        last = math.floor(Fraction(self.high) / unit)
        if not first < last:
            raise InvalidInput(
                f"the range {self.low:g}, {self.high:g} is narrower than a step of the grid, "
                f"{float(unit):g}: at this level it would show nothing. Take a wider one."
            )
        return first, last

    def coordinates(self, factor: ArrayLike) -> tuple[Array, Array]:
        """The range (r,), (r,) of every coordinate of u = Lᵀy, L (m, r), all readings in range.

        >>> low, high = Range(0.0, 1.0).coordinates([[1.0, 1.0], [1.0, -1.0]])
        >>> low.tolist(), high.tolist()
        ([0.0, -1.0], [2.0, 1.0])
        """
        L = as_array(factor, "the factor of the level", ndim=2)
        ends = np.stack([self.low * L, self.high * L])
        return ends.min(axis=0).sum(axis=0), ends.max(axis=0).sum(axis=0)


def coordinate_mu(
    factor: ArrayLike, low: ArrayLike, high: ArrayLike, *, move: float | None = None,
    grid: float = 0.0,
) -> float:  # fmt: skip
    """μ when one reading changes and u = Lᵀy is clipped to [low_i, high_i], L (m, r).

        μ = max_k ‖g⌈d_k/g⌉‖ ,   d_ki = high_i − low_i where L_ki ≠ 0 , else 0

    True for every change of one reading. With `move` = c, a promise that it changes by at most c
    (clipping coordinates does not enforce it): d_ki = min(|L_ki|c, high_i − low_i). g = `grid`:
    moves are whole steps of it (safe-release.md 4); 0 for continuous noise.

    >>> coordinate_mu([[3.0, 0.0], [0.0, 4.0]], -1.0, 1.0)
    2.0
    >>> coordinate_mu([[3.0, 0.0], [0.0, 4.0]], -1.0, 1.0, move=0.25)
    1.0
    """
    L = as_array(factor, "the factor of the level", ndim=2)
    ends = [as_array(end, "the range of the coordinates", ndim=(0, 1)) for end in (low, high)]
    if any(end.ndim and len(end) != L.shape[1] for end in ends) or not (ends[0] < ends[1]).all():
        raise InvalidInput(
            f"ranges of the coordinates are low < high, one for each of the {L.shape[1]} columns "
            "of the factor."
        )
    moves = np.where(L != 0, ends[1] - ends[0], 0.0)
    if move is not None:
        moves = np.minimum(moves, np.abs(L) * as_positive(move, "move"))
    if grid:
        moves = as_positive(grid, "grid") * np.ceil(moves / grid)
    return float(np.linalg.norm(moves, axis=1).max())

"""A public range of the readings: what clipping to it makes true, for every value of a reading.

Pointwise levels: every reading is clipped to [low, high], and "one reading moves by at most
high − low" holds whatever it is. Where the level is correlated the coordinates of u = Lᵀy are
clipped instead (docs/ranges.md): a reading then moves each of them by at most its own range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privest.arrays import as_number
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

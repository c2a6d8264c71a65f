"""Digests of the rows that were used, by which a checkpoint knows them again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from privest.streaming._rows import Row


class Used(NamedTuple):
    """Of all rows so far, row by row.

    features  public, so it tells nothing of the readings.
    readings  begun with a secret of the ledger, so that nobody else can try out what they were;
              None: there is no ledger, or it was not kept.
    """

    features: str
    readings: str | None

    @classmethod
    def begun(cls, names: Sequence[str], secret: str | None) -> Used:
        """Of no rows yet."""
        return cls(_hashed(repr(list(names))), secret)

    def after(self, row: Row) -> Used:
        """With one row more."""
        readings = self.readings
        if readings is not None:
            readings = _hashed(readings + repr(row.value + 0.0))  # −0 is 0
        return Used(_hashed(self.features + repr(row.features)), readings)

    def agrees(self, other: Used) -> bool:
        """Whether they are of the same rows, as far as both know."""
        unknown = None in (self.readings, other.readings)
        return self.features == other.features and (unknown or self.readings == other.readings)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

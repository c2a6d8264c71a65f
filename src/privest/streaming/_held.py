"""All releases of a stream and their rows of H, for an estimate that is made at the end."""

from __future__ import annotations

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.dynamics import joined

MANY = 1024  # blocks held one by one before they are joined: a small one is mostly its frame


class Held:
    """Releases that follow one another: 8(n + 1) bytes a reading, and up to 1024 small blocks."""

    def __init__(self) -> None:
        self._parts: list[tuple[pv.StreamRelease, Array]] = []
        self._joined: list[tuple[pv.StreamRelease, Array]] = []

    def add(self, release: pv.StreamRelease, H: Array) -> None:
        """The next of them."""
        self._parts.append((release, H))
        if len(self._parts) == MANY:
            self._joined.append(_whole(self._parts))
            self._parts = []

    def whole(self) -> tuple[pv.StreamRelease, Array]:
        """All of them as one, with H (readings, n)."""
        return _whole([*self._joined, *self._parts])


def _whole(parts: list[tuple[pv.StreamRelease, Array]]) -> tuple[pv.StreamRelease, Array]:
    releases, rows = zip(*parts)
    return joined(releases), np.concatenate(rows)

"""Steps of which some measurements are missing: what of them is shown.

A level with U = 0 that shows every measurement by itself shows the others. One that mixes
measurements, or looks back, shows nothing of such a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privest.arrays import Flags
from privest.privacy.stream import StreamLevel


def hidden_entries(level: StreamLevel, absent: Flags, sizes: Sequence[int]) -> Flags:
    """Which entries (…, all of steps of these sizes) show nothing, where `absent` are missing."""
    if level.pointwise(0, 1) is not None:
        return absent
    starts = np.cumsum([0, *sizes[:-1]])
    some = np.logical_or.reduceat(absent, starts, axis=-1)
    return np.repeat(some, sizes, axis=-1)

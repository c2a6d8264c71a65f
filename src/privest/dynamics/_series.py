"""Many series of the same kind, released and filtered as one array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, Flags, Index, as_array
from privest.dynamics._observed import shown_blocks
from privest.errors import InvalidInput
from privest.mechanism.source import Source, as_source
from privest.privacy import SequentialLevel
from privest.release import Release


@dataclass(frozen=True, eq=False, slots=True)
class SeriesRelease(Release):
    """z̃ of many series, (series, K, m), with noise of their own; it cannot hold y.

    values     NaN where a step is missing.
    missing    (K,) if all series miss the same steps, else (series, K).
    """

    KIND: ClassVar[str] = "series release"

    values: Array
    missing: Flags
    fingerprint: str
    simulated: bool
    start: int = 0

    def __repr__(self) -> str:
        series, steps, m = self.values.shape
        return f"SeriesRelease({series} series, {steps} steps, {m} readings a step)"

    def by_pattern(self) -> Iterator[tuple[Index, SeriesRelease]]:
        """The series that miss the same steps, together: their numbers and their releases."""
        if self.missing.ndim == 1:
            yield np.arange(len(self.values)), self
            return
        patterns, own = np.unique(self.missing, axis=0, return_inverse=True)
        for j, pattern in enumerate(patterns):
            members = np.flatnonzero(own.reshape(-1) == j)
            part = SeriesRelease(self.values[members], pattern, self.fingerprint, self.simulated)
            yield members, part


def release_series(
    level: SequentialLevel, y: ArrayLike, rng: np.random.Generator | Source
) -> SeriesRelease:
    """Release readings (series, K, m), or (series, K) for scalar ones, with simulated noise.

    Each series is a stream of its own at the given level, as with one StreamMechanism each. NaN:
    missing; a reading of which a part is missing counts as missing.
    """
    source = as_source(rng)
    if level.block is None:
        raise InvalidInput("Many series need a level with readings of one size.")
    raw = np.asarray(y)
    if raw.dtype.kind not in "biuf":
        raise InvalidInput(f"readings must be real numbers; received an array of {raw.dtype}.")
    raw = raw[:, :, None] if raw.ndim == 2 and level.block == 1 else raw
    if raw.ndim != 3 or raw.shape[2] != level.block or raw.size == 0:
        raise InvalidInput(
            f"readings must be (series, steps, {level.block}); received shape {raw.shape}."
        )
    count, steps = raw.shape[:2]
    if level.steps is not None and steps > level.steps:
        raise InvalidInput(f"The level has {level.steps} steps; received {steps} readings.")
    missing = np.isnan(raw).any(axis=2)
    values = as_array(np.where(missing[:, :, None], 0.0, raw), "the readings")
    if level.form == "dense":
        shown = (values.reshape(count, -1) @ _dense_rows(level, steps).T).reshape(raw.shape)
    else:
        rows = shown_blocks(level, 0, steps)
        shown = np.zeros(raw.shape)
        for lag in range(level.reach + 1):
            if lag < steps:
                part = np.einsum("kij,skj->ski", rows[lag, lag:], values[:, : steps - lag])
                shown[:, lag:] += part
    noisy = source.add_noise(shown)
    noisy[missing] = np.nan
    shared = missing[0] if (missing == missing[0]).all() else missing
    return SeriesRelease(noisy, shared, level.fingerprint, source.simulated)


def _dense_rows(level: SequentialLevel, steps: int) -> Array:
    assert level.block is not None
    return level.dense_rows(0, steps)

"""The repetitions of the recursive experiments: one split of the people for all, or one each.

Splits come one after another, so that only one holds its weights at a time. Steps before a block
identifies θ are NaN here; a figure begins where the last block has begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privest.arrays import Array
from privest.data import Table
from privest.errors import InvalidInput
from privest.paper._band import ratio_error
from privest.paper._blood import Plan, Split, split
from privest.paper._engine import generator
from privest.paper._linear_paths import LinearPaths, linear_paths
from privest.privacy import StreamLevel


@dataclass(frozen=True, eq=False)
class Streams:
    """The B blocks of one split with the weights of their estimates, K steps each."""

    split: Split
    paths: list[LinearPaths]

    @classmethod
    def of(cls, own: Split, level: StreamLevel) -> Streams:
        """The blocks of a split at a level."""
        return cls(own, [linear_paths(own.model(b), level) for b in range(own.blocks)])

    @property
    def first(self) -> int:
        """The first step (from 0) after which every block identifies θ."""
        return max(path.first for path in self.paths)

    def readings(self, count: int) -> Array:
        """The people's own, the same in every repetition, (count, B, K)."""
        return np.broadcast_to(self.split.readings, (count, *self.split.readings.shape))

    def synthetic(self, count: int, rng: np.random.Generator) -> Array:
        """Readings of the same rows with θ_ref true and fresh noise, (count, B, K)."""
        own = self.split
        w = rng.standard_normal((count, *own.readings.shape))
        return np.asarray(own.rows @ own.theta + np.sqrt(own.variance) * w)

    def squared_errors(self, readings: Array, noise: Array) -> Array:
        """‖θ̂_k − θ_ref‖² of the private RLS, (count, B, K), from readings and unit noise."""
        found = np.full(readings.shape, np.nan)
        for b, path in enumerate(self.paths):
            error = path.estimates(readings[:, b], noise[:, b]) - self.split.theta
            found[:, b, path.first :] = (error**2).sum(axis=-1)
        return found

    def covariances(self, name: str) -> Array:
        """`measured`, `noise` or `bound` of every block, (B, K, n, n)."""
        n = len(self.split.theta)
        found = np.full((*self.split.readings.shape, n, n), np.nan)
        for b, path in enumerate(self.paths):
            found[b, path.first :] = getattr(path, name)
        return found

    @cached_property
    def floors(self) -> Array:
        """tr Σ_PPCR,k, (B, K)."""
        return np.asarray(np.trace(self.covariances("bound"), axis1=-2, axis2=-1))


def rounds(
    table: Table, plan: Plan, level: StreamLevel, repetitions: int, seed: int, resplit: bool
) -> Iterator[tuple[Streams, int]]:
    """The splits of a seed, and how many repetitions each serves."""
    if repetitions < 2:
        raise InvalidInput(f"at least 2 repetitions are needed; received {repetitions}.")
    count = repetitions if resplit else 1
    for r in range(count):
        own = split(table, plan, generator("split", r, seed))
        yield Streams.of(own, level), repetitions // count


def sampling_error(errors: Array, floors: Array, *, fresh: bool = False) -> Array:
    """The standard error of the mean of errors (splits, repetitions, B, K), floors (splits, B, K).

    Over what is independent: splits; without several of them the repetitions, if the readings
    are `fresh` in each; else only the blocks.
    """
    if len(errors) > 1:
        return ratio_error(errors.mean(axis=(1, 2)), floors.mean(axis=1))
    if fresh:
        cells = errors[0].mean(axis=1)
        return ratio_error(cells, np.ones_like(cells))
    return ratio_error(errors[0].mean(axis=0), floors[0])

"""The streams of the recursive experiments: every estimate of a block as a matrix, θ̂_k = W_k z̃.

The private RLS is linear in the releases, with weights that depend on the rows and the level only.
One pass gives the weights of all steps; thousands of repetitions are then one product, and the
covariance splits into what the measurements and what the privacy noise contribute.

Repetitions have one split of the people for all, or one each. Splits come one after another, so
that only one holds its weights at a time. Steps before a block identifies θ are NaN here; a figure
begins where the last block has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.bounds import stream_bound
from privest.paper._band import ratio_error
from privest.paper._engine import generator
from privest.paper._people import Plan, Split, split

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class LinearPaths:
    """W_k for k = first..K−1 (steps counted from 0), and covariances of θ̂_k, (K − first, n, n).

    measured   W_k A Σ Aᵀ W_kᵀ: from w;   noise   W_k W_kᵀ: from the privacy noise. Their sum is
    `bound`, Σ_PPCR,k, for Gaussian w.
    """

    first: int
    weights: Array
    shown: Array  # A: what a release shows of the readings
    measured: Array
    noise: Array
    bound: Array

    def estimates(self, readings: Array, release_noise: Array) -> Array:
        """θ̂_k, (R, K − first, n), from readings (R, K) or (K,) and unit noise (R, K)."""
        releases = readings @ self.shown.T + release_noise
        return np.asarray(np.einsum("knj,rj->rkn", self.weights, releases, optimize=True))


def linear_paths(model: pv.LinearModel, level: pv.StreamLevel) -> LinearPaths:
    """The weights of `algo:PP_RLS`:  W_k = PI_k⁻¹ Σ_{j ≤ k} G_jᵀ [C⁻¹]_j ,  C Cᵀ = A Σ Aᵀ + I.

    Assumes Gaussian noise and one reading a step. Cost: K³ and the memory of K·n·K numbers.
    """
    limits = stream_bound(model, level)
    first, size = limits.require_first(), level.readings
    whitener = level.rows.whiten(model.covariance, np.eye(size))
    sums = np.cumsum(limits.rows[:, :, None] * whitener[:, None, :], axis=0)[first:]
    weights = limits.found @ sums
    shown = level.rows.dense()
    half = model.covariance.factor_rows(shown.T).T  # A Σ^½
    spread = weights @ half
    return LinearPaths(
        first=first,
        weights=weights,
        shown=shown,
        measured=spread @ spread.transpose(0, 2, 1),
        noise=weights @ weights.transpose(0, 2, 1),
        bound=limits.found,
    )


@dataclass(frozen=True, eq=False)
class Streams:
    """The B blocks of one split with the weights of their estimates, K steps each."""

    split: Split
    paths: list[LinearPaths]

    @classmethod
    def of(cls, own: Split, level: pv.StreamLevel) -> Streams:
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
    table: pv.data.Table,
    plan: Plan,
    level: pv.StreamLevel,
    repetitions: int,
    seed: int,
    resplit: bool,
) -> Iterator[tuple[Streams, int]]:
    """The splits of a seed, and how many repetitions each serves."""
    if repetitions < 2:
        raise pv.errors.InvalidInput(f"at least 2 repetitions are needed; received {repetitions}.")
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


def by_step(
    point: Callable[..., P], first: int, columns: Mapping[str, Array], **same: str | int
) -> list[P]:
    """A point of a figure for every step from `first`: its columns there, and what is the same."""
    steps = len(next(iter(columns.values())))
    return [
        point(k=i + 1, **same, **{name: float(values[i]) for name, values in columns.items()})
        for i in range(first, steps)
    ]

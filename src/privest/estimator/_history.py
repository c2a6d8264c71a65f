"""Releases of single readings and their rows, kept for a second look at them: public, all of it.

`RowHistory` is for errors that need one, `ClippedHistory` for the likelihood of clipped readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, Flags
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._clipped import ClippedRows
from privest.estimator.inference import (
    Errors,
    LevelRows,
    Scatter,
    WeightedRows,
    cluster_errors,
    fit_levels,
    group_sums,
    row_errors,
)
from privest.estimator.inference._errors import UPPER, upper_variance
from privest.estimator.result import Result
from privest.linalg import least_squares
from privest.mechanism.rows import Range, clip_of
from privest.noise import GaussianLaw, ScalarLaw
from privest.privacy import SequentialLevel
from privest.records import Record
from privest.release import StreamRelease

BOTH_ENDS = 2 * UPPER - 1  # of an interval whose upper end is the limit


@dataclass(frozen=True)
class NoiseLimit(Record):
    """σ̂² and its upper 90 % limit; the same where it is known: what a reading is predicted with.

    growth  how many times larger the covariance of θ̂ is at the limit.

    A reading at h differs from hθ̂ by σ² + cov: with σ̂² in the place of σ² intervals of 95 % cover
    .84 to .94, because it may come out far too small, also as 0; with the limit .97 to .98.
    """

    variance: float
    upper: float
    growth: float = 1.0


def known_limit(variance: float) -> NoiseLimit:
    """Of a variance that was stated."""
    return NoiseLimit(variance, variance)


def limit_of(variance: float, freedom: float, added: float = 0.0) -> NoiseLimit:
    """Where σ̂² + added has so many degrees of freedom."""
    upper = upper_variance(variance + added, freedom, added)
    return NoiseLimit(variance, upper, (upper + added) / (variance + added))


def limit_at(variance: float, upper: float, added: float) -> NoiseLimit:
    """Of an estimate with the upper end of its interval."""
    most = max(upper, variance)
    return NoiseLimit(variance, most, (most + added) / (variance + added))


def scattered_limit(scatter: Scatter) -> NoiseLimit:
    """Of what a release scatters, by which the covariance was made: perhaps less than its noise."""
    upper = scatter.upper(UPPER)
    growth = (upper + scatter.added) / scatter.total if scatter.total > 0 else 1.0
    return NoiseLimit(scatter.noise_variance, upper, growth)


@dataclass(frozen=True, eq=False)
class Beside:
    """What is given beside rows and readings: weights (m,) ≥ 0 and labels (m,), or None."""

    samples: int
    weight: Array | None = None
    group: AnyArray | None = None

    @property
    def nothing(self) -> bool:
        return self.weight is None and self.group is None

    @property
    def shown(self) -> int:
        """How many samples count."""
        return self.samples if self.weight is None else int(np.count_nonzero(self.weight))

    def without_unweighted(self, readings: Array) -> Array:
        """The readings; those of weight 0 are missing: they would be shown for nothing."""
        if self.weight is None or self.weight.all():
            return readings
        return np.where(self.weight > 0, readings, np.nan)


class _History:
    """What was released so far, in blocks; steps of level 0 and missing ones are left out."""

    def __init__(self, level: SequentialLevel, refusal: str) -> None:
        if level.form != "independent" or level.block != 1:
            raise InvalidInput(refusal)
        self._level = level
        self._kept: tuple[Any, ...] = ()

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def _shown(self, release: StreamRelease) -> tuple[Array, Flags]:
        """The level of every step, and which steps show a reading."""
        own = self._level.pointwise(release.start, release.start + release.steps)
        level = np.broadcast_to(np.asarray(own, float), release.steps)
        shown = level > 0
        return level, shown if release.missing is None else shown & ~release.missing

    @property
    def rows(self) -> int:
        """How many readings were shown."""
        return sum(len(block.z) for block in self._kept)


class ClippedHistory(_History):
    """Releases of clipped readings and their rows, in the units of the readings.

        z_k = z̃_k/c_k = clip(y_k, a_k, b_k) + e_k/c_k ,   c_k² ≤ s_k the level that was met,

    a_k and b_k the multiples of the grid within the range, which the mechanism clips to. Memory:
    n + 4 numbers a reading. `unknown`: nobody knows the variance of the law, which is then that of
    each reading in units of it, 1.
    """

    def __init__(
        self, level: SequentialLevel, span: Range, law: ScalarLaw, *, unknown: bool = False
    ) -> None:
        super().__init__(
            level,
            "a range is for a level that does not look back: with lags the coordinates of A·y "
            "are clipped, and their likelihood is not that of single readings.",
        )
        if not isinstance(law, GaussianLaw):
            raise InvalidInput(
                "the likelihood of clipped readings is that of Gaussian noise: give noise as a "
                "variance, or no range."
            )
        self._span, self._variance, self.unknown = span, float(law.variance), unknown
        # Why there is no estimate.
        self.hidden: InvalidInput | NotIdentifiable | NumericalFailure | None = None

    def add(self, release: StreamRelease, rows: Array) -> None:
        """What was just released."""
        level, shown = self._shown(release)
        if not shown.any():
            return
        weight = lattice.literal_root(level)
        least, most = clip_of([weight], self._span)
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

    def blocks(self) -> Iterator[ClippedRows]:
        """All of them, from the beginning."""
        return iter(self._kept)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows: H (r, n), z = y + noise of variance `added` (r,), weights and labels or None."""

    H: Array
    z: Array
    added: Array
    weight: Array | None
    group: AnyArray | None


class RowHistory(_History):
    """Releases and their rows in the units of the readings.

        z_k = z̃_k/√s_k = y_k + noise of variance a_k = 1/s_k

    (a little more for the grid of a real release). Memory: n + 2 numbers a reading, n + 4 with
    weights and groups.

    noise  σ² where it is known, None where the releases must show it.
    """

    def __init__(self, level: SequentialLevel, noise: float | None) -> None:
        super().__init__(
            level,
            "a level that looks back mixes readings: with it the noise must be stated (a "
            "variance, or a reference set), and there are no sample weights and no groups.",
        )
        self._noise = noise
        self.noise = known_limit(0.0 if noise is None else noise)  # as last fitted

    def add(self, release: StreamRelease, rows: Array, beside: Beside) -> None:
        """What was just released."""
        weight, group = beside.weight, beside.group
        if self._kept and (
            (weight is None) != (self._kept[0].weight is None)
            or (group is None) != (self._kept[0].group is None)
        ):
            raise InvalidInput(
                "sample_weight and groups are given for all readings of a stream, or for none."
            )
        level, shown = self._shown(release)
        if not shown.any():
            return
        block = _Rows(
            H=rows[shown].copy(),
            z=release.values[shown] / np.sqrt(level[shown]),
            added=release.unit_variance / level[shown],
            weight=None if weight is None else weight[shown],
            group=None if group is None else group[shown],
        )
        self._kept = (*self._kept, block)

    def fit(self, names: tuple[str, ...], *, simulated: bool) -> Result:
        """The estimate from all that was shown. More rows than coefficients are needed."""
        H, z, added = (
            np.concatenate([getattr(block, name) for block in self._kept])
            for name in ("H", "z", "added")
        )
        weight, group = self._column("weight"), self._column("group")
        scatter, self.noise = self._scatter(H, z, added)
        if weight is None and group is None:
            estimate, errors = self._plain(H, z, added, scatter)
        else:
            known = 1 / (self.noise.variance + added)
            rows = WeightedRows(H, z, known if weight is None else weight, added)
            estimate, errors = _weighted(rows, group)
        return Result(estimate=estimate, names=names, simulated=simulated, **errors.fields())

    def _plain(self, H: Array, z: Array, added: Array, scatter: Scatter) -> tuple[Array, Errors]:
        """Without weights and groups; σ² is not known."""
        if _alike(added):
            estimate, inverse = _solved(H, z)
            rows = [WeightedRows(H, z, 1.0, added)]
            errors, _ = row_errors("auto", estimate, inverse, lambda: rows, scatter)
            return estimate, errors
        found = fit_levels(lambda: [LevelRows(H, z, added)], H.shape[1])
        return found.estimate, found.errors

    def _scatter(self, H: Array, z: Array, added: Array) -> tuple[Scatter, NoiseLimit]:
        """What least squares without weights leaves, and σ² with its limit."""
        freedom = len(z) - H.shape[1]
        estimate, _ = _solved(H, z)
        scatter = Scatter(float(((z - H @ estimate) ** 2).sum()), freedom, float(added.mean()))
        if self._noise is not None:
            return scatter, known_limit(self._noise)
        if _alike(added):
            return scatter, scattered_limit(scatter)
        found = fit_levels(lambda: [LevelRows(H, z, added)], H.shape[1], BOTH_ENDS)
        upper = 0.0 if found.noise_interval is None else found.noise_interval[1]
        return scatter, limit_at(found.noise_variance, upper, scatter.added)

    def _column(self, name: str) -> Any:  # noqa: ANN401 - weights or labels
        if not self._kept or getattr(self._kept[0], name) is None:
            return None
        return np.concatenate([getattr(block, name) for block in self._kept])


def _alike(added: Array) -> bool:
    return bool(added.min() == added.max())


def _solved(H: Array, z: Array) -> tuple[Array, Array]:
    """θ̂ and (HᵀH)⁻¹ of least squares."""
    estimate, root = least_squares(H, z)
    return estimate, root.inverse()


def _weighted(rows: WeightedRows, group: AnyArray | None) -> tuple[Array, Errors]:
    """Weighted least squares: sandwiches by row, or by group (CR2)."""
    H, z, weight = rows.H, rows.z, np.asarray(rows.weight)
    root = np.sqrt(weight)
    estimate, inverse = _solved(H * root[:, None], z * root)
    if group is None:
        errors, _ = row_errors("auto", estimate, inverse, lambda: [rows])
        return estimate, replace(errors, method=f"{errors.method}, survey weights")
    noise = inverse @ (H.T @ (H * (weight**2 * rows.added)[:, None])) @ inverse
    labels, places = np.unique(group, return_inverse=True)
    left = z - H @ estimate
    sums = group_sums(np.column_stack([H, left]) * root[:, None], places, len(labels))
    found = cluster_errors(sums[:, :-1, :-1], sums[:, :-1, -1])
    method = f"CR2, {found.groups} groups"
    return estimate, Errors.above(noise, found.covariance, found.degrees_of_freedom, method)

"""Releases of single measurements with their rows, kept for a second pass: all of it is public."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d

from privest import lattice
from privest.arrays import AnyArray, Array, Flags
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.estimator._clipped import ClippedRows
from privest.estimator.inference import (
    Errors,
    Scatter,
    WeightedRows,
    cluster_errors,
    fit_levels,
    group_sums,
    row_errors,
)
from privest.estimator.inference._errors import UPPER, upper_variance
from privest.estimator.result import Estimate
from privest.linalg import least_squares
from privest.mechanism.inputs import real_numbers
from privest.mechanism.rows import Range, clip_of
from privest.noise import Distribution, Gaussian
from privest.privacy import StreamLevel
from privest.records import Record
from privest.release import Release

BOTH_ENDS = 2 * UPPER - 1  # of an interval whose upper end is the limit


@dataclass(frozen=True)
class NoiseLimit(Record):
    """σ̂², its upper 90% limit, and how many times larger cov θ̂ is at the limit (`growth`)."""

    variance: float
    upper: float
    growth: float = 1.0


def limit_at(variance: float, upper: float, added: float) -> NoiseLimit:
    """For an estimate of σ² beside known noise of variance `added`."""
    most = max(upper, variance)
    return NoiseLimit(variance, most, (most + added) / (variance + added))


def limit_of(variance: float, freedom: float, added: float = 0.0) -> NoiseLimit:
    return limit_at(variance, upper_variance(variance + added, freedom, added), added)


@dataclass(frozen=True, eq=False)
class Beside:
    """Weights (m,) ≥ 0 and labels (m,) given beside the rows, or None."""

    samples: int
    weight: Array | None = None
    group: AnyArray | None = None

    @property
    def nothing(self) -> bool:
        return self.weight is None and self.group is None

    @property
    def shown(self) -> int:
        return self.samples if self.weight is None else int(np.count_nonzero(self.weight))

    def without_unweighted(self, readings: Array) -> Array:
        """The measurements; those of weight 0 are missing, so that they are not released."""
        return readings if self.weight is None else np.where(self.weight > 0, readings, np.nan)


class _History:
    """Releases so far, in blocks; steps of level 0 and missing ones are left out."""

    def __init__(self, level: StreamLevel, refusal: str) -> None:
        if level.form != "independent" or level.block != 1:
            raise InvalidInput(refusal)
        self._level = level
        self._kept: tuple[Any, ...] = ()

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def _shown(self, release: Release) -> tuple[Array, Flags]:
        own = self._level.pointwise(release.start, release.start + release.steps)
        level = np.broadcast_to(np.asarray(own, float), release.steps)
        shown = level > 0
        return level, shown if release.missing is None else shown & ~release.missing

    @property
    def rows(self) -> int:
        return sum(len(block.z) for block in self._kept)


class ClippedHistory(_History):
    """Releases of clipped measurements: z_k = z̃_k/c_k, c_k² ≤ s_k the level that was met."""

    def __init__(
        self, level: StreamLevel, span: Range, law: Distribution, *, unknown: bool = False
    ) -> None:
        super().__init__(
            level,
            "a range is for a level that does not look back: with lags the coordinates of A·y "
            "are clipped, and their likelihood is not that of single readings.",
        )
        if not isinstance(law, Gaussian):
            raise InvalidInput(
                "the likelihood of clipped readings is that of Gaussian noise: give noise as a "
                "variance, or no range."
            )
        self._span, self._variance, self.unknown = span, float(law.variance), unknown
        # Why there is no estimate.
        self.hidden: InvalidInput | NotIdentifiable | NumericalFailure | None = None

    def add(self, release: Release, rows: Array) -> None:
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
        return iter(self._kept)


class _Rows(NamedTuple):
    """Some rows: H (r, n), z = y + noise of variance `added` (r,), weights and labels or None."""

    H: Array
    z: Array
    added: Array
    weight: Array | None
    group: AnyArray | None


class RowHistory(_History):
    """Releases and their rows in the units of y: z_k = z̃_k/√s_k = y_k + noise of variance 1/s_k.

    noise  σ² where it is known, None where the releases must show it.
    """

    def __init__(self, level: StreamLevel, noise: float | None) -> None:
        super().__init__(
            level,
            "a level that looks back mixes readings: with it the noise must be stated (a "
            "variance, or a reference set), and there are no sample weights and no groups.",
        )
        self._noise = noise
        self.noise = NoiseLimit(noise or 0.0, noise or 0.0)  # as last fitted

    def add(self, release: Release, rows: Array, beside: Beside) -> None:
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

    def fit(self, names: tuple[str, ...], *, simulated: bool) -> Estimate:
        joined: list[Any] = [
            None if parts[0] is None else np.concatenate(parts) for parts in zip(*self._kept)
        ]
        H, z, added, weight, group = joined
        estimate, inverse = _solved(H, z)
        squares, freedom = float(((z - H @ estimate) ** 2).sum()), len(z) - H.shape[1]
        scatter, levels = Scatter(squares, freedom, float(added.mean())), None
        if self._noise is not None:
            self.noise = NoiseLimit(self._noise, self._noise)
        elif added.min() == added.max():
            upper = scatter.upper()
            growth = (upper + scatter.added) / scatter.total if scatter.total > 0 else 1.0
            self.noise = NoiseLimit(scatter.noise_variance, upper, growth)
        else:
            blocks = [WeightedRows(H, z, added=added)]
            levels = fit_levels(lambda: blocks, H.shape[1], BOTH_ENDS)
            upper = 0.0 if levels.noise_interval is None else levels.noise_interval[1]
            self.noise = limit_at(levels.noise_variance, upper, scatter.added)
        if weight is not None or group is not None:
            known = 1 / (self.noise.variance + added)
            rows = WeightedRows(H, z, known if weight is None else weight, added)
            estimate, errors = _weighted(rows, group)
        elif levels is not None:
            estimate, errors = levels.value, levels.errors
        else:
            plain = [WeightedRows(H, z, 1.0, added)]
            errors, _ = row_errors("auto", estimate, inverse, lambda: plain, scatter)
        return Estimate(value=estimate, names=names, simulated=simulated, **errors.fields())


def _solved(H: Array, z: Array) -> tuple[Array, Array]:
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


def design(given: Array, intercept: bool) -> Array:
    return np.insert(given, 0, 1.0, axis=1) if intercept else given


def readings_of(y: object, *, finite: bool) -> Array:
    """y as a vector; `finite`: refuse NaN, as scikit-learn does; else NaN and NA are missing."""
    if y is None:
        raise InvalidInput(
            "PrivateLinearRegression requires y to be passed, but the target y is None."
        )
    if isinstance(y, np.ma.MaskedArray) and finite:
        raise InvalidInput("y is a masked array: drop the samples without a reading.")
    if not finite:
        if hasattr(y, "isna") and hasattr(y, "to_numpy"):  # pandas, with its NA
            with suppress(TypeError, ValueError):
                kind = getattr(getattr(y, "dtype", None), "kind", "O")
                wide = np.float64 if kind in "biuf" else object  # objects: integers of any size
                y = y.to_numpy(dtype=wide, na_value=np.nan)
        with suppress(InvalidInput):  # what is no array of numbers may still be a vector
            y = real_numbers(y)  # type: ignore[arg-type]
    readings: Array | None = None
    with suppress(TypeError, ValueError, OverflowError):  # and no context that quotes them
        readings = column_or_1d(y, dtype=np.float64, warn=True)
    if readings is None:
        raise InvalidInput("y must be a vector of real numbers, one a sample.")
    if finite:
        assert_all_finite(readings, input_name="y")
    return readings


def beside_rows(given: Array, weight: object, groups: object) -> Beside:
    """Weights and groups of these rows, checked: finite weights ≥ 0, some > 0; one label a row."""
    weights: Array | None = None
    if weight is not None:
        weights = column_or_1d(np.asarray(weight), dtype=np.float64)
        check_consistent_length(given, weights)
        assert_all_finite(weights, input_name="sample_weight")
        if not weights.min() >= 0 or not weights.any():
            raise InvalidInput(
                "sample_weight must be ≥ 0, and some weight above zero: leave out sample_weight."
            )
    labels = None
    if groups is not None:
        labels = column_or_1d(groups)
        check_consistent_length(given, labels)
    return Beside(len(given), weights, labels)

"""Inputs of `PrivateLinearRegression`, and fits of the one release of its `fit`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d

from privest import lattice
from privest.arrays import Array, Flags
from privest.errors import InvalidInput
from privest.estimator._clipped import ClippedRows
from privest.estimator.inference import Errors, Scatter, WeightedRows, fit_levels, row_errors
from privest.estimator.inference._errors import UPPER
from privest.linalg import least_squares
from privest.mechanism.inputs import real_numbers
from privest.mechanism.rows import Range, clip_of
from privest.privacy import StreamLevel
from privest.release import Release

BOTH_ENDS = 2 * UPPER - 1  # of an interval whose upper end is the limit


@dataclass(frozen=True)
class NoiseLimit:
    """σ̂², its upper 90% limit, and how many times larger cov θ̂ is at the limit (`growth`)."""

    variance: float
    upper: float
    growth: float = 1.0

    @classmethod
    def at(cls, variance: float, upper: float, added: float) -> NoiseLimit:
        """For an estimate of σ² beside known noise of variance `added`."""
        most, total = max(upper, variance), variance + added
        return cls(variance, most, (most + added) / total if total > 0 else 1.0)


class Samples(NamedTuple):
    """Samples with a release: H (r, n), z = y + noise of variance `added`, weights or None."""

    H: Array
    z: Array
    added: Array
    weight: Array | None


def _shown(release: Release, level: StreamLevel) -> tuple[Flags, Array]:
    """Samples that are not missing and whose level is not 0, and c ≤ √s, by which z̃ = cy + e."""
    own = np.broadcast_to(np.asarray(level.pointwise(0, release.steps), float), release.steps)
    shown = own > 0 if release.missing is None else (own > 0) & ~release.missing
    return shown, lattice.literal_root(own[shown])


def released_samples(
    release: Release, level: StreamLevel, rows: Array, weight: Array | None
) -> Samples:
    """The samples of a whole release in the units of y."""
    shown, unit = _shown(release, level)
    own = None if weight is None else weight[shown]
    return Samples(rows[shown], release.values[shown] / unit, release.unit_variance / unit**2, own)


def clipped_samples(
    release: Release, level: StreamLevel, rows: Array, span: Range, variance: float
) -> ClippedRows:
    """The samples of a whole release that were clipped to the range."""
    shown, unit = _shown(release, level)
    ends = (lattice.GRID * end / unit for end in clip_of([unit], span))
    return ClippedRows(rows[shown], release.values[shown] / unit, variance, unit**2, *ends)


def fit_samples(samples: Samples, noise: float | None) -> tuple[Array, Errors, NoiseLimit]:
    """θ̂, its errors and σ²; `noise` σ² where it is known, None where the release must show it."""
    H, z, added, weight = samples
    estimate, root = least_squares(H, z)
    squares, freedom = float(((z - H @ estimate) ** 2).sum()), len(z) - H.shape[1]
    scatter, levels = Scatter(squares, freedom, float(added.mean())), None
    if noise is not None:
        limit = NoiseLimit(noise, noise)
    elif added.min() == added.max():
        limit = limit_of_scatter(scatter)
    else:
        blocks = [WeightedRows(H, z, added=added)]
        levels = fit_levels(lambda: blocks, H.shape[1], BOTH_ENDS)
        upper = 0.0 if levels.noise_interval is None else levels.noise_interval[1]
        limit = NoiseLimit.at(levels.noise_variance, upper, scatter.added)
    if weight is not None:
        size, rows = np.sqrt(weight), [WeightedRows(H, z, weight, added)]
        estimate, root = least_squares(H * size[:, None], z * size)
        errors, _ = row_errors("auto", estimate, root.inverse(), lambda: rows)
        return estimate, replace(errors, method=f"{errors.method}, survey weights"), limit
    if levels is not None:
        return levels.value, levels.errors, limit
    plain = [WeightedRows(H, z, 1.0, added)]
    return estimate, row_errors("auto", estimate, root.inverse(), lambda: plain, scatter)[0], limit


def limit_of_scatter(scatter: Scatter) -> NoiseLimit:
    upper, total = scatter.upper(), scatter.total
    growth = (upper + scatter.added) / total if total > 0 else 1.0
    return NoiseLimit(scatter.noise_variance, upper, growth)


def design(given: Array, intercept: bool) -> Array:
    return np.insert(given, 0, 1.0, axis=1) if intercept else given


def measurements_of(y: object, *, finite: bool) -> Array:
    """y as a vector; `finite`: refuse NaN, as scikit-learn does; else NaN and NA are missing."""
    if y is None:
        raise InvalidInput(
            "PrivateLinearRegression requires y to be passed, but the target y is None."
        )
    if isinstance(y, np.ma.MaskedArray) and finite:
        raise InvalidInput("y is a masked array: drop the samples without a measurement.")
    if not finite:
        if hasattr(y, "isna") and hasattr(y, "to_numpy"):  # pandas, with its NA
            with suppress(TypeError, ValueError):
                kind = getattr(getattr(y, "dtype", None), "kind", "O")
                wide = np.float64 if kind in "biuf" else object  # objects: integers of any size
                y = y.to_numpy(dtype=wide, na_value=np.nan)
        with suppress(InvalidInput):  # what is no array of numbers may still be a vector
            y = real_numbers(y)  # type: ignore[arg-type]
    measurements: Array | None = None
    with suppress(TypeError, ValueError, OverflowError):  # and no context that quotes them
        measurements = column_or_1d(y, dtype=np.float64, warn=True)
    if measurements is None:
        raise InvalidInput("y must be a vector of real numbers, one a sample.")
    if finite:
        assert_all_finite(measurements, input_name="y")
    return measurements


def as_weights(given: Array, weight: object) -> Array | None:
    """Weights of these rows, checked: finite, ≥ 0, some > 0."""
    if weight is None:
        return None
    weights: Array = column_or_1d(np.asarray(weight), dtype=np.float64)
    check_consistent_length(given, weights)
    assert_all_finite(weights, input_name="sample_weight")
    if not weights.min() >= 0 or not weights.any():
        raise InvalidInput(
            "sample_weight must be ≥ 0, and some weight above zero: leave out sample_weight."
        )
    return weights

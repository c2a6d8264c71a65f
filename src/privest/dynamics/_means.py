"""The estimates of filter and smoother, given their covariances: linear recursions over all steps.

    x̂_k = (I − Kₖ G) (A x̂_{k−1} + shift) + Kₖ (z̃_k − offset) ,   Kₖ = κc⁻¹
    ξ̂_{k−1} = Θ_a ζ_k + Θ_b ξ̂_k ,   smoothed x̂ = x̂_{k|k} + B ξ̂

Arrays are (K, size, series) here; `by_series` turns them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.dynamics import _machine as machine
from privest.dynamics._coordinates import (
    Coordinates,
    beginning,
    coordinates_back,
    segments,
    step_coordinates,
)
from privest.dynamics._observed import Observed, numbers_shown
from privest.dynamics._recursions import SERIES, recurrence, times
from privest.dynamics._sweep import Sweep, backward

LOG_2PI = math.log(2 * math.pi)


class Means(NamedTuple):
    """filtered and predicted (K, N, series), whitened innovations ζ (K, r, series).

    coordinates: of the steps that were taken as graded ones.
    deviance (series,): Σζᵀζ + 2 log det c, where it was found on the way.
    """

    filtered: Array
    predicted: Array
    innovations: Array
    coordinates: Mapping[int, Coordinates]
    deviance: Array | None = None


def by_series(values: Array, one: bool) -> Array:
    """(K, r, series) as (series, K, r), or (K, r) of the only one; a view."""
    return values[:, :, 0] if one else values.transpose(2, 0, 1)


def filtered_means(
    seen: Observed, sweep: Sweep, values: Array, shift: Array, offset: Array,
    unit: Array | None = None,
) -> Means:  # fmt: skip
    """Estimates from z̃ (K, r, series), zeros where nothing was shown. O(K N²) a series.

    shift (K, N) and offset (K, r) are what known inputs add. The mean before the first step is
    `seen.start` (N,), or (N, series), and `seen.root` times `unit` (N,) where that is given.
    """
    first = seen.start[:, None] if seen.start.ndim == 1 else seen.start
    if unit is not None:
        first = first + seen.root @ unit[:, None]
    if sweep.found is not None and values.shape[2] < SERIES:
        filtered, predicted, innovations, deviance = machine.filtered_series(
            sweep.found, seen.kind, values, shift, offset, first
        )
        return Means(filtered, predicted, innovations, {}, deviance)
    whiten = np.linalg.inv(sweep.table.scale)  # triangular, r×r
    gain = sweep.table.gain @ whiten
    A, G = seen.transition[sweep.kind], seen.rows[sweep.kind]
    closed = A - gain @ (G @ A)
    entry = sweep.entry
    fresh = values - offset[:, :, None] if offset.any() else values
    moved = shift[:, :, None] if shift.any() else None
    forcing = times(gain, entry, fresh)
    if moved is not None:
        forcing += moved - times(gain, entry, times(G, entry, moved))
    kept: dict[int, Coordinates] = {}
    if not sweep.graded:
        filtered = recurrence(closed, entry, forcing, first)
    else:
        filtered, now = forcing, beginning(seen.start, unit, forcing.shape[2])
        for start, stop, wide in segments(sweep):
            own = entry[start:stop]
            if not wide:
                earlier = first if start == 0 else filtered[start - 1]
                filtered[start:stop] = recurrence(closed, own, forcing[start:stop], earlier)
                now = beginning(filtered[stop - 1], None, 1)
                continue
            for k, e in zip(range(start, stop), own.tolist()):
                lead = A[e] @ now.rest + (0.0 if moved is None else moved[k])
                now = kept[k] = step_coordinates(sweep.graded[e], now, lead, fresh[k], G[e])
                filtered[k] = now.rest + sweep.table.factor[e] @ now.unit
    before = np.empty_like(filtered)
    before[0], before[1:] = first, filtered[:-1]
    predicted = times(A, entry, before)
    if moved is not None:
        predicted += moved
    for k, coordinates in kept.items():
        predicted[k] = coordinates.predicted
    surprise = fresh - times(G, entry, predicted)
    return Means(filtered, predicted, times(whiten, entry, surprise), kept)


def end_of(sweep: Sweep, means: Means) -> tuple[Array, Array]:
    """The last estimate of the first series as mean + factor·unit: apart in a gap that is open."""
    last = len(sweep.entry) - 1
    if sweep.gap_units is not None and last in means.coordinates:
        own = means.coordinates[last]
        return own.rest[:, 0], own.unit[:, 0]
    return means.filtered[-1, :, 0], np.zeros(means.filtered.shape[1])


def log_density(
    sweep: Sweep, innovations: Array, missing: Flags, deviance: Array | None = None
) -> Array:
    """The log density of the releases of every series, from ζ (K, r, series)."""
    if deviance is None:
        logs = np.log(np.diagonal(sweep.table.scale, axis1=1, axis2=2)).sum(axis=1)
        total = np.einsum("krs,krs->s", innovations, innovations)
        deviance = total + 2.0 * logs[sweep.entry].sum()
    count = numbers_shown(missing, innovations.shape[1])
    return np.asarray(-0.5 * (deviance + count * LOG_2PI))


def smoothed(sweep: Sweep, means: Means, n: int) -> tuple[Array, Array]:
    """Smoothed estimates (K, n, series) and covariances (K, n, n) of the first n states."""
    if sweep.found is not None and means.filtered.shape[2] < SERIES:
        covariances, estimates = machine.smoothed(sweep.found, n, means.filtered, means.innovations)
        return estimates[:, :n], covariances
    return smoothed_means(sweep, means)[:, :n], backward(sweep, n)


def smoothed_means(sweep: Sweep, means: Means) -> Array:
    """Smoothed estimates (K, N, series) from filtered ones and ζ."""
    entry, table, turns = sweep.entry, sweep.table, sweep.turns
    # Reversed in time: the i-th is ξ̂_{K−1−i}, driven by the innovation that follows it.
    forcing = np.zeros_like(means.filtered)
    forcing[1:] = times(turns.fresh, entry[:0:-1], means.innovations[:0:-1])
    leading = np.concatenate([entry[-1:], entry[:0:-1]])
    if not sweep.graded:
        unit = recurrence(turns.later, leading, forcing, np.zeros((forcing.shape[1], 1)))
        return np.asarray(means.filtered + times(table.factor, entry, unit[::-1]))
    return _smoothed_in_segments(sweep, means, forcing, leading)


def _smoothed_in_segments(sweep: Sweep, means: Means, forcing: Array, leading: Index) -> Array:
    """The same where some steps are graded: these go back in their absolute coordinates."""
    result, steps, factor = means.filtered.copy(), len(sweep.entry), sweep.table.factor
    unit = np.zeros_like(result[0])  # ξ̂ of the last step of the segment
    for start, stop, wide in reversed(segments(sweep)):
        if wide:
            whole = means.coordinates[stop - 1].unit + unit
            for k in range(stop - 1, start - 1, -1):
                own, e = means.coordinates[k], int(sweep.entry[k])
                result[k] = own.rest + factor[e] @ whole
                if k == start:
                    unit = sweep.turns.later[e] @ (whole - own.unit)
                    unit = unit + sweep.turns.fresh[e] @ means.innovations[k]
                else:
                    earlier = means.coordinates[k - 1].unit
                    whole = coordinates_back(sweep.graded[e], own, whole, earlier)
            continue
        # ξ̂ of the steps stop − 1 … start, then that of the step before them.
        last = steps - stop
        part = np.concatenate([unit[None], forcing[last + 1 : steps - start + 1]])
        if len(part) > 1:
            lead = leading[last + 1 : steps - start + 1]
            part[1:] = recurrence(sweep.turns.later, lead, part[1:].copy(), unit)
        inside = part[: stop - start][::-1]
        result[start:stop] += times(factor, sweep.entry[start:stop], inside)
        unit = part[-1]
    return result

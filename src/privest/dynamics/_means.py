"""The estimates of filter and smoother, given their covariances: linear recursions over all steps.

    x̂_k = (I − Kₖ G) (A x̂_{k−1} + shift) + Kₖ (z̃_k − offset) ,   Kₖ = κc⁻¹
    ξ̂_{k−1} = Θ_a ζ_k + Θ_b ξ̂_k ,   smoothed x̂ = x̂_{k|k} + B ξ̂

Arrays are (K, size, series) here; `by_series` turns them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._observed import Observed
from privest.dynamics._recursions import recurrence, times
from privest.dynamics._sweep import Sweep

LOG_2PI = math.log(2 * math.pi)


class Means(NamedTuple):
    """filtered and predicted (K, N, series), whitened innovations ζ (K, r, series)."""

    filtered: Array
    predicted: Array
    innovations: Array


def by_series(values: Array, one: bool) -> Array:
    """(K, r, series) as (series, K, r), or (K, r) of the only one; a view."""
    return values[:, :, 0] if one else values.transpose(2, 0, 1)


def filtered_means(
    seen: Observed, sweep: Sweep, values: Array, shift: Array, offset: Array
) -> Means:
    """Estimates from z̃ (K, r, series), zeros where nothing was shown. O(K N²) a series.

    shift (K, N) and offset (K, r) are what known inputs add.
    """
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
    filtered = recurrence(closed, entry, forcing, seen.start)
    before = np.empty_like(filtered)
    before[0], before[1:] = seen.start[:, None], filtered[:-1]
    predicted = times(A, entry, before)
    if moved is not None:
        predicted += moved
    surprise = fresh - times(G, entry, predicted)
    return Means(filtered, predicted, times(whiten, entry, surprise))


def log_density(sweep: Sweep, innovations: Array, missing: Flags) -> Array:
    """The log density of the releases of every series, from ζ (K, r, series)."""
    logs = np.log(np.diagonal(sweep.table.scale, axis1=1, axis2=2)).sum(axis=1)
    total = np.einsum("krs,krs->s", innovations, innovations)
    count = int((~missing).sum()) * innovations.shape[1]
    return np.asarray(-0.5 * (total + count * LOG_2PI) - logs[sweep.entry].sum())


def smoothed_means(sweep: Sweep, means: Means) -> Array:
    """Smoothed estimates (K, N, series) from filtered ones and ζ."""
    entry = sweep.entry
    forcing = np.zeros_like(means.filtered)
    # Reversed in time: the i-th is ξ̂_{K−1−i}, driven by the innovation that follows it.
    forcing[1:] = times(sweep.table.fresh, entry[:0:-1], means.innovations[:0:-1])
    leading = np.concatenate([entry[-1:], entry[:0:-1]])
    unit = recurrence(sweep.table.later, leading, forcing, np.zeros(forcing.shape[1]))
    return np.asarray(means.filtered + times(sweep.table.factor, entry, unit[::-1]))

"""Means of graded steps in the coordinates of the factor, x̂ = rest + B h: nothing huge cancels.

After a long gap x̂_{k|k−1} may be 1e15 and what was read 1: subtracted, all digits are gone. With
B⁻, R, M, Q₁, Q₂ of `_graded`:

    h⁻ = Q₁ᵀh + a ,   A·rest + shift = rest⁻ + B⁻a        what the columns of B⁻ can hold goes to h
    h⁺ = R⁻ᵀh⁻ + (MR⁻¹)ᵀN⁻¹(z̃ − offset − G rest⁻)

and back, for the smoothed coordinates s (absolute, not relative to h):

    s⁻ = R⁻¹s⁺ ,   s = Q₁(s⁻ − a) + Q₂Q₂ᵀh
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics._graded import Graded
from privest.dynamics._recursions import runs
from privest.dynamics._sweep import Sweep
from privest.linalg.tolerances import rounding


class Coordinates(NamedTuple):
    """rest and unit h⁺ after a step, added a, and x̂_{k|k−1}; all (N, series)."""

    rest: Array
    unit: Array
    added: Array
    predicted: Array


def segments(sweep: Sweep) -> list[tuple[int, int, bool]]:
    """(first step, one past the last, graded) of the runs of graded and of ordinary steps."""
    wide = np.isin(sweep.entry, list(sweep.graded)).astype(np.intp)
    first = runs(wide)
    return [(start, stop, bool(wide[start])) for start, stop in zip(first, [*first[1:], len(wide)])]


def beginning(mean: Array, unit: Array | None, series: int) -> Coordinates:
    """Before the first step: mean (N,) or (N, series), and coordinates (N,) beside it."""
    rest = mean[:, None] + np.zeros(series) if mean.ndim == 1 else mean
    own = np.zeros_like(rest) if unit is None else unit[:, None] + np.zeros(series)
    return Coordinates(rest, own, np.zeros_like(rest), rest)


def step_coordinates(
    parts: Graded, now: Coordinates, lead: Array, fresh: Array, rows: Array
) -> Coordinates:
    """The next step; lead = A·rest + shift, fresh = z̃ − offset, rows G."""
    added = _held(parts, lead)
    rest = lead - parts.before @ added
    unit = parts.mixed.T @ now.unit + added
    predicted = rest + parts.before @ unit
    unit = parts.shrunk.T @ unit + parts.told @ (fresh - rows @ rest)
    return Coordinates(rest, unit, added, predicted)


def coordinates_back(parts: Graded, own: Coordinates, whole: Array, earlier: Array) -> Array:
    """Smoothed coordinates of the step before, from those of this one and h of the one before."""
    return np.asarray(
        parts.mixed @ (parts.shrunk @ whole - own.added) + parts.rest @ (parts.rest.T @ earlier)
    )


def _held(parts: Graded, vectors: Array) -> Array:
    """a with B⁻a = v as far as B⁻ has columns for it: forward substitution in its own order."""
    lower, right = parts.before[parts.pivots], vectors[parts.pivots]
    found = np.zeros_like(right)
    for i in range(len(lower)):
        if abs(lower[i, i]) > rounding(len(lower)) * np.linalg.norm(lower[i]):
            found[i] = (right[i] - lower[i, :i] @ found[:i]) / lower[i, i]
    return found

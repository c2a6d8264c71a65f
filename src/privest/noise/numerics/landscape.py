"""Peaks, edges of the mass and widths of a log-density."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from privest.arrays import EPS, Array, Flags, Index
from privest.errors import InvalidInput
from privest.noise.quadrature import Chain

# The scan: around every anchor, from 2^-50 to 2^60 scales, 16 points an octave.
OCTAVES_IN, OCTAVES_OUT, PER_OCTAVE = 50, 60, 16
LINEAR_POINTS = 512
MOST_POINTS = 16
# Chains: octaves towards a special point, and to infinity (1e60 scales: x⁴ is still finite).
CHAIN_IN, CHAIN_OUT = 60, 200
# Closer to a point p than this part of |p| differences of the log-density have no digits.
FINEST = 4096 * EPS
# e^-800 is below the smallest double: where the log-density has fallen by that, there is no mass.
UNDERFLOW = 800.0

LogDensity = Callable[[Array], Array]


@dataclass(frozen=True)
class Landscape:
    """The special points of a log-density (sorted), its largest value, and its narrowest width.

    Special points: finite ends of the support, landmarks, local maxima, and edges of the mass.
    """

    points: tuple[float, ...]
    peak: float
    width: float
    support: tuple[float, float]


def survey(
    logdensity: LogDensity,
    support: tuple[float, float],
    landmarks: tuple[float, ...],
    scale: float,
) -> Landscape:
    """Scan the log-density on points spread geometrically around every anchor and zoom in.

    The log-density, unlike the density, still slopes towards a peak that is a million widths
    away; so a scan in octaves finds it, unless a broader part hides it (then give a landmark).
    """
    ends = tuple(e for e in support if math.isfinite(e))
    anchors = landmarks + ends + (() if ends or landmarks else (0.0,))
    x = _scan(support, anchors, scale)
    height = _scan_values(logdensity, x)
    if not np.any(height > -np.inf):
        raise InvalidInput(
            f"The log-density is {'NaN' if np.isnan(logdensity(x)).all() else '−∞'} at every point "
            "looked at "
            f"({x.size} points between {x[0]:g} and {x[-1]:g}). Give the support, or a landmark "
            "(a point where the density is not zero)."
        )
    # Once more around the highest peak: what is next to it was far from the first anchors.
    top = float(_peaks(logdensity, x, height)[0])
    x = _scan(support, (*anchors, top), scale)
    height = _scan_values(logdensity, x)
    finite = height > -np.inf
    peaks = _peaks(logdensity, x, height)
    heights = _scan_values(logdensity, peaks)
    peak = float(np.max(heights))
    peaks = peaks[heights >= peak - UNDERFLOW]
    edges = _edges(logdensity, x, finite)
    edges = edges[_scan_values(logdensity, edges) > peak - UNDERFLOW]
    widths = np.array([_width(logdensity, float(p), support, scale) for p in peaks])
    # A smooth peak is found to about √ε of its width; so close to a landmark it is the landmark.
    given = np.array(landmarks + ends)
    apart = np.abs(peaks[:, None] - given).min(axis=1, initial=np.inf) > 1e-6 * widths
    points = np.sort(np.concatenate([given, peaks[apart], edges]))
    gap = 256 * EPS * np.maximum(np.abs(points[1:]), np.abs(points[:-1])) + 1e-14 * scale
    apart = np.concatenate([[True], np.diff(points) > gap])
    # The ends of the support are exact; a point that merely comes close to one gives way.
    merged = [float(p) for p in points[apart] if all(abs(p - e) > 1e-13 * scale for e in ends)]
    every = tuple(sorted({*merged, *ends}))
    return Landscape(every, peak, float(widths.min()), support)


def chains(logdensity: LogDensity, landscape: Landscape, scale: float) -> tuple[Chain, ...]:
    """Cut the support into octaves around the special points.

    Two chains meet half-way between neighbouring points. Beyond the outermost points a chain
    runs outwards until the density underflows, or 200 octaves for a heavy tail.
    """
    points, (lo, hi) = landscape.points, landscape.support
    result = []
    for p, q in pairwise(points):
        half = (q - p) / 2
        result += [_inward(p, +1, half), _inward(q, -1, half)]
    for p, side, end in ((points[0], -1, lo), (points[-1], +1, hi)):
        if math.isfinite(end):
            continue
        base = _width(logdensity, p, landscape.support, scale, sides=(side,))
        base = max(base, 16 * FINEST * abs(p))  # at an edge the width is nothing
        with np.errstate(over="ignore"):  # beyond all numbers is far enough
            distances = base * 2.0 ** np.arange(CHAIN_OUT + 1)
        height = _scan_values(logdensity, p + side * distances)
        dead = height < landscape.peak - UNDERFLOW
        stop = int(np.argmax(dead)) if dead.any() else CHAIN_OUT
        outward = Chain(p, side, distances[: max(stop, 1) + 1], closed=bool(dead.any()))
        result += [_inward(p, side, base), outward]
    return tuple(result)


def _inward(p: float, side: int, half: float) -> Chain:
    """Octaves from `half` down to the resolution of floating point at p."""
    finest = FINEST * abs(p)
    ratio = half / finest if finest > 0 else math.inf
    octaves = CHAIN_IN if math.isinf(ratio) else int(math.log2(max(ratio, 4.0)))
    return Chain(p, side, half * 2.0 ** -np.arange(min(octaves, CHAIN_IN) + 1))


def _scan(support: tuple[float, float], anchors: tuple[float, ...], scale: float) -> Array:
    lo, hi = support
    steps = scale * 2.0 ** (
        np.arange(-OCTAVES_IN * PER_OCTAVE, OCTAVES_OUT * PER_OCTAVE) / PER_OCTAVE
    )
    parts = [np.concatenate([[a], a + steps, a - steps]) for a in anchors]
    if math.isfinite(lo) and math.isfinite(hi):
        parts.append(np.linspace(lo, hi, LINEAR_POINTS + 1))
    x = np.unique(np.concatenate(parts))
    return x[(x > lo) & (x < hi)]


def _scan_values(logdensity: LogDensity, x: Array) -> Array:
    """Log-densities; NaN counts as −∞ (∞ − ∞ far in a tail is not the user's fault)."""
    values = logdensity(x)
    return np.where(np.isnan(values), -np.inf, values)


def _peaks(logdensity: LogDensity, x: Array, height: Array) -> Array:
    """The local maxima of the scan (the highest 16), zoomed in to rounding."""
    candidates = _local_maxima(height)
    candidates = candidates[np.argsort(-height[candidates], kind="stable")][:MOST_POINTS]
    left, right = x[np.maximum(candidates - 1, 0)], x[np.minimum(candidates + 1, x.size - 1)]
    best, top = x[candidates], height[candidates]
    fractions = np.linspace(0.0, 1.0, 9)
    for _ in range(28):
        grid = left[:, None] + (right - left)[:, None] * fractions
        values = _scan_values(logdensity, grid)
        i = np.argmax(values, axis=1)
        rows = np.arange(i.size)
        higher = values[rows, i] > top
        best = np.where(higher, grid[rows, i], best)
        top = np.where(higher, values[rows, i], top)
        step = (right - left) / 8
        left, right = np.maximum(best - step, left), np.minimum(best + step, right)
    return best


def _local_maxima(height: Array) -> Index:
    """Positions of the maxima that stand out from both sides by more than rounding."""
    found, rising = [], True
    best = lowest = -np.inf
    where = 0
    for i, value in enumerate(height.tolist()):
        if rising:
            if value > best:
                best, where = value, i
            elif value < best - (1e-9 + 1e-12 * abs(best) if math.isfinite(best) else 0.0):
                found.append(where)
                rising, lowest = False, value
        elif value < lowest:
            lowest = value
        elif value > lowest + (1e-9 + 1e-12 * abs(lowest) if math.isfinite(lowest) else 0.0):
            rising, best, where = True, value, i
    if rising and best > -np.inf:
        found.append(where)
    return np.array(found, dtype=np.intp)


def _edges(logdensity: LogDensity, x: Array, finite: Flags) -> Array:
    change = np.flatnonzero(finite[1:] != finite[:-1])[:MOST_POINTS]
    inside = np.where(finite[change], x[change], x[change + 1])
    outside = np.where(finite[change], x[change + 1], x[change])
    for _ in range(80):
        middle = (inside + outside) / 2
        alive = _scan_values(logdensity, middle) > -np.inf
        inside, outside = np.where(alive, middle, inside), np.where(alive, outside, middle)
    return inside


def _width(
    logdensity: LogDensity,
    p: float,
    support: tuple[float, float],
    scale: float,
    sides: tuple[int, ...] = (-1, 1),
) -> float:
    """Distance from p at which the log-density has changed by 1 (within a factor √2)."""
    distances = scale * 2.0 ** (np.arange(-2 * OCTAVES_IN, 2 * OCTAVES_OUT) / 2)
    here = float(_scan_values(logdensity, np.array([p]))[0])
    found = []
    for side in sides:
        x = p + side * distances
        inside = (x > support[0]) & (x < support[1])
        if not inside.any():
            continue
        values = _scan_values(logdensity, x[inside])
        with np.errstate(invalid="ignore"):
            far = ~(np.abs(values - here) < 1)
        if math.isinf(here):  # a pole, or an end with no density: no width to be had
            far[:] = False
        i = int(np.argmax(far)) if far.any() else -1
        found.append(float(distances[inside][i]) if far.any() else scale)
    return min(found, default=scale)

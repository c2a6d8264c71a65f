"""Intervals of the parameters of a fit: by profile likelihood, or by Wald in the working scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import Array, Flags, as_confidence
from privest.dynamics._identification._climbing import ascend, curvature, newton
from privest.dynamics._identification._constrained import (
    HIGHER,
    Function,
    Higher,
    Peak,
    Scale,
    safe_inverse,
)
from privest.dynamics._identification._profile import Profiled, profile
from privest.dynamics._identification._wald import TRUSTED, wald_end
from privest.errors import NumericalFailure
from privest.records import Record, quantile

METHODS = ("profile", "wald")
FIRST_ROUNDS = 40  # of a climb from elsewhere, after which
STILL = 20.0  # 2(ℓ̂ − ℓ) is no more than this beyond the threshold, or it is left
PIECE = 80  # evaluations an end about another peak, and it is Wald's
AGAIN = 10  # times that a fit is taken up again from a higher point


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Record):
    """The interval of each natural parameter.

    estimate      θ̂ (p,), about which they are.
    low, high     (p,): the ends. One that is open is the limit of what the parameter can be.
    open_ends     (p, 2): no value up to the limit is excluded on that side.
    method        "profile": {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²}; "wald": by the curvature at θ̂, in the
                  working scale.
    notes         what a reader should know, in words.
    """

    names: tuple[str, ...]
    estimate: Array
    low: Array
    high: Array
    open_ends: Flags
    confidence: float
    method: str
    notes: tuple[str, ...]

    DERIVED: ClassVar[tuple[str, ...]] = ()

    @property
    def ends(self) -> Array:
        """(p, 2)."""
        return np.stack([self.low, self.high], axis=-1)

    def __repr__(self) -> str:
        return f"Intervals({self.confidence:.4g} {self.method}: {', '.join(self.words())})"

    def words(self) -> list[str]:
        """Each interval as people write it: "φ 0.8 in [0.71, 0.88]"; ( and ) are open ends."""
        return [
            f"{name} {value:.4g} in {'(' if first else '['}{low:.4g}, {high:.4g}"
            f"{')' if last else ']'}"
            for name, value, low, high, (first, last) in zip(
                self.names, self.estimate, self.low, self.high, self.open_ends
            )
        ]


def profile_intervals(
    function: Function, scale: Scale, peak: Peak, names: Sequence[str], confidence: float,
    count: int, elsewhere: Sequence[Array] = (),
) -> Intervals:  # fmt: skip
    """By profile likelihood; where a profile climbs above ℓ̂ the fit is taken up from there.

    From `elsewhere` other peaks are looked for: one that is not excluded widens the intervals, as
    {v : 2(ℓ̂ − ℓ_p(v)) ≤ χ²} then has several pieces. From there, too, all others
    climb once more at each end, which may lie on another branch of maxima.
    """
    threshold = float(scipy.special.chdtri(1, 1 - as_confidence(confidence)))
    first, notes = peak, []
    peaks = _other_peaks(function, peak, elsewhere, count, threshold)
    for _ in range(AGAIN):
        try:
            _not_above(peak, peaks)
            found = profile(function, scale, peak, threshold, beside=elsewhere)
            found, apart = _widened(function, scale, peak, found, threshold, peaks, elsewhere)
            break
        except Higher as higher:
            peak = taken_up(function, higher.t, peak.limits, count)
    else:
        raise NumericalFailure(
            "The profiles keep finding a higher likelihood: the fit is no maximum. Fit with "
            "another `start`."
        )
    estimate = np.asarray(scale.natural(peak.t))
    if peak is not first:
        best = ", ".join(f"{value:.4g}" for value in estimate)
        notes.append(
            f"the profiles found a log-likelihood higher by {peak.height - first.height:.2g}, at "
            f"({best}): fit again with `start` there."
        )
    notes += [
        f"another peak of the likelihood, at {names[j]} = {value:.4g}, is not excluded; values "
        "between may be."
        for j, value in apart
    ]
    notes += _said(found, names)
    low, high = found.ends.T
    return Intervals(
        tuple(names), estimate, low, high, found.open_ends, confidence, "profile", tuple(notes)
    )


def _other_peaks(
    function: Function, peak: Peak, elsewhere: Sequence[Array], count: int, threshold: float
) -> list[tuple[Array, float]]:
    """Where climbs from `elsewhere` end, and ℓ there; a climb that is left far below is no peak."""
    found = []
    for start in elsewhere:
        t = ascend(function, start, peak.limits, count, FIRST_ROUNDS)
        if 2 * (peak.height - function(t)[0]) <= threshold + STILL:
            t = ascend(function, t, peak.limits, count)
            found.append((t, function(t)[0]))
    return found


def _not_above(peak: Peak, peaks: Sequence[tuple[Array, float]]) -> None:
    """Raises Higher for the highest of other peaks, where that is higher."""
    for t, height in sorted(peaks, key=lambda one: -one[1])[:1]:
        if height > peak.height + HIGHER:
            raise Higher(t, height)


def _widened(
    function: Function, scale: Scale, peak: Peak, found: Profiled, threshold: float,
    peaks: Sequence[tuple[Array, float]], beside: Sequence[Array],
) -> tuple[Profiled, list[tuple[int, float]]]:  # fmt: skip
    """The hull with the pieces about other peaks, and which parameters lie apart there, where."""
    apart: list[tuple[int, float]] = []
    for t, height in peaks:
        if not 2 * (peak.height - height) <= threshold:
            continue
        theta = scale.natural(t)
        beyond = (theta < found.ends[:, 0]) | (theta > found.ends[:, 1])
        if not beyond.any():
            continue
        apart += [(j, float(theta[j])) for j in np.flatnonzero(beyond).tolist()]
        other = peak._replace(t=t, curvature=curvature(function, t, peak.limits))
        piece = profile(function, scale, other, threshold, PIECE, beside)
        low, high = piece.ends[:, 0] < found.ends[:, 0], piece.ends[:, 1] > found.ends[:, 1]
        wider = np.stack([low, high], axis=-1)
        found = Profiled(
            np.where(wider, piece.ends, found.ends),
            np.where(wider, piece.open_ends, found.open_ends), found.undefined,
            found.given_up | piece.given_up,
        )  # fmt: skip
    return found, apart


def taken_up(function: Function, start: Array, limits: Array, count: int) -> Peak:
    """The maximum above a point."""
    top = newton(function, ascend(function, start, limits, count), limits)
    return Peak(top.t, top.height, top.curvature, limits)


def _said(found: Profiled, names: Sequence[str]) -> list[str]:
    """What is open or was given up, in words."""
    lost = {j for j, _ in found.undefined}
    notes = []
    for j in sorted(lost):
        where = " or ".join(
            f"{names[i]} = {_limit_of(found, i):.4g}" for one, i in found.undefined if one == j
        )
        notes.append(
            f"{names[j]} has no interval: {where} is not excluded, and {names[j]} means nothing "
            "there."
        )
    for j, name in enumerate(names):
        if j in lost or not found.open_ends[j].any():
            continue
        if found.open_ends[j].all():
            notes.append(f"{name} is not determined by these releases: no value is excluded.")
            continue
        side = int(found.open_ends[j, 1])
        notes.append(f"{name} = {found.ends[j, side]:.4g} is not excluded.")
    rough = [name for name, row in zip(names, found.given_up) if row.any()]
    if rough:
        notes.append(
            f"the profiles of {', '.join(rough)} took too long: ends are by the curvature at a "
            "peak (Wald) or as far as was seen, and rough."
        )
    return notes


def _limit_of(found: Profiled, i: int) -> float:
    return float(found.ends[i, 0] if found.open_ends[i, 0] else found.ends[i, 1])


def wald_intervals(scale: Scale, peak: Peak, names: Sequence[str], confidence: float) -> Intervals:
    """t̂ ± q·sd in the working scale where θ_j depends on one coordinate, else θ̂_j ± q·sd.

    Good where the sd in working scale is below TRUSTED (coverage .945-.968 of 95 % in trials); the
    notes name those where it is not.
    """
    q, covariance = quantile(confidence), safe_inverse(peak.curvature)
    slopes, estimate = scale.natural_slopes(peak.t), np.asarray(scale.natural(peak.t))
    spread = np.sqrt(covariance.diagonal())
    ends = np.array(
        [[wald_end(scale, peak, j, side * q) for side in (-1, 1)] for j in range(len(names))]
    )
    bent = ~np.isclose(slopes, scale.natural_slopes(peak.t + TRUSTED), rtol=1e-6, atol=0.0)
    wide = [name for name, row in zip(names, bent) if not (spread[row] <= TRUSTED).all()]
    said = f"the errors of {', '.join(wide)} are too large for Wald's intervals: use the profile."
    notes = (said,) if wide else ()
    shut = np.zeros((len(names), 2), dtype=bool)
    low, high = ends.T
    return Intervals(tuple(names), estimate, low, high, shut, confidence, "wald", notes)

"""Huber's estimate from a release: a few wild readings count for less. An option, never a default.

    Σ_k h_k ψ((z_k − h_kθ̂)/ς) = 0 ,  ψ(u) = max(−k, min(u, k)) ,  k = 1.345 ,
    ς = median|e|/0.6745 ,  m = mean ψ′ ,  κ = 1 + (n/K)(1 − m)/m
    cov = κ²ς²·[Σψ²/(K − n)]/m²·A ,  A = (HᵀH)⁻¹ ,  Student's t with f = K − n   (Huber 1981, H1)

Coverage .946 to .950 of 95 %. With 5 % of the readings off by 10σ least squares has 4.8 times the
variance without privacy, 2.8 times at sσ² = 1, 1.2 times at .1: release noise hides wild readings,
and there is little to gain below sσ² = ½. Where readings are skewed its intercept is no mean, and
depends on the level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, Index
from privest.errors import NumericalFailure
from privest.estimator.inference._errors import Errors, without_noise
from privest.estimator.inference._sandwich import WeightedRows
from privest.records import Record, standard_errors

TUNING = 1.345  # 95 % efficient for Gaussian readings
NORMAL = 0.6744897501960817  # median of |N(0, 1)|
FINE, WIDE = 512, 400  # bins of log₂|e| in a factor of 2, and how many of these
MOST = 100  # passes; a dozen are enough
KNOWN = 2e-3  # of the scale, and of a standard error: what the bins leave open
SETTLED = 1e-7  # of a standard error: a smaller step is the last


@dataclass(frozen=True, eq=False)
class HuberFit(Record):
    """θ̂, its errors, and the share of the readings that count for less than one."""

    estimate: Array
    errors: Errors
    downweighted: float

    def remark(self, variance: float, added: float) -> str:
        """What is to be said of it, in sentences, for readings of this variance about hθ and
        releases that add so much.
        """
        said = (
            f"{100 * self.downweighted:.2g} % of the rows count for less than one. Where readings "
            "are skewed the intercept of Huber's estimate is no mean, and depends on the level."
        )
        if variance >= 0.5 * added:
            return said
        return said + (
            " The noise of the release is more than twice what the readings scatter: wild ones are "
            "hidden in it, and least squares is about as good."
        )


def fit_huber(
    blocks: Callable[[], Iterable[WeightedRows]], start: Array, inverse: Array, added: float
) -> HuberFit:
    """By weighted least squares, a pass each time, from `start`, least squares with A = `inverse`.

    `added`: the variance of the release noise on a row. Memory: that of a block and a histogram,
    from which the median is taken to a thousandth.
    """
    estimate, scale, held = start, _median(blocks, start) / NORMAL, False
    for passes in range(MOST):
        step, counts = _improved(blocks, estimate, scale)
        size = scale * standard_errors(inverse)
        estimate = estimate + step
        if held and (np.abs(step) <= SETTLED * size).all():
            return _concluded(blocks, estimate, scale, inverse, added)
        if not held:  # from then on the problem is convex, and the steps shrink
            before, scale = scale, _median_of(counts) / NORMAL
            near = (np.abs(step) <= KNOWN * size).all() and abs(scale / before - 1) < KNOWN
            held = bool(near) or passes > MOST // 2
    raise NumericalFailure(
        f"Huber's estimate did not settle in {MOST} passes: most readings may be equal. Take the "
        "estimate of least squares (without huber)."
    )


def _improved(
    blocks: Callable[[], Iterable[WeightedRows]], estimate: Array, scale: float
) -> tuple[Array, Index]:
    """The next step of θ̂, and the histogram of the residuals before it."""
    n = len(estimate)
    gram, right, counts = np.zeros((n, n)), np.zeros(n), np.zeros(FINE * WIDE, dtype=np.intp)
    for part in blocks():
        left = part.z - part.H @ estimate
        weight = TUNING * scale / np.maximum(np.abs(left), TUNING * scale)
        gram += part.H.T @ (part.H * weight[:, None])
        right += part.H.T @ (weight * left)
        _count(left, counts)
    return np.linalg.solve(gram, right), counts


def _median(blocks: Callable[[], Iterable[WeightedRows]], estimate: Array) -> float:
    counts = np.zeros(FINE * WIDE, dtype=np.intp)
    for part in blocks():
        _count(part.z - part.H @ estimate, counts)
    return _median_of(counts)


def _count(left: Array, counts: Index) -> None:
    """Add residuals to a histogram of log₂|e|."""
    with np.errstate(divide="ignore"):
        place = np.floor(FINE * (np.log2(np.abs(left)) + WIDE / 2))
    inside = np.clip(np.nan_to_num(place, neginf=0.0), 0, FINE * WIDE - 1).astype(np.intp)
    first = inside.min(initial=FINE * WIDE - 1)
    found = np.bincount(inside - first)  # they lie in few bins of many
    counts[first : first + len(found)] += found


def _median_of(counts: Index) -> float:
    """The median of what was counted, straight within its bin (on the log scale)."""
    filled = np.flatnonzero(counts)
    below = np.cumsum(counts[filled])
    half = below[-1] / 2
    at = int(np.searchsorted(below, half))
    place = int(filled[at])
    part = (half - (below[at] - counts[place])) / counts[place]
    return float(2.0 ** ((place + part) / FINE - WIDE / 2))


def _concluded(
    blocks: Callable[[], Iterable[WeightedRows]],
    estimate: Array,
    scale: float,
    inverse: Array,
    added: float,
) -> HuberFit:
    squares, inside, rows, n = 0.0, 0, 0, len(estimate)
    for part in blocks():
        size = np.abs(part.z - part.H @ estimate) / scale
        squares += float((np.minimum(size, TUNING) ** 2).sum())
        inside, rows = inside + int((size <= TUNING).sum()), rows + len(size)
    mean = inside / rows
    kappa = 1 + (n / rows) * (1 - mean) / mean
    covariance = (kappa * scale / mean) ** 2 * squares / (rows - n) * inverse
    own = without_noise(covariance, added * inverse)
    errors = Errors(
        covariance=covariance,
        degrees_of_freedom=float(rows - n),
        floor=None,  # it counts noise for less too: least squares' floor is not its own
        sampling=own,
        classical=own,
        method="Huber's estimate, k = 1.345",
    )
    return HuberFit(estimate, errors, 1 - mean)

"""Means of a target that was modelled as its logarithm, in the reader's units.

    y = ln x ,  y = hᵀθ + w ,  w ~ N(0, σ²) at the row h .

A coefficient is a factor: x is e^θ times as large, 100(e^θ − 1) % more, for one unit more. The mean
of x at a row h is e^{hθ + σ²/2}, not e^{hθ}, which is the median. σ² is that of the readings: with
the release noise in it the mean would be 66 % too large at s = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_number, as_positive
from privest.records import Record, quantile


@dataclass(frozen=True, eq=False, kw_only=True)
class OriginalMean(Record):
    """The mean and the median of x = g(y) at one row h, in the units of the file.

    mean      its estimate; `interval` (2,) of the mean.
    median    e^{hθ̂} for a logarithm; `median_interval` (2,): the interval of hθ, transformed.
    method    how the mean was made, for people.
    """

    mean: float
    interval: Array
    median: float
    median_interval: Array
    method: str


def as_percent(theta: ArrayLike) -> Array:
    """100(e^θ − 1): by how many per cent x grows for one unit more. Ends of intervals likewise.

    >>> as_percent([0.0, np.log(1.5), np.log(0.5)]).round(9).tolist()
    [0.0, 50.0, -50.0]
    """
    with np.errstate(over="ignore"):  # +inf % is what a coefficient of 800 says
        return 100 * np.expm1(np.asarray(theta, dtype=np.float64))


def as_factor(theta: ArrayLike) -> Array:
    """e^θ: x is so many times as large for one unit more."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(np.asarray(theta, dtype=np.float64)))


def reading_factor(level: float) -> float:
    """exp(1/√s): a reading whose logarithm is released at level s is known to ×/÷ this factor.

    One standard deviation of the noise; 68 % of the released values lie within it.

    >>> round(reading_factor(4.0), 2)
    1.65
    """
    return math.exp(1 / math.sqrt(as_positive(level, "level")))


def likelihood_mean(
    eta: float,
    variance: float,
    covariance: ArrayLike,
    *,
    freedom: float | None = None,
    confidence: float = CONFIDENCE,
) -> OriginalMean:
    """The mean of x = e^y at a row where η̂ = hᵀθ̂ and σ̂² were fitted together, by likelihood.

    variance    σ̂²; `covariance` (2, 2) of (η̂, σ̂²): of the clipped likelihood, of several levels,
                of people.

    ln E x = η + σ²/2, with variance c = (1, ½) cov (1, ½)ᵀ; the mean is e^{η̂ + σ̂²/2 − c/2}, which
    takes off what the curve of the exponential adds: unbiased to second order, as likelihood is.
    """
    cov = as_array(covariance, "covariance", ndim=2)
    half = np.array([1.0, 0.5])
    spread = float(half @ cov @ half)
    middle = as_number(eta, "eta") + as_number(variance, "variance") / 2
    q = quantile(confidence, freedom)
    return OriginalMean(
        mean=_exp(middle - spread / 2),
        interval=_ends(middle, q * math.sqrt(spread)),
        median=_exp(eta),
        median_interval=_ends(eta, q * math.sqrt(float(cov[0, 0]))),
        method="maximum likelihood for logarithms, corrected to second order",
    )


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(np.float64(value)))


def _ends(middle: float, half: float) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(np.array([middle - half, middle + half])))

"""Means of a target in its own units, where its logarithm y = ln x was modelled.

y = hᵀθ + w ,  w ~ N(0, σ²) :   E x = e^{hθ + σ²/2} , median e^{hθ} , 100(e^θ − 1)% a unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_number
from privest.records import Record, quantile


@dataclass(frozen=True, eq=False, kw_only=True)
class OriginalMean(Record):
    """The mean and the median of x = g(y) at one row, in the units of the file, with intervals."""

    mean: float
    interval: Array
    median: float
    median_interval: Array
    method: str


def as_percent(theta: ArrayLike) -> Array:
    """100(e^θ − 1): by how many per cent x grows for one unit more.

    >>> as_percent([0.0, np.log(1.5), np.log(0.5)]).round(9).tolist()
    [0.0, 50.0, -50.0]
    """
    with np.errstate(over="ignore"):  # +inf % is what a coefficient of 800 says
        return 100 * np.expm1(np.asarray(theta, dtype=np.float64))


def likelihood_mean(
    eta: float,
    variance: float,
    covariance: ArrayLike,
    *,
    freedom: float | None = None,
    confidence: float = CONFIDENCE,
) -> OriginalMean:
    """The mean of x = e^y at a row where η̂ = hᵀθ̂ and σ̂² have this `covariance` (2, 2).

    ln E x = η + σ²/2 has variance c = (1, ½) cov (1, ½)ᵀ; the mean is e^{η̂ + σ̂²/2 − c/2},
    unbiased to second order.
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

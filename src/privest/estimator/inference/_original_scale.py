"""Means and totals of a target in the reader's units, where it was modelled as its logarithm.

    y = ln x ,  y = hᵀθ + w ,  w ~ N(0, σ²) at the row h .

A coefficient is a factor: x is e^θ times as large, 100(e^θ − 1) % more, for one unit more. The mean
of x at a row h is e^{hθ + σ²/2}, not e^{hθ}, which is the median. σ² is that of the readings: with
the release noise in it the mean would be 66 % too large at s = 1.

The total of the people of a release, x = g(y), comes from z = y + e alone. g(z) is too large on
average where g bends upwards: noise on a logarithm multiplies the total by E e^{noise}. What undoes
it is the inverse of "add noise" as an operator on functions,

    Gaussian, variance a:   g − g''·a/2 + g''''·a²/8 − …  =  exp(−(a/2) ∂²) g
    Laplace, variance a:    g − g''·a/2 , and nothing more  (1/E e^{te} = 1 − at²/2) ,

so that E ĝ(z) = g(y) whatever y is. For g = exp it is e^z/E e^{noise}: e^{z − a/2}, or e^z(1 − a/2)
for Laplace, a < 2.

Where it holds: for continuous noise exactly. On the grid of a real release, c = g/√s wide, the
discrete Gaussian has E e^{cX} = e^{c²σ₀²/2} but for 1e-10⁶, and rounding multiplies by a number
between 1 and e^{c²/8} (Hoeffding): with a = (1 + 3g²/4)/s the total is low by at most g²/8s of
itself, 1.2e-7/s. Readings that a range clipped count as what they were clipped to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_number
from privest.errors import InvalidInput
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


SKEWED = 0.5  # skewness of a total beyond which a normal interval is not to be trusted


@dataclass(frozen=True, eq=False, kw_only=True)
class Total(Record):
    """Σ_k x_k of the people of a release, and how well it is known given who they are.

    total, standard_error   the latter of the release noise alone: these people, not others.
    interval                (2,): for logarithms total ×/÷ exp(normal·standard_error/total), which
                            covers more than ± (.943 for .938 at K = 200, s = 1); else ±.
    rows                    people counted.
    skewness                of the total's error, about: beyond 0.5 its interval is too short at
                            the upper end, and `trusted` is False.
    """

    total: float
    standard_error: float
    interval: Array
    rows: int
    skewness: float

    DERIVED = ("trusted",)

    @property
    def trusted(self) -> bool:
        """Whether the interval can be relied on."""
        return self.skewness <= SKEWED


def noise_factor(law: str, added: float, times: float = 1.0) -> float:
    """E e^{times·noise} of release noise with variance `added`.

    >>> noise_factor("laplace", 1.0), noise_factor("gaussian", 0.0)
    (2.0, 1.0)
    """
    half = times**2 * as_number(added, "added") / 2
    if law == "gaussian":
        with np.errstate(over="ignore"):
            return float(np.exp(np.float64(half)))
    if law != "laplace":
        raise InvalidInput(f"totals are for gaussian or laplace noise; the release has {law!r}.")
    if not half < 1:
        raise InvalidInput(
            f"Laplace noise of variance {added:.3g} on a logarithm has no finite "
            f"{'mean' if times == 1 else 'variance'} on the original scale: it must be below "
            f"{2 / times**2:g}, at level s above {times**2:g}. Means by row are there at any level."
        )
    return 1 / (1 - half)


def total_of(
    blocks: Iterable[Array],
    added: float,
    *,
    logarithm: bool = True,
    law: str = "gaussian",
    confidence: float = CONFIDENCE,
) -> Total:
    """Σ x_k from the released z_k (in blocks, in units of the modelled y), unbiased given x.

    logarithm  of what z is a reading with its noise, else of x itself. Unbiased too: its variance,
               by ĝ(z)² − (g²)^(z) summed. Cost: one pass, nothing kept.

    >>> found = total_of([np.zeros(3)], 0.0)
    >>> found.total, found.standard_error
    (3.0, 0.0)
    """
    a = as_number(added, "added")
    if a < 0:
        raise InvalidInput("the variance of the release noise is not negative.")
    noise_factor(law, 0.0)  # a law that is known
    total = square = variance = 0.0
    rows = 0
    for z in blocks:
        one, two = z, z**2 - a
        if logarithm:
            with np.errstate(over="ignore"):
                one = np.exp(z) / noise_factor(law, a)
                two = np.exp(2 * z) / noise_factor(law, a, 2.0)
        total, square = total + float(one.sum()), square + float(two.sum())
        variance, rows = variance + float((one**2 - two).sum()), rows + len(z)
    error = math.sqrt(max(variance, 0.0))
    half = quantile(confidence) * error
    ends = np.array([total - half, total + half])
    if logarithm and total > 0:
        with np.errstate(over="ignore"):
            ends = total * np.exp(np.array([-half, half]) / total)
    return Total(
        total=total,
        standard_error=error,
        interval=ends,
        rows=rows,
        skewness=_skewness(a, total, square) if logarithm and law == "gaussian" else 0.0,
    )


def _skewness(added: float, total: float, square: float) -> float:
    """Of Σ x_k e^{e_k − a/2}: (e^a + 2)√(e^a − 1)/√K_eff, K_eff = (Σx)²/Σx²."""
    effective = total**2 / square if square > 0 else 1.0
    with np.errstate(over="ignore"):
        grown = float(np.exp(np.float64(added)))
    return (grown + 2) * math.sqrt(max(grown - 1, 0.0)) / math.sqrt(max(effective, 1.0))

"""Means of a target that was modelled as its logarithm, in the reader's units.

    y = ln x ,  y_k = h_kᵀθ + w_k ,  w_k ~ N(0, σ²) ,  z_k = y_k + e_k ,  var e_k = added ;
    v = σ² + added ,  v̂ = RSS/f of least squares on z ,  a = hᵀ(HᵀH)⁻¹h ,  η̂ = hᵀθ̂ .

A coefficient is a factor: x is e^θ times as large, 100(e^θ − 1) % more, for one unit more.

The mean of x at a row h is e^{hθ + σ²/2}, not e^{hθ}, which is the median. Putting v̂ in place of σ²
counts the noise of the release as if it were people: 66 % too much at s = 1. Exactly unbiased is

    x̂ = e^{η̂ − added/2} ₀F₁(; f/2; f(1 − a)v̂/4) ,

because η̂ ~ N(hθ, va) and v̂ ~ v χ²_f/f are independent, E e^{η̂} = e^{hθ + va/2}, and

    E v̂^k = v^k (2/f)^k (f/2)_k   makes   E ₀F₁(; f/2; f t v̂/2) = Σ_k (tv)^k/k! = e^{tv} .

Only the variance `added` of the release noise enters here, whatever its law: the mean is a function
of θ and σ². For noise that is not Gaussian, or that is on a grid, x̂ is exact in the limit of many
rows (relative bias about κ·added²/(8K), κ its excess kurtosis: 3 for Laplace). Sums of e^z over
people are another matter (`_totals.py`). Source: Finney 1941; real-tables.md 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_number, as_positive
from privest.errors import InvalidInput
from privest.records import Record, quantile

MOST_TERMS = 1_000_000  # of ₀F₁: v̂ of a million or more says nothing about a mean


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


def log_hyp0f1(b: float, x: float) -> float:
    """ln ₀F₁(; b; x) for b > 0, x ≥ 0, by its series, whose terms are all positive.

    scipy.special.hyp0f1 loses digits with b (1e-7 at b = 5·10⁶) and overflows; this loses about
    2⁻⁵³ a term. Cost: about √x terms, fewer for large b. Raises InvalidInput beyond 10⁶ of them.

    >>> round(log_hyp0f1(0.5, 1.0), 12) == round(math.log(math.cosh(2.0)), 12)
    True
    """
    peak = max(0.0, (math.sqrt((b - 1) ** 2 + 4 * x) - (b + 1)) / 2)
    count = peak + 12 * math.sqrt(peak + 1) + 40  # the rest is below 1e-30 of the sum
    if not count < MOST_TERMS:
        raise InvalidInput(
            "the release scatters too much for a mean on the original scale: its logarithms vary "
            "by thousands. Is the target a logarithm, and the level the one of the release?"
        )
    if x == 0:
        return 0.0
    k = np.arange(int(count))
    logs = np.concatenate([[0.0], np.cumsum(np.log(x / ((b + k) * (k + 1))))])
    return float(np.logaddexp.reduce(logs))


def lognormal_mean(
    eta: float,
    leverage: float,
    variance: float,
    freedom: float,
    added: float,
    *,
    error: float | None = None,
    confidence: float = CONFIDENCE,
) -> OriginalMean:
    """The mean of x = e^y at a row, from least squares on z: exactly unbiased for Gaussian noise.

    eta, leverage      hᵀθ̂ and a = hᵀ(HᵀH)⁻¹h, a ≤ 1.
    variance, freedom  v̂ = RSS/f and f = K − n.
    added              the variance of the release noise on a reading: (1 + 3g²/4)/s; 0: none.
    error              the standard error of hᵀθ̂ where it is not √(v̂a) (HC3, people).

    Interval of ln E x: η̂ + (v̂ − added)/2 ± t_f √(error² + v̂²/2f), and never shorter than by the
    known noise alone, normal·√(added·a + added²/2f) (covers .947 and more). Assumes that all rows
    have one σ²: the mean depends on it.

    Refuses a > 1: such a row is so far from all others that x̂ can be negative. A row of the table
    has a ≤ 1 always.

    >>> found = lognormal_mean(0.0, 0.0, 1.0, 1e9, 0.5)  # many rows: e^{(1 − 1/2)/2}
    >>> round(found.mean, 6) == round(math.exp(0.25), 6), found.median
    (True, 1.0)
    """
    centre, row = as_number(eta, "eta"), as_number(leverage, "leverage")
    scatter, f = as_number(variance, "variance"), as_positive(freedom, "freedom")
    noise = as_number(added, "added")
    refuse_far_row(row)
    if scatter < 0 or noise < 0:
        raise InvalidInput("variances are not negative.")
    log_mean = centre - noise / 2 + log_hyp0f1(f / 2, f * max(1 - row, 0.0) * scatter / 4)
    own = math.sqrt(scatter * row) if error is None else as_number(error, "error")
    middle = centre + (scatter - noise) / 2
    half = max(
        quantile(confidence, f) * math.sqrt(own**2 + scatter**2 / (2 * f)),
        quantile(confidence) * math.sqrt(noise * row + noise**2 / (2 * f)),
    )
    side = max(quantile(confidence, f) * own, quantile(confidence) * math.sqrt(noise * row))
    return OriginalMean(
        mean=_exp(log_mean),
        interval=_ends(middle, half),
        median=_exp(centre),
        median_interval=_ends(centre, side),
        method="exactly unbiased for logarithms with Gaussian noise",
    )


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


def smeared_mean(eta: float, average: float, noise_factor: float) -> float:
    """Duan's smearing: e^{hθ̂} · mean of e^{z_k − h_kθ̂} / E e^{noise}: no normal law assumed.

    average       (1/K) Σ e^{z_k − h_kᵀθ̂} over the rows of the release.
    noise_factor  E e^{noise} of one reading (`_totals.noise_factor`): e^{added/2} for Gaussian.

    Off by −.5 % for exponential w where ₀F₁ is off by −6.5 %; its error is 2 to 5 times as large at
    s < 4 (real-tables.md 5): for skewed readings at s ≥ 4.
    """
    return _exp(as_number(eta, "eta")) * average / as_positive(noise_factor, "noise_factor")


def refuse_far_row(leverage: float) -> None:
    """Refuse a = hᵀ(HᵀH)⁻¹h above 1, to which rounding may lift that of a row of the table."""
    if not 0 <= leverage <= 1 + 1e-9:
        raise InvalidInput(
            f"the row at which a mean is wanted has hᵀ(HᵀH)⁻¹h = {leverage:.3g}: it lies so far "
            "from the rows of the table that an unbiased mean there can be negative. It is at most "
            "1 for rows like those of the table: choose values within their range."
        )


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(np.float64(value)))


def _ends(middle: float, half: float) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(np.array([middle - half, middle + half])))

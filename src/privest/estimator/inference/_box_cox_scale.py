"""Means of a target that was modelled by Box-Cox, u = (x^λ − 1)/λ, in the reader's units.

x = g(u) = (1 + λu)^{1/λ}. With u = hθ + w, w ~ N(0, σ²), the mean of x at a row is exp((σ²/2)∂²) g
at hθ. From least squares on z (names as in `_original_scale.py`) it is unbiased to put

    x̂ = Σ_j c_j g^{(2j)}(η̂) ,   Σ_j c_j t^j = e^{−t·added/2} ₀F₁(; f/2; t f(1 − a)v̂/4) ,

the same operator as for logarithms, where ∂ = 1. Where 1/λ is a whole number the sum ends and x̂ is
exact: for λ = ½ it is (1 + η̂/2)² + ((1 − a)v̂ − added)/4. Otherwise it is asymptotic, and ends
with its smallest term; its size is `approximate`. One reading at x is known to ± x^{1−λ}/√s.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_array, as_number, as_positive
from privest.errors import InvalidInput
from privest.estimator.inference._original_scale import OriginalMean, refuse_far_row
from privest.records import quantile

MOST = 12  # derivatives, of even order, that an asymptotic series looks at
WHOLE = 1e-12  # 1/λ this near to a whole number is one


def whole_power(exponent: float) -> int | None:
    """1/λ where it is a whole number > 0: g is then a polynomial of that degree."""
    if exponent <= 0:
        return None
    power = round(1 / exponent)
    return power if power >= 1 and abs(1 / exponent - power) < WHOLE * power else None


def derivative(u: Array, exponent: float, order: int, power: int = 1) -> Array:
    """The derivative of (1 + λu)^{power/λ}: Π_{i<order} (power − iλ) · (1 + λu)^{power/λ − order}.

    >>> derivative(np.array([2.0]), 0.5, 2).tolist()  # of (1 + u/2)²
    [0.5]
    """
    factor = math.prod(power - i * exponent for i in range(order))
    degree = whole_power(exponent)
    base = 1 + exponent * np.asarray(u, dtype=np.float64)
    if degree is not None:
        left = power * degree - order
        return np.zeros_like(base) if left < 0 else factor * base**left
    if not (base > 0).all():
        raise InvalidInput(
            f"with Box-Cox exponent {exponent:g} values u satisfy 1 + λu > 0: with the release "
            "noise some do not, and have no value on the original scale. Exponents 1/2 and 1/3, "
            "and the logarithm, have one at every level."
        )
    return np.asarray(factor * base ** (power / exponent - order))


def reading_width(x: float, exponent: float, level: float) -> float:
    """x^{1−λ}/√s: a reading of size x is known to ± this, in its units.

    >>> reading_width(100.0, 0.5, 4.0), reading_width(100.0, 1.0, 4.0)
    (5.0, 0.5)
    """
    return float(as_positive(x, "x") ** (1 - exponent)) / math.sqrt(as_positive(level, "level"))


def box_cox_mean(
    eta: float,
    leverage: float,
    variance: float,
    freedom: float,
    added: float,
    exponent: float,
    *,
    error: float | None = None,
    confidence: float = CONFIDENCE,
) -> OriginalMean:
    """The mean of x at a row, λ = `exponent` ≠ 0, from least squares; arguments: `lognormal_mean`.

    Interval: by its derivatives, var x̂ = (E g')² error² + (E g''/2)² 2v̂²/f, on the scale of u, and
    transformed back, so that its ends are values that x can have.
    """
    refuse_far_row(leverage)
    centre, f = as_number(eta, "eta"), as_positive(freedom, "freedom")
    weights = _weights(f, f * max(1 - leverage, 0.0) * variance / 4, added)
    mean, left = _applied(weights, centre, exponent, 0)
    slope, _ = _applied(weights, centre, exponent, 1)
    bend, _ = _applied(weights, centre, exponent, 2)
    if not mean > 0:
        raise _too_uncertain()
    own = math.sqrt(variance * leverage) if error is None else as_number(error, "error")
    known = math.sqrt(added * leverage)
    half = max(
        quantile(confidence, freedom if e is own else None)
        * math.sqrt((slope * e) ** 2 + (bend / 2 * v) ** 2 * 2 / f)
        for e, v in ((own, variance), (known, added))
    )
    side = max(quantile(confidence, f) * own, quantile(confidence) * known)
    middle = (mean**exponent - 1) / exponent
    exact = whole_power(exponent) is not None
    return OriginalMean(
        mean=mean,
        interval=_back(middle, half * mean ** (exponent - 1), exponent),
        median=float(_back(centre, 0.0, exponent)[0]),
        median_interval=_back(centre, side, exponent),
        method=f"{'exactly' if exact else 'nearly'} unbiased for Box-Cox {exponent:.4g}",
        approximate=left,
    )


def box_cox_likelihood_mean(
    eta: float,
    variance: float,
    covariance: ArrayLike,
    exponent: float,
    *,
    freedom: float | None = None,
    confidence: float = CONFIDENCE,
) -> OriginalMean:
    """The same where η̂ and σ̂² were fitted together: arguments as those of `likelihood_mean`.

    E g(u) at (η̂, σ̂²), less half its second derivatives times their covariance, which is what the
    curve of the mean adds on average: unbiased to second order.
    """
    cov = as_array(covariance, "covariance", ndim=2)
    centre = as_number(eta, "eta")
    # exp(t∂²) with t = σ̂²/2: c_j = t^j/j!
    weights = [(variance / 2) ** j / math.factorial(j) for j in range(MOST)]
    found = [_applied(weights, centre, exponent, order) for order in range(5)]
    mean, slope, second, third, fourth = (value for value, _ in found)
    # ∂/∂σ² is half of ∂²/∂η².
    curve = second * cov[0, 0] + third * cov[0, 1] + fourth / 4 * cov[1, 1]
    slopes = np.array([slope, second / 2])
    mean = mean - curve / 2
    if not mean > 0:
        raise _too_uncertain()
    q = quantile(confidence, freedom)
    half = q * math.sqrt(float(slopes @ cov @ slopes))
    middle = (mean**exponent - 1) / exponent
    return OriginalMean(
        mean=mean,
        interval=_back(middle, half * mean ** (exponent - 1), exponent),
        median=float(_back(centre, 0.0, exponent)[0]),
        median_interval=_back(centre, q * math.sqrt(float(cov[0, 0])), exponent),
        method=f"maximum likelihood for Box-Cox {exponent:.4g}, corrected to second order",
        approximate=found[0][1],
    )


def _too_uncertain() -> InvalidInput:
    return InvalidInput(
        "the mean at this row is not above 0, which Box-Cox values are: the fit is too uncertain "
        "there for a mean on the original scale."
    )


def _weights(f: float, scatter: float, added: float) -> list[float]:
    """c_j, j < MOST: the product of two power series."""
    first = [(-added / 2) ** i / math.factorial(i) for i in range(MOST)]
    second = [1.0]
    for k in range(MOST - 1):
        second.append(second[-1] * scatter / ((f / 2 + k) * (k + 1)))
    return [sum(first[i] * second[j - i] for i in range(j + 1)) for j in range(MOST)]


def _applied(weights: list[float], eta: float, exponent: float, order: int) -> tuple[float, float]:
    """Σ_j c_j g^{(2j + order)}(η), and its last term: 0 where the sum ends by itself."""
    at, exact = np.array([eta]), whole_power(exponent) is not None
    total, last = 0.0, math.inf
    for j, weight in enumerate(weights):
        term = weight * float(derivative(at, exponent, 2 * j + order)[0])
        if not exact and abs(term) >= last:
            return total, last
        total, last = total + term, abs(term)
    return total, 0.0 if exact else last


def _back(middle: float, half: float, exponent: float) -> Array:
    """g of middle ± half; beyond what u can be the end is 0, or infinite for λ < 0."""
    base = np.maximum(1 + exponent * np.array([middle - half, middle + half]), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(base ** (1 / exponent))

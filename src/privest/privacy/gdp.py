"""Gaussian differential privacy: exact conversions of the number μ of a Gaussian release.

    δ(ε) = Φ(a) − e^ε Φ(b) ,   a = μ/2 − t,   b = −μ/2 − t,   t = ε/μ

(Section 5 of the theory page; Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Cor. 2.13).

Numerics. With e^ε φ(b) = φ(a) the terms are Φ(a) and φ(a)·M(−b), M(x) = Φ(−x)/φ(x) the Mills
ratio (`erfcx`). Where they agree to a factor of two, δ is the positive integral

    δ(ε) = ∫₀^∞ φ(s − a) (1 − e^{−μs}) ds,

by the trapezoidal rule in log s. |error of log δ| ≤ 4u·(|log δ| + (t + μ/2)·φ(a)/Φ(a)), u = 2⁻⁵²;
the factor 4 is measured against mpmath (the worst of many thousand points used 0.6 of the bound),
not proved. The inverses add the bound to log δ and so err on the safe side.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
import scipy

from privest.arrays import EPS, as_count, as_nonnegative, as_number, as_positive
from privest.errors import InvalidInput, NumericalFailure

# Trapezoidal rule for ∫₀^∞ g f(g) dg with g = e^w. f is a product of exponentials that decay
# like e^{−g} or faster and are bounded for |Im w| < π/4: the error is e^{−2π(π/4)/step} < 1e-17.
_STEP = 1 / 8
_NODES = np.exp(np.arange(-19.0, 4.25, _STEP))
_WEIGHTS = _STEP * _NODES**2
# Doublings lead from the least double to the largest in 2098; more only repeat themselves.
_MOST = 2100


def delta_of(mu: float, epsilon: float) -> float:
    """δ(ε): the smallest δ at this ε of a μ-GDP release."""
    return math.exp(log_delta_of(mu, epsilon))


def log_delta_of(mu: float, epsilon: float) -> float:
    """ln δ(ε) of a μ-GDP release, finite also where δ underflows; −inf for μ = 0.

    >>> print(f"{math.exp(log_delta_of(1.0, 1.0)):.6f}")
    0.126937
    """
    return _log_delta(as_nonnegative(mu, "mu"), as_nonnegative(epsilon, "epsilon"))[0]


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 at which a μ-GDP release is (ε, δ)-DP, 0 < δ < 1; to the safe side.

    >>> print(f"{epsilon_of(1.0, 1e-5):.6f}")
    4.377178
    """
    mu, delta = as_nonnegative(mu, "mu"), _open_unit(delta)
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        return sum(_log_delta(mu, epsilon)) - log_delta

    if excess(0.0) <= 0:
        return 0.0
    # δ(ε) ≤ Φ(a), hence ε ≤ μ(μ/2 + z) with Φ(−z) = δ; one more σ covers the rounding bound,
    # until μ is so large (1e14) that one σ is below the rounding of a.
    z = max(-float(scipy.special.ndtri(delta)), 0.0)
    start = mu * (mu / 2 + z + 1)
    high = first_scaled(lambda x: not excess(x) > 0, start)
    if math.isinf(high):
        raise InvalidInput(
            f"mu must be small enough for epsilon, about mu²/2, to be a float; "
            f"received {mu:g}. Use a mu below 1e150."
        )
    return least_double(lambda x: not excess(x) > 0, 0.0, high)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian release is (ε, δ)-DP, 0 < δ < 1; to the safe side.

    >>> print(f"{mu_of(1.0, 1e-5):.6f}")
    0.268051
    """
    epsilon, delta = as_nonnegative(epsilon, "epsilon"), _open_unit(delta)
    log_delta = math.log(delta)

    def excess(mu: float) -> float:
        return sum(_log_delta(mu, epsilon)) - log_delta

    # Two μ that are (ε, δ)-DP: δ(ε) ≤ δ(0) = erf(μ/2√2), and δ(ε) ≤ Φ(a) with a = Φ⁻¹(δ) = −z.
    z = -float(scipy.special.ndtri(delta))
    root = math.hypot(z, math.sqrt(2) * math.sqrt(epsilon))
    low = max(
        2 * math.sqrt(2) * float(scipy.special.erfinv(delta)),
        root - z if z <= 0 else epsilon / (0.5 * (root + z)),
    )
    low = first_scaled(lambda x: not excess(x) > 0, low, 0.9)
    high = first_scaled(lambda x: not excess(x) <= 0, 2 * low)
    return math.nextafter(least_double(lambda x: excess(x) > 0, low, high), 0.0)


def compose(*mus: float) -> float:
    """μ = √(Σ μᵢ²) of independent Gaussian releases, adaptive or not (Dong et al. 2022, 3.3)."""
    numbers = [as_nonnegative(mu, f"mu number {i}") for i, mu in enumerate(mus, start=1)]
    total = math.hypot(*numbers)
    if math.isinf(total):
        raise InvalidInput("sqrt of the sum of mu² is larger than the largest float.")
    return total


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """ln δ(ε), and the bound on its rounding error."""
    if mu == 0:
        return -math.inf, 0.0
    t = epsilon / mu
    half = mu / 2
    a = half - t
    square = 0.5 * a * a
    if a < 0 and math.isinf(square):
        return -math.inf, 0.0
    # √(2/π)·M(−a) and √(2/π)·M(−b). The first is inf for a > 38: then M(−b)/M(−a) < 1e-300 is 0.
    mills_a = float(scipy.special.erfcx(-a / math.sqrt(2)))
    mills_b = float(scipy.special.erfcx((t + half) / math.sqrt(2)))
    ratio = mills_b / mills_a  # e^ε Φ(b) / Φ(a)
    if ratio < 0.5:
        value = float(scipy.special.log_ndtr(a)) + math.log1p(-ratio)
    else:
        # Here a < 0.4. s = c·g makes the integrand decay like e^{−g} at every a;
        # 1 − e^{−μs} = μs·exprel(−μs).
        c = 1 / max(1.0, -a)
        s = c * _NODES
        integral = float(_WEIGHTS @ (np.exp((a - 0.5 * s) * s) * scipy.special.exprel(-mu * s)))
        value = math.log(mu) + 2 * math.log(c) + math.log(integral) - square
        value -= 0.5 * math.log(2 * math.pi)
    hazard = math.sqrt(2 / math.pi) / mills_a  # φ(a)/Φ(a)
    return value, 4 * EPS * (abs(value) + (t + half) * hazard)


def _open_unit(value: float) -> float:
    delta = as_number(value, "delta")
    if delta == 0:
        raise InvalidInput(
            "delta must be > 0; received 0. A Gaussian release has no finite pure epsilon: "
            "choose a delta such as 1e-6, or a mechanism with pure epsilon such as Laplace noise."
        )
    if not sys.float_info.min <= delta < 1:
        raise InvalidInput(
            f"delta must be in (0, 1), and not below {sys.float_info.min:.1e} where floats "
            f"lose digits; received {delta!r}. Choose a delta such as 1e-6."
        )
    return delta


def metric_trace(epsilon: float, measurements: int = 1) -> float:
    """The most Fisher information that metric ε-DP allows about K measurements: tr I_z(Y) ≤ Kε².

    The paper's *metric* ε-DP (`def:DP`, `ineq:def_DP`): for Y, Y' that differ in one y_k, at every
    distance, P(z ∈ O | Y) ≤ e^{ε‖y_k − y_k'‖} P(z ∈ O | Y'). Then the score of each measurement is
    at most ε in norm, hence tr [I_z(Y)]_kk ≤ ε² (`prop:DP2Fisher`), attained by Laplace noise of
    scale 1/ε. Assumes a density differentiable in Y almost everywhere. Necessary, never sufficient.

    >>> metric_trace(0.5, 8)
    2.0
    """
    number = as_positive(epsilon, "epsilon")
    count = as_count(measurements, "measurements", least=1)
    bound = count * (number * number)
    if math.isinf(bound):
        raise InvalidInput(
            f"epsilon must be small enough for its square to be a float; received {number:g}. "
            "Measure y in a larger unit."
        )
    return bound


# --- searches ---------------------------------------------------------------------------------


def first_scaled(holds: Callable[[float], bool], start: float, factor: float = 2.0) -> float:
    """The first of start, factor·start, factor²·start, … for which it holds."""
    for _ in range(_MOST):
        if holds(start):
            return start
        start *= factor
    raise NumericalFailure("no ε or μ was found: choose numbers that are less extreme.")


def least_double(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least double of [low, high], low ≥ 0, from which on it holds: bisection on the bits."""
    first, end = np.array([low, high]).view(np.int64).tolist()

    def double(bits: int) -> float:
        return float(np.int64(bits).view(np.float64))

    found = bisect_left(range(first, end), True, key=lambda bits: holds(double(bits)))
    return double(first + found)

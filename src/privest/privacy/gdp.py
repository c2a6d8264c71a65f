"""Gaussian differential privacy: exact conversions of the number μ of a Gaussian release.

A Gaussian release at level S makes the pair y, y' exactly μ-GDP with μ² = (y−y')ᵀS(y−y'): telling
y from y' is as hard as telling N(0, 1) from N(μ, 1). I_z(y) ≤ S alone implies no differential
privacy.

Symbols: finite μ, ε ≥ 0, 0 < δ < 1, t = ε/μ, a = μ/2 − t, b = −μ/2 − t.

Numerics. With e^ε φ(b) = φ(a) the two terms of δ(ε) are Φ(a) and φ(a)·M(−b), M(x) = Φ(−x)/φ(x)
the Mills ratio (`erfcx`); nothing overflows. Where they agree to a factor of two, δ is the positive
integral

    δ(ε) = ∫₀^∞ φ(s − a) (1 − e^{−μs}) ds,

by the trapezoidal rule in log s. |error of log δ| ≤ 4u·(|log δ| + (t + μ/2)·φ(a)/Φ(a)), u = 2⁻⁵²;
the factor 4 is measured against mpmath (the worst of many thousand points used 0.6 of the bound),
not proven. The inverses add the bound to log δ before they compare, and so err on the safe side.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator

import numpy as np
import scipy

from privest.arrays import EPS, as_count, as_number, as_positive
from privest.errors import InvalidInput, NumericalFailure

# Trapezoidal rule for ∫₀^∞ g f(g) dg with g = e^w. f is a product of exponentials that decay
# like e^{−g} or faster and are bounded for |Im w| < π/4: the error is e^{−2π(π/4)/step} < 1e-17.
_STEP = 1 / 8
_NODES = np.exp(np.arange(-19.0, 4.25, _STEP))
_WEIGHTS = _STEP * _NODES**2
# Doublings lead from the least double to the largest in 2098; more only repeat themselves.
_MOST = 2100


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest δ of (ε, δ)-differential privacy at this ε, of a μ-GDP release.

        δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2),        δ = 0 for μ = 0.

    Source: docs/theory.md 5; Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Cor. 2.13.

    >>> print(f"{delta_of(1.0, 1.0):.6f}")
    0.126937
    """
    return math.exp(log_delta_of(mu, epsilon))


def log_delta_of(mu: float, epsilon: float) -> float:
    """log δ(ε), finite also where δ is below the smallest float; −inf for μ = 0.

    >>> print(f"{log_delta_of(1e-8, 1e4):.4e}")  # −(ε/μ)²/2, to first order
    -5.0000e+23
    """
    return _log_delta(_nonnegative(mu, "mu"), _nonnegative(epsilon, "epsilon"))[0]


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 at which a μ-GDP release is (ε, δ)-DP, rounded to the safe side.

    Raises InvalidInput for δ outside (0, 1); δ = 0 has no finite ε.

    >>> print(f"{epsilon_of(1.0, 1e-5):.6f}")
    4.377178
    >>> epsilon_of(1.0, 0.5)  # the total variation is 0.383
    0.0
    """
    mu, delta = _nonnegative(mu, "mu"), _open_unit(delta)
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        return sum(_log_delta(mu, epsilon)) - log_delta

    if excess(0.0) <= 0:
        return 0.0
    # δ(ε) ≤ Φ(a), hence ε ≤ μ(μ/2 + z) with Φ(−z) = δ; one more σ covers the rounding bound,
    # until μ is so large (1e14) that one σ is below the rounding of a.
    z = max(-float(scipy.special.ndtri(delta)), 0.0)
    start = mu * (mu / 2 + z + 1)
    high = first_that(lambda x: not excess(x) > 0, doubled(start), "ε that is large enough")
    if math.isinf(high):
        raise InvalidInput(
            f"mu must be small enough for epsilon, about mu²/2, to be a float; "
            f"received {mu:g}. Use a mu below 1e150."
        )
    return least_double(lambda x: not excess(x) > 0, 0.0, high)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian release is (ε, δ)-DP, rounded to the safe side.

    Raises InvalidInput for δ outside (0, 1); δ = 0 allows no Gaussian release.

    >>> print(f"{mu_of(1.0, 1e-5):.6f}")  # noise σ = 1/μ = 3.730632 for sensitivity 1
    0.268051
    """
    epsilon, delta = _nonnegative(epsilon, "epsilon"), _open_unit(delta)
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
    low = first_that(lambda x: not excess(x) > 0, doubled(low, 0.9), "μ that is small enough")
    high = first_that(lambda x: not excess(x) <= 0, doubled(2 * low), "μ that is too large")
    return math.nextafter(least_double(lambda x: excess(x) > 0, low, high), 0.0)


def rho_of(mu: float) -> float:
    """ρ = μ²/2 of zCDP, exact (Bun and Steinke 2016, Proposition 1.6)."""
    number = _nonnegative(mu, "mu")
    return _float(number * number / 2, f"mu²/2 with mu = {number:g}")


def mu_of_rho(rho: float) -> float:
    """μ = √(2ρ) of a Gaussian release that spends ρ of zCDP; not for other mechanisms."""
    number = _nonnegative(rho, "rho")
    return _float(math.sqrt(2 * number), f"sqrt(2·rho) with rho = {number:g}")


def compose(*mus: float) -> float:
    """μ = √(Σ μᵢ²) of several Gaussian releases of the same data with independent noise.

    A later release may be chosen after seeing an earlier one (Dong, Roth and Su 2022, Cor. 3.3).

    >>> compose(3.0, 4.0)
    5.0
    """
    numbers = [_nonnegative(mu, f"mu number {i}") for i, mu in enumerate(mus, start=1)]
    return _float(math.hypot(*numbers), "sqrt of the sum of mu²")


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """log δ(ε), and the bound on its rounding error. Module docstring for both."""
    if mu == 0:
        return -math.inf, 0.0
    t, half = epsilon / mu, mu / 2
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


def _nonnegative(value: float, name: str) -> float:
    number = as_number(value, name)
    if number < 0:
        raise InvalidInput(f"{name} must be >= 0; received {number:g}.")
    return number


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


def _float(value: float, what: str) -> float:
    if math.isinf(value):
        raise InvalidInput(f"{what} is larger than the largest float. Use smaller values.")
    return value


def metric_trace(epsilon: float, measurements: int = 1) -> float:
    """The most Fisher information that metric ε-DP allows about K measurements: tr I_z(Y) ≤ Kε².

    The paper's *metric* ε-DP (`def:DP`, `ineq:def_DP`): for Y, Y' that differ in one y_k, at every
    distance, P(z ∈ O | Y) ≤ e^{ε‖y_k − y_k'‖} P(z ∈ O | Y'); ε has the unit 1/[y]. Then the score
    of each measurement is at most ε in norm, hence tr [I_z(Y)]_kk ≤ ε² (`prop:DP2Fisher`).

    Assumes a density differentiable in Y almost everywhere. Attained by independent noise of
    density ∝ e^{−ε‖d‖} on each measurement (Laplace of scale 1/ε). A necessary condition, never a
    sufficient one: a Fisher bound implies no differential privacy, and classical ε-DP (staircase
    noise) implies no Fisher bound.

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


# --- searches over doubles ------------------------------------------------------------------


def first_that(holds: Callable[[float], bool], candidates: Iterator[float], what: str) -> float:
    """The first candidate for which it holds; `what` names it in the message."""
    for _, found in zip(range(_MOST), candidates):
        if holds(found):
            return found
    raise NumericalFailure(
        f"no {what} was found in {_MOST} doublings, which pass through all numbers that a "
        "computer has. Choose numbers that are less extreme."
    )


def doubled(start: float, factor: float = 2.0) -> Iterator[float]:
    """start, factor·start, factor²·start, …"""
    while True:
        yield start
        start *= factor


def least_double(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least double of [low, high] for which it holds, by bisection; low ≥ 0.

    It holds at `high`, and from the first one on: doubles ≥ 0 are in the order of their bits.

    >>> least_double(lambda x: x * x >= 2, 0.0, 2.0)
    1.4142135623730951
    """
    first, end = np.array([low, high]).view(np.int64).tolist()

    def double(bits: int) -> float:
        return float(np.int64(bits).view(np.float64))

    found = bisect_left(range(first, end), True, key=lambda bits: holds(double(bits)))
    return double(first + found)

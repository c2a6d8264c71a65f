"""Gaussian differential privacy: exact conversions of the number μ of a Gaussian release.

A Gaussian release at level S makes the pair y, y' exactly μ-GDP with μ² = (y−y')ᵀS(y−y'):
telling y from y' is as hard as telling N(0, 1) from N(μ, 1). μ is a fact about one adjacency;
this module converts it and never computes it. Everything here is for a Gaussian release only:
I_z(y) ≤ S alone implies no differential privacy (see `privest.privacy.metric`).

Symbols: μ ≥ 0 and ε ≥ 0 are finite floats, 0 < δ < 1, t = ε/μ, a = μ/2 − t, b = −μ/2 − t.

Numerics. With e^ε φ(b) = φ(a) the two terms of δ(ε) are Φ(a) and φ(a)·M(−b), where
M(x) = Φ(−x)/φ(x) is the Mills ratio (`erfcx`); nothing overflows. Where they agree to a factor of
two, they are not subtracted: δ is the positive integral

    δ(ε) = ∫₀^∞ φ(s − a) (1 − e^{−μs}) ds,

by the trapezoidal rule in log s. Either way |error of log δ| ≤ 4u·(|log δ| + (t + μ/2)·φ(a)/Φ(a)),
u = 2⁻⁵², about what a last-digit change of μ and ε does. The factor 4 is measured against mpmath,
not proven: the worst of many thousand points used 0.6 of the bound. As a relative error of δ, for
δ ≥ 1e-300 and μ, ε ≤ 1e4, the bound is at most 6e-12; found: 5e-13, and 6e-15 where μ, ε ≤ 3 and
δ ≥ 1e-8. The inverses add the bound to log δ before they compare, and so err to the safe side.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import scipy

from privest.arrays import EPS, ArrayLike, as_number
from privest.errors import InvalidInput
from privest.privacy._following import doubled, first_that, least_double

# Trapezoidal rule for ∫₀^∞ g f(g) dg with g = e^w. f is a product of exponentials that decay
# like e^{−g} or faster and are bounded for |Im w| < π/4: the error is e^{−2π(π/4)/step} < 1e-17.
_STEP = 1 / 8
_NODES = np.exp(np.arange(-19.0, 4.25, _STEP))
_WEIGHTS = _STEP * _NODES**2


def delta_of(mu: ArrayLike, epsilon: ArrayLike) -> float:
    """The additive δ of (ε, δ)-differential privacy at this ε, of a μ-GDP release.

        δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2),        δ = 0 for μ = 0.

    Guarantees: equality for a Gaussian release, the smallest δ at this ε, within the error of the
    module docstring. 0 when δ is below the smallest float (then see `log_delta_of`).
    Source: docs/theory.md 5; Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Cor. 2.13.

    >>> print(f"{delta_of(1.0, 1.0):.6f}")
    0.126937
    >>> print(f"{delta_of(1.0, 0.0):.6f}")  # ε = 0: the total variation, erf(μ/2√2)
    0.382925
    """
    return math.exp(log_delta_of(mu, epsilon))


def log_delta_of(mu: ArrayLike, epsilon: ArrayLike) -> float:
    """log δ(ε) of a μ-GDP release, finite also where δ is far below the smallest float.

    −inf for μ = 0, and where log δ itself is below −1.8e308. Numerics: module docstring.

    >>> print(f"{log_delta_of(1e-8, 1e4):.4e}")  # −(ε/μ)²/2, to first order
    -5.0000e+23
    """
    return _log_delta(_nonnegative(mu, "mu"), _nonnegative(epsilon, "epsilon"))[0]


def epsilon_of(mu: ArrayLike, delta: ArrayLike) -> float:
    """The ε of a μ-GDP release at δ: the smallest ε ≥ 0 with δ(ε) ≤ δ.

    Guarantees: (ε, δ)-DP holds for the ε returned, in exact arithmetic: the bound on rounding
    (module docstring) is spent on the safe side. 0 if δ is already met at ε = 0.
    Raises: InvalidInput for δ outside (0, 1); δ = 0 has no finite ε at all.

    >>> print(f"{epsilon_of(1.0, 1e-5):.6f}")
    4.377178
    >>> delta_of(1.0, epsilon_of(1.0, 1e-5)) <= 1e-5
    True
    >>> epsilon_of(1.0, 0.5)  # the total variation is 0.383: nothing to pay
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


def mu_of(epsilon: ArrayLike, delta: ArrayLike) -> float:
    """The largest μ whose Gaussian release is (ε, δ)-DP: the inverse of `delta_of` in μ.

    Guarantees: (ε, δ)-DP holds for the μ returned, in exact arithmetic: the bound on rounding
    (module docstring) is spent on the safe side. At ε = 0, μ = 2√2 erf⁻¹(δ).
    Raises: InvalidInput for δ outside (0, 1); δ = 0 allows no Gaussian release at all.

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


def rho_of(mu: ArrayLike) -> float:
    """The zCDP number of a μ-GDP release: ρ = μ²/2, exact (Rényi divergence αρ at every order α).

    Source: docs/theory.md 5; Bun and Steinke 2016, Proposition 1.6.

    >>> rho_of(2.0)
    2.0
    """
    number = _nonnegative(mu, "mu")
    return _float(number * number / 2, f"mu²/2 with mu = {number:g}")


def mu_of_rho(rho: ArrayLike) -> float:
    """The μ of a Gaussian release that spends ρ of zCDP: μ = √(2ρ).

    For a Gaussian release only: ρ-zCDP of another mechanism does not make it μ-GDP.

    >>> mu_of_rho(2.0)
    2.0
    """
    number = _nonnegative(rho, "rho")
    return _float(math.sqrt(2 * number), f"sqrt(2·rho) with rho = {number:g}")


def compose(*mus: ArrayLike) -> float:
    """The μ of several Gaussian releases of the same data together: μ = √(Σ μᵢ²).

    Assumes (the caller's promise): independent noise. A later release may be chosen after seeing
    an earlier one. With shared noise it is false: y + d and y − d together reveal y.
    Guarantees: equality when none is chosen after another and all μᵢ are of the same pair y, y';
    else an upper bound.
    Source: docs/theory.md 5; Dong, Roth and Su 2022, Corollary 3.3.

    >>> compose(3.0, 4.0)
    5.0
    >>> compose()
    0.0
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


def _nonnegative(value: ArrayLike, name: str) -> float:
    number = as_number(value, name)
    if number < 0:
        raise InvalidInput(f"{name} must be >= 0; received {number:g}.")
    return number


def _open_unit(value: ArrayLike) -> float:
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

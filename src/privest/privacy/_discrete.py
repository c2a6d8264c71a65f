"""Exact (ε, δ) of one number on the grid g = 2⁻¹⁰: discrete Gaussian and discrete Laplace."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from privest.arrays import EPS
from privest.lattice import GAUSSIAN, GRID, LAPLACE
from privest.privacy import gdp
from privest.privacy.gdp import first_scaled, least_double

VARIANCE = float(GAUSSIAN.variance)  # 2²⁰ + 1/2: exact
RATIO = float(LAPLACE.ratio)  # q, exact too
_REACH = 10 * 2**10  # 10 deviations: beyond lies 1e-22 of what is summed


def log_delta_of_shift(steps: int, epsilon: float) -> float:
    """ln δ of X against X + n, n = `steps` ≥ 0: the smallest δ at ε, exactly [proved].

        δ_n(ε) = F(t) − e^ε F(t − n) = Σ_{x ≤ t} p(x)(1 − e^{ε − (n² − 2nx)/2σ²}) ,
        t = ⌈n/2 − εσ²/n⌉ − 1

    {x ≤ t}: where the likelihood ratio exceeds e^ε. No term is negative, so nothing cancels
    (`_rounding`). Σ p(x) is √(2πσ²) but for e^{−2π²σ²} < 10^−8000000.
    Source: Canonne, Kamath and Steinke 2020, Theorem 7.
    """
    if steps == 0:
        return -math.inf
    last = math.ceil(steps / 2 - epsilon * VARIANCE / steps) - 1
    if last < -(2**40):  # the square of such a number is no double's business
        return -math.inf
    top = min(last, _REACH)
    x = np.arange(top - 2 * _REACH, top + 1, dtype=np.float64)
    peak = float(min(top, 0))  # where the largest term is
    weights = np.exp(-(x - peak) * (x + peak) / (2 * VARIANCE))
    loss = epsilon - (steps - 2 * x) * (steps / (2 * VARIANCE))
    total = float(np.sum(weights * -np.expm1(np.minimum(loss, 0.0))))
    if total == 0.0:
        return -math.inf
    return math.log(total) - peak * peak / (2 * VARIANCE) - 0.5 * math.log(2 * math.pi * VARIANCE)


def log_delta_of_move(steps: Fraction, epsilon: float) -> float:
    """ln of a δ at ε of a shift of n + φ steps, by convexity (1 − φ)δ_n + φδ_{n+1} [proved]."""
    n = math.floor(steps)
    share = float(steps - n)
    if share == 0.0:
        return log_delta_of_shift(n, epsilon)
    low, high = (log_delta_of_shift(k, epsilon) for k in (n, n + 1))
    return float(np.logaddexp(low + math.log1p(-share), high + math.log(share)))


def epsilon_of_move(steps: Fraction, delta: float) -> float:
    """The smallest ε ≥ 0 with (ε, δ)-privacy of a shift of n + φ steps, rounded up [proved]."""
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        found = max(log_delta_of_move(steps, epsilon), -1e6)
        return found + _rounding(float(steps), epsilon, found) - target

    if steps == 0 or excess(0.0) <= 0:
        return 0.0
    # The Gaussian ε of ⌈n + φ⌉ steps is at most 1e-6 too large: a bracket.
    start = gdp.epsilon_of(GRID * math.ceil(steps) * (1 + 1e-6), delta) + 1e-12
    high = first_scaled(lambda x: not excess(x) > 0, start)
    low = high * (1 - 1e-5) if excess(high * (1 - 1e-5)) > 0 else 0.0
    return least_double(lambda x: not excess(x) > 0, low, high)


def _rounding(steps: float, epsilon: float, log_delta: float) -> float:
    """A bound on the rounding error of ln δ.

    1e-12: exponents below 750 in size, a sum of 20000 terms. The rest: the loss at t is a
    difference of numbers of size ε, which weighs as a change of ε does: hazard/μ.
    """
    mu = GRID * max(steps, 1.0)  # less than a step is no shift, or one step
    hazard = 2.0 + math.sqrt(2.0 * max(-log_delta, 0.0))
    return 1e-12 + 8 * EPS * (epsilon / mu + mu / 2) * hazard


def laplace_epsilon(steps: Fraction) -> float:
    """Pure ε of a Laplace release whose u shifts by n + φ steps [proved]; rounded up.

    ε = n ln(1/q) + ln(1 + φ(1/q − 1)) ,   the exact supremum, attained at grid points
    """
    n = math.floor(steps)
    share = float(steps - n)
    return (n * -math.log(RATIO) + math.log1p(share * (1 / RATIO - 1))) * (1 + 16 * EPS)


def laplace_metric_epsilon() -> float:
    """ε of metric privacy (`def:DP`) per unit of u: (1/q − 1)/g, rounded up [proved].

    The slope of ln p is steepest at grid points; vectors add over coordinates.
    """
    return (1 / RATIO - 1) / GRID * (1 + 4 * EPS)

"""Moments of a Gaussian beyond a point, free of overflow and of cancellation in the tail."""

from __future__ import annotations

import math
from typing import NamedTuple

from privest.arrays import Array
from privest.estimator.likelihood.terms import Backend

# From here a continued fraction, cut off after so many steps: 1e-15.
FAR = 4.0
STEPS = 14


class Tail(NamedTuple):
    """∫_α^∞ (x − x₀)^k φ(x) dx = e^L T_k for k = 0..3, about x₀ = max(α, 0), L = −x₀²/2."""

    start: Array  # x₀
    log_scale: Array  # L
    moments: tuple[Array, Array, Array, Array]


def tail(alpha: Array, backend: Backend) -> Tail:
    """The moments of N(0, 1) beyond α, scaled by the largest value of φ there.

    φ(x)/φ(x₀) is at most 1, and with Q = Φ(−α) the plain moments about 0 are

        M₀ = Q,   M₁ = φ(α),   M₂ = Q + αφ(α),   M₃ = (2 + α²)φ(α).

    For α > 0 they are moved to α, T_k = ∫_0^∞ t^k e^{−αt − t²/2} dt/√(2π), where
    T₀ = ½erfcx(α/√2), T₁ = 1/√(2π) − αT₀, T_{k+1} = kT_{k−1} − αT_k. Each step loses a factor α² of
    digits, so beyond α = 4 the same recursion is read backwards, T_k/T_{k−1} = k/(α + T_{k+1}/T_k):
    a continued fraction of positive numbers, started at its limit (√(α² + 4k) − α)/2.
    """
    xp, special = backend.xp, backend.special
    root = 1.0 / math.sqrt(2.0 * math.pi)
    positive = alpha > 0
    start = xp.where(positive, alpha, 0.0)
    inner = xp.exp(-0.5 * xp.minimum(alpha - start, 0.0) ** 2)  # φ(α)/φ(x₀)
    mills = 0.5 * special.erfcx(xp.abs(alpha) * math.sqrt(0.5))
    t0 = xp.where(positive, mills, 1.0 - inner * mills)
    t1 = xp.where(positive, root - alpha * mills, root * inner)
    t2 = xp.where(positive, t0 - alpha * t1, t0 + alpha * t1)
    t3 = xp.where(positive, 2.0 * t1 - alpha * t2, (2.0 + alpha * alpha) * t1)
    moments = [t0, t1, t2, t3]
    far = alpha > FAR
    if xp.any(far):
        at = alpha[far]
        ratio = 2.0 * STEPS / (xp.sqrt(at * at + 4.0 * STEPS) + at)
        ratios = []
        for k in range(STEPS - 1, 0, -1):
            ratio = k / (at + ratio)
            ratios.append(ratio)
        for moment, before, ratio in zip(moments[1:], moments, reversed(ratios)):
            moment[far] = before[far] * ratio
    return Tail(start, -0.5 * start * start, (moments[0], moments[1], moments[2], moments[3]))


def between(near: Tail, far: Tail, backend: Backend) -> tuple[Array, Array, Array, Array]:
    """The moments between two points α < β, α + β ≥ 0, about the x₀ and in the scale of `near`."""
    xp = backend.xp
    gap = far.start - near.start
    ratio = xp.exp(xp.maximum(far.log_scale - near.log_scale, -700.0))
    u0, u1, u2, u3 = far.moments
    moved = (
        u0,
        u1 + gap * u0,
        u2 + gap * (2.0 * u1 + gap * u0),
        u3 + gap * (3.0 * u2 + gap * (3.0 * u1 + gap * u0)),
    )
    t0, t1, t2, t3 = (t - ratio * u for t, u in zip(near.moments, moved))
    return t0, t1, t2, t3

"""p(z|y) that is a polynomial times an exponential on each of a few intervals of y.

On one interval, with q a polynomial of degree 2 at most and k linear or a downward parabola,

    p(z|y) N(y; η, σ²) = q(y) e^{k(y)} N(y; η, σ²) = q(y) · a constant · N(y; μ, s²):

a linear k tilts the Gaussian (μ = η + k'σ², s = σ), a parabola narrows it. The interval then adds
partial moments of a Gaussian (`tail`, `span`: no overflow, no cancellation), taken about the point
y₀ of the interval that is nearest to μ: there the exponent is largest, and e^{k(y₀)} N(y₀; η, σ²)
is the scale. Pieces are added by their scales, and mean and variance of y given z follow (`_terms`)
about the mean itself: nothing cancels however far η is from z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from privest.arrays import Array, Flags
from privest.estimator.likelihood._terms import Backend, Terms
from privest.noise.quadrature import gauss

ORDERS = 5  # moments 0 … 4: polynomials of degree 2, times (y − η)²
# From here a continued fraction, cut off after so many steps: 1e-15.
FAR = 3.0
STEPS = 32
DEEP = 40.0  # beyond, φ is 0 beside any other number here
# Intervals over which ln φ changes by less than `DROP`, or that lie within ±`NARROW`: a difference
# of tails would cancel, and 16 Gauss points are exact to rounding.
DROP, NARROW, POINTS = 3.0, 2.0, 16

Moments = tuple[Array, ...]
Polynomial = tuple[Array | float, ...]


class Tail(NamedTuple):
    """∫_α^∞ (x − x₀)^k φ(x)/φ(x₀) dx = √(2π) T_k for k = 0..4, about x₀ = max(α, 0)."""

    start: Array  # x₀
    moments: Moments


def tail(alpha: Array, backend: Backend) -> Tail:
    """The moments of N(0, 1) beyond α, scaled by the largest value of φ there.

    φ(x)/φ(x₀) is at most 1, and with Q = Φ(−α) the plain moments about 0 are

        M₀ = Q,   M₁ = φ(α),   M₂ = Q + αφ(α),   M₃ = (2 + α²)φ(α),   M₄ = 3M₂ + α³φ(α).

    For α > 0 they are moved to α, T_k = ∫_0^∞ t^k e^{−αt − t²/2} dt/√(2π), where
    T₀ = ½erfcx(α/√2), T₁ = 1/√(2π) − αT₀, T_{k+1} = kT_{k−1} − αT_k. Each step loses a factor α² of
    digits, so beyond α = 3 the same recursion is read backwards, T_k/T_{k−1} = k/(α + T_{k+1}/T_k):
    a continued fraction of positive numbers, started at its limit (√(α² + 4k) − α)/2.
    """
    xp, special = backend.xp, backend.special
    root = 1.0 / math.sqrt(2.0 * math.pi)
    positive = alpha > 0
    start = xp.where(positive, alpha, 0.0)
    low = xp.clip(alpha, -DEEP, 0.0)
    inner = xp.exp(-0.5 * low * low)  # φ(α)/φ(x₀)
    mills = 0.5 * special.erfcx(xp.abs(alpha) * math.sqrt(0.5))
    near = xp.clip(alpha, 0.0, FAR)
    t0 = xp.where(positive, mills, 1.0 - inner * mills)
    t1 = xp.where(positive, root - near * mills, root * inner)
    t2 = xp.where(positive, t0 - near * t1, t0 + low * t1)
    t3 = xp.where(positive, 2.0 * t1 - near * t2, (2.0 + low * low) * t1)
    t4 = xp.where(positive, 3.0 * t2 - near * t3, 3.0 * t2 + low * low * low * t1)
    moments = [t0, t1, t2, t3, t4]
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
    return Tail(start, tuple(moments))


def span(alpha: Array, beta: Array, width: Array, backend: Backend) -> Tail:
    """The same between α and β = α + width, about the point x₀ of [α, β] that is nearest to 0.

    The width is given apart: the ends may be far away and their difference lost. Mirrored, so that
    α + β ≥ 0, it is the difference of two tails, φ(β)/φ(x₀) = e^{−D}; where little of the first is
    left, a Gauss rule over the interval. All moments are relative to their own size.
    """
    xp = backend.xp
    mirrored = alpha + beta < 0
    alpha, beta = xp.where(mirrored, -beta, alpha), xp.where(mirrored, -alpha, beta)
    near, far = tail(alpha, backend), tail(beta, backend)
    inside = alpha <= 0
    gap = xp.where(inside, beta, width)  # from x₀ to β
    drop = gap * (near.start + 0.5 * gap)
    fall = xp.exp(-xp.minimum(drop, 700.0))
    step = xp.where(drop < 700.0, gap, 0.0)
    moments = []
    for k, own in enumerate(near.moments):
        moved = far.moments[0]
        for j in range(1, k + 1):  # ∫ (t + gap)^k by Horner's rule in gap
            moved = moved * step + math.comb(k, j) * far.moments[j]
        moments.append(own - fall * moved)
    narrow = xp.where(inside, beta <= NARROW, drop <= DROP)
    if xp.any(narrow):
        for moment, summed in zip(moments, _summed(alpha[narrow], width[narrow], backend)):
            moment[narrow] = summed
    signed = [m if k % 2 == 0 else xp.where(mirrored, -m, m) for k, m in enumerate(moments)]
    return Tail(xp.where(mirrored, -near.start, near.start), tuple(signed))


def _summed(alpha: Array, width: Array, backend: Backend) -> Moments:
    xp = backend.xp
    start = xp.maximum(alpha, 0.0)[:, None]
    nodes, weights = (xp.asarray(a) for a in gauss(POINTS))
    t = xp.minimum(alpha, 0.0)[:, None] + width[:, None] * (0.5 * (1.0 + nodes))
    part = xp.exp(-t * (start + 0.5 * t)) * weights
    part = part * (width[:, None] * (0.5 / math.sqrt(2.0 * math.pi)))
    sums = [xp.sum(part, axis=1)]
    for _ in range(1, ORDERS):
        part = part * t
        sums.append(xp.sum(part, axis=1))
    return tuple(sums)


class Spot(NamedTuple):
    """Where an interval weighs most: y₀, and the moments of N(μ, s²) about it."""

    at: Array  # y₀
    unit: Array  # s
    moments: tuple[Array, ...]  # T_k in units of s^k


class Piece(NamedTuple):
    """∫ p(z|y) (y − y₀)^k N(y; η, σ²) dy = e^L m_k over an interval, k = 0, 1, 2."""

    at: Array  # y₀
    log_scale: Array  # L
    moments: tuple[Array, Array, Array]


def between(low: Array, high: Array, mu: Array, s: Array, backend: Backend) -> Spot:
    """The interval low < y < high."""
    xp = backend.xp
    ends = (low - mu) / s, (high - mu) / s, (high - low) / s
    # all of one shape: masks index them
    alpha, beta, width = (end + xp.zeros_like(ends[0] + ends[1]) for end in ends)
    found = span(alpha, beta, width, backend)
    at = xp.where(beta < 0, high, xp.where(alpha > 0, low, mu))
    return Spot(at, s, found.moments)


def above(low: Array, mu: Array, s: Array, backend: Backend) -> Spot:
    """The half-line y > low."""
    xp = backend.xp
    alpha = (low - mu) / s
    return Spot(xp.where(alpha > 0, low, mu), s, tail(alpha, backend).moments)


def below(high: Array, mu: Array, s: Array, backend: Backend) -> Spot:
    """The half-line y < high: the other one, mirrored."""
    spot = above(-high, -mu, s, backend)
    t0, t1, t2, t3, t4 = spot.moments
    return Spot(-spot.at, s, (t0, -t1, t2, -t3, t4))


def piece(spot: Spot, weight: Polynomial, log_scale: Array, variance: Array) -> Piece:
    """∫ of q(y)·e^k·N(y; η, σ²): q = Σ weight_j (y − y₀)^j, `log_scale` = k(y₀) − (y₀ − η)²/2σ².

    The constant: N(y; η, σ²) has 1/σ√(2π), the moments want it with s in place of σ.
    """
    sums = []
    part = spot.unit / variance**0.5
    for k in range(3):
        total: Array = part * weight[0] * spot.moments[k]
        power = part
        for j, q in enumerate(weight[1:], start=1):
            power = power * spot.unit
            total = total + power * q * spot.moments[k + j]
        sums.append(total)
        part = part * spot.unit
    return Piece(spot.at, log_scale, (sums[0], sums[1], sums[2]))


def joined(
    pieces: Sequence[Piece], eta: Array, variance: Array, possible: Flags, backend: Backend
) -> Terms:
    """ℓ, ℓ', −ℓ'' from all pieces; `possible` as in `Terms.where`."""
    xp = backend.xp
    top = pieces[0].log_scale
    for one in pieces[1:]:
        top = xp.maximum(top, one.log_scale)
    scales = [xp.exp(xp.maximum(one.log_scale - top, -700.0)) for one in pieces]
    mass = xp.zeros_like(top)
    away = xp.zeros_like(top)  # ∫ (y − η)
    for one, scale in zip(pieces, scales):
        mass = mass + scale * one.moments[0]
        away = away + scale * ((one.at - eta) * one.moments[0] + one.moments[1])
    off = away / mass
    mean = eta + off
    spread = xp.zeros_like(top)
    for one, scale in zip(pieces, scales):
        d = one.at - mean
        m0, m1, m2 = one.moments
        spread = spread + scale * (m2 + d * (2.0 * m1 + d * m0))
    weight = xp.ones_like(top) / variance
    curvature = weight * (1.0 - spread / mass * weight)
    return Terms(top + xp.log(mass), off * weight, curvature, weight).where(possible, xp)

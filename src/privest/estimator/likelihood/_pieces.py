"""p(z|y) that is a polynomial times an exponential on each of a few intervals of y.

On one interval, with q a polynomial of degree 2 at most and k linear or a downward parabola,

    p(z|y) N(y; η, σ²) = q(y) e^{k(y)} N(y; η, σ²) = q(y) · a constant · N(y; μ, s²):

a linear k tilts the Gaussian (μ = η + k'σ², s = σ), a parabola narrows it. The interval then adds
partial moments of a Gaussian (`partial.py`), taken about the point y₀ of the interval that is
nearest to μ: there the exponent is largest, and e^{k(y₀)} N(y₀; η, σ²) is the scale. Pieces are
added by their scales, and mean and variance of y given z follow (`terms.py`) about the mean itself:
nothing cancels however far η is from z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from privest.arrays import Array, Flags
from privest.estimator.likelihood._partial import span, tail
from privest.estimator.likelihood._terms import Backend, Terms

Polynomial = tuple[Array | float, ...]


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
    """ℓ, ℓ', −ℓ'' from all pieces. Where z is not `possible`: ℓ = −∞, and no slope."""
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
    value = top + xp.log(mass)
    curvature = weight * (1.0 - spread / mass * weight)
    return Terms(
        xp.where(possible, value, -math.inf),
        xp.where(possible, off * weight, 0.0),
        xp.where(possible, curvature, 0.0),
        weight,
    )

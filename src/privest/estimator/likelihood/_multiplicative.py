"""Multiplicative noise z = u/g, g = 1 + d, with stochastic truncation (`remark:truncation`).

|y| < ε becomes u = ±ε with probabilities (ε ± y)/2ε, any other u = y. With f the density of d,
ζ = |z|, and y in the direction of z,

    p(z|y) = |y|/z²·f(y/ζ − 1)                                        |y| ≥ ε
           = [(ε + y)f(ε/ζ − 1) + (ε − y)f(−ε/ζ − 1)]/2z²             |y| < ε .

For Gaussian and Laplace d this times N(y; η, σ²) is a polynomial times a Gaussian on every
interval: partial moments about the point nearest to its mean.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from privest.arrays import Array, ArrayLike, Flags, Index, as_nonnegative, as_number, as_positive
from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import Inverse, TwinUniform
from privest.noise import Laplace
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
    """∫_α^∞ (x − x₀)^k φ(x)/φ(x₀) dx = √(2π)T_k for k = 0..4, about x₀ = max(α, 0)."""

    start: Array  # x₀
    moments: Moments


def tail(alpha: Array, backend: Backend) -> Tail:
    """The moments of N(0, 1) beyond α, scaled by the largest value of φ there.

    T₀ = ½erfcx(α/√2), T₁ = 1/√(2π) − αT₀, T_{k+1} = kT_{k−1} − αT_k for α > 0; beyond α = 3 by the
    continued fraction T_k/T_{k−1} = k/(α + T_{k+1}/T_k).
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
    """The same between α and β = α + width, about the point of [α, β] nearest to 0."""
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
    """∫ p(z|y)(y − y₀)^k N(y; η, σ²) dy = e^L m_k over an interval, k = 0, 1, 2."""

    at: Array  # y₀
    log_scale: Array  # L
    moments: tuple[Array, Array, Array]


def between(low: Array, high: Array, mu: Array, s: Array, backend: Backend) -> Spot:
    xp = backend.xp
    ends = (low - mu) / s, (high - mu) / s, (high - low) / s
    # all of one shape: masks index them
    alpha, beta, width = (end + xp.zeros_like(ends[0] + ends[1]) for end in ends)
    found = span(alpha, beta, width, backend)
    at = xp.where(beta < 0, high, xp.where(alpha > 0, low, mu))
    return Spot(at, s, found.moments)


def above(low: Array, mu: Array, s: Array, backend: Backend) -> Spot:
    xp = backend.xp
    alpha = (low - mu) / s
    return Spot(xp.where(alpha > 0, low, mu), s, tail(alpha, backend).moments)


def below(high: Array, mu: Array, s: Array, backend: Backend) -> Spot:
    spot = above(-high, -mu, s, backend)
    t0, t1, t2, t3, t4 = spot.moments
    return Spot(-spot.at, s, (t0, -t1, t2, -t3, t4))


def piece(spot: Spot, weight: Polynomial, log_scale: Array, variance: Array) -> Piece:
    """∫ q(y)e^k N(y; η, σ²) dy: q = Σ weight_j (y − y₀)^j, `log_scale` = k(y₀) − (y₀ − η)²/2σ²."""
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


LEAST = 1e-140  # |z| below it counts as this: its square is still a number


class InverseLikelihood(Likelihood):
    """Gaussian and Laplacian g, truncated at ε ≥ 0; several maxima. ℓ to 1e-12 of 1 + |ℓ|."""

    several_maxima = True
    anywhere = True
    numbers = 200
    log_constant: float  # of f
    best: float  # p(z|·) without truncation is largest at y = best·z

    def __init__(self, variance: ArrayLike, truncation: float) -> None:
        super().__init__(variance)
        self.truncation = as_nonnegative(truncation, "truncation")
        # Of 1500 trials 10 missed the best of 252 fits with 15 of them, 5 with 30.
        self.fits = 30 if self.truncation > 0 else 15  # type: ignore[misc]

    @abstractmethod
    def log_noise(self, d: Array, backend: Backend) -> Array:
        """ln f(d) but for its constant."""

    @abstractmethod
    def spots(
        self, size: Array, eta: Array, variance: Array, backend: Backend
    ) -> list[tuple[Spot, float]]:
        """The intervals of |y| ≥ ε for z = ζ > 0, each with the sign of y."""

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        possible: Flags = z != 0
        return possible

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        variance = xp.asarray(self.variance)
        side = xp.where(z < 0, -1.0, 1.0)
        size = xp.maximum(xp.abs(z), LEAST) + xp.zeros_like(eta)
        turned = side * eta
        pieces = []
        for spot, sign in self.spots(size, turned, variance, backend):
            height = self.log_noise(spot.at / size - 1.0, backend)
            height = height - 0.5 * (spot.at - turned) ** 2 / variance
            pieces.append(piece(spot, (sign * spot.at, sign), height, variance))
        if self.truncation > 0:
            pieces.append(self._inside(size, turned, variance, backend))
        found = joined(pieces, turned, variance, z + xp.zeros_like(eta) != 0, backend)
        value = found.value + self.log_constant - 2.0 * xp.log(size)
        return Terms(value, side * found.slope, found.curvature, found.weight)

    def _inside(self, size: Array, eta: Array, variance: Array, backend: Backend) -> Piece:
        """|y| < ε: the weight is linear between its values at the ends."""
        xp, edge = backend.xp, self.truncation
        end = edge + xp.zeros_like(eta)
        spot = between(-end, end, eta, xp.sqrt(variance), backend)
        up = self.log_noise(edge / size - 1.0, backend)
        down = self.log_noise(-edge / size - 1.0, backend)
        less = xp.exp(xp.maximum(down - up, -700.0))
        weight = (0.5 * ((edge + spot.at) + (edge - spot.at) * less), 0.5 * (1.0 - less))
        return piece(spot, weight, up - 0.5 * (spot.at - eta) ** 2 / variance, variance)

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """ln p(z|y) at y = η: as if σ = 0."""
        xp = backend.xp
        ratio = xp.maximum(xp.abs(z), LEAST)
        turned = xp.where(z < 0, -eta, eta)
        size = xp.maximum(xp.maximum(xp.abs(turned), self.truncation), LEAST)
        up = self.log_noise(size / ratio - 1.0, backend)
        down = self.log_noise(-size / ratio - 1.0, backend)
        share = 0.5 * (1.0 + turned / size)  # of u = +|u|
        high, low = xp.maximum(share, LEAST), xp.maximum(1.0 - share, LEAST)
        mixed = xp.logaddexp(up + xp.log(high), down + xp.log(low))
        rough: Array = xp.log(size) + mixed
        return rough

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index:
        side: Index = backend.xp.where(eta > 0, 1, 0)
        return side

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        """The maximum of p(z|·), or the edge of the truncation."""
        xp = backend.xp
        size = xp.maximum(xp.abs(z) * self.best, self.truncation)
        centre: Array = xp.where(z < 0, -1.0, 1.0) * size
        return centre


class InverseGaussianLikelihood(InverseLikelihood):
    """ℓ(z, η) for z = u/g, g ~ N(1, τ²), truncated at ε ≥ 0 (0: not at all).

    N(y; z, τ²z²)N(y; η, σ²) = N(z; η, v)N(y; μ, s²),
    v = σ² + τ²z²,   μ = (σ²z + τ²z²η)/v,   s² = σ²τ²z²/v.
    """

    def __init__(self, variance: ArrayLike, *, sd: float, truncation: float = 0.0) -> None:
        super().__init__(variance, truncation)
        self.sd = as_positive(sd, "sd")
        self.log_constant = -math.log(self.sd * math.sqrt(2.0 * math.pi))
        self.best = (1 + math.sqrt(1 + 4 * self.sd**2)) / 2

    def log_noise(self, d: Array, backend: Backend) -> Array:
        return -0.5 * (d / self.sd) ** 2

    def spots(
        self, size: Array, eta: Array, variance: Array, backend: Backend
    ) -> list[tuple[Spot, float]]:
        xp = backend.xp
        own = (self.sd * size) ** 2
        total = variance + own
        mu = (variance * size + own * eta) / total
        s = xp.sqrt(variance * own / total)
        edge = self.truncation + xp.zeros_like(mu)
        return [(above(edge, mu, s, backend), 1.0), (below(-edge, mu, s, backend), -1.0)]


class InverseLaplaceLikelihood(InverseLikelihood):
    """ℓ(z, η) for z = u/g, g = 1 + Laplace(b), truncated at ε ≥ 0 (0: not at all)."""

    def __init__(self, variance: ArrayLike, *, scale: float, truncation: float = 0.0) -> None:
        super().__init__(variance, truncation)
        self.scale = as_positive(scale, "scale")
        self.log_constant = -math.log(2.0 * self.scale)
        self.best = max(1.0, self.scale)

    def log_noise(self, d: Array, backend: Backend) -> Array:
        size: Array = backend.xp.abs(d)
        return -size / self.scale

    def spots(
        self, size: Array, eta: Array, variance: Array, backend: Backend
    ) -> list[tuple[Spot, float]]:
        xp = backend.xp
        sd, move = xp.sqrt(variance), variance / (size * self.scale)
        edge = self.truncation + xp.zeros_like(eta)
        kink = xp.maximum(size, self.truncation)
        return [
            (below(-edge, eta + move, sd, backend), -1.0),
            (between(edge, kink, eta + move, sd, backend), 1.0),
            (above(kink, eta - move, sd, backend), 1.0),
        ]


@likelihood_of.register
def _(channel: Inverse, variance: ArrayLike) -> Likelihood:
    noise = channel.noise
    edge = channel.truncate or 0.0
    if isinstance(noise, Laplace):
        return InverseLaplaceLikelihood(variance, scale=noise.scale, truncation=edge)
    return InverseGaussianLikelihood(variance, sd=math.sqrt(noise.variance), truncation=edge)


# Beyond e^-DEPTH of the largest integrand nothing counts; that is REACH σ from the mean, or less.
DEPTH, REACH = 40.0, 9.0
TWIN_POINTS = 40
RATIO = 16.0  # panels of 1/y end where y has grown by it


class TwinUniformLikelihood(Likelihood):
    """ℓ(z, η) for z = D y, D uniform on [1 − b, 1 − a] ∪ [1 + a, 1 + b], 0 ≤ a < b.

        e^ℓ = 1/2(b − a) · Σ ∫ N(y; η, σ²)/|y| dy   over the y with z/y in one of the two.

    Within 9σ of the point nearest to η 40 Gauss points are exact to rounding.
    """

    several_maxima = True
    anywhere = True
    numbers = 1500
    fits = 60  # two intervals a reading: 2^m combinations, and maxima as many

    def __init__(self, variance: ArrayLike, *, inner: float, outer: float) -> None:
        super().__init__(variance)
        self.inner, self.outer = as_number(inner, "inner"), as_positive(outer, "outer")
        if not 0 <= self.inner < self.outer:
            raise InvalidInput(
                f"needs 0 ≤ inner < outer; received {self.inner:g} and {self.outer:g}."
            )
        self.intervals = [
            part
            for low, high in ((1 - self.outer, 1 - self.inner), (1 + self.inner, 1 + self.outer))
            for part in _inverted(low, high)
        ]

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        possible: Flags = z != 0
        return possible

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        variance = xp.asarray(self.variance)
        sd = xp.sqrt(variance) + xp.zeros_like(eta)
        turn = xp.where(z < 0, -1.0, 1.0)
        size = xp.where(z == 0, 1.0, xp.abs(z)) + xp.zeros_like(eta)
        turned = turn * eta
        pieces = [self._piece(size, turned, sd, interval, backend) for interval in self.intervals]
        found = joined(pieces, turned, variance, z + xp.zeros_like(eta) != 0, backend)
        constant = math.log(2.0 * (self.outer - self.inner) * math.sqrt(2.0 * math.pi))
        value = found.value - xp.log(sd) - constant
        return Terms(value, turn * found.slope, found.curvature, found.weight)

    def _piece(
        self,
        size: Array,
        turned: Array,
        sd: Array,
        interval: tuple[float, float, float],
        backend: Backend,
    ) -> Piece:
        """The integral over one interval, low·ζ < |y| < high·ζ on one side of 0."""
        side, *ends = interval
        eta = side * turned
        xp = backend.xp
        first, last = ends[0] * size, ends[1] * size
        nearest = xp.clip(eta, first, last)
        start = (nearest - eta) / sd
        # e^{−|start|t − t²/2} has fallen by e^-DEPTH at t
        reach = xp.minimum(2.0 * DEPTH / (xp.abs(start) + xp.sqrt(start**2 + 2.0 * DEPTH)), REACH)
        # A short window is laid out in t = (y − nearest)/σ: far out it may be less than a rounding
        # of y. One that reaches towards 0 is laid out in y: there t would lose its digits.
        low_t = xp.maximum(-reach, (first - nearest) / sd)
        high_t = xp.minimum(reach, (last - nearest) / sd)
        a, b = xp.maximum(nearest + sd * low_t, first), nearest + sd * high_t
        panels = max(1, math.ceil(math.log(float(xp.max(b / a))) / math.log(RATIO)))
        grow = xp.exp(xp.log(b / a) / panels)
        even, short = (high_t - low_t) / panels, (b < 2.0 * a)[..., None]
        nodes, weights = (xp.asarray(0.5 * rule) for rule in gauss(TWIN_POINTS))
        parts, points = [], []
        for k in range(panels):
            from_a = (a * grow**k)[..., None] * (1.0 + (grow - 1.0)[..., None] * (nodes + 0.5))
            near = low_t[..., None] + even[..., None] * (k + nodes + 0.5)
            t = xp.where(short, near, (from_a - nearest[..., None]) / sd[..., None])
            y = xp.where(short, nearest[..., None] + sd[..., None] * t, from_a)
            width = xp.where(short[..., 0], sd * even, a * grow**k * (grow - 1.0))
            fall = xp.exp(-t * (start[..., None] + 0.5 * t))
            parts.append(fall * weights * width[..., None] / y)
            points.append(t)
        part, t = xp.concat(parts, axis=-1), xp.concat(points, axis=-1)
        mass, first, second = (xp.sum(part * t**k, axis=-1) for k in range(3))
        moments = mass, side * sd * first, sd * sd * second
        return Piece(side * nearest, -0.5 * start * start, moments)

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index:
        nearest: Index = backend.xp.argmin(self._away(z, eta, backend), axis=0)
        return nearest

    def _away(self, z: Array, eta: Array, backend: Backend) -> Array:
        """Distances (intervals, ...) of η from the intervals, in units of z."""
        xp = backend.xp
        ratio = eta / xp.where(z == 0, 1.0, z)
        parts = [
            xp.abs(side * ratio - xp.clip(side * ratio, a, b)) for side, a, b in self.intervals
        ]
        away: Array = xp.stack(parts)
        return away

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """Smooth in η where p(z|η) jumps: a Gaussian about the nearest y that gives z."""
        xp = backend.xp
        away = xp.min(self._away(z, eta, backend), axis=0)
        rough: Array = -0.5 * (away * z) ** 2 / xp.asarray(self.variance) - xp.log1p(xp.abs(eta))
        return rough

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        """The y nearest to 0 in the interval of D > 1: the likeliest for small σ."""
        return z / (1.0 + self.inner)


def _inverted(low: float, high: float) -> list[tuple[float, float, float]]:
    """The y with low ≤ 1/y ≤ high as (sign, least |y|, largest |y|)."""
    parts = []
    if high > 0:
        parts.append((1.0, 1 / high, 1 / low if low > 0 else math.inf))
    if low < 0:
        parts.append((-1.0, -1 / low, -1 / high if high < 0 else math.inf))
    return parts


@likelihood_of.register
def _(channel: TwinUniform, variance: ArrayLike) -> Likelihood:
    return TwinUniformLikelihood(variance, inner=channel.inner, outer=channel.outer)

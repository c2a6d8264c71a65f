"""Multiplicative noise z = u/g, g = 1 + d, with stochastic truncation (`remark:truncation`).

|y| < ε becomes u = ±ε with probabilities (ε ± y)/2ε, any other u = y. With f the density of d,
ζ = |z|, and y in the direction of z,

    p(z|y) = |y|/z²·f(y/ζ − 1)                                        |y| ≥ ε
           = [(ε + y)f(ε/ζ − 1) + (ε − y)f(−ε/ζ − 1)]/2z²             |y| < ε .

For Gaussian and Laplace d this times N(y; η, σ²) is on every interval a linear function times a
Gaussian N(μ, s²): 30 Gauss points within 7.25s of the point nearest to μ have an error of 1e-12.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from privest.arrays import Array, ArrayLike, Flags, Index, as_nonnegative, as_number, as_positive
from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import Inverse, TwinUniform
from privest.noise import Laplace
from privest.noise.quadrature import gauss

# Beyond e^-DEPTH of the largest integrand nothing counts; that is REACH s from the mean, or less.
DEPTH, REACH = 40.0, 7.25
POINTS = 30


class Piece(NamedTuple):
    """∫ p(z|y)(y − y₀)^k N(y; η, σ²) dy = e^L m_k over an interval, k = 0, 1, 2."""

    at: Array  # y₀
    log_scale: Array  # L
    moments: tuple[Array, Array, Array]


Function = Callable[[Array], Array]


def piece(
    interval: tuple[Array, Array], mean: Array, s: Array, weight: Function, height: Function,
    backend: Backend,
) -> Piece:  # fmt: skip
    """∫ q(y)e^{k(y)} dy/√(2π)s over an interval, q `weight`, k a parabola −(y − μ)²/2s² + c.

    `height` gives k at the point y₀ of the interval that is nearest to μ.
    """
    xp, (low, high) = backend.xp, interval
    at = xp.clip(mean, low, high)
    start = (at - mean) / s
    # e^{−|start|t} has fallen by e^-DEPTH at t = DEPTH/|start|
    reach = DEPTH / xp.maximum(xp.abs(start), DEPTH / REACH)
    first = xp.maximum(-reach, (low - at) / s)
    width = xp.minimum(reach, (high - at) / s) - first
    nodes, weights = (xp.asarray(0.5 * rule) for rule in gauss(POINTS))
    t = first[..., None] + width[..., None] * (nodes + 0.5)
    part = xp.exp(-t * (start[..., None] + 0.5 * t)) * weights
    part = part * weight(at[..., None] + s[..., None] * t)
    size, moments = width / math.sqrt(2.0 * math.pi), []
    for _ in range(3):
        moments.append(size * xp.sum(part, axis=-1))
        size, part = size * s, part * t
    return Piece(at, height(at), (moments[0], moments[1], moments[2]))


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
    numbers = 1500
    log_constant: float  # of f
    best: float  # p(z|·) without truncation is largest at y = best·z

    def __init__(self, variance: ArrayLike, truncation: float) -> None:
        super().__init__(variance)
        self.truncation: float = as_nonnegative(truncation, "truncation")
        # Of 1500 trials 10 missed the best of 252 fits with 15 of them, 5 with 30.
        self.fits = 30 if self.truncation > 0 else 15  # type: ignore[misc]

    @abstractmethod
    def log_noise(self, d: Array, backend: Backend) -> Array:
        """ln f(d) but for its constant."""

    @abstractmethod
    def intervals(
        self, size: Array, eta: Array, variance: Array, backend: Backend
    ) -> list[tuple[tuple[Array, Array], Array, Array]]:
        """Intervals of |y| ≥ ε for z = ζ > 0: their ends, μ and s."""

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        possible: Flags = z != 0
        return possible

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        variance = xp.asarray(self.variance)
        side = xp.where(z < 0, -1.0, 1.0)
        size = xp.maximum(xp.abs(z), LEAST) + xp.zeros_like(eta)
        turned = side * eta
        sd = xp.sqrt(variance) + xp.zeros_like(eta)

        def scaled(y: Array, noise: Array, s: Array) -> Array:
            height: Array = noise - 0.5 * ((y - turned) / sd) ** 2 + xp.log(s / sd)
            return height

        pieces = []
        for ends, mean, s in self.intervals(size, turned, variance, backend):

            def height(y: Array, s: Array = s) -> Array:
                return scaled(y, self.log_noise(y / size - 1.0, backend), s)

            pieces.append(piece(ends, mean, s, xp.abs, height, backend))
        if self.truncation > 0:
            edge = self.truncation + xp.zeros_like(eta)
            up, down = (self.log_noise(y / size - 1.0, backend) for y in (edge, -edge))
            less = xp.exp(xp.maximum(down - up, -700.0))[..., None]

            def inside(y: Array) -> Array:  # linear between its values at the ends
                return 0.5 * (self.truncation + y + (self.truncation - y) * less)  # type: ignore[no-any-return]

            ends = -edge, edge
            height = partial(scaled, noise=up, s=sd)
            pieces.append(piece(ends, turned, sd, inside, height, backend))
        found = joined(pieces, turned, variance, z + xp.zeros_like(eta) != 0, backend)
        value = found.value + self.log_constant - 2.0 * xp.log(size)
        return Terms(value, side * found.slope, found.curvature, found.weight)

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
        self.sd: float = as_positive(sd, "sd")
        self.log_constant: float = -math.log(self.sd * math.sqrt(2.0 * math.pi))
        self.best: float = (1 + math.sqrt(1 + 4 * self.sd**2)) / 2

    def log_noise(self, d: Array, backend: Backend) -> Array:
        return -0.5 * (d / self.sd) ** 2

    def intervals(
        self, size: Array, eta: Array, variance: Array, backend: Backend
    ) -> list[tuple[tuple[Array, Array], Array, Array]]:
        xp = backend.xp
        own = (self.sd * size) ** 2
        total = variance + own
        mean = (variance * size + own * eta) / total
        s = xp.sqrt(variance * own / total)
        edge, far = self.truncation + xp.zeros_like(mean), math.inf + xp.zeros_like(mean)
        return [((edge, far), mean, s), ((-far, -edge), mean, s)]


class InverseLaplaceLikelihood(InverseLikelihood):
    """ℓ(z, η) for z = u/g, g = 1 + Laplace(b), truncated at ε ≥ 0 (0: not at all)."""

    def __init__(self, variance: ArrayLike, *, scale: float, truncation: float = 0.0) -> None:
        super().__init__(variance, truncation)
        self.scale: float = as_positive(scale, "scale")
        self.log_constant: float = -math.log(2.0 * self.scale)
        self.best: float = max(1.0, self.scale)

    def log_noise(self, d: Array, backend: Backend) -> Array:
        size: Array = backend.xp.abs(d)
        return -size / self.scale

    def intervals(
        self, size: Array, eta: Array, variance: Array, backend: Backend
    ) -> list[tuple[tuple[Array, Array], Array, Array]]:
        xp = backend.xp
        sd, move = xp.sqrt(variance) + xp.zeros_like(eta), variance / (size * self.scale)
        edge, far = self.truncation + xp.zeros_like(eta), math.inf + xp.zeros_like(eta)
        kink = xp.maximum(size, self.truncation)
        return [
            ((-far, -edge), eta + move, sd),
            ((edge, kink), eta + move, sd),
            ((kink, far), eta - move, sd),
        ]


@likelihood_of.register
def _(channel: Inverse, variance: ArrayLike) -> Likelihood:
    noise = channel.noise
    edge = channel.truncate or 0.0
    if isinstance(noise, Laplace):
        return InverseLaplaceLikelihood(variance, scale=noise.scale, truncation=edge)
    return InverseGaussianLikelihood(variance, sd=math.sqrt(noise.variance), truncation=edge)


RATIO = 8.0  # 1/y is resolved on intervals over which y grows by it


class TwinUniformLikelihood(Likelihood):
    """ℓ(z, η) for z = D y, D uniform on [1 − b, 1 − a] ∪ [1 + a, 1 + b], 0 ≤ a < b.

        e^ℓ = 1/2(b − a) · Σ ∫ N(y; η, σ²)/|y| dy   over the y with z/y in one of the two.

    Intervals that reach towards 0 are cut where y has grown by 8.
    """

    inner: float
    outer: float

    several_maxima = True
    anywhere = True
    numbers = 1500
    fits = 60  # two intervals a measurement: 2^m combinations, and maxima as many

    def __init__(self, variance: ArrayLike, *, inner: float, outer: float) -> None:
        super().__init__(variance)
        self.inner, self.outer = as_number(inner, "inner"), as_positive(outer, "outer")
        if not 0 <= self.inner < self.outer:
            raise InvalidInput(
                f"needs 0 ≤ inner < outer; received {self.inner:g} and {self.outer:g}."
            )
        self.intervals: list[tuple[float, float, float]] = [
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
        pieces = []
        for interval in self.intervals:
            pieces += self._pieces(size, turned, sd, interval, backend)
        found = joined(pieces, turned, variance, z + xp.zeros_like(eta) != 0, backend)
        value = found.value - math.log(2.0 * (self.outer - self.inner))
        return Terms(value, turn * found.slope, found.curvature, found.weight)

    def _pieces(
        self, size: Array, turned: Array, sd: Array, interval: tuple[float, float, float],
        backend: Backend,
    ) -> list[Piece]:  # fmt: skip
        """The integral over one interval, low·ζ < |y| < high·ζ on one side of 0, in its parts."""
        side, *ends = interval
        eta, xp = side * turned, backend.xp
        first, last = ends[0] * size, ends[1] * size
        nearest = xp.clip(eta, first, last)
        a = xp.maximum(nearest - REACH * sd, first)
        b = xp.minimum(nearest + REACH * sd, last)
        # Elsewhere than towards 0 one part: cut ends would be less than a rounding apart.
        short = b < 2.0 * a
        ratio = float(xp.max(xp.where(short, 1.0, b / a)))
        count = max(1, math.ceil(math.log(ratio) / math.log(RATIO)))
        grow = xp.exp(xp.log(b / a) / count)
        found = []
        for k in range(count):
            low = xp.where(short, first if k == 0 else nearest, a * grow**k)
            high = xp.where(short, last if k == 0 else nearest, a * grow ** (k + 1))

            def height(y: Array) -> Array:
                return -0.5 * ((y - eta) / sd) ** 2

            one = piece((low, high), eta, sd, lambda y: 1.0 / y, height, backend)
            mass, away, spread = one.moments
            found.append(Piece(side * one.at, one.log_scale, (mass, side * away, spread)))
        return found

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

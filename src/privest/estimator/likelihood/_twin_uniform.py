"""Multiplicative noise z = D y, D uniform on two intervals: exact panels that move with z."""

from __future__ import annotations

import math

from privest.arrays import Array, ArrayLike, Flags, Index, as_number, as_positive
from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import TwinUniform
from privest.noise.quadrature import gauss

# Beyond e^-DEPTH of the largest integrand nothing counts; that is REACH σ from the mean, or less.
DEPTH, REACH = 40.0, 9.0
POINTS = 40
RATIO = 16.0  # panels of 1/y end where y has grown by it


class TwinUniformLikelihood(Likelihood):
    """ℓ(z, η) for z = D y, D uniform on [1 − b, 1 − a] ∪ [1 + a, 1 + b], 0 ≤ a < b.

    p(z|y) = 1/(2(b − a)|y|) where z/y is in one of the two, that is on two intervals of y (three
    if D may be 0) whose ends are multiples of z, so

        e^ℓ = 1/2(b − a) · Σ ∫ N(y; η, σ²)/|y| dy.

    What counts of an interval lies within 9σ of its point nearest to η; there 40 Gauss points are
    exact to rounding. Not concave. z = 0 is not `possible`: y = 0, or D = 0, have probability 0.
    Numerics: ℓ to 1e-13 of 1 + |ℓ|. Cost: 80 exponentials.

    >>> import numpy as np
    >>> likelihood = TwinUniformLikelihood(1e-6, inner=0.25, outer=0.75)
    >>> terms = likelihood(np.array([[3.0]]), np.array([[2.0]]))  # D = 1.5
    >>> round(float(np.exp(terms.value[0, 0])), 4), round(float(terms.slope[0, 0]), 4)
    (0.5, -0.5)
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
        sums = [
            self._interval(size, side * turn * eta, sd, low, high, backend)
            for side, low, high in self.intervals
        ]
        top = sums[0][0]
        for one in sums[1:]:
            top = xp.maximum(top, one[0])
        mass, mean = xp.zeros_like(top), xp.zeros_like(top)
        scales = [xp.exp(xp.maximum(one[0] - top, -700.0)) * one[1] for one in sums]
        for (side, _, _), scale, one in zip(self.intervals, scales, sums):
            mass = mass + scale
            mean = mean + side * turn * scale * one[2]
        mean = mean / mass
        spread = xp.zeros_like(top)
        for (side, _, _), scale, one in zip(self.intervals, scales, sums):
            spread = spread + scale * (one[3] + (side * turn * one[2] - mean) ** 2)
        constant = math.log(2.0 * (self.outer - self.inner) * math.sqrt(2.0 * math.pi))
        weight = 1.0 / (sd * sd)
        value = top + xp.log(mass) - xp.log(sd) - constant
        found = Terms(value, mean / sd, (1.0 - spread / mass) * weight, weight)
        return found.where(z + xp.zeros_like(eta) != 0, xp)

    def _interval(
        self, size: Array, eta: Array, sd: Array, low: float, high: float, backend: Backend
    ) -> tuple[Array, Array, Array, Array]:
        """(ln scale, mass, mean, variance) of x = (y − η)/σ over low·ζ < y < high·ζ, 0 ≤ low."""
        xp = backend.xp
        first, last = low * size, high * size
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
        nodes, weights = (xp.asarray(0.5 * rule) for rule in gauss(POINTS))
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
        mass = xp.sum(part, axis=-1)
        mean = xp.sum(part * t, axis=-1) / mass
        spread = xp.sum(part * (t - mean[..., None]) ** 2, axis=-1) / mass
        return -0.5 * start * start, mass, start + mean, spread

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index:
        """The interval that is nearest."""
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

"""Any channel: ∫ p(z|y) N(y; η, σ²) dy by panels in y; among them random gains z = Dy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import Channel, Gain, TruncatedGain
from privest.noise.quadrature import gauss, on_panels

# Where to look for the largest integrand, in σ from η.
FURTHER = 2.0 ** np.arange(3.75, 6.25, 0.25)
LOOK = np.concatenate([-FURTHER[::-1], np.arange(-12, 12.25, 0.25), FURTHER])
# Panels around it, in σ: halving towards it, 10 Gauss points each.
STEPS = 2.0 ** np.arange(-5, 5)
EDGES = np.concatenate([-STEPS[::-1], [0.0], STEPS])
POINTS = 10
AT_ONCE = 2**19  # integrand values held at a time

Breaks = tuple[float, ...] | Callable[[Array], Array]


class QuadratureLikelihood(Likelihood):
    """ℓ(z, η) from nothing but ln p(z|y): 320 values for each release and each η.

    Gauss-Legendre panels that shrink towards the largest integrand within 64σ of η. For smooth
    p(z|·) the error is near 1e-12 of 1 + |ℓ| (1e-10 at the end of those 64σ). Where p(z|·) is not
    smooth, or narrow, name the places in `breaks`: values of y at which panels then end, or a
    function that gives them for a column of releases, one row each. Without them a kink
    costs up to 1e-3, a jump 1e-2 and all digits in the tails. `error(z, η)` compares with half as
    many points: a bound for smooth p(z|·), only a warning for others. ℓ = −∞ where p(z|y) was
    found to vanish everywhere.

    Slow (100 times a closed form): the last resort. Arrays are NumPy's.

    >>> from privest.mechanism import Additive
    >>> from privest.noise import Laplace
    >>> from privest.estimator.likelihood import LaplaceLikelihood
    >>> z, eta = np.array([[0.3, 5.0]]), np.zeros((1, 2))
    >>> numerical = QuadratureLikelihood(Additive(Laplace(1.0)), 0.04)(z, eta).value
    >>> bool(np.abs(numerical - LaplaceLikelihood(0.04, scale=1.0)(z, eta).value).max() < 1e-3)
    True
    """

    several_maxima = True

    def __init__(self, channel: Channel, variance: ArrayLike, breaks: Breaks = ()) -> None:
        super().__init__(variance)
        self.channel = channel
        self.breaks = breaks

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        return self._terms(z, eta, POINTS)

    def error(self, z: Array, eta: Array) -> Array:
        """|ℓ − ℓ with half as many points|, entry by entry."""
        fine, coarse = self._terms(z, eta, POINTS), self._terms(z, eta, POINTS // 2)
        with np.errstate(invalid="ignore"):
            return np.abs(fine.value - coarse.value)

    def _terms(self, z: Array, eta: Array, points: int) -> Terms:
        z, eta, variance = np.broadcast_arrays(z, eta, self.variance)
        flat = [np.ravel(a) for a in (z, eta, np.sqrt(variance))]
        count = self._breaks(np.zeros((1, 1))).shape[1]
        step = max(1, AT_ONCE // (LOOK.size + (EDGES.size + count) * points))
        parts = [
            self._sums(points, *(a[at : at + step] for a in flat))
            for at in range(0, flat[0].size, step)
        ]
        value, mean, spread = (
            np.concatenate([part[k] for part in parts]).reshape(z.shape) for k in range(3)
        )
        sd = np.sqrt(variance)
        return Terms(value, mean / sd, (1 - spread) / variance, 1 / variance)

    def _sums(self, points: int, z: Array, eta: Array, sd: Array) -> tuple[Array, Array, Array]:
        z, eta, sd = z[:, None], eta[:, None], sd[:, None]
        breaks = (self._breaks(z) - eta) / sd
        tried = np.concatenate([np.broadcast_to(LOOK, (len(z), LOOK.size)), breaks], axis=1)
        best = self._size(z, eta, sd, tried).argmax(axis=1)[:, None]
        top = np.take_along_axis(tried, best, axis=1)
        edges = top + EDGES
        if breaks.size:
            edges = np.sort(np.concatenate([edges, breaks], axis=1), axis=1)
        nodes, weights = gauss(points)
        x, half = on_panels(edges[:, :-1], edges[:, 1:], nodes)
        x = x.reshape(len(z), -1)
        with np.errstate(divide="ignore", under="ignore"):
            size = self._size(z, eta, sd, x) + np.log(half * weights).reshape(len(z), -1)
            high = np.maximum(size.max(axis=1, keepdims=True), -1e300)
            part = np.exp(size - high)
            total = part.sum(axis=1)
            some = np.where(total > 0, total, 1.0)
            mean = (part * x).sum(axis=1) / some
            spread = (part * (x - mean[:, None]) ** 2).sum(axis=1) / some
            value = high[:, 0] + np.log(total) - 0.5 * math.log(2 * math.pi)
        return value, mean, spread

    def _breaks(self, z: Array) -> Array:
        """The breaks of every release, a row each."""
        given = self.breaks(z) if callable(self.breaks) else np.array(self.breaks, ndmin=2)
        return np.asarray(given, dtype=np.float64)

    def _size(self, z: Array, eta: Array, sd: Array, x: Array) -> Array:
        """Ln p(z|y) N(y; η, σ²) up to a constant, at y = η + σx."""
        y = eta + sd * x
        with np.errstate(all="ignore"):
            value = self.channel.log_density(np.broadcast_to(z, y.shape), y)
        return np.where(np.isnan(value), -np.inf, value) - x**2 / 2


@likelihood_of.register
def _(channel: Channel, variance: ArrayLike) -> Likelihood:
    return QuadratureLikelihood(channel, variance)


# p(z|y) = f(z/y)/|y| is as wide in ln|y| as f in ln|D|: panels of octaves around |z| resolve it.
OCTAVES = 2.0 ** np.arange(-4, 5)
# From there to σ it falls like 1/|y|: panels that grow by one factor, 4 if σ is 10⁶ times as far.
GROWTH = np.arange(1, 11) / 10
SPREAD = (1e-10, 1e-4, 0.02, 0.25, 0.75, 0.98, 1 - 1e-4, 1 - 1e-10)  # of a narrow gain
LEAST = 1e-140  # |y| and |z| below it count as this
NEAR_EDGE = 64.0  # so many ε from σ the panels around the largest integrand do that already


class GainLikelihood(QuadratureLikelihood):
    """ℓ(z, η) for z = Dy: 320 values of the law's density a release, and 10 for every break.

    Breaks are y = 0, ±ε, ±2^k|z| for k = −4 … 4, z/d for special points and quantiles d of the law,
    and steps from ε or |z| to σ where that is far. z = 0 is not `possible` unless y is truncated:
    p(0|y) = f(0)/|y| has no integral.
    """

    def __init__(self, channel: Gain | TruncatedGain, variance: ArrayLike) -> None:
        self.edge = channel.threshold if isinstance(channel, TruncatedGain) else 0.0
        law = channel.law
        self.bounded = bool(np.isfinite(law.support).any())
        special = {*law.landmarks, *law.kinks, *law.jumps, *law.support, *law.quantile(SPREAD)}
        self.inverses = np.array([1.0 / d for d in special if d != 0])
        super().__init__(channel, variance, self._places)
        self.deviation = float(np.sqrt(self.variance.max()))
        self.fits = 30 if self.edge > 0 else 15  # type: ignore[misc] # as for 1/g

    def _places(self, z: Array) -> Array:
        size = np.abs(z) * OCTAVES
        ends = np.broadcast_to([-self.edge, 0.0, self.edge], (len(z), 3))
        near = [-size, size, z * self.inverses, ends]
        if self.deviation <= NEAR_EDGE * self.edge:
            return np.concatenate(near, axis=1)
        start = np.maximum(np.maximum(np.abs(z), self.edge), LEAST)
        far = start * np.maximum(self.deviation / start, 1.0) ** GROWTH
        return np.concatenate([*near, -far, far], axis=1)

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        return np.asarray((z != 0) | (self.edge > 0))

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """Ln p(z|y) at y = η, as if σ = 0; ℓ itself for a bounded gain, where that is often −∞."""
        if self.bounded:
            return self.value(z, eta)
        least = np.where(eta < 0, -LEAST, LEAST)
        with np.errstate(over="ignore"):
            return self.channel.log_density(z, np.where(np.abs(eta) < LEAST, least, eta))

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index:
        """One on each side of 0."""
        return np.asarray(eta > 0, dtype=np.intp)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return np.where(z < 0, -1.0, 1.0) * np.maximum(np.abs(z), self.edge)


@likelihood_of.register
def _(channel: Gain | TruncatedGain, variance: ArrayLike) -> Likelihood:
    return GainLikelihood(channel, variance)

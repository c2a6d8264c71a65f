"""Multiplicative noise z = u/g, g = 1 + d, with stochastic truncation (`remark:truncation`).

The mechanism: a reading |y| < ε becomes u = ±ε with probabilities (ε ± y)/2ε, any other u = y;
then z = u/g. With f the density of d, ζ = |z|, and y read in the direction of z (y → −y, η → −η
where z < 0),

    p(z|y) = |y|/z² · f(y/ζ − 1)                                        |y| ≥ ε
           = [(ε + y) f(ε/ζ − 1) + (ε − y) f(−ε/ζ − 1)]/2z²             |y| < ε,

continuous in y. Inside it is linear in y; outside |y| times f, which is the exponential of a
parabola (Gaussian) or of |y/ζ − 1| (Laplace): the intervals of `_pieces`.
"""

from __future__ import annotations

import math
from abc import abstractmethod

from privest.arrays import Array, ArrayLike, Flags, Index, as_nonnegative, as_positive
from privest.estimator.likelihood._pieces import Piece, Spot, above, below, between, joined, piece
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import Inverse, TruncatedInverse
from privest.noise import Laplace

LEAST = 1e-140  # |z| below it counts as this: its square is still a number


class InverseLikelihood(Likelihood):
    """What Gaussian and Laplacian g have in common; truncated at ε ≥ 0 (0: not at all).

    The density of y given z has up to three humps, and Σℓ several maxima. z = 0 has probability 0:
    ℓ = −∞ there. Numerics: ℓ to 1e-12 of 1 + |ℓ|, ℓ' to 1e-11/σ, ℓ'' to 1e-10/σ², at any distance.
    """

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
        """Ln f(d) but for its constant."""

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
        """Ln p(z|y) at y = η: as if σ = 0."""
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
        """One on each side of 0."""
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

    For |y| ≥ ε the product of two Gaussians in y is one Gaussian,

        N(y; z, τ²z²) N(y; η, σ²) = N(z; η, v) N(y; μ, s²),
        v = σ² + τ²z²,   μ = (σ²z + τ²z²η)/v,   s² = σ²τ²z²/v.

    Cost: four erfcx.

    >>> import numpy as np
    >>> likelihood = InverseGaussianLikelihood(0.04, sd=1.5, truncation=2.0)
    >>> terms = likelihood(np.array([[3.0]]), np.array([[0.5]]))
    >>> round(float(terms.value[0, 0]), 6), round(float(terms.slope[0, 0]), 6)
    (-3.036693, 0.134293)
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
    """ℓ(z, η) for z = u/g, g = 1 + Laplace(b), truncated at ε ≥ 0 (0: not at all).

    For |y| ≥ ε, with a kink at y = ζ and the tilts ±1/ζb,

        p(z|y) = |y|/2bz² · e^{(y/ζ − 1)/b}  (y ≤ ζ) ,   |y|/2bz² · e^{−(y/ζ − 1)/b}  (y ≥ ζ).

    Cost: six erfcx.

    >>> import numpy as np
    >>> likelihood = InverseLaplaceLikelihood(1e-8, scale=0.5)
    >>> terms = likelihood(np.array([[2.0]]), np.array([[3.0]]))  # 3/4·e^{−1}, 1/3 − 1
    >>> round(float(np.exp(terms.value[0, 0] + 1)), 6), round(float(terms.slope[0, 0]), 6)
    (0.75, -0.666667)
    """

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
def _(channel: Inverse | TruncatedInverse, variance: ArrayLike) -> Likelihood:
    noise = channel.noise
    edge = channel.threshold if isinstance(channel, TruncatedInverse) else 0.0
    if isinstance(noise, Laplace):
        return InverseLaplaceLikelihood(variance, scale=noise.scale, truncation=edge)
    return InverseGaussianLikelihood(variance, sd=math.sqrt(noise.variance), truncation=edge)

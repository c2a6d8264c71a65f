"""One bit of a measurement: z = 1{y + d ≤ C}."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_number
from privest.errors import InvalidInput
from privest.estimator.likelihood._additive import gaussian_laplace
from privest.estimator.likelihood._quadrature import Smear, Table
from privest.estimator.likelihood._terms import (
    NUMPY,
    Backend,
    Likelihood,
    Terms,
    for_each_variance,
    likelihood_of,
)
from privest.mechanism import BinaryQuantiser
from privest.noise import Cauchy, Distribution, Gaussian, Laplace, Logistic

# ln G(x), its slope and −curvature, G the distribution function of w + d.
LogCdf = Callable[[Array, Backend], tuple[Array, Array, Array]]


class BinaryLikelihood(Likelihood):
    """ℓ(1, η) = ln G(C − η), ℓ(0, η) = ln(1 − G(C − η)); G the distribution function of w + d.

    Laplace d: G = Φ(x/σ) + b²f'(x), f = N(0, σ²) * Laplace(b). Where bits do not bound θ on both
    sides no estimate exists.
    """

    law: Distribution
    threshold: float

    anywhere = True

    def __init__(self, variance: ArrayLike, *, law: Distribution, threshold: float = 0.0) -> None:
        super().__init__(variance)
        self.law, self.threshold = law, as_number(threshold, "threshold")
        self.below: LogCdf = _log_cdf(law, self.variance)
        symmetric = isinstance(law, Laplace | Cauchy) or (
            isinstance(law, Gaussian) and law.mean == 0
        )
        self.above: LogCdf = self.below if symmetric else _log_cdf(-law, self.variance)
        # Log-concave laws have log-concave distribution functions, hence one maximum.
        one = isinstance(law, Gaussian | Laplace | Logistic)
        self.several_maxima: bool = not one  # type: ignore[misc] # a matter of the law

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        below = z > 0.5
        side = xp.where(below, 1.0, -1.0)
        x = side * (self.threshold - eta)
        value, slope, curvature = self.below(x, backend)
        if self.above is not self.below:
            others = self.above(x, backend)
            value, slope, curvature = (
                xp.where(below, a, b) for a, b in zip((value, slope, curvature), others)
            )
        weight = xp.ones_like(x) / xp.asarray(self.variance)
        return Terms(value, -side * slope, curvature, weight)

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        possible: Flags = (z == 0) | (z == 1)
        return possible

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        """The threshold, one σ to the side that the bit names."""
        xp = backend.xp
        away: Array = xp.where(z > 0.5, 1.0, -1.0) * xp.asarray(np.sqrt(self.variance))
        return self.threshold - away


def _log_cdf(law: Distribution, variance: Array) -> LogCdf:
    sd = np.sqrt(variance)
    if isinstance(law, Gaussian):
        return _gaussian(np.sqrt(variance + law.variance), law.mean)
    if isinstance(law, Laplace):
        return _laplace(sd, law.scale)
    if sd.ndim and not (sd == sd[0]).all():
        raise InvalidInput(
            f"a bit dithered with {type(law).__name__} noise needs one variance for all "
            "measurements: make one likelihood for each (Rowwise)."
        )
    support = (law.support[0], math.inf)
    points = (*law.landmarks, *law.jumps, *law.support)
    return Table(Smear(lambda x: np.log(law.cdf(x)), float(sd.flat[0]), support, points))


def _gaussian(sd: Array, loc: float) -> LogCdf:
    def log_cdf(x: Array, backend: Backend) -> tuple[Array, Array, Array]:
        xp = backend.xp
        unit = xp.asarray(sd)
        t = (x - loc) / unit
        value = backend.special.log_ndtr(t)
        hazard = xp.exp(-0.5 * t * t - value - 0.5 * math.log(2 * math.pi))
        return value, hazard / unit, hazard * (hazard + t) / (unit * unit)

    return log_cdf


def _laplace(sd: Array, scale: float) -> LogCdf:
    def log_cdf(x: Array, backend: Backend) -> tuple[Array, Array, Array]:
        xp, special = backend.xp, backend.special
        low = -xp.abs(x)
        unit = xp.asarray(sd)
        f = gaussian_laplace(low, unit, scale, backend)
        # Lower tail, all terms positive: G(−|x|) = Φ + b² f·(ln f)'.
        rise = xp.maximum(f.slope, 1e-300)
        tail = xp.logaddexp(
            special.log_ndtr(low / unit), f.log_density + 2 * math.log(scale) + xp.log(rise)
        )
        value = xp.where(x > 0, xp.log1p(-xp.exp(xp.maximum(tail, -700.0))), tail)
        hazard = xp.exp(xp.maximum(f.log_density - value, -700.0))
        slope = xp.where(x > 0, -f.slope, f.slope)
        return value, hazard, hazard * (hazard - slope)

    return log_cdf


@likelihood_of.register
def _(channel: BinaryQuantiser, variance: ArrayLike) -> Likelihood:
    def likelihood(own: ArrayLike) -> Likelihood:
        return BinaryLikelihood(own, law=channel.law, threshold=channel.threshold)

    closed = isinstance(channel.law, Gaussian | Laplace)
    return likelihood(variance) if closed else for_each_variance(likelihood, variance)

"""Additive noise z = y + d: Gaussian, Laplace, Cauchy in closed form, any other by a table.

Rounding after noise, z = Δ·round((y + d)/Δ), is among them: its chance depends on z − y alone.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from privest.arrays import EPS, Array, ArrayLike, Flags, as_positive
from privest.errors import InvalidInput
from privest.estimator.likelihood._quadrature import Function, Smear, Table
from privest.estimator.likelihood._terms import (
    NUMPY,
    Backend,
    Likelihood,
    Terms,
    for_each_variance,
    likelihood_of,
)
from privest.mechanism import Additive, LaplaceQuantiser, ProbabilisticQuantiser
from privest.noise import Cauchy, Distribution, Gaussian, Laplace

FAR = 7.0  # |z| from which the series is exact to rounding, and its terms
TERMS = 24
NODES = 13  # of the trapezoid rule: 2N + 2 of them


def profile(x: Array, y: Array, xp: Any = np) -> tuple[Array, Array, Array]:  # noqa: ANN401
    """K = Re w(x + iy), K_x/K, K_xx/K for finite x and y > 0, w Faddeeva's function."""
    z = x + 1j * y
    w = scipy.special.wofz(z) if xp is np else _faddeeva(x, y + xp.zeros_like(x), xp)
    first = -2.0 * z * w + 2j / math.sqrt(math.pi)
    parts = [w, first, -2.0 * w - 2.0 * z * first]
    far = xp.abs(z) > FAR
    if xp.any(far):
        for part, own in zip(parts, _series(z[far], xp)):
            part[far] = own
    K, slope, bend = (xp.real(part) for part in parts)
    return K, slope / K, bend / K


def _series(z: Array, xp: Any) -> tuple[Array, Array, Array]:  # noqa: ANN401
    """w, w', w'' by w ~ i/(√π z) Σ a_k z^{−2k}, a_k = (2k − 1)!!/2^k."""
    u = 1.0 / (z * z)
    value, slope, bend = (xp.zeros_like(z) for _ in range(3))
    for k in range(TERMS - 1, -1, -1):
        a = math.prod(range(1, 2 * k, 2)) / 2**k
        value = value * u + a
        slope = slope * u - (2 * k + 1) * a
        bend = bend * u + (2 * k + 1) * (2 * k + 2) * a
    scale = 1j / (math.sqrt(math.pi) * z)
    return scale * value, scale / z * slope, scale * u * bend


def _faddeeva(x: Array, y: Array, xp: Any) -> Array:  # noqa: ANN401
    """w(x + iy) for |x + iy| ≤ `FAR` by the trapezoid rule and its pole: CuPy has no `wofz`."""
    h = math.sqrt(math.pi / (NODES + 1))
    part = xp.abs(x) / h
    part = part - xp.floor(part)
    half = (part < 0.25) | (part > 0.75)
    real, other = xp.zeros_like(x), xp.zeros_like(x)
    for j in range(-NODES - 1, NODES + 1):
        node = xp.where(half, (j + 0.5) * h, j * h)
        d = x - node
        term = xp.exp(-node * node) / (d * d + y * y)
        real, other = real + term, other + term * d
    near = (y < math.pi / h) & (xp.abs(x) <= FAR)
    z = xp.where(near, x, 0.0) + 1j * xp.where(near, y, 1.0)
    E = xp.exp(2j * math.pi / h * z)
    pole = 2.0 * xp.exp(-z * z) * E / (E + xp.where(half, 1.0, -1.0))
    found: Array = (h / math.pi) * (y * real + 1j * other) + xp.where(near, pole, 0.0)
    return found


Points = Sequence[float]
Quantiser = ProbabilisticQuantiser | LaplaceQuantiser
# Steps from y within which a released value lies.
REACH = {"uniform": 1.0, "triangular": 1.5, None: math.inf}  # by dither; None: Laplace
NARROW = 2e-3  # steps: the table of narrower measurement noise takes seconds and more


class Parts(NamedTuple):
    """ln f, its slope and −curvature in the residual, f the density of w + d."""

    log_density: Array
    slope: Array
    curvature: Array


class GaussianLikelihood(Likelihood):
    """ℓ = −r²/2V − ½ ln 2πV,  r = z − μ − η,  V = σ² + v: weighted least squares."""

    noise: float
    shift: float

    anywhere = True

    def __init__(self, variance: ArrayLike, *, noise: float, shift: float = 0.0) -> None:
        super().__init__(variance)
        self.noise, self.shift = float(noise), float(shift)

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        total = xp.asarray(self.variance + self.noise)
        residual = z - self.shift - eta
        slope = residual / total
        value = -0.5 * residual * slope - 0.5 * xp.log(2 * math.pi * total)
        weight = xp.ones_like(residual) / total
        return Terms(value, slope, weight, weight)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return z - self.shift


class MixedGaussian(Likelihood):
    """ℓ = ln f(z − η) for a Gaussian of random variance: its weight is ℓ'/(z − η)."""

    anywhere = True

    def __init__(self, variance: ArrayLike, *, scale: float) -> None:
        super().__init__(variance)
        self.scale: float = as_positive(scale, "scale")
        self.sd: Array = np.sqrt(self.variance)

    @abstractmethod
    def parts(self, residual: Array, backend: Backend) -> Parts:
        """ln f and its derivatives."""

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        residual = z - eta
        found = self.parts(residual, backend)
        slope = -found.slope
        still = xp.abs(residual) < 1e-8 * xp.asarray(self.sd)
        weight = xp.where(still, found.curvature, slope / xp.where(still, 1.0, residual))
        return Terms(found.log_density, slope, found.curvature, weight)


def gaussian_laplace(r: Array, sd: Array, scale: float, backend: Backend = NUMPY) -> Parts:
    """ln f(r), (ln f)', −(ln f)'' for the sum of N(0, σ²) and Laplace(b).

    With t = |r|/σ, k = σ/b, a = (t − k)/√2, P = erfcx(−a), Q = erfcx((t + k)/√2),

        f = e^{−t²/2}/4b·(P + Q) ,   (ln f)' = −sign(r)(P − Q)/(P + Q)/b ,
        −(ln f)'' = 4/(b²(P + Q)²)·[(P + Q)/(√(2π)k) − PQ]      (f − b²f'' = N(r; 0, σ²)) .

    For a > 0, where erfcx(−a) = e^{a²}(2 − e^{−a²}erfcx(a)) overflows, P and Q are divided by
    e^{a²}.
    """
    xp, special = backend.xp, backend.special
    k = sd / scale
    t = xp.abs(r) / sd
    a = (t - k) * math.sqrt(0.5)
    beyond = a > 0
    # e^{-a²} without the underflow flag: below e^{-700} it is 0 for every purpose here.
    small = xp.where(beyond, xp.exp(-xp.minimum(a * a, 700.0)), 1.0)
    near = special.erfcx(xp.abs(a))
    P = xp.where(beyond, 2.0 - small * near, near)
    other = special.erfcx((t + k) * math.sqrt(0.5))
    both = P + small * other
    exponent = xp.where(beyond, (0.5 * k - t) * k, -0.5 * t * t)
    log_density = exponent + xp.log(both) - math.log(4 * scale)
    slope = -xp.sign(r) * (P - small * other) / (both * scale)
    bracket = both / (math.sqrt(2 * math.pi) * k) - P * other
    curvature = 4.0 * small * bracket / (both * scale) ** 2
    return Parts(log_density, slope, curvature)


class LaplaceLikelihood(MixedGaussian):
    """ℓ = ln f(z − η), f the density of N(0, σ²) + Laplace(b): log-concave."""

    def parts(self, residual: Array, backend: Backend) -> Parts:
        return gaussian_laplace(residual, backend.xp.asarray(self.sd), self.scale, backend)


def voigt(r: Array, sd: Array, scale: float, backend: Backend = NUMPY) -> Parts:
    """ln f(r), (ln f)', −(ln f)'' for N(0, σ²) + Cauchy(γ): f = Re w((r + iγ)/σ√2)/σ√(2π)."""
    xp = backend.xp
    unit = sd * math.sqrt(2.0)
    height, slope, bend = profile(r / unit, scale / unit, xp)
    log_density = xp.log(height) - xp.log(sd * math.sqrt(2 * math.pi))
    return Parts(log_density, slope / unit, (slope * slope - bend) / (unit * unit))


class VoigtLikelihood(MixedGaussian):
    """ℓ = ln f(z − η), f the density of N(0, σ²) + Cauchy(γ): several local maxima in θ."""

    several_maxima = True

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """A Cauchy density of about the width of the Voigt profile."""
        width = self.scale + 0.5 * backend.xp.asarray(self.sd)
        rough: Array = -backend.xp.log1p(((z - eta) / width) ** 2)
        return rough

    def parts(self, residual: Array, backend: Backend) -> Parts:
        return voigt(residual, backend.xp.asarray(self.sd), self.scale, backend)


class ConvolvedLikelihood(Likelihood):
    """ℓ(z, η) = ln f(z − η), f = density of d * N(0, σ²), from a table made once; one σ for all.

    `error`: of ℓ relative to 1 + |ℓ|, at points not used to make the table.
    """

    anywhere = True

    def __init__(self, law: Distribution, variance: float) -> None:
        super().__init__(as_positive(variance, "the variance of w"))
        points = (*law.landmarks, *law.jumps, *law.support)
        self._tabulate(law.logpdf, law.support, points)
        self.several_maxima: bool = not self.table.concave  # type: ignore[misc] # a matter of the law

    def _tabulate(self, log_kernel: Function, support: tuple[float, float], points: Points) -> None:
        self.table: Table = Table(Smear(log_kernel, float(self.variance) ** 0.5, support, points))
        self.error: float = self.table.error

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        value, slope, curvature = self.table(z - eta, backend)
        weight = backend.xp.full_like(value, 1 / float(self.variance))
        return Terms(value, -slope, curvature, weight)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return z - self.table.mode


class QuantiserLikelihood(ConvolvedLikelihood):
    """ℓ(jΔ, η) = ln ∫ p(jΔ|y)N(y; η, σ²) dy for rounding after noise; −∞ off the grid."""

    def __init__(self, channel: Quantiser, variance: float) -> None:
        Likelihood.__init__(self, as_positive(variance, "the variance of w"))
        self.step: float = channel.step
        if self.variance < (NARROW * self.step) ** 2:
            raise InvalidInput(
                f"the noise of the measurements has a standard deviation below {NARROW:g} steps of "
                "the quantiser: nearly all of them round alike. Take a smaller step."
            )
        reach = REACH[getattr(channel, "dither", None)] * self.step
        points = [part * self.step for part in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)]
        self._tabulate(lambda x: channel.log_density(0.0, x), (-reach, reach), points)

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        """Whether z is a multiple of the step, to 1e-9 of it or rounding."""
        xp = backend.xp
        part = z / self.step
        close: Flags = xp.abs(part - xp.round(part)) <= 1e-9 + 4 * EPS * xp.abs(part)
        return close

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        found = super().__call__(z, eta, backend)
        return found.where(self.possible(z + backend.xp.zeros_like(eta), backend), backend.xp)


@likelihood_of.register
def _(channel: ProbabilisticQuantiser | LaplaceQuantiser, variance: ArrayLike) -> Likelihood:
    return for_each_variance(lambda v: QuantiserLikelihood(channel, v), variance)


@likelihood_of.register
def _(channel: Additive, variance: ArrayLike) -> Likelihood:
    law = channel.law
    # A table takes 0.2 s for each variance; closed forms take any variances at once. Of Cauchy
    # noise the table is also 7 times slower, and 1% of searches do not converge.
    if isinstance(law, Gaussian):
        return GaussianLikelihood(variance, noise=law.variance, shift=law.mean)
    if isinstance(law, Laplace):
        return LaplaceLikelihood(variance, scale=law.scale)
    if isinstance(law, Cauchy):
        return VoigtLikelihood(variance, scale=law.scale)
    return for_each_variance(lambda v: ConvolvedLikelihood(law, v), variance)

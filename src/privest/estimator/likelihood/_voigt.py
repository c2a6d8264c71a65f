"""Gaussian * Cauchy, the Voigt profile: z = y + d, d ~ Cauchy(γ), through the Faddeeva function."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import AnyArray, Array, Flags, as_positive
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Namespace, Terms

# Beyond this |ζ| the asymptotic series; its last term there is below 1e-16.
FAR = 20.0
TERMS = 9


class VoigtParts(NamedTuple):
    """ln f, its slope and −curvature in the residual."""

    log_density: Array
    slope: Array
    curvature: Array


def voigt(r: Array, sd: Array, scale: float, backend: Backend = NUMPY) -> VoigtParts:
    """ln f(r), (ln f)', −(ln f)'' for the sum of N(0, σ²) and Cauchy(γ).

        f = Re w(ζ)/σ√(2π),   ζ = (r + iγ)/σ√2,   w' = −2ζw + 2i/√π,   w'' = −2w − 2ζw'

    **Trap:** in the tail Re w ~ Im ζ/√π|ζ|² is what is left of terms that cancel; f' loses |ζ|²
    and f'' |ζ|⁴ units of rounding (f'' is useless beyond |r| ≈ 500σ). For |ζ| > 20:

        w ~ i/(√π ζ) Σ_k c_k q^k,   q = 1/ζ²,   c_k = (2k − 1)!!/2^k,

    differentiated term by term. Relative error of f''/f below 1e-10 everywhere, of f below 1e-13.

    Cost: one Faddeeva function (the series where it is far).
    """
    xp, special = backend.xp, backend.special
    unit = sd * math.sqrt(2.0)
    zeta = (r + 1j * scale) / unit
    w = special.wofz(zeta)
    rise = -2.0 * zeta * w + 2j / math.sqrt(math.pi)
    f, f1, f2 = xp.real(w), xp.real(rise), xp.real(-2.0 * w - 2.0 * zeta * rise)
    far = xp.abs(zeta) > FAR
    if xp.any(far):
        f, f1, f2 = (_put(a, far, b, xp) for a, b in zip((f, f1, f2), _series(zeta[far], xp)))
    slope = f1 / f
    log_density = xp.log(f) - xp.log(xp.asarray(sd * math.sqrt(2 * math.pi)))
    return VoigtParts(log_density, slope / unit, (slope * slope - f2 / f) / (unit * unit))


def _put(array: Array, where: Flags, values: Array, xp: Namespace) -> Array:
    own: Array = xp.asarray(array, copy=True)
    own[where] = values
    return own


def _series(zeta: AnyArray, xp: Namespace) -> tuple[Array, Array, Array]:
    """Re w, Re w', Re w'' for large |ζ|: Re(i·x) = −Im x of sums without cancellation."""
    inverse = 1.0 / zeta
    q = inverse * inverse
    coefficients = [1.0]
    for k in range(1, TERMS + 1):
        coefficients.append(coefficients[-1] * (2 * k - 1) / 2)
    sums = []
    for order in range(3):  # d^order/dζ^order of ζ^−(2k+1)
        factors = [math.prod(-(2.0 * k + 1 + j) for j in range(order)) for k in range(TERMS + 1)]
        total = factors[TERMS] * coefficients[TERMS] * q
        for k in range(TERMS - 1, 0, -1):
            total = (total + factors[k] * coefficients[k]) * q
        sums.append(total + factors[0])
    root = math.sqrt(math.pi)
    powers = (inverse, q, q * inverse)
    w, w1, w2 = (-xp.imag(power * total) / root for power, total in zip(powers, sums))
    return w, w1, w2


class VoigtLikelihood(Likelihood):
    """ℓ(z, η) = ln f(z − η), f the density of N(0, σ²) + Cauchy(γ).

    Not log-concave: in θ there are several local maxima. A Cauchy variable is a Gaussian of
    random variance, hence the weight ℓ'/(z − η) (`terms.py`).

    >>> terms = VoigtLikelihood(1.0, scale=1.0)(np.array([[1e6]]), np.array([[0.0]]))
    >>> round(float(terms.slope[0, 0]) * 1e6, 9), round(float(terms.curvature[0, 0]) * 1e12, 9)
    (2.0, -2.0)
    """

    several_maxima = True

    def __init__(self, variance: ArrayLike, *, scale: float) -> None:
        super().__init__(variance)
        self.scale = as_positive(scale, "scale")
        self.sd = np.sqrt(self.variance)

    def rough(self, z: Array, eta: Array) -> Array:
        """A Cauchy law of about the width of the Voigt profile."""
        return -np.log1p(((z - eta) / (self.scale + 0.5 * self.sd)) ** 2)

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        residual = z - eta
        found = voigt(residual, xp.asarray(self.sd), self.scale, backend)
        slope = -found.slope
        still = xp.abs(residual) < 1e-8 * xp.asarray(self.sd)
        weight = xp.where(still, found.curvature, slope / xp.where(still, 1.0, residual))
        return Terms(found.log_density, slope, found.curvature, weight)

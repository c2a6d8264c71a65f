"""Multiplicative noise z = u/g, g ~ N(1, τ²), with stochastic truncation (`remark:truncation`).

The mechanism: a reading |y| < ε becomes u = ±ε with probabilities (ε ± y)/2ε, any other u = y;
then z = u/g. The density of z given u is |u|/z²·N(u/z; 1, τ²) = |u|/|z|·N(u; z, τ²z²), so

    p(z|y) = |y|/|z| · N(y; z, τ²z²)                          |y| ≥ ε
           = [(ε + y) p(z|ε) + (ε − y) p(z|−ε)]/2ε            |y| < ε,

continuous in y. Against N(y; η, σ²), outside the product of two Gaussians is one Gaussian,

    N(y; z, τ²z²) N(y; η, σ²) = N(z; η, v) N(y; μ, s²),
    v = σ² + τ²z²,   μ = (σ²z + τ²z²η)/v,   s² = σ²τ²z²/v,

and with x = (y − μ)/s the piece y > ε is the sum of partial moments of N(0, 1) beyond (ε − μ)/s,
the piece y < −ε that of the mirrored problem (μ → −μ); inside, a linear function of y against
N(y; η, σ²) between −ε and ε. Multiplied by (y − η)^k, k = 0, 1, 2, each piece gives the mass,
mean and variance of y given z: partial moments up to the third, in erfcx and exponentials
(`partial.py`), every piece with its own scale, added as exponents.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_number, as_positive
from privest.errors import InvalidInput
from privest.estimator.likelihood.partial import between, tail
from privest.estimator.likelihood.terms import NUMPY, Backend, Likelihood, Terms


class Piece(NamedTuple):
    """∫ p(z|y) (y − η)^k N(y; η, σ²) dy = e^L m_k over a part of the line, k = 0, 1, 2."""

    log_scale: Array
    moments: tuple[Array, Array, Array]


class InverseGaussianLikelihood(Likelihood):
    """ℓ(z, η) for z = u/g, g ~ N(1, τ²), truncated at ε ≥ 0 (0: not at all).

    The posterior of y has up to three humps, and Σℓ several maxima. Numerics: ℓ and ℓ' to 1e-10
    (of 1 + |ℓ|, of 1/σ) up to 10³σ from the data, for ε = 0 or ε ≥ 1e-4 σ.
    Cost: four erfcx.

    >>> likelihood = InverseGaussianLikelihood(0.04, sd=1.5, truncation=2.0)
    >>> terms = likelihood(np.array([[3.0]]), np.array([[0.5]]))
    >>> round(float(terms.value[0, 0]), 6), round(float(terms.slope[0, 0]), 6)
    (-3.036693, 0.134293)
    """

    several_maxima = True

    def __init__(self, variance: ArrayLike, *, sd: float, truncation: float = 0.0) -> None:
        super().__init__(variance)
        self.sd = as_positive(sd, "sd")
        self.truncation = as_number(truncation, "truncation")
        if self.truncation < 0:
            raise InvalidInput(f"truncation must be ≥ 0; received {self.truncation:g}.")

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        variance = xp.asarray(self.variance)
        pieces = self._outside(z, eta, variance, backend)
        if self.truncation > 0:
            pieces.append(self._inside(z, eta, variance, backend))
        top = pieces[0].log_scale
        for piece in pieces[1:]:
            top = xp.maximum(top, piece.log_scale)
        m0, m1, m2 = (xp.zeros_like(top) for _ in range(3))
        for piece in pieces:
            scale = xp.exp(xp.maximum(piece.log_scale - top, -700.0))
            m0 = m0 + scale * piece.moments[0]
            m1 = m1 + scale * piece.moments[1]
            m2 = m2 + scale * piece.moments[2]
        mean = m1 / m0
        spread = m2 / m0 - mean * mean
        weight = xp.ones_like(top) / variance
        return Terms(top + xp.log(m0), mean * weight, weight - spread * weight * weight, weight)

    def _outside(self, z: Array, eta: Array, variance: Array, backend: Backend) -> list[Piece]:
        """|y| > ε: the right piece, and the left one as the right one of the mirrored problem."""
        xp = backend.xp
        size = xp.abs(z)
        own = (self.sd * size) ** 2
        total = variance + own
        mu = (variance * z + own * eta) / total
        s = xp.sqrt(variance * own / total)
        common = -0.5 * (z - eta) ** 2 / total - 0.5 * xp.log(2 * math.pi * total) - xp.log(size)
        pieces = []
        for side in (1.0, -1.0):
            beyond = tail((self.truncation - side * mu) / s, backend)
            t0, t1, t2, t3 = beyond.moments
            # side·y = base + s·t with t = x − x₀ ≥ −x₀, and y − η = away + side·s·t.
            base = side * mu + s * beyond.start
            away = side * base - eta
            step = side * s
            first = base * t0 + s * t1  # ∫ |y|
            second = base * t1 + s * t2  # ∫ |y| t
            third = base * t2 + s * t3  # ∫ |y| t²
            moments = (
                first,
                away * first + step * second,
                away * away * first + 2.0 * away * step * second + step * step * third,
            )
            pieces.append(Piece(common + beyond.log_scale, moments))
        return pieces

    def _inside(self, z: Array, eta: Array, variance: Array, backend: Backend) -> Piece:
        """|y| < ε, mirrored so that η ≤ 0: the larger part of N(·; η, σ²) is then at −ε."""
        xp, edge = backend.xp, self.truncation
        sd = xp.sqrt(variance)
        mirror = xp.where(eta > 0, -1.0, 1.0)
        size = xp.abs(eta)
        alpha, beta = (size - edge) / sd, (size + edge) / sd
        near, far = tail(alpha, backend), tail(beta, backend)
        t0, t1, t2, t3 = between(near, far, backend)
        # ln p(z|u), u = the edges +ε and −ε of the mirrored line.
        plus = -0.5 * ((mirror * edge / z - 1.0) / self.sd) ** 2
        minus = -0.5 * ((-mirror * edge / z - 1.0) / self.sd) ** 2
        top = xp.maximum(plus, minus)
        high, low = (xp.exp(xp.maximum(p - top, -700.0)) for p in (plus, minus))
        # x = x₀ + t:  ε + y = σ(t + x₀ − α),  ε − y = σ(β − x₀ − t);  weight = a + c·t.
        a = high * (near.start - alpha) + low * (beta - near.start)
        c = high - low
        first, second, third = a * t0 + c * t1, a * t1 + c * t2, a * t2 + c * t3
        # (σ/2ε)·p(z|·) = (σ/2ε)·ε/z²·N(·; 1, τ²): ε cancels.
        log_scale = top + near.log_scale - 2.0 * xp.log(xp.abs(z))
        log_scale = log_scale + xp.log(sd) - math.log(2.0 * self.sd * math.sqrt(2 * math.pi))
        start = near.start
        moments = (
            first,
            mirror * sd * (start * first + second),
            variance * (start * start * first + 2.0 * start * second + third),
        )
        return Piece(log_scale, moments)

    def rough(self, z: Array, eta: Array) -> Array:
        """Ln p(z|y) at y = η: as if σ = 0."""
        size = np.maximum(np.abs(eta), self.truncation)
        ratio = size / np.abs(z)
        same = np.where((eta > 0) == (z > 0), 1.0, -1.0)
        own = -0.5 * ((same * ratio - 1.0) / self.sd) ** 2
        other = -0.5 * ((same * ratio + 1.0) / self.sd) ** 2
        share = np.minimum(0.5 * (1.0 + np.abs(eta) / size), 1.0)  # of u = the edge next to η
        mixed = share + (1.0 - share) * np.exp(np.clip(other - own, -700.0, 700.0))
        return np.log(size) + own + np.log(mixed)

    def centre(self, z: Array) -> Array:
        """The maximum of p(z|·): z(1 + √(1 + 4τ²))/2, or the edge of the truncation."""
        best = np.abs(z) * (1 + math.sqrt(1 + 4 * self.sd**2)) / 2
        return np.where(z < 0, -1.0, 1.0) * np.maximum(best, self.truncation)

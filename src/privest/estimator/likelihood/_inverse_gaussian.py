"""Multiplicative noise z = u/g, g ~ N(1, τ²), truncated or not."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_positive
from privest.estimator.likelihood._inverse import InverseLikelihood
from privest.estimator.likelihood._pieces import Spot, above, below
from privest.estimator.likelihood._terms import Backend


class InverseGaussianLikelihood(InverseLikelihood):
    """ℓ(z, η) for z = u/g, g ~ N(1, τ²), truncated at ε ≥ 0 (0: not at all; `inverse.py`).

    For |y| ≥ ε the product of two Gaussians in y is one Gaussian,

        N(y; z, τ²z²) N(y; η, σ²) = N(z; η, v) N(y; μ, s²),
        v = σ² + τ²z²,   μ = (σ²z + τ²z²η)/v,   s² = σ²τ²z²/v.

    Numerics: ℓ to 1e-12 of 1 + |ℓ|, ℓ' to 1e-11/σ, ℓ'' to 1e-10/σ², at any distance.
    Cost: four erfcx.

    >>> likelihood = InverseGaussianLikelihood(0.04, sd=1.5, truncation=2.0)
    >>> terms = likelihood(np.array([[3.0]]), np.array([[0.5]]))
    >>> round(float(terms.value[0, 0]), 6), round(float(terms.slope[0, 0]), 6)
    (-3.036693, 0.134293)
    """

    def __init__(self, variance: ArrayLike, *, sd: float, truncation: float = 0.0) -> None:
        super().__init__(variance, truncation)
        self.sd = as_positive(sd, "sd")
        self.log_constant = -math.log(self.sd * math.sqrt(2.0 * math.pi))

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

    def centre(self, z: Array) -> Array:
        """The maximum of p(z|·): z(1 + √(1 + 4τ²))/2, or the edge of the truncation."""
        best = np.abs(z) * (1 + math.sqrt(1 + 4 * self.sd**2)) / 2
        return np.where(z < 0, -1.0, 1.0) * np.maximum(best, self.truncation)

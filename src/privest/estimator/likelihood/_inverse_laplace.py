"""Multiplicative noise z = u/g, g = 1 + Laplace(b), truncated or not."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_positive
from privest.estimator.likelihood._inverse import InverseLikelihood
from privest.estimator.likelihood._pieces import Spot, above, below, between
from privest.estimator.likelihood._terms import Backend


class InverseLaplaceLikelihood(InverseLikelihood):
    """ℓ(z, η) for z = u/g, g = 1 + Laplace(b), truncated at ε ≥ 0 (0: not at all; `inverse.py`).

    For |y| ≥ ε, with a kink at y = ζ and the tilts ±1/ζb,

        p(z|y) = |y|/2bz² · e^{(y/ζ − 1)/b}  (y ≤ ζ) ,   |y|/2bz² · e^{−(y/ζ − 1)/b}  (y ≥ ζ).

    Numerics: ℓ to 1e-12 of 1 + |ℓ|, ℓ' to 1e-11/σ, ℓ'' to 1e-10/σ², at any distance.
    Cost: six erfcx.

    >>> likelihood = InverseLaplaceLikelihood(1e-8, scale=0.5)
    >>> terms = likelihood(np.array([[2.0]]), np.array([[3.0]]))  # 3/4·e^{−1}, 1/3 − 1
    >>> round(float(np.exp(terms.value[0, 0] + 1)), 6), round(float(terms.slope[0, 0]), 6)
    (0.75, -0.666667)
    """

    def __init__(self, variance: ArrayLike, *, scale: float, truncation: float = 0.0) -> None:
        super().__init__(variance, truncation)
        self.scale = as_positive(scale, "scale")
        self.log_constant = -math.log(2.0 * self.scale)

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

    def centre(self, z: Array) -> Array:
        """The maximum of p(z|·): z, or bz if b > 1, or the edge of the truncation."""
        best = np.abs(z) * max(1.0, self.scale)
        return np.where(z < 0, -1.0, 1.0) * np.maximum(best, self.truncation)

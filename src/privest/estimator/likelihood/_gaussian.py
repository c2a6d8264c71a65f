"""Gaussian releases: z = y + d, d ~ N(μ, v). The likelihood is quadratic, the estimate linear."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from privest.arrays import Array
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms


class GaussianLikelihood(Likelihood):
    """ℓ = −r²/2V − ½ ln 2πV,  r = z − μ − η,  V = σ² + v.

    Maximum likelihood is weighted least squares with weights 1/V: one Newton step.

    >>> import numpy as np
    >>> terms = GaussianLikelihood(0.5, noise=1.5)(np.array([[2.0]]), np.array([[1.0]]))
    >>> float(terms.slope[0, 0]), float(terms.curvature[0, 0])
    (0.5, 0.5)
    """

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

    def centre(self, z: Array) -> Array:
        return z - self.shift

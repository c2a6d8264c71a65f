"""Readings with a known offset: ℓ(z, η + b)."""

from __future__ import annotations

from privest.arrays import Array, Flags, Index
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms


class Shifted(Likelihood):
    """ℓ(z, η + b) for another likelihood ℓ and an offset b, a number or one for each reading.

    >>> import numpy as np
    >>> from privest.estimator.likelihood._gaussian import GaussianLikelihood
    >>> plain = GaussianLikelihood(1.0, noise=1.0)
    >>> Shifted(plain, np.array([0.0, 1.0]))(np.ones((1, 2)), np.zeros((1, 2))).slope
    array([[0.5, 0. ]])
    """

    def __init__(self, likelihood: Likelihood, offset: Array) -> None:
        super().__init__(likelihood.variance)
        self.likelihood, self.offset = likelihood, offset
        self.several_maxima = likelihood.several_maxima  # type: ignore[misc] # that of the other
        self.fits = likelihood.fits  # type: ignore[misc]

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        return self.likelihood(z, eta + backend.xp.asarray(self.offset), backend)

    def value(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        return self.likelihood.value(z, eta + backend.xp.asarray(self.offset), backend)

    def possible(self, z: Array) -> Flags:
        return self.likelihood.possible(z)

    def rough(self, z: Array, eta: Array) -> Array:
        return self.likelihood.rough(z, eta + self.offset)

    def hump(self, z: Array, eta: Array) -> Index | None:
        return self.likelihood.hump(z, eta + self.offset)

    def centre(self, z: Array) -> Array:
        return self.likelihood.centre(z) - self.offset

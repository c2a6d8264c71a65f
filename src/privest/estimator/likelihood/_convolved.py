"""Any additive noise: z = y + d with a law of `privest.noise`, convolved with w by numbers."""

from __future__ import annotations

from privest.arrays import Array, as_positive
from privest.estimator.likelihood._smear import Smear
from privest.estimator.likelihood._table import Table
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms
from privest.noise import ScalarLaw


class ConvolvedLikelihood(Likelihood):
    """ℓ(z, η) = ln f(z − η), f = law of d * N(0, σ²), from a table made once (`table.py`).

    `error` is the error of ℓ relative to 1 + |ℓ| in the table, found at points not used to make
    it. One σ for all readings. Not concave: several maxima are possible in θ.

    >>> import numpy as np
    >>> from privest.noise import Uniform
    >>> likelihood = ConvolvedLikelihood(Uniform(1.0), 0.04)
    >>> terms = likelihood(np.array([[0.0, 1.0]]), np.zeros((1, 2)))
    >>> np.round(np.exp(terms.value), 5), likelihood.error < 1e-12  # Φ(5) − ½, ½(Φ(10) − Φ(0))
    (array([[0.5 , 0.25]]), True)
    """

    def __init__(self, law: ScalarLaw, variance: float) -> None:
        super().__init__(as_positive(variance, "the variance of w"))
        self.law = law
        points = (*law.landmarks, *law.jumps, *law.kinks, *law.support)
        self.table = Table(Smear(law.logpdf, float(self.variance) ** 0.5, law.support, points))
        self.error = self.table.error
        self.several_maxima = not self.table.concave  # type: ignore[misc] # a matter of the law

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        value, slope, curvature = self.table(z - eta, backend)
        weight = backend.xp.full_like(value, 1 / float(self.variance))
        return Terms(value, -slope, curvature, weight)

    def centre(self, z: Array) -> Array:
        return z - self.table.mode

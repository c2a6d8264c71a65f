"""Random gains z = Du, D of any law, with or without stochastic truncation: by panels in y."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index
from privest.estimator.likelihood._quadrature import QuadratureLikelihood
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, likelihood_of
from privest.mechanism import Gain, TruncatedGain

# p(z|y) = f(z/y)/|y| is as wide in ln|y| as f in ln|D|: panels of octaves around |z| resolve it.
OCTAVES = 2.0 ** np.arange(-4, 5)
# From there to σ it falls like 1/|y|: panels that grow by one factor, 4 if σ is 10⁶ times as far.
STEPS = np.arange(1, 11) / 10
SPREAD = (1e-10, 1e-4, 0.02, 0.25, 0.75, 0.98, 1 - 1e-4, 1 - 1e-10)  # of a narrow gain
LEAST = 1e-140  # |y| and |z| below it count as this
NEAR = 64.0  # so many ε from σ the panels around the largest integrand do that already


class GainLikelihood(QuadratureLikelihood):
    """ℓ(z, η) for z = Dy: 320 values of the law's density a release, and 10 for every break.

    Breaks are y = 0, ±ε, ±2^k|z| for k = −4 … 4, z/d for special points and quantiles d of the law,
    and steps from ε or |z| to σ where that is far. z = 0 is not `possible` unless y is truncated:
    p(0|y) = f(0)/|y| has no integral.
    """

    def __init__(self, channel: Gain | TruncatedGain, variance: ArrayLike) -> None:
        self.edge = channel.threshold if isinstance(channel, TruncatedGain) else 0.0
        law = channel.law
        self.bounded = bool(np.isfinite(law.support).any())
        special = {*law.landmarks, *law.kinks, *law.jumps, *law.support, *law.quantile(SPREAD)}
        self.inverses = np.array([1.0 / d for d in special if d != 0])
        super().__init__(channel, variance, self._places)
        self.deviation = float(np.sqrt(self.variance.max()))
        self.fits = 30 if self.edge > 0 else 15  # type: ignore[misc] # as for 1/g

    def _places(self, z: Array) -> Array:
        size = np.abs(z) * OCTAVES
        ends = np.broadcast_to([-self.edge, 0.0, self.edge], (len(z), 3))
        near = [-size, size, z * self.inverses, ends]
        if self.deviation <= NEAR * self.edge:
            return np.concatenate(near, axis=1)
        start = np.maximum(np.maximum(np.abs(z), self.edge), LEAST)
        far = start * np.maximum(self.deviation / start, 1.0) ** STEPS
        return np.concatenate([*near, -far, far], axis=1)

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        return np.asarray((z != 0) | (self.edge > 0))

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """Ln p(z|y) at y = η, as if σ = 0; ℓ itself for a bounded gain, where that is often −∞."""
        if self.bounded:
            return self.value(z, eta)
        least = np.where(eta < 0, -LEAST, LEAST)
        with np.errstate(over="ignore"):
            return self.channel.log_density(z, np.where(np.abs(eta) < LEAST, least, eta))

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index:
        """One on each side of 0."""
        return np.asarray(eta > 0, dtype=np.intp)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return np.where(z < 0, -1.0, 1.0) * np.maximum(np.abs(z), self.edge)


@likelihood_of.register
def _(channel: Gain | TruncatedGain, variance: ArrayLike) -> Likelihood:
    return GainLikelihood(channel, variance)

"""The logistic law: smooth, with the exponential tails of Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class Logistic(CentredLaw):
    """The logistic law; s = scale, z = x/s.

        f(x) = e^{−z}/(s(1 + e^{−z})²),   l' = −tanh(z/2)/s,   l'' = −2e^{−|z|}/(s(1 + e^{−|z|}))²
        variance = π²s²/3,   I = 1/3s²,   E l''² = 2/15s⁴

    (With p = F(X) uniform on (0, 1): l' = (1 − 2p)/s and l'' = −2p(1 − p)/s².)

    >>> law = Logistic()
    >>> round(law.variance, 6), round(law.fisher_information, 6)
    (3.289868, 0.333333)
    >>> round(law.expected_squared_curvature, 6)
    0.133333
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_positive(self.scale, "scale"))

    def _standard(self, x: ArrayLike) -> Array:
        return as_array(x, "x") / self.scale

    def logpdf(self, x: ArrayLike) -> Array:
        """−|z| − 2 ln(1 + e^{−|z|}) − ln s (even in z, so no exponential overflows)."""
        size = np.abs(self._standard(x))
        return np.asarray(-size - 2 * np.log1p(np.exp(-size)) - math.log(self.scale))

    def score(self, x: ArrayLike) -> Array:
        """−tanh(z/2)/s."""
        return -np.tanh(self._standard(x) / 2) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        """−2e^{−|z|}/(s(1 + e^{−|z|}))²."""
        decay = np.exp(-np.abs(self._standard(x)))
        return -2 * decay / (self.scale * (1 + decay)) ** 2

    def cdf(self, x: ArrayLike) -> Array:
        """1/(1 + e^{−z})."""
        return scipy.special.expit(self._standard(x))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values."""
        return as_generator(rng).logistic(0.0, self.scale, size)

    @property
    def variance(self) -> float:
        """π²s²/3."""
        return (math.pi * self.scale) ** 2 / 3

    @property
    def fisher_information(self) -> float:
        """1/3s²."""
        return 1 / (3 * self.scale**2)

    @property
    def expected_squared_curvature(self) -> float:
        """2/15s⁴."""
        return 2 / (15 * self.scale**4)

    def _scaled_in_family(self, c: float) -> Logistic:
        return Logistic(abs(c) * self.scale)

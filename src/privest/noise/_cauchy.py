"""The Cauchy law: tails so heavy that there is no mean, yet finite Fisher information."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class Cauchy(CentredLaw):
    """The Cauchy law; γ = scale, z = x/γ.

        f(x) = 1/(πγ(1 + z²)),   l' = −2z/(γ(1 + z²)),   l'' = −2(1 − z²)/(γ²(1 + z²)²)
        I = 1/2γ²,   E l''² = 7/8γ⁴,   no mean, no variance (NaN)

    With u = 1/(1 + z²) ~ Beta(½, ½), of moments 3/8, 5/16, 35/128: l'' = −2u(2u − 1)/γ², so
    E l''² = 4(4·35/128 − 4·5/16 + 3/8)/γ⁴.

    >>> law = Cauchy(scale=2.0)
    >>> law.fisher_information, law.expected_squared_curvature, law.mean
    (0.125, 0.0546875, nan)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_positive(self.scale, "scale"))

    def _standard(self, x: ArrayLike) -> Array:
        return as_array(x, "x") / self.scale

    def logpdf(self, x: ArrayLike) -> Array:
        """−ln(1 + z²) − ln πγ."""
        return -np.log1p(self._standard(x) ** 2) - math.log(math.pi * self.scale)

    def score(self, x: ArrayLike) -> Array:
        """−2z/(γ(1 + z²))."""
        z = self._standard(x)
        return -2 * z / (1 + z**2) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        """−2u(2u − 1)/γ², u = 1/(1 + z²)."""
        u = 1 / (1 + self._standard(x) ** 2)
        return -2 * u * (2 * u - 1) / self.scale**2

    def cdf(self, x: ArrayLike) -> Array:
        """½ + arctan(z)/π, written so that the left tail keeps its digits."""
        return np.arctan2(1.0, -self._standard(x)) / math.pi

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values."""
        return self.scale * as_generator(rng).standard_cauchy(size)

    @property
    def mean(self) -> float:
        """NaN: the integral of x·f does not exist."""
        return math.nan

    @property
    def variance(self) -> float:
        """NaN: there is no mean to vary about."""
        return math.nan

    @property
    def fisher_information(self) -> float:
        """1/2γ²."""
        return 1 / (2 * self.scale**2)

    @property
    def expected_squared_curvature(self) -> float:
        """7/8γ⁴."""
        return 7 / (8 * self.scale**4)

    def _scaled_in_family(self, c: float) -> Cauchy:
        return Cauchy(abs(c) * self.scale)

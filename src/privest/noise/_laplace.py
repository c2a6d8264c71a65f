"""The Laplace law: pure differential privacy, and a kink that breaks the curvature formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class Laplace(CentredLaw):
    """The two-sided exponential law; b = scale.

        f(x) = e^{−|x|/b}/2b,   l' = −sign(x)/b,   l'' = 0 for x ≠ 0
        variance = 2b²,   I = 1/b²,   E l''² = ∞ (the score jumps at 0)

    At the kink x = 0 the score is 0, the mean of both sides.

    >>> law = Laplace(scale=0.5)
    >>> law.variance, law.fisher_information, law.expected_squared_curvature
    (0.5, 4.0, inf)
    >>> law.score([-1.0, 0.0, 1.0])
    array([ 2.,  0., -2.])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_positive(self.scale, "scale"))

    def logpdf(self, x: ArrayLike) -> Array:
        """−|x|/b − ln 2b."""
        return -np.abs(as_array(x, "x")) / self.scale - math.log(2 * self.scale)

    def score(self, x: ArrayLike) -> Array:
        """−sign(x)/b."""
        # 0.0 − … rather than −…: the score at 0 is 0, not −0.
        return 0.0 - np.sign(as_array(x, "x")) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        """0 (see `expected_squared_curvature` before using it)."""
        return np.zeros(as_array(x, "x").shape)

    def cdf(self, x: ArrayLike) -> Array:
        """e^{x/b}/2 left of 0, 1 − e^{−x/b}/2 right of it."""
        x = as_array(x, "x")
        tail = np.exp(-np.abs(x) / self.scale) / 2
        return np.where(x < 0, tail, 1 - tail)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values."""
        return as_generator(rng).laplace(0.0, self.scale, size)

    @property
    def kinks(self) -> tuple[float, ...]:
        """The score jumps at 0, from 1/b to −1/b."""
        return (0.0,)

    @property
    def variance(self) -> float:
        """2b²."""
        return 2 * self.scale**2

    @property
    def fisher_information(self) -> float:
        """1/b²."""
        return 1 / self.scale**2

    @property
    def expected_squared_curvature(self) -> float:
        """∞: the limit over smoothed scores; the pointwise l'' = 0 misses the kink."""
        return math.inf

    def _scaled_in_family(self, c: float) -> Laplace:
        return Laplace(abs(c) * self.scale)

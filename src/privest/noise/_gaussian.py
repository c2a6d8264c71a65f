"""The Gaussian law N(loc, variance): the law of least Fisher information for its variance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_number, as_positive
from privest.noise._affine import as_scale
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class GaussianLaw(CentredLaw):
    """The Gaussian law of one number; v = variance.

        f(x) = e^{−(x − loc)²/2v} / √(2πv),   l' = −(x − loc)/v,   l'' = −1/v
        I = 1/v,   E l''² = 1/v²

    I·variance = 1: the Cramér-Rao inequality I·variance ≥ 1 holds with equality for no other law.

    >>> law = GaussianLaw(variance=4.0)
    >>> law.fisher_information, law.expected_squared_curvature, float(law.score(2.0))
    (0.25, 0.0625, -0.5)
    >>> 1 + law / 2
    GaussianLaw(variance=1.0, loc=1.0)
    """

    variance: float = 1.0
    loc: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", as_positive(self.variance, "variance"))
        object.__setattr__(self, "loc", as_number(self.loc, "loc"))

    def _standard(self, x: ArrayLike) -> Array:
        return (as_array(x, "x") - self.loc) / math.sqrt(self.variance)

    def logpdf(self, x: ArrayLike) -> Array:
        """−(x − loc)²/2v − ½ ln 2πv."""
        return -0.5 * self._standard(x) ** 2 - 0.5 * math.log(2 * math.pi * self.variance)

    def score(self, x: ArrayLike) -> Array:
        """−(x − loc)/v."""
        return (self.loc - as_array(x, "x")) / self.variance

    def curvature(self, x: ArrayLike) -> Array:
        """−1/v."""
        return np.full(as_array(x, "x").shape, -1 / self.variance)

    def cdf(self, x: ArrayLike) -> Array:
        """Φ((x − loc)/√v)."""
        return scipy.special.ndtr(self._standard(x))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values."""
        return as_generator(rng).normal(self.loc, math.sqrt(self.variance), size)

    @property
    def landmarks(self) -> tuple[float, ...]:
        """The mode."""
        return (self.loc,)

    @property
    def mean(self) -> float:
        """The location."""
        return self.loc

    @property
    def fisher_information(self) -> float:
        """1/v."""
        return 1 / self.variance

    @property
    def expected_squared_curvature(self) -> float:
        """1/v²."""
        return 1 / self.variance**2

    def shifted(self, c: float) -> GaussianLaw:
        """N(loc + c, v)."""
        return replace(self, loc=self.loc + as_number(c, "The shift"))

    def _scaled_in_family(self, c: float) -> GaussianLaw:
        c = as_scale(c)
        return GaussianLaw(self.variance * c**2, self.loc * c)

    def _stretched(self, factor: float) -> GaussianLaw:
        return replace(self, variance=self.variance * factor**2)

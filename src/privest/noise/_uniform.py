"""The uniform law: its density jumps, so it hides nothing in the sense of Fisher."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class Uniform(CentredLaw):
    """The uniform law on [−a, a]; a = half_width.

        f(x) = 1/2a,   l' = l'' = 0 inside,   variance = a²/3,   I = ∞,   E l''² = ∞

    **Trap:** the integral of f·l'² is 0, but the density jumps at ±a, and n samples show an edge to
    within 1/n, not 1/√n: the Fisher information (the limit of smoothed edges) is infinite.

    >>> law = Uniform(half_width=2.0)
    >>> float(law.pdf(2.0)), law.fisher_information, law.jumps
    (0.25, inf, (-2.0, 2.0))
    """

    half_width: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", as_positive(self.half_width, "half_width"))

    def _where(self, x: ArrayLike, inside: float, outside: float) -> Array:
        return np.where(np.abs(as_array(x, "x")) <= self.half_width, inside, outside)

    def pdf(self, x: ArrayLike) -> Array:
        """1/2a on [−a, a], ends included."""
        return self._where(x, 0.5 / self.half_width, 0.0)

    def logpdf(self, x: ArrayLike) -> Array:
        """−ln 2a on [−a, a]."""
        return self._where(x, -math.log(2 * self.half_width), -math.inf)

    def score(self, x: ArrayLike) -> Array:
        """0 (see `fisher_information` before using it)."""
        return self._where(x, 0.0, math.nan)

    def curvature(self, x: ArrayLike) -> Array:
        """0."""
        return self._where(x, 0.0, math.nan)

    def cdf(self, x: ArrayLike) -> Array:
        """(x + a)/2a."""
        return np.asarray((np.clip(as_array(x, "x") / self.half_width, -1, 1) + 1) / 2)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values."""
        return as_generator(rng).uniform(-self.half_width, self.half_width, size)

    @property
    def support(self) -> tuple[float, float]:
        """[−a, a]."""
        return (-self.half_width, self.half_width)

    @property
    def jumps(self) -> tuple[float, ...]:
        """Both ends."""
        return self.support

    @property
    def variance(self) -> float:
        """a²/3."""
        return self.half_width**2 / 3

    @property
    def fisher_information(self) -> float:
        """∞: the density jumps."""
        return math.inf

    @property
    def expected_squared_curvature(self) -> float:
        """∞: the density jumps."""
        return math.inf

    def _scaled_in_family(self, c: float) -> Uniform:
        return Uniform(abs(c) * self.half_width)

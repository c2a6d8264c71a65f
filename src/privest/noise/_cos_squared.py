"""cos² noise (`mech:trigonometry`): the bounded law of least Fisher information."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privest.arrays import Array, as_array, as_positive
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class CosSquared(CentredLaw):
    """The law with density cos² on [−a, a]; a = half_width.

        f(x) = cos²(πx/2a)/a,   l' = −(π/a) tan(πx/2a),   l'' = −(π²/2a²)/cos²(πx/2a)
        variance = a²(1/3 − 2/π²),   I = π²/a²,   E l''² = ∞

    Of all laws on [−a, a] it has the least information: √f is the ground state of a particle in
    a box. f·l''² grows like 1/distance² towards ±a, so E l''² diverges though the density and
    its slope are continuous. Bounded noise gives no finite ε.

    >>> law = CosSquared(half_width=2.0)
    >>> float(law.pdf(0.0)), float(law.pdf(2.0)), float(law.cdf(0.0))
    (0.5, 0.0, 0.5)
    >>> round(law.fisher_information, 6), round(law.variance, 6)  # π²/4, 4(1/3 − 2/π²)
    (2.467401, 0.522764)
    """

    half_width: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", as_positive(self.half_width, "half_width"))

    def _angle(self, x: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
        """x, the angle π(a − |x|)/2a (measured from the end, where digits count), x inside?"""
        x = as_array(x, "x")
        inside = np.abs(x) < self.half_width
        gap = np.where(inside, self.half_width - np.abs(x), self.half_width)
        return x, math.pi / 2 * (gap / self.half_width), inside

    def pdf(self, x: ArrayLike) -> Array:
        """cos²(πx/2a)/a."""
        _, angle, inside = self._angle(x)
        return np.where(inside, np.sin(angle) ** 2 / self.half_width, 0.0)

    def logpdf(self, x: ArrayLike) -> Array:
        """2 ln cos(πx/2a) − ln a."""
        _, angle, inside = self._angle(x)
        return np.where(inside, 2 * np.log(np.sin(angle)) - math.log(self.half_width), -np.inf)

    def score(self, x: ArrayLike) -> Array:
        """−(π/a) tan(πx/2a)."""
        x, angle, inside = self._angle(x)
        return np.where(inside, -np.sign(x) * math.pi / self.half_width / np.tan(angle), np.nan)

    def curvature(self, x: ArrayLike) -> Array:
        """−(π²/2a²)/cos²(πx/2a)."""
        _, angle, inside = self._angle(x)
        return np.where(inside, -0.5 * (math.pi / self.half_width / np.sin(angle)) ** 2, np.nan)

    def cdf(self, x: ArrayLike) -> Array:
        """½ + x/2a + sin(πx/a)/2π, measured from the nearer end: (u − sin u)/2π there."""
        x = as_array(x, "x")
        u = math.pi * (1 - np.minimum(np.abs(x) / self.half_width, 1))
        tail = (u - np.sin(u)) / (2 * math.pi)
        return np.where(x < 0, tail, 1 - tail)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values, exactly and without rejection.

        A uniform x is kept with probability cos²(πx/2a) and else moved by a to the other side of
        0, where cos² is what sin² was: both ways give density cos²/2a, together f.
        """
        a = self.half_width
        x = as_generator(rng).uniform(-a, a, size)
        keep = rng.random(size) < np.cos(math.pi * x / (2 * a)) ** 2
        return np.where(keep, x, x - np.copysign(a, x))

    @property
    def support(self) -> tuple[float, float]:
        """[−a, a]."""
        return (-self.half_width, self.half_width)

    @property
    def variance(self) -> float:
        """a²(1/3 − 2/π²)."""
        return self.half_width**2 * (1 / 3 - 2 / math.pi**2)

    @property
    def fisher_information(self) -> float:
        """π²/a²."""
        return (math.pi / self.half_width) ** 2

    @property
    def expected_squared_curvature(self) -> float:
        """∞: (π⁴/4a⁵) ∫ dx/cos²(πx/2a) diverges at both ends."""
        return math.inf

    def _scaled_in_family(self, c: float) -> CosSquared:
        return CosSquared(abs(c) * self.half_width)

"""Smooth bounded noise exp(−1/(1 − x²)^p), the paper's second example of bounded noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privest.arrays import Array, as_array, as_number
from privest.errors import InvalidInput
from privest.noise._law import CentredLaw

# Points of the trapezoidal rule over the part of (−1, 1) where the density does not underflow.
POINTS = 4001
UNDERFLOW = 750.0


@dataclass(frozen=True)
class Bump(CentredLaw):
    """The bump law on (−1, 1), real p ≥ 2; q = 1 − x².

        f(x) ∝ exp(−q^{−p}),   l' = −2px q^{−p−1},   l'' = −2p q^{−p−2} (1 + (2p + 1) x²)

    All derivatives vanish at ±1, so the trapezoidal rule converges faster than any power of the
    step; 4001 points give the normaliser, variance, I and E l''² to rounding, for every p. For
    another width scale the law: a·Bump(p) lives on (−a, a). No finite ε.

    >>> law = Bump(p=2.0)
    >>> round(law.fisher_information, 3), round(law.variance, 5)
    (15.115, 0.09824)
    >>> float(law.pdf(1.0)), float(law.logpdf(-1.0))
    (0.0, -inf)
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        p = as_number(self.p, "p")
        if p < 2:
            raise InvalidInput(f"p must be ≥ 2; received {p:g}.")
        object.__setattr__(self, "p", p)

    def _gap(self, x: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
        """x, q = (1 − |x|)(1 + |x|), x inside?"""
        x = as_array(x, "x")
        size = np.abs(x)
        inside = size < 1
        return x, np.where(inside, (1 - size) * (1 + size), 1.0), inside

    def _exponent(self, x: ArrayLike) -> Array:
        """−q^{−p}; −∞ from where it overflows."""
        x, q, inside = self._gap(x)
        with np.errstate(over="ignore"):
            return np.where(inside, -(q**-self.p), -np.inf)

    def logpdf(self, x: ArrayLike) -> Array:
        """−q^{−p} − ln ∫ exp(−q^{−p})."""
        return self._exponent(x) - self._log_normaliser

    def score(self, x: ArrayLike) -> Array:
        """−2px q^{−p−1}."""
        x, q, inside = self._gap(x)
        with np.errstate(over="ignore"):
            return np.where(inside, -2 * self.p * x * q ** (-self.p - 1), np.nan)

    def curvature(self, x: ArrayLike) -> Array:
        """−2p q^{−p−2} (1 + (2p + 1) x²)."""
        x, q, inside = self._gap(x)
        with np.errstate(over="ignore"):
            value = -2 * self.p * q ** (-self.p - 2) * (1 + (2 * self.p + 1) * x**2)
            return np.where(inside, value, np.nan)

    @property
    def support(self) -> tuple[float, float]:
        """(−1, 1)."""
        return (-1.0, 1.0)

    @cached_property
    def _grid(self) -> tuple[Array, Array]:
        """Points, and e^(1 − q^{−p}) there times the step."""
        # q^{−p} = 750 at the ends: e^-750 underflows. q from expm1: p may be large.
        reach = math.sqrt(-math.expm1(-math.log(UNDERFLOW) / self.p))
        x = np.linspace(-reach, reach, POINTS)
        return x, np.exp(self._exponent(x) + 1) * (x[1] - x[0])

    @cached_property
    def _log_normaliser(self) -> float:
        return math.log(float(self._grid[1].sum())) - 1

    def _expectation(self, values: Array) -> float:
        weight = self._grid[1]
        return float(values @ weight / weight.sum())

    @property
    def variance(self) -> float:
        """E x², by the trapezoidal rule."""
        return self._expectation(self._grid[0] ** 2)

    @property
    def fisher_information(self) -> float:
        """E 4p²x²q^{−2p−2}, by the trapezoidal rule."""
        return self._expectation(self.score(self._grid[0]) ** 2)

    @property
    def expected_squared_curvature(self) -> float:
        """E l''², by the trapezoidal rule."""
        return self._expectation(self.curvature(self._grid[0]) ** 2)

"""Distributions on a bounded interval: uniform, cos² (`mech:trigonometry`), and the smooth bump."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_generator, as_number
from privest.errors import InvalidInput
from privest.noise.distribution import CentredLaw, Size

# Points of the trapezoidal rule over the part of (−1, 1) where the density does not underflow.
POINTS = 4001
UNDERFLOW = 750.0


@dataclass(frozen=True)
class Uniform(CentredLaw):
    """The uniform distribution on [−a, a]; a = half_width.

        f(x) = 1/2a,   l' = l'' = 0 inside,   variance = a²/3,   I = ∞,   E l''² = ∞

    **Trap:** the integral of f·l'² is 0, but the density jumps at ±a, and n samples show an edge to
    within 1/n, not 1/√n: the Fisher information (the limit of smoothed edges) is infinite.
    """

    half_width: float = 1.0
    POSITIVE: ClassVar[tuple[str, ...]] = ("half_width",)
    fisher_information: ClassVar[float] = math.inf  # the density jumps
    expected_squared_curvature: ClassVar[float] = math.inf

    def _where(self, x: ArrayLike, inside: float, outside: float) -> Array:
        return np.where(np.abs(as_array(x, "x")) <= self.half_width, inside, outside)

    def pdf(self, x: ArrayLike) -> Array:
        return self._where(x, 0.5 / self.half_width, 0.0)

    def logpdf(self, x: ArrayLike) -> Array:
        return self._where(x, -math.log(2 * self.half_width), -math.inf)

    def score(self, x: ArrayLike) -> Array:
        """0 (see `fisher_information` before using it)."""
        return self._where(x, 0.0, math.nan)

    def curvature(self, x: ArrayLike) -> Array:
        return self._where(x, 0.0, math.nan)

    def cdf(self, x: ArrayLike) -> Array:
        return np.asarray((np.clip(as_array(x, "x") / self.half_width, -1, 1) + 1) / 2)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return as_generator(rng).uniform(-self.half_width, self.half_width, size)

    @property
    def support(self) -> tuple[float, float]:
        return (-self.half_width, self.half_width)

    @property
    def jumps(self) -> tuple[float, ...]:
        return self.support

    @property
    def variance(self) -> float:
        return self.half_width**2 / 3


@dataclass(frozen=True)
class CosSquared(CentredLaw):
    """The distribution with density cos² on [−a, a]; a = half_width (`mech:trigonometry`).

        f(x) = cos²(πx/2a)/a,   l' = −(π/a) tan(πx/2a),   l'' = −(π²/2a²)/cos²(πx/2a)
        variance = a²(1/3 − 2/π²),   I = π²/a²,   E l''² = ∞

    The least information of all on [−a, a]. Bounded noise gives no finite ε.
    """

    half_width: float = 1.0
    POSITIVE: ClassVar[tuple[str, ...]] = ("half_width",)
    expected_squared_curvature: ClassVar[float] = (
        math.inf
    )  # (π⁴/4a⁵) ∫ dx/cos²(πx/2a) diverges at both ends

    def _angle(self, x: ArrayLike) -> tuple[Array, Array, Flags]:
        """x, the angle π(a − |x|)/2a (measured from the end, where digits count), x inside?"""
        x = as_array(x, "x")
        inside = np.abs(x) < self.half_width
        gap = np.where(inside, self.half_width - np.abs(x), self.half_width)
        return x, math.pi / 2 * (gap / self.half_width), inside

    def pdf(self, x: ArrayLike) -> Array:
        _, angle, inside = self._angle(x)
        return np.where(inside, np.sin(angle) ** 2 / self.half_width, 0.0)

    def logpdf(self, x: ArrayLike) -> Array:
        _, angle, inside = self._angle(x)
        return np.where(inside, 2 * np.log(np.sin(angle)) - math.log(self.half_width), -np.inf)

    def score(self, x: ArrayLike) -> Array:
        x, angle, inside = self._angle(x)
        return np.where(inside, -np.sign(x) * math.pi / self.half_width / np.tan(angle), np.nan)

    def curvature(self, x: ArrayLike) -> Array:
        _, angle, inside = self._angle(x)
        return np.where(inside, -0.5 * (math.pi / self.half_width / np.sin(angle)) ** 2, np.nan)

    def cdf(self, x: ArrayLike) -> Array:
        """½ + x/2a + sin(πx/a)/2π, from the nearer end (u − sin u)/2π."""
        x = as_array(x, "x")
        u = math.pi * (1 - np.minimum(np.abs(x) / self.half_width, 1))
        tail = (u - np.sin(u)) / (2 * math.pi)
        return np.where(x < 0, tail, 1 - tail)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """A uniform x, kept with probability cos²(πx/2a), else moved by a: exact.

        On the other side of 0 cos² is what sin² was: both ways give density cos²/2a, together f.
        """
        a = self.half_width
        x = as_generator(rng).uniform(-a, a, size)
        keep = rng.random(size) < np.cos(math.pi * x / (2 * a)) ** 2
        return np.where(keep, x, x - np.copysign(a, x))

    @property
    def support(self) -> tuple[float, float]:
        return (-self.half_width, self.half_width)

    @property
    def variance(self) -> float:
        return self.half_width**2 * (1 / 3 - 2 / math.pi**2)

    @property
    def fisher_information(self) -> float:
        return (math.pi / self.half_width) ** 2


@dataclass(frozen=True)
class Bump(CentredLaw):
    """The bump distribution on (−1, 1), real p ≥ 2; q = 1 − x².

        f(x) ∝ exp(−q^{−p}),   l' = −2px q^{−p−1},   l'' = −2p q^{−p−2} (1 + (2p + 1) x²)

    All derivatives vanish at ±1, so the trapezoidal rule on 4001 points gives the normaliser,
    variance, I and E l''² to rounding, for every p. No finite ε.
    """

    p: float = 2.0
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        p = as_number(self.p, "p")
        if p < 2:
            raise InvalidInput(f"p must be ≥ 2; received {p:g}.")
        object.__setattr__(self, "p", p)

    def _gap(self, x: ArrayLike) -> tuple[Array, Array, Flags]:
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
        return self._exponent(x) - self._log_normaliser

    def score(self, x: ArrayLike) -> Array:
        x, q, inside = self._gap(x)
        with np.errstate(over="ignore"):
            return np.where(inside, -2 * self.p * x * q ** (-self.p - 1), np.nan)

    def curvature(self, x: ArrayLike) -> Array:
        x, q, inside = self._gap(x)
        with np.errstate(over="ignore"):
            value = -2 * self.p * q ** (-self.p - 2) * (1 + (2 * self.p + 1) * x**2)
            return np.where(inside, value, np.nan)

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
        return self._expectation(self._grid[0] ** 2)

    @property
    def fisher_information(self) -> float:
        return self._expectation(self.score(self._grid[0]) ** 2)

    @property
    def expected_squared_curvature(self) -> float:
        return self._expectation(self.curvature(self._grid[0]) ** 2)

"""Random rounding to a grid: uniform dither (infinite information), triangular and Laplace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, as_array, as_positive
from privest.mechanism._channel import Channel, Worst, as_move


@dataclass(frozen=True)
class _Grid(Channel):
    """z on the grid of multiples of Δ = step."""

    step: float
    discrete = True

    def __post_init__(self) -> None:
        self._require_positive(*self.parameters)

    def noise_width(self, u: Array) -> float:
        return self.step

    def support(self, u: float) -> tuple[float, float]:
        every = self.outcomes(u)
        return (float(every[0]), float(every[-1]))

    def _offset(self, z: ArrayLike, u: ArrayLike) -> Array:
        """x = j − u/Δ for z = jΔ; inf where z is not on the grid (to 1e-9 Δ, or rounding)."""
        z, u = as_array(z, "z"), as_array(u, "u")
        index = np.rint(z / self.step)
        off = np.abs(z - index * self.step) > 1e-9 * self.step + 4 * EPS * np.abs(z)
        return np.where(off, np.inf, index - u / self.step)

    def _between(self, low: float, high: float) -> Array:
        """The grid points between two numbers of steps."""
        return np.arange(math.ceil(low), math.floor(high) + 1) * self.step

    def _from_nearest(self, u: ArrayLike) -> Array:
        """The offset of u from the nearest grid point, in steps."""
        part = as_array(u, "u") / self.step
        return np.asarray(part - np.rint(part))


@dataclass(frozen=True)
class ProbabilisticQuantiser(_Grid):
    """z = Δ·round((u + d)/Δ), d uniform on [−Δ/2, Δ/2]: one of the two grid points around u.

        p(jΔ|u) = 1 − |x| ,  x = j − u/Δ ,  |x| ≤ 1 ;     E z = u ,  var z = t(Δ − t)
        I_z(u) = 1/(t(Δ − t)) ,   t = u − the grid point below

    Infinite on the grid: an outcome whose probability vanishes linearly has infinite
    information. Truncation (`remark:truncation`) only moves the place. No finite ε.
    Liu et al. 2026, Wang et al. 2023.

    >>> channel = ProbabilisticQuantiser(step=2.0)
    >>> channel.information([0.5, 1.0, 2.0])
    array([1.33333333, 1.        ,        inf])
    >>> np.exp(channel.log_density([0.0, 2.0, 4.0], 0.5))
    array([0.75, 0.25, 0.  ])
    """

    worst = Worst(math.inf, 0.0)
    WHY_NOT = (
        "its information 1/(t(Δ − t)) is infinite on the grid for every step, and truncation "
        "only moves the place. TriangularQuantiser is unbiased and has a bound."
    )

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        below, part = self._cell(as_array(u, "u"))
        return (below + (rng.random(part.shape) < part)) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1.0 - np.abs(self._offset(z, u)), 0.0))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """sign(x)/(Δ − |x|Δ); NaN for an outcome of probability 0."""
        x = self._offset(z, u)
        mass = 1.0 - np.abs(x)
        return np.where(mass > 0, np.sign(x) / np.where(mass > 0, mass, 1.0) / self.step, np.nan)

    def outcomes(self, u: float) -> Array:
        below, part = self._cell(np.asarray(u))
        return (below + np.arange(2 if part > 0 else 1)) * self.step

    def information(self, u: ArrayLike) -> Array:
        _, part = self._cell(as_array(u, "u"))
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (part * (1.0 - part)) / self.step**2)

    def _cell(self, u: Array) -> tuple[Array, Array]:
        """The number of the grid point below, and the distance from it in steps."""
        part = u / self.step
        below = np.floor(part)
        return below, np.asarray(part - below)


@dataclass(frozen=True)
class TriangularQuantiser(_Grid):
    """z = Δ·round((u + d)/Δ), d triangular on [−Δ, Δ]: one of the three grid points around u.

        p(jΔ|u) = B(j − u/Δ) ,   B(x) = ¾ − x²  (|x| ≤ ½) ,  ½(3/2 − |x|)²  (½ ≤ |x| ≤ 3/2)
        E z = u ,   E (z − u)² = Δ²/4
        I_z(u) = (4 + 4s²/(¾ − s²))/Δ² ,   s = offset of u from the nearest grid point, in Δ

    B is the quadratic B-spline; a mass that vanishes like x² contributes B'²/B = 2 up to the end.
    sup I = 6/Δ², at s = ±½, halfway between grid points: there one outcome has probability 0 on
    each side and appears as u moves. **Trap:** the sum over outcomes of positive probability is
    4/Δ² at that u; 6/Δ² is the limit from both sides and the growth of the Hellinger distance
    both ways, and is what `information` returns. No finite ε.

    >>> channel = TriangularQuantiser(step=2.0)
    >>> channel.information([0.0, 1.0]), channel.worst.information
    (array([1. , 1.5]), 1.5)
    >>> np.exp(channel.log_density([-2.0, 0.0, 2.0], 0.0)) * 8
    array([1., 6., 1.])
    >>> TriangularQuantiser.calibrated(1.5)
    TriangularQuantiser(step=2.0)
    """

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u") / self.step
        dither = rng.random(given.shape) + rng.random(given.shape) - 1.0
        return np.rint(given + dither) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        size = np.abs(self._offset(z, u))
        room = np.maximum(1.5 - size, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(np.where(size <= 0.5, 0.75 - size**2, 0.5 * room**2))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """2x/(¾ − x²)/Δ or 2 sign(x)/(3/2 − |x|)/Δ; NaN for an outcome of probability 0."""
        x = self._offset(z, u)
        size = np.abs(x)
        room = np.where(size < 1.5, 1.5 - size, np.nan)
        middle = 0.75 - np.minimum(size, 0.5) ** 2
        return np.where(size <= 0.5, 2.0 * x / middle, 2.0 * np.sign(x) / room) / self.step

    def outcomes(self, u: float) -> Array:
        every = self._between(u / self.step - 1.5, u / self.step + 1.5)
        return np.asarray(every[np.isfinite(self.log_density(every, u))])

    def information(self, u: ArrayLike) -> Array:
        s = self._from_nearest(u)
        return np.asarray((4.0 + 4.0 * s**2 / (0.75 - s**2)) / self.step**2)

    @property
    def worst(self) -> Worst:
        return Worst(6.0 / self.step**2, 0.5 * self.step)

    @classmethod
    def calibrated(cls, level: float) -> Self:  # type: ignore[override]
        """Δ = √(6/level)."""
        return cls(math.sqrt(6.0 / as_positive(level, "level")))


@dataclass(frozen=True)
class LaplaceQuantiser(_Grid):
    """z = Δ·round((u + d)/Δ), d ~ Laplace(b); Δ = step, b = scale, h = Δ/2b.

    With ξ = (jΔ − u)/b the mass of jΔ is a difference of the Laplace cdf, without cancellation

        p = e^{−|ξ|} sinh h                                  |ξ| ≥ h     score sign(ξ)/b
        p = −½(expm1(−h − ξ) + expm1(−h + ξ))                |ξ| ≤ h     score e^{−h} sinh ξ/(bp)

    Summed, with ξ of the nearest grid point: b² I_z(u) = q(cosh ξ − q)/(1 − q cosh ξ), q = e^{−h}.
    This grows with |ξ| up to 1 at |ξ| = h, the edge of a cell: sup I = 1/b² for every step, as
    without rounding. ε = c/b, tight: beyond both inputs the masses fall by e^{−c/b}.
    Biased, by the rounding that the noise does not smooth out:
    |E z − u| ≤ (Δ/π) Σ_k 1/(k(1 + (2πkb/Δ)²)), 0.9 % of Δ at Δ = b. Lang et al. 2023.

    >>> channel = LaplaceQuantiser(step=1.0, scale=0.5)
    >>> channel.worst, channel.epsilon(1.0)
    (Worst(information=4.0, at=0.5, attained=True), 2.0)
    >>> float(channel.information(0.5))
    4.0
    """

    scale: float

    def noise_width(self, u: Array) -> float:
        return self.scale

    @property
    def _half(self) -> float:
        return self.step / (2.0 * self.scale)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        noisy = given + rng.laplace(0.0, self.scale, given.shape)
        return np.rint(noisy / self.step) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        size, h = np.abs(self._offset(z, u)) * (2.0 * self._half), self._half
        # ln sinh h without overflow
        outer = h - size + math.log(-math.expm1(-2.0 * h) / 2.0)
        return np.where(size < h, np.log(self._middle(np.minimum(size, h))), outer)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """NaN off the grid."""
        h = self._half
        xi = self._offset(z, u) * (2.0 * h)
        size = np.abs(xi)
        near = np.minimum(size, h)
        slope = -0.5 * np.exp(near - h) * np.expm1(-2.0 * near) / self._middle(near)
        sign = np.where(np.isinf(xi), np.nan, np.sign(xi))
        return np.asarray(sign * np.where(size < h, slope, 1.0) / self.scale)

    def support(self, u: float) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def outcomes(self, u: float) -> Array:
        """All within 42 scales: e^-42 is below 1e-18."""
        reach = 42.0 * self.scale + self.step
        return self._between((u - reach) / self.step, (u + reach) / self.step)

    def information(self, u: ArrayLike) -> Array:
        h = self._half
        xi = 2.0 * h * np.abs(self._from_nearest(u))
        # q(cosh ξ − q) = q(cosh ξ − 1) + q(1 − q), both without cancellation or overflow
        above = 0.5 * np.exp(xi - h) * np.expm1(-xi) ** 2 - math.exp(-h) * math.expm1(-h)
        return np.asarray(above / self._middle(xi) / self.scale**2)

    @property
    def worst(self) -> Worst:
        return Worst(1.0 / self.scale**2, 0.5 * self.step)

    def epsilon(self, move: float) -> float:
        return as_move(move) / self.scale

    @classmethod
    def calibrated(cls, level: float, *, step: float | None = None) -> Self:  # type: ignore[override]
        """b = 1/√level. The step is free (the supremum does not depend on it): left out, Δ = b."""
        scale = 1.0 / math.sqrt(as_positive(level, "level"))
        return cls(scale if step is None else step, scale)

    def _middle(self, size: Array) -> Array:
        """The mass of the cell that holds u, |ξ| ≤ h."""
        return np.asarray(-0.5 * (np.expm1(-self._half - size) + np.expm1(size - self._half)))

"""Random rounding to a grid: uniform, triangular and Laplace dither."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, as_array, as_choice, as_nonnegative, as_positive
from privest.errors import NotCalibratable
from privest.mechanism._mechanism import Channel

Dither = Literal["uniform", "triangular"]


@dataclass(frozen=True)
class _Grid(Channel):
    """z on the grid of multiples of Δ = step."""

    step: float
    discrete = True

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
        return np.arange(math.ceil(low), math.floor(high) + 1) * self.step

    def _from_nearest(self, u: ArrayLike) -> Array:
        part = as_array(u, "u") / self.step
        return np.asarray(part - np.rint(part))


@dataclass(frozen=True)
class ProbabilisticQuantiser(_Grid):
    """z = Δ·round((u + d)/Δ), d uniform on [−Δ/2, Δ/2] or triangular on [−Δ, Δ]; E z = u.

    With z = jΔ, x = j − u/Δ and s the offset of u from the nearest grid point in Δ:

        uniform     p = 1 − |x|  (|x| ≤ 1) ,   I_z(u) = 1/(t(Δ − t)) ,  t = u − the grid point below
        triangular  p = ¾ − x²  (|x| ≤ ½) ,  ½(3/2 − |x|)²  (½ ≤ |x| ≤ 3/2)
                    I_z(u) = (4 + 4s²/(¾ − s²))/Δ²

    Uniform: infinite on the grid, truncated or not (Liu et al. 2026, Wang et al. 2023). Triangular:
    sup I = 6/Δ² at s = ±½. **Trap:** the sum over outcomes of positive probability is 4/Δ² there;
    `information` returns the limit 6/Δ². No finite ε.

    >>> ProbabilisticQuantiser(2.0).information([0.5, 1.0, 2.0])
    array([1.33333333, 1.        ,        inf])
    >>> channel = ProbabilisticQuantiser.calibrated(1.5)
    >>> channel, channel.worst
    (ProbabilisticQuantiser(step=2.0, dither='triangular'), 1.5)
    >>> np.exp(channel.log_density([-2.0, 0.0, 2.0], 0.0)) * 8
    array([1., 6., 1.])
    """

    dither: Dither = field(default="uniform", kw_only=True)

    def __post_init__(self) -> None:
        self._require_positive("step")
        as_choice(self.dither, get_args(Dither), "dither")

    @property
    def _uniform(self) -> bool:
        return self.dither == "uniform"

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u") / self.step
        if self._uniform:
            below = np.floor(given)
            return np.asarray((below + (rng.random(given.shape) < given - below)) * self.step)
        dither = rng.random(given.shape) + rng.random(given.shape) - 1.0
        return np.rint(given + dither) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        size = np.abs(self._offset(z, u))
        with np.errstate(divide="ignore"):
            if self._uniform:
                return np.asarray(np.log(np.maximum(1.0 - size, 0.0)))
            room = np.maximum(1.5 - size, 0.0)
            return np.asarray(np.log(np.where(size <= 0.5, 0.75 - size**2, 0.5 * room**2)))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """−p'/(pΔ); NaN for an outcome of probability 0."""
        x = self._offset(z, u)
        size = np.abs(x)
        if self._uniform:
            return np.asarray(np.sign(x) / np.where(size < 1, 1.0 - size, np.nan) / self.step)
        room = np.where(size < 1.5, 1.5 - size, np.nan)
        middle = 0.75 - np.minimum(size, 0.5) ** 2
        return np.where(size <= 0.5, 2.0 * x / middle, 2.0 * np.sign(x) / room) / self.step

    def outcomes(self, u: float) -> Array:
        part = u / self.step
        if self._uniform:
            return self._between(math.floor(part), math.ceil(part))
        every = self._between(part - 1.5, part + 1.5)
        return np.asarray(every[np.isfinite(self.log_density(every, u))])

    def information(self, u: ArrayLike) -> Array:
        s = self._from_nearest(u)
        if self._uniform:
            with np.errstate(divide="ignore"):
                return np.asarray(1.0 / (np.abs(s) * (1.0 - np.abs(s))) / self.step**2)
        return np.asarray((4.0 + 4.0 * s**2 / (0.75 - s**2)) / self.step**2)

    @property
    def worst(self) -> float:
        return math.inf if self._uniform else 6.0 / self.step**2

    @property
    def worst_input(self) -> float:
        return 0.0 if self._uniform else 0.5 * self.step

    @classmethod
    def calibrated(cls, level: float, *, dither: Dither = "triangular") -> Self:  # type: ignore[override]
        """Δ = √(6/level), with triangular dither; with uniform dither no step is enough."""
        if dither == "uniform":
            raise NotCalibratable(
                "uniform dither cannot be calibrated: its information 1/(t(Δ − t)) is infinite on "
                "the grid for every step, and truncation only moves the place. Triangular dither "
                "is unbiased and has a bound."
            )
        return cls(math.sqrt(6.0 / as_positive(level, "level")), dither=dither)


@dataclass(frozen=True)
class LaplaceQuantiser(_Grid):
    """z = Δ·round((u + d)/Δ), d ~ Laplace(b); Δ = step, b = scale, h = Δ/2b, ξ = (jΔ − u)/b.

        p = e^{−|ξ|} sinh h                                  |ξ| ≥ h     score sign(ξ)/b
        p = −½(expm1(−h − ξ) + expm1(−h + ξ))                |ξ| ≤ h     score e^{−h} sinh ξ/(bp)
        b² I_z(u) = q(cosh ξ − q)/(1 − q cosh ξ) ,  q = e^{−h} ,  ξ of the nearest grid point

    sup I = 1/b² at the edge of a cell, for every step. ε = c/b, tight. Biased, by 0.9% of Δ at Δ =
    b. Lang et al. 2023.

    >>> channel = LaplaceQuantiser(step=1.0, scale=0.5)
    >>> channel.worst, channel.epsilon(1.0)
    (4.0, 2.0)
    >>> float(channel.information(0.5))
    4.0
    """

    scale: float

    def __post_init__(self) -> None:
        self._require_positive("step", "scale")

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
    def worst(self) -> float:
        return 1.0 / self.scale**2

    @property
    def worst_input(self) -> float:
        return 0.5 * self.step

    def epsilon(self, sensitivity: float) -> float:
        return as_nonnegative(sensitivity, "sensitivity") / self.scale

    @classmethod
    def calibrated(cls, level: float, *, step: float | None = None) -> Self:  # type: ignore[override]
        """b = 1/√level. The step is free (the supremum does not depend on it): left out, Δ = b."""
        scale = 1.0 / math.sqrt(as_positive(level, "level"))
        return cls(scale if step is None else step, scale)

    def _middle(self, size: Array) -> Array:
        """The mass of the cell that holds u, |ξ| ≤ h."""
        return np.asarray(-0.5 * (np.expm1(-self._half - size) + np.expm1(size - self._half)))

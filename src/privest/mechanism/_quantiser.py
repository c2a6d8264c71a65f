"""Unbiased random rounding to a grid: uniform dither (infinite information) and triangular."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import EPS, Array, as_array, as_positive
from privest.mechanism._channel import Channel, Worst


@dataclass(frozen=True)
class ProbabilisticQuantiser(Channel):
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

    step: float
    discrete = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", as_positive(self.step, "step"))

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        below, part = _cell(as_array(u, "u"), self.step)
        return (below + (rng.random(part.shape) < part)) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1.0 - np.abs(offset(z, u, self.step)), 0.0))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """sign(x)/(Δ − |x|Δ); NaN for an outcome of probability 0."""
        x = offset(z, u, self.step)
        mass = 1.0 - np.abs(x)
        return np.where(mass > 0, np.sign(x) / np.where(mass > 0, mass, 1.0) / self.step, np.nan)

    def support(self, u: float) -> tuple[float, float]:
        return _ends(self.outcomes(u))

    def outcomes(self, u: float) -> Array:
        below, part = _cell(np.asarray(u), self.step)
        return (below + np.arange(2 if part > 0 else 1)) * self.step

    def information(self, u: ArrayLike) -> Array:
        _, part = _cell(as_array(u, "u"), self.step)
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (part * (1.0 - part)) / self.step**2)

    @property
    def worst(self) -> Worst:
        return Worst(math.inf, 0.0)

    @classmethod
    def why_not(cls) -> str:
        return (
            "its information 1/(t(Δ − t)) is infinite on the grid for every step, and truncation "
            "only moves the place. TriangularQuantiser is unbiased and has a bound."
        )


@dataclass(frozen=True)
class TriangularQuantiser(Channel):
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

    step: float
    discrete = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", as_positive(self.step, "step"))

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u") / self.step
        dither = rng.random(given.shape) + rng.random(given.shape) - 1.0
        return np.rint(given + dither) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        size = np.abs(offset(z, u, self.step))
        room = np.maximum(1.5 - size, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(np.where(size <= 0.5, 0.75 - size**2, 0.5 * room**2))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """2x/(¾ − x²)/Δ or 2 sign(x)/(3/2 − |x|)/Δ; NaN for an outcome of probability 0."""
        x = offset(z, u, self.step)
        size = np.abs(x)
        room = np.where(size < 1.5, 1.5 - size, np.nan)
        middle = 0.75 - np.minimum(size, 0.5) ** 2
        return np.where(size <= 0.5, 2.0 * x / middle, 2.0 * np.sign(x) / room) / self.step

    def support(self, u: float) -> tuple[float, float]:
        return _ends(self.outcomes(u))

    def outcomes(self, u: float) -> Array:
        first, last = math.ceil(u / self.step - 1.5), math.floor(u / self.step + 1.5)
        every = np.arange(first, last + 1) * self.step
        return np.asarray(every[np.isfinite(self.log_density(every, u))])

    def information(self, u: ArrayLike) -> Array:
        part = as_array(u, "u") / self.step
        s = part - np.rint(part)
        return np.asarray((4.0 + 4.0 * s**2 / (0.75 - s**2)) / self.step**2)

    @property
    def worst(self) -> Worst:
        return Worst(6.0 / self.step**2, 0.5 * self.step)

    @classmethod
    def calibrated(cls, level: float) -> Self:  # type: ignore[override]
        """Δ = √(6/level)."""
        return cls(math.sqrt(6.0 / as_positive(level, "level")))


def offset(z: ArrayLike, u: ArrayLike, step: float) -> Array:
    """x = j − u/Δ for z = jΔ; inf where z is not on the grid (to 1e-9 of a step, or rounding)."""
    z, u = as_array(z, "z"), as_array(u, "u")
    index = np.rint(z / step)
    off = np.abs(z - index * step) > 1e-9 * step + 4 * EPS * np.abs(z)
    return np.where(off, np.inf, index - u / step)


def _cell(u: Array, step: float) -> tuple[Array, Array]:
    """The number of the grid point below, and the distance from it in steps."""
    part = u / step
    below = np.floor(part)
    return below, np.asarray(part - below)


def _ends(outcomes: Array) -> tuple[float, float]:
    return (float(outcomes[0]), float(outcomes[-1]))

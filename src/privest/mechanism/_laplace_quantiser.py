"""Rounding to a grid after Laplace noise (Lang et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.mechanism._additive import as_move
from privest.mechanism._channel import Channel, Worst
from privest.mechanism._quantiser import offset


@dataclass(frozen=True)
class LaplaceQuantiser(Channel):
    """z = Δ·round((u + d)/Δ), d ~ Laplace(b); Δ = step, b = scale, h = Δ/2b.

    With ξ = (jΔ − u)/b the mass of jΔ is a difference of the Laplace cdf, without cancellation

        p = e^{−|ξ|} sinh h                                  |ξ| ≥ h     score sign(ξ)/b
        p = −½(expm1(−h − ξ) + expm1(−h + ξ))                |ξ| ≤ h     score e^{−h} sinh ξ/(bp)

    Summed, with ξ of the nearest grid point: b² I_z(u) = q(cosh ξ − q)/(1 − q cosh ξ), q = e^{−h}.
    This grows with |ξ| up to 1 at |ξ| = h, the edge of a cell: sup I = 1/b² for every step, as
    without rounding. ε = c/b, tight: beyond both inputs the masses fall by e^{−c/b}.
    Biased, by the rounding that the noise does not smooth out:
    |E z − u| ≤ (Δ/π) Σ_k 1/(k(1 + (2πkb/Δ)²)), 0.9 % of Δ at Δ = b.

    >>> channel = LaplaceQuantiser(step=1.0, scale=0.5)
    >>> channel.worst, channel.epsilon(1.0)
    (Worst(information=4.0, at=0.5, attained=True), 2.0)
    >>> float(channel.information(0.5))
    4.0
    """

    step: float
    scale: float
    discrete = True

    def __post_init__(self) -> None:
        for name in ("step", "scale"):
            object.__setattr__(self, name, as_positive(getattr(self, name), name))

    @property
    def _half(self) -> float:
        return self.step / (2.0 * self.scale)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        noisy = given + rng.laplace(0.0, self.scale, given.shape)
        return np.rint(noisy / self.step) * self.step

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        xi = self._offset(z, u)
        size, h = np.abs(xi), self._half
        # ln sinh h without overflow
        outer = h - size + math.log(-math.expm1(-2.0 * h) / 2.0)
        return np.where(size < h, np.log(self._middle(np.minimum(size, h))), outer)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """NaN off the grid."""
        xi = self._offset(z, u)
        size, h = np.abs(xi), self._half
        near = np.minimum(size, h)
        slope = -0.5 * np.exp(near - h) * np.expm1(-2.0 * near) / self._middle(near)
        return np.where(np.isinf(xi), np.nan, np.sign(xi) * np.where(size < h, slope, 1.0)) / (
            self.scale
        )

    def outcomes(self, u: float) -> Array:
        """All within 42 scales: e^-42 is below 1e-18."""
        reach = 42.0 * self.scale + self.step
        first, last = math.ceil((u - reach) / self.step), math.floor((u + reach) / self.step)
        return np.arange(first, last + 1) * self.step

    def information(self, u: ArrayLike) -> Array:
        part = as_array(u, "u") / self.step
        h = self._half
        xi = 2.0 * h * np.abs(part - np.rint(part))
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

    def _offset(self, z: ArrayLike, u: ArrayLike) -> Array:
        return offset(z, u, self.step) * (2.0 * self._half)

    def _middle(self, size: Array) -> Array:
        """The mass of the cell that holds u, |ξ| ≤ h."""
        return np.asarray(-0.5 * (np.expm1(-self._half - size) + np.expm1(size - self._half)))

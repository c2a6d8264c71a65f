"""Mixed noise: a random privacy weight and Gaussian noise (Ke et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.mechanism._channel import Channel, Worst


@dataclass(frozen=True)
class PrivacyWeights(Channel):
    """z = D u + e, D ~ N(1, τ²), e ~ N(0, σ²): z|u ~ N(u, v), v = τ²u² + σ².

        I_z(u) = 1/v + v'²/2v² ,   v' = 2τ²u

    τ² = weight_variance, σ² = variance. With w = σ²/v ∈ (0, 1] this is

        σ² I = (1 + 2τ²)w − 2τ²w² :   largest at w = min(1, (1 + 2τ²)/4τ²), so

        sup I = 1/σ²                    at u = 0                              for τ² ≤ ½
        sup I = (1 + 2τ²)²/(8τ²σ²)      at u² = (σ/τ)²(2τ² − 1)/(2τ² + 1)     for τ² > ½

    A weight of τ² ≤ ½ costs no additive noise. Unbiased: E z = u. No finite ε. The paper leaves
    the law of the weights open; Gaussian ones keep p(z|u) in closed form.

    >>> PrivacyWeights(weight_variance=0.25, variance=2.0).worst
    Worst(information=0.5, at=0.0, attained=True)
    >>> channel = PrivacyWeights(weight_variance=1.5, variance=1.0)  # 16/12 at u² = (2/4)/1.5
    >>> channel.worst.information == 4 / 3, round(channel.worst.at**2, 12) == round(1 / 3, 12)
    (True, True)
    >>> PrivacyWeights.calibrated(2.0)
    PrivacyWeights(weight_variance=0.25, variance=0.5)
    """

    weight_variance: float
    variance: float

    def __post_init__(self) -> None:
        for name in ("weight_variance", "variance"):
            object.__setattr__(self, name, as_positive(getattr(self, name), name))

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        weight = rng.normal(1.0, math.sqrt(self.weight_variance), given.shape)
        return weight * given + rng.normal(0.0, math.sqrt(self.variance), given.shape)

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        u = as_array(u, "u")
        v = self._spread(u)
        return np.asarray(-0.5 * (as_array(z, "z") - u) ** 2 / v - 0.5 * np.log(2 * np.pi * v))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """(z − u)/v + (v'/2v)((z − u)²/v − 1)."""
        u = as_array(u, "u")
        v = self._spread(u)
        off = as_array(z, "z") - u
        return np.asarray(off / v + self.weight_variance * u / v * (off**2 / v - 1.0))

    def landmarks(self, u: float) -> tuple[float, ...]:
        reach = math.sqrt(self._spread(np.asarray(u)))
        return (u - reach, u, u + reach)

    def information(self, u: ArrayLike) -> Array:
        u = as_array(u, "u")
        v = self._spread(u)
        return np.asarray(1.0 / v + 2.0 * (self.weight_variance * u / v) ** 2)

    @property
    def worst(self) -> Worst:
        tau = self.weight_variance
        largest = peak(tau) / self.variance
        if tau <= 0.5:
            return Worst(largest, 0.0)
        at = math.sqrt(self.variance / tau * (2.0 * tau - 1.0) / (2.0 * tau + 1.0))
        return Worst(largest, at)

    @classmethod
    def calibrated(cls, level: float, *, weight_variance: float = 0.25) -> Self:  # type: ignore[override]
        """σ² = max(1, (1 + 2τ²)²/8τ²)/level (the second for τ² > ½) for a given τ²."""
        tau = as_positive(weight_variance, "weight_variance")
        return cls(tau, peak(tau) / as_positive(level, "level"))

    def _spread(self, u: Array) -> Array:
        return np.asarray(self.weight_variance * u**2 + self.variance)


def peak(weight_variance: float) -> float:
    """sup of σ²I for τ²."""
    if weight_variance <= 0.5:
        return 1.0
    return (1.0 + 2.0 * weight_variance) ** 2 / (8.0 * weight_variance)

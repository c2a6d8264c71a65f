"""The staircase distribution of Geng and Viswanath: best for ε-DP, infinite information."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_generator, as_positive
from privest.errors import InvalidInput
from privest.noise.distribution import CentredLaw, Size

JUMPS_LISTED = 32


@dataclass(frozen=True)
class Staircase(CentredLaw):
    """The staircase distribution; ε = epsilon, Δ = sensitivity, b = e^{−ε}.

        f(x) = h b^n,   n = ⌊|x|/Δ + 1 − γ⌋,   h = (1 − b)/(2Δ(γ + b(1 − γ)))

    so f falls by the factor e^{−ε} at |x| = (k + γ)Δ, and ε-DP at distance Δ holds with equality.
    0 < γ ≤ 1; left out, γ = 1/(1 + e^{ε/2}), which minimises the mean *absolute* error. The density
    jumps: I = ∞, E l''² = ∞.

    Source: Geng and Viswanath, IEEE Trans. Information Theory 62 (2016).

    >>> law = Staircase(epsilon=2 * np.log(3), gamma=0.25)  # b = 1/9, h = (8/9)/(2·(1/3)) = 4/3
    >>> np.round(law.pdf([0.0, 0.2, 0.3, 1.2, 1.3]) * 243, 9)
    array([324., 324.,  36.,  36.,   4.])
    """

    epsilon: float
    sensitivity: float = 1.0
    gamma: float | None = None
    POSITIVE: ClassVar[tuple[str, ...]] = ("sensitivity", "epsilon")
    fisher_information: ClassVar[float] = math.inf  # the density jumps
    expected_squared_curvature: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > 1400:  # e^-700 is about the smallest double
            raise InvalidInput(f"epsilon must be at most 1400; received {self.epsilon:g}.")
        if self.gamma is None:
            # = 1/(1 + e^{ε/2}) without overflow for large ε.
            half = math.exp(-self.epsilon / 2)
            object.__setattr__(self, "gamma", half / (1 + half))
        gamma = as_positive(self._gamma, "gamma")
        if gamma > 1:
            raise InvalidInput(f"gamma must be in (0, 1]; received {gamma:g}.")
        object.__setattr__(self, "gamma", gamma)

    @property
    def _gamma(self) -> float:
        assert self.gamma is not None  # set by __post_init__
        return self.gamma

    @property
    def _flat(self) -> float:
        """γ + b(1 − γ), the mass of one stair in units of its first part's density."""
        return self._gamma + math.exp(-self.epsilon) * (1 - self._gamma)

    def logpdf(self, x: ArrayLike) -> Array:
        steps = np.floor(np.abs(as_array(x, "x")) / self.sensitivity + (1 - self._gamma))
        top = -math.expm1(-self.epsilon) / (2 * self.sensitivity * self._flat)
        return math.log(top) - steps * self.epsilon

    def score(self, x: ArrayLike) -> Array:
        """0 (see `fisher_information` before using it)."""
        return np.zeros(as_array(x, "x").shape)

    def curvature(self, x: ArrayLike) -> Array:
        return np.zeros(as_array(x, "x").shape)

    def cdf(self, x: ArrayLike) -> Array:
        """½ b^k (b + (1 − b)·rest(t)) left of 0, |x| = (k + t)Δ, rest the part beyond t."""
        x = as_array(x, "x")
        b = math.exp(-self.epsilon)
        gamma = self._gamma
        size = np.abs(x) / self.sensitivity
        stair = np.floor(size)
        t = size - stair
        rest = np.where(t < gamma, gamma - t + b * (1 - gamma), b * (1 - t)) / self._flat
        tail = 0.5 * np.exp(-stair * self.epsilon) * (b - math.expm1(-self.epsilon) * rest)
        return np.where(x < 0, tail, 1 - tail)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Sign, stair (geometric), part of the stair, and place in it."""
        gamma = self._gamma
        # The stair: P(k) = (1 − b) b^k, from an exponential (exact for tiny ε too).
        stair = np.floor(as_generator(rng).standard_exponential(size) / self.epsilon)
        first = rng.random(size) < gamma / self._flat
        place = rng.random(size)
        within = np.where(first, gamma * place, gamma + (1 - gamma) * place)
        sign = np.where(rng.random(size) < 0.5, -1.0, 1.0)
        return np.asarray(sign * (stair + within) * self.sensitivity)

    @property
    def landmarks(self) -> tuple[float, ...]:
        return self.jumps

    @property
    def jumps(self) -> tuple[float, ...]:
        """±(k + γ)Δ for k = 0, …, 31: the innermost ones of infinitely many."""
        right = [(k + self._gamma) * self.sensitivity for k in range(JUMPS_LISTED)]
        return (*(-p for p in reversed(right)), *right)

    @property
    def variance(self) -> float:
        """Δ² (E k² + E k·E 2t + E t²), k geometric, t the place in the stair (independent).

        E k = b/(1 − b), E k² = b(1 + b)/(1 − b)²; t has density ∝ 1 on (0, γ) and ∝ b on (γ, 1).
        """
        b = math.exp(-self.epsilon)
        gamma = self._gamma
        c = self._flat
        gone = -math.expm1(-self.epsilon)
        mean_k = b / gone
        square_k = b * (1 + b) / gone**2
        mean_t = (gamma**2 + b * (1 - gamma**2)) / (2 * c)
        square_t = (gamma**3 + b * (1 - gamma**3)) / (3 * c)
        return self.sensitivity**2 * (square_k + 2 * mean_k * mean_t + square_t)

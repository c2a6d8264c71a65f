"""Scores ψ for estimates θ̂ that solve Σ ψ(y_k − H_kθ̂) H_kᵀ = 0, and what they cost.

One measurement moves the estimate by ψ'(residual), so a release θ̂ + d with tr I_z(Y) = s has, for
large K, the mean-square error J(ψ)·(ΣH_kᵀH_k)⁻¹ with

    J(ψ) = (E ψ² + λ E ψ'²) / (E ψ')² ,

λ = n/s for the paper's noise shape (docs/theory.md 7). Maximum likelihood is ψ = −l', least squares
ψ(x) = x; `_optimal_score` minimises J.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.errors import InvalidInput
from privest.noise import ScalarLaw


class Terms(NamedTuple):
    """∫ψ, ψ and ψ' at the residuals."""

    integral: Array
    value: Array
    slope: Array


@dataclass(frozen=True)
class Moments:
    """E ψ², E ψ', E ψ'² under the law of the noise."""

    square: float
    slope: float
    slope_square: float


class Score(ABC):
    """ψ for one noise law, with E ψ(w) = 0 and E ψ' > 0."""

    law: ScalarLaw

    @abstractmethod
    def terms(self, x: Array) -> Terms:
        """∫ψ, ψ, ψ' at x, elementwise."""

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """E ψ², E ψ', E ψ'²."""

    @property
    def monotone(self) -> bool:
        """Whether ψ never falls: then the estimating equation has one root."""
        return False

    @property
    def linear(self) -> tuple[float, float] | None:
        """(slope, root) for a straight line: the estimate is then least squares."""
        return None

    def __call__(self, x: ArrayLike) -> Array:
        return self.value(as_array(x, "x"))

    def value(self, x: Array) -> Array:
        """ψ alone: what the last steps on very many rows need."""
        return self.terms(x).value

    def slope(self, x: ArrayLike) -> Array:
        """ψ'(x)."""
        return self.terms(as_array(x, "x")).slope

    def bend(self, x: Array) -> Array:
        """ψ''(x), by central differences of ψ' unless the score knows better."""
        step = 1e-4 * float(np.ptp(self.law.quantile([0.25, 0.75])))
        return (self.slope(x + step) - self.slope(x - step)) / (2 * step)

    @property
    def sampling(self) -> float:
        """E ψ²/(E ψ')²: the estimate's own error, in units of (ΣHᵀH)⁻¹."""
        return self.moments.square / self.moments.slope**2

    @property
    def sensitivity(self) -> float:
        """E ψ'²/(E ψ')² ≥ 1: the noise that a budget costs, relative to least squares."""
        return self.moments.slope_square / self.moments.slope**2

    def cost(self, weight: float) -> float:
        """J(ψ) for λ = `weight`."""
        return self.sampling + as_positive(weight, "λ") * self.sensitivity


@dataclass(frozen=True)
class LinearScore(Score):
    """ψ = x − c: least squares on y − c, c = E w. Optimal for Gaussian noise at every λ."""

    law: ScalarLaw

    @property
    def _centre(self) -> float:
        mean = self.law.mean
        if not math.isfinite(mean):
            raise InvalidInput(f"{self.law!r} has no mean: least squares estimates nothing.")
        return mean

    def terms(self, x: Array) -> Terms:
        off = x - self._centre
        return Terms(off**2 / 2, off, np.ones(x.shape))

    def bend(self, x: Array) -> Array:
        return np.zeros(x.shape)

    @property
    def moments(self) -> Moments:
        return Moments(self.law.variance, 1.0, 1.0)

    @property
    def monotone(self) -> bool:
        return True

    @property
    def linear(self) -> tuple[float, float]:
        return 1.0, self._centre


class BoundedScore(Score):
    """ψ₀(x) = (x − c)/√(1 + (x − c)²/q²), q half the law's interquartile range, E ψ₀(w) = 0.

    Convex, bounded, and unbiased for every law: where other scores start.
    """

    def __init__(self, law: ScalarLaw) -> None:
        self.law = law
        low, middle, high = law.quantile([0.25, 0.5, 0.75]).tolist()
        self.q, self.centre = (high - low) / 2, middle

        def mean(centre: float) -> float:
            return law.expect(lambda x: (x - centre) / np.hypot(1.0, (x - centre) / self.q)).value

        # At the median of a symmetric law the mean is all rounding, and has no sign to trust.
        if abs(mean(middle)) > 1e-9 * self.q:
            self.centre = float(scipy.optimize.brentq(mean, low - 4 * self.q, high + 4 * self.q))

    def terms(self, x: Array) -> Terms:
        off = (x - self.centre) / self.q
        long = np.hypot(1.0, off)
        return Terms(self.q**2 * long, self.q * off / long, long**-3.0)

    @cached_property
    def moments(self) -> Moments:
        square = self.law.expect(lambda x: self.terms(x).value ** 2)
        slope = self.law.expect(lambda x: self.terms(x).slope)
        slope_square = self.law.expect(lambda x: self.terms(x).slope ** 2)
        return Moments(square.value, slope.value, slope_square.value)

    @property
    def monotone(self) -> bool:
        return True


@lru_cache(maxsize=64)
def _bounded_score(law: ScalarLaw) -> BoundedScore:
    return BoundedScore(law)


def bounded_score(law: ScalarLaw) -> BoundedScore:
    """The bounded score of a law, made once where the law can be remembered (is hashable)."""
    try:
        return _bounded_score(law)
    except TypeError:
        return BoundedScore(law)

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

from privest.arrays import Array, ArrayLike, as_array, as_positive, as_scale
from privest.errors import InvalidInput
from privest.estimator.likelihood import Likelihood, likelihood_of
from privest.mechanism._additive import Additive
from privest.noise import GaussianLaw, ScalarLaw


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

    @cached_property
    def moments(self) -> Moments:
        """E ψ², E ψ', E ψ'², by quadrature unless the score knows better."""
        square = self.law.expect(lambda x: self.terms(x).value ** 2)
        slope = self.law.expect(lambda x: self.terms(x).slope)
        slope_square = self.law.expect(lambda x: self.terms(x).slope ** 2)
        return Moments(square.value, slope.value, slope_square.value)

    @property
    def monotone(self) -> bool:
        """Whether ψ never falls: then the estimating equation has one root."""
        return False

    @property
    def linear(self) -> tuple[float, float] | None:
        """(slope, root) for a straight line: the estimate is then least squares."""
        return None

    @cached_property
    def one_root(self) -> bool:
        """Whether ψ is finite and never falls, whatever the residual: the estimate never jumps.

        Where the score does not know: at 4000 points of the law and on to 10⁸ of its widths.
        """
        if self.monotone or self.linear is not None:
            return True
        found = self._far_and_wide
        falls = -1e-9 * self.moments.slope_square / self.moments.slope
        return self.everywhere and bool((found.slope >= falls).all())

    @cached_property
    def everywhere(self) -> bool:
        """Whether ψ and ψ' are finite for every residual (looked at where `one_root` looks)."""
        found = self._far_and_wide
        return bool(np.isfinite(found.value).all() and np.isfinite(found.slope).all())

    @property
    def _far_and_wide(self) -> Terms:
        within = self.law.quantile((np.arange(4000) + 0.5) / 4000)
        low, middle, high = self.law.quantile([0.25, 0.5, 0.75])
        beyond = (high - low) * np.geomspace(1e-2, 1e8, 500)
        with np.errstate(all="ignore"):
            return self.terms(np.concatenate([middle - beyond, within, middle + beyond]))

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

    @cached_property
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


# --- maximum likelihood, and its smoothed version for laws with kinks or jumps --------------------


@dataclass(frozen=True)
class LikelihoodScore(Score):
    """ψ = −l': maximum likelihood, the paper's choice (`algo:mult`).

    J = (I + λ E l''²)/I². Needs E l''² < ∞: a continuous density and score.
    """

    law: ScalarLaw

    def __post_init__(self) -> None:
        if not math.isfinite(self.law.fisher_information):
            raise InvalidInput(
                f"the density of {self.law!r} jumps: maximum likelihood has no finite sensitivity. "
                "Use OptimalScoreRelease."
            )
        if not math.isfinite(self.law.expected_squared_curvature):
            raise InvalidInput(
                f"the score of {self.law!r} jumps or its curvature has no finite square: E l''² = "
                "∞, and the release noise of algo:mult does not exist. Use OptimalScoreRelease, or "
                "give a bandwidth to smooth the likelihood."
            )

    def terms(self, x: Array) -> Terms:
        return Terms(-self.law.logpdf(x), -self.law.score(x), -self.law.curvature(x))

    @cached_property
    def moments(self) -> Moments:
        information = self.law.fisher_information
        return Moments(information, information, self.law.expected_squared_curvature)

    @property
    def linear(self) -> tuple[float, float] | None:
        if isinstance(self.law, GaussianLaw):
            return 1 / self.law.variance, self.law.loc
        return None


class SmoothedLikelihoodScore(Score):
    """ψ = −(ln f_h)' − c, f_h the law's density smoothed by N(0, h²): `algo:mult` for any law.

    The moments are those under the law itself, c = E −(ln f_h)' makes the equation unbiased.
    As h → 0 it becomes maximum likelihood; for a Laplacian λE ψ'² then grows like 1/h.
    """

    def __init__(self, law: ScalarLaw, bandwidth: float) -> None:
        self.law = law
        self.bandwidth = as_scale(bandwidth, "bandwidth")
        self._smooth: Likelihood = likelihood_of(Additive(law), self.bandwidth**2)
        self._centre = law.expect(lambda x: self._raw(x).value).value

    def __repr__(self) -> str:
        return f"SmoothedLikelihoodScore({self.law!r}, bandwidth={self.bandwidth:g})"

    def _raw(self, x: Array) -> Terms:
        found = self._smooth(x.reshape(1, -1), np.zeros((1, x.size)))
        return Terms(*(t.reshape(x.shape) for t in (-found.value, found.slope, found.curvature)))

    def terms(self, x: Array) -> Terms:
        raw = self._raw(x)
        return Terms(raw.integral - self._centre * x, raw.value - self._centre, raw.slope)


def best_bandwidth(law: ScalarLaw, weight: float) -> float:
    """The h at which the smoothed likelihood costs least for λ = `weight` (a public number).

    Looked for between 1e-4 and 10 interquartile ranges. Cost: some 20 scores; 0.1 s for a
    Laplacian, seconds for laws whose convolution with a Gaussian has no closed form.
    """
    width = float(np.ptp(law.quantile([0.25, 0.75])))

    def cost(log_h: float) -> float:
        return SmoothedLikelihoodScore(law, math.exp(log_h)).cost(weight)

    near = math.log(width) + np.log([1e-4, 10.0])
    found = scipy.optimize.minimize_scalar(
        cost, bounds=tuple(near), method="bounded", options={"xatol": 1e-3}
    )
    return math.exp(float(found.x))

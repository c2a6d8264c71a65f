"""Scores ψ of estimates θ̂ with Σ ψ(y_k − H_kθ̂) H_kᵀ = 0, and their cost under a privacy budget.

A release θ̂ + d with tr I_z(Y) = s has, for large K, the mean-square error J(ψ)·(ΣH_kᵀH_k)⁻¹ with

    J(ψ) = (E ψ² + λ E ψ'²) / (E ψ')² ,

λ = n/s for the paper's noise shape (theory.md 7). Maximum likelihood is ψ = −l', least squares
ψ(x) = x − c; the optimal score minimises J.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, as_positive, as_scale
from privest.errors import InvalidInput
from privest.estimator.likelihood import Likelihood, likelihood_of
from privest.mechanism import Additive
from privest.noise import Distribution, Gaussian
from privest.noise.numerics.weighted import as_polynomials, least_score

ROUNDING = 1e-9  # of the steepest slope: a slope below it at the ends is rounding of a level ψ


class Terms(NamedTuple):
    """∫ψ, ψ and ψ' at the residuals."""

    integral: Array
    value: Array
    slope: Array


class Moments(NamedTuple):
    """E ψ², E ψ', E ψ'² under the distribution of the noise."""

    square: float
    slope: float
    slope_square: float


class Score(ABC):
    """ψ for one noise distribution, with E ψ(w) = 0 and E ψ' > 0."""

    law: Distribution

    @abstractmethod
    def terms(self, x: Array) -> Terms:
        """∫ψ, ψ, ψ' at x, elementwise."""

    @cached_property
    def moments(self) -> Moments:
        square = self.law.expect(lambda x: self.terms(x).value ** 2)
        slope = self.law.expect(lambda x: self.terms(x).slope)
        slope_square = self.law.expect(lambda x: self.terms(x).slope ** 2)
        return Moments(square.value, slope.value, slope_square.value)

    @cached_property
    def bounded(self) -> BoundedScore:
        return BoundedScore(self.law)

    @cached_property
    def one_root(self) -> bool:
        """Whether ψ is finite and never falls (at 4000 quantiles and on to 10⁸ interquartile
        ranges), so that the estimating equation has one root and the estimate never jumps.
        """
        within = self.law.quantile((np.arange(4000) + 0.5) / 4000)
        low, middle, high = self.law.quantile([0.25, 0.5, 0.75])
        beyond = (high - low) * np.geomspace(1e-2, 1e8, 500)
        with np.errstate(all="ignore"):
            found = self.terms(np.concatenate([middle - beyond, within, middle + beyond]))
        falls = -1e-9 * self.moments.slope_square / self.moments.slope
        finite = np.isfinite(found.value).all() and np.isfinite(found.slope).all()
        return bool(finite and (found.slope >= falls).all())

    def __call__(self, x: Array) -> Array:
        """ψ(x)."""
        return self.terms(x).value

    def slope(self, x: Array) -> Array:
        """ψ'(x)."""
        return self.terms(x).slope

    @property
    def sampling(self) -> float:
        """E ψ²/(E ψ')²: the estimate's own error, in units of (ΣHᵀH)⁻¹."""
        return self.moments.square / self.moments.slope**2

    @property
    def sensitivity(self) -> float:
        """E ψ'²/(E ψ')² ≥ 1: the noise for a budget, relative to least squares."""
        return self.moments.slope_square / self.moments.slope**2

    def cost(self, weight: float) -> float:
        """J(ψ) for λ = `weight`."""
        return self.sampling + as_positive(weight, "λ") * self.sensitivity


class LinearScore(Score):
    """ψ = x − c: least squares on y − c, c = E w. Optimal for Gaussian noise at every λ."""

    one_root = True

    def __init__(self, law: Distribution) -> None:
        if not math.isfinite(law.variance):
            raise InvalidInput(
                f"{law!r} has no finite variance: the error of least squares would be infinite. "
                "Use score='optimal' or 'one_step'."
            )
        self.law, self.centre = law, law.mean
        self.moments = Moments(law.variance, 1.0, 1.0)

    def terms(self, x: Array) -> Terms:
        off = x - self.centre
        return Terms(off**2 / 2, off, np.ones(x.shape))


class BoundedScore(Score):
    """ψ₀(x) = (x − c)/√(1 + (x − c)²/q²), q half the interquartile range, c with E ψ₀(w) = 0.

    Bounded, with one root, and unbiased for every distribution: where the other scores start.
    """

    one_root = True

    def __init__(self, law: Distribution) -> None:
        self.law = law
        low, middle, high = law.quantile([0.25, 0.5, 0.75]).tolist()
        self.q, self.centre = (high - low) / 2, middle

        def mean(centre: float) -> float:
            return law.expect(lambda x: (x - centre) / np.hypot(1.0, (x - centre) / self.q)).value

        # At the median of a symmetric law the mean is rounding.
        if abs(mean(middle)) > 1e-9 * self.q:
            self.centre = float(scipy.optimize.brentq(mean, low - 4 * self.q, high + 4 * self.q))

    def terms(self, x: Array) -> Terms:
        off = (x - self.centre) / self.q
        long = np.hypot(1.0, off)
        return Terms(self.q**2 * long, self.q * off / long, long**-3.0)


# --- maximum likelihood (`algo:mult`) -------------------------------------------------------------


class LikelihoodScore(Score):
    """ψ = −l': maximum likelihood (`algo:mult`), J = (I + λ E l''²)/I². Needs E l''² < ∞."""

    def __init__(self, law: Distribution) -> None:
        if not math.isfinite(law.fisher_information):
            raise InvalidInput(
                f"the density of {law!r} jumps: maximum likelihood has no finite sensitivity. "
                "Use score='optimal'."
            )
        if not math.isfinite(law.expected_squared_curvature):
            raise InvalidInput(
                f"the score of {law!r} jumps or its curvature has no finite square: E l''² = ∞, "
                "and the release noise of algo:mult does not exist. Use score='optimal', or give "
                "a bandwidth to smooth the likelihood."
            )
        self.law, information = law, law.fisher_information
        self.moments = Moments(information, information, law.expected_squared_curvature)

    def terms(self, x: Array) -> Terms:
        return Terms(-self.law.logpdf(x), -self.law.score(x), -self.law.curvature(x))


class SmoothedLikelihoodScore(Score):
    """ψ = −(ln f_h)' − c, f_h the density smoothed by N(0, h²), c with E ψ = 0.

    `algo:mult` for every density; for a Laplacian λE ψ'² grows like 1/h as h → 0.
    """

    def __init__(self, law: Distribution, bandwidth: float) -> None:
        self.law, self.bandwidth = law, as_scale(bandwidth, "bandwidth")
        self._smooth: Likelihood = likelihood_of(Additive(law), self.bandwidth**2)
        self._centre = law.expect(lambda x: self._raw(x).value).value

    def _raw(self, x: Array) -> Terms:
        found = self._smooth(x.reshape(1, -1), np.zeros((1, x.size)))
        return Terms(*(t.reshape(x.shape) for t in (-found.value, found.slope, found.curvature)))

    def terms(self, x: Array) -> Terms:
        raw = self._raw(x)
        return Terms(raw.integral - self._centre * x, raw.value - self._centre, raw.slope)


def likelihood_score(law: Distribution, weight: float, bandwidth: float | str | None) -> Score:
    """Maximum likelihood, smoothed by `bandwidth`; "best": that of least J for λ."""
    if isinstance(bandwidth, str):
        if bandwidth != "best":
            raise InvalidInput(f"bandwidth is a number or 'best'; received {bandwidth!r}.")
        return SmoothedLikelihoodScore(law, _best_bandwidth(law, weight))
    if bandwidth is not None:
        return SmoothedLikelihoodScore(law, bandwidth)
    return LinearScore(law) if isinstance(law, Gaussian) else LikelihoodScore(law)


def _best_bandwidth(law: Distribution, weight: float) -> float:
    """The h of least J, between 1e-4 and 10 interquartile ranges."""
    width = float(np.ptp(law.quantile([0.25, 0.75])))
    found = scipy.optimize.minimize_scalar(
        lambda log_h: SmoothedLikelihoodScore(law, math.exp(log_h)).cost(weight),
        bounds=tuple(math.log(width) + np.log([1e-4, 10.0])),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return math.exp(float(found.x))


# --- the score of least J -------------------------------------------------------------------------


def optimal_score(law: Distribution, weight: float) -> Score:
    """The ψ of least J(ψ) = (E ψ² + λ E ψ'²)/(E ψ')² for λ = `weight`.

        ψ − λ(ψ'' + (f'/f)ψ') = −f'/f ,     J* = 1/E ψ'   (ψ in these units)

    The density may have kinks, jumps, finite ends or heavy tails. For Gaussian noise ψ is a
    straight line, J* = σ² + λ; else spectral elements, relative error of J* near 1e-12, 10 ms.
    """
    return LinearScore(law) if isinstance(law, Gaussian) else NumericalScore(law, weight)


class NumericalScore(Score):
    """The optimal score of any distribution (`least_score`); `error`: relative, of J*."""

    def __init__(self, law: Distribution, weight: float) -> None:
        self.law = law
        found = least_score(law, weight)
        self.moments = Moments(found.square, found.slope, found.slope_square)
        self.error = found.error / found.slope
        psi = as_polynomials(found)
        slope, integral = psi.derivative(), _integral(psi, float(law.quantile(0.5)))
        self._ends = psi.x[0], psi.x[-1]
        self._least_slope = ROUNDING * float(np.abs(slope(psi.x)).max())
        self._all = scipy.interpolate.PPoly(
            np.stack([_padded(p, len(integral.c)) for p in (integral, psi, slope)], axis=-1), psi.x
        )

    def terms(self, x: Array) -> Terms:
        inside = np.clip(x, *self._ends)
        found = self._all(inside)
        integral, value, slope = found[..., 0], found[..., 1], found[..., 2]
        beyond = x - inside
        if beyond.any():  # beyond the elements ψ is a straight line, and never falls
            level = (beyond != 0) & (slope < self._least_slope)
            slope = np.where(level, 0.0, slope)
            integral = integral + beyond * (value + beyond * slope / 2)
            value = value + beyond * slope
        return Terms(integral, value, slope)


def _integral(psi: scipy.interpolate.PPoly, origin: float) -> scipy.interpolate.PPoly:
    """∫ψ, zero at the knot next to `origin`, summed outwards: heavy tails reach 1e30 widths."""
    c = psi.antiderivative().c.copy()
    c[-1] = 0.0
    width = np.diff(psi.x)
    areas = np.polynomial.polynomial.polyval(width, c[::-1], tensor=False)
    here = int(np.searchsorted(psi.x, origin))
    c[-1, here:] = np.cumsum(np.concatenate([[0.0], areas[here:-1]]))
    c[-1, :here] = -np.cumsum(areas[:here][::-1])[::-1]
    return scipy.interpolate.PPoly(c, psi.x)


def _padded(pieces: scipy.interpolate.PPoly, length: int) -> Array:
    missing = length - len(pieces.c)
    return np.concatenate([np.zeros((missing, pieces.c.shape[1])), pieces.c])

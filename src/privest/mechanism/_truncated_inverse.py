"""Multiplicative noise 1/g with stochastic truncation near zero (`remark:truncation`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import scipy

from privest.arrays import Array, as_positive
from privest.errors import NotCalibratable
from privest.mechanism._multiplicative import Inverse, Noise, check_noise, outside, ratio
from privest.mechanism._truncation import LN2, StochasticTruncation
from privest.noise import GaussianLaw, Laplace, Quadrature


@dataclass(frozen=True)
class TruncatedInverse(StochasticTruncation):
    """z = v/g with v = u outside (−ε, ε) and v = ±ε with probabilities (ε ± u)/2ε inside.

    ε = threshold, t = u/ε:

        outside  as `Inverse`: I = j/u²
        inside   I = E[h²/(1 − t²h²)]/ε² ,   h = tanh(½ ln f(g−1)/f(−g−1)) , g as drawn
        sup      max(j, k)/ε² ,   k = (E[f(−g−1)²/f(g−1)²] − 1)/4
                 Gaussian  j = 2 + 1/σ² ,  k = (e^{4/σ²} − 1)/4
                 Laplace   j = 1 + 1/b² ,  k = (⅔e^{2/b} + ⅓e^{−4/b} − 1)/4

    Derivation: `_truncation`. **Trap:** for σ < 1.281 (b < 0.650) the limit inside is the larger
    one, and for small σ no grid comes near it.
    h: Gaussian tanh(g/σ²); Laplace tanh(clip(g, ±1)/b), for which with X = sinh(1/b), κ = 1 − t²

        E[h²/(1−t²h²)] = e^{−1/b}(X/κ − arctan(X√κ)/κ^{3/2}) + ½(1 + e^{−2/b}) X²/(1 + κX²)

    Gaussian: trapezoidal rule; poles at distance πσ²/2 from the line, steps of σ²/4: error e^-39.
    E z does not exist; 1/z is unbiased for 1/u outside only. No finite ε of differential privacy.

    >>> channel = TruncatedInverse(GaussianLaw(variance=4.0), threshold=0.5)
    >>> channel.worst  # (2 + 1/4)/0.25 against (e − 1)/4/0.25 = 1.72
    Worst(information=9.0, at=0.5, attained=True)
    >>> TruncatedInverse.calibrated(4.0, noise=GaussianLaw(variance=4.0)).threshold
    0.75
    """

    noise: Noise
    threshold: float

    def __post_init__(self) -> None:
        check_noise(self.noise)
        object.__setattr__(self, "threshold", as_positive(self.threshold, "threshold"))

    @property
    def plain(self) -> Inverse:
        return Inverse(self.noise)

    @property
    def largest(self) -> float:
        return largest(self.noise)

    def log_odds(self, z: Array) -> Array:
        return log_odds(self.noise, ratio(z, np.asarray(self.threshold))[0])

    def inside(self, t: Array) -> Array:
        return mixture_information(self.noise, t)

    def information_estimate(self, u: float) -> Quadrature:
        value = float(self.information(u))
        numerical = abs(u) < self.threshold and isinstance(self.noise, GaussianLaw)
        return Quadrature(value, 1e-12 * value if numerical else 0.0)

    @classmethod
    def calibrated(  # type: ignore[override]
        cls,
        level: float,
        *,
        noise: Noise | None = None,
        law: type[Noise] = GaussianLaw,
        smallest: float | None = None,
    ) -> Self:
        """The least threshold that keeps I ≤ level: ε = √(max(j, k)/level).

        The width of the noise is free. Given a `noise`: that one. Else by `law`, for readings
        known to be at least `smallest` in size: the least noise with ε ≤ smallest, so that they
        pass untruncated with the most information. Else the width at which both suprema agree
        (σ = 1.281, b = 0.650): more noise lowers the information j/u² of every reading outside;
        less of it makes ε grow like e^{2/σ²}, while the level is reached only at the edge, inside.
        """
        s = as_positive(level, "level")
        if noise is None:
            noise = balanced(law) if smallest is None else _least_noise(law, s, smallest)
        check_noise(noise)
        if not math.isfinite(largest(noise)):
            raise NotCalibratable(
                f"with {noise!r} the threshold would leave the range of double precision (it "
                "grows like the exponential of 1/noise): take more noise."
            )
        return cls(noise, math.sqrt(largest(noise) / s))


def log_odds(noise: Noise, g: Array) -> Array:
    """ln f(g − 1)/f(−g − 1), what z = ε/g says for +ε against −ε."""
    if isinstance(noise, GaussianLaw):
        return np.asarray(2.0 * g / noise.variance)
    return np.asarray(2.0 * np.clip(g, -1.0, 1.0) / noise.scale)


def inside_edge(noise: Noise) -> float:
    """k, the information inside at |u| → ε, for ε = 1.

    Laplace, with p = e^{−2/b}: (1 − p)²(2 + p)/12p, the form that does not cancel.
    """
    with np.errstate(over="ignore"):
        if isinstance(noise, GaussianLaw):
            return float(np.expm1(4.0 / noise.variance) / 4.0)
        w = 2.0 / noise.scale
        return float(np.expm1(-w) ** 2 * (2.0 + math.exp(-w)) * np.exp(w) / 12.0)


def largest(noise: Noise) -> float:
    """max(j, k): the supremum for ε = 1."""
    return max(outside(noise), inside_edge(noise))


def mixture_information(noise: Noise, t: Array) -> Array:
    """E[h²/(1 − t²h²)] for |t| < 1: the information inside for ε = 1. O(len(t)/σ²) time."""
    kappa = (1.0 - t) * (1.0 + t)
    if isinstance(noise, Laplace):
        b = noise.scale
        x = math.sinh(min(1.0 / b, 300.0))  # beyond, w > 1e100 and x drops out in doubles
        w = np.sqrt(kappa) * x
        near = np.minimum(w, 0.05) ** 2  # (w − arctan w)/w³ by its series, where it cancels
        series = 1 / 3 - near * (1 / 5 - near * (1 / 7 - near * (1 / 9 - near * (1 / 11))))
        far = (1.0 - np.arctan(w) / np.maximum(w, 0.05)) / kappa
        within = -0.5 * math.expm1(-2.0 / b) * np.where(w < 0.05, x**2 * series, far)
        beyond = 0.5 * (1.0 + math.exp(-2.0 / b)) / (x**-2 + kappa)
        return np.asarray(within + beyond)
    variance = noise.variance
    deviation = math.sqrt(variance)
    step = min(deviation / 3.0, variance / 4.0)
    g = step * np.arange(1, math.ceil((3.0 + 9.0 * deviation) / step) + 1)
    weight = np.logaddexp(noise.logpdf(g - 1.0), noise.logpdf(-g - 1.0)) + math.log(step)
    log_sinh = g / variance - LN2 + np.log(-np.expm1(-2.0 * g / variance))
    # h²/(1 − t²h²) = 1/(κ + 1/sinh²)
    terms = weight - np.logaddexp(np.log(kappa)[..., None], -2.0 * log_sinh)
    return np.asarray(np.exp(terms).sum(axis=-1))


@cache
def balanced(law: type[Noise]) -> Noise:
    """The width at which the suprema inside and outside agree: σ = 1.2810, b = 0.6502.

    >>> round(balanced(GaussianLaw).variance ** 0.5, 3), round(balanced(Laplace).scale, 3)
    (1.281, 0.65)
    """
    return _solved(law, lambda noise: math.log(inside_edge(noise) / outside(noise)))


def _least_noise(law: type[Noise], level: float, smallest: float) -> Noise:
    wanted = level * as_positive(smallest, "smallest") ** 2
    floor = 2.0 if law is GaussianLaw else 1.0
    if wanted <= floor:
        raise NotCalibratable(
            f"readings of size {smallest:g} cannot pass untruncated at level {level:g}: the "
            f"information j/u² of u/g is at least {floor:g}/u² for all noise."
        )
    return _solved(law, lambda noise: math.log(largest(noise) / wanted))


def _solved(law: type[Noise], excess: Callable[[Noise], float]) -> Noise:
    """The noise of the family at which a decreasing function of its width is zero."""

    def made(log_width: float) -> Noise:
        width = math.exp(log_width)
        return GaussianLaw(width**2) if law is GaussianLaw else Laplace(width)

    least = -2.5 if law is GaussianLaw else -5.8  # k is about e^600 there
    if excess(made(least)) <= 0:
        return made(least)
    return made(scipy.optimize.brentq(lambda w: excess(made(w)), least, 40.0, xtol=1e-15))

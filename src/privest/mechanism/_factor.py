"""Information of z = Dv about v, for a random factor D of any distribution, density f; l = ln f.

    j      E(1 + D l'(D))²             I = j/v²
    k      (∫ f(−x)²/f(x) dx − 1)/4    of a truncated factor at the edge, from inside
    i(t)   E[h²/(1 − t²h²)]            inside; h = tanh(½ ln f(D)/f(−D))

All three are the same for D, cD and 1/D: u/(1 + d) and a D of mean m ≠ 0 share closed forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

from privest.arrays import Array
from privest.noise import Affine, Distribution, Gaussian, Laplace, Quadrature

Noise = Gaussian | Laplace
LN2 = math.log(2.0)


def closed_form(law: Distribution) -> ClosedForm | None:
    """For a Gaussian or Laplace factor of mean m ≠ 0; None for any other."""
    if isinstance(law, Gaussian) and law.mean != 0:
        return ClosedForm(Gaussian(law.variance / law.mean**2))
    if isinstance(law, Affine) and isinstance(law.law, Laplace) and law.shift != 0:
        return ClosedForm(Laplace(abs(law.law.scale * law.scale / law.shift)))
    return None


def outside(law: Distribution) -> Quadrature:
    """j; inf where the density jumps at a D ≠ 0: in z such a jump moves with u."""
    form = closed_form(law)
    if form is not None:
        return Quadrature(form.outside, 0.0)
    if any(point != 0 for point in law.jumps):
        return Quadrature(math.inf, 0.0)
    return law.expect(lambda d: (1.0 + d * law.score(d)) ** 2)


@dataclass(frozen=True)
class ClosedForm:
    """D = m(1 + d) or 1/(1 + d), d ~ N(0, σ²) or Laplace(b).

        Gaussian  j = 2 + 1/σ² ,  k = (e^{4/σ²} − 1)/4 ,                     h = tanh(g/σ²)
        Laplace   j = 1 + 1/b² ,  k = (⅔e^{2/b} + ⅓e^{−4/b} − 1)/4 ,         h = tanh(clip(g, ±1)/b)

    g = 1 + d. With X = sinh(1/b), κ = 1 − t², Laplace:

        i(t) = e^{−1/b}(X/κ − arctan(X√κ)/κ^{3/2}) + ½(1 + e^{−2/b}) X²/(1 + κX²)

    Gaussian: trapezoidal rule in steps of σ²/4, error e^-39 (poles πσ²/2 from the line).
    """

    noise: Noise

    @property
    def outside(self) -> float:
        """j."""
        if isinstance(self.noise, Gaussian):
            return 2.0 + 1.0 / self.noise.variance
        return 1.0 + 1.0 / self.noise.scale**2

    @property
    def edge(self) -> float:
        """k."""
        with np.errstate(over="ignore"):
            if isinstance(self.noise, Gaussian):
                return float(np.expm1(4.0 / self.noise.variance) / 4.0)
            w = 2.0 / self.noise.scale  # with p = e^{−w}: (1 − p)²(2 + p)/12p does not cancel
            return float(np.expm1(-w) ** 2 * (2.0 + math.exp(-w)) * np.exp(w) / 12.0)

    @property
    def largest(self) -> float:
        return max(self.outside, self.edge)

    def inside(self, t: Array) -> Array:
        """i(t), |t| < 1."""
        kappa = (1.0 - t) * (1.0 + t)
        if isinstance(self.noise, Laplace):
            b = self.noise.scale
            x = math.sinh(min(1.0 / b, 300.0))  # beyond, w > 1e100 and x drops out in doubles
            w = np.sqrt(kappa) * x
            near = np.minimum(w, 0.05) ** 2  # (w − arctan w)/w³ by its series, where it cancels
            series = 1 / 3 - near * (1 / 5 - near * (1 / 7 - near * (1 / 9 - near * (1 / 11))))
            far = (1.0 - np.arctan(w) / np.maximum(w, 0.05)) / kappa
            within = -0.5 * math.expm1(-2.0 / b) * np.where(w < 0.05, x**2 * series, far)
            beyond = 0.5 * (1.0 + math.exp(-2.0 / b)) / (x**-2 + kappa)
            return np.asarray(within + beyond)
        variance = self.noise.variance
        deviation = math.sqrt(variance)
        step = min(deviation / 3.0, variance / 4.0)
        g = step * np.arange(1, math.ceil((3.0 + 9.0 * deviation) / step) + 1)
        both = np.logaddexp(self.noise.logpdf(g - 1.0), self.noise.logpdf(-g - 1.0))
        log_sinh = g / variance - LN2 + np.log(-np.expm1(-2.0 * g / variance))
        # h²/(1 − t²h²) = 1/(κ + 1/sinh²)
        terms = both + math.log(step) - np.logaddexp(np.log(kappa)[..., None], -2.0 * log_sinh)
        return np.asarray(np.exp(terms).sum(axis=-1))


@cache
def balanced(kind: type[Noise]) -> Noise:
    """The noise at which the suprema inside and outside agree, j = k: σ = 1.2810, b = 0.6502.

    >>> round(balanced(Gaussian).variance ** 0.5, 3), round(balanced(Laplace).scale, 3)
    (1.281, 0.65)
    """

    def made(log_width: float) -> Noise:
        width = math.exp(log_width)
        return Gaussian(width**2) if kind is Gaussian else Laplace(width)

    def excess(log_width: float) -> float:
        form = ClosedForm(made(log_width))
        return math.log(form.edge / form.outside)

    least = -2.5 if kind is Gaussian else -5.8  # k is about e^600 there
    return made(scipy.optimize.brentq(excess, least, 40.0, xtol=1e-15))

"""Student's t: between Cauchy (one degree of freedom) and Gaussian (infinitely many)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_positive
from privest.noise._law import CentredLaw, Size, as_generator


@dataclass(frozen=True)
class StudentT(CentredLaw):
    """Student's t law; ν = df > 0 (any real), s = scale, z = x/s.

        f(x) ∝ (1 + z²/ν)^{−(ν+1)/2},   l' = −(ν + 1) z/(s(ν + z²))
        l'' = −((ν + 1)/νs²) u(2u − 1),   u = ν/(ν + z²) ~ Beta(ν/2, ½)
        variance = s² ν/(ν − 2) for ν > 2 (∞ for 1 < ν ≤ 2, NaN below)
        I = (ν + 1)/((ν + 3)s²),   E l''² = ((ν + 1)/νs²)² (4m₄ − 4m₃ + m₂),   m_k = E u^k

    >>> law = StudentT(df=3.0)
    >>> law.variance, round(law.fisher_information, 6)  # 3, 2/3
    (3.0, 0.666667)
    >>> StudentT(df=1.0).expected_squared_curvature  # as Cauchy: 7/8
    0.875
    """

    df: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", as_positive(self.df, "df"))
        object.__setattr__(self, "scale", as_positive(self.scale, "scale"))

    def _standard(self, x: ArrayLike) -> Array:
        return as_array(x, "x") / self.scale

    def logpdf(self, x: ArrayLike) -> Array:
        """−((ν + 1)/2) ln(1 + z²/ν) + ln Γ((ν+1)/2) − ln Γ(ν/2) − ½ ln νπ − ln s."""
        nu = self.df
        constant = _log_gamma_step(nu / 2) - 0.5 * math.log(nu * math.pi) - math.log(self.scale)
        return np.asarray(constant - (nu + 1) / 2 * np.log1p(self._standard(x) ** 2 / nu))

    def score(self, x: ArrayLike) -> Array:
        """−(ν + 1) z/(s(ν + z²))."""
        z = self._standard(x)
        return -(self.df + 1) * (z / (self.df + z**2)) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        """−((ν + 1)/νs²) u(2u − 1)."""
        u = self.df / (self.df + self._standard(x) ** 2)
        return -(self.df + 1) / self.df * u * (2 * u - 1) / self.scale**2

    def cdf(self, x: ArrayLike) -> Array:
        """Student's distribution function at z (regularised incomplete beta)."""
        return scipy.special.stdtr(self.df, self._standard(x))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Draw independent values."""
        return self.scale * as_generator(rng).standard_t(self.df, size)

    @property
    def mean(self) -> float:
        """0 for ν > 1, else NaN."""
        return 0.0 if self.df > 1 else math.nan

    @property
    def variance(self) -> float:
        """s² ν/(ν − 2) for ν > 2, ∞ for 1 < ν ≤ 2, NaN for ν ≤ 1."""
        if self.df <= 1:
            return math.nan
        return self.scale**2 * self.df / (self.df - 2) if self.df > 2 else math.inf

    @property
    def fisher_information(self) -> float:
        """(ν + 1)/((ν + 3)s²)."""
        return (self.df + 1) / (self.df + 3) / self.scale**2

    @property
    def expected_squared_curvature(self) -> float:
        """((ν + 1)/νs²)² (4m₄ − 4m₃ + m₂), m_{k+1} = m_k (ν/2 + k)/(ν/2 + ½ + k)."""
        a = self.df / 2
        moment = [1.0]
        for k in range(4):
            moment.append(moment[k] * (a + k) / (a + 0.5 + k))
        square = 4 * moment[4] - 4 * moment[3] + moment[2]
        return ((self.df + 1) / self.df) ** 2 * square / self.scale**4

    def _scaled_in_family(self, c: float) -> StudentT:
        return replace(self, scale=abs(c) * self.scale)


def _log_gamma_step(z: float) -> float:
    """ln Γ(z + ½) − ln Γ(z).

    From z = 40 on by its asymptotic series (first term left out < 1e-17): the difference of two
    log-gammas would lose ε·z·ln z, that is all digits of the density for a million degrees.
    """
    if z < 40:
        return math.lgamma(z + 0.5) - math.lgamma(z)
    w = 1 / z**2
    return 0.5 * math.log(z) - (1 / 8 - w * (1 / 192 - w * (1 / 640 - w * 17 / 14336))) / z

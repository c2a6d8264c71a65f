"""Distributions on the whole line: Gaussian, Laplace, logistic, Cauchy, Student, mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array, as_generator, as_number
from privest.errors import InvalidInput
from privest.noise.distribution import CentredLaw, Size, as_scale, as_width


@dataclass(frozen=True)
class Gaussian(CentredLaw):
    """Gaussian noise N(mean, cov): of one number, or of a vector.

        f(x) = e^{−(x − μ)²/2v} / √(2πv),   l' = −(x − μ)/v,   l'' = −1/v
        I = 1/v,   E l''² = 1/v²

    A number v = cov > 0 (a variance) is the distribution of one number, used for every
    measurement. A vector (diagonal), a matrix, or 0 makes a joint distribution, singular or not.

    >>> law = Gaussian(cov=4.0)
    >>> law.fisher_information, law.expected_squared_curvature, float(law.score(2.0))
    (0.25, 0.0625, -0.5)
    >>> 1 + law / 2
    Gaussian(cov=1.0, mean=1.0)
    """

    cov: float = 1.0
    mean: float = 0.0

    def __new__(cls, cov: ArrayLike = 1.0, mean: ArrayLike = 0.0) -> Any:  # noqa: ANN401
        given = as_array(cov, "the noise covariance")
        if given.ndim or given <= 0:
            from privest.noise.joint import JointGaussian

            return JointGaussian(given, mean)
        return super().__new__(cls)

    if TYPE_CHECKING:  # arrays make a `JointGaussian`

        def __init__(self, cov: ArrayLike = 1.0, mean: ArrayLike = 0.0) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "cov", as_width(self.cov, "cov", squared=True))
        object.__setattr__(self, "mean", as_number(self.mean, "mean"))

    @property
    def variance(self) -> float:
        return self.cov

    def _standard(self, x: ArrayLike) -> Array:
        return (as_array(x, "x") - self.mean) / math.sqrt(self.cov)

    def logpdf(self, x: ArrayLike) -> Array:
        return -0.5 * self._standard(x) ** 2 - 0.5 * math.log(2 * math.pi * self.cov)

    def score(self, x: ArrayLike) -> Array:
        return (self.mean - as_array(x, "x")) / self.cov

    def curvature(self, x: ArrayLike) -> Array:
        return np.full(as_array(x, "x").shape, -1 / self.cov)

    def cdf(self, x: ArrayLike) -> Array:
        return scipy.special.ndtr(self._standard(x))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return as_generator(rng).normal(self.mean, math.sqrt(self.cov), size)

    @property
    def landmarks(self) -> tuple[float, ...]:
        return (self.mean,)

    @property
    def fisher_information(self) -> float:
        return 1 / self.cov

    @property
    def expected_squared_curvature(self) -> float:
        return 1 / self.cov**2

    def shifted(self, c: float) -> Gaussian:
        return replace(self, mean=self.mean + as_number(c, "The shift"))

    def _scaled_in_family(self, c: float) -> Gaussian:
        c = as_scale(c)
        return Gaussian(self.cov * c**2, self.mean * c)

    def _stretched(self, factor: float) -> Gaussian:
        return replace(self, cov=self.cov * factor**2)


@dataclass(frozen=True)
class Laplace(CentredLaw):
    """The two-sided exponential distribution; b = scale.

    f(x) = e^{−|x|/b}/2b,   l' = −sign(x)/b,   l'' = 0 for x ≠ 0
    variance = 2b²,   I = 1/b²,   E l''² = ∞ (the score jumps at 0)
    """

    scale: float = 1.0
    POSITIVE: ClassVar[tuple[str, ...]] = ("scale",)
    expected_squared_curvature: ClassVar[float] = math.inf  # the pointwise l'' = 0 misses the kink

    def logpdf(self, x: ArrayLike) -> Array:
        return -np.abs(as_array(x, "x")) / self.scale - math.log(2 * self.scale)

    def score(self, x: ArrayLike) -> Array:
        # 0.0 − … rather than −…: the score at 0 is 0, not −0.
        return 0.0 - np.sign(as_array(x, "x")) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        """0 (see `expected_squared_curvature` before using it)."""
        return np.zeros(as_array(x, "x").shape)

    def cdf(self, x: ArrayLike) -> Array:
        x = as_array(x, "x")
        tail = np.exp(-np.abs(x) / self.scale) / 2
        return np.where(x < 0, tail, 1 - tail)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return as_generator(rng).laplace(0.0, self.scale, size)

    @property
    def variance(self) -> float:
        return 2 * self.scale**2

    @property
    def fisher_information(self) -> float:
        return 1 / self.scale**2


@dataclass(frozen=True)
class Logistic(CentredLaw):
    """The logistic distribution; s = scale, z = x/s.

    f(x) = e^{−z}/(s(1 + e^{−z})²),   l' = −tanh(z/2)/s,   l'' = −2e^{−|z|}/(s(1 + e^{−|z|}))²
    variance = π²s²/3,   I = 1/3s²,   E l''² = 2/15s⁴
    """

    scale: float = 1.0
    POSITIVE: ClassVar[tuple[str, ...]] = ("scale",)

    def logpdf(self, x: ArrayLike) -> Array:
        """−|z| − 2 ln(1 + e^{−|z|}) − ln s (even in z, so no exponential overflows)."""
        size = np.abs(self._standard(x))
        return np.asarray(-size - 2 * np.log1p(np.exp(-size)) - math.log(self.scale))

    def score(self, x: ArrayLike) -> Array:
        return -np.tanh(self._standard(x) / 2) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        decay = np.exp(-np.abs(self._standard(x)))
        return -2 * decay / (self.scale * (1 + decay)) ** 2

    def cdf(self, x: ArrayLike) -> Array:
        return scipy.special.expit(self._standard(x))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return as_generator(rng).logistic(0.0, self.scale, size)

    @property
    def variance(self) -> float:
        return (math.pi * self.scale) ** 2 / 3

    @property
    def fisher_information(self) -> float:
        return 1 / (3 * self.scale**2)

    @property
    def expected_squared_curvature(self) -> float:
        return 2 / (15 * self.scale**4)


@dataclass(frozen=True)
class Cauchy(CentredLaw):
    """The Cauchy distribution; γ = scale, z = x/γ, u = 1/(1 + z²) ~ Beta(½, ½).

    f(x) = u/πγ,   l' = −2zu/γ,   l'' = −2u(2u − 1)/γ²
    I = 1/2γ²,   E l''² = 7/8γ⁴,   no mean, no variance (NaN)
    """

    scale: float = 1.0
    POSITIVE: ClassVar[tuple[str, ...]] = ("scale",)
    mean: ClassVar[float] = math.nan
    variance: ClassVar[float] = math.nan

    def logpdf(self, x: ArrayLike) -> Array:
        return -np.log1p(self._standard(x) ** 2) - math.log(math.pi * self.scale)

    def score(self, x: ArrayLike) -> Array:
        z = self._standard(x)
        return -2 * z / (1 + z**2) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        u = 1 / (1 + self._standard(x) ** 2)
        return -2 * u * (2 * u - 1) / self.scale**2

    def cdf(self, x: ArrayLike) -> Array:
        """½ + arctan(z)/π, written so that the left tail keeps its digits."""
        return np.arctan2(1.0, -self._standard(x)) / math.pi

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return self.scale * as_generator(rng).standard_cauchy(size)

    @property
    def fisher_information(self) -> float:
        return 1 / (2 * self.scale**2)

    @property
    def expected_squared_curvature(self) -> float:
        return 7 / (8 * self.scale**4)


@dataclass(frozen=True)
class StudentT(CentredLaw):
    """Student's t distribution; ν = df > 0 (any real), s = scale, z = x/s.

    f(x) ∝ (1 + z²/ν)^{−(ν+1)/2},   l' = −(ν + 1) z/(s(ν + z²))
    l'' = −((ν + 1)/νs²) u(2u − 1),   u = ν/(ν + z²) ~ Beta(ν/2, ½)
    variance = s² ν/(ν − 2) for ν > 2 (∞ for 1 < ν ≤ 2, NaN below)
    I = (ν + 1)/((ν + 3)s²),   E l''² = ((ν + 1)/νs²)² (4m₄ − 4m₃ + m₂),   m_k = E u^k
    """

    df: float
    scale: float = 1.0
    POSITIVE: ClassVar[tuple[str, ...]] = ("scale", "df")

    def logpdf(self, x: ArrayLike) -> Array:
        nu = self.df
        constant = _log_gamma_step(nu / 2) - 0.5 * math.log(nu * math.pi) - math.log(self.scale)
        return np.asarray(constant - (nu + 1) / 2 * np.log1p(self._standard(x) ** 2 / nu))

    def score(self, x: ArrayLike) -> Array:
        z = self._standard(x)
        return -(self.df + 1) * (z / (self.df + z**2)) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        u = self.df / (self.df + self._standard(x) ** 2)
        return -(self.df + 1) / self.df * u * (2 * u - 1) / self.scale**2

    def cdf(self, x: ArrayLike) -> Array:
        return scipy.special.stdtr(self.df, self._standard(x))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return self.scale * as_generator(rng).standard_t(self.df, size)

    @property
    def mean(self) -> float:
        return 0.0 if self.df > 1 else math.nan

    @property
    def variance(self) -> float:
        if self.df <= 1:
            return math.nan
        return self.scale**2 * self.df / (self.df - 2) if self.df > 2 else math.inf

    @property
    def fisher_information(self) -> float:
        return (self.df + 1) / (self.df + 3) / self.scale**2

    @property
    def expected_squared_curvature(self) -> float:
        """Moments of the Beta distribution: m_{k+1} = m_k (ν/2 + k)/(ν/2 + ½ + k)."""
        a = self.df / 2
        moment = [1.0]
        for k in range(4):
            moment.append(moment[k] * (a + k) / (a + 0.5 + k))
        square = 4 * moment[4] - 4 * moment[3] + moment[2]
        return ((self.df + 1) / self.df) ** 2 * square / self.scale**4


def _log_gamma_step(z: float) -> float:
    """ln Γ(z + ½) − ln Γ(z), from z = 40 on by its asymptotic series (first term left out < 1e-17).

    The difference of two log-gammas would lose all digits of the density for a million degrees.
    """
    if z < 40:
        return math.lgamma(z + 0.5) - math.lgamma(z)
    w = 1 / z**2
    return 0.5 * math.log(z) - (1 / 8 - w * (1 / 192 - w * (1 / 640 - w * 17 / 14336))) / z


@dataclass(frozen=True)
class GaussianMixture(CentredLaw):
    """With probability w_i a draw from N(μ_i, σ_i²).

        f = Σ w_i φ_i,   r_i(x) = w_i φ_i(x)/f(x),   t_i = −(x − μ_i)/σ_i²
        l' = Σ r_i t_i,   l'' = Σ r_i (t_i − l')² − Σ r_i/σ_i²

    The r_i are a softmax of ln w_i φ_i, so nothing underflows far in the tails.
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    sds: tuple[float, ...]

    def __post_init__(self) -> None:
        fields = ("weights", "means", "sds")
        for field in fields:
            values: Sequence[float] = getattr(self, field)
            array = as_array(values, field, ndim=1)
            object.__setattr__(self, field, tuple(float(v) for v in array))
        sizes = [len(getattr(self, field)) for field in fields]
        if len(set(sizes)) != 1 or sizes[0] == 0:
            raise InvalidInput(
                "weights, means and sds must have one entry for each component; received "
                f"{sizes[0]}, {sizes[1]} and {sizes[2]}."
            )
        if min(self.weights) <= 0:
            raise InvalidInput(
                f"weights must be > 0; received {self.weights}. Leave empty components out."
            )
        if abs(math.fsum(self.weights) - 1) > 1e-12:
            raise InvalidInput(
                f"weights must sum to 1; they sum to {math.fsum(self.weights)!r}. Divide them by "
                "their sum."
            )
        if min(self.sds) <= 0:
            raise InvalidInput(f"sds must be > 0; received {self.sds}.")

    def _columns(self) -> tuple[Array, Array, Array]:
        return np.array(self.weights), np.array(self.means), np.array(self.sds)

    def _shares(self, x: Array) -> tuple[Array, Array, Array]:
        """ln f(x), r_i(x), t_i(x), components first."""
        w, mu, sd = (c.reshape(-1, *(1,) * x.ndim) for c in self._columns())
        # ln w_i φ_i(x)
        parts = np.log(w / sd) - 0.5 * math.log(2 * math.pi) - 0.5 * ((x - mu) / sd) ** 2
        top = parts.max(axis=0)
        share = np.exp(parts - top)
        total = share.sum(axis=0)
        return top + np.log(total), share / total, (mu - x) / sd**2

    def logpdf(self, x: ArrayLike) -> Array:
        return self._shares(as_array(x, "x"))[0]

    def score(self, x: ArrayLike) -> Array:
        _, share, slope = self._shares(as_array(x, "x"))
        return np.asarray((share * slope).sum(axis=0))

    def curvature(self, x: ArrayLike) -> Array:
        """A variance less a mean, not a difference of two squares."""
        _, share, slope = self._shares(as_array(x, "x"))
        mean = (share * slope).sum(axis=0)
        spread = (share * (slope - mean) ** 2).sum(axis=0)
        return np.asarray(spread - np.tensordot(np.array(self.sds) ** -2.0, share, axes=1))

    def cdf(self, x: ArrayLike) -> Array:
        w, mu, sd = self._columns()
        return np.asarray(scipy.special.ndtr((as_array(x, "x")[..., None] - mu) / sd) @ w)

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        w, mu, sd = self._columns()
        which = as_generator(rng).choice(len(w), size=size, p=w / w.sum())
        return np.asarray(mu[which] + sd[which] * rng.standard_normal(size))

    @property
    def landmarks(self) -> tuple[float, ...]:
        return tuple(sorted(set(self.means)))

    @property
    def mean(self) -> float:
        w, mu, _ = self._columns()
        return float(w @ mu)

    @property
    def variance(self) -> float:
        w, mu, sd = self._columns()
        return float(w @ (sd**2 + (mu - self.mean) ** 2))

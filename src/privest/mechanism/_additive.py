"""Additive noise z = u + d of any distribution (`ex:affine`), and one bit of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
import scipy

from privest import noise
from privest.arrays import (
    Array,
    ArrayLike,
    as_array,
    as_kind,
    as_nonnegative,
    as_number,
    as_positive,
)
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism._exact import ExactNoise, exact_noise_of
from privest.mechanism._mechanism import LIKELY, Channel
from privest.noise import Distribution, Gaussian, Laplace, Quadrature, Staircase
from privest.noise.distribution import infinite_because

OneBit = Gaussian | Laplace | noise.Cauchy | noise.Logistic


@dataclass(frozen=True)
class Additive(Channel):
    """z = u + d, d of density f: p(z|u) = f(z − u), the same information at every u.

        I_z(u) = I_d = E (f'/f)² ;   infinite where f jumps (uniform, staircase)
        ε(c) = sup_x ln f(x)/f(x − c) :  Laplace c/b, Cauchy 2 asinh(c/2γ) (`epsilon_of_shift`)

    >>> channel = Additive(Laplace(0.5))
    >>> channel.worst, channel.epsilon(1.0)
    (4.0, 2.0)
    >>> Additive.calibrated(1.0, law=Laplace()).law
    Laplace(scale=1.0)
    """

    law: Distribution

    def __post_init__(self) -> None:
        require_law(self.law)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        return given + self.law.sample(given.shape, rng)

    def noise_width(self, u: Array) -> float:
        return width_of(self.law)

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        return self.law.logpdf(as_array(z, "z") - as_array(u, "u"))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        return -self.law.score(as_array(z, "z") - as_array(u, "u"))

    def support(self, u: float) -> tuple[float, float]:
        low, high = self.law.support
        return (u + low, u + high)

    def landmarks(self, u: float) -> tuple[float, ...]:
        return tuple(u + point for point in self.law.landmarks)

    def information(self, u: ArrayLike) -> Array:
        return np.full(np.shape(u), self.law.fisher_information)

    def information_estimate(self, u: float) -> Quadrature:
        return self.law.fisher_information_estimate

    @property
    def exact_noise(self) -> ExactNoise | None:
        return exact_noise_of(self.law)

    @property
    def worst(self) -> float:
        return self.law.fisher_information

    def epsilon(self, sensitivity: float) -> float:
        return epsilon_of_shift(self.law, sensitivity)

    @classmethod
    def calibrated(cls, level: float, *, law: Distribution) -> Self:  # type: ignore[override]
        """The distribution stretched until its Fisher information is `level`."""
        return cls(stretched(law, level))


def require_law(law: object) -> None:
    needed = "the noise must be a distribution of privest.noise, such as Laplace(0.5)"
    as_kind(law, Distribution, needed)  # type: ignore[type-abstract]


def width_of(law: Distribution) -> float:
    """1/√I; where the density jumps, the distance of its quartiles."""
    if math.isfinite(law.fisher_information):
        return 1.0 / math.sqrt(law.fisher_information)
    low, high = law.quantile([0.25, 0.75])
    return float(high - low)


def stretched(law: Distribution, information: float) -> Distribution:
    """Stretched to have this Fisher information; NotCalibratable where it has none."""
    require_law(law)
    if not math.isfinite(law.fisher_information):
        raise NotCalibratable(
            f"additive noise with {law!r} cannot be calibrated: {infinite_because(law)} at every "
            "scale."
        )
    return _within(law.with_fisher_information(information), Fraction(information))


def _within(law: Distribution, information: Fraction) -> Distribution:
    """Laplace and Gaussian noise carries no more than that literally: it is released."""
    while isinstance(law, Laplace) and information * Fraction(law.scale) ** 2 < 1:
        law = replace(law, scale=math.nextafter(law.scale, math.inf))
    while isinstance(law, Gaussian) and information * Fraction(law.variance) < 1:
        law = replace(law, cov=math.nextafter(law.variance, math.inf))
    return law


def epsilon_of_shift(law: Distribution, sensitivity: float) -> float:
    """sup over x and |c| ≤ sensitivity of ln f(x)/f(x − c); inf: not bounded or not known.

        Laplace(b)        c/b
        Logistic(s)       c/s                       a limit in the tails
        Student(ν, s)     (ν + 1) asinh(c/2s√ν)     Cauchy: ν = 1, 2 asinh(c/2γ)
        Staircase(ε, Δ)   ε ⌈c/Δ⌉                   the jumps, Δ apart, that c can cross

    >>> epsilon_of_shift(Laplace(0.5), 1.0), epsilon_of_shift(Staircase(1.0, 2.0), 2.5)
    (2.0, 2.0)
    """
    length = as_nonnegative(sensitivity, "sensitivity")
    if length == 0:
        return 0.0
    if isinstance(law, noise.Affine):
        return epsilon_of_shift(law.law, length / abs(law.scale))
    if isinstance(law, Laplace | noise.Logistic):
        return length / law.scale
    if isinstance(law, noise.Cauchy):
        return 2.0 * math.asinh(length / (2.0 * law.scale))
    if isinstance(law, noise.StudentT):
        return (law.df + 1.0) * math.asinh(length / (2.0 * law.scale * math.sqrt(law.df)))
    if isinstance(law, Staircase):
        return law.epsilon * math.ceil(length / law.sensitivity)
    return math.inf


@dataclass(frozen=True)
class BinaryQuantiser(Channel):
    """z = 1{u + d ≤ C}: P(z = 1|u) = F(x), x = C − u (Ke et al. 2025).

        I_z(u) = f(x)²/(F(x)(1 − F(x)))
        sup, at x = 0:  Gaussian 2/πσ² ,  Laplace 1/b² ,  Cauchy 4/π²γ² ,  logistic 1/4s²

    Other noise is refused. ε: Laplace c/b, Cauchy sup_x ln F(x + c)/F(x), logistic c/s, Gaussian
    none.

    >>> channel = BinaryQuantiser(Laplace(0.5), threshold=1.0)
    >>> channel.worst, channel.worst_input, channel.epsilon(1.0)
    (4.0, 1.0, 2.0)
    >>> np.exp(channel.log_density([0.0, 1.0], 1.0))
    array([0.5, 0.5])
    >>> BinaryQuantiser.calibrated(4.0, law=Laplace()).law
    Laplace(scale=0.5)
    """

    law: Distribution
    threshold: float = 0.0
    discrete = True

    def __post_init__(self) -> None:
        inner = self.law.law if isinstance(self.law, noise.Affine) else self.law
        if not isinstance(inner, OneBit):
            raise InvalidInput(
                "a binary quantiser takes Gaussian, Laplace, Cauchy or logistic noise; received "
                f"{type(inner).__name__}."
            )
        object.__setattr__(self, "threshold", as_number(self.threshold, "threshold"))

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        # Not u + d ≤ C: beside a large u the noise would be lost.
        below = self.law.sample(given.shape, rng) <= self.threshold - given
        return np.asarray(below.astype(np.float64))

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        z, x = as_array(z, "z"), self.threshold - as_array(u, "u")
        rest = np.where(z == 0, log_cdf(-self.law, -x), -np.inf)
        return np.where(z == 1, log_cdf(self.law, x), rest)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        z, u = as_array(z, "z"), as_array(u, "u")
        mass = self.log_density(z, u)
        possible = np.isfinite(mass)
        size = np.exp(self.law.logpdf(self.threshold - u) - np.where(possible, mass, 0.0))
        return np.where(possible, np.where(z == 1, -size, size), np.nan)

    def support(self, u: float) -> tuple[float, float]:
        return (0.0, 1.0)

    def landmarks(self, u: float) -> tuple[float, ...]:
        return (0.0, 1.0)

    def outcomes(self, u: float) -> Array:
        both = np.array([0.0, 1.0])
        return np.asarray(both[self.log_density(both, u) > math.log(LIKELY)])

    def information(self, u: ArrayLike) -> Array:
        return bit_information(self.law, self.threshold - as_array(u, "u"))

    @property
    def _largest(self) -> tuple[float, float]:
        return largest_bit_information(self.law)

    @property
    def worst(self) -> float:
        return self._largest[0]

    @property
    def worst_input(self) -> float:
        return self.threshold - self._largest[1]

    def epsilon(self, sensitivity: float) -> float:
        length = as_nonnegative(sensitivity, "sensitivity")
        plain = epsilon_of_shift(self.law, length)
        if not isinstance(self.law, noise.Cauchy) or length == 0:
            return plain
        # ln F(x + c) − ln F(x) = ∫ f/F, which rises and falls once: one maximum, near x = −c/2.
        c = length / self.law.scale
        found = scipy.optimize.minimize_scalar(
            lambda x: math.log(math.atan2(1.0, -x) / math.atan2(1.0, -x - c)),
            bounds=(-2.0 * c - 2.0, 2.0),
            method="bounded",
            options={"xatol": 1e-9 * (1.0 + c)},
        )
        return min(plain, -float(found.fun) * (1.0 + 1e-12))

    @classmethod
    def calibrated(cls, level: float, *, law: Distribution, threshold: float = 0.0) -> Self:  # type: ignore[override]
        """The noise widened until the supremum, which goes like 1/scale², is `level`."""
        largest = cls(law).worst
        return cls(law.scaled(math.sqrt(largest / as_positive(level, "level"))), threshold)


def log_cdf(law: Distribution, x: Array) -> Array:
    """ln F(x), with its digits in the far left tail for Gaussian, Laplace and logistic noise."""
    if isinstance(law, noise.Gaussian):
        return np.asarray(scipy.special.log_ndtr((x - law.mean) / math.sqrt(law.variance)))
    if isinstance(law, Laplace):
        size = np.abs(x) / law.scale
        return np.where(x < 0, -size - math.log(2.0), np.log1p(-0.5 * np.exp(-size)))
    if isinstance(law, noise.Logistic):
        return np.asarray(-np.logaddexp(0.0, -x / law.scale))
    with np.errstate(divide="ignore"):
        return np.log(law.cdf(x))


def bit_information(law: Distribution, x: Array) -> Array:
    mass = log_cdf(law, x) + log_cdf(-law, -x)
    certain = np.isinf(mass)
    value = np.exp(2.0 * law.logpdf(x) - np.where(certain, 0.0, mass))
    return np.where(certain, 0.0, value)


def largest_bit_information(law: Distribution) -> tuple[float, float]:
    """sup over x of f²/(F(1 − F)), and x."""
    if isinstance(law, noise.Affine):
        value, at = largest_bit_information(law.law)
        return value / law.scale**2, law.shift + law.scale * at
    if isinstance(law, noise.Gaussian):
        return 2.0 / (math.pi * law.variance), law.mean
    if isinstance(law, Laplace):
        return 1.0 / law.scale**2, 0.0
    if isinstance(law, noise.Cauchy):
        return (2.0 / (math.pi * law.scale)) ** 2, 0.0
    assert isinstance(law, noise.Logistic)
    return 0.25 / law.scale**2, 0.0

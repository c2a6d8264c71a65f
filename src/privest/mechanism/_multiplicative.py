"""Multiplicative noise z = Du: D uniform on two intervals, D = 1/g, and D normal with noise added.

`_truncated_inverse.py` has the version of 1/g with bounded information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_number, as_positive
from privest.errors import InvalidInput
from privest.mechanism._additive import width_of
from privest.mechanism._channel import Channel, Worst
from privest.noise import GaussianLaw, Laplace

# |g| beyond which the density is zero in double precision, squares included.
FAR = 1e150

Noise = GaussianLaw | Laplace


@dataclass(frozen=True)
class TwinUniform(Channel):
    """z = D u, D uniform on [1 − b, 1 − a] ∪ [1 + a, 1 + b], 0 ≤ a < b (a inner, b outer).

        p(z|u) = 1/(2(b − a)|u|)  where  a ≤ |z/u − 1| ≤ b ,     score −1/u there

    The paper leaves the two intervals open: these keep E D = 1, so E z = u, and every reading
    moves by at least a|u|. a = 0 is the plain uniform law around 1.
    Information **infinite** at every u: the density jumps at the edges of the intervals, which
    move with u, so n outputs show u to within 1/n; at u = 0 the output is 0. Not admissible by
    `def:admissible`. **Trap:** E score² is 1/u². No finite ε. Brackenbury et al. 2019.

    >>> channel = TwinUniform(inner=0.25, outer=0.75)
    >>> np.exp(channel.log_density([2.0, 3.0, 4.0], 2.0))  # D = 1, 1.5, 2; 1/(2·0.5·2)
    array([0. , 0.5, 0. ])
    >>> channel.worst.information
    inf
    """

    inner: float
    outer: float
    worst = Worst(math.inf)
    WHY_NOT = "its density jumps where it depends on u: infinite information for all parameters."

    def __post_init__(self) -> None:
        inner, outer = as_number(self.inner, "inner"), as_positive(self.outer, "outer")
        if not 0 <= inner < outer:
            raise InvalidInput(f"needs 0 ≤ inner < outer; received {inner:g} and {outer:g}.")
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "outer", outer)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        size = rng.uniform(self.inner, self.outer, given.shape)
        return given * (1.0 + np.where(rng.random(given.shape) < 0.5, -size, size))

    def noise_width(self, u: Array) -> Array:
        return np.abs(u) * (self.outer - self.inner)

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """At u = 0 all mass is at z = 0 (density +inf there)."""
        z, u = as_array(z, "z"), as_array(u, "u")
        nonzero = np.where(u == 0, 1.0, u)
        height = -np.log(2.0 * (self.outer - self.inner) * np.abs(nonzero))
        value = np.where(self._inside(z, nonzero), height, -np.inf)
        return np.where(u == 0, np.where(z == 0, np.inf, -np.inf), value)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """−1/u on the intervals, NaN elsewhere (see `worst` before using it)."""
        z, u = as_array(z, "z"), as_array(u, "u")
        nonzero = np.where(u == 0, 1.0, u)
        return np.where(self._inside(z, nonzero) & (u != 0), -1.0 / nonzero, np.nan)

    def support(self, u: float) -> tuple[float, float]:
        low, high = sorted((u * (1.0 - self.outer), u * (1.0 + self.outer)))
        return (low, high)

    def landmarks(self, u: float) -> tuple[float, ...]:
        steps = (-self.outer, -self.inner, self.inner, self.outer)
        return tuple(sorted({u * (1.0 + step) for step in steps}))

    def information(self, u: ArrayLike) -> Array:
        return np.full(as_array(u, "u").shape, np.inf)

    def _inside(self, z: Array, u: Array) -> Array:
        with np.errstate(over="ignore"):
            away = np.abs(z / u - 1.0)
        return np.asarray((away >= self.inner) & (away <= self.outer))


@dataclass(frozen=True)
class Inverse(Channel):
    """z = u/g, g = 1 + d, d ~ N(0, σ²) or Laplace(b): E 1/D = 1 (Ye et al. 2024).

        p(z|u) = f(g − 1) |u|/z² ,  g = u/z ,     score = (1 + g l'(g − 1))/u
        I_z(u) = j/u² ,  j = E(1 + g l')² = E g²l'² − 1 :  2 + 1/σ²  or  1 + 1/b²

    Infinite at u = 0, where z = 0 shows u exactly: sup = ∞, whatever the noise. No finite ε.
    Unbiased is 1/z, E 1/z = 1/u; E z does not exist, for g has a positive density at 0 and E 1/g
    diverges like ∫ dg/g.

    >>> channel = Inverse(GaussianLaw(variance=0.5))
    >>> channel.information([1.0, -2.0, 0.0])  # (2 + 2)/u²
    array([ 4.,  1., inf])
    >>> channel.worst
    Worst(information=inf, at=0.0, attained=True)
    """

    noise: Noise
    worst = Worst(math.inf, 0.0)
    WHY_NOT = (
        "its information (2 + 1/σ²)/u² (Gaussian) or (1 + 1/b²)/u² (Laplace) is infinite at "
        "u = 0 for all noise. TruncatedInverse is the version with a bound."
    )

    def __post_init__(self) -> None:
        check_noise(self.noise)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        return given / (1.0 + self.noise.sample(given.shape, rng))

    def noise_width(self, u: Array) -> Array:
        return np.abs(u) * width_of(self.noise)

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln f(g − 1) + ln |u|/z²; at u = 0 all mass is at z = 0 (density +inf there)."""
        z, u = as_array(z, "z"), as_array(u, "u")
        point = np.where(z == 0, np.inf, -np.inf)
        return np.where(u == 0, point, log_ratio_density(self.noise, z, np.where(u == 0, 1.0, u)))

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """(1 + g l'(g − 1))/u; NaN at u = 0."""
        z, u = as_array(z, "z"), as_array(u, "u")
        return ratio_score(self.noise, z, np.where(u == 0, np.nan, u))

    def landmarks(self, u: float) -> tuple[float, ...]:
        return ratio_landmarks(self.noise, u)

    def information(self, u: ArrayLike) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return outside(self.noise) / np.square(as_array(u, "u"))


def outside(noise: Noise) -> float:
    """j = E(1 + g l')², the information of u/g about u at u = 1."""
    if isinstance(noise, GaussianLaw):
        return 2.0 + 1.0 / noise.variance
    return 1.0 + 1.0 / noise.scale**2


def check_noise(noise: object) -> None:
    if not isinstance(noise, Noise) or (isinstance(noise, GaussianLaw) and noise.loc != 0):
        raise InvalidInput(
            "the noise of u/(1 + d) must be a GaussianLaw of mean 0 or a Laplace law of "
            f"privest.noise; received {noise!r}."
        )


def ratio(z: Array, u: Array) -> tuple[Array, Array]:
    """g = u/z, and z moved away from 0 so far that |g| ≤ 1e150 (the density there is 0)."""
    least = np.maximum(np.abs(u) / FAR, np.finfo(np.float64).tiny)
    moved = np.where(np.abs(z) < least, np.copysign(least, z), z)
    return u / moved, moved


def log_ratio_density(noise: Noise, z: Array, u: Array) -> Array:
    g, moved = ratio(z, u)
    return np.asarray(noise.logpdf(g - 1.0) + np.log(np.abs(u)) - 2.0 * np.log(np.abs(moved)))


def ratio_score(noise: Noise, z: Array, u: Array) -> Array:
    g, _ = ratio(z, np.where(np.isnan(u), 1.0, u))
    return np.asarray((1.0 + g * noise.score(g - 1.0)) / u)


def ratio_landmarks(noise: Noise, u: float) -> tuple[float, ...]:
    """0, and u/g at g = 1 and a width of the noise to both sides."""
    width = math.sqrt(noise.variance) if isinstance(noise, GaussianLaw) else noise.scale
    points = {0.0, *(u / g for g in (1.0, 1.0 + width, 1.0 - width) if g > 0)}
    return tuple(sorted(points))


@dataclass(frozen=True)
class PrivacyWeights(Channel):
    """z = D u + e, D ~ N(1, τ²), e ~ N(0, σ²): z|u ~ N(u, v), v = τ²u² + σ².

        I_z(u) = 1/v + v'²/2v² ,   v' = 2τ²u

    τ² = weight_variance, σ² = variance. With w = σ²/v ∈ (0, 1] this is

        σ² I = (1 + 2τ²)w − 2τ²w² :   largest at w = min(1, (1 + 2τ²)/4τ²), so

        sup I = 1/σ²                    at u = 0                              for τ² ≤ ½
        sup I = (1 + 2τ²)²/(8τ²σ²)      at u² = (σ/τ)²(2τ² − 1)/(2τ² + 1)     for τ² > ½

    A weight of τ² ≤ ½ costs no additive noise. Unbiased: E z = u. No finite ε. The paper leaves
    the law of the weights open; Gaussian ones keep p(z|u) in closed form. Ke et al. 2023.

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
        self._require_positive("weight_variance", "variance")

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        weight = rng.normal(1.0, math.sqrt(self.weight_variance), given.shape)
        return weight * given + rng.normal(0.0, math.sqrt(self.variance), given.shape)

    def noise_width(self, u: Array) -> Array:
        return np.sqrt(self._spread(u))

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
        above = max(2.0 * tau - 1.0, 0.0)
        at = math.sqrt(self.variance / tau * above / (2.0 * tau + 1.0))
        return Worst(self._peak(tau) / self.variance, at)

    @classmethod
    def calibrated(cls, level: float, *, weight_variance: float = 0.25) -> Self:  # type: ignore[override]
        """σ² = max(1, (1 + 2τ²)²/8τ²)/level (the second for τ² > ½) for a given τ²."""
        tau = as_positive(weight_variance, "weight_variance")
        return cls(tau, cls._peak(tau) / as_positive(level, "level"))

    def _spread(self, u: Array) -> Array:
        return np.asarray(self.weight_variance * u**2 + self.variance)

    @staticmethod
    def _peak(tau: float) -> float:
        """sup of σ²I for τ²."""
        return 1.0 if tau <= 0.5 else (1.0 + 2.0 * tau) ** 2 / (8.0 * tau)

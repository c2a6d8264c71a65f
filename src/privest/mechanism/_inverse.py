"""Multiplicative noise 1/g whose inverse is unbiased (Ye et al. 2024).

The paper cites mechanisms z = Du with E 1/D = 1, Gaussian or Laplacian: D = 1/g, g = 1 + d,
d ~ N(0, σ²) or Laplace(b). `truncated_inverse.py` has the version with bounded information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput
from privest.mechanism._channel import Channel, Worst
from privest.noise import GaussianLaw, Laplace

# |g| beyond which the density is zero in double precision, squares included.
FAR = 1e150

Noise = GaussianLaw | Laplace


@dataclass(frozen=True)
class Inverse(Channel):
    """z = u/g, g = 1 + d, d ~ N(0, σ²) or Laplace(b).

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

    def __post_init__(self) -> None:
        check_noise(self.noise)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        return given / (1.0 + self.noise.sample(given.shape, rng))

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

    @property
    def worst(self) -> Worst:
        return Worst(math.inf, 0.0)

    @classmethod
    def why_not(cls) -> str:
        return (
            "its information (2 + 1/σ²)/u² (Gaussian) or (1 + 1/b²)/u² (Laplace) is infinite at "
            "u = 0 for all noise. TruncatedInverse is the version with a bound."
        )


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

"""Multiplicative noise z = Du: D = 1/g, D of any distribution, or Gaussian with noise added.

**Truncation** (`remark:truncation`), `truncate` = ε: |u| < ε, where the information j/u² has no
bound, is replaced by v = ±ε with probabilities (ε ± u)/2ε. With t = u/ε, 2a = ln p_ε(z)/p_−ε(z),

    inside   p(z|u) = (1+t)/2 p_ε(z) + (1−t)/2 p_−ε(z)
             score = h/(1 + th)/ε ,   I = E[h²/(1 − t²h²)]/ε² ,   h = tanh a
    edge     I → k/ε² as |t| → 1 ,    k = E sinh² a = (∫ p_−ε²/p_ε dz − 1)/4

I is even and convex in t inside: sup I = max(j, k)/ε², infinite where p_ε and p_−ε do not cover
each other (D of one sign). At the kink |u| = ε the information is the larger of its one-sided
limits, the score that of the outside.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_number, as_positive
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism._additive import require_law, width_of
from privest.mechanism._factor import LN2, ClosedForm, Noise, balanced, closed_form, outside
from privest.mechanism._mechanism import Channel
from privest.noise import Distribution, Gaussian, Quadrature

NO_FORM = (
    "a truncated factor must be Gaussian or Laplace with a mean that is not 0: a factor of one "
    "sign, or of a bounded range, reveals how a truncated input was rounded."
)
TOO_NARROW = (
    "with this noise the threshold would leave the range of double precision (it grows like the "
    "exponential of 1/noise): take more noise."
)
# |z/u| beyond which every density is zero in double precision, squares included.
FAR = 1e150


class Factor(Channel):
    """z = Dv, v = u or truncated. A subclass says what the plain channel at v ≠ 0 does."""

    truncate: float | None

    def _require_threshold(self) -> None:
        if self.truncate is not None:
            object.__setattr__(self, "truncate", as_positive(self.truncate, "truncate"))
            if self.form is None:
                raise InvalidInput(NO_FORM)

    @property
    def form(self) -> ClosedForm | None:
        """j, k and i(t) of a Gaussian or Laplace factor of mean m ≠ 0."""
        return closed_form(self._factor)

    @cached_property
    def j(self) -> Quadrature:
        """E(1 + D l'(D))²."""
        return outside(self._factor)

    @property
    @abstractmethod
    def _factor(self) -> Distribution:
        """The distribution of D, or of 1/D."""

    @abstractmethod
    def _times(self, v: Array, rng: np.random.Generator) -> Array:
        """Draws of Dv."""

    @abstractmethod
    def _log_density(self, z: Array, v: Array) -> Array:
        """ln p(z|v), v ≠ 0."""

    @abstractmethod
    def _score(self, z: Array, v: Array) -> Array:
        """∂ ln p(z|v)/∂v; NaN where v is."""

    @abstractmethod
    def _log_odds(self, z: Array, edge: float) -> Array:
        """ln p(z|edge)/p(z|−edge)."""

    @abstractmethod
    def _landmarks(self, v: float) -> tuple[float, ...]:
        """Those of p(·|v)."""

    def _support(self, v: float) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        if self.truncate is None:
            return self._times(given, rng)
        up = rng.random(given.shape) < 0.5 * (1.0 + given / self.truncate)
        ends = np.where(up, self.truncate, -self.truncate)
        return self._times(np.where(self._truncates(given), ends, given), rng)

    def noise_width(self, u: Array) -> Array:
        return np.maximum(np.abs(u), self.truncate or 0.0) * width_of(self._factor)

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln p(z|u); at u = 0, not truncated, all mass is at z = 0 (density +inf there)."""
        z, u = as_array(z, "z"), as_array(u, "u")
        if self.truncate is None:
            value = self._log_density(z, np.where(u == 0, 1.0, u))
            return np.where(u == 0, np.where(z == 0, np.inf, -np.inf), value)
        edge, inside = np.asarray(self.truncate), self._truncates(u)
        outer = self._log_density(z, np.where(inside, edge, u))
        if not inside.any():
            return outer
        t = np.where(inside, u / edge, 0.0)
        up = np.log1p(t) + self._log_density(z, edge)
        down = np.log1p(-t) + self._log_density(z, -edge)
        return np.where(inside, np.logaddexp(up, down) - LN2, outer)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """∂ ln p(z|u)/∂u; inside h/(1 + th)/ε, written in e^{−2|a|}; not truncated NaN at u = 0."""
        z, u = as_array(z, "z"), as_array(u, "u")
        if self.truncate is None:
            return self._score(z, np.where(u == 0, np.nan, u))
        inside = self._truncates(u)
        outer = self._score(z, np.where(inside, self.truncate, u))
        if not inside.any():
            return outer
        odds = self._log_odds(z, self.truncate)
        t = np.where(inside, u / self.truncate, 0.0)
        sign, decay = np.sign(odds), np.exp(-np.abs(odds))
        slope = sign * (1.0 - decay) / ((1.0 + sign * t) + (1.0 - sign * t) * decay)
        return np.where(inside, slope / self.truncate, outer)

    def support(self, u: float) -> tuple[float, float]:
        seen = [self._support(v) for v in self._seen(u)]
        return (min(low for low, _ in seen), max(high for _, high in seen))

    def landmarks(self, u: float) -> tuple[float, ...]:
        return tuple(sorted({p for v in self._seen(u) for p in self._landmarks(v)}))

    def information(self, u: ArrayLike) -> Array:
        given = as_array(u, "u")
        inside = self._truncates(given)
        with np.errstate(divide="ignore", over="ignore"):
            result = self.j.value / np.square(np.where(inside, 1.0, given))
        result = np.where(np.abs(given) == (self.truncate or 0.0), self.worst, result)
        if inside.any():
            assert self.truncate is not None
            assert self.form is not None
            result[inside] = self.form.inside(given[inside] / self.truncate) / self.truncate**2
        return result

    def information_estimate(self, u: float) -> Quadrature:
        value, inside = float(self.information(u)), abs(u) < (self.truncate or 0.0)
        if inside:
            assert self.form is not None
            return Quadrature(value, 1e-12 * value * isinstance(self.form.noise, Gaussian))
        return Quadrature(value, self.j.error / u**2 if math.isfinite(value) else 0.0)

    @property
    def worst(self) -> float:
        if self.truncate is None:
            return math.inf
        assert self.form is not None
        with np.errstate(over="ignore"):
            return float(np.float64(self.form.largest) / self.truncate**2)

    @property
    def worst_input(self) -> float:
        return self.truncate or 0.0

    def _truncates(self, u: Array) -> Flags:
        return np.asarray(np.abs(u) < (self.truncate or 0.0))

    def _seen(self, u: float) -> tuple[float, ...]:
        edge = self.truncate or 0.0
        return (u,) if abs(u) >= edge else (-edge, edge)


@dataclass(frozen=True)
class Inverse(Factor):
    """z = u/g, g = 1 + d, d ~ N(0, σ²) or Laplace(b) (Ye et al. 2024).

        p(z|u) = f(g − 1) |u|/z² ,  g = u/z ,     score = (1 + g l'(g − 1))/u
        I_z(u) = j/u² ,  j = E(1 + g l')² :  2 + 1/σ²  or  1 + 1/b²

    Infinite at u = 0 without truncation; with `truncate` = ε the supremum is max(j, k)/ε².
    **Trap:** for σ < 1.281 (b < 0.650) k, the limit from inside, is the larger one, and for small σ
    no grid comes near it. No finite ε. 1/z is unbiased for 1/u; E z does not exist.

    >>> Inverse(Gaussian(cov=0.5)).information([1.0, -2.0, 0.0])  # (2 + 2)/u²
    array([ 4.,  1., inf])
    >>> Inverse(Gaussian(cov=4.0), truncate=0.5).worst  # (2 + 1/4)/0.25, (e − 1)/4/0.25
    9.0
    >>> Inverse.calibrated(4.0, noise=Gaussian(cov=4.0)).truncate
    0.75
    """

    noise: Noise
    truncate: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Noise) or (
            isinstance(self.noise, Gaussian) and self.noise.mean != 0
        ):
            raise InvalidInput(
                "the noise of u/(1 + d) must be a Gaussian of mean 0 or a Laplace distribution "
                f"of privest.noise; received {self.noise!r}."
            )
        self._require_threshold()

    @property
    def _factor(self) -> Distribution:
        if isinstance(self.noise, Gaussian):
            return Gaussian(self.noise.variance, 1.0)
        return 1.0 + self.noise

    def _times(self, v: Array, rng: np.random.Generator) -> Array:
        return v / (1.0 + self.noise.sample(v.shape, rng))

    def _log_density(self, z: Array, v: Array) -> Array:
        g, moved = _ratio(z, v)
        value = self.noise.logpdf(g - 1.0) + np.log(np.abs(v)) - 2.0 * np.log(np.abs(moved))
        return np.asarray(value)

    def _score(self, z: Array, v: Array) -> Array:
        g, _ = _ratio(z, np.where(np.isnan(v), 1.0, v))
        return np.asarray((1.0 + g * self.noise.score(g - 1.0)) / v)

    def _log_odds(self, z: Array, edge: float) -> Array:
        g, _ = _ratio(z, np.asarray(edge))
        if isinstance(self.noise, Gaussian):
            return np.asarray(2.0 * g / self.noise.variance)
        return np.asarray(2.0 * np.clip(g, -1.0, 1.0) / self.noise.scale)

    def _landmarks(self, v: float) -> tuple[float, ...]:
        noise = self.noise
        width = math.sqrt(noise.variance) if isinstance(noise, Gaussian) else noise.scale
        return (0.0, *(v / g for g in (1.0, 1.0 + width, 1.0 - width) if g > 0))

    @classmethod
    def calibrated(cls, level: float, *, noise: Noise | None = None) -> Self:  # type: ignore[override]
        """The least threshold that keeps I ≤ level: ε = √(max(j, k)/level).

        `noise` left out: Gaussian with j = k (σ = 1.281); less noise makes ε grow like e^{2/σ²}.
        """
        s = as_positive(level, "level")
        unit = cls(balanced(Gaussian) if noise is None else noise, 1.0)
        if not math.isfinite(unit.worst):
            raise NotCalibratable(TOO_NARROW)
        return cls(unit.noise, math.sqrt(unit.worst / s))


def _ratio(z: Array, u: Array) -> tuple[Array, Array]:
    """g = u/z, and z moved away from 0 so far that |g| ≤ 1e150 (the density there is 0)."""
    least = np.maximum(np.abs(u) / FAR, np.finfo(np.float64).tiny)
    moved = np.where(np.abs(z) < least, np.copysign(least, z), z)
    return u / moved, moved


@dataclass(frozen=True)
class Gain(Factor):
    """z = D u, D of any distribution with density f: random step sizes (wang2022decentralized).

        p(z|u) = f(D)/|u| ,  D = z/u ,     score = −(1 + D l'(D))/u ,  l = ln f
        I_z(u) = j/u² ,  j = E(1 + D l'(D))² :  2 + m²/σ² (Gaussian),  1 + m²/b² (Laplace), mean m

    A density that jumps at a D ≠ 0 has infinite information at every u. sup = ∞ without
    truncation, for which D is Gaussian or Laplace of mean m ≠ 0. Unbiased where E D = 1. No finite
    ε.

    >>> Gain(Gaussian(cov=0.5, mean=1.0)).information([1.0, -2.0, 0.0])  # (2 + 2)/u²
    array([ 4.,  1., inf])
    >>> from privest.noise import Laplace, Uniform
    >>> Gain(1 + Uniform(0.5)).information([1.0])
    array([inf])
    >>> round(Gain.calibrated(4.0, law=1 + Laplace(1.0)).worst, 12)
    4.0
    """

    law: Distribution
    truncate: float | None = None

    def __post_init__(self) -> None:
        require_law(self.law)
        self._require_threshold()

    @property
    def _factor(self) -> Distribution:
        return self.law

    def _times(self, v: Array, rng: np.random.Generator) -> Array:
        return np.asarray(v * self.law.sample(v.shape, rng))

    def _log_density(self, z: Array, v: Array) -> Array:
        return np.asarray(self.law.logpdf(_gain(z, v)) - np.log(np.abs(v)))

    def _score(self, z: Array, v: Array) -> Array:
        d = _gain(z, np.where(np.isnan(v), 1.0, v))
        return np.asarray(-(1.0 + d * self.law.score(d)) / v)

    def _log_odds(self, z: Array, edge: float) -> Array:
        d = _gain(z, np.asarray(edge))
        up, down = self.law.logpdf(d), self.law.logpdf(-d)
        with np.errstate(invalid="ignore"):
            return np.asarray(up - down)

    def _support(self, v: float) -> tuple[float, float]:
        if v == 0:
            return (0.0, 0.0)
        low, high = sorted(v * end for end in self.law.support)
        return (low, high)

    def _landmarks(self, v: float) -> tuple[float, ...]:
        return tuple(v * point for point in self._points)

    @cached_property
    def _points(self) -> tuple[float, ...]:
        """Gains at which the density is not smooth, and its quartiles."""
        law = self.law
        quartiles = law.quantile([0.25, 0.5, 0.75]).tolist()
        ends = [end for end in law.support if math.isfinite(end)]
        return (0.0, *law.landmarks, *law.jumps, *ends, *quartiles)

    @classmethod
    def calibrated(cls, level: float, *, law: Distribution | None = None) -> Self:  # type: ignore[override]
        """The least threshold that keeps I ≤ level: ε = √(max(j, k)/level).

        `law` left out: N(1, σ²) with σ = 1.281, at which j = k, as in `Inverse`.
        """
        s = as_positive(level, "level")
        plain = cls(Inverse(balanced(Gaussian))._factor if law is None else law)
        if math.isinf(plain.j.value):
            raise NotCalibratable(
                f"a gain with {law!r} cannot be calibrated: its density jumps away from 0, or "
                "E(1 + D l'(D))² diverges, so its information is infinite at every threshold."
            )
        if plain.form is None:
            raise NotCalibratable(NO_FORM)
        if not math.isfinite(plain.form.largest):
            raise NotCalibratable(TOO_NARROW)
        return cls(plain.law, math.sqrt(plain.form.largest / s))


def _gain(z: Array, u: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(z / u, -FAR, FAR))


@dataclass(frozen=True)
class TwinUniform(Channel):
    """z = D u, D uniform on [1 − b, 1 − a] ∪ [1 + a, 1 + b], 0 ≤ a < b (a inner, b outer).

    E z = u. Information infinite at every u: the density 1/(2(b − a)|u|) jumps at edges that
    move with u. Brackenbury et al. 2019.

    >>> channel = TwinUniform(inner=0.25, outer=0.75)
    >>> np.exp(channel.log_density([2.0, 3.0, 4.0], 2.0))  # D = 1, 1.5, 2; 1/(2·0.5·2)
    array([0. , 0.5, 0. ])
    """

    inner: float
    outer: float
    worst: ClassVar[float] = math.inf
    WHY_NOT: ClassVar[str] = (
        "its density jumps where it depends on u: infinite information for all parameters."
    )

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
        z, u = as_array(z, "z"), as_array(u, "u")
        nonzero = np.where(u == 0, 1.0, u)
        height = -np.log(2.0 * (self.outer - self.inner) * np.abs(nonzero))
        value = np.where(self._inside(z, nonzero), height, -np.inf)
        return np.where(u == 0, np.where(z == 0, np.inf, -np.inf), value)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
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
class PrivacyWeights(Channel):
    """z = D u + e, D ~ N(1, τ²), e ~ N(0, σ²): z|u ~ N(u, v), v = τ²u² + σ².

        I_z(u) = 1/v + v'²/2v² ,   v' = 2τ²u
        sup I = 1/σ²                    at u = 0                              for τ² ≤ ½
        sup I = (1 + 2τ²)²/(8τ²σ²)      at u² = (σ/τ)²(2τ² − 1)/(2τ² + 1)     for τ² > ½

    τ² = weight_variance, σ² = variance. Unbiased. No finite ε. Ke et al. 2023.

    >>> PrivacyWeights(weight_variance=0.25, variance=2.0).worst
    0.5
    >>> channel = PrivacyWeights(weight_variance=1.5, variance=1.0)  # 16/12 at u² = (2/4)/1.5
    >>> channel.worst == 4 / 3, round(channel.worst_input**2, 12) == round(1 / 3, 12)
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
    def worst(self) -> float:
        return self._peak(self.weight_variance) / self.variance

    @property
    def worst_input(self) -> float:
        tau = self.weight_variance
        above = max(2.0 * tau - 1.0, 0.0)
        return math.sqrt(self.variance / tau * above / (2.0 * tau + 1.0))

    @classmethod
    def calibrated(cls, level: float, *, weight_variance: float = 0.25) -> Self:  # type: ignore[override]
        """The least σ² for a given τ²."""
        tau = as_positive(weight_variance, "weight_variance")
        return cls(tau, cls._peak(tau) / as_positive(level, "level"))

    def _spread(self, u: Array) -> Array:
        return np.asarray(self.weight_variance * u**2 + self.variance)

    @staticmethod
    def _peak(tau: float) -> float:
        return 1.0 if tau <= 0.5 else (1.0 + 2.0 * tau) ** 2 / (8.0 * tau)

"""Random gains z = Du with D of any law: the dynamics-based method (wang2022decentralized).

There each agent multiplies what it sends by a random step size of its own. What z shows of u
depends on the law of D alone: `_gain_information`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_positive
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism._additive import width_of
from privest.mechanism._channel import Channel, Worst
from privest.mechanism._gain_information import GainInformation, information_of
from privest.mechanism._multiplicative import FAR
from privest.mechanism._truncated_inverse import balanced
from privest.mechanism._truncation import StochasticTruncation
from privest.noise import GaussianLaw, Quadrature, ScalarLaw


@dataclass(frozen=True)
class Gain(Channel):
    """z = D u, D of any law of `privest.noise` with density f; l = ln f.

        p(z|u) = f(D)/|u| ,  D = z/u ,     score = −(1 + D l'(D))/u
        I_z(u) = j/u² ,  j = E(1 + D l'(D))² :  2 + m²/σ² (Gaussian),  1 + m²/b² (Laplace), mean m

    Smooth laws have finite information away from 0; a law that jumps at a D ≠ 0 (uniform step
    sizes) has **infinite** information at every u, for the jump moves with u: n outputs show u
    to within 1/n. At u = 0 the output is 0: sup = ∞ for every law. Unbiased where E D = 1. No
    finite ε.

    >>> channel = Gain(GaussianLaw(variance=0.5, loc=1.0))
    >>> channel.information([1.0, -2.0, 0.0])  # (2 + 2)/u²
    array([ 4.,  1., inf])
    >>> from privest.noise import Uniform
    >>> Gain(1 + Uniform(0.5)).information([1.0])
    array([inf])
    """

    law: ScalarLaw
    worst = Worst(math.inf, 0.0)
    WHY_NOT = (
        "its information j/u² is infinite at u = 0 for every law of the gain. TruncatedGain is the "
        "version with a bound, for laws without jumps."
    )

    def __post_init__(self) -> None:
        check_law(self.law)

    @cached_property
    def shown(self) -> GainInformation:
        """j, k and i(t) of the law."""
        return information_of(self.law)

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        return np.asarray(given * self.law.sample(given.shape, rng))

    def noise_width(self, u: Array) -> Array:
        return np.abs(u) * width_of(self.law)

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln f(z/u) − ln |u|; at u = 0 all mass is at z = 0 (density +inf there)."""
        z, u = as_array(z, "z"), as_array(u, "u")
        nonzero = np.where(u == 0, 1.0, u)
        value = self.law.logpdf(gain(z, nonzero)) - np.log(np.abs(nonzero))
        return np.where(u == 0, np.where(z == 0, np.inf, -np.inf), value)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """−(1 + D l'(D))/u; NaN at u = 0 and where p is zero."""
        z, u = as_array(z, "z"), as_array(u, "u")
        d = gain(z, np.where(u == 0, 1.0, u))
        return np.asarray(-(1.0 + d * self.law.score(d)) / np.where(u == 0, np.nan, u))

    def support(self, u: float) -> tuple[float, float]:
        if u == 0:
            return (0.0, 0.0)
        low, high = sorted(u * end for end in self.law.support)
        return (low, high)

    def landmarks(self, u: float) -> tuple[float, ...]:
        return tuple(sorted({u * point for point in self._points}))

    def information(self, u: ArrayLike) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return self.shown.outside.value / np.square(as_array(u, "u"))

    def information_estimate(self, u: float) -> Quadrature:
        value = float(self.information(u))
        error = self.shown.outside.error / u**2 if math.isfinite(value) else 0.0
        return Quadrature(value, error)

    @cached_property
    def _points(self) -> tuple[float, ...]:
        """Gains at which the density is not smooth, and its quartiles."""
        law = self.law
        quartiles = law.quantile([0.25, 0.5, 0.75]).tolist()
        ends = [end for end in law.support if math.isfinite(end)]
        return (0.0, *law.landmarks, *law.jumps, *law.kinks, *ends, *quartiles)


@dataclass(frozen=True)
class TruncatedGain(StochasticTruncation):
    """z = D v with v = u outside (−ε, ε) and v = ±ε with probabilities (ε ± u)/2ε inside.

    ε = threshold, t = u/ε, f the density of D:

        outside  as `Gain`: I = j/u²
        inside   I = E[h²/(1 − t²h²)]/ε² ,   h = tanh(½ ln f(D)/f(−D))
        sup      max(j, k)/ε² ,   k = (∫ f(−x)²/f(x) dx − 1)/4

    Derivation: `_truncation`. With D in place of g these are the numbers of `TruncatedInverse`, but
    E v = u makes z unbiased where E D = 1, with a variance where D has one. **Trap:** a gain of one
    sign shows the sign of v, and the truncation with it: k = ∞. No finite ε.

    >>> channel = TruncatedGain(GaussianLaw(variance=4.0, loc=1.0), threshold=0.5)
    >>> channel.worst  # (2 + 1/4)/0.25 against (e − 1)/4/0.25 = 1.72
    Worst(information=9.0, at=0.5, attained=True)
    >>> from privest.noise import Logistic
    >>> channel = TruncatedGain.calibrated(4.0, law=1 + Logistic(1.0))
    >>> round(channel.worst.information, 12)
    4.0
    """

    law: ScalarLaw
    threshold: float

    def __post_init__(self) -> None:
        check_law(self.law)
        object.__setattr__(self, "threshold", as_positive(self.threshold, "threshold"))

    @cached_property
    def plain(self) -> Gain:
        return Gain(self.law)

    @property
    def largest(self) -> float:
        return self.plain.shown.largest

    def log_odds(self, z: Array) -> Array:
        d = gain(z, np.asarray(self.threshold))
        up, down = self.law.logpdf(d), self.law.logpdf(-d)
        with np.errstate(invalid="ignore"):
            return np.asarray(up - down)

    def inside(self, t: Array) -> Array:
        return self.plain.shown.inside(t)

    def information_estimate(self, u: float) -> Quadrature:
        if abs(u) > self.threshold:
            return self.plain.information_estimate(u)
        value, shown = float(self.information(u)), self.plain.shown
        if not math.isfinite(value):
            return Quadrature(value, 0.0)
        at_edge = abs(u) == self.threshold
        error = (
            max(shown.outside.error, shown.edge.error)
            if at_edge
            else shown.inside_error(u / self.threshold)
        )
        return Quadrature(value, error / self.threshold**2)

    @classmethod
    def calibrated(cls, level: float, *, law: ScalarLaw | None = None) -> Self:  # type: ignore[override]
        """The least threshold that keeps I ≤ level: ε = √(max(j, k)/level).

        `law` is free. Without one: N(1, σ²) with the σ = 1.281 at which both suprema agree, as in
        `TruncatedInverse`.
        """
        s = as_positive(level, "level")
        if law is None:
            law = GaussianLaw(balanced(GaussianLaw).variance, 1.0)
        check_law(law)
        shown = information_of(law)
        if not math.isfinite(shown.largest):
            reason = (
                "its density jumps away from 0, or E(1 + D l'(D))² diverges"
                if math.isinf(shown.outside.value)
                else "its sign shows how a truncated reading was rounded: D must take every value "
                "whose opposite it takes, and not too rarely"
            )
            raise NotCalibratable(
                f"a gain with {law!r} cannot be calibrated: {reason}, so its information is "
                "infinite at every threshold."
            )
        return cls(law, math.sqrt(shown.largest / s))


def gain(z: Array, u: Array) -> Array:
    """D = z/u, |D| ≤ 1e150 (beyond, every density is 0 in double precision)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(z / u, -FAR, FAR))


def check_law(law: object) -> None:
    if not isinstance(law, ScalarLaw):
        raise InvalidInput(
            "the gain must have a law of privest.noise (for example 1 + Logistic(0.3)); received "
            f"{type(law).__name__}."
        )

"""Stochastic truncation near zero (`remark:truncation`), for any channel that fails only there.

A reading |u| < ε is replaced by v = ±ε with probabilities (ε ± u)/2ε, so that E v = u; any other is
v = u. The channel behind it, of density p_v, then never sees an input closer to 0 than ε.
With t = u/ε and the log-odds 2a = ln p_ε(z)/p_−ε(z),

    inside   p(z|u) = (1+t)/2 p_ε(z) + (1−t)/2 p_−ε(z)
             score = h/(1 + th)/ε ,   I = E[h²/(1 − t²h²)]/ε² ,   h = tanh a
    edge     I → k/ε² as |t| → 1 ,    k = E sinh² a = (∫ p_−ε²/p_ε dz − 1)/4

(p_ε − p_−ε)²/(4ε² p(z|u)) is convex in t and I is even: inside, the supremum is that limit. Where
p_ε and p_−ε do not cover each other it is **infinite**: a sign that is seen shows which end it was.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array
from privest.mechanism._channel import Channel, Worst

LN2 = math.log(2.0)


class StochasticTruncation(Channel):
    """The channel `plain` behind a stochastic truncation at ±`threshold`.

    `plain` must have information i/u² away from 0 and a law of z that turns with the sign of u. At
    the kink |u| = ε the information is the larger of its one-sided limits, max(i, k)/ε², and the
    score that of the outside.
    """

    threshold: float

    @property
    @abstractmethod
    def plain(self) -> Channel:
        """The channel for |u| ≥ ε."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """max(i, k): the supremum for ε = 1."""

    @abstractmethod
    def log_odds(self, z: Array) -> Array:
        """ln p_ε(z)/p_−ε(z)."""

    @abstractmethod
    def inside(self, t: Array) -> Array:
        """E[h²/(1 − t²h²)] for |t| < 1: the information inside for ε = 1."""

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        up = rng.random(given.shape) < 0.5 * (1.0 + given / self.threshold)
        ends = np.where(up, self.threshold, -self.threshold)
        return self.plain.sample(np.where(self.truncates(given), ends, given), rng)

    def noise_width(self, u: Array) -> Array | float | None:
        return self.plain.noise_width(np.maximum(np.abs(u), self.threshold))

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        z, u = as_array(z, "z"), as_array(u, "u")
        inside = self.truncates(u)
        outer = self.plain.log_density(z, np.where(inside, self.threshold, u))
        if not inside.any():
            return outer
        t = np.where(inside, u / self.threshold, 0.0)
        up = np.log1p(t) + self.plain.log_density(z, self.threshold)
        down = np.log1p(-t) + self.plain.log_density(z, -self.threshold)
        return np.where(inside, np.logaddexp(up, down) - LN2, outer)

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """Outside that of `plain`; inside h/(1 + th)/ε, written in e^{−2|a|}."""
        z, u = as_array(z, "z"), as_array(u, "u")
        inside = self.truncates(u)
        outer = self.plain.score(z, np.where(inside, self.threshold, u))
        if not inside.any():
            return outer
        odds = self.log_odds(z)
        t = np.where(inside, u / self.threshold, 0.0)
        sign, decay = np.sign(odds), np.exp(-np.abs(odds))
        slope = sign * (1.0 - decay) / ((1.0 + sign * t) + (1.0 - sign * t) * decay)
        return np.where(inside, slope / self.threshold, outer)

    def support(self, u: float) -> tuple[float, float]:
        seen = [self.plain.support(v) for v in self._seen(u)]
        return (min(low for low, _ in seen), max(high for _, high in seen))

    def landmarks(self, u: float) -> tuple[float, ...]:
        return tuple(sorted({p for v in self._seen(u) for p in self.plain.landmarks(v)}))

    def information(self, u: ArrayLike) -> Array:
        given = as_array(u, "u")
        inside = self.truncates(given)
        outer = self.plain.information(np.where(inside, self.threshold, given))
        result = np.where(np.abs(given) == self.threshold, self.worst.information, outer)
        if inside.any():
            result[inside] = self.inside(given[inside] / self.threshold) / self.threshold**2
        return result

    @property
    def worst(self) -> Worst:
        with np.errstate(over="ignore"):
            return Worst(float(np.float64(self.largest) / self.threshold**2), self.threshold)

    def truncates(self, u: Array) -> Flags:
        """Which inputs are replaced."""
        return np.asarray(np.abs(u) < self.threshold)

    def _seen(self, u: float) -> tuple[float, ...]:
        """What `plain` may see in place of u."""
        return (u,) if abs(u) >= self.threshold else (-self.threshold, self.threshold)

"""Small channels for tests: by a density alone, written independently of the catalogue."""

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from privest.mechanism import Channel
from privest.noise import Distribution, Laplace


@dataclass(frozen=True)
class Toy(Channel):
    """Says nothing of its supremum."""

    def sample(self, u, rng):
        raise NotImplementedError

    @property
    def worst(self):
        return math.nan


@dataclass(frozen=True)
class Shift(Toy):
    """z = u + d from the log-density of d alone: no score, no formula."""

    law: Distribution
    declared: bool = True

    def sample(self, u, rng):
        return np.asarray(u) + self.law.sample(np.shape(u), rng)

    def log_density(self, z, u):
        return self.law.logpdf(np.asarray(z) - np.asarray(u))

    def support(self, u):
        low, high = self.law.support
        return (u + low, u + high) if self.declared else (-math.inf, math.inf)

    def landmarks(self, u):
        return tuple(u + p for p in self.law.landmarks) if self.declared else (u,)


@dataclass(frozen=True)
class LyingLaplace(Shift):
    """Calibrated to 1 by its own word; the scale of its noise says otherwise."""

    law: Distribution = field(default_factory=lambda: Laplace(0.9))
    claim: float = 1.0

    @property
    def worst(self):
        return self.claim


@dataclass(frozen=True)
class UniformDither(Toy):
    """z = the grid point below or above, with the chances of uniform dither."""

    step: float = 1.0
    discrete = True

    def sample(self, u, rng):
        u = np.asarray(u)
        return np.floor(u / self.step + rng.random(u.shape)) * self.step

    def outcomes(self, u):
        z = (math.floor(u / self.step) + np.arange(2)) * self.step
        return z[np.exp(self.log_density(z, u)) > 1e-18]

    def log_density(self, z, u):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - np.abs(np.asarray(z) - np.asarray(u)) / self.step, 0))


@dataclass(frozen=True)
class TriangularDither(Toy):
    """p(k|s) = B(s − k), the quadratic B-spline; sup I = 6/Δ² halfway between grid points."""

    step: float = 1.0
    claim: float = math.nan
    discrete = True

    def sample(self, u, rng):
        u = np.asarray(u) / self.step
        return np.round(u + rng.random(u.shape) + rng.random(u.shape) - 1) * self.step

    def outcomes(self, u):
        z = (round(u / self.step) + np.arange(-2, 3)) * self.step
        return z[np.exp(self.log_density(z, u)) > 1e-18]

    def log_density(self, z, u):
        s = np.abs(np.asarray(z) - np.asarray(u)) / self.step
        with np.errstate(divide="ignore"):
            return np.log(np.where(s <= 0.5, 0.75 - s**2, np.maximum(1.5 - s, 0) ** 2 / 2))

    @property
    def worst(self):
        return self.claim


@dataclass(frozen=True)
class LyingTriangular(TriangularDither):
    """The sum that skips outcomes of probability zero: right almost everywhere, 4 on the grid."""

    claim: float = 4.0

    def information(self, u):
        s = np.asarray(u) / self.step - np.round(np.asarray(u) / self.step)
        return np.where(np.abs(s) < 0.5, 4 + 4 * s**2 / (0.75 - s**2), 4.0) / self.step**2


@dataclass(frozen=True)
class InverseGaussian(Toy):
    """z = v/g, g ~ N(1, σ²); v = u, or ±ε with E v = u where |u| < ε. The edge is not a field."""

    sigma: float = 1.0

    @property
    def edge(self):
        return 0.37

    @property
    def supremum(self):
        s = self.sigma**-2
        return max(2 + s, math.expm1(4 * s) / 4) / self.edge**2

    def sample(self, u, rng):
        u, e = np.asarray(u), self.edge
        side = np.where(rng.random(u.shape) < (1 + u / e) / 2, e, -e)
        return np.where(np.abs(u) < e, side, u) / (1 + self.sigma * rng.standard_normal(u.shape))

    def _plain(self, z, v):
        with np.errstate(all="ignore"):
            log = -(((v / z - 1) / self.sigma) ** 2) / 2 + np.log(np.abs(v) / z**2)
        return log - math.log(self.sigma * math.sqrt(2 * math.pi))

    def _parts(self, z, u):
        z, u = np.broadcast_arrays(np.asarray(z, float), np.asarray(u, float))
        return z, u, np.clip((1 + u / self.edge) / 2, 0, 1), np.abs(u) < self.edge

    def log_density(self, z, u):
        z, u, w, inside = self._parts(z, u)
        with np.errstate(all="ignore"):
            up = np.log(w) + self._plain(z, self.edge)
            mixed = np.logaddexp(up, np.log1p(-w) + self._plain(z, -self.edge))
            return np.where(inside, mixed, self._plain(z, np.where(inside, 1.0, u)))

    def score(self, z, u):
        z, u, w, inside = self._parts(z, u)
        with np.errstate(all="ignore"):
            ratio = np.exp(self._plain(z, -self.edge) - self._plain(z, self.edge))
            within = (1 - ratio) / (w + (1 - w) * ratio)
            within = np.where(np.isinf(ratio), -1 / (1 - w), within) / (2 * self.edge)
            return np.where(inside, within, 1 / u - (u / z - 1) / (z * self.sigma**2))

    def landmarks(self, u):
        return (0.0, u if abs(u) > self.edge else self.edge, -self.edge)


@dataclass(frozen=True)
class TwinUniform(Toy):
    """z = D·u, D uniform on [1, 2]: both ends of the support move with u."""

    def log_density(self, z, u):
        z, u = np.broadcast_arrays(np.asarray(z, float), np.asarray(u, float))
        with np.errstate(all="ignore"):
            return np.where((z / u >= 1) & (z / u <= 2), -np.log(np.abs(u)), -np.inf)

    def support(self, u):
        return (min(u, 2 * u), max(u, 2 * u))

    def landmarks(self, u):
        return ()


@dataclass(frozen=True)
class StillJump(Toy):
    """z uniform on (0, 1) with chance w(u) = 1/(1 + e^-u), else on (−1, 0): I = w(1 − w)."""

    def log_density(self, z, u):
        z, u = np.broadcast_arrays(np.asarray(z, float), np.asarray(u, float))
        chance = -np.logaddexp(0, np.where(z > 0, -u, u))
        return np.where(np.abs(z) <= 1, chance, -np.inf)

    def support(self, u):
        return (-1.0, 1.0)

    def landmarks(self, u):
        return (0.0,)


@dataclass(frozen=True)
class Rounded(Toy):
    """z = round(u) + N(0, 1): shows nothing, except at the jumps."""

    def log_density(self, z, u):
        return -((np.asarray(z) - np.round(np.asarray(u))) ** 2) / 2 - math.log(2 * math.pi) / 2


@dataclass(frozen=True)
class Sign(Toy):
    """1{u + N(0, σ²) > 0}: the likelihood of a single answer has no maximum."""

    sigma: float = 1.0
    discrete = True

    def sample(self, u, rng):
        return np.sign(np.asarray(u) + self.sigma * rng.standard_normal(np.shape(u)))

    def outcomes(self, u):
        return np.array([-1.0, 1.0])

    def log_density(self, z, u):
        return scipy.special.log_ndtr(np.asarray(z) * np.asarray(u) / self.sigma)

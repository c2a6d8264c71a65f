"""Mixtures of Gaussians: outliers, several modes, any smooth shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_array, as_generator
from privest.errors import InvalidInput
from privest.noise.distribution import CentredLaw, Size


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

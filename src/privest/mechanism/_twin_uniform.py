"""Multiplicative noise, uniform on two intervals (Brackenbury et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_number, as_positive
from privest.errors import InvalidInput
from privest.mechanism._channel import Channel, Worst


@dataclass(frozen=True)
class TwinUniform(Channel):
    """z = D u, D uniform on [1 − b, 1 − a] ∪ [1 + a, 1 + b], 0 ≤ a < b (a inner, b outer).

        p(z|u) = 1/(2(b − a)|u|)  where  a ≤ |z/u − 1| ≤ b ,     score −1/u there

    The paper leaves the two intervals open: these keep E D = 1, so E z = u, and every reading
    moves by at least a|u|. a = 0 is the plain uniform law around 1.
    Information **infinite** at every u: the density jumps at the edges of the intervals, which
    move with u, so n outputs show u to within 1/n; at u = 0 the output is 0. Not admissible by
    `def:admissible`. **Trap:** E score² is 1/u². No finite ε.

    >>> channel = TwinUniform(inner=0.25, outer=0.75)
    >>> np.exp(channel.log_density([2.0, 3.0, 4.0], 2.0))  # D = 1, 1.5, 2; 1/(2·0.5·2)
    array([0. , 0.5, 0. ])
    >>> channel.worst.information
    inf
    """

    inner: float
    outer: float

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

    @property
    def worst(self) -> Worst:
        return Worst(math.inf)

    @classmethod
    def why_not(cls) -> str:
        return "its density jumps where it depends on u: infinite information for all parameters."

    def _inside(self, z: Array, u: Array) -> Array:
        with np.errstate(over="ignore"):
            away = np.abs(z / u - 1.0)
        return np.asarray((away >= self.inner) & (away <= self.outer))

"""Additive noise z = u + d with any law of `privest.noise` (`ex:affine`, one component)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism._channel import Channel, Worst
from privest.mechanism._pure_dp import epsilon_of_shift
from privest.noise import Quadrature, ScalarLaw


@dataclass(frozen=True)
class Additive(Channel):
    """z = u + d, d of the given law: p(z|u) = f(z − u), the same information at every u.

        I_z(u) = I_d = E (f'/f)² ;   infinite where f jumps (uniform, staircase)
        ε(c) = sup_x ln f(x)/f(x − c) :  Laplace c/b, Cauchy 2 asinh(c/2γ), others in `pure_dp.py`

    >>> from privest.noise import Laplace
    >>> channel = Additive(Laplace(0.5))
    >>> channel.worst.information, channel.epsilon(1.0)
    (4.0, 2.0)
    >>> Additive.calibrated(1.0, law=Laplace()).law
    Laplace(scale=1.0)
    """

    law: ScalarLaw

    def __post_init__(self) -> None:
        if not isinstance(self.law, ScalarLaw):
            raise InvalidInput(
                "the noise must be a law of privest.noise, such as privest.noise.Laplace(0.5); "
                f"received {type(self.law).__name__}."
            )

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        return given + self.law.sample(given.shape, rng)

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
    def worst(self) -> Worst:
        return Worst(self.law.fisher_information)

    def epsilon(self, move: float) -> float:
        return epsilon_of_shift(self.law, move)

    @classmethod
    def calibrated(cls, level: float, *, law: ScalarLaw) -> Self:  # type: ignore[override]
        """The law stretched until its Fisher information is `level`."""
        if not math.isfinite(law.fisher_information):
            raise NotCalibratable(
                f"additive noise with {law!r} cannot be calibrated: its density jumps, so its "
                "Fisher information is infinite at every scale."
            )
        return cls(law.with_fisher_information(level))

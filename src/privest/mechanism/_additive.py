"""Additive noise z = u + d with any law of `privest.noise` (`ex:affine`, one component)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_number
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism._channel import Channel, Worst
from privest.noise import (
    Affine,
    Cauchy,
    Laplace,
    Logistic,
    Quadrature,
    ScalarLaw,
    Staircase,
    StudentT,
)


@dataclass(frozen=True)
class Additive(Channel):
    """z = u + d, d of the given law: p(z|u) = f(z − u), the same information at every u.

        I_z(u) = I_d = E (f'/f)² ;   infinite where f jumps (uniform, staircase)
        ε(c) = sup_x ln f(x)/f(x − c) :  Laplace c/b, Cauchy 2 asinh(c/2γ) (`epsilon_of_shift`)

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


def epsilon_of_shift(law: ScalarLaw, move: float) -> float:
    """sup over x and |c| ≤ move of ln f(x)/f(x − c); inf where it is not bounded or not known.

        Laplace(b)        c/b                       |l'| = 1/b
        Logistic(s)       c/s                       |l'| < 1/s, a limit in the tails
        Student(ν, s)     (ν + 1) asinh(c/2s√ν)     Cauchy: ν = 1, 2 asinh(c/2γ)
        Staircase(ε, Δ)   ε ⌈c/Δ⌉                   the jumps, Δ apart, that c can cross

    Student: with x = s√ν t and c = 2s√ν a the ratio is ((ν+1)/2) ln (1 + (t − 2a)²)/(1 + t²);
    its derivative vanishes at t² − 2at − 1 = 0, where it is (ν + 1) asinh a.
    Infinite: Gaussian and every bounded law.

    >>> epsilon_of_shift(Laplace(0.5), 1.0), epsilon_of_shift(Staircase(1.0, 2.0), 2.5)
    (2.0, 2.0)
    """
    length = as_move(move)
    if length == 0:
        return 0.0
    if isinstance(law, Affine):
        return epsilon_of_shift(law.law, length / abs(law.scale))
    if isinstance(law, Laplace | Logistic):
        return length / law.scale
    if isinstance(law, Cauchy):
        return 2.0 * math.asinh(length / (2.0 * law.scale))
    if isinstance(law, StudentT):
        return (law.df + 1.0) * math.asinh(length / (2.0 * law.scale * math.sqrt(law.df)))
    if isinstance(law, Staircase):
        return law.epsilon * math.ceil(length / law.sensitivity)
    return math.inf


def as_move(move: float) -> float:
    """A distance c ≥ 0 by which one number may move."""
    length = as_number(move, "move")
    if length < 0:
        raise InvalidInput(f"move is a distance and must be ≥ 0; received {length:g}.")
    return length

"""A mechanism for one number: u goes in, z ~ p(·|u) comes out.

Most mechanisms of the paper treat readings, or linear combinations of them, one by one. What is
done to one number is a `Channel`; `Componentwise` (`_vector`) applies channels to u = Ay + b.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_nonnegative, as_positive
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism.source import Added
from privest.noise import Quadrature, ScalarLaw


class Worst(NamedTuple):
    """sup over u of the information I_z(u), and where: at one u, at none (constant or a limit)."""

    information: float
    at: float | None = None
    attained: bool = True


class ExactNoise(NamedTuple):
    """Noise that the lattice has exactly: z = u + shift + scale·e, e of this law and unit width.

    root  the largest double with root·scale ≤ 1: u/scale is taken as root·u, so that I_z ≤ 1/scale²
    """

    law: Added
    scale: float
    root: float
    shift: float = 0.0


class Channel(ABC):
    """z ~ p(·|u) for one number u; every method takes arrays of any shape, elementwise.

    A subclass is best a frozen data class whose fields are the public parameters. It must give
    `sample` and `log_density`; what it does not give is computed from the density: score by
    differences, information by quadrature or summation (`numerics`), with an error.

    `discrete`: z takes values on a countable set (`outcomes`) and p is a mass; else a density.
    `WHY_NOT`: why no choice of parameters bounds the information, where none does.
    """

    discrete: ClassVar[bool] = False
    WHY_NOT: ClassVar[str] = "its information is infinite for every choice of parameters."

    @abstractmethod
    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        """One z for each entry of u. Simulation: for experiments."""

    def noise_width(self, u: Array) -> Array | float | None:
        """How far z scatters about u, or less: what is far wider in doubles would show u itself.

        None: the channel adds nothing to u, or it is not known (a user's own).
        """
        return None

    @abstractmethod
    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln p(z|u), density or mass; −inf where it is zero."""

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """∂ ln p(z|u)/∂u; at a kink the mean of both sides."""
        from privest.mechanism.numeric_score import score_by_differences

        return score_by_differences(self, as_array(z, "z"), as_array(u, "u"))

    def support(self, u: float) -> tuple[float, float]:
        """The interval outside which p(·|u) is zero."""
        return (-math.inf, math.inf)

    def landmarks(self, u: float) -> tuple[float, ...]:
        """Points z where p(z|u), as a function of z, is not smooth or has a narrow part."""
        return (u,)

    def outcomes(self, u: float) -> Array:
        """The values that z takes with a probability above 1e-18, increasing. Discrete only."""
        kind = type(self).__name__
        raise InvalidInput(
            f"{kind} is discrete and lists no outcomes: give it the method `outcomes(u)`."
            if self.discrete
            else f"{kind} is not discrete: z has a density and no list of outcomes."
        )

    def information(self, u: ArrayLike) -> Array:
        """I_z(u) = E (∂ ln p/∂u)²; inf where it diverges."""
        given = as_array(u, "u")
        values = [self.information_estimate(float(v)).value for v in given.ravel()]
        return np.array(values).reshape(given.shape)

    def information_estimate(self, u: float) -> Quadrature:
        """I_z(u) at one u, with a bound on its error (0 for a closed form)."""
        if type(self).information is not Channel.information:
            return Quadrature(float(self.information(u)), 0.0)
        from privest.mechanism.numerics import information_by_numbers

        return information_by_numbers(self, u)

    @property
    def exact_noise(self) -> ExactNoise | None:
        """The channel as noise that can be released (`Mechanism.release`); None: simulation only.

        Numbers drawn in floating point give readings away; exact laws on a grid are the discrete
        Gaussian and Laplace.
        """
        return None

    @property
    def costly_draws(self) -> bool:
        """Whether a draw costs so much that an audit makes fewer of them."""
        return any(
            isinstance(law, ScalarLaw) and law.drawn_by_inversion
            for law in self.parameters.values()
        )

    @property
    @abstractmethod
    def worst(self) -> Worst:
        """sup over u of I_z(u): what must stay within the level. Infinite: never admissible."""

    def epsilon(self, move: float) -> float:
        """ε of pure differential privacy when u moves by at most `move`; inf if there is none."""
        return math.inf

    @classmethod
    def calibrated(cls, level: float, **parameters: float) -> Self:
        """The channel with the least noise whose information never exceeds `level`.

        `parameters` fixes what is not a matter of scale. Raises NotCalibratable with the reason.
        """
        raise NotCalibratable(f"{cls.__name__} cannot be calibrated: {cls.WHY_NOT}")

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters by name; none for a subclass that is not a data class."""
        described = fields(cast(Any, self)) if is_dataclass(type(self)) else ()
        return {field.name: getattr(self, field.name) for field in described}

    def _require_positive(self, *names: str) -> None:
        """Fields of a frozen data class as numbers > 0."""
        for name in names:
            object.__setattr__(self, name, as_positive(getattr(self, name), name))


def as_move(move: float) -> float:
    """A distance c ≥ 0 by which one number may move."""
    return as_nonnegative(move, "move")

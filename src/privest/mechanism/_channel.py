"""A mechanism for one number u: z ~ p(·|u). `Componentwise` applies channels to u = Ay + b."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_nonnegative, as_positive
from privest.errors import InvalidInput, NotCalibratable
from privest.mechanism.source import Added
from privest.noise import Distribution, Quadrature, from_logpdf

LIKELY = 1e-18  # probability from which on an outcome is listed
Span = tuple[float, float] | Callable[[float], tuple[float, float]]
Listed = Sequence[float] | Array
Points = Listed | Callable[[float], Listed]


class ExactNoise(NamedTuple):
    """Noise with an exact sampler: z = u + shift + scale·e, e of this distribution, unit width.

    root  the largest double with root·scale ≤ 1: u/scale is taken as root·u, so that I_z ≤ 1/scale²
    """

    law: Added
    scale: float
    root: float
    shift: float = 0.0


class Channel(ABC):
    """z ~ p(·|u) for one number u; every method takes arrays of any shape, elementwise.

    A subclass (best a frozen data class whose fields are the public parameters) must give `sample`,
    `log_density` and `worst`; the score is then computed by differences, the information by
    quadrature or summation (`numerics`), with an error.

    discrete     z takes values on a countable set (`outcomes`) and p is a mass; else a density.
    worst_input  an input at which the information is largest, if there is one and it is known.
    WHY_NOT      why no choice of parameters bounds the information, where none does.
    """

    discrete: ClassVar[bool] = False
    WHY_NOT: ClassVar[str] = "its information is infinite for every choice of parameters."

    @abstractmethod
    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        """One z for each entry of u. Simulation: for experiments."""

    @abstractmethod
    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln p(z|u), density or mass; −inf where it is zero."""

    @property
    @abstractmethod
    def worst(self) -> float:
        """sup over u of I_z(u); inf: not admissible at any level; NaN: not known."""

    @property
    def worst_input(self) -> float | None:
        """An input at which I_z(u) = `worst`; None: the same everywhere, or not known."""
        return None

    def noise_width(self, u: Array) -> Array | float | None:
        """A lower bound on the standard deviation of z around u; None: not known.

        Noise far narrower than the spacing of doubles at u would reveal u itself.
        """
        return None

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        """∂ ln p(z|u)/∂u; at a kink the mean of both sides."""
        from privest.mechanism.numerics import score_by_differences

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
        """The channel as noise with an exact sampler on a grid; None: simulation only."""
        return None

    @property
    def costly_draws(self) -> bool:
        """Whether draws invert a distribution function by numbers: an audit then makes fewer."""
        return any(
            isinstance(law, Distribution) and law.drawn_by_inversion
            for law in self.parameters.values()
        )

    def epsilon(self, sensitivity: float) -> float:
        """ε of pure differential privacy for inputs at most `sensitivity` apart; inf: none."""
        return math.inf

    @classmethod
    def calibrated(cls, level: float, **parameters: float) -> Self:
        """The channel with the least noise whose information never exceeds `level`.

        `parameters` fixes what is not a matter of scale. Raises NotCalibratable with the reason.
        """
        raise NotCalibratable(f"{cls.__name__} cannot be calibrated: {cls.WHY_NOT}")

    @staticmethod
    def from_functions(
        *,
        sample: Callable[[Array, np.random.Generator], Array] | None = None,
        log_density: Callable[[Array, Array], Array] | None = None,
        score: Callable[[Array, Array], Array] | None = None,
        support: Span = (-math.inf, math.inf),
        landmarks: Points | None = None,
        outcomes: Points | None = None,
        worst: float = math.nan,
    ) -> Channel:
        """A channel by a sampler, a log-density, or both.

        sample         (u, rng) → z, arrays of one shape.
        log_density    (z, u) → ln p(z|u), arrays that broadcast; a mass if `outcomes` are given.
        score          (z, u) → ∂ ln p/∂u; left out: by differences.
        support        (low, high), or a function of u: outside it p is zero.
        landmarks      points z where p is not smooth or narrow, or a function of u.
        outcomes       the values of a discrete z, or a function of u.
        worst          the supremum of the information over u, if you know it.

        With a density alone, samples come from its inverse distribution function by numbers, one
        table for each distinct u. With a sampler alone, questions about the density raise an
        error; `privest.audit` estimates the information from samples.

        >>> channel = Channel.from_functions(log_density=lambda z, u: -np.abs(z - u) - np.log(2))
        >>> channel.sample([0.0, 5.0], np.random.default_rng(1)).shape
        (2,)
        """
        return FunctionChannel(sample, log_density, score, (support, landmarks, outcomes), worst)

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters by name; none for a subclass that is not a data class."""
        described = fields(cast(Any, self)) if is_dataclass(type(self)) else ()
        return {field.name: getattr(self, field.name) for field in described}

    def _require_positive(self, *names: str) -> None:
        """Fields of a frozen data class as numbers > 0."""
        for name in names:
            object.__setattr__(self, name, as_positive(getattr(self, name), name))


class FunctionChannel(Channel):
    """A channel made of functions (`Channel.from_functions`)."""

    WHY_NOT = "it is a user's own: choose its parameters and let privest.audit.certify check them."

    def __init__(
        self,
        sample: Callable[[Array, np.random.Generator], Array] | None,
        log_density: Callable[[Array, Array], Array] | None,
        score: Callable[[Array, Array], Array] | None,
        points: tuple[Span, Points | None, Points | None],
        worst: float,
    ) -> None:
        for what, given in (("sample", sample), ("log_density", log_density), ("score", score)):
            if given is not None and not callable(given):
                raise InvalidInput(f"{what} must be a function; received {type(given).__name__}.")
        if sample is None and log_density is None:
            raise InvalidInput("give sample, log_density, or both: there is no mechanism yet.")
        self._sample, self._log_density, self._score = sample, log_density, score
        self._support, self._landmarks, self._outcomes = points
        self.discrete = self._outcomes is not None  # type: ignore[misc] # one class for both kinds
        self._worst = float(worst)
        self.has_density, self.has_score = log_density is not None, score is not None
        self.draws_from_density = sample is None

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        if self._sample is not None:
            return _shaped(self._sample(given, rng), given.shape, "sample")
        result = np.empty(given.shape)
        for value in np.unique(given).tolist():
            here = given == value
            result[here] = self._drawn(value, int(here.sum()), rng)
        return result

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        if self._log_density is None:
            raise InvalidInput(
                "the channel has a sampler only: its density, score and information are not "
                "known. privest.audit.fisher_information estimates the information from samples."
            )
        z, u = np.broadcast_arrays(as_array(z, "z"), as_array(u, "u"))
        return _shaped(self._log_density(z, u), z.shape, "log_density")

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        if self._score is None or self._log_density is None:
            return super().score(z, u)
        z, u = np.broadcast_arrays(as_array(z, "z"), as_array(u, "u"))
        return _shaped(self._score(z, u), z.shape, "score")

    def support(self, u: float) -> tuple[float, float]:
        return self._support(u) if callable(self._support) else self._support

    def landmarks(self, u: float) -> tuple[float, ...]:
        return (u,) if self._landmarks is None else tuple(_at(self._landmarks, u))

    def outcomes(self, u: float) -> Array:
        if self._outcomes is None:
            raise InvalidInput("the channel was given no outcomes: it is not known to be discrete.")
        values = np.sort(as_array(_at(self._outcomes, u), "outcomes", ndim=1))
        return np.asarray(values[np.exp(self.log_density(values, u)) > LIKELY])

    def information_estimate(self, u: float) -> Quadrature:
        self.log_density(np.zeros(0), u)  # without a density: the error that says so
        return super().information_estimate(u)

    @property
    def worst(self) -> float:
        return self._worst

    def __repr__(self) -> str:
        return "Channel.from_functions(…)"

    def _drawn(self, u: float, count: int, rng: np.random.Generator) -> Array:
        if self.discrete:
            values = self.outcomes(u)
            total = np.cumsum(np.exp(self.log_density(values, u)))
            if not abs(total[-1] - 1.0) < 1e-6:
                raise InvalidInput(
                    f"the masses of the channel sum to {total[-1]:.6g}, not to 1: outcomes are "
                    "missing or the masses are wrong. Give `sample`, or correct them."
                )
            return np.asarray(values[np.searchsorted(total / total[-1], rng.random(count))])
        low, high = self.support(u)
        points = [p for p in self.landmarks(u) if low < p < high]
        law = from_logpdf(
            lambda z: self.log_density(z, u), support=(low, high), landmarks=points, name="channel"
        )
        return law.sample(count, rng)


def _at(points: Points, u: float) -> Listed:
    return points(u) if callable(points) else points


def _shaped(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    result = np.asarray(value, dtype=np.float64)
    if result.shape != shape:
        raise InvalidInput(
            f"{what} must return an array of the shape it is given, {shape}; it returned "
            f"{result.shape}."
        )
    return result


def as_sensitivity(sensitivity: float) -> float:
    """A distance c ≥ 0 between two inputs."""
    return as_nonnegative(sensitivity, "sensitivity")

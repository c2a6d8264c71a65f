"""Mechanisms: a channel for one number, and mechanisms on vectors of measurements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_count, as_positive
from privest.errors import InvalidInput, NotCalibratable, NotReleasable
from privest.linalg import PSD, Blocks, Diagonal
from privest.mechanism._exact import ExactChannels, ExactNoise
from privest.mechanism.inputs import reads, real_numbers, split_missing
from privest.mechanism.source import Source, require_room
from privest.noise import Distribution, Quadrature
from privest.privacy import Statement

LIKELY = 1e-18  # probability from which on an outcome is listed
Span = tuple[float, float] | Callable[[float], tuple[float, float]]
Listed = Sequence[float] | Array
Points = Listed | Callable[[float], Listed]


class Channel(ABC):
    """z ~ p(·|u) for one number u; every method takes arrays of any shape, elementwise.

    A subclass (best a frozen data class of its public parameters) must give `sample`, `log_density`
    and `worst`; the score is then by differences, the information by quadrature or summation.

    discrete     z takes values on a countable set (`outcomes`) and p is a mass; else a density.
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
        """A lower bound on the standard deviation of z around u; None: not known."""
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
        """Whether draws invert a distribution function by numbers."""
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

        With a density alone, samples invert its distribution function by numbers. With a sampler
        alone, `privest.audit` estimates the information from samples.

        >>> channel = Channel.from_functions(log_density=lambda z, u: -np.abs(z - u) - np.log(2))
        >>> channel.sample([0.0, 5.0], np.random.default_rng(1)).shape
        (2,)
        """
        from privest.mechanism._functions import FunctionChannel

        return FunctionChannel(sample, log_density, score, (support, landmarks, outcomes), worst)

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields of a data class by name."""
        described = fields(cast(Any, self)) if is_dataclass(type(self)) else ()
        return {field.name: getattr(self, field.name) for field in described}

    def _require_positive(self, *names: str) -> None:
        for name in names:
            object.__setattr__(self, name, as_positive(getattr(self, name), name))


class Mechanism(ABC):
    """z ~ p(·|y) for m measurements y; z has q outputs (`def:admissible`: I_z(y) ≤ S for every y).

    Arrays may have leading axes (trials); the last one is that of measurements or outputs.
    """

    measurements: int
    outputs: int
    discrete: bool = False  # whether z takes values on a countable set

    @abstractmethod
    def simulate(self, y: ArrayLike, rng: np.random.Generator, trials: int | None = None) -> Array:
        """Draw z for y (m,) or (trials, m), with a simulation generator: for experiments."""

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        """z with protected noise, for mechanisms whose noise has an exact sampler.

        Raises NotReleasable for the others, whatever the measurements are.
        """
        raise NotReleasable(
            f"{type(self).__name__} is for simulation only: noise drawn in floating point reveals "
            "measurements, and exact noise on a grid exists for Gaussian and Laplace noise. "
            "Release with GaussianMechanism at the same level."
        )

    @abstractmethod
    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        """ln p(z|y), density or mass."""

    @abstractmethod
    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        """∂ ln p(z|y)/∂y, (..., m)."""

    @abstractmethod
    def information(self, y: ArrayLike) -> PSD:
        """I_z(y), (m, m) in its structure: `.diagonal()`, `.dense()`, or as an array of NumPy.

        `privest.audit.fisher_information` checks it, with errors.
        """

    @abstractmethod
    def worst_information(self) -> PSD:
        """A matrix that I_z(y) never exceeds, the least one known; inf entries: unbounded."""

    def epsilon(self, sensitivity: float) -> float:
        """ε of pure differential privacy if one measurement changes by `sensitivity`; inf: none."""
        return math.inf

    def _given(self, y: ArrayLike) -> Array:
        return self._of_size(as_array(y, "the measurements"))

    def _as_they_come(self, y: ArrayLike, trials: int | None) -> Array:
        """The measurements of a real release, NaN where one is missing; a row per trial."""
        return repeated(self._of_size(real_numbers(y)), trials)

    def _to_simulate(self, y: ArrayLike) -> tuple[Array, Flags | None]:
        """The measurements, 0 where one is missing, and where that is (None: nowhere)."""
        return split_missing(self._of_size(real_numbers(y)), finite=True)

    def _of_size(self, values: Array) -> Array:
        if values.ndim == 0 or values.shape[-1] != self.measurements:
            raise InvalidInput(
                f"the mechanism is for {self.measurements} measurements; received shape "
                f"{values.shape}."
            )
        return values

    def _one_vector(self, y: ArrayLike) -> Array:
        given = self._given(y)
        if given.ndim != 1:
            raise InvalidInput(f"give one vector of measurements; received shape {given.shape}.")
        return given

    def _offset(self, value: ArrayLike) -> Array:
        given = as_array(value, "b", ndim=(0, 1))
        if given.ndim and len(given) != self.outputs:
            raise InvalidInput(
                f"b must have {self.outputs} entries; received {len(given)} entries for "
                f"{self.outputs} outputs."
            )
        return given

    def _outputs(self, z: ArrayLike) -> Array:
        given = as_array(z, "z")
        if given.ndim == 0 or given.shape[-1] != self.outputs:
            raise InvalidInput(f"z has {self.outputs} entries; received shape {given.shape}.")
        return given


def repeated(values: Array, trials: int | None) -> Array:
    """One row per trial, (trials, m); None: unchanged."""
    if trials is None:
        return values
    if values.ndim > 1:
        raise InvalidInput(
            f"trials repeat one vector of measurements; received shape {values.shape}."
        )
    return np.broadcast_to(values, (as_count(trials, "trials", least=1), values.shape[-1]))


class Componentwise(Mechanism):
    """z_i ~ p_i(·|u_i), u = Ay + b: independent channels on linear combinations of y.

        I_z(y) = Aᵀ diag(I_i(u_i)) A

    An affine release Ay + b + Bd (`ex:affine`), B invertible, is B times that of `Additive` noise d
    on B⁻¹Ay + B⁻¹b, with the same information.

    `channels` is one channel for all, or one per row of A; A = I unless given.
    """

    outputs: int
    measurements: int

    def __init__(
        self,
        channels: Channel | Sequence[Channel],
        matrix: ArrayLike | None = None,
        offset: ArrayLike = 0.0,
        *,
        measurements: int | None = None,
    ) -> None:
        listed = (channels,) if isinstance(channels, Channel) else channels
        good = isinstance(listed, Sequence) and all(isinstance(one, Channel) for one in listed)
        if not good:
            raise InvalidInput("channels must be a Channel, or a list of them.")
        self.matrix: Array | None = None if matrix is None else as_array(matrix, "A", ndim=2)
        self.outputs, self.measurements = self._sizes(channels, measurements)
        self.offset: Array = self._offset(offset)
        self.common: Channel | None = channels if isinstance(channels, Channel) else None
        # As they were stated: one for all outputs, or one for each.
        self.stated: tuple[Channel, ...] = tuple(listed)
        self.channels: tuple[Channel, ...] = self.stated * (self.outputs if self.common else 1)
        if len(self.channels) != self.outputs:
            raise InvalidInput(
                f"there are {len(self.channels)} channels for {self.outputs} outputs."
            )
        self.discrete: bool = any(channel.discrete for channel in self.stated)

    def _sizes(
        self, channels: Channel | Sequence[Channel], measurements: int | None
    ) -> tuple[int, int]:
        stated = None if measurements is None else as_count(measurements, "measurements", least=1)
        if self.matrix is not None:
            outputs, size = self.matrix.shape
        elif stated is not None:
            outputs = size = stated
        elif isinstance(channels, Channel):
            raise InvalidInput("give the number of measurements, or the matrix A.")
        else:
            outputs = size = len(channels)
        if stated not in (None, size):
            raise InvalidInput(f"A has {size} columns; received measurements={stated}.")
        if min(outputs, size) < 1:
            raise InvalidInput(
                f"a mechanism needs at least one measurement and one output; received {size} and "
                f"{outputs}."
            )
        return outputs, size

    @property
    def costly_draws(self) -> bool:
        """Whether a draw inverts a distribution function by numbers, or runs code."""
        return any(channel.costly_draws for channel in self.stated)

    def inputs(self, y: ArrayLike) -> Array:
        """u = Ay + b."""
        given = self._given(y)
        return (given if self.matrix is None else given @ self.matrix.T) + self.offset

    def simulate(self, y: ArrayLike, rng: np.random.Generator, trials: int | None = None) -> Array:
        def sampled(channel: Channel, u: Array) -> Array:
            width = channel.noise_width(u)
            if width is not None:
                require_room(u, width)
            return channel.sample(u, rng)

        values, absent = self._to_simulate(y)
        drawn = self._each(sampled, repeated(self.inputs(values), trials))
        return drawn if absent is None else np.where(reads(self.matrix, absent), np.nan, drawn)

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        """z = u + shift + scale·e with protected noise e, for additive Laplace or Gaussian noise.

        I_z(y) ≤ Aᵀdiag(1/scale²)A for every y, literally. No value is rejected; NaN is missing, and
        so is every z_i that depends on it. NotReleasable for other channels.
        """
        return self._exact.release(self._as_they_come(y, trials), source)

    def statement(self, sensitivity: float, *, delta: float = 1e-6) -> Statement:
        """The promise of `release` if one measurement changes by `sensitivity`; Laplace: pure ε."""
        return self._exact.statement(sensitivity, delta)

    @cached_property
    def _exact(self) -> ExactChannels:
        return ExactChannels(self.stated, self.matrix, self.offset, self.measurements)

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        parts = self._each(lambda c, z, u: c.log_density(z, u), *self._both(z, y))
        return np.asarray(parts.sum(axis=-1))

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        parts = self._each(lambda c, z, u: c.score(z, u), *self._both(z, y))
        return parts if self.matrix is None else parts @ self.matrix

    def information(self, y: ArrayLike) -> PSD:
        u = self.inputs(self._one_vector(y))
        return self.spread(self._each(lambda channel, u: channel.information(u), u))

    def worst_information(self) -> PSD:
        worst = np.array([channel.worst for channel in self.stated])
        return self.spread(np.broadcast_to(worst, self.outputs))

    def epsilon(self, sensitivity: float) -> float:
        if self.matrix is None:
            return max(channel.epsilon(sensitivity) for channel in self.stated)
        # One measurement changes u along a column of A; the ε of independent channels add.
        steps = np.abs(self.matrix) * sensitivity
        return max(
            sum(c.epsilon(float(step)) for c, step in zip(self.channels, column) if step)
            for column in steps.T
        )

    def __repr__(self) -> str:
        which = repr(self.common) if self.common is not None else f"{self.outputs} channels"
        form = "" if self.matrix is None else f", A {self.outputs}×{self.measurements}"
        return f"Componentwise({which}, {self.measurements} measurements{form})"

    def _both(self, z: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        z, u = np.broadcast_arrays(self._outputs(z), self.inputs(y))
        return z, u

    def _each(self, function: Callable[..., Array], *arrays: Array) -> Array:
        if self.common is not None:
            return function(self.common, *arrays)
        parts = [
            function(channel, *(a[..., i] for a in arrays))
            for i, channel in enumerate(self.channels)
        ]
        return np.stack(parts, axis=-1)

    def spread(self, values: Array) -> PSD:
        """Aᵀ diag(values) A, inf wherever an infinite value contributes; (m, m) only where A is."""
        if self.matrix is None:
            return Diagonal(values)
        finite = np.isfinite(values)
        seen = (self.matrix[~finite] != 0).astype(float)  # ∞·a aᵀ, where a ≠ 0
        rows = self.matrix[finite]
        bounded = (rows.T * values[finite]) @ rows
        return Blocks([np.where(seen.T @ seen > 0, np.inf, bounded)])

"""Mechanisms on all readings: the same questions for every one of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count
from privest.errors import InvalidInput, NotIdentifiable, NotReleasable
from privest.linalg import root_of_rows
from privest.mechanism._channel import Channel
from privest.mechanism._exact import ExactChannels
from privest.mechanism.rows import repeated
from privest.mechanism.source import Source, require_room
from privest.privacy import GridStatement, PrivacyLevel, as_level
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Information(Record):
    """I_z(y) (m, m), and a bound on the error of its entries (0: a closed form)."""

    matrix: Array
    error: float


class Mechanism(ABC):
    """z ~ p(·|y) for m readings y; z has q outputs.

    Arrays may have leading axes (trials); the last one is that of readings or outputs.
    """

    readings: int
    outputs: int
    discrete: bool = False  # whether z takes values on a countable set

    @abstractmethod
    def simulate(self, y: ArrayLike, rng: np.random.Generator, trials: int | None = None) -> Array:
        """Draw z for y (m,) or (trials, m), with a simulation generator: for experiments."""

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        """z with protected noise, for mechanisms whose law has an exact sampler.

        Raises NotReleasable for the others, whatever the readings are.
        """
        raise NotReleasable(
            f"{type(self).__name__} is for simulation only: numbers drawn in floating point give "
            "readings away, and exact noise on a grid is there for Gaussian and Laplace noise. "
            "Release with GaussianMechanism at the same level; simulate tries this one out."
        )

    @abstractmethod
    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        """ln p(z|y), density or mass."""

    @abstractmethod
    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        """∂ ln p(z|y)/∂y, (..., m)."""

    @abstractmethod
    def information(self, y: ArrayLike) -> Information:
        """I_z(y)."""

    @abstractmethod
    def worst_information(self) -> Array:
        """A matrix that I_z(y) never exceeds, the least one known; inf entries: unbounded."""

    def epsilon(self, move: float) -> float:
        """ε of pure differential privacy when one reading moves by at most `move`; else inf."""
        return math.inf

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The public parameters by name."""

    def _readings(self, y: ArrayLike) -> Array:
        given = as_array(y, "the readings")
        if given.ndim == 0 or given.shape[-1] != self.readings:
            raise InvalidInput(
                f"the mechanism is for {self.readings} readings; received shape {given.shape}."
            )
        return given

    def _one_vector(self, y: ArrayLike) -> Array:
        given = self._readings(y)
        if given.ndim != 1:
            raise InvalidInput(f"one vector of readings, please; received shape {given.shape}.")
        return given

    def _one_each(self, value: ArrayLike, name: str) -> Array:
        """A number, or one for each output."""
        given = as_array(value, name, ndim=(0, 1))
        if given.ndim and len(given) != self.outputs:
            raise InvalidInput(
                f"{name} must have {self.outputs} entries; received {len(given)} entries for "
                f"{self.outputs} outputs."
            )
        return given

    def _outputs(self, z: ArrayLike) -> Array:
        given = as_array(z, "z")
        if given.ndim == 0 or given.shape[-1] != self.outputs:
            raise InvalidInput(f"z has {self.outputs} entries; received shape {given.shape}.")
        return given


class Componentwise(Mechanism):
    """z_i ~ p_i(·|u_i), u = Ay + b: independent channels on linear combinations of the readings.

        I_z(y) = Aᵀ diag(I_i(u_i)) A

    Data perturbation has A = I; output perturbation A = (HᵀH)^-½Hᵀ, the estimate in units in
    which every direction is equally exposed (`output_perturbation`).

    `channels` is one channel for all, or one a row of A.
    """

    def __init__(
        self,
        channels: Channel | Sequence[Channel],
        matrix: ArrayLike | None = None,
        offset: ArrayLike = 0.0,
        *,
        readings: int | None = None,
    ) -> None:
        self.matrix = None if matrix is None else as_array(matrix, "A", ndim=2)
        self.outputs, self.readings = self._sizes(channels, readings)
        self.offset = self._one_each(offset, "b")
        self.common = channels if isinstance(channels, Channel) else None
        self.channels = (
            (channels,) * self.outputs if isinstance(channels, Channel) else tuple(channels)
        )
        if len(self.channels) != self.outputs:
            raise InvalidInput(
                f"there are {len(self.channels)} channels for {self.outputs} outputs."
            )
        if not all(isinstance(channel, Channel) for channel in self.channels):
            raise InvalidInput("channels must be a Channel, or a list of them.")
        self.discrete = any(channel.discrete for channel in self.channels)

    def _sizes(
        self, channels: Channel | Sequence[Channel], readings: int | None
    ) -> tuple[int, int]:
        """How many outputs and readings there are: by A, else as many as were given."""
        if readings is not None:
            readings = as_count(readings, "readings", least=1)
        if self.matrix is not None:
            sizes = self.matrix.shape
            if readings not in (None, sizes[1]):
                raise InvalidInput(f"A has {sizes[1]} columns; readings={readings} was given.")
        elif readings is not None:
            sizes = (readings, readings)
        elif isinstance(channels, Channel):
            raise InvalidInput("give the number of readings, or the matrix A.")
        else:
            sizes = (len(channels),) * 2
        if min(sizes) < 1:
            raise InvalidInput(
                f"a mechanism needs at least one reading and one output; received {sizes[1]} "
                f"and {sizes[0]}."
            )
        return sizes[0], sizes[1]

    def inputs(self, y: ArrayLike) -> Array:
        """u = Ay + b."""
        given = self._readings(y)
        return (given if self.matrix is None else given @ self.matrix.T) + self.offset

    def simulate(self, y: ArrayLike, rng: np.random.Generator, trials: int | None = None) -> Array:
        return self._each(
            lambda channel, u: _sampled(channel, u, rng), repeated(self.inputs(y), trials)
        )

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        """z = u + shift + scale·e with protected noise e, for additive Laplace or Gaussian noise.

        I_z(y) ≤ Aᵀdiag(1/scale²)A for every y, literally; z is a function of whole numbers.
        Nothing is refused because of a value; NaN is missing, and so is all of z that reads it.
        Raises NotReleasable, whatever the readings are, for every other channel.
        """
        return self._exact.release(y, source, trials)

    def statement(self, move: float, *, delta: float = 1e-6) -> GridStatement:
        """What `release` promises if one reading moves by at most `move`; Laplace: pure ε."""
        return self._exact.statement(move, delta)

    @cached_property
    def _exact(self) -> ExactChannels:
        return ExactChannels(self.channels[:1] if self.common else self.channels, self.matrix,
                             self.offset, self.readings)  # fmt: skip

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        parts = self._each(lambda c, z, u: c.log_density(z, u), *self._both(z, y))
        return np.asarray(parts.sum(axis=-1))

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        parts = self._each(lambda c, z, u: c.score(z, u), *self._both(z, y))
        return parts if self.matrix is None else parts @ self.matrix

    def information(self, y: ArrayLike) -> Information:
        u = self.inputs(self._one_vector(y))
        found = [c.information_estimate(float(v)) for c, v in zip(self.channels, u)]
        values = np.array([estimate.value for estimate in found])
        error = max(estimate.error for estimate in found)
        reach = 1.0 if self.matrix is None else float(np.abs(self.matrix).sum(axis=0).max()) ** 2
        return Information(self.spread(values), reach * error)

    def worst_information(self) -> Array:
        return self.spread(np.array([c.worst.information for c in self.channels]))

    def epsilon(self, move: float) -> float:
        if self.matrix is None:
            return max(channel.epsilon(move) for channel in self.channels)
        # One reading moves u along a column of A; the ε of independent channels add.
        steps = np.abs(self.matrix) * move
        return max(
            sum(c.epsilon(float(step)) for c, step in zip(self.channels, column) if step)
            for column in steps.T
        )

    @property
    def parameters(self) -> dict[str, Any]:
        if self.common is not None:
            return {"channel": type(self.common).__name__, **self.common.parameters}
        return {f"channel {i}": channel.parameters for i, channel in enumerate(self.channels)}

    def __repr__(self) -> str:
        which = repr(self.common) if self.common is not None else f"{self.outputs} channels"
        form = "" if self.matrix is None else f", A {self.outputs}×{self.readings}"
        return f"Componentwise({which}, {self.readings} readings{form})"

    def _both(self, z: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        z, u = np.broadcast_arrays(self._outputs(z), self.inputs(y))
        return z, u

    def _each(self, function: Callable[..., Array], *arrays: Array) -> Array:
        """A function of a channel and its components, for every channel."""
        if self.common is not None:
            return function(self.common, *arrays)
        parts = [
            function(channel, *(a[..., i] for a in arrays))
            for i, channel in enumerate(self.channels)
        ]
        return np.stack(parts, axis=-1)

    def spread(self, values: Array) -> Array:
        """Aᵀ diag(values) A, with inf wherever an infinite value is seen."""
        if self.matrix is None:
            return np.diag(values)
        if not np.isfinite(values).all():
            seen = (self.matrix[~np.isfinite(values)] != 0).astype(float)  # ∞·a aᵀ, where a ≠ 0
            finite = self.matrix[np.isfinite(values)]
            rest = (finite.T * values[np.isfinite(values)]) @ finite
            return np.where(seen.T @ seen > 0, np.inf, rest)
        return (self.matrix.T * values) @ self.matrix


def _sampled(channel: Channel, u: Array, rng: np.random.Generator) -> Array:
    width = channel.noise_width(u)
    if width is not None:
        require_room(u, width)
    return channel.sample(u, rng)


def data_perturbation(
    level: PrivacyLevel | ArrayLike, readings: int, calibrated: Callable[[float], Channel]
) -> Componentwise:
    """Channels on the readings themselves, with the least noise within the level.

    `calibrated(s)` makes the channel at level s. A number or a diagonal S: one channel a reading
    at its own level. Any other S = L Lᵀ: unit channels on Lᵀy, I ≤ L Lᵀ.
    """
    readings = as_count(readings, "readings", least=1)
    S = as_level(level).for_size(readings)
    if S.pointwise is None:
        return Componentwise(calibrated(1.0), S.factor_rows(np.eye(readings)))
    values = S.diagonal()
    if not (values > 0).all():
        raise InvalidInput(
            "a reading at level 0 must not be released at all: leave it out of the mechanism."
        )
    if (values == values[0]).all():
        return Componentwise(calibrated(float(values[0])), readings=readings)
    return Componentwise([calibrated(float(s)) for s in values])


def output_perturbation(
    level: PrivacyLevel | ArrayLike, matrix: ArrayLike, calibrated: Callable[[float], Channel]
) -> Componentwise:
    """Channels on the least-squares estimate: z = (HᵀH)^½ θ̂ + ..., within I_z(y) ≤ s·I.

    u = (HᵀH)^-½Hᵀy has orthonormal rows, so I_z(y) = i·P_H: one number to calibrate and no worst
    direction. The estimate is (HᵀH)^-½ z: unbiased where E z = u.
    """
    H = as_array(matrix, "H", ndim=2)
    size = np.linalg.norm(H, axis=0)
    root = root_of_rows(H / np.where(size > 0, size, 1.0))
    if root.rank < H.shape[1]:
        raise NotIdentifiable(
            f"H has rank {root.rank} of {H.shape[1]}: there is no single least-squares estimate to "
            "perturb.",
            root.hidden,
        )
    number = as_level(level).number
    if number is None:
        raise InvalidInput("output perturbation needs a level that is one number, s·I.")
    left, _, right = np.linalg.svd(H, full_matrices=False)
    return Componentwise(calibrated(number), right.T @ left.T)

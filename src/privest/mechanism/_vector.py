"""Mechanisms on vectors of measurements; independent channels on linear combinations of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, as_array, as_count, fingerprint_of
from privest.errors import InvalidInput, NotReleasable
from privest.mechanism._channel import Channel
from privest.mechanism.rows import marked, of_size, real_numbers, repeated, split_missing
from privest.mechanism.source import Added, Source, as_protected, require_room
from privest.privacy import Statement, rows_statement


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
    def information(self, y: ArrayLike) -> Array:
        """I_z(y), (m, m); `privest.audit.fisher_information` checks it, with errors."""

    @abstractmethod
    def worst_information(self) -> Array:
        """A matrix that I_z(y) never exceeds, the least one known; inf entries: unbounded."""

    def epsilon(self, sensitivity: float) -> float:
        """ε of pure differential privacy if one measurement changes by `sensitivity`; inf: none."""
        return math.inf

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The public parameters by name."""

    def _given(self, y: ArrayLike) -> Array:
        return of_size(as_array(y, "the measurements"), self.measurements)

    def _one_vector(self, y: ArrayLike) -> Array:
        given = self._given(y)
        if given.ndim != 1:
            raise InvalidInput(f"give one vector of measurements; received shape {given.shape}.")
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
    """z_i ~ p_i(·|u_i), u = Ay + b: independent channels on linear combinations of y.

        I_z(y) = Aᵀ diag(I_i(u_i)) A

    `channels` is one channel for all, or one per row of A; A = I unless given.
    """

    def __init__(
        self,
        channels: Channel | Sequence[Channel],
        matrix: ArrayLike | None = None,
        offset: ArrayLike = 0.0,
        *,
        measurements: int | None = None,
    ) -> None:
        self.matrix = None if matrix is None else as_array(matrix, "A", ndim=2)
        self.outputs, self.measurements = self._sizes(channels, measurements)
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
        self, channels: Channel | Sequence[Channel], measurements: int | None
    ) -> tuple[int, int]:
        """(outputs, measurements): by A, else as stated, else as many as there are channels."""
        if self.matrix is not None:
            sizes = self.matrix.shape
            if measurements not in (None, sizes[1]):
                raise InvalidInput(f"A has {sizes[1]} columns; received {measurements=}.")
        elif measurements is not None:
            sizes = (as_count(measurements, "measurements", least=1),) * 2
        elif isinstance(channels, Channel):
            raise InvalidInput("give the number of measurements, or the matrix A.")
        else:
            sizes = (len(channels),) * 2
        if min(sizes) < 1:
            raise InvalidInput(
                f"a mechanism needs at least one measurement and one output; received {sizes[1]} "
                f"and {sizes[0]}."
            )
        return sizes[0], sizes[1]

    def inputs(self, y: ArrayLike) -> Array:
        """u = Ay + b."""
        given = self._given(y)
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
        No value is rejected; NaN is missing, and so is every z_i that depends on it.
        Raises NotReleasable, whatever the measurements are, for every other channel.
        """
        return self._exact.release(y, source, trials)

    def statement(self, sensitivity: float, *, delta: float = 1e-6) -> Statement:
        """The promise of `release` if one measurement changes by `sensitivity`; Laplace: pure ε."""
        return self._exact.statement(sensitivity, delta)

    @cached_property
    def _exact(self) -> ExactChannels:
        return ExactChannels(self.channels[:1] if self.common else self.channels, self.matrix,
                             self.offset, self.measurements)  # fmt: skip

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        parts = self._each(lambda c, z, u: c.log_density(z, u), *self._both(z, y))
        return np.asarray(parts.sum(axis=-1))

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        parts = self._each(lambda c, z, u: c.score(z, u), *self._both(z, y))
        return parts if self.matrix is None else parts @ self.matrix

    def information(self, y: ArrayLike) -> Array:
        u = self.inputs(self._one_vector(y))
        found = [c.information_estimate(float(v)) for c, v in zip(self.channels, u)]
        return self.spread(np.array([estimate.value for estimate in found]))

    def worst_information(self) -> Array:
        return self.spread(np.array([c.worst for c in self.channels]))

    def epsilon(self, sensitivity: float) -> float:
        if self.matrix is None:
            return max(channel.epsilon(sensitivity) for channel in self.channels)
        # One measurement changes u along a column of A; the ε of independent channels add.
        steps = np.abs(self.matrix) * sensitivity
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
        form = "" if self.matrix is None else f", A {self.outputs}×{self.measurements}"
        return f"Componentwise({which}, {self.measurements} measurements{form})"

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
        """Aᵀ diag(values) A, inf wherever an infinite value contributes."""
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


class ExactChannels:
    """How channels with exact noise on u = Ay + b are released (A None: the measurements).

        z = b + shift + scale·g·(⌊w/g + W⌋ + X) ,   w = root·Ay ,   root·scale ≤ 1

    w is never rounded before it is put on the grid: root·A is kept as the exact sum of two doubles.
    So I_z(y) ≤ root²AᵀA ≤ AᵀA/scale² for the doubles A, literally, and z is computed from whole
    numbers and public constants alone.
    """

    def __init__(
        self, channels: Sequence[Channel], matrix: Array | None, offset: Array, measurements: int
    ) -> None:
        found = [channel.exact_noise for channel in channels]
        self.noise = [noise for noise in found if noise is not None]
        if len(self.noise) < len(channels):
            _refuse(channels[[noise is None for noise in found].index(True)])
        if len({noise.law for noise in self.noise}) > 1:
            raise NotReleasable(
                "channels of one release must all be Laplace or all Gaussian: make two mechanisms "
                "of them, and count both."
            )
        self.matrix, self.offset, self.measurements = matrix, offset, measurements
        self.outputs = measurements if matrix is None else len(matrix)
        self.law: Added = self.noise[0].law

    def _each(self, name: str) -> Array:
        return np.array([getattr(noise, name) for noise in self.noise])

    @cached_property
    def _weights(self) -> list[Array]:
        """root·A, (q, m) or a diagonal, as doubles whose sum it is."""
        roots = self._each("root")
        if self.matrix is None:
            return [np.broadcast_to(roots, self.measurements)]
        high, low = lattice.two_product(*np.broadcast_arrays(roots[:, None], self.matrix))
        return [high, low] if low.any() else [high]

    def _shown(self, raw: Array) -> lattice.Exactly:
        """w of measurements (..., m), NaN where missing; b is public, and added afterwards."""
        values, absent = split_missing(raw, finite=False)
        terms: list[tuple[Array, Array]] = []
        for weights in self._weights:
            if weights.ndim == 1:
                terms.append((weights, values))
            else:
                terms += [(weights[:, k], values[..., k : k + 1]) for k in range(self.measurements)]
        if absent is not None and self.matrix is not None:
            absent = self._reads(absent)
        return marked(lattice.sum_of_products(terms), absent)

    def release(self, y: ArrayLike, source: Source | None, trials: int | None) -> Array:
        raw = repeated(of_size(real_numbers(y), self.measurements), trials)
        whole = as_protected(source).add_noise(
            lambda: self._shown(raw),
            shape=(*raw.shape[:-1], self.outputs),
            law=self.law,
            fingerprint=self._fingerprint,
        )
        return whole * self._each("scale") + self._each("shift") + self.offset

    @cached_property
    def _fingerprint(self) -> str:
        """A digest of all that makes z from Ay and the noise."""
        rest = (self._each("scale"), self._each("shift"), np.asarray(self.offset))
        return fingerprint_of("exact channels", *self._weights, *rest)

    def _reads(self, absent: Flags) -> Flags:
        """Which outputs depend on a missing measurement."""
        assert self.matrix is not None
        return np.asarray(absent.astype(float) @ (self.matrix != 0).T.astype(float) > 0)

    def statement(self, sensitivity: float, delta: float) -> Statement:
        """The promise for the exact weights; those that are no doubles are rounded up."""
        rows = np.abs(self._weights[0])
        if len(self._weights) > 1:
            up = np.nextafter(rows, np.inf)
            rows = np.where(self._weights[1] == 0, rows, up)
        return rows_statement(rows, sensitivity=sensitivity, law=self.law, delta=delta)


def _refuse(channel: Channel) -> None:
    raise NotReleasable(
        f"{channel!r} is for simulation only: noise drawn in floating point reveals measurements, "
        "and exact noise on a grid exists for additive Laplace and Gaussian noise. Release with "
        "GaussianMechanism or Additive(Laplace(b))."
    )

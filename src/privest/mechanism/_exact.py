"""Channels whose noise the lattice has exactly, on u = Ay + b: how they are released.

    z = b + shift + scale·g·(⌊w/g + W⌋ + X) ,   w = root·Ay ,   root·scale ≤ 1

w is never rounded before it is put on the grid: root·A is kept as the exact sum of two doubles.
So I_z(y) ≤ root²AᵀA ≤ AᵀA/scale² for the doubles A, literally, and z is computed from whole
numbers and public constants alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, fingerprint_of
from privest.errors import NotReleasable
from privest.mechanism._channel import Channel
from privest.mechanism.rows import marked, of_size, real_numbers, repeated, split_missing
from privest.mechanism.source import Added, Source, as_protected
from privest.privacy import GridStatement, rows_statement


class ExactChannels:
    """One channel for all outputs or one each, A (None: the readings themselves), and b."""

    def __init__(
        self, channels: Sequence[Channel], matrix: Array | None, offset: Array, readings: int
    ) -> None:
        found = [channel.exact_noise for channel in channels]
        self.noise = [noise for noise in found if noise is not None]
        if len(self.noise) < len(channels):
            _refuse(channels[[noise is None for noise in found].index(True)])
        if len({noise.law for noise in self.noise}) > 1:
            raise NotReleasable(
                "channels of one release must have one law, all Laplace or all Gaussian: make two "
                "mechanisms of them, and count both."
            )
        self.matrix, self.offset, self.readings = matrix, offset, readings
        self.outputs = readings if matrix is None else len(matrix)
        self.law: Added = self.noise[0].law

    def _each(self, name: str) -> Array:
        return np.array([getattr(noise, name) for noise in self.noise])

    @cached_property
    def _weights(self) -> list[Array]:
        """root·A, (q, m) or a diagonal, as doubles whose sum it is."""
        roots = self._each("root")
        if self.matrix is None:
            return [np.broadcast_to(roots, self.readings)]
        high, low = lattice.two_product(*np.broadcast_arrays(roots[:, None], self.matrix))
        return [high, low] if low.any() else [high]

    def _shown(self, raw: Array) -> lattice.Exactly:
        """w of readings (..., m), NaN where missing; b is public, and added afterwards."""
        values, absent = split_missing(raw, finite=False)
        terms: list[tuple[Array, Array]] = []
        for weights in self._weights:
            if weights.ndim == 1:
                terms.append((weights, values))
            else:
                terms += [(weights[:, k], values[..., k : k + 1]) for k in range(self.readings)]
        if absent is not None and self.matrix is not None:
            absent = self._reads(absent)
        return marked(lattice.sum_of_products(terms), absent)

    def release(self, y: ArrayLike, source: Source | None, trials: int | None) -> Array:
        raw = repeated(of_size(real_numbers(y), self.readings), trials)
        whole = as_protected(source).add_noise(
            lambda: self._shown(raw),
            shape=(*raw.shape[:-1], self.outputs),
            law=self.law,
            fingerprint=self._fingerprint,
        )
        return whole * self._each("scale") + self._each("shift") + self.offset

    @cached_property
    def _fingerprint(self) -> str:
        """Of all that makes z from Ay and the noise."""
        rest = (self._each("scale"), self._each("shift"), np.asarray(self.offset))
        return fingerprint_of("exact channels", *self._weights, *rest)

    def _reads(self, absent: Flags) -> Flags:
        """Which outputs read a reading that is missing."""
        assert self.matrix is not None
        return np.asarray(absent.astype(float) @ (self.matrix != 0).T.astype(float) > 0)

    def statement(self, move: float, delta: float) -> GridStatement:
        """Of the exact weights; those that are no doubles are rounded up."""
        rows = np.abs(self._weights[0])
        if len(self._weights) > 1:
            up = np.nextafter(rows, np.inf)
            rows = np.where(self._weights[1] == 0, rows, up)
        return rows_statement(rows, move=move, law=self.law, delta=delta)


def _refuse(channel: Channel) -> None:
    raise NotReleasable(
        f"{channel!r} is for simulation only: numbers drawn in floating point give readings away, "
        "and exact noise on a grid is there for additive Laplace and Gaussian noise. Bounded laws "
        "such as cos² would need their outputs quantised afterwards, which is not built. Release "
        "with GaussianMechanism or Additive(Laplace(b)); simulate tries this one out."
    )

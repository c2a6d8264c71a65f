"""Exact release of independent channels with Laplace or Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privest import lattice
from privest.arrays import Array, fingerprint_of
from privest.errors import NotReleasable
from privest.mechanism.inputs import marked, reads, split_missing
from privest.mechanism.source import Added, Source, as_protected
from privest.noise import Affine, Distribution, Gaussian, Laplace
from privest.privacy import Statement, rows_statement

if TYPE_CHECKING:
    from privest.mechanism._mechanism import Channel


class ExactNoise(NamedTuple):
    """z = u + shift + scale·e, e of this distribution, unit width, with an exact sampler.

    root  the largest double with root·scale ≤ 1: u/scale is taken as root·u, so that I_z ≤ 1/scale²
    """

    law: Added
    scale: float
    root: float
    shift: float = 0.0


def exact_noise_of(law: Distribution) -> ExactNoise | None:
    """Laplace(b) with root·b ≤ 1, N(m, v) with root²·v ≤ 1, in exact arithmetic; else None."""
    if isinstance(law, Affine):
        inner = exact_noise_of(law.law)
        if inner is None or abs(law.scale) != 1.0:
            return None
        return inner._replace(shift=law.shift + law.scale * inner.shift)
    if isinstance(law, Laplace):
        root = 1.0 / law.scale
        while Fraction(root) * Fraction(law.scale) > 1:
            root = math.nextafter(root, 0.0)
        return ExactNoise("laplace", law.scale, root)
    if isinstance(law, Gaussian):
        root = 1.0 / math.sqrt(law.variance)
        while Fraction(root) ** 2 * Fraction(law.variance) > 1:
            root = math.nextafter(root, 0.0)
        return ExactNoise("gaussian", 1.0 / root, root, law.mean)
    return None


class ExactChannels:
    """Channels with exact noise on u = Ay + b (A None: the measurements).

        z = b + shift + scale·g·(⌊w/g + W⌋ + X) ,   w = root·Ay ,   root·scale ≤ 1

    root·A is kept as the exact sum of two doubles, so I_z(y) ≤ root²AᵀA ≤ AᵀA/scale² for the
    doubles A, literally; z is computed from whole numbers and public constants alone.
    """

    def __init__(
        self, channels: Sequence[Channel], matrix: Array | None, offset: Array, measurements: int
    ) -> None:
        found = [channel.exact_noise for channel in channels]
        self.noise = [noise for noise in found if noise is not None]
        if len(self.noise) < len(channels):
            raise NotReleasable(
                f"{channels[found.index(None)]!r} is for simulation only: noise drawn in floating "
                "point reveals measurements, and exact noise on a grid exists for additive Laplace "
                "and Gaussian noise. Release with GaussianMechanism or Additive(Laplace(b))."
            )
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
        shown = lattice.sum_of_products(terms)
        return marked(shown, None if absent is None else reads(self.matrix, absent))

    def release(self, raw: Array, source: Source | None) -> Array:
        """z of measurements (..., m) as they come."""
        whole = as_protected(source).add_noise(
            lambda: self._shown(raw),
            shape=(*raw.shape[:-1], self.outputs),
            law=self.law,
            fingerprint=self._fingerprint,
        )
        return whole * self._each("scale") + self._each("shift") + self.offset

    @cached_property
    def _fingerprint(self) -> str:
        rest = (self._each("scale"), self._each("shift"), np.asarray(self.offset))
        return fingerprint_of("exact channels", *self._weights, *rest)

    def statement(self, sensitivity: float, delta: float) -> Statement:
        """The promise for the exact weights; those that are no doubles are rounded up."""
        rows = np.abs(self._weights[0])
        if len(self._weights) > 1:
            up = np.nextafter(rows, np.inf)
            rows = np.where(self._weights[1] == 0, rows, up)
        return rows_statement(rows, sensitivity=sensitivity, law=self.law, delta=delta)

"""What a sensor's release shows of θ: its whitened rows, the variance of its noise counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privest.arrays import Array, Flags
from privest.errors import InvalidInput
from privest.linalg import PSD, Whitening, whitening
from privest.model import LinearModel

# Readings up to which a sensor whose covariance or level is not diagonal works with m×m matrices.
SMALL = 256


@dataclass(frozen=True, eq=False)
class Seen:
    """A model through a level, with release noise of variance v, some coordinates absent.

        G = C⁻¹LᵀH ,   ζ = C⁻¹z̃ ,   CCᵀ = LᵀΣL + v I = v (Lᵀ(Σ/v)L + I)

    The same L for every v: the coordinates of z̃ are those of the mechanism.
    """

    model: LinearModel
    level: PSD
    variance: float = 1.0  # v
    absent: Flags | None = None  # (m,)

    @cached_property
    def kernel(self) -> Whitening:
        """√v C⁻¹Lᵀ."""
        sigma = self.model.covariance
        own = sigma if self.variance == 1.0 else sigma.scaled(1.0 / self.variance)
        return whitening(self.level, own, self.absent)

    @cached_property
    def rows(self) -> Array:
        """G (m, n); zero rows where S is singular or a coordinate is absent."""
        return self._in_units(self.kernel.rows(self.model.matrix))

    @cached_property
    def information(self) -> Array:
        """GᵀG (n, n)."""
        return np.asarray(self.rows.T @ self.rows)

    @cached_property
    def release_share(self) -> Array | None:
        """v GᵀC⁻¹C⁻ᵀG (n, n): the part of the variance of Gᵀζ that is e; the rest is w.

        None for more than 256 readings whose level or noise ties them together.
        """
        if self.level.pointwise is not None and self.model.covariance.pointwise is not None:
            half = self.kernel.whiten(self.rows)  # C is diagonal
        elif self.model.readings <= SMALL:
            half = self.kernel.whiten(np.eye(self.model.readings)).T @ self.rows
        else:
            return None
        return np.asarray(half.T @ half)

    def whitened(self, values: Array) -> Array:
        """ζ (m, trials) of z̃ (trials, r), the mean of w taken off."""
        table = np.zeros((self.model.readings, len(values)))
        table[self.level.informative()] = values.T
        mean = np.asarray(self.model.noise.expectation(self.model.readings))
        if mean.any():
            column = np.broadcast_to(mean, self.model.readings)[:, None]
            table -= self.level.factor_rows(column)
        return self._in_units(self.kernel.whiten(table))

    def _in_units(self, rows: Array) -> Array:
        return rows if self.variance == 1.0 else rows / math.sqrt(self.variance)


def absent_coordinates(values: Array, level: PSD) -> Flags | None:
    """(m,): where z̃ (trials, r) is NaN, of readings that were missing; None: nowhere."""
    gone = np.isnan(values)
    if not gone.any():
        return None
    if not (gone == gone[0]).all():
        raise InvalidInput(
            "the trials of this release miss different readings: use those that miss the same ones "
            "together."
        )
    absent = np.zeros(level.size, dtype=bool)
    absent[level.informative()] = gone[0]
    return absent

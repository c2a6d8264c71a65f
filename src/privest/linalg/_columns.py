"""Whitened rows [G ζ] of a stream, column by column: each column is contiguous in time."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from privest.arrays import Array


class Columns(ABC):
    """`count` = n, or n + 1 with ζ as the last; `readings` = M."""

    count: int
    readings: int

    @abstractmethod
    def part(self, start: int, stop: int) -> Array:
        """The columns of readings start..stop−1, (count, stop − start). Not to be written to."""


class StoredColumns(Columns):
    """Kept as an array (count, M)."""

    def __init__(self, array: Array) -> None:
        self.array = np.ascontiguousarray(array)
        self.count, self.readings = self.array.shape

    def part(self, start: int, stop: int) -> Array:
        return self.array[:, start:stop]


class PointwiseColumns(Columns):
    """Level s and variance σ² of single readings: √(s/(1 + sσ²)) h and z̃/√(1 + sσ²).

    Made when asked for: cheaper than memory for a long stream.
    """

    def __init__(
        self,
        matrix: Array,
        release: Array | None,
        level: Array | float,
        variance: Array | float,
    ) -> None:
        self.readings, n = matrix.shape
        self.matrix, self.release = matrix, release
        self.level = np.broadcast_to(level, self.readings)
        self.variance = np.broadcast_to(variance, self.readings)
        self.count = n + (release is not None)

    def part(self, start: int, stop: int) -> Array:
        n, where = self.matrix.shape[1], slice(start, stop)
        result = np.empty((self.count, stop - start))
        level, variance, matrix = self.level[where], self.variance[where], self.matrix[where]
        deviation = np.sqrt(1.0 + level * variance)
        np.multiply(matrix.T, np.sqrt(level) / deviation, out=result[:n])
        if self.release is not None:
            np.divide(self.release[where], deviation, out=result[n])
        return result

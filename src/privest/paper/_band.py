"""How far a measured mean-square error may lie from its expectation, by chance alone.

B streams (blocks), R repetitions each, θ̂ − θ_ref = a_b + d_br − c: a_b from the measurements of the
block, which all its repetitions share; d_br from the privacy noise, fresh every time; c the error
of the reference, one for all. With x̄_b the mean over the repetitions of a block, the mean of all
‖θ̂ − θ_ref‖² is a sum of squares of normal numbers,

    M = (1/B) Σ_b [ ‖x̄_b − c‖² + (1/R) Σ_r ‖d_br − d̄_b‖² ] ,

whose cumulants are κ_s = 2^{s−1}(s − 1)! [tr Q^s + (R − 1) Σ_b tr(Σ_d/BR)^s] with Q the covariance
of all (x̄_b − c)/√B: blocks (Σ_a + Σ_d/R)/B on the diagonal, plus Σ_c/B everywhere.

Repetitions do not average Σ_a: 20 repetitions of 20 blocks have 20 draws of the measurements, not
400. A block whose first rows are nearly dependent can rule M: its law is then far from normal, so
that the band uses three cumulants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array


class Moments(NamedTuple):
    """Mean, standard deviation and skewness of M, at every step, (K,)."""

    mean: Array
    deviation: Array
    skewness: Array

    def band(self, outside: float) -> tuple[Array, Array]:
        """The interval that M leaves with probability `outside`, or less, half on each side.

        Above: a shifted multiple of χ² with these three moments (Pearson 1959, Imhof 1961), exact
        for equal squares, a normal law in the limit, and close for unequal squares. Below, where
        that law ends too early when one square rules the sum: it or χ² with two moments,
        whichever reaches lower.
        """
        freedom = 8.0 / self.skewness**2
        unit = self.deviation / np.sqrt(2.0 * freedom)
        low = self.mean + unit * (scipy.stats.chi2.ppf(outside / 2.0, freedom) - freedom)
        high = self.mean + unit * (scipy.stats.chi2.isf(outside / 2.0, freedom) - freedom)
        plain = 2.0 * (self.mean / self.deviation) ** 2
        other = self.mean / plain * scipy.stats.chi2.ppf(outside / 2.0, plain)
        return np.minimum(low, other), np.asarray(high)


def mean_square_moments(shared: Array, fresh: Array, reference: Array, repetitions: int) -> Moments:
    """The moments of M: Σ_a and Σ_d are (B, K, n, n), Σ_c (n, n). O(B K n³).

    Exact for normal errors; real residuals have other fourth moments, which matter little here.
    """
    blocks = len(shared)
    own = (shared + fresh / repetitions) / blocks
    noise, rest = fresh / (blocks * repetitions), repetitions - 1
    common = np.broadcast_to(reference / blocks, own.shape[1:])  # Σ_c/B, in all B² places
    first = _trace(own).sum(0) + rest * _trace(noise).sum(0) + blocks * _trace(common)
    own2, common2 = own @ own, common @ common
    second = _trace(own2).sum(0) + rest * _trace(noise @ noise).sum(0)
    second = second + 2.0 * _trace(own @ common).sum(0) + blocks**2 * _trace(common2)
    third = _trace(own2 @ own).sum(0) + rest * _trace(noise @ noise @ noise).sum(0)
    third = third + 3.0 * _trace(own2 @ common).sum(0) + 3.0 * blocks * _trace(own @ common2).sum(0)
    third = third + blocks**3 * _trace(common2 @ common)
    return _from_cumulants(first, 2.0 * second, 8.0 * third)


def average_moments(parts: Sequence[Moments]) -> Moments:
    """The moments of the mean of independent M's."""
    count = len(parts)
    second = np.sum([p.deviation**2 for p in parts], axis=0) / count**2
    third = np.sum([p.skewness * p.deviation**3 for p in parts], axis=0) / count**3
    return _from_cumulants(np.mean([p.mean for p in parts], axis=0), second, third)


def ratio_error(cells: Array, floors: Array) -> Array:
    """The standard error of mean(cells), (C, K): independent cells with expectation ∝ floors.

    Cells differ because their designs do; only what the common ratio to the floor does not
    explain is chance.
    """
    count = len(cells)
    ratio = cells.mean(axis=0) / floors.mean(axis=0)
    rest = cells - ratio * floors
    return np.asarray(np.sqrt((rest**2).sum(axis=0) / (count * (count - 1))))


def _from_cumulants(first: Array, second: Array, third: Array) -> Moments:
    deviation = np.sqrt(second)
    return Moments(first, deviation, third / deviation**3)


def _trace(matrices: Array) -> Array:
    return np.asarray(np.trace(matrices, axis1=-2, axis2=-1))

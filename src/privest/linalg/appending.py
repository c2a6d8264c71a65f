"""The whitening kernel for a stream as it comes: the Cholesky factor of V = A Σ̄ Aᵀ + I by rows.

    C_21 = V_21 C_11⁻ᵀ ,   C_22 C_22ᵀ = V_22 − C_21 C_21ᵀ       (theory.md 6)

A release that looks back b steps needs the last b steps only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg.batched import substitute
from privest.linalg.sequential import LOST, BandedRows
from privest.linalg.tolerances import SINGULAR
from privest.reading import state_array

FEW = 24  # new rows of a dense level: up to so many one at a time, from packed storage


def _require_pivots(pivots: Array) -> None:
    """V = AΣAᵀ + I ≥ I: a factor with pivots well below 1 is not one of V."""
    if (pivots < 0.5).any():
        raise InvalidInput("the state 'lower' is not a factor of AΣAᵀ + I.")


class BandedAppend:
    """Releases that look back `reach` steps of `block` measurements; steps with independent noise.

    The window holds A, Σ, the right-hand side X, C and C⁻¹AX of the last `reach` steps; zeros
    before the first. O(b²m² + bmc) memory, O(b²m³) a step.
    """

    reach: int
    block: int

    def __init__(self, reach: int, block: int, columns: int) -> None:
        size = reach * block
        self.reach, self.block = reach, block
        self.rows: Array = np.zeros((size, size))
        self.sigma: Array = np.zeros((reach, block, block))
        self.right: Array = np.zeros((size, columns))
        self.lower: Array = np.eye(size)
        self.white: Array = np.zeros((size, columns))

    def state(self) -> dict[str, Array]:
        names = ("rows", "sigma", "right", "lower", "white")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: Mapping[str, Array]) -> None:
        own = {name: state_array(state, name, array.shape) for name, array in self.state().items()}
        _require_pivots(np.diagonal(own["lower"]))
        self.rollback(own)

    def mark(self) -> object:
        return {name: array.copy() for name, array in self.state().items()}

    def rollback(self, mark: Any) -> None:  # noqa: ANN401 - what `mark` gave
        for name, array in mark.items():
            setattr(self, name, array.copy())

    def extend(
        self, rows: Array, sigma: Array, right: Array, given: Array, *, natural: bool = True
    ) -> tuple[Array, Array | None]:
        """C⁻¹(A X + D) of the new steps; `natural`: also |A||X|/diag C, its size uncancelled.

        rows (b + 1, count, m, m) by lag, sigma (count, m, m), right X and given D (count·m, c).
        """
        old, new = len(self.rows), len(right)
        band = BandedRows(np.concatenate([_by_lag(self.rows, self.reach, self.block), rows], 1))
        every_sigma = np.concatenate([self.sigma, sigma])
        every_right = np.concatenate([self.right, right])
        variance = band.variance_band(every_sigma)
        variance[0] += 1.0
        diagonal = variance[0, old:].copy()
        shown = band.times(every_right)[old:] + given
        near = min(old, new)  # new rows that still see the window
        corner = substitute(self.lower, _below(variance, old, near).T, lower=True).T  # C_21
        fresh = np.asfortranarray(variance[:, old:])
        _subtract_gram(fresh, corner)
        shown[:near] -= corner @ self.white
        lower, failed = scipy.linalg.lapack.dpbtrf(fresh, lower=1, overwrite_ab=1)
        if failed or not (lower[0] ** 2 > SINGULAR * diagonal).all():
            raise NumericalFailure(LOST)
        white = np.asarray(scipy.linalg.lapack.dtbtrs(lower, np.asfortranarray(shown), uplo="L")[0])
        if self.reach:
            last = band.steps - self.reach
            self.rows = BandedRows(band.blocks[:, last:]).dense()
            self.sigma, self.right = every_sigma[last:].copy(), every_right[new:].copy()
            self.white = np.concatenate([self.white, white])[new:]
            self.lower = self._last_lower(corner, _dense_lower(lower[:, max(new - old, 0) :]))
        if not natural:
            return white, None
        sizes = BandedRows(np.abs(band.blocks)).times(np.abs(every_right))[old:]
        return white, sizes / lower[0][:, None]

    def _last_lower(self, corner: Array, own: Array) -> Array:
        """The last rows and columns of [C_11, 0; C_21, C_22], as many as the window has."""
        kept = len(self.lower) - len(own)
        result = np.zeros_like(self.lower)
        result[:kept, :kept] = self.lower[len(own) :, len(own) :]
        if kept:
            result[kept:, :kept] = corner[:, len(own) :]
        result[kept:, kept:] = own
        return result


def _by_lag(rows: Array, reach: int, m: int) -> Array:
    """Rows of the window (b·m, b·m) as blocks by lag, (b + 1, b, m, m)."""
    result = np.zeros((reach + 1, reach, m, m))
    parts = rows.reshape(reach, m, reach, m)
    for lag in range(reach):
        at = np.arange(reach - lag)
        result[lag, lag:] = parts[at + lag, :, at]
    return result


def _below(band: Array, old: int, near: int) -> Array:
    """V_21 (near, old) from lower band storage: V[old + i, j] = band[old + i − j, j]."""
    row, column = np.arange(near)[:, None], np.arange(old)
    distance = old + row - column
    inside = distance < len(band)
    return np.where(inside, band[np.where(inside, distance, 0), column], 0.0)


def _subtract_gram(band: Array, corner: Array) -> None:
    size = len(corner)
    gram = corner @ corner.T
    for distance in range(min(size, len(band))):
        band[distance, : size - distance] -= np.diagonal(gram, -distance)


def _dense_lower(band: Array) -> Array:
    size = band.shape[1]
    result = np.zeros((size, size))
    for distance in range(min(size, len(band))):
        at = np.arange(size - distance)
        result[at + distance, at] = band[distance, : size - distance]
    return result


class DenseAppend:
    """Releases that may look back to the beginning: O(k²) a step, O(k²) memory.

    B = A F̄ and C are lower-triangular, packed row after row; F_kF_kᵀ = Σ_k, F_k turned so that B
    is triangular within a step too (LQ of A_kk F_k).
    """

    size: int

    def __init__(self, widest: int, columns: int) -> None:
        self.widest = widest
        self.size = 0
        self.scaled: Array = np.zeros(64)  # B, packed
        self.lower: Array = np.zeros(64)  # C, packed
        # F̄ by diagonals: F̄[i + d, i] in row d + w − 1
        self.half: Array = np.zeros((2 * widest - 1, 8))
        self.right: Array = np.zeros((8, columns))
        self.white: Array = np.zeros((8, columns))

    def state(self) -> dict[str, Array]:
        size, used = self.size, self.size * (self.size + 1) // 2
        return {
            "scaled": self.scaled[:used], "lower": self.lower[:used],
            "half": self.half[:, :size], "right": self.right[:size], "white": self.white[:size],
        }  # fmt: skip

    def mark(self) -> object:
        return self.size

    def rollback(self, mark: Any) -> None:  # noqa: ANN401
        self.size = mark

    def restore(self, state: Mapping[str, Array]) -> None:
        columns = self.right.shape[1]
        right = state_array(state, "right", (None, columns))
        size = len(right)
        used, wide = size * (size + 1) // 2, 2 * self.widest - 1
        scaled, lower = (state_array(state, name, (used,)) for name in ("scaled", "lower"))
        _require_pivots(lower[np.cumsum(np.arange(1, size + 1)) - 1])
        half = state_array(state, "half", (wide, size))
        white = state_array(state, "white", (size, columns))
        self.size, self.right, self.scaled = size, right, scaled
        self.lower, self.half, self.white = lower, half, white

    def extend(
        self, rows: Array, halves: Array | list[Array], right: Array, given: Array,
        *, natural: bool = True,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """C⁻¹(A X + D) of the new steps; `natural`: also its size uncancelled.

        rows (r, M + r) of A after M measurements; halves: a factor of Σ_k for each new step, or the
        deviations of scalar steps; right X and given D (r, c).
        """
        old, new = self.size, len(right)
        self._reserve(old + new)
        self.right[old : old + new] = right
        self._append_halves(rows, halves, old)
        every = self.right[: old + new]
        shown = rows @ every + given
        scaled = self._times_half(rows)
        append = self._one_by_one if new <= FEW else self._together
        pivots = append(scaled, shown, old)
        self.size = old + new
        white = self.white[old : self.size].copy()
        if not natural:
            return white, None
        return white, np.abs(rows) @ np.abs(every) / pivots[:, None]

    def _one_by_one(self, scaled: Array, shown: Array, old: int) -> Array:
        """Two triangular passes over packed rows for each new row: B b, then C⁻¹."""
        blas = scipy.linalg.blas
        pivots = np.empty(len(scaled))
        for i, (row, value) in enumerate(zip(scaled, shown)):
            k = old + i
            start = k * (k + 1) // 2
            own = row[: k + 1]
            self.scaled[start : start + k + 1] = own
            square = 1.0 + own @ own
            least = SINGULAR * square
            if k:
                # Packed rows of a lower factor are packed columns of its transpose.
                crossed = blas.dtpmv(k, self.scaled[:start], own[:k], trans=1)
                solved = blas.dtpsv(k, self.lower[:start], crossed, trans=1, overwrite_x=1)
                square -= solved @ solved
                value = value - solved @ self.white[:k]
                self.lower[start : start + k] = solved
            if not square > least:
                raise NumericalFailure(LOST)
            pivot = np.sqrt(square)
            self.lower[start + k] = pivots[i] = pivot
            self.white[k] = value / pivot
        return pivots

    def _together(self, scaled: Array, shown: Array, old: int) -> Array:
        """The same for many rows: unpacked once, then matrix products."""
        new = len(scaled)
        variance = scaled @ scaled.T
        variance[np.arange(new), np.arange(new)] += 1.0
        least = SINGULAR * np.diagonal(variance)
        corner: Array = np.zeros((new, 0))
        if old:
            used = old * (old + 1) // 2
            before = scipy.linalg.lapack.dtpttr(old, self.scaled[:used])[0]  # Bᵀ
            crossed = scaled[:, :old] @ np.triu(before)
            factor = scipy.linalg.lapack.dtpttr(old, self.lower[:used])[0]  # Cᵀ
            corner = substitute(factor, crossed.T, transposed=True).T
            variance -= corner @ corner.T
            shown = shown - corner @ self.white[:old]
        own, failed = scipy.linalg.lapack.dpotrf(variance, lower=1, clean=1)
        if failed or not (np.diagonal(own) ** 2 > least).all():
            raise NumericalFailure(LOST)
        self.white[old : old + new] = substitute(own, shown, lower=True)
        for i in range(new):
            k = old + i
            start = k * (k + 1) // 2
            self.scaled[start : start + k + 1] = scaled[i, : k + 1]
            self.lower[start : start + old] = corner[i]
            self.lower[start + old : start + k + 1] = own[i, : i + 1]
        return np.diagonal(own).copy()

    def _append_halves(self, rows: Array, halves: Array | list[Array], old: int) -> None:
        """F_k of the new steps, turned so that A_kk F_k is lower-triangular."""
        if isinstance(halves, np.ndarray):
            self.half[self.widest - 1, old : old + len(halves)] = halves
            return
        at = 0
        for half in halves:
            m = len(half)
            if m > 1:
                own = rows[at : at + m, old + at : old + at + m] @ half
                half = half @ np.linalg.qr(own.T)[0]
            for i in range(m):
                for j in range(m):
                    self.half[i - j + self.widest - 1, old + at + j] = half[i, j]
            at += m

    def _times_half(self, rows: Array) -> Array:
        size = rows.shape[1]
        result = rows * self.half[self.widest - 1, :size]
        for d in range(1, min(self.widest, size)):
            below, above = self.half[self.widest - 1 + d], self.half[self.widest - 1 - d]
            result[:, : size - d] += rows[:, d:] * below[: size - d]
            result[:, d:] += rows[:, : size - d] * above[d:size]
        return result

    def _reserve(self, size: int) -> None:
        if size > len(self.right):
            room = max(size, 2 * len(self.right))
            self.right = _grown(self.right, (room, self.right.shape[1]))
            self.white = _grown(self.white, (room, self.white.shape[1]))
            self.half = _grown(self.half, (len(self.half), room))
        if size * (size + 1) // 2 > len(self.lower):
            room = max(size * (size + 1) // 2, 2 * len(self.lower))
            self.scaled = _grown(self.scaled, (room,))
            self.lower = _grown(self.lower, (room,))


def _grown(array: Array, shape: tuple[int, ...]) -> Array:
    result = np.zeros(shape)
    result[tuple(slice(size) for size in array.shape)] = array
    return result

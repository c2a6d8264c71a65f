"""A step of the filter when some directions of the state are far less certain than others.

In a long gap an unstable direction grows without end: P = BBᵀ has columns of 1e16 beside columns of
1. One QR of the whole array (`_sweep`) keeps every entry to eps times the largest one of its row,
which after the gap is the size of what is left. Here every *column* of B keeps its digits:

    [A B, F] = [B⁻ 0] Qᵀ       QR with the sources in falling order and pivoted states, which is
                               stable for each source by itself (Powell & Reid; Cox & Higham 1998)
    [N⁻¹G B⁻; I] = Q_m R       B⁺ = B⁻R⁻¹ : a huge column is divided by what was read of it

An error of eps in a huge column turns its direction a little and is divided away with it. With
M = N⁻¹GB⁻ and L Lᵀ = I + M Mᵀ the rest follows: c = N L, κ = B⁺(MR⁻¹)ᵀL, and of the old error
ξ = Q₁ξ⁻ + Q₂ν, ξ⁻ = R⁻¹((MR⁻¹)ᵀLζ + ξ⁺).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import EPS, Array, Flags, Index
from privest.dynamics._observed import Observed
from privest.errors import NumericalFailure
from privest.linalg.batched import substitute
from privest.linalg.tolerances import rounding

GROWN = 1e6  # variance in units of that before a gap from which on steps are taken this way
EXACT = (
    "In steps that show nothing the unstable system grew beyond what double precision can narrow "
    "again with readings that have no noise of their own (R is singular)."
)


class Graded(NamedTuple):
    """What the means need of such a step: Q₁ and Q₂ (rows of ξ), B⁻ with the order of its states,
    R⁻¹, and (MR⁻¹)ᵀN⁻¹.
    """

    mixed: Array
    rest: Array
    before: Array
    pivots: Index
    shrunk: Array
    told: Array


def graded_step(
    root: Array, transition: Array, drive: Array, rows: Array, noise: Array, units: Array
) -> tuple[Array, Array, Graded]:
    """`_sweep._rotated` for a factor with columns of very different size; `units` (n,) of states.

    Needs readings with noise of their own (`has_noise`).
    """
    (n, own), r = root.shape, len(rows)
    before, pivots, mixed, rest = _moved(np.concatenate([transition @ root, drive], axis=1), units)
    noise = _square_root(noise)
    seen = substitute(noise, rows @ before, lower=True)  # M
    upper = _upper(np.concatenate([seen, np.eye(before.shape[1])]))
    shrunk = substitute(upper, np.eye(len(upper)))  # R⁻¹
    told = (seen @ shrunk).T
    heard = told @ (white := _square_root(np.concatenate([seen, np.eye(r)], axis=1)))
    factor, later = before @ shrunk, mixed[:own] @ shrunk
    lower = np.zeros((r + n, r + n))
    lower[:r, :r], lower[r:, :r], lower[r:, r:] = noise @ white, factor @ heard, factor
    theta = np.zeros((own, own + drive.shape[1] + r))
    theta[:, :r], theta[:, r : r + n] = later @ heard, later
    theta[:, r + n : r + n + rest.shape[1]] = rest[:own]
    unit_told = substitute(noise, told.T, lower=True, transposed=True).T
    return lower, theta, Graded(mixed[:own], rest[:own], before, pivots, shrunk, unit_told)


def has_noise(noise: Array) -> bool:
    """Whether every combination of the readings has noise: no N Nᵀ of the stack is singular."""
    upper = _upper(noise.swapaxes(-1, -2))
    left = rounding(noise.shape[-2]) * np.linalg.norm(upper, axis=-2)
    return bool((np.abs(np.diagonal(upper, axis1=-2, axis2=-1)) > left).all())


def _moved(array: Array, units: Array) -> tuple[Array, Index, Array, Array]:
    """B⁻, the order in which its rows are triangular, Q₁ and Q₂ of array = [B⁻ 0] [Q₁ Q₂]ᵀ."""
    n = len(array)
    scaled = array.T / units
    order = np.argsort(-np.abs(scaled).max(axis=1), kind="stable")
    turned, upper, pivots = scipy.linalg.qr(scaled[order], pivoting=True, check_finite=False)
    before, whole = np.zeros((n, n)), np.empty_like(turned)
    before[pivots] = upper[:n].T
    whole[order] = turned
    return before * units[:, None], pivots.astype(np.intp), whole[:, :n], whole[:, n:]


def _upper(stack: Array) -> Array:
    """R of the QR factorisation of each."""
    return np.asarray(np.linalg.qr(stack, mode="r"))


def _square_root(half: Array) -> Array:
    """Lower-triangular L with L Lᵀ = half halfᵀ and a diagonal ≥ 0."""
    lower = _upper(half.T).T
    return np.asarray(lower * np.copysign(1.0, lower.diagonal()))


def _sizes(factor: Array) -> Array:
    """Standard deviations of the states."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", factor, factor)))


class Gap:
    """Whether some directions of the state are so much wider than others that `graded_step` is
    needed: after steps that show nothing, or a part, in which it grew, and at a start that is far
    vaguer than what is read, until as many readings as there are states narrow it no further, and
    every entry that is ever shown was among them.

    units (N,): standard deviations before the gap, or as soon as they are positive; those of a gap
    that was open before the first step here are given.
    hidden: whether steps of a kind show nothing, or a part of a reading (`blind`; `dark`: nothing).
    open: steps are watched, a gap or a vague start.
    """

    def __init__(self, seen: Observed, units: Array | None) -> None:
        entries = np.abs(seen.rows).reshape(len(seen.rows), -1)
        self.dark: Flags = entries @ np.ones(entries.shape[1]) == 0  # far quicker than np.any
        self.blind, self._absent = self.dark, np.zeros(seen.rows.shape[:2], dtype=bool)
        if seen.absent.ndim > 1:
            self._absent[seen.kind] = seen.absent
            self.blind = np.asarray(self.dark | self._absent.any(axis=1))
        self._ever: Flags = ~self._absent[~self.dark].all(axis=0)
        self._waiting = self._ever
        self._seen = seen
        size = _sizes(seen.root)
        self.hidden: list[bool] = self.blind.tolist()
        self.open, self._start, self.wide = units is not None, 0, False
        if units is not None:
            self.units = units
            self._grown(size)
            return
        self.units = size
        first = seen.kind[np.argmin(self.dark[seen.kind])]
        with np.errstate(over="ignore"):  # infinitely vague is vague
            read = np.linalg.norm(seen.rows[first] @ seen.root, axis=1)
            vague = (read**2 > GROWN * np.square(seen.noise[first]).sum(axis=1)).any()
        if vague and self._noisy:
            self._start, self.wide, self.open = len(size), True, True

    @cached_property
    def _noisy(self) -> bool:
        return has_noise(self._seen.noise)

    @property
    def open_units(self) -> Array | None:
        """The units of the gap that is open after the last step, None if there is none."""
        return self.units if self.open and not self._start else None

    @property
    def scales(self) -> Array:
        """Units without zeros, which states that are known exactly have."""
        return np.where(self.units > 0, self.units, 1.0)

    def look(self, j: int, before: Array, now: Array) -> None:
        """After a step of kind j."""
        blind = self.hidden[j]
        if self._start:
            if not self.dark[j]:
                self._begin(j, before, now)
            return
        if blind and not self.open:
            self.open, self.units = True, _sizes(before)
        if self.open:
            self.open = self._grown(_sizes(now)) or blind

    def _grown(self, size: Array) -> bool:
        if not self.units.all():
            self.units = np.where(self.units > 0, self.units, size)
        grown = bool((size > math.sqrt(GROWN) * self.units).any())
        self.wide = grown and self._noisy
        if grown and not self._noisy and (size * EPS > self.units).any():
            raise NumericalFailure(EXACT)
        return grown

    def _begin(self, j: int, before: Array, now: Array) -> None:
        """Count the readings that narrow no state to less than a tenth."""
        self._start -= 1
        self._waiting = self._waiting & self._absent[j]
        if (_sizes(before) > 10 * _sizes(now)).any():
            self._start, self._waiting = len(now), self._ever
        if self._waiting.any():
            self._start = max(self._start, 1)
        self.wide = self.open = self._start > 0

    def narrow(self, rest: tuple[Array, Array] | None, root: Array) -> tuple[Array, Array] | None:
        """Steps done in pieces, or None if one of these is narrower than what was before it."""
        if rest is None or not self.blind.any():
            return rest
        r = self._seen.rows.shape[1]
        factors = np.concatenate([root[None], rest[0][:, r:, r:]])
        size = np.square(factors).sum(axis=2)
        wider = np.maximum.accumulate(size, axis=0)
        return rest if (wider <= GROWN * size).all() else None

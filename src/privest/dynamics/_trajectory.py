"""The whole trajectory at once: the dense reference, and the route for dense levels.

With unit vectors ω (x_0 and all w_k), x = mean + T ω, Y = H x + v, and releases Z̃ = A Y + e:

    M = A H T ,   V = M Mᵀ + A R Aᵀ + I = C_V C_Vᵀ ,   Σ_BPPCR = P − PHᵀAᵀ V⁻¹ A H P ,   P = T Tᵀ

The Cholesky factor of a leading block is the leading block of the factor: whitened rows C_V⁻¹M T_kᵀ
of the first k steps give the filtered covariance of step k, those of all steps the smoothed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import EPS, Array, ArrayLike, Flags
from privest.dynamics._diffuse import require_proper
from privest.dynamics._information import reading_information
from privest.dynamics._means import LOG_2PI
from privest.dynamics._observed import Level, asked, of_entries
from privest.dynamics._system import StateSpace, at, stack
from privest.linalg._sequential import with_unit
from privest.linalg.batched import solve_lower
from privest.privacy import SequentialLevel
from privest.privacy._parts import rows_of_parts
from privest.records import Record


class Estimates(NamedTuple):
    """From releases z̃ (…, K, m): estimates (…, K, n), whitened innovations, log density."""

    predicted: Array
    filtered: Array
    smoothed: Array
    innovations: Array
    log_likelihood: Array


@dataclass(frozen=True, eq=False)
class Trajectory(Record):
    """Bounds, and with data estimates, of all K states. M = Km readings, N = Kn states.

    rows A (M, M) block lower-triangular, spread T (N, q), _noise a factor of what A Y has beside M,
    _lower C_V, _shown M and _whitened C_V⁻¹M (M, q).
    """

    system: StateSpace
    steps: int
    missing: Flags
    rows: Array
    spread: Array
    _shown: Array
    _noise: Array
    _lower: Array
    _whitened: Array

    DERIVED = ("predicted", "filtered", "bppcrlb")

    @property
    def _own(self) -> Array:
        """T_k (K, n, q)."""
        return self.spread.reshape(self.steps, self.system.states, -1)

    @cached_property
    def _explained(self) -> Array:
        """C_V⁻¹M T_kᵀ, (K, M, n)."""
        return self._whitened @ self._own.swapaxes(-1, -2)

    def _used(self, ahead: int) -> Array:
        """The part of `_explained` that the releases of the steps before k + ahead explain."""
        step = np.repeat(np.arange(self.steps), self.system.readings)
        return self._explained * (step < np.arange(self.steps)[:, None] + ahead)[:, :, None]

    def _after(self, ahead: int) -> Array:
        """Covariance of x_k given the steps before k + ahead: TTᵀ less what they explain."""
        explained = self._used(ahead)
        result = self._own @ self._own.swapaxes(-1, -2) - explained.swapaxes(-1, -2) @ explained
        return (result + result.swapaxes(-1, -2)) / 2

    @cached_property
    def filtered(self) -> Array:
        """(K, n, n)."""
        return self._after(1)

    @cached_property
    def predicted(self) -> Array:
        """(K, n, n)."""
        return self._after(0)

    @property
    def narrowing(self) -> float:
        """The largest prior variance / variance left; what is subtracted loses eps times this."""
        prior = np.einsum("kij,kij->ki", self._own, self._own)
        left = np.diagonal(self.filtered, axis1=1, axis2=2)
        before, after = prior[prior != 0], left[prior != 0]
        if not (after > EPS * before).all():  # NaN, too
            return np.inf
        return float((before / after).max(initial=1.0))

    @cached_property
    def bppcrlb(self) -> Array:
        """Σ_BPPCR of the trajectory (N, N) = T (I + MᵀW⁻¹M)⁻¹ Tᵀ, by QR: no difference."""
        q, half = self.spread.shape[1], self._noise
        whitened = solve_lower(with_unit(half @ half.T)[None], self._shown[None])[0]
        upper = np.linalg.qr(np.concatenate([whitened, np.eye(q)]), mode="r")
        root = scipy.linalg.solve_triangular(upper, self.spread.T, trans="T").T
        return np.asarray(root @ root.T)

    @property
    def smoothed(self) -> Array:
        """The diagonal blocks of Σ_BPPCR, (K, n, n)."""
        K, n = self.steps, self.system.states
        return self.bppcrlb.reshape(K, n, K, n)[np.arange(K), :, np.arange(K), :]

    @property
    def prior_covariance(self) -> Array:
        """P (N, N)."""
        return self.spread @ self.spread.T

    @property
    def total_level(self) -> Array:
        """S = J_Y + AᵀA (M, M): the level in BI_Z(Y) ≤ S that these releases amount to."""
        return reading_information(self.system, self.steps) + self.rows.T @ self.rows

    def estimates(self, values: Array, inputs: ArrayLike | None = None) -> Estimates:
        """From releases z̃ (…, K, m), whose innovations are whitened by C_V⁻¹."""
        mean, reading = prior_means(self.system, self.steps, inputs)
        expected = self.rows @ reading.ravel()
        flat = values.reshape(*values.shape[:-2], -1)
        entries = np.broadcast_to(of_entries(self.missing), reading.shape)
        absent = entries.ravel()
        fresh = np.where(absent, 0.0, flat - np.where(absent, 0.0, expected))
        columns = fresh.reshape(-1, len(expected)).T
        white = solve_lower(self._lower[None], columns[None])[0].T.reshape(flat.shape)
        predicted, filtered, smoothed = (
            mean + np.einsum("kmn,...m->...kn", self._used(ahead), white)
            for ahead in (0, 1, self.steps)
        )
        total = np.einsum("...m,...m->...", white, white)
        fit = -0.5 * (total + int((~absent).sum()) * LOG_2PI)
        return Estimates(
            predicted, filtered, smoothed,
            np.where(entries, np.nan, white.reshape(values.shape)),
            np.asarray(fit - float(np.log(np.diagonal(self._lower)).sum())),
        )  # fmt: skip


def prior_means(system: StateSpace, steps: int, inputs: ArrayLike | None) -> tuple[Array, Array]:
    """E x (K, n) and E Y (K, m)."""
    shift, own = system.offsets(steps, inputs)
    mean, A = np.empty((steps, system.states)), stack(system.A)
    mean[0] = system.mean0
    for k in range(1, steps):
        mean[k] = at(A, k - 1) @ mean[k - 1] + shift[k - 1]
    return mean, (stack(system.C)[:steps] @ mean[:, :, None])[:, :, 0] + own


def trajectory(
    system: StateSpace, level: SequentialLevel, steps: int, missing: Flags, unit: float = 1.0
) -> Trajectory:
    """The dense form for any stream level, of `unit` times A. (Km)³ flops, (Kn)² memory."""
    rows = unit * rows_shown(level, missing, system.readings)
    require_proper(system, "The dense form of the trajectory")
    plain = system.uncorrelated
    whole = _spread(plain, steps)
    shown, noise = rows @ _diagonal(stack(plain.C), steps) @ whole, _diagonal(plain.R_root, steps)
    noise = rows @ noise
    half = np.concatenate([shown, noise], axis=1)
    lower = with_unit(half @ half.T)
    whitened = solve_lower(lower[None], shown[None])[0]
    own = whole.reshape(steps, plain.states, -1)[:, : system.states]
    spread = own.reshape(steps * system.states, -1)
    return Trajectory(system, steps, missing, rows, spread, shown, noise, lower, whitened)


def trajectory_bound(
    system: StateSpace, level: Level, steps: int | None = None, *, missing: ArrayLike | None = None
) -> Trajectory:
    """Σ_BPPCR of the whole trajectory (Kn, Kn), dense: the reference for `bound`, for any level.

    The result's `bppcrlb` is Σ_BPPCR, `prior_covariance` P, `total_level` S; `filtered`,
    `predicted` and `smoothed` are the marginals. Arguments as for `bound`. (Km)³ flops,
    K²mn memory.
    `filtered` and `predicted` are differences from P: eps·P is lost, and where the prior is very
    wide (unstable systems) V cannot be factored and is refused. `bound` has neither limit.
    """
    return trajectory(system, *asked(system, level, steps, missing))


def rows_shown(level: SequentialLevel, missing: Flags, m: int) -> Array:
    """A (Km, Km) of any form, without what is missing."""
    steps = len(missing)
    if level.form == "dense":
        rows = np.array(level.dense_rows(0, steps))
    else:
        blocks, parts = level.blocks(0, steps), np.zeros((steps, m, steps, m))
        if missing.ndim > 1:
            blocks = rows_of_parts(level, 0, missing)[None]
        for lag in range(min(level.reach, steps - 1) + 1):
            own = np.arange(lag, steps)
            parts[own, :, own - lag, :] = blocks[lag, lag:]
        rows = parts.reshape(steps * m, steps * m)
    absent = np.broadcast_to(of_entries(missing), (steps, m)).ravel()
    rows[absent], rows[:, absent] = 0.0, 0.0
    return rows


def _spread(system: StateSpace, steps: int) -> Array:
    """T: x_k − E x_k = A_{k−1} (…) + F w_{k−1}, in unit vectors."""
    n, A = system.states, stack(system.A)
    result = np.zeros((steps, n, steps * n))
    result[0, :, :n] = system.root0
    for k in range(1, steps):
        result[k] = at(A, k - 1) @ result[k - 1]
        result[k, :, k * n : (k + 1) * n] = at(system.Q_root, k - 1)
    return result.reshape(steps * n, steps * n)


def _diagonal(matrices: Array, steps: int) -> Array:
    """Blocks along the diagonal, from a stack of one or K."""
    rows, columns = matrices.shape[1:]
    result, own = np.zeros((steps, rows, steps, columns)), np.arange(steps)
    result[own, :, own, :] = matrices[:steps]
    return result.reshape(steps * rows, steps * columns)

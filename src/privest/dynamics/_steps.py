"""The steps of a Kalman filter: a system seen through a privacy level.

    x_k = A x_{k−1} + shift + F ω ,    z̃_k = G x_k + offset + N ε ,    ω, ε ~ N(0, I)

with F Fᵀ = Q, G = L_kᵀC_k and N Nᵀ = L_kᵀR_kL_k + I. Step 0 has A = I, F = 0 and starts at x_0.
Releases that look back, z̃_k = Σ_j A_{k,k−j} y_{k−j} + e_k, have the state [x_k; y_k; …; y_{k−b}],

    [x_k; y_k] = HA x_{k−1} + HBu + [0; Du] + N(0, HQHᵀ + diag(0, R)) ,    H = [I; C] ;

a dense level of K steps looks back K − 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.dynamics import _kernel as kernel
from privest.errors import InvalidInput
from privest.linalg import compiling
from privest.privacy import StreamLevel

MOST_ENTRIES = 5_000_000  # of the transition matrices of a dense level: 40 MB a table


class _MatrixFields(NamedTuple):
    A: Array
    C: Array
    Q: Array
    R: Array
    mean0: Array
    cov0: Array
    B: Array
    D: Array
    diffuse: Array


class Matrices(_MatrixFields):
    """x_{k+1} = A x_k + B u_k + w , y_k = C x_k + D u_k + v , x_0 = mean0 + diffuse·δ + N(0, cov0)

    cov w = Q, cov v = R; δ is unknown. Unchecked; all but mean0, cov0 and diffuse may have a
    leading time axis. Slopes ∂/∂t are Matrices with a leading axis of parameters.
    """

    @cached_property
    def Q_root(self) -> Array:
        """F lower triangular with F Fᵀ = Q, (1 or K, n, n)."""
        return roots_of(self.Q)

    @cached_property
    def R_root(self) -> Array:
        return roots_of(self.R)

    @cached_property
    def root0(self) -> Array:
        return np.asarray(roots_of(self.cov0)[0])

    @cached_property
    def leading(self) -> tuple[Array, Array]:
        """Aᵀ and Fᵀ (1 + 1 or K, n, w); I and 0, into step 0, first."""
        A = stack(self.A)
        F = self.Q_root
        n = A.shape[-1]
        count = 1 + max(len(A), len(F))
        found = np.zeros((2, count, n, n + -n % 4))
        found[0, 0, :, :n] = np.eye(n)
        found[0, 1:, :, :n] = A.swapaxes(1, 2)
        found[1, 1:, :, :n] = F.swapaxes(1, 2)
        return found[0], found[1]

    @property
    def varying(self) -> bool:
        return any(part.ndim == 3 for part in (*self[:4], self.B, self.D))


def roots_of(covariances: Array) -> Array:
    """Lower triangular factors (1 or K, n, n) of covariances of any rank."""
    every = np.ascontiguousarray(stack(covariances))
    found = np.empty_like(every)
    compiling.where_installed(kernel.roots, "rows3 out3")(every, found)
    return found


def unit_roots_of(shown: Array, roots: Array, own: Index) -> Array:
    """N lower triangular with N Nᵀ = X Xᵀ + I, X = shown_j·roots[own_j], (J, m, m)."""
    count, m, _ = shown.shape
    found = np.empty((count, m, m))
    loop = compiling.where_installed(
        kernel.unit_roots, "rows3 in3 index out3", uses=(kernel.reflect,)
    )
    loop(np.ascontiguousarray(shown), roots, own, found)
    return found


@cache
def whiten_loop() -> compiling.Loop:
    return compiling.where_installed(kernel.whiten, "rows3 index out3")


def stack(matrix: Array) -> Array:
    return matrix if matrix.ndim == 3 else matrix[None]


def at(matrices: Array, k: int) -> Array:
    return np.asarray(matrices[min(k, len(matrices) - 1)])


def each(matrices: Array, steps: Index) -> Array:
    return np.asarray(matrices.take(np.minimum(steps, len(matrices) - 1), axis=0))


class Plan(NamedTuple):
    """The kinds of steps (leading axis J) that a level makes of a system, and the kind of each k.

    own       the step whose matrices a kind has; before: whose A, B and Q lead into it.
    absent    (J,) or (J, m): not shown; begins: step 0; missing (K,) or (K, m).
    shown     (J, m, lags·m): z̃_k = Σ_j shown_j y_{k−j} + e_k, newest first.
    """

    own: Index
    before: Index
    begins: Flags
    absent: Flags
    kind: Index
    missing: Flags
    shown: Array
    reach: int

    @property
    def steps(self) -> int:
        return len(self.kind)


def plan_of(
    level: StreamLevel | None, measurements: int, missing: Flags, *, varying: bool,
    start: int = 0, unit: float = 1.0,
) -> Plan:  # fmt: skip
    """How `level` shows steps `start`, …; None: the measurements themselves, without noise.

    `varying`: no two steps are of one kind. `unit` 1/√v: what is seen is z̃/√v.
    """
    m = measurements
    same = not varying and _constant(level, start, len(missing))
    own, begins, absent, kind = _kinds(missing, same, start)
    blocks = _blocks(level, m, start, own, start + len(missing))
    lags = len(blocks)
    shown = np.empty((len(own), m, lags * m))
    shown[:] = blocks.transpose(1, 2, 0, 3).reshape(-1, m, lags * m)
    if unit != 1.0:
        shown *= unit
    if absent.any():
        shown[absent] = 0.0
    where = own + start
    return Plan(where, np.maximum(where - 1, 0), begins, absent, kind, missing, shown, lags - 1)


def _blocks(level: StreamLevel | None, m: int, start: int, own: Index, stop: int) -> Array:
    """A_{k,k−j} (lags, 1 or J, m, m) of the kinds of steps `start`, …, stop − 1."""
    if level is None:
        return np.broadcast_to(np.eye(m), (1, len(own), m, m))
    if level.form == "dense":
        return _dense_blocks(level, stop, m)
    # A level shorter than its lags stores more of them than it reaches back.
    lags = slice(level.reach + 1)
    if not own.any() or (level.steps is None and not level.reach):
        return level.blocks(stop - 1, stop)[lags]
    return level.blocks(start, stop)[lags, own]


def _dense_blocks(level: StreamLevel, steps: int, m: int) -> Array:
    """A_{k,k−j} of a dense level, (lags K, steps K, m, m)."""
    if steps * (steps * m) ** 2 > MOST_ENTRIES:
        raise InvalidInput(
            f"A dense level looks back to the first step: {steps} steps of {m} measurements are "
            "too many. Take fewer steps, or a level that looks back a fixed number of steps."
        )
    rows = level.dense_rows(0, steps).reshape(steps, m, steps, m).swapaxes(1, 2)
    blocks = np.zeros((steps, steps, m, m))
    for lag in range(steps):
        k = np.arange(lag, steps)
        blocks[lag, k] = rows[k, k - lag]
    return blocks


def _constant(level: StreamLevel | None, start: int, steps: int) -> bool:
    if level is None or level.form == "dense":
        return level is None
    if level.steps is None:
        return True
    blocks = level.blocks(start, start + steps)
    when = start + np.arange(steps)
    lags = np.arange(len(blocks))[:, None] <= when  # others reach before step 0
    return bool((blocks == blocks[:, -1:])[lags].all())


def _kinds(missing: Flags, same: bool, start: int) -> tuple[Index, Flags, Flags, Index]:
    """The step of each kind, whether it is step 0, what is absent; the kind of each step."""
    if not same:
        own = np.arange(len(missing))
        return own, own + start == 0, missing, own
    patterns = np.array([False, True])
    which = missing.astype(np.int64)
    if missing.ndim > 1:
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
    count = len(patterns)
    code = which.reshape(-1)
    code[0] += count * (start == 0)
    used = np.bincount(code, minlength=2 * count) > 0
    kinds = np.flatnonzero(used)
    kind = (np.cumsum(used) - 1)[code]
    return np.zeros_like(kinds), kinds >= count, patterns[kinds % count], kind


@dataclass(frozen=True, eq=False)
class Steps:
    """The tables of the loops by kind of step (J), and the kind of each step (K,).

    transition Aᵀ, drive Fᵀ (·, N, w), lead (J,): which; rows N⁻¹G (J, r, w), noise N (J, r, r);
    start (N,), root (N, N): before step 0; x is the first `states`.
    """

    transition: Array
    drive: Array
    lead: Index
    rows: Array
    noise: Array
    kind: Index
    start: Array
    root: Array
    states: int
    missing: Flags

    @property
    def steps(self) -> int:
        return len(self.kind)

    @property
    def width(self) -> int:
        return int(self.transition.shape[2])

    @cached_property
    def tables(self) -> tuple[Array, Array, Index, Array, Array, Index]:
        """The first arguments of the loops; noise 1, or 0 for a number without."""
        unit = (np.diagonal(self.noise, axis1=1, axis2=2) > 0).astype(np.float64)
        return self.transition, self.drive, self.lead, self.rows, unit, self.kind

    @cached_property
    def logs(self) -> Array:
        """log|N| (J,), without numbers that have no noise."""
        scales = np.diagonal(self.noise, axis1=1, axis2=2)
        return np.asarray(np.log(np.where(scales > 0, scales, 1.0)) @ np.ones(scales.shape[1]))

    def log_noise(self) -> float:
        return float(np.bincount(self.kind, minlength=len(self.logs)) @ self.logs)

    def whitened(self, values: Array) -> Array:
        """N⁻¹v of values (K, S, r); a copy."""
        white = np.array(values, order="C")
        whiten_loop()(self.noise, self.kind, white)
        return white

    def of_kind(self, j: int) -> tuple[Array, Array, Array, Array]:
        """A, F (N, N), G (r, N) and N (r, r)."""
        size = len(self.start)
        noise = self.noise[j]
        A, F = (part[self.lead[j], :, :size].T for part in (self.transition, self.drive))
        return A, F, (noise + np.diag(noise.diagonal() == 0)) @ self.rows[j, :, :size], noise

    def later(self, first: int) -> Steps:
        return replace(self, kind=self.kind[first:], missing=self.missing[first:])


def steps_of(matrices: Matrices, plan: Plan, *, private: bool = True) -> Steps:
    """The steps of a system; not `private`: its measurements have no privacy noise."""
    n = matrices.A.shape[-1]
    m = matrices.C.shape[-2]
    if plan.reach:
        return _lagged(matrices, plan)
    if private:
        R_root = matrices.R_root
        noise = unit_roots_of(plan.shown, R_root, np.minimum(plan.own, len(R_root) - 1))
    else:
        R = each(stack(matrices.R), plan.own)
        absent = np.broadcast_to(plan.absent.reshape(len(R), -1), R.shape[:2])
        R[absent] = 0.0
        R.swapaxes(1, 2)[absent] = 0.0
        noise = roots_of(R)
    transition, drive = matrices.leading
    lead = np.where(plan.begins, 0, np.minimum(plan.before + 1, len(transition) - 1))
    rows = np.zeros((len(lead), m, transition.shape[2]))
    seen = plan.shown @ each(stack(matrices.C), plan.own)
    columns = np.ascontiguousarray(seen.swapaxes(1, 2))
    whiten_loop()(noise, np.arange(len(lead)), columns)
    rows[:, :, :n] = columns.swapaxes(1, 2)
    return Steps(
        transition, drive, lead, rows, noise, plan.kind, matrices.mean0, matrices.root0, n,
        plan.missing,
    )  # fmt: skip


def _led(matrices: Matrices, plan: Plan) -> tuple[Array, Array]:
    A = each(stack(matrices.A), plan.before)
    F = each(matrices.Q_root, plan.before)
    A[plan.begins] = np.eye(A.shape[-1])
    F[plan.begins] = 0.0
    return A, F


def _lagged(matrices: Matrices, plan: Plan) -> Steps:
    """The state [x_k; y_k; …; y_{k−b}]. A missing measurement is left out of later releases."""
    n = matrices.A.shape[-1]
    m = matrices.C.shape[-2]
    J = len(plan.own)
    N = n + plan.shown.shape[-1]
    width = N + -N % 4
    transition, drive = _led(matrices, plan)
    C = each(stack(matrices.C), plan.own)
    noise = each(matrices.R_root, plan.own)
    C[plan.absent] = 0.0
    noise[plan.absent] = 0.0
    H = with_measurements(C).swapaxes(1, 2)
    A = np.zeros((J, N, width))
    F = np.zeros((J, N, width))
    rows = np.zeros((J, m, width))
    A[:, :n, : n + m] = transition.swapaxes(1, 2) @ H
    F[:, :n, : n + m] = drive.swapaxes(1, 2) @ H
    F[:, n : n + m, n : n + m] = noise.swapaxes(1, 2)
    kept = np.arange(N - n - m)
    A[:, n + kept, n + m + kept] = 1.0
    rows[:, :, n:N] = plan.shown
    mean = np.zeros(N)
    root = np.zeros((N, N))
    mean[:n] = matrices.mean0
    root[:n, :n] = matrices.root0
    unit = np.tile(np.eye(m), (J, 1, 1))
    return Steps(A, F, np.arange(J), rows, unit, plan.kind, mean, root, n, plan.missing)


def with_measurements(C: Array) -> Array:
    n = C.shape[-1]
    return np.concatenate([np.broadcast_to(np.eye(n), (len(C), n, n)), C], axis=1)


def input_terms(
    matrices: Matrices, plan: Plan, inputs: Array, before: Array | None = None
) -> tuple[Array, Array]:
    """What known inputs (K, p) add to the states (K, N) and to z̃ (K, r).

    `before` (n,) is what the input before the first of these steps adds.
    """
    n = matrices.A.shape[-1]
    m = matrices.C.shape[-2]
    K = plan.steps
    when = int(plan.own[plan.kind[0]]) + np.arange(K)
    shift = np.zeros((K, n + (plan.shown.shape[-1] if plan.reach else 0)))
    added: Array = np.zeros((K, m))
    if inputs.shape[1]:
        shift[1:, :n] = each_times(matrices.B, inputs[:-1], when[:-1])
        added = each_times(matrices.D, inputs, when)
    if before is not None:
        shift[0, :n] = before
    if plan.reach:
        seen = each_times(matrices.C, shift[:, :n], when) + added
        shift[:, n : n + m] = np.where(of_entries(plan.missing), 0.0, seen)
        return shift, np.zeros((K, m))
    if inputs.shape[1]:
        added = each_times(plan.shown, added, plan.kind)  # zeros where nothing is shown
    return shift, added


def of_entries(missing: Flags) -> Flags:
    """(K, 1) of steps, (K, m) of entries: goes with arrays (K, m)."""
    return missing[:, None] if missing.ndim == 1 else missing


def numbers_shown(missing: Flags, m: int) -> int:
    return int((~missing).sum()) * (m if missing.ndim == 1 else 1)


def each_times(matrix: Array, vectors: Array, when: Index) -> Array:
    if matrix.ndim == 2:
        return np.asarray(vectors @ matrix.T)
    return np.asarray((matrix[when] @ vectors[:, :, None])[:, :, 0])


class Derivatives(NamedTuple):
    """∂ℓ by the tables of Steps: A, F Fᵀ, G and N Nᵀ of every kind, shift and offset of every step,
    start and its covariance.
    """

    transition: Array
    spread: Array
    rows: Array
    noise: Array
    shift: Array
    offset: Array
    start: Array
    cov: Array


def step_slopes(matrices: Matrices, slopes: Matrices, plan: Plan, inputs: Array) -> Derivatives:
    """∂/∂t of the tables, a leading axis (p, …) on each: `steps_of` differentiated."""
    A, Q = (_led_slopes(slopes[i], matrices[i], plan) for i in (0, 2))
    C, R = (_own_slopes(slopes[i], matrices[i], plan.own) for i in (1, 3))
    p = len(A)
    n = A.shape[-1]
    m = C.shape[-2]
    K = plan.steps
    moved = np.zeros((p, K, n))
    added = np.zeros((p, K, m))
    if slopes.B.any():
        moved[:, 1:] = _slopes_times(slopes.B, matrices.B, inputs[:-1])
    if slopes.D.any():
        added[:] = _slopes_times(slopes.D, matrices.D, inputs)
    shown = plan.shown
    if not plan.reach:
        offset = added
        if slopes.D.any():
            offset = np.stack([each_times(shown, own, plan.kind) for own in added])
        noise = shown @ R @ shown.swapaxes(1, 2)
        return Derivatives(A, Q, shown @ C, noise, moved, offset, slopes.mean0, slopes.cov0)
    J = len(plan.own)
    N = n + shown.shape[-1]
    size = n + m
    C[:, plan.absent] = 0.0
    R[:, plan.absent] = 0.0
    own = each(stack(matrices.C), plan.own)
    own[plan.absent] = 0.0
    H = with_measurements(own)
    led, _ = _led(matrices, plan)
    covariance = each(stack(matrices.Q), plan.before)
    covariance[plan.begins] = 0.0
    transition = np.zeros((p, J, N, N))
    spread = np.zeros((p, J, N, N))
    transition[:, :, :size, :n] = H @ A
    transition[:, :, n:size, :n] += C @ led
    spread[:, :, :size, :size] = H @ Q @ H.swapaxes(1, 2)
    turn = C @ covariance @ H.swapaxes(1, 2)
    spread[:, :, n:size, :size] += turn
    spread[:, :, :size, n:size] += turn.swapaxes(-1, -2)
    spread[:, :, n:size, n:size] += R
    shift = np.zeros((p, K, N))
    if inputs.shape[1]:
        before = np.zeros((K, n))
        before[1:] = each_times(matrices.B, inputs[:-1], np.arange(K - 1))
        shift[:, :, :size] = (H[plan.kind] @ moved[..., None])[..., 0]
        now = (C[:, plan.kind] @ before[:, :, None])[..., 0] + added
        shift[:, :, n:size] += np.where(plan.missing[:, None], 0.0, now)
    mean = np.zeros((p, N))
    cov = np.zeros((p, N, N))
    mean[:, :n] = slopes.mean0
    cov[:, :n, :n] = slopes.cov0
    still = np.zeros((p, J, m, N)), np.zeros((p, J, m, m))
    return Derivatives(transition, spread, *still, shift, np.zeros_like(added), mean, cov)


def _slopes_times(slope: Array, like: Array, inputs: Array) -> Array:
    if like.ndim == 2:
        return np.asarray(inputs @ slope.swapaxes(1, 2))
    return np.asarray((slope[:, : len(inputs)] @ inputs[:, :, None])[..., 0])


def _own_slopes(slope: Array, like: Array, steps: Index) -> Array:
    whole = slope if like.ndim == 3 else slope[:, None]
    return np.asarray(whole[:, np.minimum(steps, whole.shape[1] - 1)])


def _led_slopes(slope: Array, like: Array, plan: Plan) -> Array:
    found = _own_slopes(slope, like, plan.before)
    found[:, plan.begins] = 0.0
    return found

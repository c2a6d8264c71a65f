"""What a filter sees of a system through a privacy level: one kind of step after another.

    x_k = A x_{k−1} + shift + F ω ,    z̃_k = G x_k + offset + N ε ,    ω, ε ~ N(0, I)

with F Fᵀ = Q, G = L_kᵀC_k and N Nᵀ = L_kᵀR_kL_k + I. Step 0 has A = I and F = 0 and starts at x_0.
A release that looks back b steps, z̃_k = Σ_j A_{k,k−j} y_{k−j} + e_k, shows measurements with their
noise: the state is then [x_k; y_k; …; y_{k−b}], with H = [I; C] in its first two parts,

    [x_k; y_k] = HA x_{k−1} + HBu + [0; Du] + N(0, HQHᵀ + diag(0, R))

Measurement noise that is correlated with that of the states, cov(w_k, v_k) = cross, tells of the
state to come: with [N 0; B F'] the triangular factor of the covariance of [L_kᵀv_k + e_k; w_k],

    x_{k+1} = (A − B N⁻¹G) x_k + B N⁻¹(z̃_k − offset) + F' ω
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.dynamics import _kernel as kernel
from privest.errors import InvalidInput
from privest.linalg import compiling
from privest.privacy import EndlessLevel, SequentialLevel
from privest.privacy.parts import restricted


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

    cov w = Q, cov v = R, cov(w, v) = cross; of δ nothing is known. Unchecked arrays: A (n, n),
    C (m, n), Q (n, n), R (m, m), mean0 (n,), cov0 (n, n), B (n, p), D (m, p), diffuse (n, q) and
    cross (n, m) or None. All but mean0, cov0 and diffuse may have a leading time axis.

    Slopes ∂/∂t are Matrices with a leading axis of parameters; the gradient of a log-likelihood
    has the shapes of the matrices themselves (dℓ = Σ ⟨∂X, dX⟩; `diffuse` does not change).
    """

    cross: Array | None = None  # of a StateSpace; the systems of a family have none

    @cached_property
    def Q_root(self) -> Array:
        """F lower triangular with F Fᵀ = Q, (1 or K, n, n)."""
        return roots_of(self.Q)

    @cached_property
    def R_root(self) -> Array:
        """The same of R."""
        return roots_of(self.R)

    @cached_property
    def root0(self) -> Array:
        """The same of cov0, (n, n)."""
        return np.asarray(roots_of(self.cov0)[0])

    @property
    def varying(self) -> bool:
        """Whether steps differ by their matrices, or by what a step before them showed."""
        parts = (*self[:4], self.B, self.D)
        return self.cross is not None or any(part.ndim == 3 for part in parts)


def roots_of(covariances: Array) -> Array:
    """Lower triangular factors (1 or K, n, n) of covariances of any rank."""
    every = np.ascontiguousarray(stack(covariances))
    found = np.empty_like(every)
    compiling.where_installed(kernel.roots, "rows3 out3")(every, found)
    return found


def unit_roots_of(half: Array) -> Array:
    """N lower triangular with N Nᵀ = X Xᵀ + I, of X (J, m, q)."""
    count, m, _ = half.shape
    width = m + -m % 4
    found = np.zeros((count, width, width))
    loop = compiling.where_installed(kernel.unit_roots, "rows3 out3", uses=(kernel.reflect,))
    loop(np.ascontiguousarray(half), found)
    return found[:, :m, :m]


def applied(tables: Array, kind: Index, vectors: Array) -> Array:
    """M v_k (K, a), M (J, a, b) of the kind of step k, v (K, b)."""
    found = np.empty((len(kind), tables.shape[1]))
    loop = compiling.where_installed(kernel.apply, "in3 index in2 out2")
    loop(tables, kind, vectors, found)
    return found


def stack(matrix: Array) -> Array:
    """With a time axis, of length one where the matrix does not change."""
    return matrix if matrix.ndim == 3 else matrix[None]


def at(matrices: Array, k: int) -> Array:
    """The matrix of step k of a stack of one or K."""
    return np.asarray(matrices[min(k, len(matrices) - 1)])


def each(matrices: Array, steps: Index) -> Array:
    """A copy of the matrices of these steps, of a stack of one or K."""
    return np.asarray(matrices[np.minimum(steps, len(matrices) - 1)])


class Plan(NamedTuple):
    """The kinds of steps (leading axis J) that a level makes of a system, and which one each k is.

    own       the step whose matrices a kind has; before: whose A, B and Q lead into it.
    begins    step 0.   absent: nothing is shown (J,), or of these entries (J, m).
    kind      (K,).     missing: (K,) or (K, m), as the release has it.
    shown     (J, m, lags·m): z̃_k = Σ_j shown_j y_{k−j} + e_k, newest first; zeros where absent.
    reach     how many steps releases look back.
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
        """K."""
        return len(self.kind)


def plan_of(
    level: SequentialLevel | None, measurements: int, steps: int, missing: Flags, *,
    varying: bool, start: int = 0, unit: float = 1.0,
) -> Plan:  # fmt: skip
    """How `level` shows steps `start`, …; None: the measurements themselves, without noise.

    `varying`: no two steps are of one kind. `unit` 1/√v: what is seen is z̃/√v.
    """
    m, stop = measurements, start + steps
    if level is not None and level.form == "dense":
        raise InvalidInput(
            "A dense level looks back to the first step: filters and bounds take it, fits and "
            "streams as they come do not. Take U = 0 or a fixed number of lags."
        )
    same = not varying and (level is None or _constant(level, start, steps))
    own, begins, absent, kind = _kinds(missing, same, start)
    lags = 1 if level is None else level.reach + 1
    blocks: Array
    if level is None:
        blocks = np.broadcast_to(np.eye(m), (1, len(own), m, m))
    elif same or (isinstance(level, EndlessLevel) and not level.reach):
        blocks = level.blocks(stop - 1, stop)
    else:
        blocks = level.blocks(start, stop)[:, own]
    if level is not None and missing.ndim > 1:  # a part of some step, at a level without lags
        blocks = restricted(np.broadcast_to(blocks[0], (len(own), m, m)), absent, level)[None]
    shown = np.zeros((len(own), m, lags * m))
    # A level shorter than its lags stores more of them than it reaches back.
    shown[:] = unit * blocks[:lags].transpose(1, 2, 0, 3).reshape(-1, m, lags * m)
    shown[absent] = 0.0
    where = own + start
    return Plan(where, np.maximum(where - 1, 0), begins, absent, kind, missing, shown, lags - 1)


def _constant(level: SequentialLevel, start: int, steps: int) -> bool:
    if isinstance(level, EndlessLevel):
        return True
    blocks = level.blocks(start, start + steps)
    when = start + np.arange(steps)
    lags = np.arange(len(blocks))[:, None] <= when  # others reach before step 0
    return bool((blocks == blocks[:, -1:])[lags].all())


def _kinds(missing: Flags, same: bool, start: int) -> tuple[Index, Flags, Flags, Index]:
    """Whose matrices each kind has, whether it is step 0, what is absent; the kind of each step."""
    patterns, which = np.array([False, True]), missing.astype(np.intp)
    if missing.ndim > 1:
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
    count = len(patterns)
    code = (0 if same else 2 * count) * np.arange(len(missing)) + which.reshape(-1)
    code[0] += count * (start == 0)
    kinds, kind = np.unique(code, return_inverse=True)
    own = kinds // (2 * count)
    return own, kinds // count % 2 == 1, patterns[kinds % count], kind.reshape(-1)


class Crossing(NamedTuple):
    """B (K, n, r): B N⁻¹(z̃_k − offset) moves x_{k+1}; A − B N⁻¹G and F' out of the last step."""

    told: Array
    transition: Array
    drive: Array


@dataclass(frozen=True, eq=False)
class Steps:
    """A, F (J, N, N), G (J, r, N) and N (J, r, r) of every kind of step, and the kind of each step.

    F and N are lower triangular; start (N,) and root (N, N): mean and factor before the first step;
    states n ≤ N: x is the first n. missing (K,) or (K, r): what shows nothing has zero rows.
    crossing: of measurement noise that is correlated with that of the states.
    """

    transition: Array
    drive: Array
    rows: Array
    noise: Array
    kind: Index
    start: Array
    root: Array
    states: int
    missing: Flags
    crossing: Crossing | None = None

    @property
    def steps(self) -> int:
        """K."""
        return len(self.kind)

    @cached_property
    def tables(self) -> Tables:
        """What the loops of `_kernel` take."""
        count, _, n = self.rows.shape
        width = n + -n % 4
        white = np.array(self.rows.swapaxes(1, 2), order="C")  # a copy: it is whitened in place
        loop = compiling.where_installed(kernel.whiten, "rows3 index out3")
        loop(np.ascontiguousarray(self.noise), np.arange(count), white)
        scales = np.diagonal(self.noise, axis1=1, axis2=2)
        own = np.where(scales > 0, 1.0, 0.0)
        logs = np.log(np.where(scales > 0, scales, 1.0)).sum(axis=1)
        tables = (self.transition, self.drive, white)
        A, F, rows = (_filled(table.swapaxes(1, 2), width) for table in tables)
        return Tables(A, F, rows, own, logs)

    @cached_property
    def still(self) -> Array:
        """No shift of the states, (K, 0, w)."""
        return np.zeros((self.steps, 0, self.tables.transition.shape[2]))

    def log_noise(self) -> float:
        """Σ_k log|N| of all steps."""
        logs = self.tables.logs
        return float(np.bincount(self.kind, minlength=len(logs)) @ logs)

    def whitened(self, values: Array) -> Array:
        """N⁻¹v of values (K, S, r); a copy."""
        white = np.array(values, order="C")
        loop = compiling.where_installed(kernel.whiten, "rows3 index out3")
        loop(np.ascontiguousarray(self.noise), self.kind, white)
        return white


class Tables(NamedTuple):
    """Aᵀ, Fᵀ (J, n, w), whitened rows (J, r, w), ν (J, r), log|N| (J,)."""

    transition: Array
    drive: Array
    rows: Array
    noise: Array
    logs: Array


def _filled(tables: Array, width: int) -> Array:
    """Columns filled up with zeros."""
    if tables.shape[-1] == width:
        return np.ascontiguousarray(tables)
    found = np.zeros((*tables.shape[:-1], width))
    found[..., : tables.shape[-1]] = tables
    return found


class Next(NamedTuple):
    """What leads out of the last step: A, F (n, n), and what is known to be added, (1 or S, n)."""

    transition: Array
    drive: Array
    shift: Array


def steps_of(matrices: Matrices, plan: Plan, *, private: bool = True) -> Steps:
    """The steps of a system; not `private`: its measurements have no privacy noise."""
    n = matrices.A.shape[-1]
    transition, drive = _led(matrices, plan)
    C = each(stack(matrices.C), plan.own)
    start, root = matrices.mean0, matrices.root0
    if plan.reach:
        return _lagged(matrices, plan, transition, drive, C)
    half = plan.shown @ each(matrices.R_root, plan.own)
    if private:
        noise = unit_roots_of(half)
    else:
        R = each(stack(matrices.R), plan.own)
        absent = np.broadcast_to(plan.absent.reshape(len(R), -1), R.shape[:2])
        R[absent] = 0.0
        R.swapaxes(1, 2)[absent] = 0.0
        noise = roots_of(R)
    rows, crossing = plan.shown @ C, None
    if matrices.cross is not None:
        noise, crossing = _crossed(matrices, plan, transition, drive, rows, private=private)
    return Steps(
        transition, drive, rows, noise, plan.kind, start, root, n, plan.missing, crossing
    )  # fmt: skip


def _led(matrices: Matrices, plan: Plan) -> tuple[Array, Array]:
    """A and F that lead into each kind of step; identity and nothing into step 0."""
    A, F = each(stack(matrices.A), plan.before), each(matrices.Q_root, plan.before)
    A[plan.begins], F[plan.begins] = np.eye(A.shape[-1]), 0.0
    return A, F


def _crossed(
    matrices: Matrices, plan: Plan, transition: Array, drive: Array, rows: Array, *, private: bool
) -> tuple[Array, Crossing]:
    """N of every step and what it tells of the next; A − B N⁻¹G and F' are put into the tables.

    Kinds are steps here.
    """
    cross = matrices.cross
    assert cross is not None
    Q, R, own = (each(stack(part), plan.own) for part in (matrices.Q, matrices.R, cross))
    joint = joint_covariance(R, Q, own.swapaxes(1, 2))  # of [v; w]
    n, (count, m, _) = matrices.A.shape[-1], rows.shape
    wide = np.zeros((count, m + n, m + n))  # of [L'v; w] by [v; w]
    wide[:, :m, :m], wide[:, m:, m:] = plan.shown, np.eye(n)
    if private:
        unit = np.broadcast_to(np.eye(m + n, m), (count, m + n, m))
        lower = _lower(np.concatenate([wide @ roots_of(joint), unit], axis=2))
    else:
        lower = roots_of(wide @ joint @ wide.swapaxes(1, 2))
    noise, B, F = lower[:, :m, :m], lower[:, m:, :m], lower[:, m:, m:]
    white = np.array(rows.swapaxes(1, 2), order="C")
    loop = compiling.where_installed(kernel.whiten, "rows3 index out3")
    loop(np.ascontiguousarray(noise), np.arange(count), white)
    out = each(stack(matrices.A), plan.own) - B @ white.swapaxes(1, 2)
    transition[1:], drive[1:] = out[:-1], F[:-1]
    return noise, Crossing(B, out[-1], F[-1])


def _lower(half: Array) -> Array:
    """L lower triangular, diagonal ≥ 0, with L Lᵀ = X Xᵀ, by QR."""
    upper = np.asarray(np.linalg.qr(half.swapaxes(1, 2), mode="r"))
    signs = np.copysign(1.0, np.diagonal(upper, axis1=1, axis2=2))
    return np.asarray((upper * signs[:, :, None]).swapaxes(1, 2))


def joint_covariance(Q: Array, R: Array, cross: Array) -> Array:
    """[[Q, cross], [crossᵀ, R]], (K, n + m, n + m)."""
    above = np.concatenate([Q, cross], axis=-1)
    return np.concatenate([above, np.concatenate([cross.swapaxes(-1, -2), R], axis=-1)], axis=-2)


def _lagged(matrices: Matrices, plan: Plan, transition: Array, drive: Array, C: Array) -> Steps:
    """The state [x_k; y_k; …; y_{k−b}]. A missing measurement is left out of later releases."""
    if matrices.cross is not None:
        raise InvalidInput(
            "Releases that look back, of a system whose measurement noise is correlated with that "
            "of its states (cross), have no filter here: take a level without lags."
        )
    n, m, J = matrices.A.shape[-1], matrices.C.shape[-2], len(plan.own)
    N = n + plan.shown.shape[-1]
    noise = each(matrices.R_root, plan.own)
    C[plan.absent], noise[plan.absent] = 0.0, 0.0
    H = with_measurements(C)
    A, F, rows = np.zeros((J, N, N)), np.zeros((J, N, N)), np.zeros((J, m, N))
    A[:, : n + m, :n], F[:, : n + m, :n] = H @ transition, H @ drive
    F[:, n : n + m, n : n + m] = noise
    kept = np.arange(N - n - m)
    A[:, n + m + kept, n + kept] = 1.0
    rows[:, :, n:] = plan.shown
    mean, root = np.zeros(N), np.zeros((N, N))
    mean[:n], root[:n, :n] = matrices.mean0, matrices.root0
    unit = np.broadcast_to(np.eye(m), (J, m, m))
    return Steps(A, F, rows, unit, plan.kind, mean, root, n, plan.missing)


def with_measurements(C: Array) -> Array:
    """H = [I; C]."""
    n = C.shape[-1]
    return np.concatenate([np.broadcast_to(np.eye(n), (len(C), n, n)), C], axis=1)


def input_terms(
    matrices: Matrices, plan: Plan, inputs: Array, before: Array | None = None
) -> tuple[Array, Array]:
    """What known inputs (K, p) add to the states (K, N) and to z̃ (K, r).

    `before` (n,) is what the input before the first of these steps adds.
    """
    n, m, K = matrices.A.shape[-1], matrices.C.shape[-2], plan.steps
    when = int(plan.own[plan.kind[0]]) + np.arange(K)
    shift = np.zeros((K, n + (plan.shown.shape[-1] if plan.reach else 0)))
    added: Array = np.zeros((K, m))
    if inputs.shape[1]:
        shift[1:, :n] = _each_times(matrices.B, inputs[:-1], when[:-1])
        added = _each_times(matrices.D, inputs, when)
    if before is not None:
        shift[0, :n] = before
    if plan.reach:
        seen = _each_times(matrices.C, shift[:, :n], when) + added
        shift[:, n : n + m] = np.where(of_entries(plan.missing), 0.0, seen)
        return shift, np.zeros((K, m))
    if inputs.shape[1]:
        added = applied(plan.shown, plan.kind, added)  # zeros where nothing is shown
    return shift, added


def of_entries(missing: Flags) -> Flags:
    """(K, 1) of steps, (K, m) of entries: goes with arrays (K, m)."""
    return missing[:, None] if missing.ndim == 1 else missing


def numbers_shown(missing: Flags, m: int) -> int:
    """How many of the K·m numbers are shown."""
    return int((~missing).sum()) * (m if missing.ndim == 1 else 1)


def _each_times(matrix: Array, vectors: Array, when: Index) -> Array:
    """M_kv_k of every step."""
    if matrix.ndim == 2:
        return np.asarray(vectors @ matrix.T)
    return np.asarray((matrix[when] @ vectors[:, :, None])[:, :, 0])


class Derivatives(NamedTuple):
    """∂ℓ by the tables of Steps: A, F Fᵀ, G and N Nᵀ of every kind, shift (K, N) and offset (K, r)
    of every step, start (N,) and its covariance (N, N).
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
    """∂/∂t of the tables, a leading axis (p, …) on each: `steps_of` differentiated forward."""
    A, Q = (_led_slopes(slopes[i], matrices[i], plan) for i in (0, 2))
    C, R = (_own_slopes(slopes[i], matrices[i], plan.own) for i in (1, 3))
    p, n, m, K = len(A), A.shape[-1], C.shape[-2], plan.steps
    moved, added = np.zeros((p, K, n)), np.zeros((p, K, m))
    if slopes.B.any():
        moved[:, 1:] = _slopes_times(slopes.B, matrices.B, inputs[:-1])
    if slopes.D.any():
        added[:] = _slopes_times(slopes.D, matrices.D, inputs)
    shown = plan.shown
    if not plan.reach:
        offset = added
        if slopes.D.any():
            offset = np.stack([applied(shown, plan.kind, own) for own in added])
        noise = shown @ R @ shown.swapaxes(1, 2)
        return Derivatives(A, Q, shown @ C, noise, moved, offset, slopes.mean0, slopes.cov0)
    J, N, size = len(plan.own), n + shown.shape[-1], n + m
    C[:, plan.absent], R[:, plan.absent] = 0.0, 0.0
    own = each(stack(matrices.C), plan.own)
    own[plan.absent] = 0.0
    H = with_measurements(own)
    led, _ = _led(matrices, plan)
    covariance = each(stack(matrices.Q), plan.before)
    covariance[plan.begins] = 0.0
    transition, spread = np.zeros((p, J, N, N)), np.zeros((p, J, N, N))
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
        before[1:] = _each_times(matrices.B, inputs[:-1], np.arange(K - 1))
        shift[:, :, :size] = (H[plan.kind] @ moved[..., None])[..., 0]
        now = (C[:, plan.kind] @ before[:, :, None])[..., 0] + added
        shift[:, :, n:size] += np.where(plan.missing[:, None], 0.0, now)
    mean, cov = np.zeros((p, N)), np.zeros((p, N, N))
    mean[:, :n], cov[:, :n, :n] = slopes.mean0, slopes.cov0
    still = np.zeros((p, J, m, N)), np.zeros((p, J, m, m))
    return Derivatives(transition, spread, *still, shift, np.zeros_like(added), mean, cov)


def _slopes_times(slope: Array, like: Array, inputs: Array) -> Array:
    """(p, K, …): slopes of B or D times the inputs of the first K steps."""
    if like.ndim == 2:
        return np.asarray(inputs @ slope.swapaxes(1, 2))
    return np.asarray((slope[:, : len(inputs)] @ inputs[:, :, None])[..., 0])


def _own_slopes(slope: Array, like: Array, steps: Index) -> Array:
    """(p, J, …): the slopes of the matrices of these steps."""
    whole = slope if like.ndim == 3 else slope[:, None]
    return np.asarray(whole[:, np.minimum(steps, whole.shape[1] - 1)])


def _led_slopes(slope: Array, like: Array, plan: Plan) -> Array:
    found = _own_slopes(slope, like, plan.before)
    found[:, plan.begins] = 0.0
    return found

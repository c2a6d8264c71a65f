"""What a filter sees of a system through a level: one kind of step after another.

A step k ≥ 1 takes x_{k−1} to x_k and shows z̃_k:

    x_k = A x_{k−1} + shift + F ω ,    z̃_k = G x_k + offset + N ε ,    ω, ε ~ N(0, I)

with F Fᵀ = Q, G = L_kᵀC_k and N Nᵀ = L_kᵀR_kL_k + I. Step 0 has A = I, F = 0 and starts at x_0.
A release that looks back b steps, z̃_k = Σ_j A_{k,k−j} y_{k−j} + e_k, shows the last readings with
their noise: the state is then [x_k; y_k; …; y_{k−b}], its noise singular.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, Flags, Index
from privest.dynamics._parallel import Tables
from privest.dynamics._system import StateSpace, stack
from privest.errors import InvalidInput
from privest.privacy import EndlessLevel, PrivacyLevel, SequentialLevel, as_stream_level

Level = SequentialLevel | PrivacyLevel | ArrayLike  # what every door for a level takes


@dataclass(frozen=True, eq=False)
class Observed:
    """The kinds of steps (leading axis J) and which one each step k is.

    transition A (J, N, N), drive F (J, N, q), rows G (J, r, N), noise N (J, r, p), kind (K,);
    start (N,) and root (N, N): mean and factor before step 0; states n ≤ N: x is the first n.
    absent (K,): steps that show nothing.
    """

    transition: Array
    drive: Array
    rows: Array
    noise: Array
    kind: Index
    start: Array
    root: Array
    states: int
    absent: Flags

    @property
    def steps(self) -> int:
        return len(self.kind)

    @property
    def tables(self) -> Tables:
        """A, F, G, N of all kinds."""
        return self.transition, self.drive, self.rows, self.noise

    def of_kind(self, j: int) -> Tables:
        """A, F, G, N of one kind of step."""
        return self.transition[j], self.drive[j], self.rows[j], self.noise[j]


def level_of(level: Level, system: StateSpace) -> SequentialLevel:
    """The level of a stream of the system's readings, in whatever form it was given."""
    return as_stream_level(level, readings=system.readings)


def asked(
    system: StateSpace, level: Level, steps: int | None,
    missing: ArrayLike | None,
) -> tuple[SequentialLevel, int, Flags]:  # fmt: skip
    """The level for this system, K, and (K,) True where a step shows nothing."""
    wanted = level_of(level, system)
    count = _level_steps(wanted, system, steps)
    if missing is None:
        return wanted, count, np.zeros(count, dtype=bool)
    flags = np.asarray(missing)
    if flags.dtype != np.bool_ or flags.shape != (count,):
        raise InvalidInput(
            f"missing must be {count} truth values, one a step; received {flags.dtype} of shape "
            f"{flags.shape}."
        )
    return wanted, count, flags


def _level_steps(level: SequentialLevel, system: StateSpace, steps: int | None) -> int:
    """K: as asked, or as far as the level or the system goes."""
    limits = [limit for limit in (level.steps, system.steps) if limit is not None]
    if steps is None:
        if not limits:
            raise InvalidInput("Neither the system nor the level has an end: say how many steps.")
        return min(limits)
    if level.steps is not None and steps > level.steps:
        raise InvalidInput(f"The level has {level.steps} steps; asked for {steps}.")
    return system.require_steps(steps)


def observed(
    system: StateSpace, level: SequentialLevel, steps: int, missing: Flags, *, start: int = 0
) -> Observed:
    """The system through a level whose releases look back a fixed number of steps.

    With `start` > 0 the first step here is step `start` of the stream, and what comes before it
    (`Observed.start`, `Observed.root`) is for the caller to put in.
    """
    if level.form == "dense":
        raise InvalidInput(
            "A dense level needs the whole trajectory at once: use bound or filter_releases."
        )
    same = system.steps is None and _constant(level, start, steps)
    if level.reach == 0:
        return _independent(system, level, missing, same, start, steps)
    return _augmented(system, level, missing, same, start, steps)


def unprotected(system: StateSpace, steps: int, missing: Flags) -> Observed:
    """The readings themselves: the limit of an infinite level. R may be singular."""
    C, noise = stack(system.C)[:steps], system.R_root[:steps]
    length = max(len(C), len(noise))
    shape = (length, system.readings)
    return _plain(
        system, system.steps is None, np.broadcast_to(C, (*shape, system.states)),
        np.broadcast_to(noise, (*shape, system.readings)), missing, 0,
    )  # fmt: skip


def _constant(level: SequentialLevel, start: int, steps: int) -> bool:
    if isinstance(level, EndlessLevel):
        return True
    blocks = level.blocks(start, start + steps)
    when = start + np.arange(steps)
    lags = np.arange(len(blocks))[:, None] <= when  # others reach before step 0
    return bool((blocks == blocks[:, -1:])[lags].all())


def _independent(
    system: StateSpace, level: SequentialLevel, missing: Flags, same: bool, start: int, steps: int
) -> Observed:
    length = 1 if same else steps
    shown = level.blocks(start, start + length)[0]  # L_kᵀ
    own = slice(start, start + length)
    rows = shown @ (system.C[own] if system.C.ndim == 3 else system.C)
    root = system.R_root[own] if system.R.ndim == 3 else system.R_root
    return _plain(system, same, rows, unit_noise(shown @ root), missing, start)


def unit_noise(half: Array) -> Array:
    """N lower-triangular with N Nᵀ = half halfᵀ + I, by QR: the unit is never lost to rounding."""
    m = half.shape[-2]
    unit = np.broadcast_to(np.eye(m), (*half.shape[:-2], m, m))
    joint = np.concatenate([half.swapaxes(-1, -2), unit], axis=-2)
    return np.asarray(np.linalg.qr(joint, mode="r")).swapaxes(-1, -2)


class _Kinds(NamedTuple):
    """The distinct kinds of steps: whose matrices they have, and whether first or absent."""

    own: Index
    begins: Flags
    absent: Flags
    kind: Index  # of every step (K,)


def _kinds(missing: Flags, same: bool, start: int) -> _Kinds:
    """Steps are of one kind if their matrices are the same, neither or both the first or absent."""
    code = (0 if same else 4) * np.arange(len(missing)) + missing
    code[0] += 2 * (start == 0)
    present = np.bincount(code) > 0  # np.unique without sorting
    kinds = np.flatnonzero(present)
    own = kinds // 4
    return _Kinds(own, kinds // 2 % 2 == 1, kinds % 2 == 1, (np.cumsum(present) - 1)[code])


def _plain(
    system: StateSpace, same: bool, rows: Array, noise: Array, missing: Flags, start: int
) -> Observed:
    """Kinds for releases of single steps."""
    own, begins, absent, kind = _kinds(missing, same, start)
    rows = rows[np.minimum(own, len(rows) - 1)].copy()
    noise = noise[np.minimum(own, len(noise) - 1)].copy()
    rows[absent] = 0.0
    noise[absent] = np.eye(noise.shape[1])
    transition, drive = _transitions(system, own + start, begins)
    return Observed(
        transition, drive, rows, noise, kind, system.mean0, system.root0, system.states, missing
    )  # fmt: skip


def _transitions(system: StateSpace, steps: Index, begins: Flags) -> tuple[Array, Array]:
    """A and F that lead into these steps; identity and nothing into step 0."""
    A, F = stack(system.A), system.Q_root
    before = np.maximum(steps - 1, 0)
    transition = A[np.minimum(before, len(A) - 1)].copy()
    drive = F[np.minimum(before, len(F) - 1)].copy()
    transition[begins] = np.eye(system.states)
    drive[begins] = 0.0
    return transition, drive


def _augmented(
    system: StateSpace, level: SequentialLevel, missing: Flags, same: bool, start: int, steps: int
) -> Observed:
    """The state [x_k; y_k; …; y_{k−b}]. A missing reading is left out of all later releases."""
    n, m, lags = system.states, system.readings, level.reach + 1
    # Early releases of a constant level have fewer lags, but the readings before step 0 are zeros.
    own, begins, absent, kind = _kinds(missing, same, start)
    J, N = len(own), n + lags * m
    transition, drive = np.zeros((J, N, N)), np.zeros((J, N, n + m))
    A, F = _transitions(system, own + start, begins)
    C, G = stack(system.C), system.R_root
    when = own + start
    C, G = C[np.minimum(when, len(C) - 1)].copy(), G[np.minimum(when, len(G) - 1)].copy()
    C[absent], G[absent] = 0.0, 0.0
    transition[:, :n, :n], transition[:, n : n + m, :n] = A, C @ A
    drive[:, :n, :n], drive[:, n : n + m, :n], drive[:, n : n + m, n:] = F, C @ F, G
    kept = np.arange(N - n - m)
    transition[:, n + m + kept, n + kept] = 1.0
    if same:
        shown = np.broadcast_to(
            level.blocks(start + steps - 1, start + steps)[:lags], (lags, J, m, m)
        )
    else:
        shown = level.blocks(start, start + steps)[:lags, own]
    rows = np.zeros((J, m, N))
    rows[:, :, n:] = shown.transpose(1, 2, 0, 3).reshape(J, m, lags * m)
    rows[absent] = 0.0
    noise = np.broadcast_to(np.eye(m), (J, m, m))
    mean, root = np.zeros(N), np.zeros((N, N))
    mean[:n], root[:n, :n] = system.mean0, system.root0
    return Observed(transition, drive, rows, noise, kind, mean, root, n, missing)


def offsets(
    system: StateSpace, level: SequentialLevel, seen: Observed, inputs: ArrayLike | None,
    *, start: int = 0, before: Array | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """What known inputs add: to the state that step k leads to (K, N), to z̃_k (K, r), and to the
    state that the last step leads to (n,); `before` is that of the step before the first.
    """
    steps, n, m = seen.steps, system.states, system.readings
    leaving, own = system.offsets(steps, inputs, start)
    shift = np.zeros((steps, len(seen.start)))
    shift[1:, :n] = leaving[:-1]
    if before is not None:
        shift[0, :n] = before
    added = np.zeros((steps, m))
    absent = seen.absent[:, None]
    if level.reach:
        C = stack(system.C)
        C = C[start : start + steps] if len(C) > 1 else C
        reading = (C @ shift[:, :n, None])[:, :, 0] + own
        shift[:, n : n + m] = np.where(absent, 0.0, reading)
    elif own.any():
        shown = level.blocks(start, start + steps)[0] @ own[:, :, None]
        added = np.where(absent, 0.0, shown[:, :, 0])
    return shift, added, leaving[-1]

"""What a filter sees of a system through a level: one kind of step after another.

A step k ≥ 1 takes x_{k−1} to x_k and shows z̃_k:

    x_k = A x_{k−1} + shift + F ω ,    z̃_k = G x_k + offset + N ε ,    ω, ε ~ N(0, I)

with F Fᵀ = Q, G = L_kᵀC_k and N Nᵀ = L_kᵀR_kL_k + I. Step 0 has A = I, F = 0 and starts at x_0.
A release that looks back b steps, z̃_k = Σ_j A_{k,k−j} y_{k−j} + e_k, shows the last readings with
their noise: the state is then [x_k; y_k; …; y_{k−b}], its noise singular.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index, as_flags, room_for
from privest.dynamics._recursions import Tables
from privest.dynamics._system import StateSpace, as_system, between, each, stack
from privest.dynamics._triangular import shown_steps, triangular
from privest.errors import InvalidInput
from privest.privacy import EndlessLevel, PrivacyLevel, SequentialLevel, as_stream_level
from privest.privacy._parts import hidden_entries, restricted, rows_of_parts

Level = SequentialLevel | PrivacyLevel | ArrayLike  # what every door for a level takes


@dataclass(frozen=True, eq=False)
class Observed:
    """The kinds of steps (leading axis J) and which one each step k is.

    transition A (J, N, N), drive F (J, N, q), rows G (J, r, N), noise N (J, r, p), kind (K,);
    start (N,) and root (N, N): mean and factor before step 0; states n ≤ N: x is the first n.
    (Noise that is correlated with that of the readings adds n states: `_correlated`.)
    absent (K,): steps that show nothing; (K, m) where of some a part is missing (`as_seen`): the
    rows of what is not there are zeros, its noise is a unit of its own.
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
    return as_stream_level(level, readings=as_system(system).readings)


def asked(
    system: StateSpace, level: Level, steps: int | None, missing: ArrayLike | None
) -> tuple[SequentialLevel, int, Flags]:
    """The level for this system, K, and what shows nothing: (K,), or (K, m) (`as_seen`)."""
    wanted = level_of(level, system)
    count = _level_steps(wanted, system, steps)
    if missing is None:
        return wanted, count, np.zeros(count, dtype=bool)
    flags = as_flags(missing, "missing", ((count,), (count, system.readings)))
    return wanted, count, as_seen(wanted, 0, flags)


def as_seen(level: SequentialLevel, start: int, missing: Flags) -> Flags:
    """Which steps show nothing, (K,), or where some show a part, which entries do not, (K, m).

    From flags of steps (K,) or of readings (K, m), of step `start` and those after it.
    """
    if missing.ndim == 1:
        return missing
    hidden = hidden_entries(level, start, missing)
    some = np.asarray(hidden.any(axis=1))
    return some if np.array_equal(some, hidden.all(axis=1)) else hidden


def of_entries(missing: Flags) -> Flags:
    """(K, 1) of steps, (K, m) of entries: goes with arrays (K, m)."""
    return missing[:, None] if missing.ndim == 1 else missing


def numbers_shown(missing: Flags, m: int) -> int:
    """How many of the K·m numbers are shown."""
    return int((~missing).sum()) * (m if missing.ndim == 1 else 1)


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
    system: StateSpace, level: SequentialLevel, steps: int, missing: Flags, *, start: int = 0,
    unit: float = 1.0, compiled: bool = False,
) -> Observed:  # fmt: skip
    """The system through a level whose releases look back a fixed number of steps.

    `unit` 1/√v: what is seen is z̃/√v, where the noise of the releases has variance v.
    `compiled`: by the loops of `_machine`, the same numbers.

    With `start` > 0 the first step here is step `start` of the stream, and what comes before it
    (`Observed.start`, `Observed.root`) is for the caller to put in.
    """
    if level.form == "dense":
        raise InvalidInput(
            "A dense level needs the whole trajectory at once: use bound or filter_releases."
        )
    same, n = system.steps is None and _constant(level, start, steps), system.states
    system = system.uncorrelated
    if level.reach:
        return replace(_augmented(system, level, missing, same, start, steps, unit), states=n)
    fixed = isinstance(level, EndlessLevel) and len(stack(system.C)) == len(system.R_root) == 1
    stop = start + (1 if same or fixed else steps)
    shown = level.blocks(start, stop)[0]  # L_kᵀ
    C, half = between(system.C, start, stop), between(system.R_root, start, stop)
    kinds = _kinds(missing, same, start)
    if missing.ndim == 1 and compiled:
        rows, noise = shown_steps(kinds[0], kinds[2], shown, C, half, unit)
    elif missing.ndim == 1:
        shown = unit * shown
        rows, noise = each(shown @ C, kinds[0]), each(unit_noise(shown @ half), kinds[0])
        rows[kinds[2]], noise[kinds[2]] = 0.0, np.eye(noise.shape[1])
    else:
        shown = unit * restricted(each(shown, kinds[0]), kinds[2], level)
        rows = shown @ each(C, kinds[0])
        noise = unit_noise(shown @ each(half, kinds[0]), compiled)
    return replace(_plain(system, rows, noise, missing, kinds, start), states=n)


def unprotected(system: StateSpace, missing: Flags) -> Observed:
    """The readings themselves: the limit of an infinite level. R may be singular."""
    same, n, system = system.steps is None, system.states, system.uncorrelated
    kinds = own, _, absent, _ = _kinds(missing, same, 0)
    rows, noise = each(stack(system.C), own), each(system.R_root, own)
    rows[absent] = 0.0
    if missing.ndim == 1:
        noise[absent] = np.eye(noise.shape[1])
    else:
        for j in np.flatnonzero(absent.any(axis=1)):
            noise[j] = _noise_without(noise[j], absent[j])
    return replace(_plain(system, rows, noise, missing, kinds, 0), states=n)


def _noise_without(half: Array, absent: Flags) -> Array:
    """A factor of the noise of what is there, and units of their own for what is not."""
    noise, there = np.diag(absent.astype(float)), np.flatnonzero(~absent)
    upper = np.asarray(np.linalg.qr(half[there].T, mode="r"))
    noise[np.ix_(there, there[: len(upper)])] = upper.T
    return noise


def _constant(level: SequentialLevel, start: int, steps: int) -> bool:
    if isinstance(level, EndlessLevel):
        return True
    blocks = level.blocks(start, start + steps)
    when = start + np.arange(steps)
    lags = np.arange(len(blocks))[:, None] <= when  # others reach before step 0
    return bool((blocks == blocks[:, -1:])[lags].all())


def unit_noise(half: Array, compiled: bool = False) -> Array:
    """N lower-triangular with N Nᵀ = half halfᵀ + I, by QR: the unit is never lost to rounding."""
    m = half.shape[-2]
    unit = np.broadcast_to(np.eye(m), (*half.shape[:-2], m, m))
    if compiled:
        return triangular(np.concatenate([half, unit], axis=-1))
    joint = np.concatenate([half.swapaxes(-1, -2), unit], axis=-2)
    return np.asarray(np.linalg.qr(joint, mode="r")).swapaxes(-1, -2)


Kinds = tuple[Index, Flags, Flags, Index]


def _kinds(missing: Flags, same: bool, start: int) -> Kinds:
    """Whose matrices each kind has, whether it is the first, what is absent; the kind of each step.

    Steps are of one kind if their matrices are the same, neither or both the first, and the same
    is absent: (J,) flags for those of steps (K,), (J, m) for those of entries (K, m).
    """
    patterns, which = np.array([False, True]), missing.astype(np.intp)
    if missing.ndim > 1:
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
    count = len(patterns)
    code = (0 if same else 2 * count) * np.arange(len(missing)) + which.reshape(-1)
    code[0] += count * (start == 0)
    if missing.ndim > 1:
        kinds, kind = np.unique(code, return_inverse=True)
    else:
        present = np.bincount(code) > 0  # np.unique without sorting
        kinds, kind = np.flatnonzero(present), (np.cumsum(present) - 1)[code]
    return kinds // (2 * count), kinds // count % 2 == 1, patterns[kinds % count], kind


def _plain(
    system: StateSpace, rows: Array, noise: Array, missing: Flags, kinds: Kinds, start: int
) -> Observed:
    """Kinds for releases of single steps."""
    own, begins, _, kind = kinds
    transition, drive = _transitions(system, own + start, begins)
    return Observed(
        transition, drive, rows, noise, kind, system.mean0, system.root0, system.states, missing
    )  # fmt: skip


def _transitions(system: StateSpace, steps: Index, begins: Flags) -> tuple[Array, Array]:
    """A and F that lead into these steps; identity and nothing into step 0."""
    before = np.maximum(steps - 1, 0)
    stacks = stack(system.A), system.Q_root
    transition, drive = room_for(*((len(steps), *own.shape[1:]) for own in stacks))
    for own, table in zip(stacks, (transition, drive)):
        np.take(own, before, axis=0, out=table, mode="clip")  # a stack of one holds for all
    transition[begins] = np.eye(system.states)
    drive[begins] = 0.0
    return transition, drive


def _augmented(
    system: StateSpace, level: SequentialLevel, missing: Flags, same: bool, start: int, steps: int,
    unit: float,
) -> Observed:  # fmt: skip
    """The state [x_k; y_k; …; y_{k−b}]. A missing reading is left out of all later releases."""
    n, m, lags = system.states, system.readings, level.reach + 1
    # Early releases of a constant level have fewer lags, but the readings before step 0 are zeros.
    own, begins, absent, kind = _kinds(missing, same, start)
    J, N, when, stop = len(own), n + lags * m, own + start, start + steps
    transition, drive = np.zeros((J, N, N)), np.zeros((J, N, n + m))
    A, F = _transitions(system, when, begins)
    C, G = each(stack(system.C), when), each(system.R_root, when)
    C[absent], G[absent] = 0.0, 0.0
    transition[:, :n, :n], transition[:, n : n + m, :n] = A, C @ A
    drive[:, :n, :n], drive[:, n : n + m, :n], drive[:, n : n + m, n:] = F, C @ F, G
    kept = np.arange(N - n - m)
    transition[:, n + m + kept, n + kept] = 1.0
    shown = level.blocks(stop - 1, stop) if same else level.blocks(start, stop)[:, own]
    rows = np.zeros((J, m, N))
    # A level shorter than its lags stores more of them than it reaches back.
    rows[:, :, n:] = unit * shown[:lags].transpose(1, 2, 0, 3).reshape(-1, m, lags * m)
    rows[absent] = 0.0
    noise = np.broadcast_to(np.eye(m), (J, m, m))
    mean, root = np.zeros(N), np.zeros((N, N))
    mean[:n], root[:n, :n] = system.mean0, system.root0
    return Observed(transition, drive, rows, noise, kind, mean, root, n, missing)


def offsets(
    system: StateSpace, level: SequentialLevel, seen: Observed, inputs: ArrayLike | None,
    *, start: int = 0, before: Array | None = None, unit: float = 1.0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """What known inputs add: to the state that step k leads to (K, N), to z̃_k (K, r), and to the
    state that the last step leads to (n or 2n,); `before` is that of the step before the first.
    """
    system = system.uncorrelated
    steps, n, m = seen.steps, system.states, system.readings
    leaving, own = system.offsets(steps, inputs, start)
    shift = np.zeros((steps, len(seen.start)))
    shift[1:, :n] = leaving[:-1]
    if before is not None:
        shift[0, :n] = before
    added = np.zeros((steps, m))
    absent = of_entries(seen.absent)
    if level.reach:
        C = between(system.C, start, start + steps)
        reading = (C @ shift[:, :n, None])[:, :, 0] + own
        shift[:, n : n + m] = np.where(absent, 0.0, reading)
    elif own.any():
        rows = level.blocks(start, start + steps)[0]
        if seen.absent.ndim > 1:
            rows = rows_of_parts(level, start, seen.absent)
        shown = unit * rows @ own[:, :, None]
        added = np.where(absent, 0.0, shown[:, :, 0])
    return shift, added, leaving[-1]

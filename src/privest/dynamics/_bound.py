"""Σ_BPPCR of a dynamic model: the least error of any estimate of the states, at every k.

J_Y = (HPHᵀ + R)⁻¹ is never inverted: whitened innovations are ζ = W(Y − E Y), so J_Y = WᵀW.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, as_array, plural
from privest.bounds import above_prior
from privest.dynamics._filter import Batch, first_state, outcome_of, smoothed_of
from privest.dynamics._kalman import Pass, adjoint, forward, require_determined
from privest.dynamics._releases import Level, asked, level_of
from privest.dynamics._steps import Plan, Steps, at, of_entries, plan_of, stack, steps_of
from privest.dynamics._system import StateSpace, as_system
from privest.errors import InvalidInput, LevelBelowPrior, NumericalFailure
from privest.linalg import batched as stacked
from privest.linalg import psd
from privest.privacy import StreamLevel
from privest.privacy.stream_parts import squares_by_lag
from privest.records import Record, standard_errors

PROBLEM = "There is no steady state: "
UNDRIVEN = (
    "the Riccati equation has no stabilising solution. Some unstable part is not shown, or a part "
    "on the unit circle is driven by no noise."
)
# An undriven root on the unit circle is a double root of the Riccati pencil: rounding moves it by
# √eps, some 1e-8. A memory of more than 1e7 steps cannot be distinguished from it.
ON_CIRCLE = 1e-7

TIES = (
    "The system leaves some measurement without any uncertainty given the earlier ones (C P Cᵀ + R "
    "is singular): the prior alone exceeds every finite level."
)


@dataclass(frozen=True, eq=False)
class StateBound(Record):
    """The floor under the error of every estimate of x_k from the releases.

    predicted, filtered, smoothed   marginals of Σ_BPPCR (K, n, n) for horizons k−1, k and K−1; of a
                                    steady state (n, n).
    level, missing                  of the releases; level None: the measurements themselves.
    memory                          of a steady state: steps in which an error falls to 1/e.
    """

    predicted: Array
    filtered: Array
    smoothed: Array
    system: StateSpace
    level: StreamLevel | None = None
    missing: Flags | None = None
    memory: float | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error",)

    @cached_property
    def classical(self) -> StateBound:
        """The same from the measurements themselves: without privacy."""
        if self.missing is None:
            return _steady(self.system, None)
        return _marginals(self.system, None, self.missing)

    @cached_property
    def prior_information(self) -> Array:
        """[J_Y]_kk (K, m, m): what the system and all other measurements reveal of y_k."""
        return information_blocks(self.system, len(self._flags()))

    @cached_property
    def total_level(self) -> Array:
        """[S]_kk = [J_Y]_kk + [S̄]_kk (K, m, m)."""
        if self.level is None:
            raise InvalidInput("The measurements themselves have no privacy level.")
        plan = _plan(self.system, self.level, self._flags(), varying=True)
        K = plan.steps
        m = self.system.measurements
        blocks = plan.shown.reshape(K, m, -1, m).transpose(2, 0, 1, 3)
        absent = np.broadcast_to(of_entries(self._flags()), (K, m))
        unseen = absent[:, :, None] | absent[:, None, :]  # left out of later releases too
        return self.prior_information + np.where(unseen, 0.0, squares_by_lag(blocks))

    def _flags(self) -> Flags:
        if self.missing is None:
            raise InvalidInput("The information about y_k is of a number of steps: pv.bound.")
        return self.missing

    @property
    def standard_error(self) -> Array:
        return standard_errors(self.filtered)

    @property
    def classical_error(self) -> Array:
        return standard_errors(self.classical.filtered)

    def __repr__(self) -> str:
        if self.filtered.ndim == 2:
            return f"StateBound(steady state, filtered trace {np.trace(self.filtered):.4g})"
        size = f"{plural(len(self.filtered), 'step')}, {plural(self.system.states, 'state')}"
        last = np.trace(self.filtered[-1])
        return f"StateBound({size}, filtered trace at the last step {last:.4g})"


def state_bound(
    system: StateSpace, level: Level, steps: int | None = None, *, missing: ArrayLike | None = None
) -> StateBound:
    """Σ_BPPCR: how well the states can be known from releases of the measurements.

        Σ_BPPCR = P − PHᵀ Aᵀ (A (HPHᵀ + R) Aᵀ + I)⁻¹ A H P ,    S = J_Y + AᵀA

    `level` is what the releases add to the prior, S − J_Y = AᵀA: a number s (L_kL_kᵀ = s·I), a
    matrix (m, m), an array (K, m, m), or a stream level; for a total S see `bounds.release_level`.
    `missing` (K,): steps that show nothing; (K, m): missing measurements. Diffuse starts: infinite
    entries until δ is determined; NotIdentifiable if it never is. Attained by StreamMechanism with
    `filter`. O(K (n + bm)³). `eq:state_space`.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> b = state_bound(walk, 2.0, steps=2)  # y + N(0, 1) in all
    >>> b.filtered.ravel().round(12).tolist()  # 1/(1 + 1), then 1/(1 + 1/1.5)
    [0.5, 0.6]
    """
    wanted, _, absent = asked(system, level, steps, missing)
    return _marginals(system, wanted, absent)


def _plan(
    system: StateSpace, level: StreamLevel | None, missing: Flags, *, varying: bool = False
) -> Plan:
    varying = varying or system.matrices.varying
    return plan_of(level, system.measurements, missing, varying=varying)


def _marginals(system: StateSpace, level: StreamLevel | None, missing: Flags) -> StateBound:
    """A filter and a smoother of no series; level None: without privacy noise."""
    steps = steps_of(system.matrices, _plan(system, level, missing), private=level is not None)
    K = steps.steps
    r = steps.rows.shape[1]
    N = len(steps.start)
    state = first_state(system, steps, 0)
    batch = Batch(steps, state, np.zeros((K, len(state.mean), r)), np.zeros((K, 0, N)), 0)
    found = outcome_of(batch, system.states)
    if found.open is not None:
        require_determined(system.matrices.diffuse, found.open.known().hidden)
    smoothed = smoothed_of(batch, found.done)[1]
    return StateBound(
        found.predicted_covariance, found.covariance, smoothed, system, level, missing
    )  # fmt: skip


def steady_state(system: StateSpace, level: Level) -> StateBound:
    """Where the filtered, predicted and smoothed bounds settle.

        P = A (P − PGᵀ(GPGᵀ + V)⁻¹GP) Aᵀ + Q ,   G = LᵀC ,   V = LᵀRL + I

    For a system and a level that do not change. Raises NumericalFailure where there is no
    stabilising solution: an unstable part that the releases do not show, or a part on the unit
    circle that no noise drives. Source: Σ_BPPCR, K → ∞.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> steady_state(walk, 2.0).predicted.round(6).tolist()  # p = p/(p + 1) + 1: the golden ratio
    [[1.618034]]
    """
    if as_system(system).steps is not None:
        raise InvalidInput("A system with a time axis has no steady state.")
    wanted = level_of(level, system)
    if wanted.steps is not None:
        raise InvalidInput(
            "A steady state needs the same level at every step, StreamLevel.constant(S)."
        )
    return _steady(system, wanted)


def _steady(system: StateSpace, level: StreamLevel | None) -> StateBound:
    far = 1 if level is None else level.reach + 2  # the first steps of lags show less
    absent = np.zeros(1, dtype=bool)
    plan = plan_of(level, system.measurements, absent, varying=False, start=far)
    steps = steps_of(system.matrices, plan, private=level is not None)
    A, F, G, N = steps.of_kind(0)
    P = _riccati(A, F, G, N)
    n = steps.states
    S = G @ P @ G.T + N @ N.T
    gain = np.linalg.solve(S, G @ P).T
    kept = np.eye(len(A)) - gain @ G
    filtered = kept @ P @ kept.T + gain @ N @ (gain @ N).T
    closed = kept @ A
    # scipy returns solutions with a closed loop on the unit circle, too: there the limit, if there
    # is one, depends on cov0.
    radius = float(np.abs(np.linalg.eigvals(closed)).max())
    if radius >= 1.0 - ON_CIRCLE:
        raise NumericalFailure(PROBLEM + UNDRIVEN)
    # Λ = (A(I − KG))ᵀ Λ A(I − KG) + GᵀS⁻¹G: what all later releases tell of an error of prediction.
    later = scipy.linalg.solve_discrete_lyapunov((A @ kept).T, G.T @ np.linalg.solve(S, G))
    ahead = A @ filtered
    smoothed = filtered - ahead.T @ later @ ahead
    smoothed = (smoothed + smoothed.T) / 2
    memory = -1.0 / np.log(radius) if radius > 0 else 0.0
    return StateBound(
        P[:n, :n], filtered[:n, :n], smoothed[:n, :n], system, level, memory=float(memory)
    )  # fmt: skip


def _riccati(A: Array, F: Array, G: Array, N: Array) -> Array:
    if not G.any() and np.abs(np.linalg.eigvals(A)).max() >= 1.0:
        raise NumericalFailure(PROBLEM + "nothing is released and the system is not stable.")
    try:
        with np.errstate(all="ignore"):  # of scipy's balancing; looked at below
            P = scipy.linalg.solve_discrete_are(A.T, G.T, F @ F.T, N @ N.T)
    except (np.linalg.LinAlgError, ValueError):
        raise NumericalFailure(PROBLEM + UNDRIVEN) from None
    if not np.isfinite(P).all():
        raise NumericalFailure(PROBLEM + "its covariance leaves the range of numbers.")
    return np.asarray((P + P.T) / 2)


def _whole_filter(system: StateSpace, steps: int, *, varying: bool = False) -> Steps:
    if as_system(system).diffuse is not None:
        raise InvalidInput("J_Y needs a proper start, and x_0 is diffuse: give cov0.")
    absent = np.zeros(system.require_steps(steps), dtype=bool)
    return steps_of(
        system.matrices, _plan(system, None, absent, varying=varying), private=False
    )  # fmt: skip


def _innovations(steps: Steps, white: Array) -> Pass:
    K, S, _ = white.shape
    size = len(steps.start)
    done = forward(steps, np.zeros((S, size)), white, np.zeros((K, 0, size)), steps.root.T)
    if not (done.scale > 0).all():
        raise LevelBelowPrior(TIES)
    return done


def prior_information(system: StateSpace, steps: int) -> Array:
    """J_Y of y_0 … y_{K−1}, (Km, Km): the information of the prior about the measurements.

    >>> white = StateSpace(A=0.0, C=1.0, Q=1.0, R=1.0, cov0=3.0)
    >>> prior_information(white, 2).round(12).tolist()
    [[0.25, 0.0], [0.0, 0.5]]
    """
    seen = _whole_filter(system, steps)
    count = seen.steps
    m = system.measurements
    size = count * m
    values = np.eye(size).reshape(count, m, size).swapaxes(1, 2)
    zeta = _innovations(seen, seen.whitened(values)).zeta
    W = zeta.transpose(0, 2, 1).reshape(size, size)
    return np.asarray(W.T @ W)


def information_blocks(system: StateSpace, steps: int) -> Array:
    """[J_Y]_kk (K, m, m), in O(K) from the adjoint of the filter: D_k = F_k⁻¹ + KᵀM_kK."""
    seen = _whole_filter(system, steps, varying=True)
    done = _innovations(seen, np.zeros((seen.steps, 0, system.measurements)))
    none = np.zeros((0, system.states))
    result = -2.0 * adjoint(seen, done, none, seen.root.T, series=1).noise
    return np.asarray((result + result.swapaxes(-1, -2)) / 2)


def total_level(system: StateSpace, S: ArrayLike, steps: int) -> StreamLevel:
    """The releases that a total level S on the measurements allows: S − J_Y, realised step by step.

    BI_Z(Y) = J_Y + I_Z(Y) ≤ S. S: a number s·I, a block (m, m) for every step, blocks (K, m, m), or
    the whole matrix (Km, Km). S − J_Y is dense where measurements are correlated (theory.md 6).
    Raises LevelBelowPrior, naming the direction, if S − J_Y is not ≥ 0. (Km)³ flops.
    """
    count = as_system(system).require_steps(steps)
    m = system.measurements
    total = _whole(S, count, m)
    known = prior_information(system, count)
    every, kept = above_prior(
        total, known, "the system alone reveals", lambda i: f"y_{i // m}[{i % m}]"
    )
    if not kept.any():
        return StreamLevel(np.zeros((count, m, m)))
    factor = every[:, kept]
    return StreamLevel.from_cumulative(factor @ factor.T, [m] * count)


def memoryless_level(system: StateSpace, S: ArrayLike, steps: int | None = None) -> StreamLevel:
    """Releases that keep a total level S without looking back: L_kL_kᵀ = S_k − R_k⁻¹.

    J_Y = (HPHᵀ + R)⁻¹ ≤ R⁻¹ block by block, so BI_Z(Y) ≤ S for every horizon, but not tightly. S: a
    number s·I, a block (m, m), or blocks (K, m, m). Raises LevelBelowPrior where S_k − R_k⁻¹ is not
    ≥ 0; a level that looks back may then still exist.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=0.1, R=0.5, cov0=1.0)
    >>> memoryless_level(walk, 2.5).final_blocks().diagonal().round(12).tolist()  # 2.5 − 1/0.5
    [0.5]
    """
    m = as_system(system).measurements
    name = "the total level S"
    array = as_array(S, name, ndim=(0, 2, 3))
    own = stack(array * np.eye(m) if array.ndim == 0 else array)
    noise = stack(system.R)
    if own.shape[-2:] != (m, m):
        raise InvalidInput(f"{name} must have blocks of {m}×{m}; received {array.shape}.")
    psd(own, name)
    if stacked.cholesky(noise) is None:
        raise LevelBelowPrior(
            "R is singular: the bound J_Y ≤ R⁻¹ says nothing. Take a level that looks back "
            "(lookback=True)."
        )
    known = np.linalg.inv(noise)
    added = []
    for k in range(max(len(own), len(known))):
        try:
            factor, kept = above_prior(at(own, k), at(known, k), "R⁻¹", str)
        except LevelBelowPrior:
            raise LevelBelowPrior(
                f"S − R⁻¹ is negative at step {k}: no level without memory keeps S. One that "
                "looks back may (lookback=True)."
            ) from None
        added.append(factor[:, kept] @ factor[:, kept].T)
    if len(added) == 1 and steps is None:
        return StreamLevel.constant(added[0])
    count = len(added) if steps is None else system.require_steps(steps)
    if 1 < len(added) < count:
        raise InvalidInput(f"{name} has {len(added)} blocks; asked for {count} steps.")
    return StreamLevel(np.array(np.broadcast_to(added[:count], (count, m, m))))


def _whole(S: ArrayLike, steps: int, m: int) -> Array:
    name = "the total level S"
    size = steps * m
    array = as_array(S, name, ndim=(0, 2, 3))
    if array.shape == (m, m) and steps > 1:
        array = np.broadcast_to(array, (steps, m, m))
    return psd(array, name, size=size).dense()

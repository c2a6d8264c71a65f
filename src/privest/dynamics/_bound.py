"""Σ_BPPCR of a dynamic model: what any estimate of the states must at least err, at every k.

Constant systems at a constant level arrive at a limit (discrete Riccati equation): `steady_state`.
J_Y = (HPHᵀ + R)⁻¹, what the system alone tells about the measurements, is never inverted: whitened
innovations are ζ = W(Y − E Y), so J_Y = WᵀW; `total_level` counts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, as_array, plural
from privest.bounds import above_prior
from privest.dynamics._dense import dense_pass, rows_shown
from privest.dynamics._filter import Batch, first_state, outcome_of, smoothed_of
from privest.dynamics._kalman import (
    adjoint,
    forward,
    later_part,
    require_determined,
    responses,
    with_unit_part,
)
from privest.dynamics._releases import Level, asked, level_of
from privest.dynamics._steps import Steps, at, plan_of, stack, steps_of
from privest.dynamics._system import StateSpace, as_system
from privest.errors import InvalidInput, LevelBelowPrior, NotAPrivacyLevel, NumericalFailure
from privest.linalg import batched as stacked
from privest.linalg import psd
from privest.privacy import EndlessLevel, SequentialLevel, StreamLevel
from privest.privacy.parts import rows_of_parts
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
    "The system leaves some reading without any uncertainty given the earlier ones (C P Cᵀ + R is "
    "singular): the prior alone exceeds every finite level."
)


@dataclass(frozen=True, eq=False)
class Marginals(Record):
    """Covariances (K, n, n) of x_k given what was seen: before k, up to k, and in all."""

    predicted: Array
    filtered: Array
    smoothed: Array


@dataclass(frozen=True, eq=False)
class StateBound(Marginals):
    """The floor under the error of every estimate of x_k from the releases.

    predicted, filtered, smoothed   marginals of Σ_BPPCR (K, n, n) for horizons k−1, k and K−1.
    classical                       the same from the readings themselves: without privacy.
    prior_information               [J_Y]_kk (K, m, m): known of y_k from the system alone, given
                                    all other readings.
    total_level                     [S]_kk = [J_Y]_kk + [S̄]_kk (K, m, m): the diagonal blocks of the
                                    level in BI_Z(Y) ≤ S that the releases amount to.
    """

    system: StateSpace
    level: SequentialLevel
    missing: Flags

    DERIVED = ("standard_error",)

    @cached_property
    def classical(self) -> Marginals:
        return _marginals(self.system, _unprotected(self.system, self.missing))

    @cached_property
    def prior_information(self) -> Array:
        return information_blocks(self.system, len(self.filtered))

    @cached_property
    def total_level(self) -> Array:
        return self.prior_information + _released(self.level, self.missing, self.system.readings)

    @property
    def standard_error(self) -> Array:
        """√diag of the filtered bound, (K, n)."""
        return standard_errors(self.filtered)

    @property
    def classical_error(self) -> Array:
        """√diag of the filtered bound without privacy, (K, n)."""
        return standard_errors(self.classical.filtered)

    def __repr__(self) -> str:
        size = f"{plural(len(self.filtered), 'step')}, {plural(self.system.states, 'state')}"
        last = np.trace(self.filtered[-1])
        return f"StateBound({size}, filtered trace at the last step {last:.4g})"


def state_bound(
    system: StateSpace, level: Level, steps: int | None = None, *, missing: ArrayLike | None = None
) -> StateBound:
    """How well can the states of a dynamic model be known from releases of its readings?

        Σ_BPPCR = P − PHᵀ Aᵀ (A (HPHᵀ + R) Aᵀ + I)⁻¹ A H P ,    S = J_Y + AᵀA

    Symbols: `level` is what the releases add to the prior, S − J_Y = AᵀA: a number s (L_kL_kᵀ = s·I
    at every step), an m×m matrix, an array (K, m, m), or a stream level. For a total S on Y (which
    counts what the system alone reveals) take `bounds.release_level(system, S, steps=K)`.
    `missing` (K,): steps that show nothing; (K, m): readings that are missing, the others of their
    step being shown as `StreamMechanism` does.
    Diffuse starts: infinite entries until δ is determined; NotIdentifiable if it never is.
    Guarantees: smoothed = diagonal blocks of Σ_BPPCR for the horizon K−1; filtered[k] = the last
    block of the bound for horizon k. Attained by StreamMechanism with `filter`, `smooth`.
    Numerics: no inverse of any covariance; Q and cov0 may be singular, A unstable. O(K (n + bm)³),
    a dense level (Km)³.
    Source: `eq:state_space`, Σ_BPPCR; docs/dynamics.md.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> b = state_bound(walk, 2.0, steps=2)  # y + N(0, 1) in all
    >>> b.filtered.ravel().round(12).tolist()  # 1/(1 + 1), then 1/(1 + 1/1.5)
    [0.5, 0.6]
    >>> b.smoothed.ravel().round(12).tolist()
    [0.4, 0.6]
    """
    wanted, count, absent = asked(system, level, steps, missing)
    if wanted.form == "dense":
        whole = dense_pass(system.matrices, wanted, absent)
        parts = Marginals(whole.predicted_covariance, whole.covariance, whole.smoothed_covariance)
    else:
        varying = system.matrices.varying
        plan = plan_of(wanted, system.readings, count, absent, varying=varying)
        parts = _marginals(system, steps_of(system.matrices, plan))
    return StateBound(parts.predicted, parts.filtered, parts.smoothed, system, wanted, absent)


def _unprotected(system: StateSpace, missing: Flags, *, varying: bool = False) -> Steps:
    """The steps of the measurements themselves: the limit of an infinite level."""
    varying = varying or system.matrices.varying
    plan = plan_of(None, system.readings, len(missing), missing, varying=varying)
    return steps_of(system.matrices, plan, private=False)


def _marginals(system: StateSpace, steps: Steps) -> Marginals:
    """By a filter and a smoother of no series at all."""
    K, r, N = steps.steps, steps.rows.shape[1], len(steps.start)
    state = first_state(system, steps, 0)
    silent = np.zeros((K, len(state.mean), r))
    batch = Batch(steps, state, silent, np.zeros((K, 0, N)), 0)
    found = outcome_of(batch, system.states)
    if found.open is not None:
        require_determined(system.matrices.diffuse, found.open.known().hidden)
    smoothed = smoothed_of(batch, system.states)[1]
    return Marginals(found.predicted_covariance, found.covariance, smoothed)


def _released(level: SequentialLevel, missing: Flags, m: int) -> Array:
    """[AᵀA]_kk (K, m, m): what all releases say of y_k; nothing where it is missing."""
    if missing.ndim > 1:
        return squares_by_lag(rows_of_parts(level, 0, missing)[None])
    steps, absent = len(missing), missing[:, None, None]
    if level.form == "dense":
        parts = rows_shown(level, missing, m).reshape(steps * m, steps, m)
        return np.asarray(np.einsum("aki,akj->kij", parts, parts))
    return np.where(absent, 0.0, squares_by_lag(np.where(absent, 0.0, level.blocks(0, steps))))


@dataclass(frozen=True, eq=False)
class SteadyState(Marginals):
    """The limit of the bound, k → ∞.

    predicted, filtered, smoothed   (n, n); smoothed is that of a step far from both ends.
    closed_loop                     (I − KG)A (N, N): how an error of the filter goes on.
    """

    closed_loop: Array

    DERIVED = ("memory",)

    @property
    def memory(self) -> float:
        """Steps after which an error has fallen to 1/e."""
        radius = float(np.abs(np.linalg.eigvals(self.closed_loop)).max())
        return -1.0 / np.log(radius) if radius > 0 else 0.0


def steady_state(system: StateSpace, level: Level) -> SteadyState:
    """Where the filtered, predicted and smoothed bounds settle.

        P = A (P − PGᵀ(GPGᵀ + V)⁻¹GP) Aᵀ + Q ,   G = LᵀC ,   V = LᵀRL + I

    Assumes a system without a time axis and an EndlessLevel, a number or a matrix.
    Raises NumericalFailure where there is no stabilising solution: an unstable part that the
    releases do not show, or a part on the unit circle that no noise drives (nor can a memory of
    more than 1e7 steps be told from one).
    Source: Σ_BPPCR, K → ∞; scipy.linalg.solve_discrete_are.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> steady_state(walk, 2.0).predicted.round(6).tolist()  # p = p/(p + 1) + 1: the golden ratio
    [[1.618034]]
    """
    if as_system(system).steps is not None:
        raise InvalidInput("A system with a time axis has no steady state.")
    wanted = level_of(level, system)
    if wanted.steps is not None:
        raise InvalidInput("A steady state needs the same level at every step: an EndlessLevel.")
    far = wanted.reach + 2  # the first steps of a level that looks back show less
    varying, absent = system.matrices.varying, np.zeros(2, dtype=bool)
    plan = plan_of(wanted, system.readings, 2, absent, varying=varying, start=far)
    steps = later_part(steps_of(system.matrices, plan), 1)
    A, F, G, N = (
        table[steps.kind[0]] for table in (steps.transition, steps.drive, steps.rows, steps.noise)
    )
    P, n = _riccati(A, F, G, N), steps.states
    S = G @ P @ G.T + N @ N.T
    gain = np.linalg.solve(S, G @ P).T
    kept = np.eye(len(A)) - gain @ G
    filtered = kept @ P @ kept.T + gain @ N @ (gain @ N).T
    closed = kept @ A
    # scipy returns solutions with a closed loop on the unit circle, too: there the limit, if there
    # is one, depends on cov0.
    if np.abs(np.linalg.eigvals(closed)).max() >= 1.0 - ON_CIRCLE:
        raise NumericalFailure(PROBLEM + UNDRIVEN)
    # Λ = (A(I − KG))ᵀ Λ A(I − KG) + GᵀS⁻¹G: what all later releases tell of an error of prediction.
    later = scipy.linalg.solve_discrete_lyapunov((A @ kept).T, G.T @ np.linalg.solve(S, G))
    ahead = A @ filtered
    smoothed = filtered - ahead.T @ later @ ahead
    smoothed = (smoothed + smoothed.T) / 2
    return SteadyState(P[:n, :n], filtered[:n, :n], smoothed[:n, :n], closed)


def _riccati(A: Array, F: Array, G: Array, N: Array) -> Array:
    """The stabilising P_{k|k−1} (N, N), or NumericalFailure."""
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


def prior_information(system: StateSpace, steps: int) -> Array:
    """J_Y of y_0 … y_{K−1}, (Km, Km), dense: the information of the prior about the measurements.

    J_Y = WᵀW, W the whitened innovations of unit measurements. (Km)² memory. Of a diffuse start the
    limit of large variances: V⁻¹ − V⁻¹X(XᵀV⁻¹X)⁻¹XᵀV⁻¹, X the response of the measurements to δ.

    >>> white = StateSpace(A=0.0, C=1.0, Q=1.0, R=1.0, cov0=3.0)
    >>> prior_information(white, 2).round(12).tolist()
    [[0.25, 0.0], [0.0, 0.5]]
    """
    count, m = as_system(system).require_steps(steps), system.readings
    seen, D = _unprotected(system, np.zeros(count, dtype=bool)), system.matrices.diffuse
    size, q, N = count * m, D.shape[1], len(seen.start)
    values = np.zeros((count, size + q, m))  # unit measurements, then the columns of D
    values[:, :size] = np.eye(size).reshape(count, m, size).swapaxes(1, 2)
    white = seen.whitened(values)
    shift = np.zeros((count, 0, N))
    if seen.crossing is not None:
        shift = np.zeros((count, size + q, N))
        shift[1:] = np.einsum("knr,ksr->ksn", seen.crossing.told, white)[:-1]
    begin = np.concatenate([np.zeros((size, N)), responses(seen, D)])
    done = forward(seen, begin, white, shift, with_unit_part(seen, D) if q else seen.root.T)
    if not (done.scale > 0).all():
        raise LevelBelowPrior(TIES)
    flat = done.zeta.transpose(0, 2, 1).reshape(size, size + q)
    W, X = flat[:, :size], flat[:, size:]
    if q:  # what δ explains tells nothing: the other directions of ζ
        W = np.linalg.qr(X, mode="complete")[0][:, q:].T @ W
    return np.asarray(W.T @ W)


def information_blocks(system: StateSpace, steps: int) -> Array:
    """[J_Y]_kk (K, m, m): known of y_k from the system and all other measurements.

    In O(K) from the adjoint of the filter, D_k = F_k⁻¹ + KᵀM_kK; of a diffuse start or correlated
    noise by way of all of J_Y, (Km)² memory.
    """
    count, m = as_system(system).require_steps(steps), system.readings
    matrices = system.matrices
    if matrices.diffuse.shape[1] or matrices.cross is not None:
        whole = prior_information(system, count)
        return whole.reshape(count, m, count, m)[np.arange(count), :, np.arange(count)]
    seen = _unprotected(system, np.zeros(count, dtype=bool), varying=True)
    none, still = np.zeros((count, 0, m)), np.zeros((count, 0, system.states))
    done = forward(seen, still[0], none, still, seen.root.T)
    if not (done.scale > 0).all():
        raise LevelBelowPrior(TIES)
    result = -2.0 * adjoint(seen, done, still[0], seen.root.T, series=1).noise
    return np.asarray((result + result.swapaxes(-1, -2)) / 2)


def total_level(system: StateSpace, S: ArrayLike, steps: int) -> StreamLevel:
    """The releases that a total level S on the readings allows: S − J_Y, realised step by step.

    BI_Z(Y) = J_Y + I_Z(Y) ≤ S counts what the system alone tells about the readings. S: a number
    s·I, a block (m, m) for every step, blocks (K, m, m), or the whole matrix (Km, Km).
    S − J_Y is dense whenever the readings are correlated, so releases look back to the first step:
    its only sequential realisation is block lower-triangular (docs/theory.md 6). Its diagonal
    blocks by themselves are no admissible level.
    Raises LevelBelowPrior, naming the direction, if S − J_Y is not ≥ 0. (Km)³ flops.
    """
    count, m = as_system(system).require_steps(steps), system.readings
    total = _whole(S, count, m)
    known = prior_information(system, count)
    every, kept = above_prior(
        total, known, "the system alone reveals", lambda i: f"y_{i // m}[{i % m}]"
    )
    if not kept.any():
        return StreamLevel(np.zeros((count, m, m)))
    factor = every[:, kept]
    return StreamLevel.from_cumulative(factor @ factor.T, [m] * count)


def memoryless_level(
    system: StateSpace, S: ArrayLike, steps: int | None = None
) -> EndlessLevel | StreamLevel:
    """Releases that keep a total level S without looking back: L_kL_kᵀ = S_k − R_k⁻¹.

    J_Y = (HPHᵀ + R)⁻¹ ≤ R⁻¹ block by block, so BI_Z(Y) ≤ S holds for every horizon: valid for
    streams without an end, but not tight (the part R⁻¹ − J_Y is given away).
    S: a number s·I, a block (m, m), or blocks (K, m, m). The result is an EndlessLevel where
    neither S nor R changes with time.
    Raises LevelBelowPrior where S_k − R_k⁻¹ is not ≥ 0; one that looks back may then still exist.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=0.1, R=0.5, cov0=1.0)
    >>> memoryless_level(walk, 2.5).final_blocks().diagonal().round(12).tolist()  # 2.5 − 1/0.5
    [0.5]
    """
    m, name = as_system(system).readings, "the total level S"
    array = as_array(S, name, ndim=(0, 2, 3), error=NotAPrivacyLevel)
    own, noise = stack(array * np.eye(m) if array.ndim == 0 else array), stack(system.R)
    if own.shape[-2:] != (m, m):
        raise NotAPrivacyLevel(f"{name} must have blocks of {m}×{m}; received {array.shape}.")
    psd(own, name, error=NotAPrivacyLevel)
    if system.cross is not None or stacked.cholesky(noise) is None:
        raise LevelBelowPrior(
            "R is singular, or correlated with the noise of the states: the bound J_Y ≤ R⁻¹ says "
            "nothing. Take a level that looks back (lookback=True)."
        )
    known, added = np.linalg.inv(noise), []
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
        return EndlessLevel(added[0])
    count = len(added) if steps is None else system.require_steps(steps)
    if 1 < len(added) < count:
        raise NotAPrivacyLevel(f"{name} has {len(added)} blocks; asked for {count} steps.")
    return StreamLevel(np.array(np.broadcast_to(added[:count], (count, m, m))))


def _whole(S: ArrayLike, steps: int, m: int) -> Array:
    name, size = "the total level S", steps * m
    array = as_array(S, name, ndim=(0, 2, 3), error=NotAPrivacyLevel)
    if array.shape == (m, m) and steps > 1:
        array = np.broadcast_to(array, (steps, m, m))
    return psd(array, name, size=size, error=NotAPrivacyLevel).dense()

"""Σ_BPPCR of a dynamic model: what any estimate of the states must at least err, at every k.

Constant systems at a constant level arrive at a limit (discrete Riccati equation): `steady_state`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, plural
from privest.dynamics._diffuse import diffuse_marginals
from privest.dynamics._diffuse_dense import whole_pass
from privest.dynamics._information import information_blocks
from privest.dynamics._observed import Level, Observed, asked, level_of, observed, unprotected
from privest.dynamics._sweep import Marginals, forward, marginals, step
from privest.dynamics._system import StateSpace, as_system
from privest.dynamics._trajectory import rows_shown
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg.batched import factor, substitute
from privest.privacy import SequentialLevel
from privest.privacy._parts import rows_of_parts
from privest.privacy._stream_parts import squares_by_lag
from privest.records import Record, standard_errors

PROBLEM = "There is no steady state: "
UNDRIVEN = (
    "the Riccati equation has no stabilising solution. Some unstable part is not shown, or a part "
    "on the unit circle is driven by no noise."
)
# An undriven root on the unit circle is a double root of the Riccati pencil: rounding moves it by
# √eps, some 1e-8. A memory of more than 1e7 steps cannot be distinguished from it.
ON_CIRCLE = 1e-7
CONTRACTS = 1.0 - 1e-9  # spectral radius below which a sum over all steps is solved for


@dataclass(frozen=True, eq=False)
class DynamicBound(Marginals):
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
        return _marginals(self.system, unprotected(self.system, self.missing))

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
        return f"DynamicBound({size}, filtered trace at the last step {last:.4g})"


def bound(
    system: StateSpace, level: Level, steps: int | None = None, *, missing: ArrayLike | None = None
) -> DynamicBound:
    """How well can the states of a dynamic model be known from releases of its readings?

        Σ_BPPCR = P − PHᵀ Aᵀ (A (HPHᵀ + R) Aᵀ + I)⁻¹ A H P ,    S = J_Y + AᵀA

    Symbols: `level` is what the releases add to the prior, S − J_Y = AᵀA: a number s (L_kL_kᵀ = s·I
    at every step), an m×m matrix, an array (K, m, m), or a stream level. For a total S on Y (which
    counts what the system alone reveals) take `total_level(system, S, steps)`.
    `missing` (K,): steps that show nothing; (K, m): readings that are missing, the others of their
    step being shown as `StreamMechanism` does.
    Diffuse starts: infinite entries until δ is determined; NotIdentifiable if it never is.
    Guarantees: smoothed = diagonal blocks of Σ_BPPCR for the horizon K−1; filtered[k] = the last
    block of the bound for horizon k. Attained by StreamMechanism with `filter_releases`, `smooth`.
    Numerics: no inverse of any covariance (see `_sweep`); Q and cov0 may be singular, A unstable.
    O(K (n + bm)³), constant levels of constant systems only until the limit is reached; a dense
    level (Km)³.
    Source: `eq:state_space`, Σ_BPPCR; docs/dynamics.md.

    >>> walk = StateSpace(A=1.0, C=1.0, Q=1.0, R=0.5, cov0=1.0)
    >>> b = bound(walk, 2.0, steps=2)  # a release adds noise of variance 1/2: y + N(0, 1) in all
    >>> b.filtered.ravel().round(12).tolist()  # 1/(1 + 1), then 1/(1 + 1/1.5)
    [0.5, 0.6]
    >>> b.smoothed.ravel().round(12).tolist()
    [0.4, 0.6]
    """
    wanted, count, absent = asked(system, level, steps, missing)
    if wanted.form == "dense":
        whole, n = whole_pass(system.uncorrelated, wanted, count, absent)[0], system.states
        parts = Marginals(
            *(P[:, :n, :n] for P in (whole.predicted, whole.filtered, whole.smoothed))
        )
    else:
        parts = _marginals(system, observed(system, wanted, count, absent))
    return DynamicBound(parts.predicted, parts.filtered, parts.smoothed, system, wanted, absent)


def _marginals(system: StateSpace, seen: Observed) -> Marginals:
    if system.diffuse is None:
        return marginals(forward(seen), system.states)
    return diffuse_marginals(system, seen)


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
class SteadyState(Record):
    """The limit of the bound, k → ∞.

    predicted, filtered, smoothed   (n, n); smoothed is that of a step far from both ends.
    closed_loop                     (I − KG)A (N, N): how an error of the filter goes on.
    """

    predicted: Array
    filtered: Array
    smoothed: Array
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
    seen = observed(system, wanted, far, np.zeros(far, dtype=bool))
    A, F, G, N = seen.of_kind(int(seen.kind[-1]))
    predicted, n = _riccati(A, F, G, N), seen.states
    # One measurement of the predicted state, then one whole step: unit coordinates of the filter.
    first = step(factor(predicted[None]).lower[0], np.eye(len(A)), np.zeros_like(F), G, N)
    root = first.factor
    whole = step(root, A, F, G, N)
    closed = A - whole.gain @ substitute(whole.scale, G @ A, lower=True)
    # scipy returns solutions with a closed loop on the unit circle, too: there the limit, if there
    # is one, depends on cov0.
    if np.abs(np.linalg.eigvals(closed)).max() >= 1.0 - ON_CIRCLE:
        raise NumericalFailure(PROBLEM + UNDRIVEN)
    # A singular P leaves its factor free to turn (readings looked back to): the coordinates of the
    # next step are turned back, root·U = next factor (orthogonal Procrustes).
    left, _, right = np.linalg.svd(root.T @ whole.factor)
    later = whole.later @ (left @ right).T
    smoothed = root @ _limit(later, whole.lost) @ root.T
    smoothed = (smoothed + smoothed.T) / 2
    return SteadyState(predicted[:n, :n], first.filtered[:n, :n], smoothed[:n, :n], closed)


def _riccati(A: Array, F: Array, G: Array, N: Array) -> Array:
    """The stabilising P_{k|k−1} (N, N), or NumericalFailure."""
    if not G.any():
        if np.abs(np.linalg.eigvals(A)).max() >= 1.0:
            raise NumericalFailure(PROBLEM + "nothing is released and the system is not stable.")
        with np.errstate(all="ignore"):  # looked at below
            return _finite(_doubled(A, F @ F.T)[0])
    try:
        with np.errstate(all="ignore"):  # of scipy's balancing; looked at below
            P = scipy.linalg.solve_discrete_are(A.T, G.T, F @ F.T, N @ N.T)
    except (np.linalg.LinAlgError, ValueError):
        raise NumericalFailure(PROBLEM + UNDRIVEN) from None
    return _finite(P)


def _finite(P: Array) -> Array:
    if not np.isfinite(P).all():
        raise NumericalFailure(PROBLEM + "its covariance leaves the range of numbers.")
    return np.asarray((P + P.T) / 2)


def _limit(later: Array, lost: Array) -> Array:
    """X = Θ_b X Θ_bᵀ + Θ_cΘ_cᵀ. Directions that Θ_b only turns carry no error: they stay at I."""
    if np.abs(np.linalg.eigvals(later)).max() < CONTRACTS:
        return np.asarray(scipy.linalg.solve_discrete_lyapunov(later, lost))
    total, power = _doubled(later, lost)
    return np.asarray(power @ power.T + total)


def _doubled(M: Array, added: Array) -> tuple[Array, Array]:
    """Σ_j Mʲ S Mʲᵀ of 2^60 steps by doubling, in which nothing cancels, and the power that is left.

    The equation X = M X Mᵀ + S is ill-conditioned where M is large and its powers are not.
    """
    power, total = M, added
    for _ in range(60):
        total = power @ total @ power.T + total
        power = power @ power
    return total, power

"""The covariances that a constant system at a constant level arrives at (discrete Riccati)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.dynamics._observed import Level, Observed, level_of, observed
from privest.dynamics._recursions import CONTRACTS
from privest.dynamics._sweep import step
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import batched as stacked
from privest.records import Record

PROBLEM = "There is no steady state: "
UNDRIVEN = (
    "the Riccati equation has no stabilising solution. Some unstable part is not shown, or a part "
    "on the unit circle is driven by no noise."
)
# An undriven root on the unit circle is a double root of the Riccati pencil: rounding moves it by
# √eps, some 1e-8. A memory of more than 1e7 steps cannot be distinguished from it.
ON_CIRCLE = 1e-7


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
    if system.steps is not None:
        raise InvalidInput("A system with a time axis has no steady state.")
    wanted = level_of(level, system)
    if wanted.steps is not None:
        raise InvalidInput("A steady state needs the same level at every step: an EndlessLevel.")
    far = wanted.reach + 2  # the first steps of a level that looks back show less
    seen = observed(system, wanted, far, np.zeros(far, dtype=bool))
    predicted = riccati(seen)
    n = seen.states
    A, F, G, N = seen.of_kind(int(seen.kind[-1]))
    # One measurement of the predicted state, then one whole step: unit coordinates of the filter.
    root = stacked.factor(predicted[None]).lower[0]
    still, idle = np.eye(len(A)), np.zeros_like(F)
    first = step(root, still, idle, G, N)
    factor, filtered = first.factor, first.filtered
    whole = step(factor, A, F, G, N)
    closed = A - whole.gain @ scipy.linalg.solve_triangular(whole.scale, G @ A, lower=True)
    # scipy returns solutions with a closed loop on the unit circle, too: there the limit, if there
    # is one, depends on cov0.
    if np.abs(np.linalg.eigvals(closed)).max() >= 1.0 - ON_CIRCLE:
        raise NumericalFailure(PROBLEM + UNDRIVEN)
    # A singular P leaves its factor free to turn (readings looked back to): the coordinates of the
    # next step are turned back, factor·U = next factor (orthogonal Procrustes).
    left, _, right = np.linalg.svd(factor.T @ whole.factor)
    later = whole.later @ (left @ right).T
    smoothed = factor @ _limit(later, whole.lost) @ factor.T
    return SteadyState(
        predicted[:n, :n], filtered[:n, :n], ((smoothed + smoothed.T) / 2)[:n, :n], closed
    )


def riccati(seen: Observed) -> Array:
    """The stabilising P_{k|k−1} (N, N) of the last kind of step, or NumericalFailure."""
    A, F, G, N = seen.of_kind(int(seen.kind[-1]))
    if not G.any():
        if np.abs(np.linalg.eigvals(A)).max() >= 1.0:
            raise NumericalFailure(PROBLEM + "nothing is released and the system is not stable.")
        return np.asarray(scipy.linalg.solve_discrete_lyapunov(A, F @ F.T))
    try:
        P = scipy.linalg.solve_discrete_are(A.T, G.T, F @ F.T, N @ N.T)
    except (np.linalg.LinAlgError, ValueError):
        raise NumericalFailure(PROBLEM + UNDRIVEN) from None
    return np.asarray((P + P.T) / 2)


def _limit(later: Array, lost: Array) -> Array:
    """X = Θ_b X Θ_bᵀ + Θ_cΘ_cᵀ. Directions that Θ_b only turns carry no error: they stay at I."""
    if np.abs(np.linalg.eigvals(later)).max() < CONTRACTS:
        return np.asarray(scipy.linalg.solve_discrete_lyapunov(later, lost))
    unit, power, total = np.eye(len(later)), later, lost
    for _ in range(60):  # doubling: 2^60 steps
        total = power @ total @ power.T + total
        power = power @ power
    return np.asarray(power @ unit @ power.T + total)

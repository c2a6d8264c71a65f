"""Which combinations of the readings to release: the best L_k under a budget for every step.

    minimise Σ_k tr(W P_k)  over D_k = L_kL_kᵀ ≥ 0, tr D_k ≤ s

P_k is the filtered covariance; without a horizon it is the steady one and D is constant.
Convex in D: X = (D⁻¹ + R)⁻¹ is matrix-concave, the information Ω = (AΩ⁻¹Aᵀ + Q)⁻¹ + CᵀXC is concave
and monotone in X, and tr(WΩ⁻¹) is convex and decreasing. The gradient is

    ∂/∂D_k = −(I + RD)⁻¹ C P_k Λ_k P_k Cᵀ (I + DR)⁻¹ ,   Λ_k = W + F_{k+1}ᵀ Λ_{k+1} F_{k+1}

F the closed loop of the filter; Σ_k s·λmax(−∂_k) + tr(∂_k D_k) bounds the distance to the optimum:
the certificate that is returned. (Choosing each L_k for the very next error alone can be worse than
equal noise: what it leaves unseen comes back later.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_positive
from privest.dynamics._observed import unit_noise
from privest.dynamics._system import StateSpace, at, stack
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd
from privest.privacy import EndlessLevel, StreamLevel
from privest.records import Record

CERTIFIED = 1e-5  # of the objective: what the certificate must at least show
Value = Callable[[Array], tuple[Array, Array]]  # L (K, m, m): errors (K,), slopes (K, m, m)


@dataclass(frozen=True, eq=False)
class BestDirections(Record):
    """The best release under a budget, and what it gains.

    level       to give to the mechanism and to the filter: EndlessLevel, or a StreamLevel.
    information D = LLᵀ, (m, m), or (K, m, m) for a finite horizon.
    error       tr(W P): in steady state, or (K,) after every step.
    isotropic   the same for D = (s/m)·I, equal noise on every reading.
    gap         the sum of the errors is at most so far above the optimum.
    """

    level: EndlessLevel | StreamLevel
    information: Array
    error: Array
    isotropic: Array
    gap: float

    DERIVED = ("gain",)

    @property
    def gain(self) -> float:
        """isotropic / best, of the error or of its sum over the horizon."""
        return float(np.sum(self.isotropic) / np.sum(self.error))

    def __repr__(self) -> str:
        return f"BestDirections(mean error {np.mean(self.error):.4g}, gain {self.gain:.4g})"


def best_directions(
    system: StateSpace, budget: float, *, weight: ArrayLike | None = None, steps: int | None = None
) -> BestDirections:
    """The L that serves the state estimates best under tr(LLᵀ) ≤ budget at every step.

    Symbols: `budget` s bounds the trace of the Fisher information that one step's release adds
    about its readings; `weight` W (n, n) says which states matter (default: all alike, in their
    units). steps=None: one L for all steps, best in steady state (system without a time axis).
    steps=K: L_0 … L_{K−1}, best for the sum of the filtered errors over this horizon.
    L depends on the public system only: choosing it reveals nothing.
    (With a budget on λmax(LLᵀ) instead, equal noise on all readings is best: more information in
    every direction never harms.)
    Raises NumericalFailure if the certificate exceeds 1e-5 of the error.
    Cost: some hundred passes of O(K (n³ + m³)).

    >>> two = StateSpace(A=np.eye(2) * 0.9, C=np.eye(2), Q=1.0, R=0.5, cov0=1.0)
    >>> best = best_directions(two, 1.0, weight=[[1.0, 0.0], [0.0, 0.0]])
    >>> best.information.round(4).tolist()  # only the first state matters: show nothing else
    [[1.0, 0.0], [0.0, 0.0]]
    """
    s = as_positive(budget, "the budget")
    n, m = system.states, system.readings
    W = np.eye(n) if weight is None else psd(weight, "the weight", size=n).dense()
    if not W.any():
        raise InvalidInput("the weight is zero: no state matters, so no direction is best.")
    if steps is None:
        if system.steps is not None:
            raise InvalidInput("A system with a time axis has no steady state: give steps.")
        value, count = _steady(system, W), 1
    else:
        count = system.require_steps(steps)
        value = _horizon(system, W, count)
    equal = np.broadcast_to(np.sqrt(s / m) * np.eye(m), (count, m, m))
    same, _ = value(equal)
    L, best, gap = _minimise(value, s, equal)
    D = L @ L.swapaxes(-1, -2)
    if steps is None:
        return BestDirections(EndlessLevel(D[0]), D[0], best[0], same[0], gap)
    return BestDirections(StreamLevel(D), D, best, same, gap)


def _measured(P: Array, C: Array, root: Array, L: Array) -> tuple[Array, Array]:
    """P after the release Lᵀy + e, and I − KG."""
    G, N = L.T @ C, unit_noise(L.T @ root)
    cross = P @ G.T
    gain = scipy.linalg.solve(G @ cross + N @ N.T, cross.T, assume_a="pos").T
    kept = np.eye(len(P)) - gain @ G
    noise = gain @ N
    return kept @ P @ kept.T + noise @ noise.T, kept


def _slopes(P: Array, C: Array, root: Array, L: Array, influence: Array) -> Array:
    """∂/∂D at D = LLᵀ for filtered covariances P; all with a leading axis."""
    R = root @ root.swapaxes(-1, -2)
    inner = np.eye(L.shape[-1]) + R @ L @ L.swapaxes(-1, -2)
    outer = np.linalg.solve(inner, C @ P)
    slope = -outer @ influence @ outer.swapaxes(-1, -2)
    return np.asarray((slope + slope.swapaxes(-1, -2)) / 2)


def _horizon(system: StateSpace, W: Array, steps: int) -> Value:
    A, Q, n = stack(system.A), stack(system.Q), system.states
    C = np.broadcast_to(stack(system.C)[:steps], (steps, system.readings, n))
    root = np.broadcast_to(system.R_root[:steps], (steps, system.readings, system.readings))

    def value(L: Array) -> tuple[Array, Array]:
        after, closed = np.empty((steps, n, n)), np.empty((steps, n, n))
        P = system.cov0
        moved: Array = np.eye(n)
        for k in range(steps):
            if k:
                moved = at(A, k - 1)
                P = moved @ after[k - 1] @ moved.T + at(Q, k - 1)
            after[k], kept = _measured(P, C[k], root[k], L[k])
            closed[k] = kept @ moved
        influence = np.empty((steps, n, n))
        influence[-1] = W
        for k in range(steps - 2, -1, -1):
            influence[k] = W + closed[k + 1].T @ influence[k + 1] @ closed[k + 1]
        errors = np.einsum("ij,kij->k", W, after)
        return errors, _slopes(after, C, root, L, influence)

    return value


def _steady(system: StateSpace, W: Array) -> Value:
    A, C, Q, root = system.A, system.C, system.Q, system.R_root[0]

    def value(L: Array) -> tuple[Array, Array]:
        G, N = L[0].T @ C, unit_noise(L[0].T @ root)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
                P = scipy.linalg.solve_discrete_are(A.T, G.T, Q, N @ N.T)
                after, kept = _measured((P + P.T) / 2, C, root, L[0])
                influence = scipy.linalg.solve_discrete_lyapunov((kept @ A).T, W)
        except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
            raise NumericalFailure(
                "There is no steady state for some direction that was tried: an unstable part of "
                "the system is not shown, or no noise drives a part on the unit circle. Give steps."
            ) from None
        slope = _slopes(after, C, root, L, influence)
        return np.array([np.sum(W * after)]), slope

    return value


def _minimise(value: Value, s: float, start: Array) -> tuple[Array, Array, float]:
    """L (K, m, m) with tr LLᵀ = s each, the errors, and the certificate, by L-BFGS on the factors.

    The whole budget is always used: more information never harms. In the factors the problem is
    not convex (where a direction is lost from L its slope is zero, best or not), but the
    certificate is that of the convex one, and so is the step that leads away from there.
    """
    shape = start.shape

    def scaled(flat: Array) -> tuple[Array, Array]:
        M = flat.reshape(shape)
        size = np.sum(M * M, axis=(1, 2), keepdims=True)
        return M * np.sqrt(s / size), size

    high = 100.0 * float(value(start)[0].sum())  # raises where even equal noise has no value

    def objective(flat: Array) -> tuple[float, Array]:
        L, size = scaled(flat)
        try:
            errors, slope = value(L)
        except NumericalFailure:  # an unstable part is not shown: a step too far, to be shortened
            return high, np.zeros(flat.size)
        pull = slope @ L
        along = np.sum(pull * L, axis=(1, 2), keepdims=True) / s
        return float(errors.sum()), (2 * np.sqrt(s / size) * (pull - along * L)).ravel()

    found = (start / np.sqrt(s)).ravel()
    for _ in range(20):  # L-BFGS may stop where a direction was lost, or on a flat stretch
        result = scipy.optimize.minimize(
            objective, found, jac=True, method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 500, "maxcor": 20},
        )  # fmt: skip
        L, _ = scaled(result.x)
        errors, slope = value(L)
        held = np.sum((slope @ L) * L)
        gap = float(s * np.linalg.eigvalsh(-slope)[:, -1].sum() + held)
        if gap <= 1e-2 * CERTIFIED * errors.sum():
            break
        found = (_escaped(value, L, float(errors.sum()), slope, s) / np.sqrt(s)).ravel()
    if gap > CERTIFIED * errors.sum():
        raise NumericalFailure(
            "The best direction was not found: the certificate is "
            f"{gap / errors.sum():.2g} of the error, above {CERTIFIED:g}. Scale the readings to "
            "similar sizes, or take fewer steps."
        )
    return L, errors, max(gap, 0.0)


def _escaped(value: Value, L: Array, error: float, slope: Array, s: float) -> Array:
    """A step of Frank-Wolfe in D, towards s·vvᵀ with v the steepest direction of each step.

    The problem is convex in D, so a short enough step is downhill while the certificate is not
    zero.
    """
    steepest = np.linalg.eigh(-slope)[1][:, :, -1:]
    vertex, D = s * steepest @ steepest.swapaxes(-1, -2), L @ L.swapaxes(-1, -2)
    for halving in range(1, 30):
        part = 0.5**halving
        values, vectors = np.linalg.eigh((1.0 - part) * D + part * vertex)
        mixed = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # ≥ 0 but for rounding
        if float(value(mixed)[0].sum()) < error:
            return np.asarray(mixed)
    return L

"""The best combinations L_k of the measurements to release under a budget for every step.

    minimise Σ_k tr(W P_k)  over D_k = L_kL_kᵀ ≥ 0 ,   tr D_k ≤ s for every step

P_k is the filtered covariance, or the steady one; the problem is convex in D. With F the closed
loop of the filter,

    ∂/∂D_k = −(I + RD)⁻¹ C P_k Λ_k P_k Cᵀ (I + DR)⁻¹ ,   Λ_k = W + F_{k+1}ᵀ Λ_{k+1} F_{k+1}

and s Σ_k λmax(−∂_k) + Σ_k tr(∂_k D_k) bounds the distance to the optimum: the certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_scale
from privest.dynamics._kalman import unit_root_of
from privest.dynamics._steps import at, stack
from privest.dynamics._system import StateSpace, as_system
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd
from privest.privacy import StreamLevel
from privest.records import Record

CERTIFIED = 1e-5  # of the objective: the largest gap that is returned
Value = Callable[[Array], tuple[Array, Array]]  # L (K, m, m): errors (K,), slopes (K, m, m)


@dataclass(frozen=True, eq=False, repr=False)
class Directions(Record):
    """The best release under a budget, its gain, and a proof; names as in `design.Allocation`.

    level       of every step, or of each of K steps; information D = LLᵀ (m, m) or (K, m, m).
    error       tr(W P): in steady state, or (K,) after every step; `value` is their sum.
    equal       that sum for equal noise on every measurement.
    floor       no release within the budget has a smaller sum; gap (value − floor)/value.
    spent       tr D, the largest of any step; price −d value/d budget.
    """

    level: StreamLevel
    information: Array
    error: Array
    value: float
    equal: float
    spent: float
    floor: float
    gap: float
    price: float

    def __repr__(self) -> str:
        gain = self.equal / self.value
        return f"Directions(error {self.value:.4g}, equal noise {gain:.4g} times that)"


def best_directions(
    system: StateSpace, budget: float, *, weight: ArrayLike | None = None, steps: int | None = None
) -> Directions:
    """The L that serves the state estimates best under a budget for every step.

    budget   s ≥ tr(LLᵀ), the trace of the information of one step's release about its measurements.
    weight   W (n, n): which states matter (default: all alike, in their units).
    steps    None: one L, best in steady state. K: L_0 … L_{K−1}, best for the summed errors.
    Raises NumericalFailure if the gap exceeds 1e-5.

    >>> two = StateSpace(A=np.eye(2) * 0.9, C=np.eye(2), Q=1.0, R=0.5, cov0=1.0)
    >>> best = best_directions(two, 1.0, weight=[[1.0, 0.0], [0.0, 0.0]])
    >>> best.information.round(4).tolist()  # only the first state matters: show nothing else
    [[1.0, 0.0], [0.0, 0.0]]
    """
    s = as_scale(budget, "the budget")
    m = as_system(system).measurements
    value, count = _problem(system, weight, steps)
    start = np.broadcast_to(np.sqrt(s / m) * np.eye(m), (count, m, m))
    equal = float(value(start)[0].sum())  # raises where even equal noise has no value
    L, errors, floor, price = _minimise(value, s, start)
    D = L @ L.swapaxes(-1, -2)
    total = float(errors.sum())
    spent = float(np.trace(D, axis1=-2, axis2=-1).max())
    gap = max((total - floor) / total, 0.0)
    rest = (total, equal, spent, floor, gap, price)
    if steps is None:
        return Directions(StreamLevel.constant(D[0]), D[0], errors[0], *rest)
    return Directions(StreamLevel(D), D, errors, *rest)


def _problem(system: StateSpace, weight: ArrayLike | None, steps: int | None) -> tuple[Value, int]:
    n = system.states
    W = np.eye(n) if weight is None else psd(weight, "the weight", size=n).dense()
    if not W.any():
        raise InvalidInput("the weight is zero: no state matters, so no direction is best.")
    if steps is None:
        if system.steps is not None:
            raise InvalidInput("A system with a time axis has no steady state: give steps.")
        return _steady(system, W), 1
    if system.diffuse is not None:
        raise InvalidInput(
            "A sum of errors over a horizon needs a proper start, and x_0 is diffuse: give cov0 (a "
            "large one)."
        )
    count = system.require_steps(steps)
    return _horizon(system, W, count), count


def _measured(P: Array, C: Array, root: Array, L: Array) -> tuple[Array, Array]:
    """P after the release Lᵀy + e, and I − KG."""
    G = L.T @ C
    N = unit_root_of(L.T @ root)
    cross = P @ G.T
    gain = scipy.linalg.solve(G @ cross + N @ N.T, cross.T, assume_a="pos").T
    kept = np.eye(len(P)) - gain @ G
    noise = gain @ N
    return kept @ P @ kept.T + noise @ noise.T, kept


def _slopes(P: Array, C: Array, R: Array, L: Array, influence: Array) -> Array:
    """∂/∂D at D = LLᵀ for filtered covariances P; all with a leading axis."""
    inner = np.eye(L.shape[-1]) + R @ L @ L.swapaxes(-1, -2)
    outer = np.linalg.solve(inner, C @ P)
    slope = -outer @ influence @ outer.swapaxes(-1, -2)
    return np.asarray((slope + slope.swapaxes(-1, -2)) / 2)


def _horizon(system: StateSpace, W: Array, steps: int) -> Value:
    A = stack(system.A)
    Q = stack(system.Q)
    n = system.states
    C = stack(system.C)[:steps]
    R = stack(system.R)[:steps]
    root = system.matrices.R_root

    def value(L: Array) -> tuple[Array, Array]:
        after, closed, influence = (np.empty((steps, n, n)) for _ in range(3))
        P = system.cov0
        moved: Array = np.eye(n)
        for k in range(steps):
            if k:
                moved = at(A, k - 1)
                P = moved @ after[k - 1] @ moved.T + at(Q, k - 1)
            after[k], kept = _measured(P, at(C, k), at(root, k), L[k])
            closed[k] = kept @ moved
        influence[-1] = W
        for k in range(steps - 2, -1, -1):
            influence[k] = W + closed[k + 1].T @ influence[k + 1] @ closed[k + 1]
        return np.einsum("ij,kij->k", W, after), _slopes(after, C, R, L, influence)

    return value


def _steady(system: StateSpace, W: Array) -> Value:
    A = system.A
    C = system.C
    root = system.matrices.R_root[0]

    def value(L: Array) -> tuple[Array, Array]:
        G = L[0].T @ C
        N = unit_root_of(L[0].T @ root)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
                P = scipy.linalg.solve_discrete_are(A.T, G.T, system.Q, N @ N.T)
                after, kept = _measured((P + P.T) / 2, C, root, L[0])
                influence = scipy.linalg.solve_discrete_lyapunov((kept @ A).T, W)
        except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
            raise NumericalFailure(
                "There is no steady state for some direction that was tried: an unstable part of "
                "the system is not shown, or no noise drives a part on the unit circle. Give steps."
            ) from None
        return np.array([np.sum(W * after)]), _slopes(after, C, system.R, L, influence)

    return value


def _minimise(value: Value, s: float, start: Array) -> tuple[Array, Array, float, float]:
    """L with tr L_kL_kᵀ = s by L-BFGS; its errors (K,), their floor, and the price.

    Not convex in the factors: the step that leads away from a lost direction is that of D.
    """
    high = 100.0 * float(value(start)[0].sum())

    def scaled(flat: Array) -> tuple[Array, Array]:
        M = flat.reshape(start.shape)
        size = np.sum(M * M, axis=(1, 2), keepdims=True)
        return M * np.sqrt(s / size), size

    def objective(flat: Array) -> tuple[float, Array]:
        L, size = scaled(flat)
        try:
            errors, slope = value(L)
        except NumericalFailure:  # an unstable part is not shown: a step too far, to be shortened
            return high, np.zeros(flat.size)
        pull = slope @ L
        along = np.sum(pull * L, axis=(1, 2), keepdims=True) / s
        return float(errors.sum()), (2 * np.sqrt(s / size) * (pull - along * L)).ravel()

    found = start
    floor = -np.inf
    for _ in range(20):  # it may stop where a direction was lost, or when flat
        result = scipy.optimize.minimize(
            objective, found.ravel() / np.sqrt(s), jac=True, method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 500, "maxcor": 20},
        )  # fmt: skip
        L, _ = scaled(result.x)
        errors, slope = value(L)
        total = float(errors.sum())
        price = float(np.linalg.eigvalsh(-slope)[:, -1].sum())
        floor = max(floor, total - s * price - float(np.sum((slope @ L) * L)))
        if total - floor <= 1e-2 * CERTIFIED * total:
            break
        found = _escaped(value, L, total, slope, s)
    if total - floor > CERTIFIED * total:
        raise NumericalFailure(
            "The best direction was not found: the certificate is "
            f"{(total - floor) / total:.2g} of the error, above {CERTIFIED:g}. Scale the "
            "measurements to similar sizes, or take fewer steps."
        )
    return L, errors, min(floor, total), price


def _escaped(value: Value, L: Array, error: float, slope: Array, s: float) -> Array:
    """A step of Frank-Wolfe in D, convex, towards s·vvᵀ with v the steepest direction."""
    steepest = np.linalg.eigh(-slope)[1][:, :, -1:]
    vertex = s * steepest @ steepest.swapaxes(-1, -2)
    D = L @ L.swapaxes(-1, -2)
    for halving in range(1, 30):
        part = 0.5**halving
        values, vectors = np.linalg.eigh((1.0 - part) * D + part * vertex)
        mixed = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # ≥ 0 but for rounding
        if float(value(mixed)[0].sum()) < error:
            return np.asarray(mixed)
    return L

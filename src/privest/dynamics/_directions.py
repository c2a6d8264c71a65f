"""Which combinations of the readings to release: the best L_k under a budget.

    minimise Σ_k tr(W P_k)  over D_k = L_kL_kᵀ ≥ 0 ,   tr D_k ≤ s for every step, or Σ_k tr D_k ≤ B

P_k is the filtered covariance; without a horizon it is the steady one and D is constant.
Convex in D: X = (D⁻¹ + R)⁻¹ is matrix-concave, the information Ω = (AΩ⁻¹Aᵀ + Q)⁻¹ + CᵀXC is concave
and monotone in X, and tr(WΩ⁻¹) is convex and decreasing. The gradient is

    ∂/∂D_k = −(I + RD)⁻¹ C P_k Λ_k P_k Cᵀ (I + DR)⁻¹ ,   Λ_k = W + F_{k+1}ᵀ Λ_{k+1} F_{k+1}

F the closed loop of the filter. With Λ the sum of s·λmax(−∂_k), or B times the largest of them all,
Λ + Σ_k tr(∂_k D_k) bounds the distance to the optimum: the certificate that is returned. (Choosing
each L_k for the very next error alone can be worse than equal noise: what it leaves unseen comes
back later.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, as_scale
from privest.dynamics._steps import at, stack, unit_roots_of
from privest.dynamics._system import StateSpace, as_system
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd
from privest.privacy import EndlessLevel, StreamLevel
from privest.records import Record

CERTIFIED = 1e-5  # of the objective: what the certificate must at least show
Value = Callable[[Array], tuple[Array, Array]]  # L (K, m, m): errors (K,), slopes (K, m, m)


@dataclass(frozen=True, eq=False)
class BestDirections(Record):
    """The best release under a budget, what it gains, and the proof: an answer of a design.

    level       to give to the mechanism and to the filter: EndlessLevel, or a StreamLevel.
    information D = LLᵀ, (m, m), or (K, m, m) for a finite horizon.
    error       tr(W P): in steady state, or (K,) after every step; `value` is their sum.
    isotropic   the same for equal noise on every reading at every step, of the same budget.
    spent       the trace of D: the largest of any step, or the sum of all for a total.
    floor       no release within the budget has less: a proof, whatever the search did.
    gap         (value − floor)/value.
    price       −d value/d budget: what one more unit of it would take off.
    """

    level: EndlessLevel | StreamLevel
    information: Array
    error: Array
    isotropic: Array
    spent: float
    floor: float
    price: float

    DERIVED = ("gain", "value", "gap")

    @property
    def value(self) -> float:
        return float(np.sum(self.error))

    @property
    def gap(self) -> float:
        return max((self.value - self.floor) / self.value, 0.0)

    @property
    def gain(self) -> float:
        """isotropic / best, of the error or of its sum over the horizon."""
        return float(np.sum(self.isotropic)) / self.value

    def __repr__(self) -> str:
        return f"BestDirections(mean error {np.mean(self.error):.4g}, gain {self.gain:.4g})"


def best_directions(
    system: StateSpace, budget: float | None = None, *, total: float | None = None,
    weight: ArrayLike | None = None, steps: int | None = None,
) -> BestDirections:  # fmt: skip
    """The L that serves the state estimates best under a budget for every step or for all of them.

    Symbols: `budget` s bounds the trace of the Fisher information that one step's release adds
    about its readings, tr(LLᵀ) ≤ s at every step; `total` B instead bounds the sum over all
    `steps`, so that steps that serve many later ones may show more. `weight` W (n, n) says which
    states matter (default: all alike, in their units).
    steps=None: one L for all steps, best in steady state (a budget for every step, and a system
    without a time axis).
    steps=K: L_0 … L_{K−1}, best for the sum of the filtered errors over this horizon.
    L depends on the public system only: choosing it reveals nothing.
    Guarantees: `floor`. Raises NumericalFailure if the gap exceeds 1e-5.
    Cost: some hundred passes of O(K (n³ + m³)).

    >>> two = StateSpace(A=np.eye(2) * 0.9, C=np.eye(2), Q=1.0, R=0.5, cov0=1.0)
    >>> best = best_directions(two, 1.0, weight=[[1.0, 0.0], [0.0, 0.0]])
    >>> best.information.round(4).tolist()  # only the first state matters: show nothing else
    [[1.0, 0.0], [0.0, 0.0]]
    >>> still = StateSpace(A=1.0, C=1.0, Q=0.0, R=1.0, cov0=100.0)  # a constant
    >>> early = best_directions(still, total=4.0, steps=4).information.ravel()
    >>> bool((np.diff(early) < 0).all())  # what is shown early serves every estimate
    True
    """
    shared, given = (False, budget) if total is None else (True, total)
    if given is None or (shared and budget is not None):
        raise InvalidInput("give either a budget for every step or a total for all of them.")
    s = as_scale(given, "the budget")
    m, endless = as_system(system).readings, steps is None
    if endless and shared:
        raise InvalidInput("a total for all steps needs their number: give steps.")
    value, count = _problem(system, weight, steps)
    each = s / (m * count) if shared else s / m
    equal = np.broadcast_to(np.sqrt(each) * np.eye(m), (count, m, m))
    same, _ = value(equal)  # raises where even equal noise has no value
    L, errors, floor, price = _minimise(value, s, equal, shared=shared)
    D = L @ L.swapaxes(-1, -2)
    traces = np.trace(D, axis1=-2, axis2=-1)
    spent = float(traces.sum() if shared else traces.max())
    if endless:
        return BestDirections(EndlessLevel(D[0]), D[0], errors[0], same[0], spent, floor, price)
    return BestDirections(StreamLevel(D), D, errors, same, spent, floor, price)


def _problem(system: StateSpace, weight: ArrayLike | None, steps: int | None) -> tuple[Value, int]:
    """What is made small, and over how many steps; refused where it has no meaning."""
    n = system.states
    W = np.eye(n) if weight is None else psd(weight, "the weight", size=n).dense()
    if not W.any():
        raise InvalidInput("the weight is zero: no state matters, so no direction is best.")
    if system.cross is not None:
        raise InvalidInput("best_directions is for systems without correlated noise (cross).")
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
    G, N = L.T @ C, unit_roots_of((L.T @ root)[None])[0]
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
    A, Q, n = stack(system.A), stack(system.Q), system.states
    C, R, root = stack(system.C)[:steps], stack(system.R)[:steps], system.matrices.R_root

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
    A, C, root = system.A, system.C, system.matrices.R_root[0]

    def value(L: Array) -> tuple[Array, Array]:
        G, N = L[0].T @ C, unit_roots_of((L[0].T @ root)[None])[0]
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


def _minimise(
    value: Value, s: float, start: Array, *, shared: bool
) -> tuple[Array, Array, float, float]:
    """L with tr L_kL_kᵀ = s for every step, or Σ_k tr L_kL_kᵀ = s (`shared`), by L-BFGS; its
    errors (K,), the floor of their sum, and −d sum/d budget.

    The whole budget is always used: more information never harms. In the factors the problem is
    not convex (where a direction is lost from L its slope is zero, best or not), but the
    certificate is that of the convex one, and so is the step that leads away from there.
    """
    shape, axes = start.shape, (0, 1, 2) if shared else (1, 2)
    high = 100.0 * float(value(start)[0].sum())

    def scaled(flat: Array) -> tuple[Array, Array]:
        M = flat.reshape(shape)
        size = np.sum(M * M, axis=axes, keepdims=True)
        return M * np.sqrt(s / size), size

    def objective(flat: Array) -> tuple[float, Array]:
        L, size = scaled(flat)
        try:
            errors, slope = value(L)
        except NumericalFailure:  # an unstable part is not shown: a step too far, to be shortened
            return high, np.zeros(flat.size)
        pull = slope @ L
        along = np.sum(pull * L, axis=axes, keepdims=True) / s
        return float(errors.sum()), (2 * np.sqrt(s / size) * (pull - along * L)).ravel()

    found, floor = start, -np.inf
    for _ in range(100 if shared else 20):  # it may stop where a direction was lost, or when flat
        result = scipy.optimize.minimize(
            objective, found.ravel() / np.sqrt(s), jac=True, method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 500, "maxcor": 20},
        )  # fmt: skip
        L, _ = scaled(result.x)
        errors, slope = value(L)
        total, steepest = float(errors.sum()), np.linalg.eigvalsh(-slope)[:, -1]
        price = float(steepest.max() if shared else steepest.sum())
        floor = max(floor, total - s * price - float(np.sum((slope @ L) * L)))
        if total - floor <= 1e-2 * CERTIFIED * total:
            break
        found = _escaped(value, L, total, slope, s, shared)
    if total - floor > CERTIFIED * total:
        raise NumericalFailure(
            "The best direction was not found: the certificate is "
            f"{(total - floor) / total:.2g} of the error, above {CERTIFIED:g}. Scale the readings "
            "to similar sizes, or take fewer steps."
        )
    return L, errors, min(floor, total), price


def _escaped(value: Value, L: Array, error: float, slope: Array, s: float, shared: bool) -> Array:
    """A step of Frank-Wolfe in D, towards s·vvᵀ with v the steepest direction of each step.

    Of a shared budget: of the steepest step of all. The problem is convex in D, so a short enough
    step is downhill while the certificate is not zero.
    """
    worth, vectors = np.linalg.eigh(-slope)
    steepest = vectors[:, :, -1:]
    vertex, D = s * steepest @ steepest.swapaxes(-1, -2), L @ L.swapaxes(-1, -2)
    if shared:
        vertex[np.arange(len(L)) != worth[:, -1].argmax()] = 0.0
    for halving in range(1, 30):
        part = 0.5**halving
        values, vectors = np.linalg.eigh((1.0 - part) * D + part * vertex)
        mixed = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # ≥ 0 but for rounding
        if float(value(mixed)[0].sum()) < error:
            return np.asarray(mixed)
    return L

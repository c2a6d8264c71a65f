"""The maximum of a log-likelihood: L-BFGS from several starts, then Newton's steps.

L-BFGS on −ℓ/N in working parameters. Its gradient comes by the adjoint, so that its differences
give −∇²ℓ; Newton's steps with it end when the maximum is within TOLERANCE standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Flags

TOLERANCE = 1e-7  # of a standard error, √(gᵀH⁻¹g): the maximum is that near
NEAR = 1e-4  # near enough to be called one
LEVEL = NEAR**2 / 2  # a fall of ℓ that is none
PROMISING = 0.01  # a fall of ℓ that the other parameters may make up for
SMALL = 1e-3  # a step that leaves the curvature as it was
ROUNDING = 1e-13  # of ℓ, relative
NEWTON = 8  # steps at most
DIFFERENCE = 1e-4  # of working parameters: error of a second derivative about its square
EDGE = 1e-6  # a parameter this near its limit, and pushed against it, is at it
ROUNDS = 200  # of L-BFGS
CLOSE = 10.0  # all starts whose ℓ is so near the best are followed: weak releases have many peaks

Function = Callable[[Array], tuple[float, Array]]  # t ↦ ℓ, ∂ℓ/∂t


class Summit(NamedTuple):
    """t, ℓ, gradient, −∇²ℓ at the highest point found; parameters at a limit; whether it is one."""

    t: Array
    height: float
    gradient: Array
    curvature: Array
    at_limit: Flags
    converged: bool


def climb(
    function: Function, starts: Sequence[Array], limits: Array, count: int, least: int = 2
) -> Summit:
    """From the best of the starts, at least so many; `count` numbers were seen (ℓ is so large)."""
    inside = [np.clip(t, *limits.T) for t in starts]
    heights = np.array([_finite(function(t)[0]) for t in inside])
    ranked = np.argsort(-heights, kind="stable")
    followed = max(least, int((heights >= heights.max() - CLOSE).sum()))
    ends = [ascend(function, inside[i], limits, count) for i in ranked[:followed]]
    best = max(ends, key=lambda end: function(end)[0])
    return _at_limits(function, newton(function, best, limits), limits)


def _at_limits(function: Function, top: Summit, limits: Array) -> Summit:
    """The summit with those parameters at a limit towards which ℓ is level (a variance that goes to
    0, a root that goes to 1): Newton's steps towards it do not end, or end anywhere.

    Only where ℓ is so flat that a working parameter has a standard error above 1.
    """
    slack = (top.curvature.diagonal() < 1.0) & ~top.at_limit
    for j in np.flatnonzero(slack).tolist():
        for limit in limits[j][np.isfinite(limits[j])]:
            moved = top.t.copy()
            moved[j] = limit
            if not function(moved)[0] >= top.height - PROMISING:
                continue
            found = newton(function, moved, limits, top.at_limit | (np.arange(len(moved)) == j))
            if found.height >= top.height - LEVEL:
                top = found
                break
    return top


def _finite(value: float) -> float:
    return value if np.isfinite(value) else -np.inf


def ascend(
    function: Function, start: Array, limits: Array, count: int, rounds: int = ROUNDS
) -> Array:
    """Where L-BFGS ends, after so many rounds at most."""

    def cost(t: Array) -> tuple[float, Array]:
        value, slope = function(t)
        if not np.isfinite(value):  # no model there: a wall, from which the search turns back
            return 1e300, np.zeros_like(t)
        return -value / count, -slope / count

    options = {"maxiter": rounds, "ftol": 1e-10, "gtol": 1e-7, "maxcor": 10}
    searched: Any = scipy.optimize.minimize
    found = searched(cost, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    return np.asarray(found.x)


def newton(function: Function, start: Array, limits: Array, pinned: Flags | bool = False) -> Summit:
    """Newton's steps on what is neither at a limit nor `pinned`; ℓ never falls.

    A step of less than SMALL standard errors leaves −∇²ℓ as it was, so that a search which ends
    near the maximum needs it once.
    """
    t = start
    value, slope = function(t)
    H = curvature(function, t, limits)
    for _ in range(NEWTON):
        held = _held(t, slope, limits) | pinned
        step, distance = _newton_step(H, slope, held)
        if step is None or distance <= TOLERANCE:
            break
        moved = np.clip(t + step, *limits.T)
        higher, its = function(moved)
        if not higher >= value - ROUNDING * abs(value):
            break
        t, value, slope = moved, higher, its
        if distance > SMALL:
            H = curvature(function, t, limits)
    held = _held(t, slope, limits) | pinned
    step, distance = _newton_step(H, slope, held)
    return Summit(t, value, slope, H, held, step is not None and distance <= NEAR)


def _held(t: Array, slope: Array, limits: Array) -> Flags:
    """Parameters at a limit against which ℓ pushes them."""
    low, high = limits.T
    return np.asarray(((t <= low + EDGE) & (slope <= 0)) | ((t >= high - EDGE) & (slope >= 0)))


def _newton_step(H: Array, slope: Array, held: Flags) -> tuple[Array | None, float]:
    """H⁻¹g on what is free, and its length in standard errors; None where H is not positive."""
    free = ~held
    if not free.any():
        return np.zeros_like(slope), 0.0
    try:
        half = scipy.linalg.cho_factor(H[np.ix_(free, free)], lower=True)
    except np.linalg.LinAlgError:
        return None, np.inf
    step: Array = np.zeros_like(slope)
    step[free] = scipy.linalg.cho_solve(half, slope[free])
    return step, math.sqrt(max(float(step @ slope), 0.0))


def curvature(function: Function, t: Array, limits: Array) -> Array:
    """−∇²ℓ (p, p) by central differences of the gradient, one-sided at a limit. 2p evaluations."""
    p = len(t)
    H: Array = np.empty((p, p))
    for i in range(p):
        ahead, behind = t.copy(), t.copy()
        ahead[i] = min(t[i] + DIFFERENCE, limits[i, 1])
        behind[i] = max(t[i] - DIFFERENCE, limits[i, 0])
        H[i] = (function(behind)[1] - function(ahead)[1]) / (ahead[i] - behind[i])
    return (H + H.T) / 2

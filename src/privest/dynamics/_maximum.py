"""The maximum of a log-likelihood: L-BFGS from several starts, then Newton."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.dynamics._families import Family
from privest.dynamics._kalman import log_likelihood, value_and_gradient
from privest.dynamics._releases import Data
from privest.errors import NumericalFailure

TOLERANCE = 1e-7  # of a standard error, √(gᵀH⁻¹g): the maximum is that near
NEAR = 1e-4  # near enough to be called one
LEVEL = NEAR**2 / 2  # a fall of ℓ that is none
PROMISING = 0.01  # a fall of ℓ that the other parameters may make up for
SMALL = 1e-4  # of a standard error: a step that leaves the curvature as it was
ROUNDING = 1e-13  # of ℓ, relative
NEWTON_STEPS = 8
DIFFERENCE = 1e-4  # of working parameters: error of a second derivative about its square
EDGE = 1e-6  # a parameter this near its limit, and pushed against it, is at it
ITERATIONS = 200  # of L-BFGS
CLOSE = 10.0  # all starts whose ℓ is so near the best are followed: weak releases have many maxima
FLATTEST = 1e-6  # of a unit diagonal: least curvature that is inverted

Function = Callable[[Array], tuple[float, Array]]  # t ↦ ℓ, ∂ℓ/∂t


class Objective:
    """t ↦ ℓ(t), ∂ℓ/∂t of a family on data, kept; −∞ where there is no model."""

    def __init__(self, family: Family, data: list[Data]) -> None:
        self.family = family
        self.data = data
        self.evaluations = 0
        self._made: dict[bytes, tuple[float, Array]] = {}

    def value(self, t: Array) -> float:
        self.evaluations += 1
        try:
            matrices = self.family.matrices(t)
            return sum(log_likelihood(matrices, own) for own in self.data)
        except NumericalFailure:
            return -math.inf

    def __call__(self, t: Array) -> tuple[float, Array]:
        key = t.tobytes()
        if key not in self._made:
            self._made[key] = self._evaluated(t)
        return self._made[key]

    def _evaluated(self, t: Array) -> tuple[float, Array]:
        self.evaluations += 1
        total = 0.0
        slope = np.zeros(len(t))
        try:
            matrices = self.family.matrices(t)
            slopes = self.family.slopes(t)
            for own in self.data:
                value, gradient = value_and_gradient(matrices, slopes, own)
                total += value
                slope += gradient
        except NumericalFailure:
            return -math.inf, np.zeros(len(t))
        return total, slope


class Maximum(NamedTuple):
    """t (p,), ℓ and −∇²ℓ (p, p) there, the limits (p, 2) of t; which t are at a limit."""

    t: Array
    value: float
    curvature: Array
    limits: Array
    at_limit: Flags
    converged: bool

    def covariance(self) -> Array:
        """A positive definite inverse of −∇²ℓ: |λ|, at least FLATTEST; parameters at a limit
        are held.
        """
        alone = np.where(self.at_limit[:, None] | self.at_limit, np.eye(len(self.t)), 1.0)
        size = np.sqrt(np.abs(self.curvature.diagonal()))
        size = np.where(size > 0, size, 1.0)
        values, vectors = np.linalg.eigh(alone * self.curvature / size / size[:, None])
        scaled = vectors / size[:, None]
        return np.asarray((scaled / np.maximum(np.abs(values), FLATTEST)) @ scaled.T)


def maximise(
    function: Objective, starts: Sequence[Array], limits: Array, count: int, searches: int = 2
) -> Maximum:
    inside = [np.clip(t, *limits.T) for t in starts]
    values = np.array([function.value(t) for t in inside])
    values = np.where(np.isfinite(values), values, -np.inf)
    followed = max(searches, int((values >= values.max() - CLOSE).sum()))
    ranked = np.argsort(-values, kind="stable").tolist()
    ends = [ascend(function, inside[i], limits, count) for i in ranked[:followed]]
    top = _finished(function, ends, limits)
    if not top.converged and followed < len(ranked):
        ends += [ascend(function, inside[i], limits, count) for i in ranked[followed:]]
        top = _finished(function, ends, limits)
    return top


def _finished(function: Function, ends: Sequence[tuple[Array, float]], limits: Array) -> Maximum:
    best, _ = max(ends, key=lambda end: end[1])
    return _at_limits(function, newton(function, best, limits))


def ascend(
    function: Function, start: Array, limits: Array, count: int, iterations: int = ITERATIONS
) -> tuple[Array, float]:
    def cost(t: Array) -> tuple[float, Array]:
        value, slope = function(t)
        if not np.isfinite(value):  # no model there: a wall, from which the search turns back
            return 1e300, np.zeros_like(t)
        return -value / count, -slope / count

    options = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-7, "maxcor": 10}
    search: Any = scipy.optimize.minimize
    found = search(cost, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    return np.asarray(found.x), -count * float(found.fun)


def newton(function: Function, start: Array, limits: Array, fixed: Flags | bool = False) -> Maximum:
    """Newton's steps on parameters neither at a limit nor `fixed`; ℓ never falls."""
    t = start
    value, slope = function(t)
    H = curvature(function, t, limits)
    for _ in range(NEWTON_STEPS):
        step, distance = _newton_step(H, slope, _held(t, slope, limits) | fixed)
        if step is None or distance <= TOLERANCE:
            break
        moved = np.clip(t + step, *limits.T)
        higher, its = function(moved)
        if not higher >= value - ROUNDING * abs(value):
            break
        t = moved
        value = higher
        slope = its
        if distance > SMALL:
            H = curvature(function, t, limits)
    held = _held(t, slope, limits) | fixed
    step, distance = _newton_step(H, slope, held)
    return Maximum(t, value, H, limits, held, step is not None and distance <= NEAR)


def _at_limits(function: Function, top: Maximum) -> Maximum:
    """The maximum with flat parameters at a limit towards which ℓ is level (a variance at 0, a
    root at 1).
    """
    flat = (top.curvature.diagonal() < 1.0) & ~top.at_limit
    for j in np.flatnonzero(flat).tolist():
        for limit in top.limits[j][np.isfinite(top.limits[j])]:
            own = np.arange(len(top.t)) == j
            moved = np.where(own, limit, top.t)
            if not function(moved)[0] >= top.value - PROMISING:
                continue
            found = newton(function, moved, top.limits, top.at_limit | own)
            if found.value >= top.value - LEVEL:
                top = found
                break
    return top


def _held(t: Array, slope: Array, limits: Array) -> Flags:
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
        ahead = t.copy()
        behind = t.copy()
        ahead[i] = min(t[i] + DIFFERENCE, limits[i, 1])
        behind[i] = max(t[i] - DIFFERENCE, limits[i, 0])
        H[i] = (function(behind)[1] - function(ahead)[1]) / (ahead[i] - behind[i])
    return (H + H.T) / 2

"""The search for the best directions: on the factors L_k, with the certificate of D_k = L_kL_kᵀ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NumericalFailure

CERTIFIED = 1e-5  # of the objective: what the certificate must at least show
Value = Callable[[Array], tuple[Array, Array]]  # L (K, m, m): errors (K,), slopes (K, m, m)


@dataclass(frozen=True, eq=False)
class Search:
    """L (K, m, m), its errors (K,), the floor of their sum, −d sum/d budget, steps."""

    factors: Array
    errors: Array
    floor: float
    price: float
    iterations: int


def minimise(value: Value, s: float, start: Array, *, shared: bool) -> Search:
    """The best L with tr L_kL_kᵀ = s for every step, or Σ_k tr L_kL_kᵀ = s (`shared`), by L-BFGS.

    The whole budget is always used: more information never harms. In the factors the problem is
    not convex (where a direction is lost from L its slope is zero, best or not), but the
    certificate is that of the convex one, and so is the step that leads away from there.
    """
    shape, axes = start.shape, (0, 1, 2) if shared else (1, 2)

    def scaled(flat: Array) -> tuple[Array, Array]:
        M = flat.reshape(shape)
        size = np.sum(M * M, axis=axes, keepdims=True)
        return M * np.sqrt(s / size), size

    high = 100.0 * float(value(start)[0].sum())  # raises where even equal noise has no value

    def objective(flat: Array) -> tuple[float, Array]:
        L, size = scaled(flat)
        try:
            errors, slope = value(L)
        except NumericalFailure:  # an unstable part is not shown: a step too far, to be shortened
            return high, np.zeros(flat.size)
        pull = slope @ L
        along = np.sum(pull * L, axis=axes, keepdims=True) / s
        return float(errors.sum()), (2 * np.sqrt(s / size) * (pull - along * L)).ravel()

    found, floor, steps = (start / np.sqrt(s)).ravel(), -np.inf, 0
    for _ in range(100 if shared else 20):  # it may stop where a direction was lost, or when flat
        result = scipy.optimize.minimize(
            objective, found, jac=True, method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 500, "maxcor": 20},
        )  # fmt: skip
        steps += int(result.nit)
        L, _ = scaled(result.x)
        errors, slope = value(L)
        total = float(errors.sum())
        here, price = floor_at(L, total, slope, s, shared=shared)
        floor = max(floor, here)
        if total - floor <= 1e-2 * CERTIFIED * total:
            break
        found = (_escaped(value, L, total, slope, s, shared) / np.sqrt(s)).ravel()
    if total - floor > CERTIFIED * total:
        raise NumericalFailure(
            "The best direction was not found: the certificate is "
            f"{(total - floor) / total:.2g} of the error, above {CERTIFIED:g}. Scale the readings "
            "to similar sizes, or take fewer steps."
        )
    return Search(L, errors, min(floor, total), price, steps)


def floor_at(
    L: Array, error: float, slope: Array, s: float, *, shared: bool
) -> tuple[float, float]:
    """What no L within the budget is below, proved at any L, and the price of the budget there."""
    steepest = np.linalg.eigvalsh(-slope)[:, -1]
    price = float(steepest.max() if shared else steepest.sum())
    return error - s * price - float(np.sum((slope @ L) * L)), price


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

"""A first autoregression from autocovariances of lags ≥ 1: Ho and Kalman's realisation.

γ_h = c A^{h−1} b for h ≥ 1, so the Hankel matrix of γ_1, γ_2, … has rank n, and its shift gives A.
γ_0, where the release noise is, is not used (Yule-Walker's equations are ruined by it).
"""

from __future__ import annotations

import numpy as np

from privest.arrays import AnyArray, Array

SIZE = 5  # of the Hankel matrix, γ_1 … γ_9; larger for higher orders
INSIDE = 0.98  # poles beyond are moved there, along their ray


def autoregression(gamma: Array, order: int) -> Array | None:
    """φ (order,), stable, from γ_1, γ_2, … = `gamma`; None where these are too few or nothing."""
    size = min(max(SIZE, order + 2), (len(gamma) + 1) // 2)
    if size < order + 1 or not np.abs(gamma).max(initial=0.0) > 0:
        return None
    place = np.add.outer(np.arange(size), np.arange(size))
    U, values, _ = np.linalg.svd(gamma[place])
    if not values[order - 1] > 0:
        return None
    seen = U[:, :order] * np.sqrt(values[:order])
    shift = np.linalg.lstsq(seen[:-1], seen[1:], rcond=None)[0]
    return _inside(np.linalg.eigvals(shift))


def stable(phi: Array) -> Array:
    """The coefficients with poles moved into the circle where they are not.

    >>> stable(np.array([1.2])).tolist()
    [0.98]
    """
    return _inside(np.roots(np.concatenate([[1.0], -phi])), len(phi))


def _inside(poles: AnyArray, order: int | None = None) -> Array:
    radius = np.abs(poles)
    poles = np.where(radius > INSIDE, poles * (INSIDE / np.maximum(radius, INSIDE)), poles)
    phi = np.zeros(len(poles) if order is None else order)
    phi[: len(poles)] = -np.poly(poles).real[1:]
    return phi


def moving_average(covariances: Array) -> Array:
    """θ (q,) of 1 + θ_1B + …, invertible, from the autocovariances c_0 … c_q of a moving average.

    Where no moving average has them (c_0 too small for its spectrum to be positive) c_0 is enlarged
    until one has; roots of the spectrum outside the unit circle are those of θ.

    >>> moving_average(np.array([1.25, 0.5])).round(9).tolist()
    [0.5]
    """
    q = len(covariances) - 1
    lags, grid = np.arange(1, q + 1), np.linspace(0, np.pi, 257)
    lowest = float((2 * np.cos(np.outer(grid, lags)) @ covariances[1:]).min(initial=0.0))
    first = float(covariances[0])
    first = first if first > -lowest else max(-1.05 * lowest, 1e-300)
    whole = np.concatenate([[first], covariances[1:]])
    roots = np.roots(np.concatenate([whole[::-1], whole[1:]]))
    roots = roots[np.abs(roots) > 0]  # a lag that is zero leaves zeros
    outside = roots[np.argsort(-np.abs(roots))][: len(roots) // 2]
    poly = np.ones(1, dtype=complex)
    for root in outside:
        poly = np.convolve(poly, [1.0, -1.0 / root])  # 1 − B/root
    found = np.zeros(q)
    found[: len(poly) - 1] = poly.real[1:]
    return found

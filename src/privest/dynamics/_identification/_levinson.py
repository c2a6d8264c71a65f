"""Durbin and Levinson's recursion: coefficients and autocorrelations from partial ones.

With r_k the partial autocorrelations, |r_k| < 1, and v_k = Π_{j≤k} (1 − r_j²), for k = 1, 2, …

    ρ_k = r_k v_{k−1} + Σ_{j<k} φ_jρ_{k−j} ,   φ_j ← φ_j − r_kφ_{k−j} for j < k ,   φ_k = r_k

(order 2: φ_2 = r_2, φ_1 = r_1(1 − r_2)). The process with innovations of variance q has the
autocovariances γ_h = ρ_h q/v_p, to rounding also where it is nearly not stationary: no Lyapunov
equation is solved.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from privest.arrays import Array


class Process(NamedTuple):
    """φ (p,), ρ_0 … ρ_{n−1} and v_p, the part of the variance that is innovation."""

    phi: tuple[float, ...]
    rho: tuple[float, ...]
    new: float


class ProcessSlopes(NamedTuple):
    """∂φ (p, p), ∂ρ (n, p), ∂v_p (p,), by the partial autocorrelations."""

    phi: Array
    rho: Array
    new: Array


# What asks for the coefficients at some t asks for the covariances next: the last few are kept.
@lru_cache(maxsize=4)
def levinson(partial: tuple[float, ...], count: int) -> Process:
    """The process, with `count` autocorrelations.

    >>> levinson((0.5,), 3)
    Process(phi=(0.5,), rho=(1.0, 0.5, 0.25), new=0.75)
    """
    phi: list[float] = []
    rho, new = [1.0], 1.0
    for r in partial:
        rho.append(r * new + sum(a * b for a, b in zip(phi, rho[:0:-1])))
        phi = [a - r * b for a, b in zip(phi, phi[::-1])] + [r]
        new *= 1.0 - r * r
    while len(rho) < count:
        rho.append(sum(a * b for a, b in zip(phi, rho[::-1])))
    return Process(tuple(phi), tuple(rho[:count]), new)


@lru_cache(maxsize=4)
def levinson_slopes(partial: tuple[float, ...], count: int) -> ProcessSlopes:
    """The derivative of the same recursion."""
    p = len(partial)
    size = max(count, p + 1)
    phi, rho, new = np.zeros(p), np.zeros(size), 1.0
    by_phi, by_rho, by_new = np.zeros((p, p)), np.zeros((size, p)), np.zeros(p)
    rho[0] = 1.0
    for k, r in enumerate(partial):
        back, by_back = rho[k:0:-1], by_rho[k:0:-1]
        rho[k + 1] = r * new + phi[:k] @ back
        by_rho[k + 1] = r * by_new + back @ by_phi[:k] + phi[:k] @ by_back
        by_rho[k + 1, k] += new
        by_phi[:k] -= r * by_phi[:k][::-1]
        by_phi[:k, k] -= phi[:k][::-1]
        by_phi[k, k] = 1.0
        phi[:k] -= r * phi[:k][::-1]
        phi[k] = r
        by_new *= 1.0 - r * r
        by_new[k] -= 2.0 * r * new
        new *= 1.0 - r * r
    for k in range(p + 1, count):
        back, by_back = rho[k - p : k][::-1], by_rho[k - p : k][::-1]
        rho[k] = phi @ back
        by_rho[k] = back @ by_phi + phi @ by_back
    found = ProcessSlopes(by_phi, by_rho[:count], by_new)
    for part in found:
        part.flags.writeable = False
    return found

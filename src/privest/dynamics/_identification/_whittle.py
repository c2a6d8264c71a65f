"""Whittle's formula: the information of a long stationary series, by the spectra of the releases.

    I_ij = K/(4π) ∫ tr(f_z⁻¹ ∂_if_z f_z⁻¹ ∂_jf_z) dω ,   f_z(ω) = L(ω) f_y(ω) L(ω)* + I

L(ω) = Σ_j A_j e^{−ijω} of a constant level with lags, f_y = C H Q H* Cᵀ + R, H = (e^{iω} − A)⁻¹.
For scalars without lags f_z⁻¹∂f_z = W ∂log f_y with the Wiener gain W = f_y/(f_y + 1/s).

The integrand is periodic and analytic: the trapezoid rule gains digits in proportion to its nodes.
They lie between the multiples of 2π/N, so that roots on the unit circle (a local level) are no
obstacle: the integrand is finite there.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.dynamics._steps import Matrices
from privest.errors import InvalidInput, NumericalFailure
from privest.privacy import EndlessLevel

FIRST, LAST = 64, 2**18  # nodes of the trapezoid rule: the first number, and the most
AGREED = 1e-11  # change on doubling, in units of √(I_ii I_jj), at which the sum is taken
ON_CIRCLE = 1.0 + 1e-9


def whittle(matrices: Matrices, slopes: Matrices, level: EndlessLevel, steps: int) -> Array:
    """I (p, p) of `steps` steps of a constant system at a constant level, as if they were many.

    It counts what autocovariances tell: slopes of mean0, B and D have no part in it. Roots of A on
    the unit circle are allowed, beyond it refused.
    """
    if any(part.ndim == 3 for part in matrices[:4]):
        raise InvalidInput(
            "Whittle's formula is for constant systems: A, C, Q or R changes with time."
        )
    radius = float(np.abs(np.linalg.eigvals(matrices.A)).max())
    if radius > ON_CIRCLE:
        raise InvalidInput(
            f"Whittle's formula needs a system that is not explosive; A has radius {radius:.3g}."
        )
    nodes = FIRST
    total = _sum(matrices, slopes, level, nodes)
    while nodes < LAST:
        finer = _sum(matrices, slopes, level, 2 * nodes)
        size = np.sqrt(np.abs(finer.diagonal()))
        size = np.where(size > 0, size, 1.0)
        if (np.abs(finer - total) <= AGREED * np.outer(size, size)).all():
            return steps * finer
        total, nodes = finer, 2 * nodes
    raise NumericalFailure(
        f"Whittle's integral is not found with {LAST} nodes: a root of A lies within about 1e-4 of "
        "the unit circle, or the spectrum is nearly singular. Use the exact information."
    )


def _sum(matrices: Matrices, slopes: Matrices, level: EndlessLevel, nodes: int) -> Array:
    """(1/2N) Σ tr(f⁻¹∂_if f⁻¹∂_jf) at N nodes, by the half of them with ω > 0; in pieces."""
    found = np.zeros((len(slopes.A), len(slopes.A)))
    half = nodes // 2
    for start in range(0, half, 4096):
        omega = (np.arange(start, min(start + 4096, half)) + 0.5) * (2.0 * math.pi / nodes)
        found += _part(matrices, slopes, level, omega)
    return found / nodes


def _part(matrices: Matrices, slopes: Matrices, level: EndlessLevel, omega: Array) -> Array:
    A, C, Q, R = matrices[:4]
    n, z = len(A), np.exp(1j * omega)[:, None, None]
    H = np.linalg.inv(z * np.eye(n) - A)
    left = C @ H  # (N, m, n)
    right = left.conj().swapaxes(1, 2)
    f = left @ Q @ right + R
    # ∂(CH) = (∂C + CH ∂A) H
    led = (slopes.C[:, None] + left @ slopes.A[:, None]) @ H @ Q @ right
    df = led + led.conj().swapaxes(-1, -2)
    df = df + left @ slopes.Q[:, None] @ right + slopes.R[:, None]
    blocks = level.blocks(level.reach, level.reach + 1)[:, 0]  # by lag
    shown = sum(block * z**-lag for lag, block in enumerate(blocks))
    back = np.asarray(shown).conj().swapaxes(-1, -2)
    seen = shown @ f @ back + np.eye(f.shape[-1])
    ratio = np.linalg.solve(seen, shown @ df @ back)
    return np.asarray(np.einsum("ikab,jkba->ij", ratio, ratio).real)

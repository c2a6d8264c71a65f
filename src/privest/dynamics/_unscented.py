"""The unscented filter: f and h at points about the estimate, instead of their slopes.

Points x̂ and x̂ ± √(n+κ) b_i, b_i the columns of the factor B of P; weights κ/(n+κ) and 1/2(n+κ). In
unit vectors s of the 2n + 1 points x − x̂ = B E s, E = [0, I/√2, −I/√2], and with the weighted
deviations D_f, D_z of the values of f and of Lᵀh, points being drawn again after the first line,

    [D_f, F]                  = [B⁻ 0] Θᵀ
    [D_z, N; B⁻E, 0]          = [c 0 0; κ B⁺ 0] Θ'ᵀ

by QR: covariances are sums of squares, nothing is inverted but c, and both turns together say how
the old error depends on the new one, as one `Step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from privest.arrays import Array, ArrayLike, as_number
from privest.dynamics._extended import ExtendedStateSpace
from privest.dynamics._nonlinear import (
    ExtendedFiltered,
    State,
    Taken,
    filtered_by,
    require_nonlinear,
)
from privest.dynamics._observed import Level, unit_noise
from privest.dynamics._sweep import Step
from privest.errors import InvalidInput
from privest.release import StreamRelease


def filter_unscented(
    system: ExtendedStateSpace, level: Level, release: StreamRelease,
    *, inputs: ArrayLike | None = None, kappa: float | None = None,
) -> ExtendedFiltered:  # fmt: skip
    """The unscented Kalman filter on releases z̃_k = L_kᵀy_k + e_k (levels that do not look back).

    Symbols: `inputs` (K, p), public. `kappa` ≥ 0 spreads the points, x̂ ± √(n + κ) b_i; by default
    max(3 − n, 0), which is right to the fourth moment of one direction (κ = 0: cubature).
    Assumes noise that adds, as ExtendedStateSpace has it. Right to second order in the spread of
    the state where `filter_extended` is to first; no Jacobian is asked for. 2n + 1 values of f and
    of h a step. Not optimal; its covariance is an approximation. Linear systems: the Kalman filter.
    Source: Julier, Uhlmann (1997); square roots by QR.
    """
    require_nonlinear(system)
    least = max(3.0 - system.states, 0.0) if kappa is None else as_number(kappa, "kappa")
    if least < 0:
        raise InvalidInput(
            f"kappa must be at least 0, so that no weight is negative; received {least:.6g}."
        )
    return filtered_by(partial(_by_points, least), system, level, release, inputs)


def _by_points(
    kappa: float, system: ExtendedStateSpace, now: State, moves: bool, rows: Array | None, u: Array
) -> Taken:
    n, m, frame = system.states, system.readings, system.frame
    spread = np.concatenate([np.zeros((n, 1)), np.eye(n), -np.eye(n)], axis=1) / math.sqrt(2)
    mean, root = now.mean, now.root
    later: Array = np.eye(n)
    lost = np.zeros((n, n))
    if moves:
        mean, half = _values(kappa, now, lambda x: system.value_moved(x, now.input))
        root, theta = _turned(
            np.concatenate([half, frame.Q_root[0]], axis=1), np.pad(spread, ((0, 0), (0, n)))
        )
        later, lost = theta[:, :n], theta[:, n:] @ theta[:, n:].T
    predicted = root @ root.T
    if rows is None:
        return Taken(mean, np.zeros(m), Step(
            predicted, predicted, root, np.zeros((n, m)), np.eye(m), np.zeros((n, m)), later, lost
        ))  # fmt: skip
    expected, half = _values(kappa, State(mean, root, u), lambda x: rows @ system.value_read(x, u))
    noise = unit_noise(rows @ frame.R_root[0])
    array = np.concatenate([half, root @ spread])
    array = np.concatenate([array, np.concatenate([noise, np.zeros((n, noise.shape[1]))])], axis=1)
    lower, theta = _turned(array, np.pad(spread, ((0, 0), (0, noise.shape[1]))))
    back = later @ theta
    rest, factor = back[:, m + n :], lower[m:, m:]
    return Taken(mean, expected, Step(
        predicted, factor @ factor.T, factor, lower[m:, :m], lower[:m, :m], back[:, :m],
        back[:, m : m + n], lost + rest @ rest.T,
    ))  # fmt: skip


def _values(kappa: float, now: State, function: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The weighted mean of a function at the points, and √weight times the deviations from it."""
    n, scale = len(now.mean), len(now.mean) + kappa
    points = now.mean + math.sqrt(scale) * np.concatenate(
        [np.zeros((1, n)), now.root.T, -now.root.T]
    )
    weights = np.full(2 * n + 1, 0.5 / scale)
    weights[0] = kappa / scale
    values = np.stack([function(point) for point in points])
    mean = weights @ values
    return mean, ((values - mean) * np.sqrt(weights)[:, None]).T


def _turned(array: Array, unit: Array) -> tuple[Array, Array]:
    """L lower-triangular, its diagonal ≥ 0, with array = [L 0] Θᵀ, and unit·Θ."""
    theta, upper = np.linalg.qr(array.T, mode="complete")
    size = len(array)
    signs = np.copysign(1.0, upper[:size].diagonal())
    theta[:, :size] *= signs
    return upper[:size].T * signs, unit @ theta

"""Noise of states and readings that is correlated, cov(w_k, v_k) = N, as noise that is not.

w_k leads from x_k to x_{k+1} and v_k is in y_k: what y_k shows of v_k tells of the noise to come.
With a triangular factor of the joint covariance [[Q, N], [Nᵀ, R]] and unit vectors ω_k, ε_k,

    [w_k]   [F  0] [ω_k]
    [v_k] = [H  G] [ε_k] ,

the state [x_k; ω_k] has independent noise, whatever the ranks:

    x_{k+1} = A x_k + F ω_k ,   ω_{k+1} new ,   y_k = C x_k + H ω_k + G ε_k
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.linalg import batched as stacked
from privest.linalg import psd

if TYPE_CHECKING:
    from privest.dynamics._system import StateSpace


def joint_covariance(Q: Array, R: Array, cross: Array) -> Array:
    """[[Q, N], [Nᵀ, R]] (1 or K, n + m, n + m), checked to be ≥ 0."""
    parts = [matrix if matrix.ndim == 3 else matrix[None] for matrix in (Q, R, cross)]
    length = max(len(part) for part in parts)
    Q, R, cross = (np.broadcast_to(part, (length, *part.shape[1:])) for part in parts)
    n = Q.shape[-1]
    joint = np.empty((length, n + R.shape[-1], n + R.shape[-1]))
    joint[:, :n, :n], joint[:, n:, n:] = Q, R
    joint[:, :n, n:], joint[:, n:, :n] = cross, cross.swapaxes(-1, -2)
    try:
        psd(joint, "it")
    except InvalidInput:
        raise InvalidInput(
            "cross cannot be the covariance of w_k and v_k: [[Q, cross], [crossᵀ, R]] is not ≥ 0."
        ) from None
    return joint


def independent_noise(system: StateSpace) -> StateSpace:
    """The system of [x_k; ω_k], whose noise is independent of that of its readings."""
    assert system.cross is not None
    lower = stacked.factor(joint_covariance(system.Q, system.R, system.cross)).lower
    # Eigenvectors, where the joint covariance is singular, are not triangular: QR makes them so.
    lower = np.asarray(np.linalg.qr(lower.swapaxes(-1, -2), mode="r")).swapaxes(-1, -2)
    n = system.states
    F, H, G = lower[:, :n, :n], lower[:, n:, :n], lower[:, n:, n:]
    A, C = _beside(system.A, F), _beside(system.C, H)
    A = np.concatenate([A, np.zeros_like(A)], axis=1)
    drive, start = np.zeros((2 * n, 2 * n)), np.eye(2 * n)
    drive[n:, n:], start[:n, :n] = np.eye(n), system.root0
    B = None if system.B is None else np.concatenate([system.B, 0.0 * system.B], axis=-2)
    D = None if system.diffuse is None else np.concatenate([system.diffuse, 0 * system.diffuse])
    result = type(system)(
        _plain(A), _plain(C), drive, _plain(_square(G)), [*system.mean0, *np.zeros(n)],
        _square(start), B=B, D=system.D, diffuse=D,
    )  # fmt: skip
    # The factors are known, and better than those of their squares.
    vars(result).update(Q_root=drive[None], R_root=G, root0=start)
    return result


def _plain(matrices: Array) -> Array:
    """Without the time axis where nothing changes."""
    return matrices if len(matrices) > 1 else np.asarray(matrices[0])


def _square(half: Array) -> Array:
    return np.asarray(half @ half.swapaxes(-1, -2))


def _beside(left: Array, right: Array) -> Array:
    """[left, right] (1 or K, …)."""
    left = left if left.ndim == 3 else left[None]
    length = max(len(left), len(right))
    pair = [np.broadcast_to(part, (length, *part.shape[1:])) for part in (left, right)]
    return np.concatenate(pair, axis=2)

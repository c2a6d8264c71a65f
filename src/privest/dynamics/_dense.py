"""States from a level whose releases look back to the first step.

All is linear in unit sources of noise s (x_0, then w_k and v_k of every step): x_k = E x_k + T_k s,
z̃ = E z̃ + M s + e. Given the releases up to k the precision of s is I + M_kᵀM_k = UᵀU, by QR of one
step more at a time:

    cov(x_k | z̃_0 … z̃_k) = T_k (UᵀU)⁻¹ T_kᵀ

a sum of squares: nothing is subtracted from a prior.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.dynamics._kalman import LOG_2PI, NARROWED
from privest.dynamics._steps import Matrices, at, of_entries, roots_of, stack
from privest.dynamics._system import joint_noise
from privest.errors import InvalidInput, NumericalFailure
from privest.privacy import SequentialLevel

MOST = 3000  # sources: 72 MB a factor, and seconds a hundred steps


class Dense(NamedTuple):
    """Covariances (K, n, n) and estimates (…, K, n) before, at and after each step; ζ, ℓ; x_K.

    ahead: mean (…, n) of the state after the last step, and a factor (n, ·) of its covariance.
    """

    predicted_covariance: Array
    covariance: Array
    smoothed_covariance: Array
    predicted: Array
    filtered: Array
    smoothed: Array
    innovations: Array
    log_likelihood: Array
    ahead: tuple[Array, Array]


def dense_pass(
    matrices: Matrices, level: SequentialLevel, missing: Flags, unit: float = 1.0,
    values: Array | None = None, inputs: Array | None = None,
) -> Dense:  # fmt: skip
    """Filter and smoother of all K steps; `values` (…, K, m) are z̃ in units of 1/unit.

    O(K²(n + m)) memory, O(K³) operations a state. Without values only covariances mean anything.
    """
    K, (m, n) = len(missing), matrices.C.shape[-2:]
    if matrices.diffuse.shape[1]:
        raise InvalidInput(
            "A dense level needs a proper start, and x_0 is diffuse: give cov0 (a large one)."
        )
    size = n + K * (n + m)
    if size > MOST:
        raise InvalidInput(
            f"A dense level of {K} steps has {size} unit sources of noise, more than {MOST}: take "
            "fewer steps, or a level that looks back a fixed number of steps."
        )
    u = np.zeros((K, matrices.B.shape[-1])) if inputs is None else inputs
    T, M = _maps(matrices, u)
    M = unit * rows_shown(level, missing, m) @ M
    mean, T, offset, M = T[..., -1], T[..., :-1], M[:, -1], M[:, :-1]
    shape = (1, K, m) if values is None else values.shape
    absent = np.broadcast_to(of_entries(missing), (K, m))
    z = np.zeros((1, K, m)) if values is None else values.reshape(-1, K, m)
    z = np.where(absent, 0.0, z - offset.reshape(K, m))
    S = len(z)
    upper, source = np.eye(size, order="F"), np.zeros((size, S))
    P = np.empty((3, K, n, n))
    means, zeta, logs = np.empty((3, S, K, n)), np.empty((S, K, m)), 0.0
    for k in range(K):
        P[0, k], means[0, :, k] = _square(upper, T[k]), (T[k] @ source).T
        own = M[k * m : (k + 1) * m]
        heard = scipy.linalg.solve_triangular(upper, own.T, trans="T")
        lower = np.linalg.cholesky(np.eye(m) + heard.T @ heard)
        white = np.linalg.solve(lower, z[:, k].T - own @ source)
        pull = heard @ np.linalg.solve(lower.T, white)
        source = source + scipy.linalg.solve_triangular(upper, pull)
        zeta[:, k], logs = white.T, logs + float(np.log(lower.diagonal()).sum())
        new, _, _, _ = scipy.linalg.lapack.dtpqrt(0, min(size, 32), upper, own)
        upper = np.asfortranarray(np.triu(new))
        P[1, k], means[1, :, k] = _square(upper, T[k]), (T[k] @ source).T
    for k in range(K):
        P[2, k], means[2, :, k] = _square(upper, T[k]), (T[k] @ source).T
    _require_digits(T[:K], P[1])
    fit = -0.5 * (np.square(zeta).sum(axis=(1, 2)) + int((~absent).sum()) * LOG_2PI) - logs
    zeta = np.where(absent, np.nan, zeta)
    last = mean[K] + (T[K] @ source).T
    root = scipy.linalg.solve_triangular(upper, T[K].T, trans="T").T
    ahead, now, after = ((mean[:K] + part).reshape(*shape[:-1], n) for part in means)
    return Dense(
        P[0], P[1], P[2], ahead, now, after, zeta.reshape(shape), fit.reshape(shape[:-2]),
        (last.reshape(*shape[:-2], n), root),
    )  # fmt: skip


def _maps(matrices: Matrices, inputs: Array) -> tuple[Array, Array]:
    """The states (K + 1, n, size + 1) and measurements (Km, size + 1) by sources; E last."""
    K, n, m = len(inputs), matrices.A.shape[-1], matrices.C.shape[-2]
    A, B, C, D = (stack(matrices[i]) for i in (0, 6, 1, 7))
    joint, size = roots_of(joint_noise(matrices)), n + K * (n + m)
    T, Y = np.zeros((K + 1, n, size + 1)), np.zeros((K, m, size + 1))
    T[0, :, :n], T[0, :, -1] = matrices.root0, matrices.mean0
    for k, u in enumerate(inputs):
        own, root = slice(n + k * (n + m), n + (k + 1) * (n + m)), at(joint, k)
        Y[k], T[k + 1] = at(C, k) @ T[k], at(A, k) @ T[k]
        Y[k, :, own] += root[n:]
        T[k + 1, :, own] += root[:n]
        Y[k, :, -1] += at(D, k) @ u
        T[k + 1, :, -1] += at(B, k) @ u
    return T, Y.reshape(K * m, -1)


def rows_shown(level: SequentialLevel, missing: Flags, m: int) -> Array:
    """A (Km, Km) of a dense level, without what is missing."""
    rows = np.array(level.dense_rows(0, len(missing)))
    absent = np.broadcast_to(of_entries(missing), (len(missing), m)).ravel()
    rows[absent], rows[:, absent] = 0.0, 0.0
    return rows


def _square(upper: Array, T: Array) -> Array:
    """T (UᵀU)⁻¹ Tᵀ."""
    half = scipy.linalg.solve_triangular(upper, T.T, trans="T")
    return np.asarray(half.T @ half)


def _require_digits(T: Array, covariance: Array) -> None:
    prior = np.einsum("kij,kij->ki", T, T)
    left = np.diagonal(covariance, axis1=1, axis2=2)
    if not (prior <= NARROWED**2 * left)[prior > 0].all():
        most = math.sqrt(float((prior / np.where(left > 0, left, np.nan)).max()))
        raise NumericalFailure(
            f"A state is known {most:.0e} times better after the releases than before them: "
            "rounding loses the difference (an unstable system, or a very vague start). Take fewer "
            "steps, a smaller cov0, or a level that looks back a fixed number of steps."
        )

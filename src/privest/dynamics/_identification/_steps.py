"""A model as the steps that a filter takes through a level, and derivatives carried back from them.

Plain:   x_k = A x_{k−1} + Bu + w ,   z̃_k = LᵀC x_k + LᵀDu + N ε ,   NNᵀ = LᵀRL + I.
Lagged:  the state is [x_k; y_k; …; y_{k−b}] with H = [I; C] in its first two parts,

    [x_k; y_k] = HA x_{k−1} + HBu + [0; Du] + N(0, HQHᵀ + diag(0, R)) ,   z̃_k = A_k [y_k; …] + e_k

Derivatives of these matrices go back to those of the model by the chain rule; step 0 has A = I and
Q = 0, and a step that shows nothing has C = 0, R = 0, L = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Index
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._plan import Plan
from privest.dynamics._observed import Observed, unit_noise
from privest.dynamics._system import each, stack
from privest.linalg import batched


class Derivatives(NamedTuple):
    """∂ℓ by what `Observed` holds: transition A, spread FFᵀ, rows G and noise NNᵀ of every kind,
    shift (K, N) and offset (K, r) of every step, start (N,) and cov (N, N) before step 0.
    """

    transition: Array
    spread: Array
    rows: Array
    noise: Array
    shift: Array
    offset: Array
    start: Array
    cov: Array


def steps_of(matrices: Matrices, plan: Plan, data: Data) -> tuple[Observed, Array, Array]:
    """What a filter sees, and what inputs add to the states (K, N) and to z̃ (K, r)."""
    n, m = matrices.A.shape[-1], matrices.C.shape[-2]
    transition, drive = _led(matrices, plan)
    C, noise = each(stack(matrices.C), plan.own), each(_root(matrices.R), plan.own)
    start, root = matrices.mean0, _root(matrices.cov0)[0]
    if not plan.reach:
        seen = Observed(
            transition, drive, plan.shown @ C, unit_noise(plan.shown @ noise), plan.kind,
            start, root, n, data.missing,
        )  # fmt: skip
        return seen, *input_terms(matrices, plan, data)
    moved, added = by_inputs(matrices, data)
    C[plan.absent], noise[plan.absent] = 0.0, 0.0
    J, N = len(plan.own), n + plan.shown.shape[-1]
    H = with_readings(C)
    A, F = np.zeros((J, N, N)), np.zeros((J, N, n + m))
    A[:, : n + m, :n], F[:, : n + m, :n], F[:, n : n + m, n:] = H @ transition, H @ drive, noise
    kept = np.arange(N - n - m)
    A[:, n + m + kept, n + kept] = 1.0
    rows = np.concatenate([np.zeros((J, m, n)), plan.shown], axis=2)
    mean, whole = np.zeros(N), np.zeros((N, N))
    mean[:n], whole[:n, :n] = start, root
    unit = np.broadcast_to(np.eye(m), (J, m, m))
    shift = np.zeros((data.steps, N))
    shift[:, : n + m] = (H[plan.kind] @ moved[:, :, None])[:, :, 0]
    shift[:, n : n + m] += np.where(data.missing[:, None], 0.0, added)
    seen = Observed(A, F, rows, unit, plan.kind, mean, whole, n, data.missing)
    return seen, shift, np.zeros_like(added)


def input_terms(matrices: Matrices, plan: Plan, data: Data) -> tuple[Array, Array]:
    """What inputs add to the states (K, n) and to releases that do not look back (K, r)."""
    moved, added = by_inputs(matrices, data)
    if data.inputs.shape[1]:
        if plan.single is None:
            added = (plan.shown[plan.kind] @ added[:, :, None])[:, :, 0]
        else:
            added = added @ plan.single.T
            added[data.missing] = 0.0
    return moved, added


def back_to_inputs(
    found: Derivatives, matrices: Matrices, plan: Plan, data: Data
) -> tuple[Array, Array]:
    """∂B and ∂D where releases do not look back."""
    u, added = data.inputs, found.offset
    if not u.shape[1]:
        return np.zeros_like(matrices.B), np.zeros_like(matrices.D)
    if plan.single is None:
        added = (plan.shown.swapaxes(1, 2)[plan.kind] @ added[:, :, None])[:, :, 0]
    else:  # a step that shows nothing has no surprise
        added = added @ plan.single
    return _outer(found.shift[1:], u[:-1], matrices.B), _outer(added, u, matrices.D)


def carried_back(found: Derivatives, matrices: Matrices, plan: Plan, data: Data) -> Matrices:
    """∂ℓ by the matrices of the model."""
    n, m, into = matrices.A.shape[-1], matrices.C.shape[-2], ~plan.begins
    led, u = plan.before[into], data.inputs
    if not plan.reach:
        back = plan.shown.swapaxes(1, 2)
        A, Q = found.transition, found.spread
        C, R = back @ found.rows, back @ found.noise @ plan.shown
        B, D = back_to_inputs(found, matrices, plan, data)
    else:
        size = n + m
        own = each(stack(matrices.C), plan.own)
        own[plan.absent] = 0.0
        H = with_readings(own)
        back = H.swapaxes(1, 2)
        here = ~plan.absent[:, None, None]
        moved = (back[plan.kind] @ found.shift[:, :size, None])[:, :, 0]
        added = np.where(data.missing[:, None], 0.0, found.shift[:, n:size])
        T, S = found.transition[:, :size, :n], found.spread[:, :size, :size]
        A, Q, R = back @ T, back @ S @ H, np.where(here, S[:, n:, n:], 0.0)
        transition, _ = _led(matrices, plan)
        covariance = each(stack(matrices.Q), plan.before)
        covariance[plan.begins] = 0.0
        C = T[:, n:] @ transition.swapaxes(1, 2) + 2.0 * S[:, n:] @ H @ covariance
        if u.shape[1]:
            C += by_kind(added[:, :, None], by_inputs(matrices, data)[0][:, :, None], plan)
        C = np.where(here, C, 0.0)
        B, D = _outer(moved[1:], u[:-1], matrices.B), _outer(added, u, matrices.D)
    return Matrices(
        _collected(A[into], led, matrices.A),
        _collected(C, plan.own, matrices.C),
        _collected(Q[into], led, matrices.Q),
        _collected(R, plan.own, matrices.R),
        found.start[:n],
        found.cov[:n, :n],
        B,
        D,
        np.zeros_like(matrices.diffuse),
    )


def by_kind(left: Array, right: Array, plan: Plan) -> Array:
    """Σ_k left_k right_kᵀ over the steps of each kind; (K, a, series), (K, b, series)."""
    kinds, steps = len(plan.own), len(plan.kind)
    if kinds == steps and plan.kind[0] == 0:  # each of its own kind, in order
        return np.asarray(left @ right.swapaxes(1, 2))
    found = np.empty((kinds, left.shape[1], right.shape[1]))
    for j in range(kinds):
        own = plan.kind == j
        found[j] = np.tensordot(left[own], right[own], axes=((0, 2), (0, 2)))
    return found


def _led(matrices: Matrices, plan: Plan) -> tuple[Array, Array]:
    """A and F that lead into each kind of step."""
    A, F = each(stack(matrices.A), plan.before), each(_root(matrices.Q), plan.before)
    A[plan.begins], F[plan.begins] = np.eye(A.shape[-1]), 0.0
    return A, F


def _root(covariance: Array) -> Array:
    return batched.factor(stack(covariance)).lower


def with_readings(C: Array) -> Array:
    """H = [I; C]."""
    n = C.shape[-1]
    return np.concatenate([np.broadcast_to(np.eye(n), (len(C), n, n)), C], axis=1)


def by_inputs(matrices: Matrices, data: Data) -> tuple[Array, Array]:
    """B_{k−1}u_{k−1}, 0 at step 0, and D_ku_k."""
    u, n, m = data.inputs, matrices.A.shape[-1], matrices.C.shape[-2]
    moved: Array = np.zeros((len(u), n))
    added: Array = np.zeros((len(u), m))
    if u.shape[1]:
        moved[1:] = _each_times(matrices.B, u[:-1])
        added = _each_times(matrices.D, u)
    return moved, added


def _each_times(matrix: Array, vectors: Array) -> Array:
    """M_kv_k of every step."""
    if matrix.ndim == 2:
        return np.asarray(vectors @ matrix.T)
    return np.asarray((matrix[: len(vectors)] @ vectors[:, :, None])[:, :, 0])


def _collected(parts: Array, steps: Index, like: Array) -> Array:
    """Sum over kinds, or each at its own step where the matrix has a time axis."""
    if like.ndim == 2:
        return np.asarray(parts.sum(axis=0))
    found = np.zeros_like(like)
    found[steps] = parts
    return found


def _outer(left: Array, right: Array, like: Array) -> Array:
    if not like.size:
        return np.zeros_like(like)
    if like.ndim == 2:
        return np.asarray(left.T @ right)
    found = np.zeros_like(like)
    found[: len(left)] = left[:, :, None] * right[:, None, :]
    return found

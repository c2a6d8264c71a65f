"""∂/∂t of what a filter sees of a model through a level: `_steps` differentiated forward."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._plan import Plan
from privest.dynamics._identification._steps import Derivatives, by_inputs, with_readings
from privest.dynamics._observed import Observed
from privest.dynamics._system import each, stack


def step_slopes(
    matrices: Matrices, slopes: Matrices, plan: Plan, data: Data, seen: Observed
) -> Derivatives:
    """Slopes by p parameters, a leading axis (p, …) on each: A, FFᵀ, G, NNᵀ of every kind, shift
    and offset of every step, start and its covariance.
    """
    A, Q = _led(slopes.A, matrices.A, plan), _led(slopes.Q, matrices.Q, plan)
    C, R = (_own(slope, own, plan.own) for slope, own in zip(slopes[1:4:2], matrices[1:4:2]))
    moved, added = _input_slopes(matrices, slopes, plan, data)
    if not plan.reach:
        shown = plan.shown
        noise = shown @ R @ shown.swapaxes(1, 2)
        return Derivatives(A, Q, shown @ C, noise, moved, added, slopes.mean0, slopes.cov0)
    p, n, m = len(A), A.shape[-1], C.shape[-2]
    J, N, size = len(plan.own), n + plan.shown.shape[-1], n + m
    C[:, plan.absent], R[:, plan.absent] = 0.0, 0.0
    own = each(stack(matrices.C), plan.own)
    own[plan.absent] = 0.0
    H = with_readings(own)
    turned = H.swapaxes(1, 2)
    led = each(stack(matrices.A), plan.before)
    covariance = each(stack(matrices.Q), plan.before)
    led[plan.begins], covariance[plan.begins] = np.eye(n), 0.0
    transition, spread = np.zeros((p, J, N, N)), np.zeros((p, J, N, N))
    transition[:, :, :size, :n] = H @ A
    transition[:, :, n:size, :n] += C @ led
    spread[:, :, :size, :size] = H @ Q @ turned
    turn = C @ covariance @ turned
    spread[:, :, n:size, :size] += turn
    spread[:, :, :size, n:size] += turn.swapaxes(-1, -2)
    spread[:, :, n:size, n:size] += R
    shift = np.zeros((p, data.steps, N))
    if data.inputs.shape[1]:
        before = by_inputs(matrices, data)[0]
        shift[:, :, :size] = (H[plan.kind] @ moved[..., None])[..., 0]
        shown_now = (C[:, plan.kind] @ before[:, :, None])[..., 0] + added
        shift[:, :, n:size] += np.where(data.missing[:, None], 0.0, shown_now)
    mean, cov = np.zeros((p, N)), np.zeros((p, N, N))
    mean[:, :n], cov[:, :n, :n] = slopes.mean0, slopes.cov0
    still = np.zeros((p, *seen.rows.shape)), np.zeros((p, J, m, m))
    return Derivatives(transition, spread, *still, shift, np.zeros_like(added), mean, cov)


def _own(slope: Array, like: Array, steps: Index) -> Array:
    """(p, J, …): the slopes of the matrices of these steps."""
    whole = slope if like.ndim == 3 else slope[:, None]
    return np.asarray(whole[:, np.minimum(steps, whole.shape[1] - 1)])


def _led(slope: Array, like: Array, plan: Plan) -> Array:
    found = _own(slope, like, plan.before)
    found[:, plan.begins] = 0.0
    return found


def _input_slopes(
    matrices: Matrices, slopes: Matrices, plan: Plan, data: Data
) -> tuple[Array, Array]:
    """Of Bu into the states (p, K, n), and of Du as releases show it (or, with lags, itself)."""
    p, steps, u = len(slopes.A), data.steps, data.inputs
    n, m = matrices.A.shape[-1], matrices.C.shape[-2]
    moved, added = np.zeros((p, steps, n)), np.zeros((p, steps, m))
    if u.shape[1]:
        B = slopes.B[:, : steps - 1] if matrices.B.ndim == 3 else slopes.B[:, None]
        D = slopes.D[:, :steps] if matrices.D.ndim == 3 else slopes.D[:, None]
        moved[:, 1:] = (B @ u[:-1, :, None])[..., 0]
        added[:] = (D @ u[:, :, None])[..., 0]
        if not plan.reach:
            added = (plan.shown[plan.kind] @ added[..., None])[..., 0]
    return moved, added

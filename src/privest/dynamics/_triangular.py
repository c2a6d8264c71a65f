"""Triangular square roots of many small matrices, by one compiled loop."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Flags, Index, room_for
from privest.dynamics import _loops as loops
from privest.linalg import _compiling as compiling


def triangular(half: Array) -> Array:
    """Lower-triangular L ≥ 0 on its diagonal with L Lᵀ = half halfᵀ, of each of (J, m, q).

    What is lower triangular already is returned as it is.
    """
    count, m, q = half.shape
    if q <= m and compiling.machine_code(loops.is_lower, "in3")(half):
        return half
    lower = np.empty((count, m, m))
    filled = half if q >= m else np.concatenate([half, np.zeros((count, m, m - q))], axis=2)
    loop = compiling.machine_code(loops.triangular_roots, "in3 out3", uses=(loops.triangle,))
    loop(filled, lower)
    return lower


def shown_steps(
    own: Index, hidden: Flags, shown: Array, C: Array, half: Array, unit: float
) -> tuple[Array, Array]:
    """G = unit·LᵀC (J, m, n) and N (J, m, m), N Nᵀ = unit²LᵀRL + I, of every kind of step.

    Stacks of L_kᵀ, C_k and R^½_k of one or K; own (J,): which of them a kind has; hidden (J,): it
    shows nothing, G = 0 and N = I.
    """
    m, n = shown.shape[1], C.shape[2]
    rows, noise = room_for((len(own), m, n), (len(own), m, m))
    loop = compiling.machine_code(
        loops.shown_steps, "index flags in3 in3 in3 float out3 out3", uses=(loops.triangle,)
    )
    if len(own) > 1 and len(shown) == len(C) == len(half) == 1:  # one for all that show something
        one, none = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.bool_)
        loop(one, none, shown, C, half, unit, rows[:1], noise[:1])
        rows[1:], noise[1:] = rows[0], noise[0]
        rows[hidden], noise[hidden] = 0.0, np.eye(m)
        return rows, noise
    loop(own, hidden, shown, C, half, unit, rows, noise)
    return rows, noise

"""Triangular square roots of many small matrices, by one compiled loop."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
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
    compiling.machine_code(loops.triangular_roots, "in3 out3")(filled, lower)
    return lower

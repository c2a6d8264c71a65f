"""The loops of a long stream (`linalg._loops`) as machine code, where numba is installed."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.linalg import _loops as loops
from privest.linalg import compiling
from privest.linalg.cumulative import Kernel
from privest.linalg.tolerances import INFLATION

LONG = 50_000  # readings from which on compiling (or reading the cache) pays


def wanted(compiled: bool | None, readings: int) -> bool:
    """Whether to use the compiled loops; None decides by length, True insists."""
    return compiling.wanted(compiled, readings >= LONG)


def _run(
    columns: Array,
    ends: Index | None,
    carry: Array,
    bounds: Array,
    estimates: Array | None,
    at: int,
) -> tuple[Array, Flags]:
    steps = columns.shape[1] if ends is None else len(ends)
    own, good = np.zeros(carry.shape), np.empty(steps, dtype=np.bool_)
    counts = np.zeros(0, dtype=np.int64) if ends is None else ends.astype(np.int64, copy=False)
    target = np.zeros((0, 0)) if estimates is None else estimates
    loop = compiling.machine_code(
        loops.every_step, "in2 index in2 out3 out2 int float out2 outflags"
    )
    loop(columns, counts, carry, bounds, target, at, INFLATION, own, good)
    return own, good


kernel = Kernel(_run, "C")


def whiten_banded(shown: Array, deviation: Array, matrix: Array, release: Array) -> Array | None:
    """[G ζ] as columns (n + 1, K) for scalar readings that look back b steps.

    shown (b + 1, K) by lag, deviation √Σ (K,), H (K, n), releases (K,) or (0,) for G alone:
    V = A Σ Aᵀ + I = C Cᵀ row by row, G = C⁻¹A H, ζ = C⁻¹z̃. None where V is numerically singular.
    O(K b²) time, O(b²) memory besides the result.
    """
    result = np.empty((matrix.shape[1] + (len(release) > 0), len(matrix)))
    loop = compiling.machine_code(loops.banded_rows, "in2 in1 in2 in1 out2")
    return result if loop(shown, deviation, matrix, release, result) < 0 else None


def gram(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Array:
    """Σ x xᵀ of the rows x = [g∘H, u∘z − v], (n + 1, n + 1)."""
    size = matrix.shape[1] + 1
    result = np.empty((size, size))
    vectors = [np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (weight, unit, shift)]
    loop = compiling.machine_code(loops.gram, "rows2 in1 in1 in1 in1 out2", reassociate=True)
    loop(np.ascontiguousarray(matrix), right, *vectors, result)
    return result

"""The loops of a long stream as machine code, by numba (the extra `compiled`).

`linalg._loops` is plain Python until a loop is first used; then numba compiles it and keeps what it
made in a cache file. No threads; of relaxed arithmetic only a·b + c rounded once (and sums in any
order where the loop says so).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from privest.arrays import Array, Flags, Index
from privest.errors import MissingDependency
from privest.linalg import _loops as loops
from privest.linalg._cumulative import Kernel
from privest.linalg.tolerances import INFLATION

LONG = 50_000  # readings from which on compiling (or reading the cache) pays


def wanted(compiled: bool | None, readings: int) -> bool:
    """Whether to use the compiled loops; None decides by length, True insists."""
    if compiled is False or (compiled is None and readings < LONG):
        return False
    installed = importlib.util.find_spec("numba") is not None
    if compiled and not installed:
        raise MissingDependency(
            "compiled=True needs numba: pip install 'privest[compiled]', or leave `compiled` out."
        )
    return installed


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
    loop = _compiled(loops.every_step, "in2 ends in2 out3 out2 int float out2 flags")
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
    loop = _compiled(loops.banded_rows, "in2 in1 in2 in1 out2")
    return result if loop(shown, deviation, matrix, release, result) < 0 else None


def gram(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Array:
    """Σ x xᵀ of the rows x = [g∘H, u∘z − v], (n + 1, n + 1)."""
    size = matrix.shape[1] + 1
    result = np.empty((size, size))
    vectors = [np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (weight, unit, shift)]
    loop = _compiled(loops.gram, "rows2 in1 in1 in1 in1 out2", reassociate=True)
    loop(np.ascontiguousarray(matrix), right, *vectors, result)
    return result


@cache
def _compiled(
    function: Callable[..., Any], arguments: str, *, reassociate: bool = False
) -> Callable[..., Any]:
    """Compiled for these kinds of arguments: "in2" is any matrix, "out2" a contiguous one."""
    import numba

    real = numba.float64
    kinds = {"int": numba.int64, "float": real, "ends": numba.int64[:], "flags": numba.boolean[:]}
    kinds |= {f"in{d}": numba.types.Array(real, d, "A", readonly=True) for d in (1, 2)}
    kinds["rows2"] = numba.types.Array(real, 2, "C", readonly=True)
    kinds |= {f"out{d}": numba.types.Array(real, d, "C") for d in (2, 3)}
    signature = tuple(kinds[kind] for kind in arguments.split())

    def compiled(cache: bool) -> Callable[..., Any]:
        # error_model: 1/0 is inf, as in NumPy, instead of an exception that stops vectorising
        # contract: a·b + c is rounded once; reassociate: a sum may be taken in another order
        relaxed = {"reassoc", "contract"} if reassociate else {"contract"}
        compiler = numba.njit(signature, cache=cache, error_model="numpy", fastmath=relaxed)
        loop: Callable[..., Any] = compiler(function)
        return loop

    try:
        return compiled(True)
    except (RuntimeError, OSError):  # nowhere to write the cache: compile for this process
        return compiled(False)

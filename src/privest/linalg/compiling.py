"""Loops as machine code, by numba (the extra `dynamics`): the one place that imports it.

A loop is compiled when it is first used, and kept in a cache file beside its own. No threads; the
only relaxed arithmetic is a·b + c rounded once.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any

Loop = Callable[..., Any]


@cache
def installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def where_installed(function: Loop, arguments: str, *, uses: tuple[Loop, ...] = ()) -> Loop:
    """`machine_code` of a loop where numba is installed, else the loop as it is: slow."""
    return machine_code(function, arguments, uses=uses) if installed() else function


@cache
def machine_code(function: Loop, arguments: str, *, uses: tuple[Loop, ...] = ()) -> Loop:
    """The loop `function` compiled for these kinds of arguments, one word each.

        int, float, flag           numbers and truth values
        in1 … in4                  floats of any layout, read only
        rows1 … rows4              floats in C order, read only: quicker than `in`
        out1 … out4                floats in C order, written to
        index, flags               (K,) whole numbers, truth values, read only
        outindex, outflags         the same in C order, written to

    Arrays must be float64, int64 (np.intp) and bool. `uses`: plain functions of its own file (a
    cache file knows when that one changes) that the loop calls; they may call those before them.
    """
    import numba

    real, whole, truth = numba.float64, numba.int64, numba.boolean
    kinds = {"int": whole, "float": real, "flag": truth}
    for d in (1, 2, 3, 4):
        kinds[f"in{d}"] = numba.types.Array(real, d, "A", readonly=True)
        kinds[f"rows{d}"] = numba.types.Array(real, d, "C", readonly=True)
        kinds[f"out{d}"] = numba.types.Array(real, d, "C")
    for name, kind in (("index", whole), ("flags", truth)):
        kinds[name] = numba.types.Array(kind, 1, "A", readonly=True)
        kinds[f"out{name}"] = numba.types.Array(kind, 1, "C")
    signature = tuple(kinds[kind] for kind in arguments.split())
    # error_model: 1/0 is inf, as in NumPy, instead of an exception that stops vectorising
    options = {"error_model": "numpy", "fastmath": {"contract"}}
    helpers: dict[str, Loop] = {}
    for helper in uses:
        helpers[helper.__name__] = numba.njit(forceinline=True, **options)(_with(helper, helpers))
    loop = _with(function, helpers)
    try:
        found: Loop = numba.njit(signature, cache=True, **options)(loop)
    except (RuntimeError, OSError):  # nowhere to write the cache: compile for this process
        found = numba.njit(signature, cache=False, **options)(loop)
    return found


def _with(function: Loop, helpers: Mapping[str, Loop]) -> Loop:
    if not helpers:
        return function
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, {**function.__globals__, **helpers}, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip

"""Loops as machine code, by numba (the extra `compiled`): the one place that imports it.

A loop is compiled when it is first used, and kept in a cache file beside its own. No threads;
relaxed arithmetic is a·b + c rounded once (and sums in any order where the loop says so).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any

from privest.arrays import as_flag
from privest.errors import MissingDependency

Loop = Callable[..., Any]


@cache
def installed() -> bool:
    """Whether numba is there."""
    return importlib.util.find_spec("numba") is not None


def wanted(compiled: bool | None, long: bool) -> bool:
    """Whether to use a compiled loop; None decides by what is `long`, True insists."""
    if compiled is False or (compiled is None and not long):
        return False
    there = installed()
    if compiled is not None and as_flag(compiled, "compiled") and not there:
        raise MissingDependency(
            "compiled=True needs numba: pip install 'privest[compiled]', or leave `compiled` out."
        )
    return there


def where_installed(function: Loop, arguments: str, *, uses: tuple[Loop, ...] = ()) -> Loop:
    """`machine_code` of a loop where numba is installed, else the loop as it is: slow."""
    if not installed():
        return function
    return machine_code(function, arguments, uses=uses, inline=True)


@cache
def machine_code(
    function: Loop, arguments: str, *, reassociate: bool = False, uses: tuple[Loop, ...] = (),
    inline: bool = False,
) -> Loop:  # fmt: skip
    """The loop `function` compiled for these kinds of arguments, one word each.

        int, float, flag           numbers and truth values
        in1 … in4                  floats of any layout, read only
        rows1 … rows4              floats in C order, read only: quicker than `in`
        out1 … out4                floats in C order, written to
        index, flags               (K,) whole numbers, truth values, read only
        outindex, outflags         the same in C order, written to

    Arrays must be float64, int64 (np.intp) and bool. `uses`: the plain functions that the loop
    calls, in its own file (a cache file knows when that one changes); they may call those before
    them. `inline`: they become part of it.
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
    # contract: a·b + c is rounded once; reassociate: a sum may be taken in another order
    relaxed = {"reassoc", "contract"} if reassociate else {"contract"}
    options = {"error_model": "numpy", "fastmath": relaxed}
    helpers: dict[str, Loop] = {}
    for helper in uses:
        helpers[helper.__name__] = numba.njit(forceinline=inline, **options)(_with(helper, helpers))
    loop = _with(function, helpers)
    try:
        return _compiled(loop, signature, cache=True, **options)
    except (RuntimeError, OSError):  # nowhere to write the cache: compile for this process
        return _compiled(loop, signature, cache=False, **options)


def _compiled(loop: Loop, signature: tuple[Any, ...], **options: Any) -> Loop:  # noqa: ANN401
    import numba

    found: Loop = numba.njit(signature, **options)(loop)
    return found


def _with(function: Loop, helpers: Mapping[str, Loop]) -> Loop:
    """The same code with these functions in place of those of their names."""
    if not helpers:
        return function
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, {**function.__globals__, **helpers}, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip

"""Loops as machine code, by numba (the extra `compiled`): the one door to it for all rooms.

A loop is plain Python until it is first used; then numba compiles it and keeps what it made in a
cache file beside the file of the loop. No threads; of relaxed arithmetic only a·b + c rounded once
(and sums in any order where the loop says so).
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
    constants: tuple[tuple[str, int], ...] = (), inline: bool = False,
) -> Loop:  # fmt: skip
    """The loop `function` compiled for these kinds of arguments, one word each.

        int, float, flag           numbers and truth values
        in1 … in4                  floats of any layout, read only
        rows1 … rows4              floats in C order, read only: quicker than `in`
        out1 … out4                floats in C order, written to
        index, flags               (K,) whole numbers, truth values, read only
        outindex, outflags         the same in C order, written to

    Arrays must be float64, int64 (np.intp) and bool. `uses` are the plain functions that the loop
    calls, which must be in the file of the loop: a cache file knows when that one changes. They may
    call those before them in `uses`. `constants`: values of constants of the file of the loop, for
    this version of it (of the loop alone, not of what it uses), which has a cache file of its own.
    `inline`: what it uses becomes part of it.
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
    loop = _with(function, {**helpers, **dict(constants)})
    if constants:  # cache files go by name: a constant is no part of what they compare
        loop.__qualname__ += "".join(f"_{name}_{value}" for name, value in constants)
    try:
        return _made(numba.njit(signature, cache=True, **options), loop)
    except (RuntimeError, OSError):  # nowhere to write the cache: compile for this process
        return _made(numba.njit(signature, cache=False, **options), loop)


def _made(compiler: Callable[[Loop], Loop], function: Loop) -> Loop:
    return compiler(function)


def _with(function: Loop, helpers: Mapping[str, Loop | int]) -> Loop:
    """The same code with these functions and constants in place of those of their names."""
    if not helpers:
        return function
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, {**function.__globals__, **helpers}, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip

"""ℓ and its derivatives as machine code (`_loops`, `_plain_loops`): a pass forward, a pass back."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from privest.arrays import AnyArray, Array
from privest.dynamics._identification import _loops as loops
from privest.dynamics._identification import _plain_loops as plain
from privest.dynamics._identification._adjoint import Passed
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._plan import Plan
from privest.dynamics._identification._steps import (
    Derivatives,
    back_to_inputs,
    input_terms,
    steps_of,
)
from privest.dynamics._machine import wanted as enough_steps
from privest.dynamics._system import stack
from privest.linalg import _compiling as compiling
from privest.linalg._compiling import Loop

LARGEST = 16  # states from which on BLAS on tables of settled steps is quicker
NONE = np.zeros((0, 0))


def wanted(compiled: bool | None, states: int, steps: int) -> bool:
    """Whether to use machine code: True insists; None: for small states, after many steps of this
    process (`dynamics._machine`), where numba is installed.
    """
    if compiled is None and states > LARGEST:
        return False
    return enough_steps(compiled, steps)


@cache
def _loops() -> tuple[Loop, Loop]:
    """The pass forward and the pass back."""
    code = compiling.machine_code
    step = loops.triangle, loops.filtered_step, loops.changed, loops.settles, loops.closed_loop
    forward = code(
        loops.filter_loop,
        "rows3 rows3 rows3 rows3 index rows2 rows2 rows3 rows2 rows2 outindex outindex out3 out3 "
        "out3 out3 out3 outindex",
        uses=(*step, loops.scalar_ahead, loops.heard_of_start),
    )
    back = code(
        loops.adjoint_loop,
        "rows3 rows3 index rows2 int int index index rows3 rows3 rows3 rows3 rows3 "
        "out3 out3 out3 out3 out2 out2 out1 out2",
        uses=(*step[2:], loops.expected_step, loops.scalar_back),
    )
    return forward, back


@cache
def _plain_loops() -> tuple[Loop, Loop]:
    """Of releases that do not look back: tables of a model, and derivatives back to it."""
    code = compiling.machine_code
    tables = code(
        plain.plain_tables,
        "rows3 rows3 rows3 rows3 rows2 index index flags rows3 out3 out3 out3 out3 out2",
        uses=(plain.root_of,),
    )
    back = code(
        plain.plain_back,
        "index index flags rows3 rows3 rows3 rows3 rows3 out3 out3 out3 out3",
    )
    return tables, back


class _Tables(NamedTuple):
    """A, F, G, N of every kind of step, and the factor before step 0."""

    transition: Array
    drive: Array
    rows: Array
    noise: Array
    root: Array


def passed(matrices: Matrices, plan: Plan, data: Data) -> Passed | None:
    """`_adjoint.passed`; None where a covariance overflows."""
    steps, r, series = data.values.shape
    n, q = matrices.diffuse.shape
    if plan.reach:
        seen, shift, offset = steps_of(matrices, plan, data)
        noise = np.ascontiguousarray(seen.noise)
        own = _Tables(seen.transition, seen.drive, seen.rows, noise, seen.root)
    else:
        own = _plain(matrices, plan)
        shift, offset = NONE, NONE
        if data.inputs.shape[1]:
            shift, offset = input_terms(matrices, plan, data)
    N = own.transition.shape[1]
    begun = np.zeros((N, series + q))
    begun[:n, :series], begun[:n, series:] = matrices.mean0[:, None], matrices.diffuse
    entry, first = np.empty(steps, dtype=np.int64), np.empty(steps, dtype=np.int64)
    whiten, gain = np.empty((steps, r, r)), np.empty((steps, N, r))
    covariance = np.empty((steps + 1, N, N))
    blank = np.zeros if q else np.empty  # what x_0 did to the states ends before the steps do
    filtered, zeta = blank((steps, N, series + q)), blank((steps, r, series + q))
    live = np.empty(1, dtype=np.int64)
    found = entry, first, whiten, gain, covariance
    logs = _loops()[0](
        own.transition, own.drive, own.rows, own.noise, plan.kind, own.root, begun, data.values,
        shift, offset, *found, filtered, zeta, live,
    )  # fmt: skip
    if math.isnan(logs):
        return None
    back = partial(_derivatives, own, plan, shift, found)
    last = covariance[entry[-1]]
    return Passed(begun, filtered, zeta, logs, last, int(live[0]), back, compiled=True)


def _plain(matrices: Matrices, plan: Plan) -> _Tables:
    n, m, (kinds, r, _) = matrices.A.shape[-1], matrices.C.shape[-2], plan.shown.shape
    own = _Tables(
        np.empty((kinds, n, n)), np.empty((kinds, n, n)), np.empty((kinds, r, n)),
        np.empty((kinds, r, m + r)), np.empty((n, n)),
    )  # fmt: skip
    _plain_loops()[0](
        *(np.ascontiguousarray(stack(part)) for part in matrices[:4]),
        np.ascontiguousarray(matrices.cov0), plan.own, plan.before, plan.begins, plan.shown,
        *own,
    )  # fmt: skip
    return own


def plain_back(found: Derivatives, matrices: Matrices, plan: Plan, data: Data) -> Matrices:
    """`_steps.carried_back` where releases do not look back."""
    parts = [np.zeros_like(stack(part)) for part in matrices[:4]]
    _plain_loops()[1](plan.own, plan.before, plan.begins, plan.shown, *found[:4], *parts)
    A, C, Q, R = (part.reshape(own.shape) for part, own in zip(parts, matrices))
    B, D = back_to_inputs(found, matrices, plan, data)
    still = np.zeros_like(matrices.diffuse)
    return Matrices(A, C, Q, R, found.start, found.cov, B, D, still)


def _derivatives(
    own: _Tables, plan: Plan, shift: Array, found: tuple[AnyArray, ...], way: Passed, series: int
) -> Derivatives:
    kinds, r, N = own.rows.shape
    steps = len(shift)  # 0 without inputs
    result = Derivatives(
        np.zeros((kinds, N, N)), np.zeros((kinds, N, N)), np.zeros((kinds, r, N)),
        np.zeros((kinds, r, r)), np.zeros((steps, N)), np.zeros((steps, r)),
        np.zeros(N), np.zeros((N, N)),
    )  # fmt: skip
    _loops()[1](
        own.transition, own.rows, plan.kind, way.begun, series, way.live, *found,
        way.filtered, way.innovations, *result,
    )  # fmt: skip
    return result

"""One step of the filter with nothing around it, for releases as they come."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics import _loops as loops
from privest.dynamics._graded import GROWN
from privest.dynamics._machine import STEP
from privest.dynamics._recursions import Tables
from privest.dynamics._sweep import factor_step
from privest.linalg import _compiling as compiling
from privest.linalg.batched import substitute


class Single(NamedTuple):
    """x̂_{k|k−1}, P_{k|k−1}, ζ, x̂_{k|k}, P_{k|k}, each with a leading axis of one step; factor B⁺.

    deviance: Σζᵀζ + 2 log det c.
    """

    ahead: Array
    spread: Array
    fresh: Array
    mean: Array
    covariance: Array
    factor: Array
    deviance: float


def compiled_single(
    tables: Tables, values: Array, unit: float, mean: Array, root: Array
) -> Single | None:
    """From mean and factor of the step before to those of this one; None if it is no ordinary one.

    tables: A, F, G, N with a leading axis of one; z̃ = unit·values.
    """
    N, r = len(mean), len(values)
    ahead, spread, new = np.empty((1, N)), np.empty((1, N, N)), np.empty((1, N))
    fresh, narrow, factor = np.empty((1, r)), np.empty((1, N, N)), np.empty((N, N))
    deviance = _loop()(
        *tables, values, unit, GROWN, mean, root, ahead[0], spread, fresh[0], new[0], narrow,
        factor,
    )  # fmt: skip
    if not math.isfinite(deviance):
        return None
    return Single(ahead, spread, fresh, new, narrow, factor, deviance)


def _loop() -> compiling.Loop:
    return compiling.machine_code(
        loops.single_step,
        "rows3 rows3 rows3 rows3 in1 float float in1 in2 out1 out3 out1 out1 out3 out2",
        uses=STEP,
    )


def plain_single(
    tables: Tables, values: Array, unit: float, mean: Array, root: Array
) -> Single | None:
    """The same with LAPACK."""
    A, F, G, noise = (table[0] for table in tables)
    with np.errstate(over="ignore", invalid="ignore"):
        seen = G @ root
        if not (np.einsum("ij,ij->i", seen, seen) <= GROWN * np.square(noise).sum(axis=1)).all():
            return None
        lower, moved = factor_step(root, A, F, G, noise)
        r = len(G)
        scale, factor = lower[:r, :r], lower[r:, r:]
        narrow, spread = factor @ factor.T, moved.T @ moved
        if not (np.isfinite(narrow.sum()) and scale.diagonal().all()):
            return None
    ahead = A @ mean
    fresh = substitute(scale, unit * values - G @ ahead, lower=True)
    new = ahead + lower[r:, :r] @ fresh
    deviance = float(fresh @ fresh) + 2.0 * sum(map(math.log, scale.diagonal().tolist()))
    if not math.isfinite(deviance):
        return None
    return Single(ahead[None], spread[None], fresh[None], new[None], narrow[None], factor, deviance)

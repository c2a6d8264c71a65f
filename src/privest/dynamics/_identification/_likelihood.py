"""The log-likelihood of releases under a state-space model, and its gradient."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification import _machine as machine
from privest.dynamics._identification._adjoint import Passed, passed
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._diffuse import profiled
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._plan import Plan
from privest.dynamics._identification._steps import carried_back, steps_of
from privest.dynamics._means import LOG_2PI


def log_likelihood(matrices: Matrices, data: Data, *, compiled: bool | None = None) -> float:
    """ℓ of all series: the sum of `Filtered.log_likelihood`.

    For a diffuse start the limit of ℓ + (q/2) log κ, κI the covariance of δ (`_diffuse`).
    `compiled`: by numba's loops or not; None: once many steps were taken, for small states.
    """
    return _value(matrices, data, compiled)[0]


def value_and_gradient(
    matrices: Matrices, data: Data, *, compiled: bool | None = None
) -> tuple[float, Matrices]:
    """ℓ and ∂ℓ by every matrix (dℓ = Σ ⟨∂X, dX⟩), in the shapes of the matrices.

    The adjoint recursion (`_adjoint`): about twice the cost of ℓ, whatever the number of
    parameters. Symmetric for Q, R and cov0; `diffuse` is constant.
    """
    value, plan, way = _value(matrices, data, compiled)
    found = way.back(way, data.series)
    if way.compiled and not plan.reach:
        return value, machine.plain_back(found, matrices, plan, data)
    return value, carried_back(found, matrices, plan, data)


def last_state(matrices: Matrices, data: Data) -> tuple[float, Array, Array]:
    """ℓ, and x̂_{K−1|K−1} (n, series) with its covariance (n, n), that of an unknown δ included."""
    value, _, way = _value(matrices, data, None)
    n = len(matrices.mean0)
    # Columns times S^{−½}, √series times: what is not known of δ.
    start = way.filtered[-1, :n, data.series :] / math.sqrt(data.series)
    return value, way.filtered[-1, :n, : data.series], way.last[:n, :n] + start @ start.T


def first_state(matrices: Matrices, data: Data) -> Array:
    """x_0 = mean0 + diffuse·δ̂ of each series, (n, series)."""
    return _value(matrices, data, None)[2].begun[: len(matrices.mean0), : data.series]


def _value(matrices: Matrices, data: Data, compiled: bool | None) -> tuple[float, Plan, Passed]:
    plan = plan_for(matrices, data)
    way = None
    states = matrices.A.shape[-1] + (plan.shown.shape[-1] if plan.reach else 0)
    if machine.wanted(compiled, states, data.steps):
        way = machine.passed(matrices, plan, data)
    if way is None:  # also where a covariance overflows: the error is said there
        seen, shift, offset = steps_of(matrices, plan, data)
        columns = np.zeros((len(seen.start), matrices.diffuse.shape[1]))
        columns[: seen.states] = matrices.diffuse
        way = passed(seen, plan, data.values, shift, offset, columns)
    way, logs = profiled(way, data.series)
    fresh = way.innovations[:, :, : data.series].ravel()
    total = fresh @ fresh + data.shown * (LOG_2PI - 2.0 * math.log(data.unit))
    return -0.5 * float(total + data.series * (2.0 * way.logs + logs)), plan, way


def plan_for(matrices: Matrices, data: Data) -> Plan:
    """How the level shows the steps of this model."""
    varying = any(part.ndim == 3 for part in (*matrices[:4], matrices.B, matrices.D))
    return data.varying if varying else data.constant

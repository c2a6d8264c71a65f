"""The log-likelihood of releases under a state-space model, and its gradient."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification._adjoint import Passed, derivatives, passed
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._diffuse import profiled
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._plan import Plan
from privest.dynamics._identification._steps import carried_back, steps_of
from privest.dynamics._means import LOG_2PI
from privest.dynamics._observed import Observed


def log_likelihood(matrices: Matrices, data: Data) -> float:
    """ℓ of all series: the sum of `Filtered.log_likelihood`.

    For a diffuse start the limit of ℓ + (q/2) log κ, κI the covariance of δ (`_diffuse`).
    """
    return _value(matrices, data)[0]


def value_and_gradient(matrices: Matrices, data: Data) -> tuple[float, Matrices]:
    """ℓ and ∂ℓ by every matrix (dℓ = Σ ⟨∂X, dX⟩), in the shapes of the matrices.

    The adjoint recursion (`_adjoint`): about twice the cost of ℓ, whatever the number of
    parameters. Symmetric for Q, R and cov0; `diffuse` is constant.
    """
    value, seen, plan, way = _value(matrices, data)
    found = derivatives(seen, plan, way, data.series)
    return value, carried_back(found, matrices, plan, data)


def last_state(matrices: Matrices, data: Data) -> tuple[float, Array, Array]:
    """ℓ, and x̂_{K−1|K−1} (n, series) with its covariance (n, n), that of an unknown δ included."""
    value, seen, _, way = _value(matrices, data)
    n = seen.states
    root = way.sweep.table.factor[way.sweep.entry[-1]][:n]
    # Columns times S^{−½}, √series times: what is not known of δ.
    start = way.filtered[-1, :n, data.series :] / math.sqrt(data.series)
    return value, way.filtered[-1, :n, : data.series], root @ root.T + start @ start.T


def _value(matrices: Matrices, data: Data) -> tuple[float, Observed, Plan, Passed]:
    varying = any(part.ndim == 3 for part in (*matrices[:4], matrices.B, matrices.D))
    plan = data.varying if varying else data.constant
    seen, shift, offset = steps_of(matrices, plan, data)
    columns = np.zeros((len(seen.start), matrices.diffuse.shape[1]))
    columns[: seen.states] = matrices.diffuse
    way = passed(seen, data.values, shift, offset, columns)
    way, logs = profiled(way, data.series)
    fresh = way.innovations[:, :, : data.series].ravel()
    total = fresh @ fresh + data.shown * (LOG_2PI - 2.0 * math.log(data.unit))
    return -0.5 * float(total + data.series * (2.0 * way.logs + logs)), seen, plan, way

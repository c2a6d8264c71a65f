"""The next states and readings under one model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics._releases import Data
from privest.dynamics._kalman import last_state
from privest.dynamics._steps import Matrices


class Ahead(NamedTuple):
    """x_{K+h} and y_{K+h} under one θ: means (h, n or m, series), covariances (h, n or m, …)."""

    states: Array
    state_covariance: Array
    readings: Array
    reading_covariance: Array


def ahead_of(matrices: Matrices, data: Data, inputs: Array) -> tuple[float, Ahead]:
    """ℓ, and the next steps under one model; inputs (1 + h, p), those of step K − 1 first."""
    value, mean, P = last_state(matrices, data)
    A, C, Q, R = matrices.A, matrices.C, matrices.Q, matrices.R
    moved, added = inputs @ matrices.B.T, inputs @ matrices.D.T
    h, (n, series), m = len(inputs) - 1, mean.shape, len(C)
    found = Ahead(
        np.empty((h, n, series)), np.empty((h, n, n)), np.empty((h, m, series)), np.empty((h, m, m))
    )
    for k in range(h):
        mean = A @ mean + moved[k, :, None]
        P = A @ P @ A.T + Q
        found.states[k], found.state_covariance[k] = mean, P
        found.readings[k] = C @ mean + added[k + 1, :, None]
        found.reading_covariance[k] = C @ P @ C.T + R
    return value, found

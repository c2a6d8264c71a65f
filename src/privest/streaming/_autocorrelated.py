"""Autocorrelated measurements of a stream: AR(1) errors, fitted from all releases at the end.

y_k = h_kβ + u_k ,   u_k = φu_{k−1} + w_k ,   var u = γ₀
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator.inference import BlockSums, SerialErrors, serial_errors

CHANCE = 0.9973  # confidence at which φ ≠ 0 counts as autocorrelation: three standard errors


@dataclass(frozen=True)
class AutocorrelatedFit:
    """β̂ with its standard errors of the model and by blocks of the whitened rows; φ̂ and γ̂₀.

    remembers   whether the profile interval of φ leaves out 0.
    """

    estimate: Array
    standard_error: Array
    by_blocks: SerialErrors
    correlation: float
    noise_variance: float
    remembers: bool


def fit_autocorrelated(
    level: pv.EndlessLevel, release: pv.StreamRelease, rows: Array
) -> AutocorrelatedFit:
    """Maximum likelihood of `RegressionAR(1)` with the rows H (K, n) as inputs."""
    if level.block != 1:
        raise InvalidInput(
            "Autocorrelated errors are fitted to releases of one measurement per step; received "
            f"steps of {level.block}."
        )
    n = rows.shape[1]
    fit = pv.dynamics.fit(pv.dynamics.RegressionAR(1, n), release, level=level, inputs=rows)
    phi, q = (float(part) for part in fit.estimate[:2])
    low, high = fit.interval(CHANCE)[0]
    remembers = bool(low > 0 or high < 0)
    variance = q / (1.0 - phi**2)
    sums = BlockSums(n)
    system = pv.dynamics.StateSpace(A=phi, C=1.0, Q=q, R=0.0, cov0=variance, D=1.0)
    sums.add(_whitened(system, level, release, rows))
    by_blocks = replace(
        serial_errors(sums, fit.estimate[2:]), correlation=phi if remembers else 0.0
    )
    return AutocorrelatedFit(
        fit.estimate[2:], fit.standard_error[2:], by_blocks, phi, variance, remembers
    )


def autoregressive_system(
    correlation: float, variance: float, measurements: int = 1
) -> pv.dynamics.StateSpace:
    """u of some steps in time as one state, stationary: cov u_k, u_{k+l} = γ₀φ^l.

    >>> autoregressive_system(0.5, 1.0, 2).Q.tolist()  # 1 − φ², 1 − φ⁴, φ − φ³
    [[0.75, 0.375], [0.375, 0.9375]]
    """
    place = np.arange(1, measurements + 1)
    apart = correlation ** np.abs(np.subtract.outer(place, place))
    before = correlation**place
    A = np.zeros((measurements, measurements))
    A[:, -1] = before
    return pv.dynamics.StateSpace(
        A=A, C=np.eye(measurements), Q=variance * (apart - np.outer(before, before)), R=0.0,
        cov0=variance * apart,
    )  # fmt: skip


def _whitened(
    system: pv.dynamics.StateSpace, level: pv.EndlessLevel, release: pv.StreamRelease, rows: Array
) -> Array:
    """[G, ζ] (K, n + 1): the rows of H and the releases as innovations of unit variance."""

    def innovations(known: Array) -> Array:
        found = pv.dynamics.filter(system, release, level=level, inputs=known[:, None])
        return np.nan_to_num(found.innovations[:, 0])

    own = innovations(np.zeros(len(rows)))  # an input h takes its whitened self off the innovation
    return np.column_stack([*(own - innovations(column) for column in rows.T), own])

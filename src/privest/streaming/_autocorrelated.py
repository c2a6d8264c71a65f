"""Regression with AR(1) errors from all releases of a stream, and its errors by blocks of time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

import privest as pv
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator.inference import BlockSums, SerialErrors, serial_errors

CHANCE = 9.0  # twice the log-likelihood that φ ≠ 0 must gain to be more than chance (3 deviations)


@dataclass(frozen=True)
class AutocorrelatedFit:
    """y_k = h_kβ + u_k ,   u_k = φu_{k−1} + w_k ,   var u = γ₀.

    estimate, standard_error   of β, by maximum likelihood.
    correlation, variance      φ̂, and γ̂₀ of a measurement given its features.
    autocorrelated             whether φ̂ ≠ 0 is more than chance.
    by_blocks                  errors of the same β̂ by blocks of time of the whitened rows: they
                               hold, too, where the errors are not quite AR(1).
    """

    estimate: Array
    standard_error: Array
    correlation: float
    variance: float
    autocorrelated: bool
    by_blocks: SerialErrors


def fit_autocorrelated(
    level: pv.EndlessLevel, release: pv.StreamRelease, rows: Array
) -> AutocorrelatedFit:
    """β, φ and γ₀ from all releases of a stream of single measurements; rows H (K, n)."""
    if level.block != 1:
        raise InvalidInput(
            "Autocorrelated errors are fitted to releases of one measurement a step: this level "
            f"has steps of {level.block}, which share a noise."
        )
    family = pv.dynamics.RegressionAR(1, rows.shape[1])
    found = pv.dynamics.fit(family, level, release, inputs=rows)
    phi, q, beta = float(found.estimate[0]), float(found.estimate[1]), found.estimate[2:]
    ends = found.intervals(float(scipy.special.chdtr(1, CHANCE))).ends[0]
    autocorrelated = bool(ends[0] > 0 or ends[1] < 0)
    sums = BlockSums(rows.shape[1], 1)
    sums.add(_whitened(family, phi, q, level, release, rows))
    errors = replace(serial_errors(sums, beta), correlation=phi if autocorrelated else 0.0)
    return AutocorrelatedFit(
        beta, found.standard_error[2:], phi, q / (1 - phi**2), autocorrelated, errors
    )


def _whitened(
    family: pv.dynamics.RegressionAR, phi: float, q: float, level: pv.EndlessLevel,
    release: pv.StreamRelease, rows: Array,
) -> Array:  # fmt: skip
    """[G, ζ] (K, n + 1) of unit noise: innovations for β = 0 less those for each β = e_i."""

    def innovations(beta: Array) -> Array:
        system = family.system([phi, q, *beta])
        own = pv.dynamics.filter_releases(system, level, release, inputs=rows)
        return np.nan_to_num(own.innovations).ravel()

    n = rows.shape[1]
    none = innovations(np.zeros(n))
    return np.column_stack([*(none - innovations(unit) for unit in np.eye(n)), none])

"""The factor of a level that makes the coordinates of Lᵀy independent, to clip them one by one.

With a correlated S it is not the readings that may be clipped: I_z(y) = DSD, D = diag(inside), is
not ≤ S. The coordinates of u = Lᵀy may, L D Lᵀ ≤ LLᵀ for every 0 ≤ D ≤ I. What each of them shows
after clipping has a likelihood in one dimension if Lᵀw has independent entries.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.linalg._psd import PSD


def uncorrelated_factor(level: PSD, covariance: PSD) -> tuple[Array, Array]:
    """L (m, r) and λ (r,) with S = LLᵀ, r = rank S, and LᵀΣL = diag(λ), λ falling.

    L = L₀Q for the level's own factor L₀, Q from the singular vectors of Σ^{½}L₀: the same S, other
    coordinates, and so other sensitivities (`privacy.coordinate_mu`). Cost O(m³), m² memory.

    >>> from privest.linalg import psd
    >>> level = psd([[2.0, 1.0], [1.0, 2.0]], "S")
    >>> L, variances = uncorrelated_factor(level, psd([1.0, 1.0], "Σ"))
    >>> (L @ L.T).round(12).tolist(), variances.round(12).tolist()
    ([[2.0, 1.0], [1.0, 2.0]], [3.0, 1.0])
    """
    if level.size != covariance.size:
        raise InvalidInput(
            f"the level is for {level.size} readings; the covariance for {covariance.size}."
        )
    own = level.times_factor(np.eye(level.size))[:, level.informative()]
    if not own.shape[1]:
        raise InvalidInput("at level 0 nothing may be released: there are no coordinates.")
    _, values, turned = np.linalg.svd(covariance.factor_rows(own), full_matrices=False)
    return np.asarray(own @ turned.T), np.square(values)

"""The factor of a level that makes the coordinates of Lᵀy independent, to clip them one by one.

With a correlated S it is not the readings that may be clipped: I_z(y) = DSD, D = diag(inside), is
not ≤ S. The coordinates of u = Lᵀy may, L D Lᵀ ≤ LLᵀ for every 0 ≤ D ≤ I. What each of them shows
after clipping has a likelihood in one dimension if Lᵀw has independent entries.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.linalg._psd import PSD, Blocks


def uncorrelated(level: PSD, covariance: PSD) -> PSD:
    """The same S with a factor L for which LᵀΣL is diagonal: Σ is the covariance of the readings.

    L = L₀Q for the level's own factor L₀, Q from the singular vectors of Σ^{½}L₀: the same S, other
    coordinates, and so another `statement` of a range. Cost O(m³), m² memory; O(b³)
    for each block where Σ is diagonal.

    >>> from privest.linalg import psd
    >>> found = uncorrelated(psd([[2.0, 1.0], [1.0, 2.0]], "S"), psd([1.0, 1.0], "Σ"))
    >>> L = found.times_factor(np.eye(2))
    >>> (L @ L.T).round(9).tolist(), np.diagonal(L.T @ L).round(9).tolist()
    ([[2.0, 1.0], [1.0, 2.0]], [3.0, 1.0])
    """
    if level.size != covariance.size:
        raise InvalidInput(
            f"the level is for {level.size} readings; the covariance for {covariance.size}."
        )
    if level.pointwise is not None and covariance.pointwise is not None:
        return level
    apart = isinstance(level, Blocks) and covariance.pointwise is not None
    blocks = level if apart and isinstance(level, Blocks) else level.blocks([level.size])
    ends = np.cumsum(blocks.sizes)
    turned = [
        _turned(lower, covariance.restrict(np.arange(end - len(lower), end)))
        for lower, end in zip(blocks.lowers(), ends)
    ]
    return Blocks(blocks.matrices, turned)


def _turned(own: Array, covariance: PSD) -> Array:
    """L₀Q, its zero columns last."""
    kept = own[:, own.any(axis=0)]
    _, _, right = np.linalg.svd(covariance.factor_rows(kept), full_matrices=False)
    turned = np.zeros_like(own)
    turned[:, : kept.shape[1]] = kept @ right.T
    return turned

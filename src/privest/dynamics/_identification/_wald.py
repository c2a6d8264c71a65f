"""Wald's ends: by the curvature at the peak, in the working scale where that says which."""

from __future__ import annotations

import numpy as np

from privest.dynamics._identification._constrained import Peak, Scale, safe_inverse

# Standard errors in working scale up to which Wald's intervals cover what they say.
TRUSTED = 0.2


def wald_end(scale: Scale, peak: Peak, j: int, deviations: float) -> float:
    """θ_j at t̂_i + deviations·sd (towards larger θ_j) where it depends on one coordinate t_i, at
    most at its limit; else θ̂_j + deviations·sd of it.
    """
    covariance, row = safe_inverse(peak.curvature), scale.natural_slopes(peak.t)[j]
    own = np.flatnonzero(np.abs(row) > 1e-9 * np.abs(row).max())
    if len(own) != 1:
        return float(scale.natural(peak.t)[j] + deviations * np.sqrt(row @ covariance @ row))
    (i,) = own
    moved = peak.t.copy()
    moved[i] += np.sign(row[i]) * deviations * np.sqrt(covariance[i, i])
    return float(scale.natural(np.clip(moved, *peak.limits.T))[j])

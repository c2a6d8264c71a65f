"""What a range does to an estimate of persons: how many readings lie beyond it, and the bias.

Least squares on clipped readings is off by (Σ HᵀSH)⁻¹ Σ HᵀS·(E clip(y) − Hθ). With normal readings
of mean m = hθ̂ and variance v̂ = σ̂² + τ̂² (REML) both are known to first order, from public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.privacy import Range

VISIBLE = 0.05  # of a standard error: a smaller bias is not worth a word


def clip_shift(means: Array, variance: float, limits: Range) -> tuple[Array, Array]:
    """E clip(y) − m and P(y beyond the range) of normal y, (rows,) each."""
    root = math.sqrt(variance)
    low, high = (limits.low - means) / root, (limits.high - means) / root
    below, above = scipy.special.ndtr(low), scipy.special.ndtr(-high)
    density = np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)
    shift = below * (limits.low - means) + above * (limits.high - means)
    return shift + root / math.sqrt(2 * math.pi) * density, below + above


def range_remark(
    blocks: Iterator[tuple[Array, Index]],
    weights: Array,
    floor: Array,
    estimate: Array,
    variance: float,
    limits: Range,
    errors: Array,
    names: tuple[str, ...],
) -> str | None:
    """A sentence where the range moves the estimate by more than a twentieth of its error.

    blocks   [H, z, 1] with persons' numbers; weights: a of S = aI of each person.
    floor    (Σ HᵀSH)⁻¹.
    """
    if not variance > 0:
        return None
    n, moved, beyond, rows = len(names), np.zeros(len(names)), 0.0, 0
    for X, numbers in blocks:
        H = X[:, :n]
        shift, share = clip_shift(H @ estimate, variance, limits)
        beyond, rows = beyond + float(share.sum()), rows + len(H)
        moved += H.T @ (weights[numbers - 1] * shift)
    bias = floor @ moved
    with np.errstate(invalid="ignore"):
        worst = int(np.nanargmax(np.abs(bias) / errors)) if np.isfinite(errors).any() else 0
    if not abs(bias[worst]) > VISIBLE * errors[worst]:
        return None
    return (
        f"About {100 * beyond / rows:.2g} % of the readings lie beyond the range and were clipped, "
        f"by the fit: that moves {names[worst]!r} by about "
        f"{bias[worst]:.2g}, {abs(bias[worst]) / errors[worst]:.2g} of its standard error, which "
        "the interval does not hold. State a wider range, or release one row a person, for which "
        "the bias is undone."
    )

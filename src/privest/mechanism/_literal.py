"""Lᵀy as sums of products, with doubles L for which LLᵀ ≤ S as typed where it can be proved."""

from __future__ import annotations

import numpy as np

from privest import lattice
from privest.arrays import Array, Index
from privest.linalg import PSD

PROVED = 512  # readings up to which a level that ties them together is looked at
# A smaller L shows (1 − τ)Lᵀy. Beyond this τ that would be seen in long averages.
LARGEST_SHRINK = 2.0**-30

Terms = list[tuple[Array, Index | None]]


def literal_terms(S: PSD) -> tuple[Terms, bool]:
    """(Lᵀy)_i = Σ_t c_t[i]·y[k_t[i]] as `PSD.factor_terms`, and whether LLᵀ ≤ S is certain.

    A number or a diagonal: every root is the largest double whose square is not above the level.
    Else L is shrunk by a factor 1 − τ, τ ≤ 1e-9, until S − LLᵀ ≥ 0 is proved. Where that does not
    work (S singular or nearly so, or more than 512 readings tied together) the level that holds
    literally is LLᵀ of these doubles, S to rounding.
    """
    own = S.pointwise
    if own is not None:
        return [(np.broadcast_to(lattice.literal_root(np.asarray(own)), S.size), None)], True
    terms = S.factor_terms()
    if S.size > PROVED:
        return terms, False
    lower, every = np.zeros((S.size, S.size)), np.arange(S.size)
    for weights, place in terms:
        lower[every if place is None else place, every] += weights
    shrunk, proved = lattice.literal_factor(S.dense(), lower)
    largest = np.unravel_index(np.abs(lower).argmax(), lower.shape)
    kept = float(shrunk[largest] / lower[largest])
    if not proved or 1.0 - kept > LARGEST_SHRINK:
        return terms, False
    return [(weights * kept, place) for weights, place in terms], True

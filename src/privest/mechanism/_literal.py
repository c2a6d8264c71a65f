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
    if not proved or (np.abs(shrunk) < (1.0 - LARGEST_SHRINK) * np.abs(lower)).any():
        return terms, False
    # The very numbers that were proved: 1 − τ read off from two of them would be off by a bit.
    return [
        (np.where(weights != 0, shrunk[every if place is None else place, every], 0.0), place)
        for weights, place in terms
    ], True

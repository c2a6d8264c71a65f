"""Covariances of natural parameters: of the estimate, and the floors under every unbiased one.

    J I⁻¹ Jᵀ ,   J = ∂θ/∂t

with I = −∇²ℓ for the estimate, and the exact expected information of K steps (`_information`) for
the floors: from the releases (the private Cramér-Rao bound), and from the readings themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._releases import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._flat import WEAK
from privest.dynamics._kalman import first_state
from privest.dynamics._steps import Matrices
from privest.dynamics._identification._start_information import Start, information_of
from privest.dynamics._identification._whittle import whittle
from privest.errors import InvalidInput, NumericalFailure
from privest.privacy import EndlessLevel

NULL = 1e-8  # of the largest eigenvalue of an information with unit diagonal: flat
SHARE = 1e-3  # part of a parameter's largest move from which on a flat direction moves it
OPEN = 1e6  # releases whose noise is so much smaller are taken for the readings themselves


def covariance_of(info: Array, slopes: Array, held: Flags) -> Array:
    """JI⁻¹Jᵀ; infinite in parameters that a flat direction moves.

    NaN in those held at a limit: there the curvature does not say how well they are known.
    """
    free = np.flatnonzero(~held)
    result: Array = np.full(info.shape, np.nan)
    if not len(free):
        return result
    H = info[np.ix_(free, free)]
    unit = np.sqrt(np.where(H.diagonal() > 0, H.diagonal(), 1.0))
    values, vectors = np.linalg.eigh(H / np.outer(unit, unit))
    flat = values <= NULL * max(values[-1], 0.0)
    moved = slopes[:, free] @ (vectors / unit[:, None])
    known = moved[:, ~flat] / np.sqrt(values[~flat])
    result = np.asarray(known @ known.T)
    size = np.abs(moved).max(axis=1, initial=0.0)[:, None]
    lost = (np.abs(moved[:, flat]) > SHARE * np.where(size > 0, size, 1.0)).any(axis=1)
    gone = (slopes[:, free] == 0).all(axis=1)
    result[lost | gone] = np.nan
    result[:, lost | gone] = np.nan
    result[lost, lost] = np.inf
    return result


def estimate_covariance(info: Array, slopes: Array, held: Flags, bent: Flags) -> Array:
    """`covariance_of` an estimate, NaN also in what a `bent` working parameter (a logarithm, an
    artanh) moves of which the standard error is more than WEAK.

    A variance next to 0 has a flat logarithm; q̂ times its error is small and means nothing.
    """
    result = covariance_of(info, slopes, held)
    working = covariance_of(info, np.eye(len(info)), held).diagonal()
    wide = bent & ~held & ~(working <= WEAK**2)
    lost = (slopes[:, wide] != 0).any(axis=1) & np.isfinite(result.diagonal())
    result[lost] = np.nan
    result[:, lost] = np.nan
    return result


def floor(
    family: Family, t: Array, data: list[Data], held: Flags, *, private: bool,
    planned: bool = False,
) -> Array | None:  # fmt: skip
    """The least covariance of an unbiased estimate of θ, (p, p), at θ = natural(t).

    `private`: from the releases; else from the readings themselves (releases with a millionth of
    the noise). Parameters `held` at a limit are taken for known. `planned`: nothing was released
    yet, and x_0 is mean0 where it is unknown and matters. None where it cannot be computed.
    """
    matrices = family.matrices(t)
    unit = 1.0 if private else OPEN
    starts = [None if planned else partial(first_state, matrices, own) for own in data]
    seen = [Data(*own._replace(unit=unit * own.unit)) for own in data]
    total = expected_information(family, t, seen, ~held, starts)
    return None if total is None else covariance_of(total, family.natural_slopes(t), held)


def expected_information(
    family: Family, t: Array, data: list[Data], free: Flags, starts: Sequence[Start | None]
) -> Array | None:
    """I (p, p) about those of t that are free, from all data; None where it cannot be computed.

    `starts`: where the series of each data start, asked for where it matters.
    """
    matrices, every = family.matrices(t), family.slopes(t)
    slopes = Matrices(*(part[free] for part in every))
    total = np.zeros((family.size, family.size))
    if not free.any():
        return total
    try:
        for own, start in zip(data, starts):
            total[np.ix_(free, free)] += information_of(matrices, slopes, own, start)
    except NumericalFailure:
        return None
    return total


def long_floor(family: Family, t: Array, data: list[Data], held: Flags) -> Array:
    """The private bound as K → ∞ by Whittle's formula, of the parameters that shape the spectrum.

    W² in I = K/(4π) ∫ W² ∂log f ∂log fᵀ is the square of the Wiener gain W = f/(f + 1/s).
    NaN for means and coefficients of inputs, of which a spectrum says nothing.
    """
    matrices, slopes = family.matrices(t), family.slopes(t)
    total = np.zeros((family.size, family.size))
    for own in data:
        if not isinstance(own.level, EndlessLevel) or own.missing.any():
            raise InvalidInput(
                "Whittle's formula is for one level at every step and nothing missing; `bound` is "
                "exact for every release."
            )
        level = own.level * own.unit**2 if own.unit != 1.0 else own.level
        total += own.series * whittle(matrices, slopes, level, own.steps)
    silent = total.diagonal() == 0
    result = covariance_of(total, family.natural_slopes(t), held | silent)
    result[silent] = np.nan
    result[:, silent] = np.nan
    return result

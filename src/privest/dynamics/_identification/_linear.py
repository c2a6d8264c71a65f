"""Means and coefficients of inputs, integrated out: given all else ℓ is quadratic in them.

    ∫ exp ℓ(β) dβ ∝ exp(ℓ(β̂)) |S|^{−½} ,     β | rest ~ N(β̂, S⁻¹) ,     S = −∂²ℓ/∂β² .

They enter B, D and mean0 only, so that forecasts are linear in them, too, with the same slopes for
all series. (A mean next to φ → 1 is hardly known: draws of it would miss its tails.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._identification._ahead import Ahead
from privest.dynamics._identification._constrained import Function
from privest.dynamics._identification._family import Family

CURVED = ("A", "C", "Q", "R", "cov0")
STRAIGHT = ("B", "D", "mean0")
Look = Callable[[Array], Ahead]  # t ↦ the next steps under its model


def linear_parameters(family: Family, t: Array) -> Flags:
    """(p,): which working parameters enter B, D and mean0 alone, and these linearly."""
    here = family.slopes(t)
    found = ~np.any([_moved(getattr(here, part)) for part in CURVED], axis=0)
    there = family.slopes(np.where(found, t + 1.0, t))
    for part in STRAIGHT:
        found &= ~_moved(getattr(there, part) - getattr(here, part))
    return np.asarray(found)


def _moved(slopes: Array) -> Flags:
    return np.asarray((slopes.reshape(len(slopes), -1) != 0).any(axis=1))


def integrated(
    function: Function, look: Look, t: Array, linear: Flags
) -> tuple[float, Ahead | None]:
    """The logarithm of ∫ exp ℓ dβ up to a constant, and the forecast with β unknown.

    One gradient and one pass for each of them, and one of either more.
    """
    places = np.flatnonzero(linear)
    value, slope = function(t)
    if not math.isfinite(value):
        return -math.inf, None
    unit = np.eye(len(t))[places]
    falls = [slope - function(t + own)[1] for own in unit]
    S = np.array([fall[places] for fall in falls])
    try:
        root = np.linalg.cholesky((S + S.T) / 2)
    except np.linalg.LinAlgError:
        return -math.inf, None
    step = np.linalg.solve(root.T, np.linalg.solve(root, slope[places]))
    best = t + step @ unit
    value += float(slope[places] @ step) / 2 - float(np.log(root.diagonal()).sum())
    ahead = look(best)
    further = [look(best + own) for own in unit]
    back = np.linalg.inv(root)  # S⁻¹ = backᵀback
    return value, ahead._replace(
        state_covariance=ahead.state_covariance + _unknown(back, ahead.states, further, "states"),
        reading_covariance=ahead.reading_covariance
        + _unknown(back, ahead.readings, further, "readings"),
    )


def _unknown(back: Array, mean: Array, further: list[Ahead], part: str) -> Array:
    """M S⁻¹ Mᵀ (h, n, n), M the slopes of the means by β (of the first series, as of all)."""
    M = np.stack([(getattr(one, part) - mean)[:, :, 0] for one in further], axis=-1) @ back.T
    return np.asarray(M @ M.swapaxes(1, 2))

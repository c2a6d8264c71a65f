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
from privest.dynamics._identification._flat import NULL
from privest.errors import NotIdentifiable

CURVED = ("A", "C", "Q", "R", "cov0")
DEPENDS = 1e-6  # of the slopes of a forecast: what is less is rounding
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
        back, blind, logs = _halved(S)
    except np.linalg.LinAlgError:
        return -math.inf, None
    step = back.T @ (back @ slope[places])
    best = t + step @ unit
    value += float(slope[places] @ step) / 2 - logs
    ahead = look(best)
    further = [look(best + own) for own in unit]
    _require_unmoved(blind, ahead, further)
    return value, ahead._replace(
        state_covariance=ahead.state_covariance + _unknown(back, ahead.states, further, "states"),
        reading_covariance=ahead.reading_covariance
        + _unknown(back, ahead.readings, further, "readings"),
    )


def _halved(S: Array) -> tuple[Array, Array, float]:
    """`back` with S⁻¹ = backᵀback beside the directions (p, q) of which S says nothing; ½ log|S|.

    These directions are the same for every model, those that the inputs do not show, and so is the
    basis of what is left, in which |S| is taken.
    """
    S = (S + S.T) / 2
    size = np.sqrt(np.where(S.diagonal() > 0, S.diagonal(), 1.0))
    values, vectors = np.linalg.eigh(S / np.outer(size, size))
    if values[0] < -DEPENDS:
        raise np.linalg.LinAlgError("no model nearby: ℓ was not quadratic")
    blind = vectors[:, values <= NULL] / size[:, None]
    basis = np.linalg.qr(blind, mode="complete")[0][:, blind.shape[1] :] if blind.size else None
    root = np.linalg.cholesky(S if basis is None else basis.T @ S @ basis)
    back = np.linalg.inv(root) if basis is None else np.linalg.solve(root, basis.T)
    return back, blind, float(np.log(root.diagonal()).sum())


def _require_unmoved(blind: Array, ahead: Ahead, further: list[Ahead]) -> None:
    """NotIdentifiable where the next readings depend on what these releases do not determine."""
    M = _slopes(ahead.readings, further, "readings")
    if (np.abs(M @ blind) > DEPENDS * (np.abs(M) @ np.abs(blind))).any():
        raise NotIdentifiable(
            "The forecast depends on a mean or on coefficients of inputs that these releases do "
            "not determine (`flat` of the fit names them). Leave them out of the family, or "
            "forecast for inputs like those that were seen."
        )


def _unknown(back: Array, mean: Array, further: list[Ahead], part: str) -> Array:
    """M S⁻¹ Mᵀ (h, n, n), M the slopes of the means by β."""
    M = _slopes(mean, further, part) @ back.T
    return np.asarray(M @ M.swapaxes(1, 2))


def _slopes(mean: Array, further: list[Ahead], part: str) -> Array:
    """(h, n, p) of the first series, as of all."""
    return np.stack([(getattr(one, part) - mean)[:, :, 0] for one in further], axis=-1)

"""The best jointly drawn noise under caps S_kk ≤ e_k: found, made literal, certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import EPS, Array
from privest.bounds._classical import parameter_list
from privest.design._joint._descent import CappedReadings, descend
from privest.design._joint._floor import Tangent, cap_prices, without_slack
from privest.design._joint._release import fewer_columns, joint_release
from privest.errors import NotIdentifiable
from privest.linalg import PSD, weighted_roots
from privest.linalg.tolerances import rounding

# A cap counts as not reached below 1 − each of these; the best floor is kept.
SLACK = (1e-1, 1e-2, 1e-3, 1e-5, 1e-7)
# |hidden part of b| up to this many tolerances of the rank is rounding (bounds.functional).
HIDDEN = 100.0


@dataclass(frozen=True, eq=False)
class JointOptimum:
    """S = LLᵀ, L (m, r); `value` at it, and `floor`: no S under the same limits is below it.

    prices (m,): −d floor/d e_k.
    """

    factor: Array
    value: float
    floor: float
    prices: Array
    steps: int
    method: str


@dataclass(frozen=True, eq=False)
class Seen:
    """θ in coordinates u = Rθ (k of them) that H sees: rows H R⁺ orthonormal in weights e.

    rows     (m, k), targets (k, q) with BᵀPI⁻¹B the same, lift R⁺ (n, k): Z = R⁺Z'.
    """

    rows: Array
    targets: Array
    lift: Array


def seen(
    rows: Array,
    weight: Array | float,
    targets: Array,
    names: tuple[str, ...],
    accuracy: float = 0.0,
) -> Seen:
    """The coordinates of what `rows` in `weight` see; NotIdentifiable if a target is hidden.

    No unit of a parameter and no near-collinearity is left after it.
    """
    root = weighted_roots(rows, [weight])[0].with_tolerance(accuracy)
    scale = np.where(root.column_scale > 0, root.column_scale, 1.0)
    _, values, right = np.linalg.svd(root.triangle / scale)
    rank = root.rank
    scaled = targets / scale[:, None]
    hidden = right[rank:] @ scaled
    size = np.linalg.norm(scaled, axis=0)
    if (np.linalg.norm(hidden, axis=0) > HIDDEN * root.tolerance * size).any():
        raise NotIdentifiable(
            f"No level within the limits shows {parameter_list(root.hidden, names)} apart: raise "
            "the caps of readings that see them, or ask for less (weight, C).",
            root.hidden,
        )
    lift = right[:rank].T / values[:rank] / scale[:, None]
    return Seen(rows @ lift, (right[:rank] @ scaled) / values[:rank, None], lift)


def within_caps(factor: Array, caps: Array) -> Array:
    """L with rows shortened so that (LLᵀ)_kk ≤ e_k: in exact numbers, and as computed."""
    length = (factor**2).sum(axis=1)
    margin = 1.0 - 4.0 * (factor.shape[1] + 4) * EPS
    over = length > margin * caps
    scale = np.ones(len(caps))
    scale[over] = np.sqrt(margin * caps[over] / length[over])
    return factor * scale[:, None]


def best_under_caps(
    rows: Array, covariance: PSD, targets: Array, caps: Array, names: tuple[str, ...],
    accuracy: float = 0.0,
) -> JointOptimum:  # fmt: skip
    """min tr BᵀPI(S)⁻¹B over S ≥ 0 with S_kk ≤ e_k (0 allowed: that reading stays hidden)."""
    shown = np.flatnonzero(caps > 0)
    if not len(shown):
        raise NotIdentifiable("every cap is 0: nothing may be shown.", np.eye(rows.shape[1]))
    inner, limits = rows[shown], caps[shown]
    noise = covariance.restrict(shown)
    coordinates = seen(inner, limits, targets, names, accuracy)
    problem = CappedReadings(coordinates.rows, noise, coordinates.targets, limits)
    long, steps = descend(problem)
    short = within_caps(fewer_columns(problem.rows, noise, long), limits)
    floor = 0.0
    prices: Array = np.zeros(len(limits))
    for candidate in (long, short):
        for tangent, gained in tangents(inner, noise, targets, candidate, coordinates, limits):
            found = cap_prices(tangent, limits, candidate)
            ceiling = tangent.base + float(found @ limits)
            if trace_floor(gained, ceiling, len(limits)) > floor:
                floor = trace_floor(gained, ceiling, len(limits))
                prices = found * (floor / ceiling)
    factor, every = np.zeros((len(caps), short.shape[1])), np.zeros(len(caps))
    factor[shown], every[shown] = short, prices
    return JointOptimum(factor, problem.value(short), floor, every, steps, "descent in a factor")


def trace_floor(gained: float, ceiling: float, size: int) -> float:
    """(tr BᵀZ)²/φ ≤ tr BᵀPI⁻¹B for every PI with <ZZᵀ, PI> ≤ φ, less what sums may round."""
    return gained**2 / ceiling * (1.0 - rounding(size))


def tangents(
    rows: Array, covariance: PSD, targets: Array, factor: Array, coordinates: Seen, limits: Array
) -> list[tuple[Tangent, float]]:
    """Tangents at S = LLᵀ, in the user's own H, and tr BᵀZ of each.

    Beside the plain one those with E = 0 where a limit is not reached.
    """
    release = joint_release(coordinates.rows, covariance, factor)
    inner = release.weights(coordinates.targets)
    weights, shown = coordinates.lift @ inner, release.shown(inner)
    gained = float((targets * weights).sum())
    plain = Tangent.of(rows, covariance, weights, shown)
    part = (factor**2).sum(axis=1) / limits
    found = [plain]
    for slack in SLACK:
        idle = np.flatnonzero(part < 1.0 - slack)
        if len(idle):
            found.append(without_slack(plain, rows, covariance, weights, shown, idle))
    return [(tangent, gained) for tangent in found]

"""θ̂ from the sums of released measurements, and the bound that it attains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from privest.collect.plan import FEATURE_GRID, CollectionPlan, Sums
from privest.errors import NotIdentifiable
from privest.estimator import Estimate
from privest.lattice import GRID
from privest.records import Record
from privest.release import extra_variance


@dataclass(frozen=True, eq=False)
class Collected(Record):
    """An estimate from a collection.

    estimate        θ̂ with its covariance and bound.
    rows            how many measurements, by level.
    residual_ratio  variance of the residuals over the planned one; about 1 if the plan is right.
    """

    estimate: Estimate
    rows: Mapping[str, int]
    residual_ratio: float


def estimate(plan: CollectionPlan, sums: Mapping[str, Sums]) -> Collected:
    """Weighted least squares of all levels (`algo:PP_RLS` in information form).

        z̃ = √s·(hθ + w) + e ,   J = Σ hᵀh/(σ² + v/s) ,   θ̂ = J⁻¹ Σ hᵀz̃/(√s·(σ² + v/s))

    v = 1 + 3g²/4 is the variance of privacy noise and rounding. The bound has v = 1: Σ_PPCR.
    """
    size = len(plan.names)
    information, ideal, classical = (np.zeros((size, size)) for _ in range(3))
    right = np.zeros(size)
    squares = 0.0  # of z̃, later of the residuals, in units of their variance
    unit = 1.0 + extra_variance(GRID)
    units = np.array([FEATURE_GRID] * size + [GRID])  # of whole numbers: features and z̃
    for name, level_sums in sums.items():
        level = plan.levels[name]
        products = level_sums.gram.astype(np.float64) * np.outer(units, units)
        hh = products[:size, :size]
        variance = plan.residual_variance + unit / level
        information += hh / variance
        ideal += hh / (plan.residual_variance + 1 / level)
        classical += hh / plan.residual_variance
        right += products[:size, size] / math.sqrt(level) / variance
        squares += float(products[size, size]) / level / variance
    rows = {name: level_sums.count for name, level_sums in sums.items()}
    total = sum(rows.values())
    rank = int(np.linalg.matrix_rank(information, hermitian=True))
    if rank < size:
        raise NotIdentifiable(
            f"{total:,} measurements have arrived, of {rank} independent directions: "
            f"{size} parameters need more."
        )
    covariance, bound, plain = map(np.linalg.inv, (information, ideal, classical))
    value = covariance @ right
    squares += float(value @ information @ value - 2 * value @ right)
    ratio = squares / (total - size) if total > size else math.nan
    found = Estimate(
        value=value, covariance=covariance, bound=bound, classical=plain, names=plan.names,
        simulated=False, method="weighted least squares on sums of reports",
    )  # fmt: skip
    return Collected(found, rows, ratio)

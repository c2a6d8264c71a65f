"""How far from the best any levels are, proved at those levels (design: the certificate).

A witness of the criterion (`_scaled`) and a bound on what it allows (`_oracle`) give a floor that
NO feasible levels can be below, whatever they were found by: a failed search shows as a gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privest.arrays import Array
from privest.design import _oracle as oracle
from privest.design._oracle import Prices
from privest.design._problem import Problem
from privest.design._scaled import Scaled, Witness


@dataclass(frozen=True, eq=False)
class Point:
    """What an engine found.

    levels   (g,), to be made feasible by whoever takes them.
    prices   ν and ν_P that it ended with; None: they are looked for.
    weights  duals of the criterion: w (J,) of `Largest`, V (n, n) of `Least`, Z (n, r) of `Trace`,
             F (n, n) of `LogDet`; None: from the levels.
    """

    levels: Array
    steps: int
    method: str
    prices: Prices | None = None
    weights: Array | None = field(default=None)


@dataclass(frozen=True, eq=False)
class Proof:
    """floor: of the criterion (budget) or of the cost (target); `witness`, `prices`: by which."""

    floor: float
    witness: Witness | None
    prices: Prices | None


NO_PROOF = Proof(-np.inf, None, None)


def budget_floor(
    problem: Problem, criterion: Scaled, budget: float, levels: Array,
    weights: Array | None = None, prices: Prices | None = None,
) -> Proof:  # fmt: skip
    """No feasible levels within the budget make the criterion smaller than `floor`.

    One pass over the readings for given prices, some ten without.
    """
    witness = criterion.witness(problem.information(levels), weights)
    if witness is None:
        return NO_PROOF
    q = problem.squares(witness.factor)
    if prices is None:
        prices = oracle.budget_prices(problem, q, budget)
    prices = oracle.lifted(problem, q, prices)
    top = oracle.most(problem, q, budget, prices)
    return Proof(witness.floor(top), witness, prices) if np.isfinite(top) else NO_PROOF


def target_floor(
    problem: Problem, criterion: Scaled, target: float, levels: Array,
    weights: Array | None = None, prices: Prices | None = None,
) -> Proof:  # fmt: skip
    """No feasible levels with a criterion of at most `target` cost less than `floor`."""
    witness = criterion.witness(problem.information(levels), weights)
    if witness is None:
        return NO_PROOF
    q = problem.squares(witness.factor)
    needed = witness.needed(target)
    if prices is None:
        prices = oracle.target_prices(problem, q, needed, 1.0)
    prices = oracle.lifted(problem, q, prices)
    return Proof(oracle.least(problem, q, needed, prices), witness, prices)


def best_proof(*proofs: Proof) -> Proof:
    """The one with the highest floor."""
    return max(proofs, key=lambda proof: proof.floor)


def relative_gap(criterion: Scaled, value: float, floor: float) -> float:
    """(value − floor)/value; of a log det the part of its n-th root that is lost."""
    if not np.isfinite(value):
        return np.inf
    return value - floor if criterion.logarithm else (value - floor) / value

"""Frank-Wolfe in the precisions x with an exact line search: differentiable criteria, any size.

x⁺ maximises qᵀx within the budget (water-filling: `_oracle`), then x ← x + α(x⁺ − x) with the best
α: the criterion along the line is a function of n generalised eigenvalues. Each step is one pass.
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array
from privest.design import _oracle as oracle
from privest.design._certificate import Point
from privest.design._problem import Problem
from privest.design._scaled import LogDet, Scaled, Trace


def solve_budget(
    problem: Problem, criterion: Scaled, budget: float, tol: float, steps: int = 500
) -> Point:
    """Levels with a small criterion within the budget; `Trace` and `LogDet`."""
    x = problem.precisions(problem.within(np.ones(problem.atoms), budget))
    M = problem.gram(x)
    prices, taken = None, 0
    for _ in range(steps):
        taken += 1
        value = criterion.value(M)
        witness = criterion.witness(M)
        if witness is None:
            break
        q = problem.squares(witness.factor)
        prices = oracle.budget_prices(problem, q, budget, None if prices is None else prices.budget)
        floor = witness.floor(oracle.most(problem, q, budget, prices))
        if value - floor <= tol * (1.0 if criterion.logarithm else value):
            break
        ahead = problem.precisions(
            problem.within(oracle.levels_at(problem, q, prices.of(problem)), budget)
        )
        further = problem.gram(ahead)
        part = _best_part(criterion, M, further)
        x, M = x + part * (ahead - x), M + part * (further - M)
    return Point(_levels(problem, x), taken, "Frank-Wolfe", prices)


def _levels(problem: Problem, x: Array) -> Array:
    """s = x/(1 − vx), one for each atom."""
    s = x / (1.0 - problem.variance * x)
    if problem.atom is None:
        return s
    levels = np.zeros(problem.atoms)
    levels[problem.atom] = s
    return levels


def _best_part(criterion: Scaled, M: Array, further: Array) -> float:
    """α in [0, 1] at which f(M + α(M⁺ − M)) is least, by the generalised eigenvalues."""
    change = further - M
    values, vectors = scipy.linalg.eigh(change, M)
    if isinstance(criterion, LogDet):
        weight = np.ones(len(values))
    else:
        assert isinstance(criterion, Trace)
        weight = np.sum((vectors.T @ criterion.root) ** 2, axis=1)

    def slope(part: float) -> float:
        grown = 1.0 + part * values
        power = 1 if isinstance(criterion, LogDet) else 2
        return -float(np.sum(weight * values / grown**power))

    if slope(1.0 - 1e-12) <= 0:
        return 1.0
    if slope(0.0) >= 0:
        return 0.0
    return float(scipy.optimize.brentq(slope, 0.0, 1.0 - 1e-12, xtol=1e-12))

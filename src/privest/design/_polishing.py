"""From what an engine proposes to levels that are feasible to the letter, with a proof.

The levels found, the same without the traces that an interior method leaves behind (a level of 0
means: never revealed), and those that the prices themselves ask for: the best of them is taken.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from privest.arrays import Array
from privest.design import _engines
from privest.design import _oracle as oracle
from privest.design._certificate import (
    Point,
    Proof,
    best_proof,
    budget_floor,
    relative_gap,
    target_floor,
)
from privest.design._limits import most_budget
from privest.design._problem import Problem
from privest.design._scaled import Scaled
from privest.errors import NumericalFailure

NOTHING = 1e-6  # of the mean level: below it a level is what an interior method left behind


def root_of(value: Callable[[float], float], target: float, logarithm: bool) -> float:
    """t with value(t) = target, for a value that falls with t; from above, so that it is met."""

    def excess(log_t: float) -> float:
        found = value(float(np.exp(log_t)))
        if not np.isfinite(found):
            return 1e3
        return found - target if logarithm else float(np.log(found / target))

    low, high = -1.0, 1.0
    while excess(high) > 0 and high < 700:
        low, high = high, high + 2.0 * (high - low)
    while excess(low) <= 0 and low > -700:
        low, high = low - 2.0 * (high - low), low
    t = float(scipy.optimize.brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=200))
    for step in range(60):
        if excess(t) <= 0:
            break
        t += 1e-16 * 2**step * max(1.0, abs(t))
    return float(np.exp(t))


def budget_polished(
    problem: Problem, criterion: Scaled, budget: float, point: Point, tol: float
) -> tuple[Array, Proof]:
    """The best of the levels found, these without traces, and those that the prices ask for."""
    own = problem.within(point.levels, budget)
    proof = budget_floor(problem, criterion, budget, own, point.weights, point.prices)
    value = criterion.value(problem.information(own))
    if not relative_gap(criterion, value, proof.floor) <= tol / 10:  # the engine's prices are poor
        proof = best_proof(
            proof,
            budget_floor(problem, criterion, budget, own, point.weights),
            budget_floor(problem, criterion, budget, own),  # of several errors: the largest alone
        )
    choices = [own, problem.within(np.where(own < NOTHING * own.mean(), 0.0, own), budget)]
    if proof.witness is not None and proof.prices is not None:
        q = problem.squares(proof.witness.factor)
        asked = oracle.levels_at(problem, q, proof.prices.of(problem))
        if np.isfinite(asked).all() and asked.any():
            choices.append(problem.within(asked, budget))
    values = [criterion.value(problem.information(levels)) for levels in choices]
    return choices[_simplest(values, criterion, tol)], proof


def _simplest(values: list[float], criterion: Scaled, tol: float) -> int:
    """The last choice that is all but as good as the best: it has the fewest traces."""
    best = min(values)
    slack = tol / 100 * (1.0 if criterion.logarithm else abs(best))
    return max(i for i, value in enumerate(values) if value <= best + slack)


def target_polished(
    problem: Problem, criterion: Scaled, target: float, point: Point, tol: float
) -> tuple[Array, Proof]:
    """The cheapest of the same choices, each at the multiple of it that meets the target.

    Other prices than the engine's are looked for only where these prove too little: of groups and
    persons with exact readings that search takes ten seconds.
    """
    own = meeting(problem, criterion, target, point.levels)
    if not _meets(problem, criterion, target, own):
        own = _brought_to(problem, criterion, target, own)
    proof = target_floor(problem, criterion, target, own, point.weights, point.prices)
    if not proof.floor >= (1 - tol / 2) * problem.spent(own):  # the engine's prices are poor
        proof = best_proof(
            proof,
            target_floor(problem, criterion, target, own, point.weights),
            target_floor(problem, criterion, target, own),
        )
    choices = [own]
    candidates = [np.where(own < NOTHING * own.mean(), 0.0, own)]
    if proof.witness is not None and proof.prices is not None:
        q = problem.squares(proof.witness.factor)
        candidates.append(oracle.levels_at(problem, q, proof.prices.of(problem)))
    for levels in candidates:
        levels = problem.feasible(levels)
        if np.isfinite(levels).all() and np.isfinite(criterion.value(problem.information(levels))):
            met = meeting(problem, criterion, target, levels)
            if _meets(problem, criterion, target, met):
                choices.append(met)
    spent = [problem.spent(levels) for levels in choices]
    best = min(spent)
    return choices[max(i for i, cost in enumerate(spent) if cost <= best * (1 + tol / 100))], proof


def _meets(problem: Problem, criterion: Scaled, target: float, levels: Array) -> bool:
    """Whether the criterion is at most the target, to rounding."""
    slack = 1e-12 * (1.0 if criterion.logarithm else abs(target))
    return criterion.value(problem.information(levels)) <= target + slack


def _brought_to(problem: Problem, criterion: Scaled, target: float, levels: Array) -> Array:
    """The first point that meets the target on the way to levels that meet it at any cost.

    For limits of persons: no multiple of what an engine left behind need meet a target.
    """
    whole = most_budget(problem)
    if not np.isfinite(whole):
        whole = 1e6 * problem.spent(meeting(problem, criterion, target, np.ones(problem.atoms)))
    point = _engines.solve_budget(problem, criterion, whole, 1e-9)
    far, _ = budget_polished(problem, criterion, whole, point, 1e-9)
    if not _meets(problem, criterion, target, far):
        raise NumericalFailure(
            "the target is so near to the best that the limits allow that no levels for it were "
            "found. Ask for a little more than that."
        )
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        there = levels + middle * (far - levels)
        met = _meets(problem, criterion, target, there)
        low, high = (low, middle) if met else (middle, high)
    return np.asarray(levels + high * (far - levels))


def meeting(problem: Problem, criterion: Scaled, target: float, levels: Array) -> Array:
    """The least multiple of the levels (within the limits) that meets the target, if one does."""
    levels = problem.feasible(levels)

    def value(t: float) -> float:
        return criterion.value(problem.information(problem.times(levels, t)))

    if value(1e6) > target:
        return levels
    return problem.times(levels, root_of(value, target, criterion.logarithm))

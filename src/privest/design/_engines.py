"""Which engine solves which problem.

The answer of an engine is only ever a proposal: `_allocating` makes it feasible and proves how good
it is.
"""

from __future__ import annotations

import numpy as np

from privest.design import _dual, _frank_wolfe, _newton
from privest.design._certificate import Point
from privest.design._limits import limit_value, most_budget
from privest.design._problem import Problem
from privest.design._scaled import Least, LogDet, Scaled, Trace

NEWTON = 1e8  # readings times features²: a step of the Newton method takes about 0.1 s
MANY = 2000  # readings from which the dual method is faster, three to ten times at 10⁴
STORED = 5e7  # readings times features: 400 MB, of which two or three are held at a time
SOLVES = 40  # of the budget problem for one target; a handful is enough as a rule


def solve_budget(problem: Problem, criterion: Scaled, budget: float, tol: float) -> Point:
    """The least criterion for a budget."""
    if dual_first(problem, criterion):
        search = _dual.Search.start(problem, criterion, budget, tol).run()
        if search.gap <= tol or not newton_fits(problem, criterion):
            return search.point()
    if newton_stores(problem, criterion) or not isinstance(criterion, Trace | LogDet):
        return _newton.solve_budget(problem, criterion, budget, tol)
    return _frank_wolfe.solve_budget(problem, criterion, budget, tol)


def newton_fits(problem: Problem, criterion: Scaled) -> bool:
    """Whether the linear systems of the Newton method are small work."""
    return problem.readings * _newton.features(problem, criterion) ** 2 <= NEWTON


def newton_stores(problem: Problem, criterion: Scaled) -> bool:
    """Whether memory is enough for the Newton method: for groups and persons at any size."""
    return problem.readings * _newton.features(problem, criterion) <= STORED


def dual_fits(problem: Problem, criterion: Scaled) -> bool:
    """Whether the readings are many, single, and only bound by the budget and by caps."""
    single = problem.atom is None and problem.person is None
    known = isinstance(criterion, Trace | LogDet | Least)
    return single and known and problem.readings >= MANY


def dual_first(problem: Problem, criterion: Scaled) -> bool:
    """Whether the dual method is worth a try: of the worst direction, where no other fits.

    With caps and readings without noise its search for a target ends after 30 s at 10⁴ readings
    without a proof; the Newton method takes 0.1 s, and elsewhere about as long as the dual.
    """
    slow = isinstance(criterion, Least) and newton_fits(problem, criterion)
    return dual_fits(problem, criterion) and not slow


def solve_target(problem: Problem, criterion: Scaled, target: float, tol: float) -> Point:
    """The least cost for a criterion of at most `target`."""
    if dual_first(problem, criterion):
        point, closed = _dual.solve_target(problem, criterion, target, tol)
        if closed or not newton_fits(problem, criterion):
            return point
    if newton_stores(problem, criterion) or not isinstance(criterion, Trace | LogDet):
        point = _newton.solve_target(problem, criterion, target, tol)
        if point.steps > 0:  # none where it found no way that meets the target from within
            return point
    return target_by_budgets(problem, criterion, target, tol)


def target_by_budgets(problem: Problem, criterion: Scaled, target: float, tol: float) -> Point:
    """The budget at which the best value is the target: secants on 1/(f(B) − f_∞), in brackets.

    f is convex and falls with B, about as 1/B above its limit, so that this is nearly linear (of
    a log det: its n-th root). Counted in the unit of levels, equal ones reach the target at 1.
    """
    limit, n = limit_value(problem, criterion), problem.parameters

    def height(value: float) -> float:
        if criterion.logarithm:
            return float(np.exp(-(value - target) / n))
        return (target - limit) / (value - limit) if value > limit else np.inf

    low, high = 0.0, min(float(problem.cost.sum()), most_budget(problem))
    low_height, budget, steps = 0.0, high, 0
    best: Point | None = None
    high_height = np.inf
    for _ in range(SOLVES):
        point = solve_budget(problem, criterion, budget, tol / 4)
        steps += point.steps
        levels = problem.within(point.levels, budget)
        reached = height(criterion.value(problem.information(levels)))
        if reached >= 1.0:
            high, high_height, best = budget, reached, point
        else:
            low, low_height = budget, reached
        if abs(reached - 1.0) <= tol / 10 or high - low <= tol / 10 * high:
            best = point
            break
        inner = (
            low + (high - low) * (1.0 - low_height) / (high_height - low_height)
            if np.isfinite(high_height)
            else (low + high) / 2
        )
        budget = float(np.clip(inner, low + 1e-3 * (high - low), high - 1e-3 * (high - low)))
        if abs(reached - 1.0) < 1e-3:  # the secant is as good as linear here
            budget = inner
    if best is None:
        best = point
    return Point(best.levels, steps, f"{best.method}, for a run of budgets", None, best.weights)

"""Which engine solves which problem.

The answer of an engine is only ever a proposal: `_allocating` makes it feasible and proves how good
it is.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy

from privest.design import _dual, _frank_wolfe, _newton
from privest.design._certificate import Point
from privest.design._limits import limit_value, most_budget
from privest.design._problem import Problem
from privest.design._scaled import Least, LogDet, Scaled, Trace

NEWTON = 1e8  # readings times features²: a step of the Newton method takes about 0.1 s
MANY = 2000  # readings from which the dual method is faster, three to ten times at 10⁴
STORED = 5e7  # readings times features: 400 MB, of which two or three are held at a time
SOLVES = 40  # of the budget problem for one target; a handful is enough as a rule
SURE = 1e-9  # relative gap of each of them: near a limit the value hardly depends on the budget
HIGH = 1e3  # times the height of the target: high enough


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
    """The budget at which the best value is the target: a root of 1/(f(B) − f_∞) in B.

    f is convex and falls with B, about as 1/B above its limit, so that this is nearly linear (of
    a log det: its n-th root). Where limits are nearly reached f is all but flat: the budget is
    bracketed, by what levels that meet the target spend, and not judged by the value.
    """
    limit, n = limit_value(problem, criterion), problem.parameters
    strict = min(tol / 4, SURE) if newton_stores(problem, criterion) else tol / 4
    best: Point | None = None
    steps = 0

    def height(value: float) -> float:
        if criterion.logarithm:
            return float(np.exp(-(value - target) / n))
        return (target - limit) / (value - limit) if value > limit else HIGH

    @cache
    def excess(budget: float) -> float:
        nonlocal best, steps
        if budget <= 0:
            return -1.0
        point = solve_budget(problem, criterion, budget, strict)
        steps += point.steps
        levels = problem.feasible(point.levels)
        value = criterion.value(problem.information(levels))
        if best is None or _better(problem, criterion, target, point, best):
            best = point
        return min(height(value), HIGH) - 1.0

    high = min(float(problem.cost.sum()), most_budget(problem))
    if excess(high) < 0 and 2 * most_budget(problem) < np.inf:
        high = 2 * most_budget(problem)  # the limits of the persons are tight, not the budget
    if excess(high) >= 0:
        assert best is not None
        spent = problem.spent(best.levels) * (1 + tol)
        high = spent if spent < high and excess(spent) >= 0 else high
        scipy.optimize.brentq(
            excess, 0.0, high, xtol=1e-300, rtol=tol / 10, maxiter=SOLVES, disp=False
        )
    assert best is not None
    return Point(best.levels, steps, f"{best.method}, for a run of budgets", None, best.weights)


def _better(problem: Problem, criterion: Scaled, target: float, point: Point, other: Point) -> bool:
    """Whether levels meet the target for less than others; or miss it by less."""

    def rank(one: Point) -> tuple[bool, float]:
        levels = problem.feasible(one.levels)
        value = criterion.value(problem.information(levels))
        return value > target, value if value > target else problem.spent(levels)

    return rank(point) < rank(other)

"""The least cost for an accuracy, on the dual: the budget at which the best value is the target.

f(B) is convex and falls about as 1/B above its limit f_∞, and its slope is minus the price that the
search ends with. So Newton's method for 1/(f(B) − f_∞), nearly linear, takes a handful of budgets,
each from where the last one ended. Of a log det, the n-th root of the generalised variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.design._certificate import Point
from privest.design._dual._search import Search
from privest.design._limits import limit_value, most_budget
from privest.design._oracle import least
from privest.design._problem import Problem
from privest.design._scaled import Scaled

SOLVES = 30
LOOSE = 1e-3  # relative error of a budget that is far from the last one
NEAR = 1e-4  # relative: the best value is a straight line of the budget, to 1e-8
CLOSE = 0.03  # relative change of the budget after which the full accuracy is asked for


@dataclass(frozen=True, eq=False)
class Height:
    """(a − f_∞)/(f − f_∞), which grows nearly linearly with the budget; 1 at the target a."""

    criterion: Scaled
    target: float
    limit: float
    n: int

    def _root(self, value: float) -> float:
        return float(np.exp((value - self.target) / self.n))

    def of(self, value: float) -> float:
        if self.criterion.logarithm:
            floor = self._root(self.limit)
            return (1.0 - floor) / (self._root(value) - floor)
        return (self.target - self.limit) / (value - self.limit)

    def slope(self, value: float) -> float:
        """Its derivative by −f."""
        if self.criterion.logarithm:
            rest = self._root(value) - self._root(self.limit)
            return self.of(value) * self._root(value) / self.n / rest
        return self.of(value) / (value - self.limit)


def solve_target(
    problem: Problem, criterion: Scaled, target: float, tol: float
) -> tuple[Point, bool]:
    """Levels that meet the target, or nearly (a multiple of them does), at about the least cost.

    The second says whether the gap is closed.
    """
    height = Height(criterion, target, limit_value(problem, criterion), problem.parameters)
    ceiling = most_budget(problem)
    budget, sure = min(float(problem.cost.sum()), ceiling), LOOSE
    search = Search.start(problem, criterion, budget, sure)
    for _ in range(SOLVES):
        search.run()
        price = _price(search)
        if not np.isfinite(search.value) or not price > 0:
            break
        if sure <= tol and _gap(search, target, price) <= tol:
            return search.point(), True
        change = (1.0 - height.of(search.value)) / (height.slope(search.value) * price)
        budget = min(max(search.budget + change, search.budget / 8), 8 * search.budget, ceiling)
        sure = tol / 4 if abs(budget / search.budget - 1.0) <= CLOSE else LOOSE
        scale = 1.0 if criterion.logarithm else search.value
        if budget == search.budget and search.tol <= sure * price * budget / scale:
            break
        search = search.continued(budget, sure * price * budget / scale)
    return search.point(), False


def _price(search: Search) -> float:
    """−df/dB: what the criterion gains by a larger budget."""
    witness = search.form.witness()
    if witness is None or search.prices is None:
        return 0.0
    return search.prices.budget * search.criterion.per_unit(witness, search.value)


def _gap(search: Search, target: float, price: float) -> float:
    """(cost − floor)/cost, the cost of the levels when they are raised or lowered to the target."""
    missed = (search.value - target) / price
    if abs(missed) > NEAR * search.budget:
        return np.inf
    witness = search.form.witness()
    assert witness is not None
    assert search.prices is not None
    floor = least(search.problem, search.q, witness.needed(target), search.prices)
    cost = search.budget + missed
    return (cost - floor) / cost

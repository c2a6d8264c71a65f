"""A primal-dual Newton method for every criterion, limit and direction.

    maximise t  over levels with  g_j(M(s)) ≥ t ,  Σ cost s ≤ budget , caps, persons' limits
    minimise Σ cost s             g_j(M(s)) ≥ t  for the t of the target

where g_j = 1/f_j grows like M (`_curves`; of `Least` M ≥ tW: `_loewner`). A step
costs O(K p²), p the number of features: n of one direction, n(n + 1)/2 of a full criterion; about
ten steps as a rule, at most `STEPS`. It stops when the certificate of the levels is within the
tolerance; whatever happens the best point found is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.design._certificate import Point, budget_floor, relative_gap, target_floor
from privest.design._newton._curves import Curves
from privest.design._newton._loop import Iterate, iterate
from privest.design._newton._start import INSIDE, budget_start, shape_of, target_start
from privest.design._newton._unit import Unit, unit_of
from privest.design._oracle import Prices
from privest.design._problem import Problem
from privest.design._scaled import Largest, Least, LogDet, Scaled, Trace

STEPS = 100
LOOK = 30.0  # the certificate is asked when the method itself is within this many tolerances
METHOD = "primal-dual Newton"


def features(problem: Problem, criterion: Scaled) -> int:
    """p: columns of the low-rank part of the linear system."""
    n = problem.parameters
    full = n * (n + 1) // 2
    if isinstance(criterion, Trace):
        r = min(n, int(criterion.root.shape[1]))
        return r * (r + 1) // 2 + r * (n - r)
    if isinstance(criterion, Largest):
        return min(full, n * int(criterion.columns.shape[1]))
    return full


@dataclass(eq=False)
class Search:
    """The best point so far, by its certificate."""

    problem: Problem
    criterion: Scaled
    unit: Unit
    size: float  # of the criterion where the shapes are 1
    spend: float  # what one unit of e costs
    budget: float | None
    target: float | None
    tol: float
    best: Point | None = None
    gap: float = np.inf
    steps: int = -1
    spare: int = 2  # steps for a better proof once this one is good enough

    def good(self, here: Iterate) -> bool:
        """Look at an iterate, and say whether it is good enough."""
        self.steps += 1
        if self.best is not None and here.distance > LOOK * self.tol:
            return False
        self.look(here)
        self.spare -= self.gap <= self.tol / 2  # what polishing rounds is in the other half
        return bool(self.gap <= self.tol / 10) or self.spare < 0

    def look(self, here: Iterate) -> None:
        """Keep the point if its certificate is better."""
        point = self.point(here)
        gap = self.gap_of(point)
        if self.best is None or gap < self.gap or np.isinf(self.gap):  # inf: the latest is nearest
            self.best, self.gap = point, gap

    def point(self, here: Iterate) -> Point:
        levels = np.zeros(self.problem.atoms)
        levels[self.unit.kept] = here.e * self.unit.scale
        size, weights = self._in_units_of_the_criterion(here)
        persons = None
        if self.unit.people is not None:
            assert self.problem.most is not None
            persons = np.zeros(len(self.problem.most))
            persons[self.unit.people] = here.pairs["persons"].dual * size
        prices = Prices(here.price / self.spend * size, persons)
        return Point(levels, self.steps, METHOD, prices, weights)

    def _in_units_of_the_criterion(self, here: Iterate) -> tuple[float, Array | None]:
        """By what prices are multiplied for the witness of the criterion, and its weights.

        Here G = Σ w_j ∇g_j; the witnesses are Z_jZ_jᵀ with Z_j = M⁻¹c_j, and M⁻¹ of a log det.
        """
        side = here.side
        if isinstance(self.criterion, Least):
            return 1.0, side.weights
        assert isinstance(side, Curves)
        if isinstance(self.criterion, LogDet):
            return self.problem.parameters / float(side.dual @ side.values), None
        each = side.dual * side.values**2 / self.size
        total = float(each.sum())
        return 1.0 / total, each / total if isinstance(self.criterion, Largest) else None

    def gap_of(self, point: Point) -> float:
        problem, criterion = self.problem, self.criterion
        assert point.prices is not None
        if self.budget is not None:
            levels = problem.within(point.levels, self.budget)
            value = criterion.value(problem.information(levels))
            proof = budget_floor(
                problem, criterion, self.budget, levels, point.weights, point.prices
            )
            return relative_gap(criterion, value, proof.floor)
        assert self.target is not None
        proof = target_floor(
            problem, criterion, self.target, point.levels, point.weights, point.prices
        )
        spent = problem.spent(point.levels)
        if proof.floor < (1.0 - LOOK * self.tol) * spent:
            return 1.0 - proof.floor / spent
        return 1.0 - proof.floor / (
            spent * _multiple(problem, criterion, self.target, point.levels)
        )


def solve_budget(problem: Problem, criterion: Scaled, budget: float, tol: float) -> Point:
    """The least criterion for a budget."""
    spend = budget / problem.atoms
    levels = _inside(problem, 0.9 * spend / problem.cost)
    size = criterion.value(problem.information(levels))
    unit = unit_of(problem, spend, budget)
    search = Search(problem, criterion, unit, size, spend, budget, None, tol)
    e = levels[unit.kept] / unit.scale

    def start() -> Iterate:
        shape = shape_of(criterion, size, problem.parameters)
        return budget_start(unit, e, shape, budget / spend)

    return _searched(search, start, levels)


def solve_target(problem: Problem, criterion: Scaled, target: float, tol: float) -> Point:
    """The least cost for a criterion of at most `target`."""
    levels = _reaching(problem, criterion, target)
    size = criterion.value(problem.information(levels))
    spend = problem.spent(levels) / problem.atoms
    unit = unit_of(problem, spend)
    search = Search(problem, criterion, unit, size, spend, None, target, tol)
    n = problem.parameters
    goal = float(np.exp((size - target) / n)) if criterion.logarithm else size / target
    e = levels[unit.kept] / unit.scale
    return _searched(
        search, lambda: target_start(unit, e, shape_of(criterion, size, n), goal), levels
    )


def _searched(search: Search, start: Callable[[], Iterate], levels: Array) -> Point:
    """The best point found; `levels` themselves where M is singular to rounding from the start."""
    with np.errstate(all="ignore"):  # what is not finite is never a better point
        try:
            iterate(start(), search.good, STEPS)
        except np.linalg.LinAlgError:
            return Point(levels, 0, METHOD)
    assert search.best is not None
    return search.best


def _multiple(problem: Problem, criterion: Scaled, target: float, levels: Array) -> float:
    """By what the levels have to be multiplied to meet the target: secants, to about 1e-10."""

    def excess(multiple: float) -> float:
        found = criterion.value(problem.information(problem.times(levels, multiple)))
        return found - target if criterion.logarithm else float(np.log(found / target))

    last, multiple = 1.0 - 1e-6, 1.0  # downwards no limit is in the way
    before, now = excess(last), excess(multiple)
    for _ in range(5):
        if not abs(now) > 1e-11 or now == before:
            break
        last, multiple = multiple, multiple - now * (multiple - last) / (now - before)
        before, now = now, excess(multiple)
    return multiple if abs(now) <= 1e-9 else np.inf


def _inside(problem: Problem, levels: Array) -> Array:
    """At most these levels, and well within caps and persons' limits."""
    levels = np.minimum(levels, INSIDE * problem.cap)
    if problem.person is None:
        return levels
    assert problem.share is not None
    assert problem.most is not None
    used = problem.per_person(problem.share * levels)
    allowed = INSIDE * problem.most
    part = np.divide(allowed, used, out=np.ones(len(used)), where=used > allowed)
    return np.asarray(levels * part[problem.person])


def _reaching(problem: Problem, criterion: Scaled, target: float) -> Array:
    """Levels of equal cost with which the target is about reached, or what the limits allow."""

    def value(spend: float) -> float:
        return criterion.value(problem.information(problem.feasible(spend / problem.cost)))

    spend = float(np.median(problem.cost))
    while value(spend) <= target and spend > 1e-150:
        spend /= 2.0
    found, more = value(spend), value(2.0 * spend)
    while found > target and (not np.isfinite(found) or found - more > 1e-6 * abs(found)):
        spend *= 2.0
        found, more = more, value(2.0 * spend)
        if spend > 1e150:
            break
    return _inside(problem, spend / problem.cost)

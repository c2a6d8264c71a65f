"""A Newton method on the dual: few unknowns whatever the number of readings, which are only priced.

A step prices all readings (one pass), takes the levels that are best at these prices, and solves a
Newton system of n(n+1)/2 unknowns (`_forms`) whose matrix needs the readings that get something,
and of these a sample where they are many: the gradient is exact, so that the answer is.

Where levels times variances are small the dual is nearly a maximum of finitely many functions. So
the search starts with the variances raised and lets them fall (`Search.smoothing`). Every point
proves a floor, and the levels at its prices are feasible: the gap of the two ends the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.design._certificate import Point
from privest.design._dual._filling import Filling, fill
from privest.design._dual._forms import Form, Line, form_of
from privest.design._dual._passes import Path, information, newton_matrix, solved, true_prices
from privest.design._oracle import Prices, most
from privest.design._problem import Problem
from privest.design._scaled import Least, Scaled

STEPS = 200
FIRST = 0.1  # variance times equal level, at least, at the first step
FALL = 0.3  # by which the raised variances fall
LEAST = 1e-11  # variance times equal level where smoothing ends for exact readings
RIDGE = 1e-6  # of the information at equal levels, after good steps, and
STEEP = 1e-3  # after bad ones
ENOUGH = 0.2  # of its first slope: a line search may leave so much
PATIENCE = 0.2  # part of a Newton step after which less smoothing is tried
WHOLE = 0.9  # and after which the point is as good as reached
AFRESH = 0.01  # change of the budget after which a barrier begins anew
TRIALS = 30  # of a line search


class Found(NamedTuple):
    """What a line search ends with."""

    part: float
    q: Array
    price: float | None


@dataclass(eq=False)
class Search:
    """A point of the dual, and the best that was seen on the way to it.

    q          worths at the point, (m,).
    price      ν of its levels.
    smoothing  the variances are max(v, smoothing);
    fallen     what it was at the last step, if it was more.
    levels, value    the best levels so far;
    floor, weights, prices    the best proof.
    """

    problem: Problem
    criterion: Scaled
    budget: float
    tol: float
    form: Form
    q: Array
    smoothing: float
    price: float | None = None
    ridge: float = RIDGE
    settled: bool = True
    fresh: bool = True
    fallen: float | None = None
    steps: int = 0
    levels: Array | None = None
    value: float = np.inf
    floor: float = -np.inf
    weights: Array | None = None
    prices: Prices | None = None

    @classmethod
    def start(cls, problem: Problem, criterion: Scaled, budget: float, tol: float) -> Search:
        """At equal levels."""
        equal = problem.within(np.ones(problem.atoms), budget)
        form = form_of(criterion, problem.information(equal))
        unit = float(problem.cost.sum()) / budget
        return cls(
            problem, criterion, budget, tol, form, problem.squares(form.factor), FIRST * unit
        )

    def continued(self, budget: float, tol: float) -> Search:
        """The same search for another budget, from where it is."""
        assert self.levels is not None
        change = min(1.0, abs(budget / self.budget - 1.0))
        if isinstance(self.criterion, Least) and change > AFRESH:
            change = 1.0
        form = self.form.freed(self.problem.information(self.levels), change)
        q = self.q if form is self.form else self.problem.squares(form.factor)
        unit = float(self.problem.cost.sum()) / budget
        smoothing, problem = FIRST * change * unit, self.problem
        if problem.exact:  # no price at which levels of readings without noise spend a budget
            smoothing = max(smoothing, LEAST * unit)
            problem = replace(problem, variance=np.maximum(problem.variance, smoothing))
        filling = fill(problem, q, budget, self.price)
        grown = form.balance(filling.top(problem, q, budget))
        return Search(
            self.problem, self.criterion, budget, tol, form.scaled(grown), q * grown**2, smoothing,
            filling.prices.budget * grown**2, steps=self.steps,
        )  # fmt: skip

    @property
    def gap(self) -> float:
        if not np.isfinite(self.value):
            return np.inf
        return (self.value - self.floor) / (1.0 if self.criterion.logarithm else self.value)

    @property
    def smoothed(self) -> bool:
        return bool(self.smoothing > self.problem.variance.min())

    def run(self) -> Search:
        """Newton steps until the gap is `tol`, or nothing moves any more."""
        part = 1.0
        for _ in range(STEPS):
            problem = self._eased()
            filling = fill(problem, self.q, self.budget, self.price)
            self.price = filling.prices.budget
            M = information(problem, filling)
            if not self.smoothed or part >= WHOLE:
                self._prove(filling, M)
            if self.gap <= self.tol:
                if self.fresh:
                    break
                self._refresh()
                continue
            self.steps += 1
            part = self._step(problem, filling, M)
            if part == 0.0 and not self.smoothed:
                break
            self._relax(part)
        return self

    def _refresh(self) -> None:
        """Worths without the rounding of many steps, and a proof that needs no other."""
        self.q, self.fresh = self.problem.squares(self.form.factor), True
        self.floor = -np.inf

    def _eased(self) -> Problem:
        if not self.smoothed:
            return self.problem
        return replace(self.problem, variance=np.maximum(self.problem.variance, self.smoothing))

    def _relax(self, part: float) -> None:
        """Less smoothing after a good step, a larger ridge after a bad one."""
        if part < PATIENCE:
            self.ridge = min(self.ridge * 10, STEEP)
            return
        self.ridge = max(self.ridge / 10, RIDGE)
        if self.smoothed:
            self.fallen = self.smoothing
            unit = float(self.problem.cost.sum()) / self.budget
            self.smoothing = max(self.smoothing * FALL, LEAST * unit)
        elif part >= WHOLE and self.settled:
            self.form = self.form.tighter(self.tol)

    def _prove(self, filling: Filling, M: Array) -> None:
        """Value of the levels, floor of the point; both with the true variances."""
        levels = filling.all_levels(self.problem)
        if self.smoothed:
            levels = self.problem.within(levels, self.budget)
            M = self.problem.information(levels)
        value = self.criterion.value(M)
        if value < self.value:
            self.value, self.levels = value, levels
        witness = self.form.witness()
        if witness is None:
            return
        prices = filling.prices
        if self.smoothed:
            prices = true_prices(self.problem, self.q, self.budget, prices)
        top = most(self.problem, self.q, self.budget, prices)
        floor = witness.floor(top) if np.isfinite(top) else -np.inf
        if floor > self.floor:
            self.floor, self.weights, self.prices = floor, self.form.weights(), prices

    def _step(self, problem: Problem, filling: Filling, M: Array) -> float:
        """A Newton step with a line search; the part of it that was taken."""
        gradient = self.form.gradient(M)
        part = 0.0
        if self.fallen is not None:
            part = self._along(problem, self._ahead(problem, self.fallen), gradient, PATIENCE)
            self.fallen = None
        if part == 0.0:
            part = self._along(problem, self._newton(problem, filling, M, gradient), gradient)
        return part

    def _along(self, problem: Problem, step: Array, gradient: Array, least: float = 0.0) -> float:
        """Go along a step as far as the dual grows, if that is more than a part `least` of it."""
        first = float(gradient @ step)
        if not first < 0:
            return 0.0
        line = self.form.line(step)
        found = self._search(problem, line, first)
        if found.part <= least:
            return 0.0
        self.settled = line.settled
        self.form, self.q, self.price = line.at(found.part), found.q, found.price
        self.fresh = False
        return found.part

    def _newton(
        self, problem: Problem, filling: Filling, M: Array, gradient: Array, over: float = 0.0
    ) -> Array:
        """The step at which gradient and spending would be right if both were straight lines."""
        matrix = newton_matrix(problem, self.form, self.q, filling, self.steps)
        matrix[:-1, :-1] += self.form.curvature(M, self.ridge)
        size = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(float).tiny))
        system = matrix * size * size[:, None]
        return np.asarray(-size * solved(system, size * np.append(gradient, over)))[:-1]

    def _ahead(self, problem: Problem, smoothing: float) -> Array:
        """The first step after the variances fell from `smoothing`, from the LEVELS of before.

        At the same worths the levels would jump; they hardly do at the new optimum. In the straight
        lines of the new problem at the old levels they move by (worth − price)/stiffness.
        """
        old = replace(self.problem, variance=np.maximum(self.problem.variance, smoothing))
        here = fill(old, self.q, self.budget, self.price).in_problem(problem, self.q)
        moves = here.surplus(problem, self.q) / here.stiffness
        M = information(problem, here)
        gradient = self.form.gradient(M + information(problem, here, moves))
        spent = float(problem.cost[here.atoms] @ moves)
        return self._newton(problem, here, M, gradient, -here.prices.budget * spent)

    def _search(self, problem: Problem, line: Line, first: float) -> Found:
        """Where along the line the dual is about best: its slope has a sign that changes once."""
        if line.second is None:
            (ahead,), square = self.problem.products(line.first), None
        else:
            ahead, square = self.problem.products(line.first, line.second)
        path, price = Path(problem, self.q, ahead, square), self.price
        low, low_slope, high, high_slope = 0.0, first, np.inf, np.inf
        part, taken, taken_price = line.longest, 0.0, price
        for _ in range(TRIALS):
            price, slope = path.trial(part, self.budget, price)
            slope -= line.gain(part)
            if slope <= 0 or abs(slope) <= ENOUGH * abs(first):
                taken, taken_price = part, price
            if abs(slope) <= ENOUGH * abs(first) or (slope < 0 and not np.isfinite(high)):
                break
            if slope < 0:
                low, low_slope = part, slope
            else:
                high, high_slope = part, slope
                path = path.narrowed(part, min(price, self.price or price))
            ratio = -low_slope / (high_slope - low_slope)
            part = low + (high - low) * min(max(ratio, 0.1), 0.9)
        whole = Path(problem, self.q, ahead, square)
        return Found(taken, whole.at(taken), taken_price)

    def point(self) -> Point:
        """The best levels and the best proof."""
        levels = self.levels
        if levels is None:
            levels = self.problem.within(np.ones(self.problem.atoms), self.budget)
        return Point(levels, self.steps, "dual Newton", self.prices, self.weights)


def solve_budget(problem: Problem, criterion: Scaled, budget: float, tol: float) -> Point:
    """The least criterion for a budget: `Trace`, `LogDet`, `Least`; single readings or groups."""
    return Search.start(problem, criterion, budget, tol).run().point()

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

from privest.arrays import Array, Index
from privest.design._certificate import Point
from privest.design._filling import Filling, fill
from privest.design._forms import Form, Line, form_of
from privest.design._oracle import Prices, most
from privest.design._problem import BLOCK, Problem
from privest.design._scaled import Least, Scaled

STEPS = 200
WORK = 5e8  # multiplications of one Newton matrix: beyond it a sample of the readings
FIRST = 0.1  # variance times equal level, at least, at the first step
FALL = 0.1  # by which the raised variances fall
LEAST = 1e-11  # variance times equal level where smoothing ends for exact readings
RIDGE = 1e-6  # of the information at equal levels
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
    smoothing  the variances are max(v, smoothing).
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
        filling = fill(self.problem, q, budget, self.price)
        grown = form.balance(filling.top(self.problem, q, budget))
        smoothing = FIRST * change * float(self.problem.cost.sum()) / budget
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
                break
            self.steps += 1
            part = self._step(problem, filling, M)
            if part == 0.0 and not self.smoothed:
                break
            self._relax(part)
        return self

    def _eased(self) -> Problem:
        if not self.smoothed:
            return self.problem
        return replace(self.problem, variance=np.maximum(self.problem.variance, self.smoothing))

    def _relax(self, part: float) -> None:
        """Less smoothing after a good step, a larger ridge after a bad one."""
        if part < PATIENCE:
            self.ridge *= 10
            return
        self.ridge = max(self.ridge / 10, RIDGE)
        if self.smoothed:
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
        matrix = newton_matrix(problem, self.form, self.q, filling, self.steps)
        matrix[:-1, :-1] += self.form.curvature(M, self.ridge)
        size = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(float).tiny))
        system = matrix * size * size[:, None]
        step = -size * _solved(system, size * np.append(gradient, 0.0))
        line = self.form.line(step[:-1])
        self.settled = line.settled
        found = self._search(problem, line, float(gradient @ step[:-1]))
        if found.part > 0:
            self.form, self.q, self.price = line.at(found.part), found.q, found.price
            if self.steps % 8 == 0:  # before rounding adds up
                self.q = self.problem.squares(self.form.factor)
        return found.part

    def _search(self, problem: Problem, line: Line, first: float) -> Found:
        """Where along the line the dual is about best: its slope has a sign that changes once."""
        ahead = self.problem.products(line.first)
        square = None if line.second is None else self.problem.products(line.second)
        price = self.price
        low, low_slope, high, high_slope = 0.0, first, np.inf, np.inf
        part, best = line.longest, Found(0.0, self.q, price)
        for _ in range(TRIALS):
            q = self.q + part * ahead
            if square is not None:
                q += part * part * square
            np.maximum(q, 0.0, out=q)
            filling = fill(problem, q, self.budget, price)
            price = filling.prices.budget
            slope = _gained(problem, filling, ahead, square, part) - line.gain(part)
            if slope <= 0 or abs(slope) <= ENOUGH * abs(first):
                best = Found(part, q, price)
            if abs(slope) <= ENOUGH * abs(first) or (slope < 0 and not np.isfinite(high)):
                break
            if slope < 0:
                low, low_slope = part, slope
            else:
                high, high_slope = part, slope
            ratio = -low_slope / (high_slope - low_slope)
            part = low + (high - low) * min(max(ratio, 0.1), 0.9)
        return best

    def point(self) -> Point:
        """The best levels and the best proof."""
        levels = self.levels
        if levels is None:
            levels = self.problem.within(np.ones(self.problem.atoms), self.budget)
        return Point(levels, self.steps, "dual Newton", self.prices, self.weights)


def solve_budget(problem: Problem, criterion: Scaled, budget: float, tol: float) -> Point:
    """The least criterion for a budget: `Trace`, `LogDet`, `Least`; single readings or groups."""
    return Search.start(problem, criterion, budget, tol).run().point()


def true_prices(problem: Problem, q: Array, budget: float, near: Prices) -> Prices:
    """Prices for the true variances; at least what the exact readings are worth."""
    if problem.exact:
        exact = problem.per_atom(np.where(problem.variance > 0, 0.0, q))
        free = np.isinf(problem.cap)
        needed = float((exact / problem.cost)[free].max(initial=0.0))
        needed *= 1.0 + 1e-12  # worths are rounded, and below the price there is no proof at all
        return Prices(max(near.budget, needed), near.persons)
    return fill(problem, q, budget, near.budget).prices


def readings_of(problem: Problem, filling: Filling) -> tuple[Index | slice, Array]:
    """The readings that get something (all, where most do), and their levels."""
    if problem.atom is None and len(filling.atoms) < problem.atoms // 2:
        return filling.atoms, filling.levels
    return slice(None), problem.per_reading(filling.all_levels(problem))


def information(problem: Problem, filling: Filling) -> Array:
    """M of the levels."""
    which, s = readings_of(problem, filling)
    if isinstance(which, slice):
        return problem.gram(s / (1.0 + problem.variance * s))
    part = replace(problem, rows=problem.rows[which])
    return part.gram(s / (1.0 + problem.variance[which] * s))


def _gained(
    problem: Problem, filling: Filling, ahead: Array, square: Array | None, part: float
) -> float:
    """dφ/dt = Σ x_k dq_k/dt."""
    which, s = readings_of(problem, filling)
    change = ahead[which]
    if square is not None:
        change = change + 2.0 * part * square[which]
    return float((s / (1.0 + problem.variance[which] * s)) @ change)


def _solved(system: Array, right: Array) -> Array:
    try:
        return np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # a direction for the line search is enough
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0])


def newton_matrix(problem: Problem, form: Form, q: Array, filling: Filling, step: int) -> Array:
    """Σ_g (Σ_k x_k'∂q_k, −cost_g)(…)ᵀ/stiffness_g, (d + 1, d + 1), the last unknown is log ν."""
    free = np.flatnonzero(np.isfinite(filling.stiffness))
    atoms, s = filling.atoms[free], filling.levels[free]
    root = 1.0 / np.sqrt(filling.stiffness[free])
    v = problem.variance[atoms]
    first = (1.0 + v * s) ** -2
    d = len(form.gradient(np.zeros((problem.parameters,) * 2)))
    many = max(int(WORK / (d + 1) ** 2), 20 * d)
    if len(atoms) > many:
        ends = np.cumsum((root * first * q[atoms]) ** 2)
        at = (np.arange(many) + (0.5 + 0.618034 * step) % 1.0) * (ends[-1] / many)
        chosen = np.minimum(np.searchsorted(ends, at), len(atoms) - 1)
        size = np.diff(ends, prepend=0.0)[chosen]
        root = root[chosen] * np.sqrt(ends[-1] / (many * np.maximum(size, 1e-300)))
        atoms, first = atoms[chosen], first[chosen]
    total = np.zeros((d + 1, d + 1))
    price = filling.prices.budget
    for start in range(0, len(atoms), BLOCK // 4):
        part = slice(start, start + BLOCK // 4)
        block = np.empty((len(atoms[part]), d + 1))
        block[:, :d] = form.features(problem.rows[atoms[part]])
        block[:, :d] *= (first[part] * root[part])[:, None]
        block[:, d] = -price * problem.cost[atoms[part]] * root[part]
        total += block.T @ block
    return total

"""What a step of the dual Newton method (`_search`) needs of the readings: passes over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privest.arrays import Array, Index
from privest.design._dual._filling import Filling, fill
from privest.design._dual._forms import Form
from privest.design._oracle import Prices
from privest.design._problem import BLOCK, Problem

WORK = 5e8  # multiplications of one Newton matrix: beyond it a sample of the readings


@dataclass(frozen=True, eq=False)
class Path:
    """Worths q(t) = q + t·ahead + t²·square of readings along a line of the dual.

    Each is convex: who gets nothing at both ends, at a price well below both, gets nothing between.
    So a search looks at few readings after its first trial (`lowest`: the price it relies on).
    """

    problem: Problem
    q: Array
    ahead: Array
    square: Array | None
    lowest: float = 0.0
    whole: Path | None = None

    def at(self, t: float) -> Array:
        q = self.q + t * self.ahead
        if self.square is not None:
            q += t * t * self.square
        return np.maximum(q, 0.0, out=q)

    def trial(self, t: float, budget: float, price: float | None) -> tuple[float, float]:
        """ν and dφ/dt there."""
        found = fill(self.problem, self.at(t), budget, price)
        if self.whole is not None and found.prices.budget < self.lowest:
            return self.whole.trial(t, budget, price)
        return found.prices.budget, self._slope(found, t)

    def _slope(self, filling: Filling, t: float) -> float:
        """dφ/dt = Σ x_k dq_k/dt."""
        which, s = readings_of(self.problem, filling)
        change = self.ahead[which]
        if self.square is not None:
            change = change + 2.0 * t * self.square[which]
        return float((s / (1.0 + self.problem.variance[which] * s)) @ change)

    def narrowed(self, t: float, price: float) -> Path:
        """For trials between 0 and t."""
        problem, lowest = self.problem, price / 2.0
        if self.whole is not None or problem.atom is not None or problem.person is not None:
            return self
        which = np.flatnonzero(np.maximum(self.q, self.at(t)) > lowest * problem.cost)
        if len(which) > problem.atoms // 2:
            return self
        few = replace(
            problem, rows=problem.rows[:0], variance=problem.variance[which],
            cost=problem.cost[which], cap=problem.cap[which],
        )  # fmt: skip
        square = None if self.square is None else self.square[which]
        return Path(few, self.q[which], self.ahead[which], square, lowest, self)


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


def information(problem: Problem, filling: Filling, moves: Array | None = None) -> Array:
    """M of the levels; or what `moves` of them add to it, to first order."""
    which, s = readings_of(problem, filling)
    v = problem.variance[which]
    weights = s / (1.0 + v * s)
    if moves is not None:
        _, moved = readings_of(problem, replace(filling, levels=moves))
        weights = moved / (1.0 + v * s) ** 2
    if isinstance(which, slice):
        return problem.gram(weights)
    return replace(problem, rows=problem.rows[which]).gram(weights)


def solved(system: Array, right: Array) -> Array:
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

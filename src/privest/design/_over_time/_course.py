"""A stream's estimates, all of them: the engine of `spread`.

    F(x) = Σ_k g_k tr BᵀPI_k⁻¹B ,   PI_k = Σ_{j ≤ k} x_j h_jh_jᵀ

is convex in x and of degree −1. Its slopes are q_j = h_jᵀ(Σ_{k ≥ j} g_k Z_kZ_kᵀ)h_j, Z_k = PI_k⁻¹B
(a reverse cumulative sum), and by Cauchy-Schwarz, at any x whatever,

    F(x') Σ_j q_j x'_j ≥ (Σ_k g_k tr BᵀZ_k)² = F(x)²   for every x' ,

so that F² over the most that qᵀx can be within the budget is a floor: the certificate of `_oracle`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import EPS, Array, Flags, Index
from privest.design import _oracle as oracle
from privest.design._oracle import Prices
from privest.design._problem import Problem

PLAIN = 12  # steps of Frank-Wolfe before Newton's method joins in
ROUNDS = 12  # of Newton's method at a time
NOTHING = 1e-9  # of the largest level: below it Frank-Wolfe left a trace
WORTH = (0.5, 0.8, 0.9)  # of the price: what is worth less is left out where there is too much
BLOCK = 2**20  # products at a time
WORK = 2e7  # readings that show something, squared, times estimates: beyond it Frank-Wolfe alone


@dataclass(frozen=True, eq=False)
class Course:
    """Readings in the order of time and what their estimates are worth.

    problem  rows (m, n), variances, costs, caps; every reading its own level.
    root     B (n, r) with W = BBᵀ, in the coordinates of the rows.
    worth    g (m,) ≥ 0: how much the estimate after each reading counts.
    """

    problem: Problem
    root: Array
    worth: Array

    @property
    def counts(self) -> Flags:
        return self.worth > 0

    def informations(self, x: Array) -> Array:
        """PI_k (c, n, n) after the readings whose estimates count."""
        rows = self.problem.rows
        each = (x[:, None] * rows)[:, :, None] * rows[:, None, :]
        return np.cumsum(each, axis=0)[self.counts]

    def errors(self, informations: Array) -> tuple[Array, Array] | None:
        """tr BᵀPI_k⁻¹B (c,), and Z_k (c, n, r); None where a PI_k is singular."""
        try:
            lower = np.linalg.cholesky(informations)
        except np.linalg.LinAlgError:
            return None
        left = lower.diagonal(0, 1, 2) ** 2 / informations.diagonal(0, 1, 2)
        if left.min() < 1e3 * left.shape[1] * EPS:
            return None
        half = np.linalg.solve(lower, np.broadcast_to(self.root, (len(lower), *self.root.shape)))
        solved = np.linalg.solve(lower.swapaxes(1, 2), half)
        return np.einsum("kij,kij->k", half, half), solved

    def value(self, x: Array) -> float:
        found = self.errors(self.informations(x))
        return np.inf if found is None else float(self.worth[self.counts] @ found[0])

    def slopes(self, solved: Array) -> Array:
        """q (m,) = −∂F/∂x."""
        m, n = self.problem.rows.shape
        each = np.zeros((m, n, n))
        weighted = solved * np.sqrt(self.worth[self.counts])[:, None, None]
        each[self.counts] = weighted @ weighted.swapaxes(1, 2)
        later = np.cumsum(each[::-1], axis=0)[::-1]
        rows = self.problem.rows
        return np.asarray(np.einsum("ki,kij,kj->k", rows, later, rows))

    def curvature(self, informations: Array, solved: Array, free: Index) -> Array:
        """∂²F/∂x² among some readings: 2 Σ_k g_k (h_iᵀPI_k⁻¹h_j)(h_iᵀZ_kZ_kᵀh_j), i, j ≤ k."""
        times, rows = np.flatnonzero(self.counts), self.problem.rows[free]
        total = np.zeros((len(free),) * 2)
        size = max(1, BLOCK // len(free) ** 2)
        for start in range(0, len(times), size):
            part = slice(start, start + size)
            there = (free <= times[part, None]).astype(float)[:, :, None] * rows
            inverse = np.linalg.solve(informations[part], there.swapaxes(1, 2))
            seen = there @ solved[part]
            total += np.einsum(
                "k,kij,kij->ij", 2.0 * self.worth[times[part]], there @ inverse,
                seen @ seen.swapaxes(1, 2),
            )  # fmt: skip
        return (total + total.T) / 2

    def best_part(self, here: Array, ahead: Array) -> float:
        """α ∈ [0, 1] at which F(x + α(x⁺ − x)) is least: generalised eigenvalues of every step."""
        lower = np.linalg.cholesky(here)
        inner = np.linalg.solve(lower, ahead - here)
        inner = np.linalg.solve(lower, inner.swapaxes(1, 2))
        values, vectors = np.linalg.eigh((inner + inner.swapaxes(1, 2)) / 2)
        half = np.linalg.solve(lower, np.broadcast_to(self.root, (len(lower), *self.root.shape)))
        share = np.sum((vectors.swapaxes(1, 2) @ half) ** 2, axis=2)
        weight = share * self.worth[self.counts][:, None]

        def slope(part: float) -> float:
            return -float(np.sum(weight * values / (1.0 + part * values) ** 2))

        # At the end an information may be singular: not quite so far then.
        last = 1.0 if self.errors(ahead) is not None else 1.0 - 1e-6
        if slope(last) <= 0:
            return last
        if slope(0.0) >= 0:
            return 0.0
        return float(scipy.optimize.brentq(slope, 0.0, last, xtol=1e-14))


@dataclass(frozen=True, eq=False)
class Found:
    """What was found: levels (m,), and the floor, with the witness that it is by.

    price  ν of the budget there; `last` Z (n, r) of the last estimate.
    """

    levels: Array
    floor: float
    price: float
    last: Array
    steps: int
    method: str


def solve(course: Course, budget: float, tol: float, start: Array, most_steps: int = 400) -> Found:
    """Frank-Wolfe in x with exact line search, from levels at which every estimate exists.

    Where it is slow (levels far below 1/v, few readings that show anything) steps of Newton's
    method on the readings that do take its place in turn.
    """
    problem = course.problem
    levels = problem.within(start, budget)
    floor, price, prices = -np.inf, 0.0, None
    last, step, newton = np.zeros(0), 0, False
    for step in range(1, most_steps + 1):
        x = problem.precisions(levels)
        here = course.informations(x)
        found = course.errors(here)
        assert found is not None
        errors, solved = found
        value = float(course.worth[course.counts] @ errors)
        q = course.slopes(solved)
        prices = oracle.budget_prices(problem, q, budget, None if prices is None else prices.budget)
        top = oracle.most(problem, q, budget, prices)
        if value**2 / top > floor:
            floor, price, last = value**2 / top, prices.budget, solved[-1]
        if value - floor <= tol * value:
            break
        ahead = problem.precisions(_vertex(problem, q, prices, budget))
        part = course.best_part(here, course.informations(ahead))
        x = x + part * (ahead - x)
        levels = x / (1.0 - problem.variance * x)
        if step >= PLAIN:
            newton = True
            levels = newton_steps(course, budget, levels, q, prices.of(problem))
    method = "Frank-Wolfe and Newton" if newton else "Frank-Wolfe"
    return Found(levels, floor, price, last, step, method)


def _vertex(problem: Problem, q: Array, prices: Prices, budget: float) -> Array:
    """Levels with the largest qᵀx within the budget.

    Readings without noise take what the others leave, those of the greatest worth first.
    """
    levels = oracle.levels_at(problem, q, prices.of(problem))
    levels = np.where(problem.variance > 0, levels, 0.0)
    rest = budget - problem.spent(levels)
    if problem.exact and rest > 0:  # at a price that is the worth of one of them it may be any
        exact = np.flatnonzero(problem.variance == 0)
        exact = exact[np.argsort(-q[exact] / problem.cost[exact], kind="stable")]
        room = problem.cost[exact] * problem.cap[exact]
        taken = np.concatenate([[0.0], np.cumsum(room)[:-1]])
        levels[exact] = np.clip(rest - taken, 0.0, room) / problem.cost[exact]
    return problem.within(levels, budget)


def newton_steps(course: Course, budget: float, levels: Array, q: Array, prices: Array) -> Array:
    """Newton's method in the levels that are not zero nor at a cap, Σ c_k s_k kept.

    Of too many readings those that are worth nearly their price (the others are traces that
    Frank-Wolfe leaves). A level that a step would make negative stops it and is zero from then on.
    The levels as they were where nothing better is found.
    """
    problem = course.problem
    given, best = levels, course.value(problem.precisions(levels))
    kept = levels > NOTHING * levels.max()
    for worth in WORTH:
        if _work(course, kept) <= WORK:
            break
        kept = kept & (q > worth * prices)
    levels = problem.within(np.where(kept, levels, 0.0), budget)
    if not np.isfinite(course.value(problem.precisions(levels))):
        return given
    for _ in range(ROUNDS):
        free = np.flatnonzero((levels > 0) & (levels < problem.cap))
        if len(free) < 2 or _work(course, levels > 0) > WORK:
            break
        moved = _newton_step(course, levels, free)
        if moved is None:
            break
        levels = moved
    return levels if course.value(problem.precisions(levels)) < best else given


def _work(course: Course, kept: Flags) -> int:
    return int(np.count_nonzero(kept)) ** 2 * int(np.count_nonzero(course.counts))


def _newton_step(course: Course, levels: Array, free: Index) -> Array | None:
    """The levels after one step; None where there is no lower value along it."""
    problem = course.problem
    x = problem.precisions(levels)
    here = course.informations(x)
    found = course.errors(here)
    assert found is not None
    value = float(course.worth[course.counts] @ found[0])
    q = course.slopes(found[1])[free]
    v, s, cost = problem.variance[free], levels[free], problem.cost[free]
    rate = (1.0 + v * s) ** -2
    second = course.curvature(here, found[1], free) * rate * rate[:, None]
    second[np.diag_indices(len(free))] += 2.0 * v * q * (1.0 + v * s) ** -3
    # Levels in units of themselves: entries of one size.
    system = np.zeros((len(free) + 1,) * 2)
    system[:-1, :-1] = second * s * s[:, None]
    system[-1, :-1] = system[:-1, -1] = cost * s
    size = np.diagonal(system)[:-1]
    if not (np.isfinite(size) & (size > 0)).all():
        return None  # an information is singular but for rounding
    unit = np.append(np.sqrt(size), 1.0)
    unit[-1] = np.linalg.norm(system[-1, :-1] / unit[:-1])
    right = np.append(q * rate * s, 0.0)
    step = np.linalg.lstsq(system / unit / unit[:, None], right / unit)[0][:-1] / unit[:-1] * s
    with np.errstate(divide="ignore"):
        ends = np.where(step < 0, s / -step, (problem.cap[free] - s) / np.where(step > 0, step, 1))
    ends[step == 0] = np.inf
    part = min(1.0, float(ends.min()))
    for _ in range(30):
        moved = levels.copy()
        moved[free] = np.clip(s + part * step, 0.0, problem.cap[free])
        if part == ends.min():
            moved[free[ends.argmin()]] = 0.0 if step[ends.argmin()] < 0 else problem.cap[
                free[ends.argmin()]]  # fmt: skip
        if course.value(problem.precisions(moved)) < value:
            return moved
        part /= 2
    return None

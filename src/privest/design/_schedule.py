"""A stream's budget over time: the levels that serve all estimates.

    F(x) = Σ_k g_k tr BᵀPI_k⁻¹B ,   PI_k = Σ_{j ≤ k} x_j h_jh_jᵀ

is convex in x. Its slopes are q_j = h_jᵀ(Σ_{k ≥ j} g_k Z_kZ_kᵀ)h_j, Z_k = PI_k⁻¹B, and by
Cauchy-Schwarz, at any x,

    F(x') Σ_j q_j x'_j ≥ (Σ_k g_k tr BᵀZ_k)² = F(x)²   for every x' ,

so that F² over the largest qᵀx within the budget is a floor (`_certificate`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from privest.arrays import EPS, Array, ArrayLike, Flags, Index, as_array, as_choice
from privest.design._allocate import refuse
from privest.design._allocation import TOLERANCE, Allocation
from privest.design._certificate import Prices, budget_prices, levels_at, most_worth
from privest.design._criteria import Variances, as_criterion
from privest.design._problem import Problem, constraints_of, linear, task_of
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import weighted_roots
from privest.model import LinearModel

STEPS = 400
PLAIN = 12  # steps towards the best levels for q before Newton's method joins in
ROUNDS = 12  # of Newton's method at a time
NOTHING = 1e-9  # of the largest level: below it a level is a trace
WORTH = (0.5, 0.8, 0.9)  # of the price: what is worth less is left out where there is too much
BLOCK = 2**20  # products at a time
WORK = 2e7  # measurements that show something, squared, times estimates: beyond it no Newton steps


def schedule(
    model: LinearModel, budget: float, *, estimates: ArrayLike | Literal["every"] = "every",
    weight: ArrayLike | None = None, cost: ArrayLike = 1.0, cap: ArrayLike = np.inf,
) -> Allocation:  # fmt: skip
    """The levels of a stream that serve all its estimates best, for one budget over all time.

        minimise Σ_k g_k tr WΣ_k   over s ≥ 0 ,  Σ_k c_k s_k ≤ budget ,  s_k ≤ cap_k

    The measurements of `model` come one after the other; Σ_k is the covariance of the best estimate
    from the releases up to k. `estimates` g: "every": all count alike, from the first that exists;
    a number γ in (0, 1): each counts γ times the one before; (m,) numbers ≥ 0. `weight` W, `cost`
    and `cap` as for `allocate`, which is best for the final estimate alone. Assumes independent
    noise, and releases of one measurement each (U = 0). Memory m n².

    >>> found = schedule(LinearModel(np.ones((50, 1)), noise=1.0), 50.0)
    >>> found.levels[:3].round(2).tolist(), bool(found.levels[-1] == 0)  # early ones serve all
    ([7.28, 4.52, 3.51], True)
    >>> round(found.equal / found.value, 2)  # what equal levels lose
    1.41
    """
    asked = as_criterion("A", weight, linear(model).names)
    limits = constraints_of(model.measurements, cost, cap)
    most = limits.budget(budget)
    task = task_of(model, asked, limits)
    task = task.in_units(most / float(task.problem.cost.sum()))
    problem = task.problem
    scaled = task.criterion
    usable = problem.cap > 0
    rows = model.matrix[usable]
    if len(rows) == 0 or weighted_roots(rows, [1.0])[0].rank < model.parameters:
        refuse(task, np.inf, np.inf)
    assert isinstance(scaled, Variances)
    worth = as_worth(estimates, len(usable), first_estimate(model.matrix, usable))
    course = Course(problem, scaled.columns, worth)
    equal = problem.within(np.ones(len(usable)), most)
    if not np.isfinite(course.value(equal)):
        raise NumericalFailure(
            f"The estimate after measurement {int(np.flatnonzero(course.counts)[0])} exists, but "
            "its information is too ill-conditioned for double precision: let later ones count."
        )
    found = solve(course, most)
    levels = problem.within(found.levels, most)
    value = course.value(levels)
    own = task.levels(levels, most)
    words = replace(asked, words="the weighted sum of the squared errors of all estimates")
    return Allocation(
        own, value, min(problem.spent(levels), most), found.floor,
        max((value - found.floor) / value, 0.0), "budget", most, words, model, None,
        equal=course.value(equal), price=found.price, iterations=found.steps, method=found.method,
    )  # fmt: skip


def first_estimate(matrix: Array, usable: Flags) -> int:
    def full(k: int) -> bool:
        rows = matrix[: k + 1][usable[: k + 1]]
        return len(rows) > 0 and weighted_roots(rows, [1.0])[0].rank == matrix.shape[1]

    return bisect_left(range(len(matrix) - 1), True, key=full)


def as_worth(estimates: ArrayLike | str, m: int, first: int) -> Array:
    later = np.arange(m) >= first
    if isinstance(estimates, str):
        as_choice(estimates, ("every",), "estimates")
        return later * 1.0
    given = as_array(estimates, "estimates", ndim=(0, 1))
    if given.ndim == 0:
        if not 0 < given < 1:
            raise InvalidInput(f"a discount lies between 0 and 1; received {float(given):g}.")
        return np.asarray(given ** np.arange(m) * later)
    if len(given) != m or (given < 0).any() or not given.any():
        raise InvalidInput(
            f"estimates: one number ≥ 0 for each of {m} measurements, not all of them 0; received "
            f"shape {given.shape}."
        )
    if given[:first].any():
        raise InvalidInput(
            f"before measurement {first} (from 0) there is no estimate that could count: give it "
            "weight 0."
        )
    return np.asarray(given, dtype=float)


@dataclass(frozen=True, eq=False)
class Course:
    """Measurements in the order of time, B (n, r) with W = BBᵀ, and the weights g (m,) of their
    estimates.
    """

    problem: Problem
    root: Array
    worth: Array

    @property
    def counts(self) -> Flags:
        return self.worth > 0

    def informations(self, x: Array) -> Array:
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

    def value(self, levels: Array) -> float:
        """F; inf where an estimate does not exist."""
        found = self.errors(self.informations(self.problem.precisions(levels)))
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
        """∂²F/∂x² among some measurements: 2 Σ_k g_k (h_iᵀPI_k⁻¹h_j)(h_iᵀZ_kZ_kᵀh_j), i, j ≤ k."""
        times = np.flatnonzero(self.counts)
        rows = self.problem.rows[free]
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

    def best_part(self, x: Array, further: Array) -> float:
        """α ∈ [0, 1] at which F(x + α(x⁺ − x)), convex in α, is about least."""

        def slope(part: float) -> float:
            found = self.errors(self.informations(x + part * (further - x)))
            if found is None:  # at the end an information may be singular
                return np.inf
            return -float(self.slopes(found[1]) @ (further - x))

        if slope(1.0) <= 0:
            return 1.0
        if slope(0.0) >= 0:
            return 0.0
        return float(scipy.optimize.bisect(slope, 0.0, 1.0, xtol=1e-9, disp=False))


@dataclass(frozen=True, eq=False)
class Found:
    levels: Array
    floor: float
    price: float
    steps: int
    method: str


def solve(course: Course, budget: float) -> Found:
    """Towards the best levels for the slopes, from equal ones; with Newton steps where slow."""
    problem = course.problem
    levels = problem.within(np.ones(problem.measurements), budget)
    floor = -np.inf
    price = 0.0
    step = 0
    for step in range(1, STEPS + 1):
        x = problem.precisions(levels)
        found = course.errors(course.informations(x))
        assert found is not None
        errors, solved = found
        value = float(course.worth[course.counts] @ errors)
        q = course.slopes(solved)
        prices = budget_prices(problem, q, budget)
        top = most_worth(problem, q, budget, prices)
        if value**2 / top > floor:
            floor = value**2 / top
            price = prices.budget
        if value - floor <= TOLERANCE / 10 * value:
            break
        further = problem.precisions(_vertex(problem, q, prices, budget))
        x = x + course.best_part(x, further) * (further - x)
        levels = x / (1.0 - problem.variance * x)
        if step >= PLAIN:
            levels = newton_steps(course, budget, levels, q, prices.of(problem))
    method = "Frank-Wolfe" + " and Newton" * (step > PLAIN)
    return Found(levels, floor, price, step, method)


def _vertex(problem: Problem, q: Array, prices: Prices, budget: float) -> Array:
    """Levels with the largest qᵀx within the budget; exact ones take what the others leave."""
    levels = levels_at(problem, q, prices.of(problem))
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
    problem = course.problem
    given = levels
    best = course.value(levels)

    def work(kept: Flags) -> int:
        return int(np.count_nonzero(kept)) ** 2 * int(np.count_nonzero(course.counts))

    kept = levels > NOTHING * levels.max()
    for worth in WORTH:
        if work(kept) <= WORK:
            break
        kept = kept & (q > worth * prices)
    levels = problem.within(np.where(kept, levels, 0.0), budget)
    if not np.isfinite(course.value(levels)):
        return given
    for _ in range(ROUNDS):
        free = np.flatnonzero((levels > 0) & (levels < problem.cap))
        if len(free) < 2 or work(levels > 0) > WORK:
            break
        moved = _newton_step(course, levels, free)
        if moved is None:
            break
        levels = moved
    return levels if course.value(levels) < best else given


def _newton_step(course: Course, levels: Array, free: Index) -> Array | None:
    """The levels after one step, which a level at zero or its cap stops; None where nothing is
    lower.
    """
    problem = course.problem
    here = course.informations(problem.precisions(levels))
    found = course.errors(here)
    assert found is not None
    value = float(course.worth[course.counts] @ found[0])
    q = course.slopes(found[1])[free]
    v = problem.variance[free]
    s = levels[free]
    cost = problem.cost[free]
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
    stop = int(ends.argmin())
    for _ in range(30):
        moved = levels.copy()
        moved[free] = np.clip(s + part * step, 0.0, problem.cap[free])
        if part == ends[stop]:
            moved[free[stop]] = 0.0 if step[stop] < 0 else problem.cap[free[stop]]
        if course.value(moved) < value:
            return moved
        part /= 2
    return None

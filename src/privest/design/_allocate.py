"""Designs for independent noise: levels that the Newton method proposes, made feasible and
certified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import scipy

from privest.arrays import EPS, Array, ArrayLike, as_choice, as_number, as_scale, require_scales
from privest.bounds import level_for
from privest.design._allocation import TOLERANCE, Allocation, Direction
from privest.design._certificate import (
    Point,
    Proof,
    budget_floor,
    levels_at,
    relative_gap,
    target_floor,
)
from privest.design._criteria import (
    Criterion,
    Inverse,
    LogDet,
    Scaled,
    as_criterion,
    errors_criterion,
)
from privest.design._newton import solve_budget, solve_target
from privest.design._problem import (
    Constraints,
    Labels,
    Problem,
    Task,
    constraints_of,
    linear,
    task_of,
)
from privest.errors import InfeasibleTarget, InvalidInput, NumericalFailure
from privest.linalg import Diagonal, private_root
from privest.model import LinearModel
from privest.privacy import PrivacyLevel

FARTHEST = 1000.0  # of log det
AGAIN = 100_000  # measurements up to which a search takes seconds at most, and may be asked twice
AT_THE_LIMIT = 1e-8  # relative: closer than this a verdict would be rounding
ROUNDING = 1e-12  # relative: by so much a value may be above a target that it meets
NOTHING = 1e-6  # of the mean level: below it a level is what an interior method left behind
Shape = Literal["diagonal", "full", "persons"]
Target = float | Mapping[Any, float] | ArrayLike


def allocate(
    model: LinearModel, budget: float, *, criterion: str | ArrayLike | Mapping[str, float] = "A",
    weight: ArrayLike | None = None, cost: ArrayLike = 1.0, cap: ArrayLike = np.inf,
    groups: Labels | None = None, persons: Labels | None = None, person_cap: float = np.inf,
    shape: Shape = "diagonal",
) -> Allocation:  # fmt: skip
    """The privacy level that makes a criterion of the error least for a budget.

        minimise f(Σ_PPCR(S))   over S ,  Σ_k c_k S_kk ≤ budget ,  S_kk ≤ cap_k

    `criterion` "A": tr WΣ, "D": log det Σ, "E": λ_max(W^½ΣW^½), or a vector c (array or {name:
    coefficient}): cᵀΣc; `weight` W (n, n) or (n,) of A and E. `cost` c: a number, or one for each
    measurement; budget inf: the caps alone limit. `groups`: measurements with the same label share
    a level. `persons`: labels; the levels of one person add up to at most `person_cap`. `shape`:
    "diagonal": independent noise, any size; assumes independent measurement noise. "full": one
    curator draws all noise jointly, S any matrix; "persons": a full block for each person. These
    two limit the diagonal of S only, a weaker promise that `summary()` states; up to 200
    measurements, with the extra `design` (A and c under a budget alone: any number, no extra).
    Guarantees: `floor` is below the criterion of every admissible level. About ten passes of O(m
    p²), p ≤ n(n + 1)/2. Source: section 8 of the theory page; the dual of `thm:crbound`.

    >>> model = LinearModel([[1.0], [1.0], [3.0]], noise=1.0)
    >>> allocate(model, 3.0).levels.round(4).tolist()  # the most informative has the largest
    [0.2, 0.2, 2.6]
    """
    asked = as_criterion(criterion, weight, linear(model).names)
    limits = constraints_of(model.measurements, cost, cap, groups, persons, person_cap)
    most = limits.budget(budget)
    if as_choice(shape, get_args(Shape), "shape") != "diagonal":
        from privest.design._full import full_budget

        return full_budget(model, most, asked, shape, limits)
    return _least_value(model, asked, most, limits)


def _least_value(
    model: LinearModel, asked: Criterion, most: float, limits: Constraints
) -> Allocation:
    task = visible(task_of(model, asked, limits))
    task = task.in_units(most / float(task.problem.cost.sum()))
    problem = task.problem
    scaled = task.criterion
    if problem.most_budget <= most and problem.person is None:
        value = scaled.value(problem.information(problem.cap))
        if not np.isfinite(value):
            refuse(task, np.inf, value)
        at_caps = Point(problem.cap, 0, "the caps")
        return _answer(task, problem.cap, "budget", most, Proof(value), at_caps)
    if limit_value(problem, scaled) == np.inf:
        refuse(task, np.inf, np.inf)

    def attempt(strict: float, part: float) -> Allocation:
        point = solve_budget(problem, scaled, most, strict, part)
        levels, proof = polished_budget(problem, scaled, most, point, strict)
        return _answer(task, levels, "budget", most, proof, point)

    return _certified(attempt, problem)


def least_loss(
    model: LinearModel, target: Target, *, loss: Literal["total", "largest"] = "total",
    criterion: str | ArrayLike | Mapping[str, float] = "A", weight: ArrayLike | None = None,
    cost: ArrayLike = 1.0, cap: ArrayLike = np.inf, groups: Labels | None = None,
    persons: Labels | None = None, person_cap: float = np.inf, shape: Shape = "diagonal",
) -> Allocation:  # fmt: skip
    """The level of least privacy loss at which the criterion is at most `target`.

    `target`: a value of the criterion, or wanted standard errors: {name: e}, or n numbers. `loss`
    "total": Σ c_k S_kk. "largest": max_k c_k s_k, with s_k = min(t/c_k, cap_k) at the one t that
    meets the target. The rest is as in `allocate`. Raises InfeasibleTarget where no level reaches
    it, with the reason and the nearest value that can be reached.

    >>> model = LinearModel([[1.0], [1.0], [3.0]], noise=1.0)
    >>> least_loss(model, 0.5).levels.round(4).tolist()
    [0.0, 0.0, 0.2857]
    >>> least_loss(model, 0.5, loss="largest").levels.round(4).tolist()
    [0.2222, 0.2222, 0.2222]
    """
    names = linear(model).names
    asked, wanted = target_of(target, criterion, weight, names)
    limits = constraints_of(model.measurements, cost, cap, groups, persons, person_cap)
    if as_choice(loss, ("total", "largest"), "loss") == "largest":
        if shape != "diagonal" or persons is not None:
            raise InvalidInput("the largest loss is of independent noise, without persons.")
        return _least_largest(model, asked, wanted, limits)
    if as_choice(shape, get_args(Shape), "shape") != "diagonal":
        from privest.design._full import full_target

        return full_target(model, wanted, asked, shape, limits)
    return _least_total(model, asked, wanted, limits)


def _least_total(
    model: LinearModel, asked: Criterion, wanted: float, limits: Constraints
) -> Allocation:
    task = visible(task_of(model, asked, limits))
    wanted -= task.criterion.offset
    top = _highest(task.problem, task.criterion, wanted)
    if top is not None:
        return _at_the_caps(task, top, wanted)
    task = task.in_units(_equal_level(task, wanted))
    problem = task.problem
    scaled = task.criterion

    def attempt(strict: float, part: float) -> Allocation:
        point = solve_target(problem, scaled, wanted, strict, part)
        levels, proof = polished_target(problem, scaled, wanted, point, strict)
        return _answer(task, levels, "target", wanted, proof, point)

    return _certified(attempt, problem)


def _least_largest(
    model: LinearModel, asked: Criterion, wanted: float, limits: Constraints
) -> Allocation:
    """The least max_k c_k s_k for an accuracy: a monotone root, exact."""
    task = visible(task_of(model, asked, limits))
    wanted -= task.criterion.offset
    problem = task.problem
    scaled = task.criterion
    each = limits.cost
    if problem.atom is not None:  # of a group its dearest measurement
        each = np.zeros(problem.atoms)
        np.maximum.at(each, problem.atom, limits.cost)

    def levels(t: float) -> Array:
        return np.asarray(np.minimum(t / each, problem.cap))

    def value(t: float) -> float:
        return scaled.value(problem.information(levels(t)))

    if _highest(problem, scaled, wanted) is None:
        _require_feasible(task, wanted, limit_value(problem, scaled))
        t = root_of(value, wanted, scaled.logarithm)
    else:  # beyond the largest cap the value is flat, and no root
        top = float((each * problem.cap).max())
        wanted = max(wanted, value(top))
        low = 0.0
        t = top
        while low < (middle := (low + t) / 2) < t:
            low, t = (low, middle) if value(middle) <= wanted else (middle, t)
    found = levels(t)
    most = float((found * each).max())
    answer = _answer(task, found, "largest", wanted, Proof(t), Point(found, 1, "a monotone root"))
    return replace(answer, spent=most, floor=most, equal=most, gap=0.0)


def target_of(
    target: Target, criterion: object, weight: ArrayLike | None, names: tuple[str, ...]
) -> tuple[Criterion, float]:
    if isinstance(target, Mapping | list | tuple) or getattr(target, "ndim", 0) == 1:
        return errors_criterion(target, names), 1.0
    asked = as_criterion(criterion, weight, names)
    if asked.symbol != "D":
        return asked, as_scale(target, "the target")
    value = as_number(target, "the target")
    if not abs(value) < FARTHEST:
        raise InvalidInput(f"the target must lie within ± {FARTHEST:g}: choose other units.")
    return asked, value


# --- what the limits allow ---------------------------------------------------------------------


def limit_value(problem: Problem, criterion: Scaled) -> float:
    """f at the highest levels that the caps allow; without limits the classical bound."""
    top = problem.ceiling
    endless = np.isinf(problem.per_measurement(top)) & (problem.variance == 0)
    if not endless.any():
        return criterion.value(problem.information(top))
    if isinstance(criterion, LogDet):
        return -np.inf
    values, vectors = np.linalg.eigh(problem.gram(endless.astype(float)))
    free = vectors[:, values <= 100 * len(values) * EPS * values[-1]]
    if free.shape[1] == 0:
        return 0.0
    finite = np.where(endless, 0.0, problem.precisions(top))
    return criterion.within(free).value(free.T @ problem.gram(finite) @ free)


def _highest(problem: Problem, criterion: Scaled, target: float) -> Array | None:
    """The highest levels of all, where these exist and just attain the target; else None."""
    top = problem.ceiling
    if not np.isfinite(top).all() or (problem.feasible(top) < top * (1 - ROUNDING)).any():
        return None
    top = problem.feasible(top)
    value = criterion.value(problem.information(top))
    size = 1.0 if criterion.logarithm else abs(value)
    return top if -AT_THE_LIMIT * size <= value - target <= ROUNDING * size else None


def visible(task: Task) -> Task:
    """The same task in the directions that measurements with a cap above 0 reveal."""
    problem = task.problem
    shown = problem.per_measurement(problem.ceiling) > 0
    if shown.all():
        return task
    values, vectors = np.linalg.eigh(problem.gram(shown.astype(float)))
    kept = values > 100 * len(values) * EPS * max(values[-1], np.finfo(float).tiny)
    if kept.all():
        return task
    basis = vectors[:, kept]
    if task.criterion.needs(vectors[:, ~kept]):
        refuse(task, np.inf, np.inf)
    left = replace(problem, rows=problem.rows @ basis)
    return replace(task, problem=left, criterion=task.criterion.within(basis), whole=task)


def refuse(task: Task, target: float, nearest: float) -> None:
    """Raise InfeasibleTarget: below the classical bound, below what the limits allow, or hidden."""
    task = task.whole or task
    problem = task.problem
    criterion = task.criterion
    asked = task.asked.words
    free = replace(problem, cap=np.full(problem.atoms, np.inf), person=None)
    classical = limit_value(free, criterion)
    numbers = [task.asked.amount(x + criterion.offset) for x in (target, nearest, classical)]
    digits = 6 if f"{numbers[0]:.6g}" not in {f"{x:.6g}" for x in numbers[1:]} else 15
    wish, best, open_ = (f"{x:.{digits}g}" for x in numbers)
    if nearest == np.inf:
        raise InfeasibleTarget(
            f"No levels within the limits show all of the parameters: {asked} cannot be reached at "
            "all. Raise the cap (or the limit of a person) of some measurement that shows them; "
            "`privest.identifiability` says which.",
            "hidden",
            np.inf,
        )
    margin = AT_THE_LIMIT * (1.0 if criterion.logarithm else abs(classical))
    if target <= classical + margin:
        raise InfeasibleTarget(
            f"{asked} cannot be {wish}: without any privacy it is {open_} (the classical "
            "Cramér-Rao bound). Ask for more than that, or take more measurements "
            "(`design.sample_size`).",
            "classical",
            nearest + criterion.offset,
        )
    raise InfeasibleTarget(
        f"{asked} cannot be {wish} within the caps and limits: the best they allow is {best} "
        f"(without privacy: {open_}). Raise them, or ask for more than that.",
        "caps",
        nearest + criterion.offset,
    )


def _require_feasible(task: Task, target: float, limit: float) -> None:
    margin = AT_THE_LIMIT * (1.0 if task.criterion.logarithm else abs(limit))
    if not limit + margin < target:
        refuse(task, target, limit)


def _equal_level(task: Task, target: float) -> float:
    """The equal level (within caps) that reaches the target: the unit to count in."""
    problem = task.problem
    scaled = task.criterion
    _require_feasible(task, target, limit_value(problem, scaled))

    def value(t: float) -> float:
        return scaled.value(problem.information(problem.feasible(np.full(problem.atoms, t))))

    if problem.person is not None and not value(1e18 / max(problem.variance.max(), 1e-9)) < target:
        _require_persons(task, target)
        return float(np.median(problem.ceiling[problem.ceiling > 0]))
    return root_of(value, target, scaled.logarithm)


def _require_persons(task: Task, target: float) -> None:
    """With persons' limits the best that they allow is itself a design, without a budget."""
    criterion = task.criterion
    reached = np.inf
    floor = -np.inf
    for spare in (2.0, 1.0):  # not tight: the limits of the persons are; or just tight
        whole = spare * task.problem.most_budget
        problem = task.problem.in_units(whole / float(task.problem.cost.sum()))
        point = solve_budget(problem, criterion, whole, 1e-9)
        levels, proof = polished_budget(problem, criterion, whole, point, 1e-9)
        reached = min(reached, criterion.value(problem.information(levels)))
        floor = max(floor, proof.floor)
        if reached <= target:
            return
        if floor > target or relative_gap(criterion, reached, floor) <= 1e-6:
            refuse(task, target, reached)
    raise NumericalFailure(
        "it was neither found how to reach the target within the limits of the persons nor proved "
        f"that it cannot be: {task.asked.words} is "
        f"{task.asked.amount(reached + criterion.offset):.6g} at the best levels found."
    )


# --- from what a search proposes to levels that are feasible to the letter, with a proof -----


def _certified(attempt: Callable[[float, float], Allocation], problem: Problem) -> Allocation:
    found = attempt(TOLERANCE, 0.9)
    if found.certified or problem.measurements > AGAIN:
        return found
    return min(found, attempt(TOLERANCE / 100, 0.4), key=lambda one: one.gap)


def _choices(problem: Problem, own: Array, proof: Proof) -> list[Array]:
    """Levels, the same without traces (0 means: never revealed), and what the prices ask for."""
    choices = [own, np.where(own < NOTHING * own.mean(), 0.0, own)]
    if proof.witness is not None and proof.prices is not None:
        q = problem.squares(proof.witness.factor)
        asked = levels_at(problem, q, proof.prices.of(problem))
        if np.isfinite(asked).all() and asked.any():
            choices.append(asked)
    return choices


def _last_best(values: list[float], slack: float) -> int:
    """The last choice that is all but as good as the best: it has the fewest traces."""
    return max(i for i, value in enumerate(values) if value <= min(values) + slack)


def polished_budget(
    problem: Problem, criterion: Scaled, budget: float, point: Point, tol: float
) -> tuple[Array, Proof]:
    own = problem.within(point.levels, budget)
    M = problem.information(own)
    witness = criterion.witness(M, point.weights)
    proof = budget_floor(problem, witness, budget, point.prices)
    if not relative_gap(criterion, criterion.value(M), proof.floor) <= tol / 10:
        others = [budget_floor(problem, each, budget) for each in (witness, criterion.witness(M))]
        proof = max(proof, *others, key=lambda one: one.floor)  # the prices found were poor
    choices = [problem.within(levels, budget) for levels in _choices(problem, own, proof)]
    values = [criterion.value(problem.information(levels)) for levels in choices]
    slack = tol / 100 * (1.0 if criterion.logarithm else abs(min(values)))
    return choices[_last_best(values, slack)], proof


def polished_target(
    problem: Problem, criterion: Scaled, target: float, point: Point, tol: float
) -> tuple[Array, Proof]:
    """The cheapest of the choices, each at the multiple of it that meets the target."""
    own = _meeting(problem, criterion, target, point.levels)
    if not _meets(problem, criterion, target, own):
        own = _brought_to(problem, criterion, target, own)
    M = problem.information(own)
    witness = criterion.witness(M, point.weights)
    proof = target_floor(problem, witness, target, point.prices)
    if not proof.floor >= (1 - tol / 2) * problem.spent(own):
        others = [target_floor(problem, each, target) for each in (witness, criterion.witness(M))]
        proof = max(proof, *others, key=lambda one: one.floor)
    met = [own]
    for levels in _choices(problem, own, proof)[1:]:
        levels = _meeting(problem, criterion, target, levels)
        if _meets(problem, criterion, target, levels):
            met.append(levels)
    spent = [problem.spent(levels) for levels in met]
    return met[_last_best(spent, tol / 100 * min(spent))], proof


def _meets(problem: Problem, criterion: Scaled, target: float, levels: Array) -> bool:
    slack = ROUNDING * (1.0 if criterion.logarithm else abs(target))
    return criterion.value(problem.information(levels)) <= target + slack


def _meeting(problem: Problem, criterion: Scaled, target: float, levels: Array) -> Array:
    """The least multiple of the levels (within the limits) that meets the target, if one does."""
    levels = problem.feasible(levels)

    def value(t: float) -> float:
        return criterion.value(problem.information(problem.times(levels, t)))

    if value(1e6) > target:
        return levels
    return problem.times(levels, root_of(value, target, criterion.logarithm))


def _brought_to(problem: Problem, criterion: Scaled, target: float, levels: Array) -> Array:
    """The first point that meets the target on the way to levels that meet it at any cost."""
    whole = problem.most_budget
    if not np.isfinite(whole):
        whole = 1e6 * problem.spent(_meeting(problem, criterion, target, np.ones(problem.atoms)))
    point = solve_budget(problem, criterion, whole, 1e-9)
    far, _ = polished_budget(problem, criterion, whole, point, 1e-9)
    if not _meets(problem, criterion, target, far):
        raise NumericalFailure(
            "the target is so near to the best that the limits allow that no levels for it were "
            "found. Ask for a little more than that."
        )
    low = 0.0
    high = 1.0
    for _ in range(60):
        middle = (low + high) / 2
        met = _meets(problem, criterion, target, levels + middle * (far - levels))
        low, high = (low, middle) if met else (middle, high)
    return np.asarray(levels + high * (far - levels))


def _at_the_caps(task: Task, top: Array, target: float) -> Allocation:
    problem = task.problem
    scaled = task.criterion
    easier = target + 10 * ROUNDING * (1.0 if scaled.logarithm else abs(target))
    witness = scaled.witness(problem.information(top))
    floor = min(target_floor(problem, witness, easier).floor, problem.spent(top))
    return _answer(task, top, "target", target, Proof(floor), Point(top, 0, "the caps"))


def root_of(value: Callable[[float], float], target: float, logarithm: bool) -> float:
    """t with value(t) = target, for a value that falls with t; from above, so that it is met."""

    def excess(log_t: float) -> float:
        found = value(float(np.exp(log_t)))
        if not np.isfinite(found):
            return 1e3
        return found - target if logarithm else float(np.log(found / target))

    low = -1.0
    high = 1.0
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


def _answer(
    task: Task, levels: Array, direction: Direction, asked: float, proof: Proof, point: Point
) -> Allocation:
    problem = task.problem
    criterion = task.criterion
    value = criterion.value(problem.information(levels))
    spent = problem.spent(levels)
    floor = proof.floor
    if direction == "budget":
        gap = relative_gap(criterion, value, floor)
        even = problem.within(np.ones(problem.atoms), asked)
        equal = criterion.value(problem.information(even)) + criterion.offset
        floor = floor + criterion.offset
        limit = asked
        spent = min(spent, asked)
    else:
        gap = (spent - floor) / spent if spent > 0 else 0.0
        equal = _equal_spent(problem, criterion, value)
        asked = asked + criterion.offset
        limit = np.inf
    if gap < -1e-7:
        raise NumericalFailure(
            f"the floor came out {-gap:.1e} above the value that was reached: rounding has eaten "
            "the proof. Rescale the problem (levels, or columns of H, over many orders)."
        )
    price = 0.0
    if proof.witness is not None and proof.prices is not None:
        price = proof.prices.budget * criterion.per_unit(proof.witness, value)
    own = task.levels(levels, limit)
    return Allocation(
        own, value + criterion.offset, spent, floor, max(gap, 0.0), direction, asked, task.asked,
        task.model, Diagonal(own), equal=equal, price=price, iterations=point.steps,
        method=point.method,
    )  # fmt: skip


def _equal_spent(problem: Problem, criterion: Scaled, value: float) -> float:
    met = _meeting(problem, criterion, value, np.ones(problem.atoms))
    reached = criterion.value(problem.information(met))
    close = reached <= value + 1e-9 * (1.0 if criterion.logarithm else abs(value))
    return problem.spent(met) if close else np.inf


def optimality_gap(
    model: LinearModel, level: PrivacyLevel | ArrayLike, *, budget: float | None = None,
    target: Target | None = None, criterion: str | ArrayLike | Mapping[str, float] = "A",
    weight: ArrayLike | None = None, cost: ArrayLike = 1.0, cap: ArrayLike = np.inf,
    groups: Labels | None = None, persons: Labels | None = None, person_cap: float = np.inf,
) -> Allocation:  # fmt: skip
    """How far a given level is from the best: an `Allocation` with its value, floor and gap.

    For a `budget` (default: what the level spends) or a `target`; limits as in `allocate`. The
    floor, of independent noise, holds at ANY level and is tight where the level is best; −inf (0
    for a target) where the level proves nothing. The gap is negative where the level spends more
    than the budget or misses the target. For E and several standard errors the floor is that of a
    design of the same problem. The condition number of the information is not squared. Source:
    section 8 of the theory page.

    >>> model = LinearModel([[1.0], [1.0]], noise=1.0)
    >>> optimality_gap(model, [1.0, 1.0]).gap < 1e-12  # equal rows: equal levels are best
    True
    """
    if budget is not None and target is not None:
        raise InvalidInput("give a budget or a target, not both.")
    names = linear(model).names
    limits = constraints_of(model.measurements, cost, cap, groups, persons, person_cap)
    asked, wanted = (
        (as_criterion(criterion, weight, names), np.nan) if target is None
        else target_of(target, criterion, weight, names)
    )  # fmt: skip
    task = task_of(model, asked, limits)
    problem = task.problem
    scaled = task.criterion
    offset = task.criterion.offset
    matrix = level_for(level, model)
    levels = matrix.diagonal()
    require_scales(levels, "the level")
    inverse = Inverse.of_triangle(
        private_root(problem.rows, matrix, model.inverse_information).triangle
    )
    value = scaled.value_of(inverse)
    witness = scaled.witness_of(inverse)
    spent = float(limits.cost @ levels)
    if target is None:
        most = as_scale(spent if budget is None else budget, "the budget")
        floor = budget_floor(problem, witness, most).floor + offset
        if asked.symbol == "E" and value - floor > TOLERANCE * value:
            floor = max(floor, _searched(lambda: _least_value(model, asked, most, limits)))
        gap = relative_gap(scaled, value, floor - offset)
    else:
        most = wanted
        floor = target_floor(problem, witness, wanted - offset).floor
        if asked.symbol in "ET" and spent - floor > TOLERANCE * spent:
            floor = max(floor, _searched(lambda: _least_total(model, asked, wanted, limits)))
        gap = (spent - floor) / spent
    return Allocation(
        levels, value + offset, spent, floor, np.inf if witness is None else gap,
        "budget" if target is None else "target", most, asked, model, matrix,
    )  # fmt: skip


def _searched(design: Callable[[], Allocation]) -> float:
    with suppress(InfeasibleTarget, NumericalFailure):
        return design().floor
    return -np.inf

"""The doors of a design: the best accuracy for a budget, the least loss for an accuracy.

What an engine proposes is made feasible to the letter here, compared with the levels that its own
prices ask for, and proved: `floor` holds whatever the engine did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

import numpy as np

from privest.arrays import Array, ArrayLike, as_choice, as_number, as_scale
from privest.design import _engines
from privest.design._allocation import Allocation, Direction
from privest.design._certificate import (
    Point,
    Proof,
    relative_gap,
    target_floor,
)
from privest.design._constraints import Labels, Persons, Posed, as_tolerance, posed
from privest.design._criteria import A, Criterion, StandardErrors, as_criterion
from privest.design._limits import (
    AT_THE_LIMIT,
    ROUNDING,
    highest,
    limit_value,
    most_budget,
    refuse,
    seen,
)
from privest.design._polishing import budget_polished, meeting, root_of, target_polished
from privest.design._problem import Problem
from privest.design._scaled import Scaled
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd
from privest.model import LinearModel

TOLERANCE = 1e-6
SHAPES = ("diagonal", "full", "persons")
POOR = 1e-3  # gap of a target after which a run of budgets is tried, which takes ten times as long
FARTHEST = 1000.0  # of log det
SMALL = 100_000  # readings: an engine takes seconds at most, and may be asked twice
Engine = Callable[[Problem, Scaled, float, float], Point]


def allocate(
    model: LinearModel,
    budget: float,
    *,
    criterion: Criterion = A(),  # noqa: B008 - has no state that changes
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    groups: Labels | None = None,
    persons: Persons | Labels | None = None,
    shape: Literal["diagonal", "full", "persons"] = "diagonal",
    tol: float = TOLERANCE,
) -> Allocation:
    """The levels that make the criterion least for a budget of privacy loss.

        minimise f(Σ_PPCR(s))   over s ≥ 0 ,  Σ_k c_k s_k ≤ budget ,  s_k ≤ cap_k

    Symbols: `budget` bounds the sum of all levels, weighted by `cost` c (a number, or one for each
    reading); `cap`: no level above it; `groups`: labels, readings with the same label share one
    level; `persons`: labels or `Persons`, limits for everybody. `tol`: relative gap to stop at (of
    log det: absolute).
    `shape`: "diagonal": independent release noise, a level for each reading, any size. "full": one
    curator draws all noise jointly, S any matrix; "persons": a full block for each person. Both
    limit Σ c_k S_kk, S_kk and Σ_P S_kk only, a weaker promise that `explain()` states. Small
    models; with the extra `design` (A and C under a budget alone need none).
    Assumes noise that is independent between readings, for a diagonal S.
    Levels depend on H, the noise and what is asked for: all public; choosing them reveals nothing.
    Guarantees: `floor` is below the criterion of every admissible choice; `gap` says how far. A gap
    above `tol` is possible for hard problems, and said.
    Cost: some passes over H; see docs/design.md.
    Source: docs/theory.md 8; the dual of `thm:crbound`.

    >>> model = LinearModel([[1.0], [1.0], [3.0]], noise=1.0)
    >>> found = allocate(model, 3.0)
    >>> found.levels.round(4).tolist()  # the reading that says most gives up most
    [0.2, 0.2, 2.6]
    """
    asked = as_criterion(criterion)
    most = as_scale(budget, "the budget")
    tol = as_tolerance(tol)
    if as_choice(shape, SHAPES, "shape") != "diagonal":
        from privest.design._joint._full import full_budget

        return full_budget(model, most, asked, tol, shape, cost, cap, groups, persons)
    given = seen(posed(model, asked, cost=cost, cap=cap, groups=groups, persons=persons))
    given = given.in_units(most / float(given.problem.cost.sum()))
    problem, scaled = given.problem, given.criterion
    if most_budget(problem) <= most and problem.person is None:
        value = scaled.value(problem.information(problem.cap))
        if not np.isfinite(value):
            refuse(given, np.inf, value)
        return _answer(given, problem.cap, "budget", most, tol, Proof(value, None, None), Point(
            problem.cap, 0, "the caps"))  # fmt: skip
    if not np.isfinite(limit_value(problem, scaled)) and limit_value(problem, scaled) > 0:
        refuse(given, np.inf, np.inf)

    def attempt(strict: float) -> Allocation:
        point = _engines.solve_budget(problem, scaled, most, strict)
        levels, proof = budget_polished(problem, scaled, most, point, strict)
        return _answer(given, levels, "budget", most, tol, proof, point)

    return _certified(attempt, problem, tol)


def least_loss(
    model: LinearModel,
    target: float | Mapping[str | int, float] | StandardErrors,
    *,
    criterion: Criterion = A(),  # noqa: B008
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    groups: Labels | None = None,
    persons: Persons | Labels | None = None,
    shape: Literal["diagonal", "full", "persons"] = "diagonal",
    tol: float = TOLERANCE,
) -> Allocation:
    """The least privacy loss Σ c_k s_k with which the criterion is at most `target`.

    `target`: a value of the criterion, or wanted standard errors {name: e}. The rest is as in
    `allocate`. Raises InfeasibleTarget where no levels reach it, saying why (below the classical
    bound, below what caps allow, hidden) and the nearest value that can be reached.

    >>> model = LinearModel([[1.0], [1.0]], noise=1.0)
    >>> least_loss(model, 1.0).levels.round(4).tolist()  # variance (1 + 1/s)/2 = 1
    [1.0, 1.0]
    """
    asked, wanted = target_of(target, criterion)
    tol = as_tolerance(tol)
    if as_choice(shape, SHAPES, "shape") != "diagonal":
        from privest.design._joint._full import full_target

        return full_target(model, wanted, asked, tol, shape, cost, cap, groups, persons)
    given = seen(posed(model, asked, cost=cost, cap=cap, groups=groups, persons=persons))
    wanted -= given.criterion.offset
    top = highest(given.problem, given.criterion, wanted)
    if top is not None:
        return _at_the_caps(given, top, wanted, tol)
    equal = equal_level(given, wanted)
    given = given.in_units(equal)
    problem, scaled = given.problem, given.criterion

    def attempt(strict: float, engine: Engine = _engines.solve_target) -> Allocation:
        point = engine(problem, scaled, wanted, strict)
        levels, proof = target_polished(problem, scaled, wanted, point, strict)
        return _answer(given, levels, "target", wanted, tol, proof, point)

    found = _certified(attempt, problem, tol)
    if found.gap > max(POOR, tol) and problem.readings <= SMALL:
        with suppress(NumericalFailure):  # then the first answer stands, and its gap says so
            again = attempt(tol, _engines.target_by_budgets)
            found = min(found, again, key=lambda one: one.gap)
    return found


def _at_the_caps(given: Posed, top: Array, target: float, tol: float) -> Allocation:
    """The highest levels, which alone meet the target, and what they cannot do without.

    The floor is one for a target that is higher by more than rounding: at the target itself no
    price is high enough, and rounding would decide. No levels cost more than the highest.
    """
    problem, scaled = given.problem, given.criterion
    easier = target + 10 * ROUNDING * (1.0 if scaled.logarithm else abs(target))
    floor = min(target_floor(problem, scaled, easier, top).floor, problem.spent(top))
    point = Point(top, 0, "the caps")
    return _answer(given, top, "target", target, tol, Proof(floor, None, None), point)


def equalised(
    model: LinearModel,
    target: float | Mapping[str | int, float] | StandardErrors,
    *,
    criterion: Criterion = A(),  # noqa: B008
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    groups: Labels | None = None,
) -> Allocation:
    """Nobody gives up more than needed: the least max_k c_k s_k for an accuracy.

    More information never harms, so s_k = min(t/c_k, cap_k) is best, with the one t at which the
    criterion is `target`: a monotone root, exact.

    >>> model = LinearModel([[1.0], [1.0], [3.0]], noise=1.0)
    >>> equalised(model, 0.5).levels.round(4).tolist()
    [0.2222, 0.2222, 0.2222]
    """
    asked, wanted = target_of(target, criterion)
    given = seen(posed(model, asked, cost=cost, cap=cap, groups=groups))
    wanted -= given.criterion.offset
    dearest = _dearest(given, cost)
    problem, scaled = given.problem, given.criterion

    def levels(t: float) -> Array:
        return np.asarray(np.minimum(t / dearest, problem.cap))

    def value(t: float) -> float:
        return scaled.value(problem.information(levels(t)))

    if highest(problem, scaled, wanted) is None:
        _require_feasible(given, wanted, limit_value(problem, scaled))
        t = root_of(value, wanted, scaled.logarithm)
    else:  # beyond the largest cap the value is flat, and no root
        t = _first(value, wanted, float((dearest * problem.cap).max()))
    found = levels(t)
    point = Point(found, 1, "one monotone root")
    answer = _answer(given, found, "equalised", wanted, 1e-9, Proof(t, None, None), point)
    answer.spent = float((found * dearest).max())
    answer.floor = answer.spent
    answer.gap = 0.0
    answer.equal = answer.spent
    return answer


def _first(value: Callable[[float], float], target: float, top: float) -> float:
    """The least t up to `top` that meets what `top` does, for a value that falls with t."""
    target = max(target, value(top))
    low, high = 0.0, top
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if value(middle) <= target else (middle, high)
    return high


def _certified(attempt: Callable[[float], Allocation], problem: Problem, tol: float) -> Allocation:
    """What an engine finds; once more, and stricter, where making it feasible cost the proof."""
    found = attempt(tol)
    if found.certified or problem.readings > SMALL:
        return found
    return min(found, attempt(tol / 100), key=lambda one: one.gap)


def _dearest(given: Posed, cost: ArrayLike) -> Array:
    """(g,): the largest cost of a reading of each atom."""
    problem = given.problem
    costs = np.broadcast_to(np.asarray(cost, dtype=float), (problem.readings,))
    if problem.atom is None:
        return costs
    dearest = np.zeros(problem.atoms)
    np.maximum.at(dearest, problem.atom, costs)
    return dearest


def target_of(target: object, criterion: object) -> tuple[Criterion, float]:
    """The criterion, and its value that is asked for."""
    if isinstance(target, Mapping):
        target = StandardErrors(target)
    if isinstance(target, StandardErrors):
        return target, 1.0
    asked = as_criterion(criterion)
    if asked.symbol != "D":
        return asked, as_scale(target, "the target")  # type: ignore[arg-type]
    value = as_number(target, "the target")  # type: ignore[arg-type]
    if not abs(value) < FARTHEST:
        raise InvalidInput(f"the target must lie within ± {FARTHEST:g}: choose other units.")
    return asked, value


def _require_feasible(given: Posed, target: float, limit: float) -> None:
    """Raise InfeasibleTarget unless `target` is above the limit by more than rounding."""
    margin = AT_THE_LIMIT * (1.0 if given.criterion.logarithm else abs(limit))
    if not limit + margin < target:
        refuse(given, target, limit)


def equal_level(given: Posed, target: float) -> float:
    """The level t that reaches the target when all have it (within caps): the unit to count in."""
    problem, scaled = given.problem, given.criterion
    _require_feasible(given, target, limit_value(problem, scaled))

    def value(t: float) -> float:
        return scaled.value(problem.information(problem.feasible(np.full(problem.atoms, t))))

    if problem.person is not None and not value(1e18 / max(problem.variance.max(), 1e-9)) < target:
        _require_persons(given, target)
        return float(np.median(problem.ceiling[problem.ceiling > 0]))
    return root_of(value, target, scaled.logarithm)


def _require_persons(given: Posed, target: float) -> None:
    """With persons' limits the best that they allow is itself a design, without a budget."""
    criterion, reached, floor = given.criterion, np.inf, -np.inf
    for spare in (2.0, 1.0):  # not tight: the limits of the persons are; or just tight
        whole = spare * most_budget(given.problem)
        problem = given.problem.in_units(whole / float(given.problem.cost.sum()))
        point = _engines.solve_budget(problem, criterion, whole, 1e-9)
        levels, proof = budget_polished(problem, criterion, whole, point, 1e-9)
        reached = min(reached, criterion.value(problem.information(levels)))
        floor = max(floor, proof.floor)
        if reached <= target:
            return
        if floor > target or relative_gap(criterion, reached, floor) <= 1e-6:
            break
    else:
        raise NumericalFailure(
            "it was neither found how to reach the target within the limits of the persons nor "
            f"proved that it cannot be: {given.asked.words()} is "
            f"{given.asked.amount(reached + given.criterion.offset):.6g} at the best levels found."
        )
    refuse(given, target, reached)


def _answer(
    given: Posed, levels: Array, direction: Direction, asked: float, tol: float, proof: Proof,
    point: Point,
) -> Allocation:  # fmt: skip
    problem, criterion = given.problem, given.criterion
    value = criterion.value(problem.information(levels))
    spent = problem.spent(levels)
    offset = criterion.offset
    if direction == "budget":
        gap = relative_gap(criterion, value, proof.floor)
        floor, equal = proof.floor + offset, _equal_value(problem, criterion, asked) + offset
    else:
        gap = (spent - proof.floor) / spent if spent > 0 else 0.0
        floor, equal, asked = proof.floor, _equal_spent(problem, criterion, value), asked + offset
    limit = asked if direction == "budget" else np.inf
    spent = min(spent, limit)
    price = 0.0
    if proof.witness is not None and proof.prices is not None:
        price = proof.prices.budget * criterion.per_unit(proof.witness, value)
    return Allocation(
        psd(given.levels(levels, limit), "the levels"), given.model, given.asked,
        direction=direction, value=value + offset, floor=floor, gap=_gap(gap), tolerance=tol,
        spent=spent, asked=asked, price=price, iterations=point.steps, method=point.method,
        equal=equal,
    )  # fmt: skip


def _gap(found: float) -> float:
    """Not negative: a floor above what was reached by more than rounding would prove nothing."""
    if found < -1e-7:
        raise NumericalFailure(
            f"the floor came out {-found:.1e} above the value that was reached: rounding has eaten "
            "the proof. Rescale the problem (levels, or columns of H, over many orders)."
        )
    return max(found, 0.0)


def _equal_value(problem: Problem, criterion: Scaled, budget: float) -> float:
    return criterion.value(problem.information(problem.within(np.ones(problem.atoms), budget)))


def _equal_spent(problem: Problem, criterion: Scaled, value: float) -> float:
    met = meeting(problem, criterion, value, np.ones(problem.atoms))
    reached = criterion.value(problem.information(met))
    close = reached <= value + 1e-9 * (1.0 if criterion.logarithm else abs(value))
    return problem.spent(met) if close else np.inf

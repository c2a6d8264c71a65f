"""Full S under a budget, caps and persons' traces: best accuracy, or least loss; with a proof.

One curator ("full": one matrix for all readings), or one block for each person ("persons": every
person draws the noise of the own readings jointly, independent of the others).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from privest.arrays import Array, ArrayLike, Index
from privest.bounds._classical import classical_bound
from privest.design._allocation import Direction
from privest.design._certificate import relative_gap
from privest.design._constraints import Labels, Persons
from privest.design._criteria import Criterion
from privest.design._joint._allocation import FullAllocation, level_of
from privest.design._joint._closed import closed_form
from privest.design._joint._posed import joint_posed, unit_of
from privest.design._joint._problem import JointProblem, from_covariance
from privest.design._joint._proofs import joint_budget_floor, joint_target_floor
from privest.design._joint._release import fewer_columns
from privest.design._joint._sdp import TOLERANCES, UNSOLVED, Proposal, ScoreProgram
from privest.design._limits import AT_THE_LIMIT
from privest.design._polishing import root_of
from privest.errors import InfeasibleTarget, NumericalFailure
from privest.linalg import Diagonal
from privest.model import LinearModel

NEAR = 1e-6  # of a target: closer to what the limits allow it counts as not reachable
TIGHTER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)  # of a target, until what comes out meets it


def full_budget(
    model: LinearModel, budget: float, asked: Criterion, tol: float, shape: str,
    cost: ArrayLike, cap: ArrayLike, groups: Labels | None, persons: Persons | Labels | None,
) -> FullAllocation:  # fmt: skip
    """`allocate` over full matrices."""
    small, shown, limits = joint_posed(model, shape, cost, cap, groups, persons)
    share = budget / (len(limits.cost) * limits.cost)
    problem = JointProblem.of(small, asked, limits, unit_of(limits, share))
    unit = unit_of(limits, share)

    def attempt(tolerance: float) -> FullAllocation:
        found = closed_form(problem, budget)
        if found is None:
            found = _program(problem, unit).least_criterion(problem.criterion, budget, tolerance)
        factor = limits.feasible(_reduced(problem, found.factor), budget)
        floor, price = joint_budget_floor(problem, factor, found, budget)
        return _answer(
            model, problem, shown, factor, shape, "budget", budget, tol, floor, price, found
        )

    best = _closest(attempt)
    if best is None:
        raise NumericalFailure(UNSOLVED)
    return best


def full_target(
    model: LinearModel, target: float, asked: Criterion, tol: float, shape: str,
    cost: ArrayLike, cap: ArrayLike, groups: Labels | None, persons: Persons | Labels | None,
) -> FullAllocation:  # fmt: skip
    """`least_loss` over full matrices."""
    small, shown, limits = joint_posed(model, shape, cost, cap, groups, persons)
    plain_problem = JointProblem.of(small, asked, limits, unit_of(limits, 1.0 / limits.cost))
    wanted = target - plain_problem.criterion.offset
    _require_classical(plain_problem, wanted)
    level = _equal_level(plain_problem, wanted)
    unit = unit_of(limits, level / limits.cost)
    problem = JointProblem.of(small, asked, limits, unit)
    wanted = target - problem.criterion.offset

    def attempt(tolerance: float) -> FullAllocation:
        factor, found = _meeting(problem, wanted, unit, tolerance)
        floor, price = joint_target_floor(problem, factor, found, wanted)
        return _answer(
            model, problem, shown, factor, shape, "target", target, tol, floor, price, found
        )

    best = _closest(attempt)
    if best is None:
        _refuse(problem, wanted, unit)
    return best


def _closest(attempt: Callable[[float], FullAllocation]) -> FullAllocation | None:
    """The answer with the smallest gap: the solver at its strictest, less strict if need be."""
    best: FullAllocation | None = None
    for tolerance in TOLERANCES:
        try:
            found = attempt(tolerance)
        except NumericalFailure:
            continue
        if best is None or found.gap < best.gap:
            best = found
        if best.certified:
            break
    return best


def _program(problem: JointProblem, unit: Array) -> ScoreProgram:
    return ScoreProgram(problem.rows, problem.sigma, problem.limits, unit)


def full_caps(model: LinearModel, asked: Criterion, caps: Array) -> tuple[Array, float, int]:
    """`correlated` by the program: L (m, n), the floor, and the steps; for caps > 0 somewhere."""
    small, shown, limits = joint_posed(model, "full", 1.0, caps, None, None)
    problem = JointProblem.of(small, asked, limits, limits.caps)
    found, factor, floor = _within_limits(problem, limits.caps)
    whole = np.zeros((model.readings, factor.shape[1]))
    whole[shown] = factor
    return whole, floor, found.steps


def _reduced(problem: JointProblem, factor: Array) -> Array:
    """At most n columns where S is one block: the same PI, a smaller S."""
    if len(problem.limits.blocks) > 1:
        return factor
    return fewer_columns(problem.rows, problem.sigma, factor)


def _require_classical(problem: JointProblem, wanted: float) -> None:
    """Raise InfeasibleTarget where not even the readings themselves are good enough."""
    classical = classical_bound(problem.model)
    without = from_covariance(problem.criterion, problem.triangle @ classical @ problem.triangle.T)
    margin = AT_THE_LIMIT * (1.0 if problem.criterion.logarithm else abs(without))
    if np.isfinite(without) and wanted <= without + margin:
        offset = problem.criterion.offset
        raise InfeasibleTarget(
            f"{problem.asked.words()} cannot be {wanted + offset:.6g}: without any privacy it is "
            f"{without + offset:.6g} (the classical Cramér-Rao bound of these readings).",
            "classical",
            without + offset,
        )


def _equal_level(problem: JointProblem, wanted: float) -> float:
    """t at which independent levels t/c_k, within the limits, reach the target; or much."""

    def value(t: float) -> float:
        levels = unit_of(problem.limits, t / problem.limits.cost)
        return problem.value_of(Diagonal(levels))

    top = 1e6 / max(float(problem.sigma.diagonal().max()), 1e-6)
    return top if value(top) > wanted else root_of(value, wanted, problem.criterion.logarithm)


def _meeting(
    problem: JointProblem, wanted: float, unit: Array, tolerance: float
) -> tuple[Array, Proposal]:
    """The cheapest L found that meets the target to the letter, and where it came from."""
    logarithm = problem.criterion.logarithm
    size = float(problem.limits.cost @ unit)
    for tighter in TIGHTER:
        asked = wanted - tighter if logarithm else wanted * (1.0 - tighter)
        found = _cheapest(problem, asked, unit, size, tolerance)
        if found is None:
            break
        factor = problem.limits.feasible(_reduced(problem, found.factor))

        def value(t: float, factor: Array = factor) -> float:
            return problem.value(problem.limits.feasible(np.sqrt(t) * factor))

        t = _shrink(value, wanted, logarithm, 1.0 if problem.limits.limited else 1.01)
        if t is not None:
            return problem.limits.feasible(np.sqrt(t) * factor), found
    raise NumericalFailure(UNSOLVED)


def _shrink(
    value: Callable[[float], float], wanted: float, logarithm: bool, top: float
) -> float | None:
    """The least t ≤ `top` with value(t) ≤ wanted, for a value that falls with t; None if none."""
    if value(top) > wanted:
        return None
    low, high = np.log(top) - 1.0, np.log(top)
    while value(float(np.exp(low))) <= wanted:
        low, high = low - 2.0, low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if value(float(np.exp(middle))) <= wanted else (middle, high)
    return float(np.exp(high))


def _cheapest(
    problem: JointProblem, wanted: float, unit: Array, size: float, tolerance: float
) -> Proposal | None:
    """A proposal for the target; None where the solver says that there is none."""
    if closed_form(problem, size) is None:
        program = _program(problem, unit)
        return program.least_cost(problem.criterion, wanted, size, tolerance)

    def value(budget: float) -> float:
        found = closed_form(problem, budget)
        return np.inf if found is None else problem.value(found.factor)

    return closed_form(problem, root_of(value, wanted, False))


def _within_limits(problem: JointProblem, unit: Array) -> tuple[Proposal, Array, float]:
    """The best that the limits allow without a budget: proposal, L and floor."""
    best: tuple[Proposal, Array, float] | None = None
    for tolerance in TOLERANCES:
        try:
            found = _program(problem, unit).least_criterion(problem.criterion, np.inf, tolerance)
        except NumericalFailure:
            continue
        factor = problem.limits.feasible(_reduced(problem, found.factor))
        floor, _ = joint_budget_floor(problem, factor, found, np.inf)
        gap = relative_gap(problem.criterion, problem.value(factor), floor)
        if best is None or floor > best[2]:
            best = found, factor, floor
        if gap <= NEAR:
            break
    if best is None:
        raise NumericalFailure(UNSOLVED)
    return best


def _refuse(problem: JointProblem, wanted: float, unit: Array) -> NoReturn:
    """Raise InfeasibleTarget with the best that the limits allow, itself a design, and proved."""
    _, factor, floor = _within_limits(problem, unit)
    nearest, offset = problem.value(factor), problem.criterion.offset
    if nearest < wanted - NEAR * (1.0 if problem.criterion.logarithm else abs(wanted)):
        raise NumericalFailure(f"{UNSOLVED} The target can be reached.")
    proved = "" if floor <= wanted else f", and below {floor + offset:.6g} is proved impossible"
    raise InfeasibleTarget(
        f"{problem.asked.words()} cannot be {wanted + offset:.6g} within the caps and limits, not "
        f"even with a full S: the best that was found is {nearest + offset:.6g}{proved}. Raise "
        "them, or ask for more than that.",
        "caps",
        nearest + offset,
    )


def _answer(
    model: LinearModel, problem: JointProblem, shown: Index, factor: Array, shape: str,
    direction: Direction, asked: float, tol: float, floor: float, price: float, found: Proposal,
) -> FullAllocation:  # fmt: skip
    criterion, limits = problem.criterion, problem.limits
    value, spent = problem.value(factor), limits.spent(factor)
    # A floor above the value by rounding of the value says no more than the value.
    if direction == "budget":
        floor = min(floor, value)
        gap, equal = relative_gap(criterion, value, floor), _equal_value(problem, asked)
        floor += criterion.offset
    else:
        floor = min(floor, spent)
        gap, equal = (spent - floor) / spent, _equal_spent(problem, value)
    whole = np.zeros((model.readings, factor.shape[1]))
    whole[shown] = factor
    return FullAllocation(
        level_of(whole, [shown[block] for block in limits.blocks]), model, problem.asked,
        direction=direction, value=value + criterion.offset, floor=floor, gap=max(gap, 0.0),
        tolerance=tol, spent=spent, asked=asked, price=price, iterations=found.steps,
        method=found.method, equal=equal, factor=whole, shape=shape,
    )  # fmt: skip


def _equal_value(problem: JointProblem, budget: float) -> float:
    """The criterion of equal levels of the same cost, within the limits."""
    level = budget / float(problem.limits.cost.sum())
    levels = unit_of(problem.limits, np.full(len(problem.rows), level))
    return problem.value_of(Diagonal(levels)) + problem.criterion.offset


def _equal_spent(problem: JointProblem, value: float) -> float:
    """What equal levels cost for the same accuracy; inf where the limits do not let them."""

    def reached(t: float) -> float:
        levels = unit_of(problem.limits, np.full(len(problem.rows), t))
        return problem.value_of(Diagonal(levels))

    top = 1e9 / max(float(problem.sigma.diagonal().max()), 1e-9)
    if reached(top) > value:
        return np.inf
    t = root_of(reached, value, problem.criterion.logarithm)
    return float(problem.limits.cost @ unit_of(problem.limits, np.full(len(problem.rows), t)))

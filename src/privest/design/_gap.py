"""The optimality gap of a level that somebody chose: how far is it from the best?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_scale, require_scales
from privest.bounds._classical import level_for
from privest.design._allocate import TOLERANCE, allocate, least_loss, target_of
from privest.design._allocation import Allocation
from privest.design._certificate import budget_floor, relative_gap, target_floor
from privest.design._criteria import A, Criterion, Inverse, Least, as_criterion
from privest.design._problem import Labels, Persons, Problem, task_of
from privest.errors import InfeasibleTarget, InvalidInput, NumericalFailure
from privest.linalg import private_root
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record


@dataclass(frozen=True, eq=False)
class OptimalityGap(Record):
    """What is proved about a level.

    value   the criterion at the level; inf where the level hides something.
    spent   Σ c_k S_kk; of persons measured by their largest level, that of each of them once.
    floor   no independent noise within the budget makes the criterion smaller (for a `target`: no
            levels that reach it cost less); −inf (or 0) where this level proves nothing.
    gap     (value − floor)/value, of log det the difference; of a target (spent − floor)/spent.
            Negative where the level spends more than the budget, or misses the target.
    """

    value: float
    spent: float
    floor: float
    gap: float


def optimality_gap(
    model: LinearModel,
    level: PrivacyLevel | ArrayLike,
    criterion: Criterion = A(),  # noqa: B008 - has no state that changes
    budget: float | None = None,
    *,
    target: float | None = None,
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    groups: Labels | None = None,
    persons: Persons | Labels | None = None,
) -> OptimalityGap:
    """How good is a level that somebody chose, for a budget (or a target) and these limits?

    The floor holds at ANY level and is tight where the level is best. A, C and D need no search for
    it. E and several standard errors have a worst case that is shared by several directions: their
    floor is that of a design of the same problem (`allocate`, `least_loss`), and takes its time.
    The budget is what the level spends if neither it nor a target is given.
    Numerics: from a triangular root of the information; its condition number is not squared.
    Source: docs/theory.md 8.

    >>> model = LinearModel([[1.0], [1.0]], noise=1.0)
    >>> optimality_gap(model, [1.0, 1.0]).gap < 1e-12  # equal readings: equal levels are best
    True
    """
    if budget is not None and target is not None:
        raise InvalidInput("give a budget or a target, not both.")
    asked = as_criterion(criterion)
    limits: dict[str, Any] = {"cost": cost, "cap": cap, "groups": groups, "persons": persons}
    task = task_of(model, asked, **limits)
    problem, scaled, offset = task.problem, task.criterion, task.criterion.offset
    matrix = level_for(level, model)
    require_scales(matrix.diagonal(), "the level")
    once = persons is not None and problem.atom is not None and groups is None
    spent = _spent(problem, matrix.diagonal(), cost, once=once)
    inverse = Inverse.of_triangle(
        private_root(problem.rows, matrix, model.inverse_information).triangle
    )
    value, witness = scaled.value_of(inverse), scaled.witness_of(inverse)
    shared = isinstance(scaled, Least) or asked.symbol == "T"
    if target is not None:
        wanted = target_of(target, asked)[1]
        floor = target_floor(problem, witness, wanted - offset).floor
        if shared and spent - floor > TOLERANCE * spent:
            floor = max(
                floor, _searched(partial(least_loss, model, wanted, criterion=asked, **limits))
            )
        gap = np.inf if witness is None else (spent - floor) / spent
        return OptimalityGap(value + offset, spent, floor, gap)
    most = as_scale(spent if budget is None else budget, "the budget")
    floor = budget_floor(problem, witness, most).floor + offset
    if shared and value - floor > TOLERANCE * value:
        floor = max(floor, _searched(partial(allocate, model, most, criterion=asked, **limits)))
    gap = np.inf if witness is None else relative_gap(scaled, value, floor - offset)
    return OptimalityGap(value + offset, spent, floor, gap)


def _searched(design: Callable[[], Allocation]) -> float:
    """The floor that a design proves; −inf where it finds none."""
    with suppress(InfeasibleTarget, NumericalFailure):
        return design().floor
    return -np.inf


def _spent(problem: Problem, levels: Array, cost: ArrayLike, *, once: bool) -> float:
    """Σ c_k S_kk; `once`: each person pays for the largest level of the own readings."""
    if not once or problem.atom is None:
        return float(np.broadcast_to(np.asarray(cost, dtype=float), levels.shape) @ levels)
    largest = np.zeros(problem.atoms)
    np.maximum.at(largest, problem.atom, levels)
    return problem.spent(largest)

"""A floor for any levels, anybody's: how far are they from the best?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_scale, require_scales
from privest.bounds._classical import level_for
from privest.design import _oracle as oracle
from privest.design._allocating import TOLERANCE, allocate, least_loss, target_of
from privest.design._allocation import Allocation
from privest.design._certificate import relative_gap
from privest.design._constraints import Labels, Persons, posed
from privest.design._criteria import A, Criterion, as_criterion
from privest.design._problem import Problem
from privest.design._scaled import Largest, Least
from privest.errors import InfeasibleTarget, InvalidInput, NumericalFailure
from privest.linalg import private_root
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import Record


@dataclass(frozen=True, eq=False)
class Certificate(Record):
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


def certify(
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
) -> Certificate:
    """How good is a level that somebody chose, for a budget (or a target) and these limits?

    The floor holds at ANY level and is tight where the level is best. A, C and D need no search for
    it. E and several standard errors have a worst case that is shared by several directions: their
    floor is that of a design of the same problem (`allocate`, `least_loss`), and takes its time.
    The budget is what the level spends if neither it nor a target is given.
    Source: docs/theory.md 8.

    >>> model = LinearModel([[1.0], [1.0]], noise=1.0)
    >>> certify(model, [1.0, 1.0]).gap < 1e-12  # equal readings: equal levels are best
    True
    """
    asked = as_criterion(criterion)
    limits: dict[str, Any] = {"cost": cost, "cap": cap, "groups": groups, "persons": persons}
    given = posed(model, asked, **limits)
    shared = isinstance(given.criterion, Largest | Least)
    matrix = level_for(level, model)
    require_scales(matrix.diagonal(), "the level")
    if persons is not None and given.problem.atom is not None and groups is None:
        spent = _paid_once(given.problem, matrix.diagonal())
    else:
        costs = np.broadcast_to(np.asarray(cost, dtype=float), (model.readings,))
        spent = float(costs @ matrix.diagonal())
    # In the scaled rows HR⁻¹: the condition of a nearly collinear H is not squared.
    information = private_root(given.problem.rows, matrix, model.inverse_information).information
    value = given.criterion.value(information)
    offset = given.criterion.offset
    witness = given.criterion.witness(information)
    if budget is not None and target is not None:
        raise InvalidInput("give a budget or a target, not both.")
    if target is not None:
        wanted = target_of(target, asked)[1] - offset
        if witness is None:
            return Certificate(value + offset, spent, 0.0, np.inf)
        q, needed = given.problem.squares(witness.factor), witness.needed(wanted)
        prices = oracle.target_prices(given.problem, q, needed, 1.0)
        floor = oracle.least(given.problem, q, needed, prices)
        if shared and spent - floor > TOLERANCE * spent:
            least = partial(least_loss, model, wanted + offset, criterion=asked, **limits)
            floor = max(floor, _searched(least))
        return Certificate(value + offset, spent, floor, (spent - floor) / spent)
    most = as_scale(spent if budget is None else budget, "the budget")
    if witness is None:
        return Certificate(value + offset, spent, -np.inf, np.inf)
    q = given.problem.squares(witness.factor)
    top = oracle.most(given.problem, q, most, oracle.budget_prices(given.problem, q, most))
    floor = witness.floor(top)
    if shared and value - floor > TOLERANCE * value:
        floor = max(floor, _searched(partial(allocate, model, most, criterion=asked, **limits)))
    gap = relative_gap(given.criterion, value, floor)
    return Certificate(value + offset, spent, floor + offset, gap)


def _searched(design: Callable[[], Allocation]) -> float:
    """The floor that a design proves; −inf where it finds none."""
    with suppress(InfeasibleTarget, NumericalFailure):
        return design().floor
    return -np.inf


def _paid_once(problem: Problem, levels: Array) -> float:
    """Persons measured by their largest level: each pays for that, once."""
    assert problem.atom is not None
    largest = np.zeros(problem.atoms)
    np.maximum.at(largest, problem.atom, levels)
    return problem.spent(largest)

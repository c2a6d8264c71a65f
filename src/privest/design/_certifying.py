"""A floor for any levels, anybody's: how far are they from the best?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_number, as_positive
from privest.bounds import bound
from privest.design import _oracle as oracle
from privest.design._certificate import relative_gap
from privest.design._constraints import Labels, Persons, posed
from privest.design._criteria import A, Criterion, as_criterion
from privest.design._problem import Problem
from privest.errors import InvalidInput
from privest.linalg.batched import substitute
from privest.model import LinearModel
from privest.privacy import PrivacyLevel, as_level
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

    The floor needs no search and holds at ANY level: it is tight where the level is best. The
    budget is what the level spends if neither it nor a target is given.
    Source: docs/theory.md 8.

    >>> model = LinearModel([[1.0], [1.0]], noise=1.0)
    >>> certify(model, [1.0, 1.0]).gap < 1e-12  # equal readings: equal levels are best
    True
    """
    asked = as_criterion(criterion)
    given = posed(model, asked, cost=cost, cap=cap, groups=groups, persons=persons)
    matrix = as_level(level).for_size(model.readings)
    if persons is not None and given.problem.atom is not None and groups is None:
        spent = _paid_once(given.problem, matrix.diagonal())
    else:
        costs = np.broadcast_to(np.asarray(cost, dtype=float), (model.readings,))
        spent = float(costs @ matrix.diagonal())
    information = _scaled_information(model, level, given.triangle)
    value = given.criterion.value(information)
    offset = given.criterion.offset
    witness = given.criterion.witness(information)
    if budget is not None and target is not None:
        raise InvalidInput("give a budget or a target, not both.")
    if target is not None:
        wanted = as_number(target, "the target") - offset
        if witness is None:
            return Certificate(value + offset, spent, 0.0, np.inf)
        q, needed = given.problem.squares(witness.factor), witness.needed(wanted)
        prices = oracle.target_prices(given.problem, q, needed, 1.0)
        floor = oracle.least(given.problem, q, needed, prices)
        return Certificate(value + offset, spent, floor, (spent - floor) / spent)
    most = as_positive(spent if budget is None else budget, "the budget")
    if witness is None:
        return Certificate(value + offset, spent, -np.inf, np.inf)
    q = given.problem.squares(witness.factor)
    top = oracle.most(given.problem, q, most, oracle.budget_prices(given.problem, q, most))
    floor = witness.floor(top)
    gap = relative_gap(given.criterion, value, floor)
    return Certificate(value + offset, spent, floor + offset, gap)


def _paid_once(problem: Problem, levels: Array) -> float:
    """Persons measured by their largest level: each pays for that, once."""
    assert problem.atom is not None
    largest = np.zeros(problem.atoms)
    np.maximum.at(largest, problem.atom, levels)
    return problem.spent(largest)


def _scaled_information(
    model: LinearModel, level: PrivacyLevel | ArrayLike, triangle: Array
) -> Array:
    """R⁻ᵀ PI R⁻¹ of any level."""
    half = substitute(triangle, bound(model, level).information, transposed=True)
    found = substitute(triangle, half.T, transposed=True)
    return np.asarray((found + found.T) / 2)

"""The best that the limits allow, with no budget at all: which targets can be reached.

Without limits it is the classical bound: levels without end, x_k = 1/v_k, and readings without
noise become exact equations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privest.arrays import EPS, Array
from privest.design._constraints import Posed
from privest.design._problem import Problem
from privest.design._scaled import Largest, Least, LogDet, Scaled, Trace
from privest.errors import InfeasibleTarget

NEGLIGIBLE = 1e-7  # √eps: what rounding leaves of a direction that is not asked for
AT_THE_LIMIT = 1e-8  # relative: closer than this a verdict would be rounding
ROUNDING = 1e-12  # relative: by so much a value may be above a target that it meets


def limit_value(problem: Problem, criterion: Scaled) -> float:
    """f at the highest levels that the caps allow (persons' limits each on their own)."""
    top = problem.ceiling
    endless = np.isinf(problem.per_reading(top)) & (problem.variance == 0)
    if not endless.any():
        return criterion.value(problem.information(top))
    if isinstance(criterion, LogDet):
        return -np.inf
    values, vectors = np.linalg.eigh(problem.gram(endless.astype(float)))
    free = vectors[:, values <= 100 * len(values) * EPS * values[-1]]
    if free.shape[1] == 0:
        return 0.0
    finite = np.where(endless, 0.0, problem.precisions(np.where(np.isinf(top), 0.0, top)))
    uncapped = np.isinf(problem.per_reading(top)) & ~endless
    with np.errstate(divide="ignore"):
        finite = np.where(uncapped, 1.0 / problem.variance, finite)
    inside = free.T @ problem.gram(finite) @ free
    return _within(criterion, free).value(inside)


def highest(problem: Problem, criterion: Scaled, target: float) -> Array | None:
    """The highest levels of all, where these just attain the target, which is then no limit.

    None where a level has no end, where the levels of a person are limited together, where the
    target is missed, and where it leaves room for a search.
    """
    top = problem.ceiling
    if not np.isfinite(top).all() or (problem.feasible(top) < top * (1 - ROUNDING)).any():
        return None
    top = problem.feasible(top)
    value = criterion.value(problem.information(top))
    size = 1.0 if criterion.logarithm else abs(value)
    return top if -AT_THE_LIMIT * size <= value - target <= ROUNDING * size else None


def seen(posed: Posed) -> Posed:
    """The same problem in the directions that readings with a level above 0 can show.

    A cap of 0 hides a reading. What is asked for may not need the directions that this takes away.
    """
    problem = posed.problem
    shown = problem.per_reading(problem.ceiling) > 0
    if shown.all():
        return posed
    values, vectors = np.linalg.eigh(problem.gram(shown.astype(float)))
    kept = values > 100 * len(values) * EPS * max(values[-1], np.finfo(float).tiny)
    if kept.all():
        return posed
    basis, rest = vectors[:, kept], vectors[:, ~kept]
    if isinstance(posed.criterion, LogDet) or _needs(posed.criterion, rest):
        refuse(posed, np.inf, np.inf)
    left = replace(problem, rows=problem.rows @ basis)
    return replace(posed, problem=left, criterion=_within(posed.criterion, basis), whole=posed)


def _needs(criterion: Scaled, rest: Array) -> bool:
    """Whether the criterion depends on some of the directions `rest`."""
    if isinstance(criterion, Least):
        part, whole = np.abs(rest.T @ criterion.weight).max(), np.abs(criterion.weight).max()
    else:
        root = criterion.root if isinstance(criterion, Trace) else criterion.columns  # type: ignore[attr-defined]
        part, whole = np.abs(rest.T @ root).max(), np.abs(root).max()
    return bool(part > NEGLIGIBLE * whole)


def _within(criterion: Scaled, free: Array) -> Scaled:
    """The criterion where only the directions `free` (n, f) are uncertain."""
    if isinstance(criterion, Trace):
        return Trace(free.T @ criterion.root)
    if isinstance(criterion, Largest):
        return Largest(free.T @ criterion.columns)
    assert isinstance(criterion, Least)
    return Least(free.T @ criterion.weight @ free)


def most_budget(problem: Problem) -> float:
    """More than any feasible levels can spend; inf where there is no limit."""
    top = problem.ceiling
    if problem.person is None:
        return float(problem.cost @ top)
    assert problem.share is not None
    assert problem.most is not None
    dearest = np.zeros(len(problem.most))
    np.maximum.at(dearest, problem.person, problem.cost / problem.share)
    return float(min(dearest @ problem.most, problem.cost @ top))


def refuse(posed: Posed, target: float, nearest: float) -> None:
    """Raise InfeasibleTarget: below the classical bound, below what the limits allow, hidden."""
    posed = posed.whole or posed
    problem, criterion = posed.problem, posed.criterion
    free = replace(problem, cap=np.full(problem.atoms, np.inf), person=None, share=None, most=None)
    classical = limit_value(free, criterion)
    offset = criterion.offset
    asked, amount = posed.asked.words(), posed.asked.amount
    numbers = [amount(x + offset) for x in (target, nearest, classical)]
    digits = 6 if f"{numbers[0]:.6g}" not in {f"{x:.6g}" for x in numbers[1:]} else 15
    wish, best, open_ = (f"{x:.{digits}g}" for x in numbers)
    if not np.isfinite(nearest) and nearest > 0:
        raise InfeasibleTarget(
            f"No levels within the limits show all of the parameters: {asked} cannot be reached at "
            "all. Raise the cap (or the limit of a person) of some reading that shows them; "
            "`bounds.identifiability` says which.",
            "hidden",
            np.inf,
        )
    if target <= classical * (1 + np.sign(classical) * AT_THE_LIMIT) or (
        criterion.logarithm and (target <= classical + AT_THE_LIMIT)
    ):
        raise InfeasibleTarget(
            f"{asked} cannot be {wish}: without any privacy it is "
            f"{open_} (the classical Cramér-Rao bound of these readings), and "
            "every level adds to it. Ask for more than that, or take more readings "
            "(`design.sample_size`).",
            "classical",
            nearest + offset,
        )
    raise InfeasibleTarget(
        f"{asked} cannot be {wish} within the caps and limits: the best they allow "
        f"is {best} (without privacy: {open_}). Raise them, or "
        "ask for more than that.",
        "caps",
        nearest + offset,
    )

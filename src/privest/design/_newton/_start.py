"""Where the Newton engine begins: inside all limits, with duals that fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from privest.arrays import Array
from privest.design._newton._curves import Curves, Determinant, Shape, Traces
from privest.design._newton._loewner import Loewner
from privest.design._newton._loop import Iterate
from privest.design._newton._side import Pair, Side, gram
from privest.design._newton._unit import Unit
from privest.design._scaled import Largest, Least, LogDet, Scaled, Trace

ABOVE = 1.1  # the first price of a budget, in multiples of what the best atom is worth
INSIDE = 0.5  # of caps and limits, at most, to begin with


def shape_of(criterion: Scaled, value: float, n: int) -> Shape | Array:
    """g_j with min_j g_j = 1 where the criterion is `value`; of `Least` the matrix W."""
    if isinstance(criterion, LogDet):
        return Determinant(float(np.exp(value / n)))
    if isinstance(criterion, Trace):
        return Traces([criterion.root / np.sqrt(value)])
    if isinstance(criterion, Largest):
        columns = criterion.columns / np.sqrt(value)
        return Traces([columns[:, [j]] for j in range(columns.shape[1])])
    assert isinstance(criterion, Least)
    return criterion.weight / value


def budget_start(unit: Unit, e: Array, shape: Shape | Array, budget: float) -> Iterate:
    """Duals that are feasible: a price at which nothing more is worth buying."""
    g = unit.atoms
    weight, mass = _weight(unit, shape), float(g)
    x, slope, _ = unit.precisions(e)
    M = gram(unit.rows, x)
    side, goal = _side(shape, M, 0.5, mass, weight), 0.5
    for attempt in range(2):  # of `Least` the goal moves, and what readings are worth with it
        side.expand(unit.rows, slope, M, goal)
        worth = unit.gather(slope * side.worth)
        free = np.isinf(unit.cap)
        price = max(ABOVE * float(worth[free].max(initial=0.0)), float(worth @ e) / budget)
        mu = price * float(e.sum()) / g
        if attempt == 0:
            side, goal = _centred(shape, M, mass, weight, mu)
    pairs = _pairs(unit, e, mu)
    room = np.array([budget - float(e.sum())])
    pairs["budget"] = Pair(room, np.array([price]), float(g))
    offered = price - worth
    if "persons" in pairs:
        offered = offered + unit.to_atoms(pairs["persons"].dual)
    _fit(unit, pairs, offered, mu)
    return Iterate(unit, pairs, side, goal, budget)


def _fit(unit: Unit, pairs: dict[str, Pair], offered: Array, mu: float) -> None:
    """Duals of levels with −lower + upper = −`offered`, both > 0 where that is possible."""
    e = pairs["lower"].slack
    capped = np.isfinite(unit.cap)
    upper = np.zeros(unit.atoms)
    if "upper" in pairs:
        upper[capped] = pairs["upper"].dual
    lower = np.maximum(offered + upper, 0.1 * mu / e)
    upper = np.maximum(lower - offered, upper)
    pairs["lower"] = Pair(e, lower)
    if "upper" in pairs:
        pairs["upper"] = Pair(pairs["upper"].slack, upper[capped])


def target_start(unit: Unit, e: Array, shape: Shape | Array, goal: float) -> Iterate:
    """Duals in the centre, of a size at which the atoms are worth about what they cost."""
    weight, mass = _weight(unit, shape), float(unit.atoms)
    x, slope, _ = unit.precisions(e)
    M = gram(unit.rows, x)
    side = _side(shape, M, goal, mass, weight)
    side.expand(unit.rows, slope, M, goal)
    size = float(e.sum()) / float(unit.gather(slope * side.worth) @ e)
    scaled: Side
    if isinstance(side, Curves):
        scaled = Curves(side.shape, side.slack, side.dual * size, mass, weight)
    else:
        assert isinstance(side, Loewner)
        scaled = Loewner(side.bound, side.slack, side.dual * size, mass, weight)
    pairs = _pairs(unit, e, float(e.sum()) / unit.atoms)
    return Iterate(unit, pairs, scaled, goal, None)


def _weight(unit: Unit, shape: Shape | Array) -> float:
    """All products of the accuracy side together weigh as much as those of the levels."""
    size = shape.size if isinstance(shape, Shape) else len(shape)
    return max(1.0, unit.atoms / size)


def _pairs(unit: Unit, e: Array, mu: float) -> dict[str, Pair]:
    pairs = {"lower": Pair(e, mu / e)}
    capped = np.isfinite(unit.cap)
    if capped.any():
        room = (unit.cap - e)[capped]
        pairs["upper"] = Pair(room, mu / room)
    if unit.most is not None:
        room = unit.most - unit.per_person(e)
        weight = max(1.0, unit.atoms / len(unit.most))
        pairs["persons"] = Pair(room, weight * mu / room, weight)
    return pairs


def _side(shape: Shape | Array, M: Array, goal: float, mass: float, weight: float) -> Side:
    """Slacks that may not fit the goal yet, equal duals."""
    if isinstance(shape, Shape):
        slack = np.maximum(shape.values(M) - goal, 0.1 * abs(goal))
        return Curves(shape, slack, np.full(shape.size, mass / shape.size), mass, weight)
    slack = M / 2
    dual = np.linalg.inv(slack)
    return Loewner(shape, slack, dual * (mass / float(np.sum(dual * shape))), mass, weight)


def _centred(
    shape: Shape | Array, M: Array, mass: float, weight: float, mu: float
) -> tuple[Side, float]:
    """The side at a goal so low that its products are weight·μ, as all others are."""
    if isinstance(shape, Shape):
        slack = np.full(shape.size, weight * mu * shape.size / mass)
        goal = float(shape.values(M).min() - slack[0])
        return Curves(shape, slack, np.full(shape.size, mass / shape.size), mass, weight), goal
    # (M − tW)⁻¹ is the dual but for its size: <(M − tW)⁻¹, W> = Σ 1/(λ_i − t) = mass/(weight·μ).
    half = scipy.linalg.eigh(shape, M, eigvals_only=True)
    levels = 1.0 / half[half > 1e-14 * half[-1]]
    wanted = mass / (weight * mu)
    goal = _falling(lambda t: float(np.sum(1.0 / (levels - t))) - wanted, float(levels.min()),
                    len(levels) / wanted)  # fmt: skip
    slack = M - goal * shape
    dual = np.linalg.inv(slack)
    dual *= mass / float(np.sum(dual * shape))
    return Loewner(shape, slack, dual, mass, weight), goal


def _falling(excess: Callable[[float], float], top: float, far: float) -> float:
    """The root below `top` of a function that is positive there and negative at top − far."""
    low, high = top - 1.001 * far, top
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return low

"""Floors of a design over full matrices: from the duals of a search, and from S itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privest.arrays import Array
from privest.design._joint._floor import Tangent
from privest.design._joint._problem import JointPrices, JointProblem
from privest.design._joint._sdp import Proposal
from privest.design._scaled import Witness


def _proofs(
    problem: JointProblem, factor: Array, found: Proposal
) -> Iterator[tuple[Witness, Tangent, JointPrices]]:
    """What may prove a floor: the duals of the search, and what S itself says; any prices."""
    own = problem.witness(factor)
    tangents: list[tuple[Witness, Tangent]] = []
    if found.witness is not None:
        tangents.append((found.witness, problem.tangent(found.witness, found.shown)))
    if own is not None:
        tangents += [(own, tangent) for tangent in problem.tangents(factor, own)]
    for witness, tangent in tangents:
        for prices in _candidates(problem, found):
            yield witness, tangent, prices


def joint_budget_floor(
    problem: JointProblem, factor: Array, found: Proposal, budget: float
) -> tuple[float, float]:
    """The floor of the criterion, and −d value/d budget."""
    best, price, value = -np.inf, 0.0, problem.value(factor)
    for witness, tangent, prices in _proofs(problem, factor, found):
        most = problem.ceiling(tangent, prices, budget)
        floor = witness.floor(most) if np.isfinite(most) else -np.inf
        if floor > best:
            kappa = tangent.scale(prices.of(problem.limits), problem.limits.blocks)[0]
            best = floor
            price = kappa * prices.budget * problem.criterion.per_unit(witness, value)
    return best, price


def joint_target_floor(
    problem: JointProblem, factor: Array, found: Proposal, target: float
) -> tuple[float, float]:
    """The floor of the cost, and −d value/d budget."""
    best, price = 0.0, 0.0
    for witness, tangent, prices in _proofs(problem, factor, found):
        floor = problem.least_cost(tangent, prices, witness.needed(target))
        if floor > best:
            kappa = tangent.scale(prices.of(problem.limits), problem.limits.blocks)[0]
            best = floor
            price = kappa * prices.budget * problem.criterion.per_unit(witness, target)
    return best, price


def _candidates(problem: JointProblem, found: Proposal) -> list[JointPrices]:
    """The solver's prices, those with a little on everything, and the budget's alone."""
    own = found.prices
    alone = JointPrices(1.0, np.zeros_like(own.caps), np.zeros_like(own.persons))
    if not problem.limits.limited:
        return [alone]
    level = float(np.median(own.of(problem.limits) / problem.limits.cost))
    lifted = [
        JointPrices(own.budget + share * level, own.caps, own.persons)
        for share in (1e-9, 1e-7, 1e-5)
    ]
    return [own, *lifted, alone]

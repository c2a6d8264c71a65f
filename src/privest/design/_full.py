"""Full S: noise drawn jointly, under a budget, caps and persons' traces; with a proof.

One matrix for all measurements ("full"), or one block for each person ("persons"). S = LLᵀ:
released is Lᵀy + N(0, I). A and C under a budget alone have a closed form, the rest is a
semidefinite program.

The floor trusts neither. PI(S) = HᵀX(S)H, X = (S⁻¹ + Σ)⁻¹, is a parallel sum, so for all Z and t

    <ZZᵀ, PI(S)>  ≤  tr tᵀΣt + <EEᵀ, S> ,   E = HZ − Σt        (equality at t = X(S)HZ).

If diag(p) ≥ EEᵀ, that is λmax(Eᵀdiag(1/p)E) ≤ 1, then <EEᵀ, S> ≤ Σ p_k S_kk: prices p turn limits
into a ceiling of <ZZᵀ, PI>, and a witness turns that into a floor. What rounding may do to E is
added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import numpy as np

from privest.arrays import Array, Index
from privest.bounds import best_linear_release, classical_bound, require_seen
from privest.design._allocate import AT_THE_LIMIT, root_of
from privest.design._allocation import Allocation, Direction
from privest.design._certificate import relative_gap
from privest.design._criteria import Criterion, Inverse, Scaled, Witness, solved
from privest.design._problem import Constraints
from privest.design._program import (
    TOLERANCES,
    UNSOLVED,
    JointPrices,
    Limits,
    Proposal,
    ScoreProgram,
)
from privest.errors import InfeasibleTarget, InvalidInput, NumericalFailure
from privest.linalg import PSD, Blocks, Diagonal, private_root
from privest.linalg.tolerances import rounding
from privest.model import LinearModel
from privest.noise import Gaussian

NEAR = 1e-6  # of a target: closer to what the limits allow it counts as not reachable
TIGHTER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)  # of a target, until what comes out meets it
MOST = 200  # measurements: the program takes seconds
LIFTED = (0.0, 1e-9, 1e-7, 1e-5)  # of the middle price: a little on everything closes rounding


@dataclass(frozen=True, eq=False)
class Tangent:
    """<ZZᵀ, PI(S)> ≤ base + <EEᵀ, S> for every S, with E known to `doubt` (m,) row by row."""

    residual: Array
    base: float
    doubt: Array

    @classmethod
    def of(cls, rows: Array, covariance: PSD, weights: Array, shown: Array) -> Tangent:
        fitted = rows @ weights
        spread = times(covariance, shown)
        longest = 1
        magnitude = covariance
        if isinstance(covariance, Blocks):
            longest = max(covariance.sizes)
            magnitude = Blocks([np.abs(part) for part in covariance.matrices])
        size = np.abs(rows) @ np.abs(weights) + times(magnitude, np.abs(shown))
        slip = rounding(rows.shape[1] + longest) * np.linalg.norm(size, axis=1)
        base = float((shown * spread).sum()) * (1 + rounding(shown.size))
        return cls(fitted - spread, max(base, 0.0), slip)

    def scale(self, prices: Array, blocks: list[Index]) -> tuple[float, Array]:
        """(κ, x) with κ·diag(p) + diag(x) ≥ EEᵀ, block by block of S, rounding of E included.

        (E+δ)(E+δ)ᵀ ≤ (1+a)EEᵀ + (1+1/a)δδᵀ and δδᵀ ≤ diag(|δ_k| Σ|δ_j|), for any a > 0.
        """
        largest = 0.0
        extra = np.zeros(len(prices))
        for part in blocks:
            active = part[self.residual[part].any(axis=1)]
            extra[part] = self.doubt[part] * self.doubt[part].sum()
            if not len(active):
                continue
            if (prices[active] <= 0).any():
                return np.inf, extra
            inner = self.residual[active] / np.sqrt(prices[active])[:, None]
            largest = max(largest, float(np.linalg.norm(inner, 2)) ** 2)
        largest *= 1 + rounding(len(prices))
        total = largest * float(prices.sum())
        if not total or not extra.any():
            return largest, extra
        balance = float(np.sqrt(extra.sum() / total))
        return largest * (1 + balance), extra * (1 + 1 / balance)


@dataclass(frozen=True, eq=False)
class FullProblem:
    """A model and a criterion in coordinates Rθ, R the root of PI at levels `unit`, with the
    limits of S.

    `model` has the measurements `shown` of the `whole` model, those whose cap is above 0.
    """

    model: LinearModel
    asked: Criterion
    limits: Limits
    unit: Array
    shape: str
    whole: LinearModel
    shown: Index

    @cached_property
    def triangle(self) -> Array:
        return private_root(self.model.matrix, Diagonal(self.unit), self.sigma).triangle

    @cached_property
    def rows(self) -> Array:
        return np.ascontiguousarray(solved(self.triangle, self.model.matrix.T).T)

    @cached_property
    def criterion(self) -> Scaled:
        return self.asked.scaled(self.triangle)

    @property
    def sigma(self) -> PSD:
        return self.model.inverse_information

    def program(self) -> ScoreProgram:
        if len(self.rows) > MOST:
            raise InvalidInput(
                f"noise drawn jointly is designed for up to {MOST} measurements; received "
                f"{len(self.rows)}. An aggregate release does the same for tables of any length."
            )
        return ScoreProgram(self.rows, self.sigma, self.limits, self.unit)

    def value_of(self, level: PSD) -> float:
        root = private_root(self.rows, level, self.sigma)
        return self.criterion.value_of(Inverse.of_triangle(root.triangle))

    def value(self, factor: Array) -> float:
        return self.value_of(joint_level(factor))

    def equal_value(self, level: float) -> float:
        return self.value_of(Diagonal(self.limits.unit(np.full(len(self.rows), level))))

    def ceilings(self, found: Proposal) -> Iterator[tuple[Witness, float, float]]:
        """(witness, r, ν) with <ZZᵀ, PI(S)> ≤ r + ν Σ c_kS_kk for every S within the limits."""
        if found.witness is None:
            return
        prices = found.prices
        limits = self.limits
        up = 1.0 + rounding(len(self.rows))
        weights = np.linalg.solve(self.triangle, found.witness.factor)
        tangent = Tangent.of(self.model.matrix, self.sigma, weights, found.shown)
        level = float(np.median(prices.of(limits) / limits.cost))
        capped = np.isfinite(limits.caps)
        for share in LIFTED:
            more = JointPrices(prices.budget + share * level, prices.caps, prices.persons)
            kappa, extra = tangent.scale(more.of(limits), limits.blocks)
            dearest = float((extra / limits.cost).max(initial=0.0, where=~capped))
            rest = tangent.base + float(extra[capped] @ limits.caps[capped])
            rest += kappa * more.held(limits)
            yield found.witness, rest * up, (kappa * more.budget + dearest) * up


def times(matrix: PSD, right: Array) -> Array:
    """Σ X for X (m, k)."""
    if isinstance(matrix, Blocks):
        return matrix.dense() @ right
    return matrix.diagonal()[:, None] * right


def joint_level(factor: Array) -> PSD:
    """S = LLᵀ (m, m) that keeps its factor."""
    m = len(factor)
    lower = np.zeros((m, m))
    lower[:, : factor.shape[1]] = factor
    return Blocks([factor @ factor.T], [lower])


def level_of(factor: Array, blocks: list[Index]) -> PSD:
    runs = [np.arange(block[0], block[-1] + 1) for block in blocks]
    if len(blocks) == 1 or not np.array_equal(np.concatenate(runs), np.arange(len(factor))):
        return joint_level(factor)
    lowers = []
    for block in blocks:
        own = factor[block]
        own = own[:, own.any(axis=0)]
        lower = np.zeros((len(block), len(block)))
        lower[:, : own.shape[1]] = own
        lowers.append(lower)
    return Blocks([lower @ lower.T for lower in lowers], lowers)


def full_problem(
    model: LinearModel, asked: Criterion, shape: str, given: Constraints
) -> FullProblem:
    if given.group is not None:
        raise InvalidInput("a full S has no groups that share a level: leave groups out.")
    if given.person is None and shape == "persons":
        raise InvalidInput("shape='persons' needs persons: a label for each measurement.")
    shown = np.flatnonzero(given.cap > 0)
    if not len(shown):
        raise InvalidInput("every cap is 0: nothing may be revealed.")
    sigma = model.inverse_information.restrict(shown)
    covariance = sigma.diagonal() if sigma.pointwise is not None else sigma.dense()
    small = LinearModel(
        model.matrix[shown], Gaussian(cov=covariance), names=model.names, accuracy=model.accuracy
    )
    require_seen(small)
    blocks = [np.arange(len(shown))]
    whose = None
    most = None
    if given.person is not None:
        labels = given.person[shown]
        if shape == "persons":
            blocks = [np.flatnonzero(labels == k) for k in np.unique(labels)]
        if np.isfinite(given.person_cap):
            whose = labels
            most = np.full(int(labels.max()) + 1, given.person_cap)
    limits = Limits(given.cost[shown], given.cap[shown], blocks, whose, most)
    return FullProblem(small, asked, limits, limits.unit(1.0 / limits.cost), shape, model, shown)


def full_budget(
    model: LinearModel, budget: float, asked: Criterion, shape: str, given: Constraints
) -> Allocation:
    problem = full_problem(model, asked, shape, given)
    share = budget / (len(problem.shown) * problem.limits.cost)
    problem = replace(problem, unit=problem.limits.unit(share))
    return _closest(lambda tolerance: _best(problem, budget, tolerance))


def _best(problem: FullProblem, budget: float, tolerance: float) -> Allocation:
    found = closed_form(problem, budget)
    criterion = problem.criterion
    if found is None:
        found = problem.program().least_criterion(criterion, budget, tolerance)
    factor = problem.limits.feasible(found.factor, budget)
    floor = -np.inf
    price = 0.0
    value = problem.value(factor)
    for witness, rest, own in problem.ceilings(found):
        most = rest + own * budget
        if np.isfinite(most) and witness.floor(most) > floor:
            floor = witness.floor(most)
            price = own * criterion.per_unit(witness, value)
    return _answer(problem, factor, "budget", budget, (floor, price), found)


def full_target(
    model: LinearModel, target: float, asked: Criterion, shape: str, given: Constraints
) -> Allocation:
    first = full_problem(model, asked, shape, given)
    limits = first.limits
    wanted = target - first.criterion.offset
    _require_classical(first, wanted)

    def value(t: float) -> float:
        return first.value_of(Diagonal(limits.unit(t / limits.cost)))

    top = 1e6 / max(float(first.sigma.diagonal().max()), 1e-6)
    level = top if value(top) > wanted else root_of(value, wanted, first.criterion.logarithm)
    problem = replace(first, unit=limits.unit(level / limits.cost))
    try:
        return _closest(lambda tolerance: _cheapest(problem, target, tolerance))
    except NumericalFailure:
        _refuse(problem, target - problem.criterion.offset)


def _cheapest(problem: FullProblem, target: float, tolerance: float) -> Allocation:
    wanted = target - problem.criterion.offset
    factor, found = _meeting(problem, wanted, tolerance)
    floor = 0.0
    price = 0.0
    for witness, rest, own in problem.ceilings(found):
        least = (witness.needed(wanted) - rest) / own if 0 < own < np.inf else 0.0
        if least > floor:
            floor = least
            price = own * problem.criterion.per_unit(witness, wanted)
    return _answer(problem, factor, "target", target, (floor, price), found)


def _closest(attempt: Callable[[float], Allocation]) -> Allocation:
    """The answer with the smallest gap: the solver at its strictest, less strict if need be."""
    best: Allocation | None = None
    for tolerance in TOLERANCES:
        try:
            found = attempt(tolerance)
        except NumericalFailure:
            continue
        if best is None or found.gap < best.gap:
            best = found
        if best.certified:
            return best
    if best is None:
        raise NumericalFailure(UNSOLVED)
    return best


def closed_form(problem: FullProblem, budget: float) -> Proposal | None:
    """A and C under a budget alone: the best linear release (theory.md 3); else None."""
    asked = problem.asked
    limits = problem.limits
    if limits.limited or len(limits.blocks) > 1 or asked.symbol not in "AC":
        return None
    root = 1.0 / np.sqrt(limits.cost)
    B = asked.columns
    matrix = root[:, None] * problem.model.matrix
    sigma = problem.sigma
    if sigma.pointwise is not None:
        covariance = sigma.diagonal() * root**2
    else:
        covariance = sigma.dense() * root * root[:, None]
    scaled = LinearModel(matrix, Gaussian(cov=covariance))
    try:
        best = best_linear_release(scaled, budget, B @ B.T)
    except NumericalFailure:
        return None  # the alternating search stalled: the program does not
    values, vectors = np.linalg.eigh(best.noise)
    factor = root[:, None] * (best.map.T @ (vectors / np.sqrt(values)))
    # The multiplier of MH = Bᵀ: HZ = ΣMᵀ + (‖M‖_*/s)·(the polar factor of Mᵀ), with t = Mᵀ.
    left, strength, right = np.linalg.svd(best.map.T, full_matrices=False)
    fitted = times(scaled.covariance, best.map.T) + strength.sum() / budget * (left @ right)
    weights = problem.triangle @ np.linalg.lstsq(matrix, fitted, rcond=None)[0]
    gained = float(np.sum(solved(problem.triangle, best.root) * weights))
    prices = JointPrices(1.0, np.zeros(len(root)), np.zeros(0))
    witness = Witness(weights, gained**2)
    shown = root[:, None] * best.map.T
    return Proposal(factor, prices, witness, shown, 1, "the best linear release")


def _require_classical(problem: FullProblem, wanted: float) -> None:
    covariance = problem.triangle @ classical_bound(problem.model) @ problem.triangle.T
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    with np.errstate(divide="ignore"):
        without = problem.criterion.value_of(Inverse(root, root[:, :0], np.ones(len(root))))
    margin = AT_THE_LIMIT * (1.0 if problem.criterion.logarithm else abs(without))
    if np.isfinite(without) and wanted <= without + margin:
        offset = problem.criterion.offset
        raise InfeasibleTarget(
            f"{problem.asked.words} cannot be {wanted + offset:.6g}: without any privacy it is "
            f"{without + offset:.6g} (the classical Cramér-Rao bound of these measurements).",
            "classical",
            without + offset,
        )


def _meeting(problem: FullProblem, wanted: float, tolerance: float) -> tuple[Array, Proposal]:
    limits = problem.limits
    logarithm = problem.criterion.logarithm
    for tighter in TIGHTER:
        asked = wanted - tighter if logarithm else wanted * (1.0 - tighter)
        found = _proposed(problem, asked, tolerance)
        if found is None:
            break
        factor = limits.feasible(found.factor)

        def value(t: float, factor: Array = factor) -> float:
            return problem.value(limits.feasible(np.sqrt(t) * factor))

        low = 0.0
        high = 1.0 if limits.limited else 1.01
        if value(high) <= wanted:
            for _ in range(60):  # the least multiple that still meets the target
                middle = (low + high) / 2
                low, high = (low, middle) if value(middle) <= wanted else (middle, high)
            return limits.feasible(np.sqrt(high) * factor), found
    raise NumericalFailure(UNSOLVED)


def _proposed(problem: FullProblem, wanted: float, tolerance: float) -> Proposal | None:
    size = float(problem.limits.cost @ problem.unit)
    if closed_form(problem, size) is None:
        return problem.program().least_cost(problem.criterion, wanted, size, tolerance)

    def value(budget: float) -> float:
        found = closed_form(problem, budget)
        return np.inf if found is None else problem.value(found.factor)

    return closed_form(problem, root_of(value, wanted, False))


def _refuse(problem: FullProblem, wanted: float) -> NoReturn:
    limits = problem.limits
    offset = problem.criterion.offset
    most = limits.unit(np.full(len(limits.cost), np.inf))
    if not np.isfinite(most).all():
        raise NumericalFailure(UNSOLVED)
    whole = 2.0 * float(limits.cost.max() * most.sum())  # more than anybody can spend
    best = _closest(lambda tolerance: _best(problem, whole, tolerance))
    target = wanted + offset
    if best.value < target - NEAR * (1.0 if problem.criterion.logarithm else abs(wanted)):
        raise NumericalFailure(f"{UNSOLVED} The target can be reached.")
    proved = "" if best.floor <= target else f", and below {best.floor:.6g} is proved impossible"
    raise InfeasibleTarget(
        f"{problem.asked.words} cannot be {target:.6g} within the caps and limits, not even with "
        f"a full S: the best that was found is {best.value:.6g}{proved}. Raise them, or ask for "
        "more than that.",
        "caps",
        best.value,
    )


def _answer(
    problem: FullProblem, factor: Array, direction: Direction, asked: float,
    proved: tuple[float, float], found: Proposal,
) -> Allocation:  # fmt: skip
    """`proved`: floor and price."""
    criterion = problem.criterion
    limits = problem.limits
    floor, price = proved
    value = problem.value(factor)
    spent = limits.spent(factor)
    # A floor above the value by rounding of the value says no more than the value.
    if direction == "budget":
        floor = min(floor, value)
        gap = relative_gap(criterion, value, floor)
        equal = problem.equal_value(asked / float(limits.cost.sum())) + criterion.offset
        floor += criterion.offset
    else:
        floor = min(floor, spent)
        gap = (spent - floor) / spent
        equal = _equal_spent(problem, value)
    whole = np.zeros((problem.whole.measurements, factor.shape[1]))
    whole[problem.shown] = factor
    matrix = level_of(whole, [problem.shown[block] for block in limits.blocks])
    return Allocation(
        matrix.diagonal(), value + criterion.offset, spent, floor, max(gap, 0.0), direction, asked,
        problem.asked, problem.whole, matrix, equal=equal, price=price,
        shape=problem.shape, iterations=found.steps, method=found.method,
    )  # fmt: skip


def _equal_spent(problem: FullProblem, value: float) -> float:
    top = 1e9 / max(float(problem.sigma.diagonal().max()), 1e-9)
    if problem.equal_value(top) > value:
        return np.inf
    t = root_of(problem.equal_value, value, problem.criterion.logarithm)
    return float(problem.limits.cost @ problem.limits.unit(np.full(len(problem.rows), t)))

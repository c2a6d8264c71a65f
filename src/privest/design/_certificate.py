"""How far from the best any levels are, proved at those levels: the certificate of a design.

For a witness G of the criterion, q_k = h_kᵀGh_k and prices π_g = ν cost_g + ν_P share_g of levels,

    conj = Σ_g max_{0 ≤ s ≤ u_g} Σ_{k ∈ g} q_k x_k(s) − π_g s
    φ = max qᵀx within the budget B    ≤  ν B + Σ_P ν_P most_P + conj          for EVERY ν, ν_P ≥ 0
    ψ = least cost with qᵀx ≥ r        ≥  (r − Σ_P ν_P most_P − conj)/ν

A single measurement: s = (√(q/π) − 1)/v, clipped to [0, u]. A group: the root of Σ q/(1 + vs)² = π.
No feasible levels can be below a floor, whatever found them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import EPS, Array
from privest.design._criteria import Scaled, Witness
from privest.design._problem import Problem

ROUNDS = 100  # of any root below; each takes a handful
SPAN = 300.0  # log of the highest price over the lowest that is looked at
CLOSE = 1e-11  # of the log of a price: at a kink the bound loses as much


@dataclass(frozen=True, eq=False)
class Prices:
    """ν of the budget, ν_P ≥ 0 of the persons' limits (or None)."""

    budget: float
    persons: Array | None = None

    def of(self, problem: Problem) -> Array:
        """π (g,)."""
        prices = self.budget * problem.cost
        if self.persons is None or problem.person is None:
            return prices
        return np.asarray(prices + self.persons[problem.person] * problem.share)

    def limits(self, problem: Problem) -> float:
        """Σ_P ν_P most_P."""
        if self.persons is None or problem.person is None:
            return 0.0
        return float(self.persons @ np.where(self.persons > 0, problem.most, 0.0))


@dataclass(frozen=True, eq=False)
class Point:
    """Levels (g,) that a search proposes, not yet feasible, and its prices.

    weights  duals of the criterion: w (J,) of `Variances`, V (n, n) of `Least`; None: from levels.
    """

    levels: Array
    steps: int
    method: str
    prices: Prices | None = None
    weights: Array | None = None


@dataclass(frozen=True, eq=False)
class Proof:
    floor: float
    witness: Witness | None = None
    prices: Prices | None = None


NO_PROOF = Proof(-np.inf)


def levels_at(problem: Problem, q: Array, prices: Array) -> Array:
    """(g,): the levels that are best at these prices; inf where more is always better."""
    if problem.atom is not None:
        return _group_levels(problem, q, prices)
    v = problem.variance
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = (np.sqrt(q / prices) - 1.0) / v
    wanted = np.where(q > prices, np.where(v > 0, wanted, np.inf), 0.0)
    return np.asarray(np.clip(wanted, 0.0, problem.cap))


def _group_levels(problem: Problem, q: Array, prices: Array) -> Array:
    """Newton on A(s)^-½, which is nearly linear, A(s) = Σ q/(1 + vs)²; in brackets."""
    v = problem.variance
    cap = problem.cap

    def worth(s: Array) -> tuple[Array, Array]:
        each = 1.0 / (1.0 + v * problem.per_measurement(s))
        first = problem.per_atom(q * each * each)
        return first, problem.per_atom(2.0 * q * v * each**3)

    at_zero = problem.per_atom(q)
    endless = problem.per_atom(np.where(v > 0, 0.0, q))
    finite = np.where(np.isfinite(cap), cap, 0.0)
    at_cap = np.where(np.isfinite(cap), worth(finite)[0], endless)
    s = np.zeros(problem.atoms)
    inside = (at_zero > prices) & (at_cap < prices)
    s[(at_zero > prices) & ~inside] = cap[(at_zero > prices) & ~inside]
    low = np.zeros(problem.atoms)
    high = np.where(inside, cap, 0.0)
    trial = np.zeros(problem.atoms)
    for _ in range(ROUNDS):
        first, second = worth(trial)
        more = first > prices
        low = np.where(more, trial, low)
        high = np.where(more, high, trial)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = trial + 2.0 * first * (np.sqrt(first / prices) - 1.0) / second
        outside = ~((step > low) & (step < high))
        middle = np.where(np.isfinite(high), (low + high) / 2, 2.0 * low + 1.0)
        new = np.where(inside, np.where(outside, middle, step), 0.0)
        done = np.abs(new - trial) <= 4 * EPS * new
        trial = new
        if done.all():
            break
    s[inside] = trial[inside]
    return s


def conjugate(problem: Problem, q: Array, prices: Array) -> float:
    """conj, or above it by rounding; inf where an exact measurement without cap is too cheap."""
    s = levels_at(problem, q, prices)
    if problem.atom is not None:
        return _group_conjugate(problem, q, prices, s)
    if np.isinf(s).any():  # single measurements without noise: at their own worth they gain nothing
        return np.inf
    return float(q @ problem.precisions(s)) - float(prices @ s)


def _group_conjugate(problem: Problem, q: Array, prices: Array, s: Array) -> float:
    """conj of groups from ANY levels near the best: tangents lie above concave functions.

    With A(s) = Σ q/(1 + vs)² the tangent of Σ qx at s is Σ qvx² + A(s)·t: where A(s) ≤ π its best
    value less πt is Σ qvx², at t = 0, else (A − π)·cap is added.
    """
    v = problem.variance
    for doubling in range(60):
        each = problem.per_measurement(s)
        with np.errstate(invalid="ignore"):
            slope = np.where(v > 0, 1.0 / (1.0 + v * each) ** 2, 1.0)
        worth = problem.per_atom(q * slope)
        short = (worth > prices) & (s < problem.cap)
        if not short.any():
            break
        s = np.minimum(np.where(short, s * (1 + EPS * 2.0**doubling), s), problem.cap)
    over = np.maximum(worth - prices, 0.0)
    if (short | ((over > 0) & np.isinf(problem.cap))).any():
        return np.inf
    with np.errstate(invalid="ignore"):
        bent = np.where(v > 0, v * problem.precisions(s) ** 2, 0.0)
    return float(q @ bent + over @ np.where(over > 0, problem.cap, 0.0))


def most_worth(problem: Problem, q: Array, budget: float, prices: Prices) -> float:
    """An upper bound of φ: no feasible levels within the budget have a larger qᵀx."""
    found = conjugate(problem, q, prices.of(problem))
    return found + prices.budget * budget + prices.limits(problem)


def least_cost(problem: Problem, q: Array, needed: float, prices: Prices) -> float:
    """A lower bound of ψ: no feasible levels with qᵀx ≥ needed cost less; −inf: says nothing."""
    if not prices.budget > 0:
        return -np.inf
    found = conjugate(problem, q, prices.of(problem)) + prices.limits(problem)
    return (needed - found) / prices.budget


def person_prices(problem: Problem, q: Array, price: float) -> Array | None:
    """ν_P ≥ 0 that keep every person within the limit if the budget costs `price`, by bisection."""
    if problem.person is None:
        return None
    share = problem.share
    limit = problem.most

    def used(extra: Array) -> Array:
        levels = levels_at(problem, q, price * problem.cost + extra[problem.person] * share)
        return problem.per_person(np.minimum(levels, 1e300 / share))

    none = np.zeros(len(limit))
    over = used(none) > limit
    if not over.any():
        return none
    top = np.zeros(len(limit))
    np.maximum.at(top, problem.person, problem.per_atom(q) / share)
    low = none
    high = np.where(over, top, 0.0)
    for _ in range(ROUNDS):
        # Geometric means settle the size first; low starts from 0.
        trial = np.where(low > 0, np.sqrt(low * high), high * 1e-8)
        trial = np.where(high <= 4 * low, (low + high) / 2, trial)
        above = used(trial) > limit
        low = np.where(above & over, trial, low)
        high = np.where(above, high, np.minimum(trial, high))
        if (high - low <= 4 * EPS * high).all():
            break
    return high


def budget_prices(problem: Problem, q: Array, budget: float) -> Prices:
    """The ν, ν_P at which the bound of φ is least: the best levels for q spend the budget."""

    def bound(prices: Prices) -> float:
        return most_worth(problem, q, budget, prices)

    def excess(log_price: float) -> float:
        spent = problem.spent(levels_at(problem, q, float(np.exp(log_price)) * problem.cost))
        return float(np.log(max(spent / budget, 1e-300)))

    free = Prices(0.0, person_prices(problem, q, 0.0))
    top = _highest_price(problem, q)
    if top > 0 and not problem.exact and problem.person is None:
        # above what exp and log round
        low = np.log(top) - SPAN
        high = np.log(top) + 1e-10
        if excess(low) <= 0:
            return free
        return Prices(float(np.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-15))))
    return min(_best_price(problem, q, bound), free, key=bound)


def _highest_price(problem: Problem, q: Array) -> float:
    return float((problem.per_atom(q) / problem.cost).max()) * (1 + 8 * EPS)


def target_prices(problem: Problem, q: Array, needed: float) -> Prices:
    return _best_price(problem, q, lambda prices: -least_cost(problem, q, needed, prices))


def _best_price(problem: Problem, q: Array, bound: Callable[[Prices], float]) -> Prices:
    """The price at which a bound that has one valley is least, by golden sections of log ν."""
    top = _highest_price(problem, q)
    if top <= 0:  # nothing is worth anything
        return Prices(1.0, person_prices(problem, q, 1.0))

    def at(log_price: float) -> tuple[float, Prices]:
        price = float(np.exp(log_price))
        prices = Prices(price, person_prices(problem, q, price))
        return bound(prices), prices

    part = (np.sqrt(5.0) - 1.0) / 2.0
    low = np.log(top) - SPAN
    high = np.log(top)
    best = at(high)  # always finite
    left = high - part * SPAN
    right = low + part * SPAN
    at_left = at(left)
    at_right = at(right)
    while high - low > CLOSE:
        best = min(best, at_left, at_right, key=lambda found: found[0])
        if at_left[0] < at_right[0]:
            high = right
            right = left
            at_right = at_left
            left = high - part * (high - low)
            at_left = at(left)
        else:  # also where both are infinite: too cheap
            low = left
            left = right
            at_left = at_right
            right = low + part * (high - low)
            at_right = at(right)
    return best[1]


def lifted(problem: Problem, q: Array, prices: Prices) -> Prices:
    """With a price of the budget at which no exact measurement without cap is worth more."""
    open_ended = np.isinf(problem.cap)
    if not (problem.exact and open_ended.any()):
        return prices
    # The last places are for the rounding of the same sums in `conjugate`.
    worth = problem.per_atom(np.where(problem.variance > 0, 0.0, q)) * (1 + 16 * EPS)
    more = float(((worth - prices.of(problem)) / problem.cost)[open_ended].max())
    return prices if more <= 0 else Prices(prices.budget + more * (1 + 16 * EPS), prices.persons)


def budget_floor(
    problem: Problem, witness: Witness | None, budget: float, prices: Prices | None = None
) -> Proof:
    """No feasible levels within the budget make the criterion smaller than `floor`."""
    if witness is None:
        return NO_PROOF
    q = problem.squares(witness.factor)
    prices = lifted(problem, q, budget_prices(problem, q, budget) if prices is None else prices)
    top = most_worth(problem, q, budget, prices)
    return Proof(witness.floor(top), witness, prices) if np.isfinite(top) else NO_PROOF


def target_floor(
    problem: Problem, witness: Witness | None, target: float, prices: Prices | None = None
) -> Proof:
    if witness is None:
        return Proof(0.0)
    q = problem.squares(witness.factor)
    needed = witness.needed(target)
    prices = lifted(problem, q, target_prices(problem, q, needed) if prices is None else prices)
    return Proof(max(0.0, least_cost(problem, q, needed, prices)), witness, prices)


def relative_gap(criterion: Scaled, value: float, floor: float) -> float:
    """(value − floor)/value; of a log det the difference."""
    if not np.isfinite(value):
        return np.inf
    return value - floor if criterion.logarithm else (value - floor) / value

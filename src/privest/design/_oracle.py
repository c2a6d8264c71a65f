"""The best answer to prices: what a witness allows at most, in one pass over the readings.

For q_k ≥ 0 (what a reading's precision is worth) and a price π_g of each atom's level,

    conj = Σ_g max_{0 ≤ s ≤ u_g} Σ_{k ∈ g} q_k x_k(s) − π_g s ,      π_g = ν cost_g + ν_P share_g

    φ = max qᵀx within the budget B    ≤  ν B + Σ_P ν_P most_P + conj          for EVERY ν, ν_P ≥ 0
    ψ = least cost with qᵀx ≥ r        ≥  (r − Σ_P ν_P most_P − conj)/ν

A single reading: s = (√(q/π) − 1)/v, clipped to [0, u]. A group: the root of Σ q/(1 + vs)² = π.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.arrays import EPS, Array
from privest.design._problem import Problem

ROUNDS = 100  # of any root below; each takes a handful
SPAN = 60.0  # log of the highest price over the lowest that is looked at


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
        assert problem.share is not None
        return np.asarray(prices + self.persons[problem.person] * problem.share)

    def limits(self, problem: Problem) -> float:
        """Σ_P ν_P most_P."""
        if self.persons is None or problem.most is None:
            return 0.0
        return float(self.persons @ np.where(self.persons > 0, problem.most, 0.0))


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
    v, cap = problem.variance, problem.cap

    def worth(s: Array) -> tuple[Array, Array]:
        each = 1.0 / (1.0 + v * problem.per_reading(s))
        first = problem.per_atom(q * each * each)
        return first, problem.per_atom(2.0 * q * v * each**3)

    at_zero = problem.per_atom(q)
    endless = problem.per_atom(np.where(v > 0, 0.0, q))
    finite = np.where(np.isfinite(cap), cap, 0.0)
    at_cap = np.where(np.isfinite(cap), worth(finite)[0], endless)
    s = np.zeros(problem.atoms)
    inside = (at_zero > prices) & (at_cap < prices)
    s[(at_zero > prices) & ~inside] = cap[(at_zero > prices) & ~inside]
    low, high = np.zeros(problem.atoms), np.where(inside, cap, 0.0)
    trial = np.zeros(problem.atoms)
    for _ in range(ROUNDS):
        first, second = worth(trial)
        more = first > prices
        low, high = np.where(more, trial, low), np.where(more, high, trial)
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


def gains(problem: Problem, q: Array, levels: Array) -> float:
    """Σ_k q_k x_k."""
    return float(q @ problem.precisions(levels))


def conjugate(problem: Problem, q: Array, prices: Array) -> float:
    """conj, or above it by rounding; inf where a reading without noise and cap is worth more than
    it costs.
    """
    s = levels_at(problem, q, prices)
    if problem.atom is not None:
        return _group_conjugate(problem, q, prices, s)
    endless = np.isinf(s)
    if endless.any():  # single readings without noise: at their own worth they gain nothing
        return np.inf
    return gains(problem, q, s) - float(prices @ s)


def _group_conjugate(problem: Problem, q: Array, prices: Array, s: Array) -> float:
    """conj of groups from ANY levels near the best: tangents, which lie above concave functions.

    With A(s) = Σ q/(1 + vs)² the tangent of Σ qx at s is Σ qvx² + A(s)·t at t: where A(s) ≤ π its
    best value less πt is Σ qvx², at t = 0, else (A − π)·cap is to be added. So levels only have to
    be on the right side of the root, not at it, where exact and noisy readings share a level.
    """
    v = problem.variance
    for doubling in range(60):
        each = problem.per_reading(s)
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


def lifted(problem: Problem, q: Array, prices: Prices) -> Prices:
    """The same with a price of the budget at which no reading without noise and cap is worth more.

    Below it the conjugate is infinite; prices of a search are right up to rounding only.
    """
    open_ended = np.isinf(problem.cap)
    if not (problem.exact and open_ended.any()):
        return prices
    # The last places are for the rounding of the same sums in `conjugate`.
    worth = problem.per_atom(np.where(problem.variance > 0, 0.0, q)) * (1 + 16 * EPS)
    more = float(((worth - prices.of(problem)) / problem.cost)[open_ended].max())
    return prices if more <= 0 else Prices(prices.budget + more * (1 + 16 * EPS), prices.persons)


def most(problem: Problem, q: Array, budget: float, prices: Prices) -> float:
    """An upper bound of φ: no feasible levels within the budget have a larger qᵀx."""
    found = conjugate(problem, q, prices.of(problem))
    return found + prices.budget * budget + prices.limits(problem)


def least(problem: Problem, q: Array, needed: float, prices: Prices) -> float:
    """A lower bound of ψ: no feasible levels with qᵀx ≥ needed cost less."""
    return max(0.0, _least(problem, q, needed, prices)) if prices.budget > 0 else 0.0


def _least(problem: Problem, q: Array, needed: float, prices: Prices) -> float:
    found = conjugate(problem, q, prices.of(problem)) + prices.limits(problem)
    return (needed - found) / prices.budget


def person_prices(problem: Problem, q: Array, price: float) -> Array | None:
    """ν_P ≥ 0 that keep every person within the limit when the budget costs `price`.

    For each person the root of a decreasing function, all at once, by bisection of the logarithm
    and secants; at a jump (exact readings) the price above it.
    """
    if problem.person is None:
        return None
    share, limit = problem.share, problem.most
    assert share is not None
    assert limit is not None

    def used(extra: Array) -> Array:
        levels = levels_at(problem, q, price * problem.cost + extra[problem.person] * share)
        return problem.per_person(np.minimum(share * levels, 1e300))

    none = np.zeros(len(limit))
    over = used(none) > limit
    if not over.any():
        return none
    top = np.zeros(len(limit))
    np.maximum.at(top, problem.person, problem.per_atom(q) / share)
    low, high = none, np.where(over, top, 0.0)
    for _ in range(ROUNDS):
        # Geometric means settle the size first; low starts from 0.
        trial = np.where(low > 0, np.sqrt(low * high), high * 1e-8)
        trial = np.where(high <= 4 * low, (low + high) / 2, trial)
        above = used(trial) > limit
        low, high = (
            np.where(above & over, trial, low),
            np.where(above, high, np.minimum(trial, high)),
        )
        if (high - low <= 4 * EPS * high).all():
            break
    return high


def highest_price(problem: Problem, q: Array) -> float:
    """The least price of the budget at which nobody shows anything, a rounding above it."""
    return float((problem.per_atom(q) / problem.cost).max()) * (1 + 8 * EPS)


def budget_prices(problem: Problem, q: Array, budget: float, start: float | None = None) -> Prices:
    """The ν, ν_P at which the bound of φ is least.

    Without exact readings that is where the best levels for q spend the budget: a root, for which
    `start` is a first guess. With them the bound has kinks, at which spending jumps, so the convex
    bound itself is minimised.
    """
    free = Prices(0.0, person_prices(problem, q, 0.0))
    top = highest_price(problem, q)
    jumps = problem.exact and problem.person is not None  # a person at the limit shows as nothing
    if top <= 0 or (not jumps and problem.spent(levels_at(problem, q, free.of(problem))) <= budget):
        return free
    if problem.exact:
        found = _lowest(problem, q, top, lambda prices: most(problem, q, budget, prices))
    elif problem.person is None:
        found = _root_in_tau(problem, q, budget, top, start)
    else:
        found = _bisected(problem, q, top, lambda levels: problem.spent(levels) - budget)
    return min(found, free, key=lambda prices: most(problem, q, budget, prices))


def _root_in_tau(
    problem: Problem, q: Array, budget: float, top: float, start: float | None
) -> Prices:
    """What the levels at ν spend is the budget: Newton's method in τ = ν^-½, in brackets.

    Single readings spend a piecewise linear function of τ, groups nearly so. From A(s) = π follows
    ds/dτ = 2π/(τ Σ 2qv/(1 + vs)³).
    """
    low, high = top**-0.5, np.inf
    tau = 2 * low if start is None or not 0 < start < top else start**-0.5
    for _ in range(ROUNDS):
        prices = problem.cost / tau**2
        s = levels_at(problem, q, prices)
        spent = problem.spent(s)
        low, high = (low, tau) if spent > budget else (tau, high)
        if abs(spent - budget) <= 1e-13 * budget or high - low <= 4 * EPS * low:
            break
        each = 1.0 / (1.0 + problem.variance * problem.per_reading(s))
        bend = problem.per_atom(2.0 * q * problem.variance * each**3)
        inside = (s > 0) & (s < problem.cap)
        slope = float(np.sum(problem.cost[inside] * 2.0 * prices[inside] / (tau * bend[inside])))
        new = tau + (budget - spent) / slope if slope > 0 else np.inf
        middle = (low + high) / 2 if np.isfinite(high) else 4 * low
        tau = new if low < new < high else middle
    return Prices(tau**-2, None)


def _bisected(problem: Problem, q: Array, top: float, excess: Callable[[Array], float]) -> Prices:
    """The ν at which the excess of the best levels, which falls with ν, is zero.

    The bound is flat there: a price that is right to 1e-8 gives it to 1e-16.
    """

    def at(log_price: float) -> tuple[float, Prices]:
        price = float(np.exp(log_price))
        prices = Prices(price, person_prices(problem, q, price))
        return excess(levels_at(problem, q, prices.of(problem))), prices

    low, high = np.log(top) - 1.0, np.log(top)
    for _ in range(ROUNDS):
        if at(low)[0] >= 0:
            break
        low, high = low - 2.0, low
    while high - low > 1e-8:
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[0] >= 0 else (low, middle)
    return at(high)[1]


def _lowest(problem: Problem, q: Array, top: float, bound: Callable[[Prices], float]) -> Prices:
    """The price at which a bound that has one valley is least, by golden sections of log ν."""

    def at(log_price: float) -> tuple[float, Prices]:
        price = float(np.exp(log_price))
        prices = Prices(price, person_prices(problem, q, price))
        return bound(prices), prices

    part = (np.sqrt(5.0) - 1.0) / 2.0
    low, high = np.log(top) - SPAN, np.log(top)
    best = at(high)  # always finite
    left, right = high - part * SPAN, low + part * SPAN
    at_left, at_right = at(left), at(right)
    while high - low > 1e-11:  # to the first power at a kink
        best = min(best, at_left, at_right, key=lambda found: found[0])
        if at_left[0] < at_right[0]:
            high, right, at_right = right, left, at_left
            left = high - part * (high - low)
            at_left = at(left)
        else:  # also where both are infinite: too cheap
            low, left, at_left = left, right, at_right
            right = low + part * (high - low)
            at_right = at(right)
    return best[1]


def target_prices(problem: Problem, q: Array, needed: float, start: float) -> Prices:
    """The ν, ν_P at which the bound of ψ is largest: the best levels for q gain just `needed`."""
    top = highest_price(problem, q)
    if top <= 0:
        return Prices(start, person_prices(problem, q, start))
    if problem.exact:
        return _lowest(problem, q, top, lambda prices: -_least(problem, q, needed, prices))
    return _bisected(problem, q, top, lambda levels: gains(problem, q, levels) - needed)

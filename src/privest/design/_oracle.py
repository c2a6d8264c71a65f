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

Spending = Callable[[float], tuple[float, Array | None]]
ROUNDS = 100  # of any root below; each takes a handful


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
    """conj: inf where an exact reading without cap is worth more than it costs."""
    s = levels_at(problem, q, prices)
    endless = np.isinf(s)
    if not endless.any():
        return gains(problem, q, s) - float(prices @ s)
    v = problem.variance
    exact = problem.per_atom(np.where(v > 0, 0.0, q))
    if (exact > prices)[endless].any():
        return np.inf
    # At a price that equals the worth of the exact readings the supremum is that of the others.
    with np.errstate(divide="ignore"):
        others = problem.per_atom(np.where(v > 0, q / v, 0.0))[endless].sum()
    rest = np.where(endless, 0.0, s)
    kept = problem.precisions(rest)
    if problem.atom is None:
        kept = np.where(endless, 0.0, kept)
    else:
        kept = np.where(endless[problem.atom], 0.0, kept)
    return float(others + q @ kept - prices @ rest)


def most(problem: Problem, q: Array, budget: float, prices: Prices) -> float:
    """An upper bound of φ: no feasible levels within the budget have a larger qᵀx."""
    found = conjugate(problem, q, prices.of(problem))
    return found + prices.budget * budget + prices.limits(problem)


def least(problem: Problem, q: Array, needed: float, prices: Prices) -> float:
    """A lower bound of ψ: no feasible levels with qᵀx ≥ needed cost less."""
    if not prices.budget > 0:
        return 0.0
    found = conjugate(problem, q, prices.of(problem)) + prices.limits(problem)
    return max(0.0, (needed - found) / prices.budget)


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


def budget_prices(problem: Problem, q: Array, budget: float, start: float | None = None) -> Prices:
    """The ν, ν_P at which the bound of φ is least: what the best levels for q spend is the budget.

    In τ = ν^-½ what single readings spend is piecewise linear: a safeguarded Newton method by
    secants. At a jump the price above it, where the bound is finite.
    """

    def spend(price: float) -> tuple[float, Array | None]:
        extra = person_prices(problem, q, price)
        levels = levels_at(problem, q, Prices(price, extra).of(problem))
        return float(problem.cost @ levels), extra

    worth = problem.per_atom(q) / problem.cost
    top = float(worth.max())
    if top <= 0:
        return Prices(0.0, None if problem.person is None else np.zeros_like(problem.most))
    nothing, extra = spend(0.0) if not np.isinf(problem.ceiling).any() else (np.inf, None)
    if nothing <= budget:
        return Prices(0.0, extra)
    return _root_in_tau(spend, budget, top, start)


def _root_in_tau(spend: Spending, budget: float, top: float, start: float | None) -> Prices:
    """spend(ν) = budget by regula falsi in τ = ν^-½, between τ = top^-½ (nothing) and above."""
    low, low_spent = top**-0.5, 0.0
    high = low * 2 if start is None or not 0 < start < top else max(start**-0.5, low * (1 + 1e-12))
    high_spent = spend(high**-2)[0]
    for _ in range(2 * ROUNDS):
        if high_spent > budget:
            break
        low, low_spent = high, high_spent
        high *= 4.0
        high_spent = spend(high**-2)[0]
    side = 0
    best = Prices(low**-2, spend(low**-2)[1])
    for _ in range(ROUNDS):
        if np.isfinite(high_spent):
            tau = low + (high - low) * (budget - low_spent) / (high_spent - low_spent)
        else:
            tau = (low + high) / 2
        if not low < tau < high:
            break
        spent, extra = spend(tau**-2)
        if spent <= budget:
            best = Prices(tau**-2, extra)
            low, low_spent = tau, spent
            if side == -1 and np.isfinite(high_spent):
                high_spent = budget + (high_spent - budget) / 2
            side = -1
        else:
            high, high_spent = tau, spent
            if side == 1:
                low_spent = budget - (budget - low_spent) / 2
            side = 1
        if abs(spent - budget) <= 1e-12 * budget or high - low <= 4 * EPS * high:
            break
    return best


def target_prices(problem: Problem, q: Array, needed: float, start: float) -> Prices:
    """The ν, ν_P at which the bound of ψ is largest: the best levels for q gain just `needed`."""
    top = float((problem.per_atom(q) / problem.cost).max())
    if top <= 0:
        return Prices(start, person_prices(problem, q, start))
    low, high = np.log(top) - 1.0, np.log(top)

    def gained(log_price: float) -> float:
        price = float(np.exp(log_price))
        prices = Prices(price, person_prices(problem, q, price))
        levels = levels_at(problem, q, prices.of(problem))
        return gains(problem, q, levels) - needed

    for _ in range(200):
        if gained(low) >= 0:
            break
        low, high = low - 2.0, low
    for _ in range(60):  # second-order accurate: a price right to 1e-7 is right to 1e-14
        middle = (low + high) / 2
        low, high = (middle, high) if gained(middle) >= 0 else (low, middle)
        if high - low < 1e-8:
            break
    price = float(np.exp(high))
    return Prices(price, person_prices(problem, q, price))

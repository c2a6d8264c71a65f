"""The best levels for given worths within a budget, quickly, and how they answer small changes.

`_oracle` finds prices for a proof, once; a search asks at every step. Here only the atoms that get
something are touched, from the last price on: in τ = ν^-½ what they spend is piecewise linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privest.arrays import EPS, Array, Index
from privest.design import _oracle as oracle
from privest.design._oracle import Prices
from privest.design._problem import Problem

ROUNDS = 100  # of the root; three to five as a rule
CLOSE = 1e-12  # of the budget


@dataclass(frozen=True, eq=False)
class Filling:
    """Levels that maximise qᵀx − Σ π_g s_g, and how they move.

    prices     ν and ν_P.
    atoms      those with a level above 0, and
    levels     their levels s.
    stiffness  −Σ_{k ∈ g} q_k x_k''(s): s moves by (Σ x_k' dq_k − dπ_g)/stiffness; inf at a cap.
    """

    prices: Prices
    atoms: Index
    levels: Array
    stiffness: Array

    def all_levels(self, problem: Problem) -> Array:
        """(g,): 0 for the other atoms."""
        levels = np.zeros(problem.atoms)
        levels[self.atoms] = self.levels
        return levels

    def in_problem(self, problem: Problem, q: Array) -> Filling:
        """The same levels and prices, for other variances."""
        held = np.isinf(self.stiffness)
        return replace(
            self, stiffness=np.where(held, np.inf, _stiffness(problem, q, self.atoms, self.levels))
        )

    def surplus(self, problem: Problem, q: Array) -> Array:
        """Σ_{k ∈ g} q_k x_k'(s) − π_g: 0 where the levels are best for these prices."""
        s = problem.per_reading(self.all_levels(problem))
        worth = problem.per_atom(q / (1.0 + problem.variance * s) ** 2)
        return np.asarray((worth - self.prices.of(problem))[self.atoms])

    def spent(self, problem: Problem) -> float:
        return float(problem.cost[self.atoms] @ self.levels)

    def top(self, problem: Problem, q: Array, budget: float) -> float:
        """φ: no levels within the budget have a larger qᵀx."""
        return oracle.most(problem, q, budget, self.prices)


def fill(problem: Problem, q: Array, budget: float, start: float | None = None) -> Filling:
    """The ν at which the best levels spend the budget, by Newton's method in τ, in brackets."""
    tau = _first(problem, q, budget) if start is None or not start > 0 else start**-0.5
    if problem.atom is None and problem.person is None and np.isinf(problem.cap.min()):
        return _fill_free(problem, q, budget, tau)
    low, high, best = 0.0, np.inf, None
    for _ in range(ROUNDS):
        found = at_price(problem, q, tau**-2)
        short = budget - found.spent(problem)
        if short >= 0:
            low, best = tau, found
        else:
            high = tau
        if abs(short) <= CLOSE * budget:
            return found
        if np.isfinite(high) and high - low <= 4 * EPS * high:
            break
        cost = problem.cost[found.atoms]
        slope = 2.0 * float(np.sum(cost * cost / found.stiffness)) * tau**-3
        step = tau + short / slope if slope > 0 else np.inf
        if not low < step < high:
            step = (low + high) / 2 if np.isfinite(high) else 4.0 * tau
        if step > 1e150:  # more than the limits let anybody spend: the budget costs nothing
            return found
        tau = step
    return found if best is None else best


def _fill_free(problem: Problem, q: Array, budget: float, tau: float) -> Filling:
    """Single readings without caps: Σ c(τr − 1)₊/v = B, r = √(q/c), is convex in τ.

    From above the root Newton's method only falls, and readings that got nothing stay out: each
    round looks at those that the last one left. Ends exactly, when nobody leaves.
    """
    atoms = np.flatnonzero(q > tau**-2 * problem.cost)
    if len(atoms) == 0:
        atoms = np.array([np.argmax(q / problem.cost)])
        tau = float(q[atoms[0]] / problem.cost[atoms[0]]) ** -0.5
    reach, slope, each = _parts(problem, q, atoms)
    step = (budget + float(slope.sum())) / float(each.sum())
    while step > tau:  # below the root: up, not far beyond it
        tau = min(step, 1.2 * tau)
        atoms = np.flatnonzero(q > tau**-2 * problem.cost)
        reach, slope, each = _parts(problem, q, atoms)
        step = (budget + float(slope.sum())) / float(each.sum())
    tau = step
    for _ in range(ROUNDS):
        kept = np.flatnonzero(reach * tau > 1.0)
        if len(kept) == len(atoms):
            break
        atoms, reach, slope, each = atoms[kept], reach[kept], slope[kept], each[kept]
        tau = (budget + float(slope.sum())) / float(each.sum())
    cost, v, price = problem.cost[atoms], problem.variance[atoms], tau**-2
    grown = reach * tau
    return Filling(Prices(price), atoms, (grown - 1.0) / v, 2.0 * price * cost * v / grown)


def _parts(problem: Problem, q: Array, atoms: Index) -> tuple[Array, Array, Array]:
    """r, c/v and cr/v of some readings."""
    cost = problem.cost[atoms]
    reach, slope = np.sqrt(q[atoms] / cost), cost / problem.variance[atoms]
    return reach, slope, slope * reach


def _first(problem: Problem, q: Array, budget: float) -> float:
    """τ at which the atoms would spend the budget if all of them got something."""
    worth = np.sqrt(problem.per_atom(q) * problem.cost)
    if problem.atom is None:
        v = problem.variance
    else:
        v = problem.per_atom(q * problem.variance) / np.maximum(problem.per_atom(q), 1e-300)
    v = np.maximum(v, 1e-300)
    total = float(np.sum(worth / v))
    return float((budget + np.sum(problem.cost / v)) / total) if total > 0 else 1.0


def at_price(problem: Problem, q: Array, price: float) -> Filling:
    """The best levels where the budget costs `price`."""
    if problem.atom is not None or problem.person is not None:
        return _at_prices(problem, q, price)
    atoms = np.flatnonzero(q > price * problem.cost)
    cost, v, cap = problem.cost[atoms], problem.variance[atoms], problem.cap[atoms]
    grown = np.sqrt(q[atoms] / (price * cost))  # 1 + vs
    levels = (grown - 1.0) / v
    stiffness = 2.0 * price * cost * v / grown
    held = levels >= cap
    if held.any():
        levels = np.where(held, cap, levels)
        stiffness = np.where(held, np.inf, stiffness)
    return Filling(Prices(price), atoms, levels, stiffness)


def _at_prices(problem: Problem, q: Array, price: float) -> Filling:
    """Groups, and persons with their own prices."""
    prices = Prices(price, oracle.person_prices(problem, q, price))
    every = oracle.levels_at(problem, q, prices.of(problem))
    atoms = np.flatnonzero(every > 0)
    stiffness = _stiffness(problem, q, atoms, every[atoms])
    held = every[atoms] >= problem.cap[atoms]
    return Filling(prices, atoms, every[atoms], np.where(held, np.inf, stiffness))


def _stiffness(problem: Problem, q: Array, atoms: Index, levels: Array) -> Array:
    """Σ_{k ∈ g} 2 q_k v_k/(1 + v_k s)³ of some atoms."""
    if problem.atom is None:
        v = problem.variance[atoms]
        return np.asarray(2.0 * q[atoms] * v / (1.0 + v * levels) ** 3)
    every = np.zeros(problem.atoms)
    every[atoms] = levels
    v, s = problem.variance, problem.per_reading(every)
    return problem.per_atom(2.0 * q * v / (1.0 + v * s) ** 3)[atoms]

"""The primal-dual Newton method: predictor, corrector, separate steps, until a proof is found.

    budget:  maximise mass·t   over e, t with  g_j(M(e)) ≥ t ,  Σ e ≤ budget
    target:  minimise Σ e      over e    with  g_j(M(e)) ≥ t  for the given t

with 0 ≤ e ≤ cap and persons' limits in both; of `Least`: M(e) ≥ tW. Slacks and duals stay > 0, and
what the constraints lack shrinks with their products. Each step is one `System`. Mehrotra's
predictor says how far to aim; the merit (all products and residuals, in units of the objective)
has to fall, else the step is shortened, then centred.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.design._newton_side import Move, Pair, Side, gram, room
from privest.design._newton_system import System
from privest.design._newton_unit import Unit

SHORTER = 25  # times a step is halved before the method gives up
CORRECTED = 3  # of these with the predictor's correction
MOST, LEAST, CENTRED = 0.9, 1e-6, 0.3  # parts of the present products that a step aims at


@dataclass(frozen=True, eq=False)
class Moves:
    """A direction: of t, of the accuracy side, and of each pair."""

    goal: float
    side: Move
    pairs: dict[str, Move]


class Iterate:
    """A point with its slacks and duals, and what the next step needs to know there.

    pairs: "lower" (e ≥ 0), "upper" (e ≤ cap, of the capped ones), "budget", "persons".
    """

    def __init__(
        self, unit: Unit, pairs: dict[str, Pair], side: Side, t: float, budget: float | None
    ) -> None:
        self.unit, self.pairs, self.side, self.t, self.budget = unit, pairs, side, t, budget
        self.e = pairs["lower"].slack
        x, self.slope, self.bend = unit.precisions(self.e)
        M = gram(unit.rows, x)
        side.expand(unit.rows, self.slope, (M + M.T) / 2, t)
        self.gap = side.gap + sum(pair.gap for pair in pairs.values())
        self.mu = self.gap / (side.count + sum(pair.count for pair in pairs.values()))
        self.residual = (
            self.price
            + self.limits({name: pair.dual for name, pair in pairs.items()})
            - unit.gather(self.slope * side.worth)
        )

    @property
    def price(self) -> float:
        """ν; 1 where the cost is what is made small."""
        return 1.0 if self.budget is None else float(self.pairs["budget"].dual[0])

    def limits(self, duals: dict[str, Array]) -> Array:
        """What the duals of levels and persons add to the price of each atom."""
        total = -duals["lower"]
        if "upper" in duals:
            total[np.isfinite(self.unit.cap)] += duals["upper"]
        if "persons" in duals:
            total = total + self.unit.to_atoms(duals["persons"])
        return total

    def infeasible(self, other: Iterate) -> float:
        """All residuals, in units of the objective, weighted as at `other`."""
        found = float(np.abs(self.residual) @ other.e) + self.side.infeasible(other.side)
        return found if self.budget is None else found + abs(self.side.missing * other.t)

    def system(self) -> System:
        pairs, unit = self.pairs, self.unit
        diagonal = unit.gather(self.bend * self.side.worth)
        diagonal = diagonal + pairs["lower"].dual / pairs["lower"].slack
        if "upper" in pairs:
            diagonal[np.isfinite(unit.cap)] += pairs["upper"].dual / pairs["upper"].slack
        columns = unit.gather(self.side.columns)
        corner, border = self.side.diagonal, None
        if self.budget is None:
            columns = columns[:, :-1]
        else:
            columns[:, -1] = 1.0  # of an atom, not of each of its readings
            corner = np.concatenate([corner, pairs["budget"].slack / pairs["budget"].dual])
            border = np.concatenate([self.side.border, [0.0]])
        persons = None
        if "persons" in pairs:
            persons = pairs["persons"].slack / pairs["persons"].dual
        return System(unit, diagonal, columns, corner, border, persons)

    def direction(self, system: System, mu: float, before: Moves | None) -> Moves:
        """Towards products of weight·μ; `before`: the predictor, whose products are allowed for."""
        pairs, unit = self.pairs, self.unit
        cross: dict[str, Array | float] = dict.fromkeys(pairs, 0.0)
        crossed: Array | float = 0.0
        if before is not None:
            cross = {name: move[0] * move[1] for name, move in before.pairs.items()}
            crossed = self.side.cross(before.side)
        nothing = np.zeros(unit.atoms)
        wanted = {"lower": pairs["lower"].dual_move(nothing, mu, cross["lower"])}
        if "upper" in pairs:
            still = np.zeros(len(pairs["upper"].slack))
            wanted["upper"] = pairs["upper"].dual_move(still, mu, cross["upper"])
        pull, rho, tau = self.side.right(mu, crossed)
        r = -self.residual - self.limits(wanted)
        if isinstance(pull, np.ndarray):
            r = r + unit.gather(self.slope * pull)
        if self.budget is not None:
            rho = np.concatenate([rho, self._short("budget", mu, cross)])
        sigma = self._short("persons", mu, cross) if "persons" in pairs else None
        step = system.solve(r, rho, tau, sigma)
        moves: dict[str, Move] = {}
        for name, change in self._slacks(step.atoms).items():
            if name == "budget":
                dual = step.solved[-1:]
            elif name == "persons":
                assert step.persons is not None
                dual = step.persons
            else:
                dual = pairs[name].dual_move(change, mu, cross[name])
            moves[name] = (change, dual)
        own = step.solved[: len(self.side.diagonal)]
        return Moves(step.goal, self.side.move(own, mu, crossed), moves)

    def _short(self, name: str, mu: float, cross: dict[str, Array | float]) -> Array:
        """The right side of a single constraint: its slack, less what it should be."""
        pair = self.pairs[name]
        return np.asarray(pair.slack - (pair.weight * mu - cross[name]) / pair.dual)

    def _slacks(self, atoms: Array) -> dict[str, Array]:
        """What the slacks do when the levels move."""
        moves = {"lower": atoms}
        if "upper" in self.pairs:
            moves["upper"] = -atoms[np.isfinite(self.unit.cap)]
        if "budget" in self.pairs:
            moves["budget"] = -atoms.sum(keepdims=True)
        if "persons" in self.pairs:
            moves["persons"] = -self.unit.per_person(atoms)
        return moves

    def rooms(self, moves: Moves) -> tuple[float, float]:
        """How far all slacks can go, and all duals."""
        primal, dual = self.side.rooms(moves.side)
        for name, pair in self.pairs.items():
            primal = min(primal, room(pair.slack, moves.pairs[name][0]))
            dual = min(dual, room(pair.dual, moves.pairs[name][1]))
        return primal, dual

    def gap_after(self, moves: Moves, primal: float, dual: float) -> float:
        return self.side.gap_after(moves.side, primal, dual) + sum(
            pair.moved(moves.pairs[name], primal, dual).gap for name, pair in self.pairs.items()
        )

    def moved(self, moves: Moves, primal: float, dual: float) -> Iterate | None:
        """The point after a step; None where it does not exist."""
        pairs = {
            name: pair.moved(moves.pairs[name], primal, dual) for name, pair in self.pairs.items()
        }
        try:
            side = self.side.moved(moves.side, primal, dual)
            return Iterate(self.unit, pairs, side, self.t + primal * moves.goal, self.budget)
        except np.linalg.LinAlgError:
            return None

    @property
    def objective(self) -> float:
        return float(self.e.sum()) if self.budget is None else abs(self.side.mass * self.t)

    @property
    def distance(self) -> float:
        """About how far from the best, as a part of the objective."""
        return (self.gap + self.infeasible(self)) / max(self.objective, 1e-300)


def iterate(start: Iterate, good: Callable[[Iterate], bool], steps: int) -> tuple[int, Iterate]:
    """Steps until `good` says so, or no step helps any more; how many, and where."""
    here = start
    for taken in range(steps):
        if good(here):
            return taken, here
        ahead = _step(here, taken)
        if ahead is None:
            return taken, here
        here = ahead
    good(here)
    return steps, here


def _step(here: Iterate, taken: int) -> Iterate | None:
    try:
        system = here.system()
        predictor = here.direction(system, 0.0, None)
        primal, dual = (min(1.0, far) for far in here.rooms(predictor))
        aim = (here.gap_after(predictor, primal, dual) / here.gap) ** 3
        aim = float(np.clip(aim, LEAST, MOST)) if np.isfinite(aim) else MOST
        moves = here.direction(system, aim * here.mu, predictor)
        return _searched(here, system, moves, aim, 0.99 if taken < 5 else 0.995)
    except np.linalg.LinAlgError:
        return None


def _searched(
    here: Iterate, system: System, moves: Moves, aim: float, fraction: float
) -> Iterate | None:
    """Along the direction as far as the merit falls; at last along the centred one."""
    present = here.gap + here.infeasible(here)
    primal, dual = (min(1.0, fraction * far) for far in here.rooms(moves))
    for attempt in range(SHORTER):
        if attempt == 1:
            primal = dual = min(primal, dual)
        if attempt == CORRECTED:
            moves = here.direction(system, max(aim, CENTRED) * here.mu, None)
            primal = dual = min(1.0, fraction * min(here.rooms(moves)))
        ahead = here.moved(moves, primal, dual)
        if ahead is not None:
            merit = ahead.gap + ahead.infeasible(here)
            if merit <= present * (1.0 - 0.01 * min(primal, dual)):
                return ahead
        primal, dual = primal / 2, dual / 2
    return None

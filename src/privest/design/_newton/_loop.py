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
from privest.design._newton._side import Move, Pair, Side, gram, room
from privest.design._newton._system import System
from privest.design._newton._unit import Unit

SHORTER = 25  # times a step is halved before the method gives up
CORRECTED = 3  # of these with the predictor's correction
MOST, LEAST, CENTRED = 0.9, 1e-6, 0.3  # parts of the present products that a step aims at
SAFE, BOLD = 0.9, 0.995  # of the way to the nearest zero of a slack or dual: far from the end, near
RECENTRED = 2  # corrections that bring products back to the middle, at most,
LONG, FAR = 0.9, 10.0  # unless steps are this long; products this many times off


@dataclass(frozen=True, eq=False)
class Moves:
    """A direction: of t, of the accuracy side, and of each pair."""

    goal: float
    side: Move
    pairs: dict[str, Move]


@dataclass(frozen=True, eq=False)
class Cross:
    """Products of the steps of slacks and duals: of the accuracy side, and of each pair."""

    side: Array | float
    pairs: dict[str, Array | float]


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

    def direction(self, system: System, mu: float, cross: Cross | None = None) -> Moves:
        """Towards products of weight·μ less `cross`, what Newton's method is to allow for."""
        pairs, unit = self.pairs, self.unit
        if cross is None:
            cross = Cross(0.0, dict.fromkeys(pairs, 0.0))
        nothing = np.zeros(unit.atoms)
        wanted = {"lower": pairs["lower"].dual_move(nothing, mu, cross.pairs["lower"])}
        if "upper" in pairs:
            still = np.zeros(len(pairs["upper"].slack))
            wanted["upper"] = pairs["upper"].dual_move(still, mu, cross.pairs["upper"])
        pull, rho, tau = self.side.right(mu, cross.side)
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
                dual = pairs[name].dual_move(change, mu, cross.pairs[name])
            moves[name] = (change, dual)
        own = step.solved[: len(self.side.diagonal)]
        return Moves(step.goal, self.side.move(own, mu, cross.side), moves)

    def crossed(self, moves: Moves) -> Cross:
        """The products of both parts of a direction."""
        pairs: dict[str, Array | float] = {
            name: move[0] * move[1] for name, move in moves.pairs.items()
        }
        return Cross(self.side.cross(moves.side), pairs)

    def recentred(self, moves: Moves, cross: Cross, mu: float, primal: float, dual: float) -> Cross:
        """`cross` changed so that products that would leave the middle are brought back to it."""
        pairs = dict(cross.pairs)
        for name, pair in self.pairs.items():
            ahead = pair.moved(moves.pairs[name], primal, dual)
            product = ahead.slack * ahead.dual
            centre = pair.weight * mu
            change = np.clip(product, centre / FAR, FAR * centre) - product
            pairs[name] = pairs[name] - np.maximum(change, -FAR * centre)
        return Cross(cross.side, pairs)

    def _short(self, name: str, mu: float, cross: Cross) -> Array:
        """The right side of a single constraint: its slack, less what it should be."""
        pair = self.pairs[name]
        return np.asarray(pair.slack - (pair.weight * mu - cross.pairs[name]) / pair.dual)

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
        ahead = _step(here)
        if ahead is None:
            return taken, here
        here = ahead
    good(here)
    return steps, here


def _step(here: Iterate) -> Iterate | None:
    try:
        system = here.system()
        predictor = here.direction(system, 0.0)
        primal, dual = (min(1.0, far) for far in here.rooms(predictor))
        aim = (here.gap_after(predictor, primal, dual) / here.gap) ** 3
        aim = float(np.clip(aim, LEAST, MOST)) if np.isfinite(aim) else MOST
        moves = _corrected(here, system, predictor, aim * here.mu)
        return _searched(here, system, moves, aim)
    except np.linalg.LinAlgError:
        return None


def _corrected(here: Iterate, system: System, predictor: Moves, mu: float) -> Moves:
    """Mehrotra's direction, and Gondzio's corrections while they make longer steps possible."""
    cross = here.crossed(predictor)
    moves = here.direction(system, mu, cross)
    primal, dual = (min(1.0, far) for far in here.rooms(moves))
    for _ in range(RECENTRED):
        if min(primal, dual) > LONG:
            break
        wished = (min(1.0, 1.5 * far + 0.1) for far in (primal, dual))
        cross = here.recentred(moves, cross, mu, *wished)
        other = here.direction(system, mu, cross)
        farther = [min(1.0, far) for far in here.rooms(other)]
        if sum(farther) < primal + dual + 0.02:
            break
        moves, (primal, dual) = other, farther
    return moves


def _searched(here: Iterate, system: System, moves: Moves, aim: float) -> Iterate | None:
    """Along the direction as far as the merit falls; at last along the centred one."""
    fraction = float(np.clip(1.0 - aim, SAFE, BOLD))
    present = here.gap + here.infeasible(here)
    primal, dual = (min(1.0, fraction * far) for far in here.rooms(moves))
    for attempt in range(SHORTER):
        if attempt == 1:
            primal = dual = min(primal, dual)
        if attempt == CORRECTED:
            moves = here.direction(system, max(aim, CENTRED) * here.mu)
            primal = dual = min(1.0, fraction * min(here.rooms(moves)))
        ahead = here.moved(moves, primal, dual)
        if ahead is not None:
            merit = ahead.gap + ahead.infeasible(here)
            if merit <= present * (1.0 - 0.01 * min(primal, dual)):
                return ahead
        primal, dual = primal / 2, dual / 2
    return None

"""A primal-dual Newton method for every criterion, limit and direction of a design.

    budget:  maximise mass·t   over levels e and t with  g_j(M(e)) ≥ t ,  Σ e ≤ budget
    target:  minimise Σ e      over levels e       with  g_j(M(e)) ≥ t  for the t of the target

with 0 ≤ e ≤ cap and persons' limits in both. The accuracy g_j = 1/f_j grows like M:

    Variances  g = 1/tr(BᵀM⁻¹B)        LogDet  g = (det M)^(1/n)        Least  M ≥ tW, a matrix

Mehrotra's predictor and corrector. The curvature of all g_j is a sum of squares of *features* of
the
rows (`_criteria`). A step costs O(K p²) for p features, which are made in blocks and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Flags, Index
from privest.design._certificate import Point, Prices, budget_floor, relative_gap, target_floor
from privest.design._criteria import Least, LogDet, Scaled, square_features
from privest.design._problem import BLOCK, Problem, gram, passes

METHOD = "primal-dual Newton"
STEPS = 100
LOOK = 30.0  # the certificate is asked when the method itself is within this many tolerances
INSIDE = 0.5  # of caps and limits, at most, to begin with
ABOVE = 1.1  # the first price of a budget, in multiples of what the best atom is worth
SHORTER = 25  # times a step is halved before the method gives up
CORRECTED = 3  # of these with the predictor's correction
MOST = 0.9  # largest part of the present products that a step aims at
LEAST = 1e-6  # the least part
CENTRED = 0.3  # the least part without the predictor's correction
SAFE = 0.9  # part of the way to the nearest zero of a slack or dual, far from the end
BOLD = 0.995  # the same near the end
SMALL = 1e-15  # eigenvalues of the linear system below this part of the largest are rounding


@dataclass(frozen=True, eq=False)
class Atoms:
    """The atoms that can matter, each costing 1 a unit of its level e, sorted by person.

    As in `Problem`, whose levels are scale·e; `kept` (g,), `people` (p,): indices in it.
    first  (g,): where the measurements of an atom begin; None: each measurement is an atom.
    begin  (p,): where the atoms of a person begin.
    """

    rows: Array
    variance: Array
    cap: Array
    scale: Array
    kept: Index
    first: Index | None
    people: Index
    begin: Index
    share: Array
    most: Array

    @classmethod
    def of(cls, problem: Problem, unit: float, budget: float = np.inf) -> Atoms:
        size = problem.per_atom(np.abs(problem.rows).max(axis=1))
        kept = np.flatnonzero((problem.ceiling > 0) & (size > 0))
        people = begin = np.zeros(0, dtype=np.intp)
        if problem.person is not None:
            kept = kept[np.argsort(problem.person[kept], kind="stable")]
            people, begin = np.unique(problem.person[kept], return_index=True)
        scale = unit / problem.cost[kept]
        share = problem.share[kept] * scale if len(people) else np.zeros(0)
        cap = problem.cap[kept]
        cap = np.where(cap * problem.cost[kept] >= budget, np.inf, cap) / scale
        if problem.atom is None:
            chosen = kept
            first = None
            each = scale
        else:
            place = np.full(problem.atoms, problem.atoms)  # after all atoms that are kept
            place[kept] = np.arange(len(kept))
            chosen = np.argsort(place[problem.atom], kind="stable")
            chosen = chosen[place[problem.atom[chosen]] < problem.atoms]
            own = place[problem.atom[chosen]]
            first = np.flatnonzero(np.diff(own, prepend=-1))
            each = scale[own]
        return cls(
            problem.rows[chosen] * np.sqrt(each)[:, None], problem.variance[chosen] * each, cap,
            scale, kept, first, people, begin, share, problem.most[people],
        )  # fmt: skip

    @property
    def number(self) -> int:
        return len(self.cap)

    @property
    def capped(self) -> Flags:
        return np.isfinite(self.cap)

    def gather(self, values: Array) -> Array:
        """(…, g) from (…, m): sums over the measurements of each atom."""
        return values if self.first is None else np.add.reduceat(values, self.first, axis=-1)

    def spread(self, values: Array) -> Array:
        """(m,) from (g,)."""
        if self.first is None:
            return values
        return np.repeat(values, np.diff(self.first, append=len(self.rows)))

    def per_person(self, values: Array) -> Array:
        return np.add.reduceat(values * self.share, self.begin)

    def to_atoms(self, values: Array) -> Array:
        return np.repeat(values, np.diff(self.begin, append=self.number)) * self.share

    def precisions(self, e: Array) -> tuple[Array, Array, Array]:
        """x, x′ and −x″ of every measurement, x = e/(1 + ve)."""
        spread = self.spread(e)
        part = 1.0 / (1.0 + self.variance * spread)
        square = part * part
        return spread * part, square, 2.0 * self.variance * square * part

    def blocks(self) -> Iterator[tuple[slice, slice, slice]]:
        """Slices of rows, atoms and persons, one pass each; no slice cuts an atom or a person."""
        m = len(self.rows)
        begin = np.append(self.begin, self.number)
        first = np.append(np.arange(m) if self.first is None else self.first, m)
        edges = first[begin] if len(self.begin) else first
        wanted = np.arange(0, m, BLOCK)
        rows = np.unique(np.append(edges[np.searchsorted(edges, wanted)], m))
        atoms = np.searchsorted(first, rows)
        persons = np.searchsorted(begin, atoms) if len(self.begin) else np.zeros_like(atoms)
        for k in range(len(rows) - 1):
            yield tuple(slice(x[k], x[k + 1]) for x in (rows, atoms, persons))  # type: ignore[misc]


def forms(rows: Array, matrix: Array) -> Array:
    """hᵀQh (m,) for a symmetric Q (n, n)."""
    found = np.empty(len(rows))
    for part in passes(len(rows)):
        np.einsum("ij,ij->i", rows[part] @ matrix, rows[part], out=found[part])
    return found


# --- slacks and duals --------------------------------------------------------------------------

Move = tuple[Array, Array]  # what is added to a slack, and to its dual


@dataclass(frozen=True, eq=False)
class Pair:
    """slack ≥ 0 and dual ≥ 0 of constraints; `weight`: of their products on the path."""

    slack: Array
    dual: Array
    weight: float = 1.0

    @property
    def gap(self) -> float:
        return float(self.slack @ self.dual)

    @property
    def count(self) -> float:
        return self.weight * len(self.slack)

    def wanted(self, mu: float, cross: Array | float) -> Array:
        return np.asarray((self.weight * mu - cross) / self.dual)

    def dual_move(self, slack_move: Array | float, mu: float, cross: Array | float) -> Array:
        """The step of the dual for a step of the slack: (σ + dσ)(λ + dλ) → weight·μ."""
        aim = (self.weight * mu - cross) / self.slack
        return np.asarray(aim - self.dual - self.dual / self.slack * slack_move)

    def moved(self, move: Move, primal: float, dual: float) -> Pair:
        return Pair(self.slack + primal * move[0], self.dual + dual * move[1], self.weight)

    def rooms(self, move: Move) -> tuple[float, float]:
        return _room(self.slack, move[0]), _room(self.dual, move[1])

    def cross(self, move: Move) -> Array:
        """The product of both parts of a step: what Newton's method neglects."""
        return move[0] * move[1]


def _room(values: Array, change: Array) -> float:
    """The largest α with values + α·change ≥ 0; inf if there is none."""
    falling = change < 0
    return float(np.min(-values[falling] / change[falling])) if falling.any() else np.inf


@dataclass(frozen=True, eq=False)
class MatrixPair:
    """slack Z ≥ 0 and dual V ≥ 0 (n, n): the direction of Helmberg, Kojima and Monteiro.

    With Z = T⁻ᵀT⁻¹, V = T diag(ω) Tᵀ: dV = μI − Ω − (Ω dZ + dZ Ω)/2.
    """

    slack: Array
    dual: Array
    weight: float = 1.0
    basis: Array = field(init=False)
    back: Array = field(init=False)
    omega: Array = field(init=False)

    def __post_init__(self) -> None:
        lower = np.linalg.cholesky((self.slack + self.slack.T) / 2)
        inner = lower.T @ self.dual @ lower
        omega, turn = np.linalg.eigh((inner + inner.T) / 2)
        if not omega[0] > 0:
            raise np.linalg.LinAlgError("the dual matrix is not positive definite")
        basis = scipy.linalg.solve_triangular(lower, turn, lower=True, trans=1, check_finite=False)
        for name, value in (("basis", basis), ("back", turn.T @ lower.T), ("omega", omega)):
            object.__setattr__(self, name, value)

    @property
    def gap(self) -> float:
        return float(np.sum(self.slack * self.dual))

    @property
    def count(self) -> float:
        return self.weight * len(self.slack)

    def towards(self, mu: float, cross: Array | float) -> Array:
        return np.asarray(np.diag(self.weight * mu - self.omega) - cross)

    def moved(self, move: Move, primal: float, dual: float) -> MatrixPair:
        slack = self.slack + primal * self.back.T @ move[0] @ self.back
        return MatrixPair(
            slack, self.dual + dual * self.basis @ move[1] @ self.basis.T, self.weight
        )

    def rooms(self, move: Move) -> tuple[float, float]:
        root = 1.0 / np.sqrt(self.omega)
        least = (
            np.linalg.eigvalsh(move[0])[0],
            np.linalg.eigvalsh(move[1] * root * root[:, None])[0],
        )
        primal, dual = (-1.0 / float(value) if value < 0 else np.inf for value in least)
        return primal, dual

    def cross(self, move: Move) -> Array:
        product = move[0] @ move[1]
        return np.asarray((product + product.T) / 2)


class Aim(NamedTuple):
    """The accuracy: g_j = 1 where the criterion is `size`; `mass` of the duals."""

    criterion: Scaled
    size: float
    mass: float

    def at(self, M: Array, t: float, pair: Pair | MatrixPair) -> Curves | Order:
        return Order(self, M, t, pair) if isinstance(pair, MatrixPair) else Curves(self, M, t, pair)


class Curves:
    """The accuracy g_j(M) − t = slack_j ≥ 0 with duals w_j, at a point."""

    def __init__(self, aim: Aim, M: Array, t: float, pair: Pair) -> None:
        self.pair = pair
        near = aim.criterion.near(M, pair.dual, aim.size)
        self.values = near.values
        self.basis = near.basis
        self.pull = near.pull
        self.features = near.features
        self.lack = near.values - t - pair.slack
        self.missing = aim.mass - float(pair.dual.sum())
        rest = len(near.features) - len(pair.slack)
        self.diagonal = np.concatenate([pair.slack / pair.dual, np.ones(rest)])
        self.border = np.concatenate([-np.ones(len(pair.slack)), np.zeros(rest)])

    def infeasible(self, other: Curves) -> float:
        return float(other.pair.dual @ np.abs(self.lack))

    def right(self, mu: float, cross: Array | float) -> tuple[Array | None, Array, float]:
        """Its part of the right sides of the linear system: a form of the rows, (c,), a number."""
        right = np.zeros(len(self.diagonal))
        right[: len(self.lack)] = self.lack + self.pair.slack - self.pair.wanted(mu, cross)
        return None, right, self.missing

    def move(self, solved: Array, mu: float, cross: Array | float) -> Move:
        pair = self.pair
        dual = solved[: len(self.lack)]
        return pair.wanted(mu, cross) - pair.slack - pair.slack / pair.dual * dual, dual


class Order:
    """The accuracy M − tW = slack ≥ 0 with a dual V, <V, W> to be `mass`, at a point."""

    def __init__(self, aim: Aim, M: Array, t: float, pair: MatrixPair) -> None:
        assert isinstance(aim.criterion, Least)
        self.pair = pair
        self.basis = pair.basis
        weight = aim.criterion.weight / aim.size
        n = len(M)
        omega = pair.omega
        self.pull = np.diag(omega)
        self.features = square_features(omega, n, np.diag(np.sqrt(omega)))
        self.lack = M - t * weight - pair.slack
        self.residual = self.basis.T @ self.lack @ self.basis
        self.seen = self.basis.T @ weight @ self.basis
        self.missing = aim.mass - float(np.sum(pair.dual * weight))
        self.diagonal = np.ones(len(self.features))
        self.border = self.features.of_sum(self.seen)

    def infeasible(self, other: Order) -> float:
        """Σ |r_ij| √(ω_iω_j), r seen through T: weighted by the dual."""
        root = other.basis * np.sqrt(other.pair.omega)
        return float(np.abs(root.T @ self.lack @ root).sum())

    def right(self, mu: float, cross: Array | float) -> tuple[Array | None, Array, float]:
        towards = self.pair.towards(mu, cross)
        right = -self.features.of_sum(self.residual)
        return towards, right, self.missing - float(np.sum(towards * self.seen))

    def move(self, solved: Array, mu: float, cross: Array | float) -> Move:
        omega = self.pair.omega
        features = self.features
        n = len(omega)
        entries = solved[: len(features)] / np.concatenate([np.sqrt(omega), features.scale])
        slack = np.zeros((n, n))
        slack[features.first[n:], features.second[n:]] = entries[n:]
        slack += slack.T + np.diag(entries[:n])
        half = omega[:, None] * slack
        return slack, self.pair.towards(mu, cross) - (half + half.T) / 2


class Step(NamedTuple):
    """ds (g,), z (c,), dt, dπ (p,)."""

    atoms: Array
    solved: Array
    goal: float
    persons: Array


class System:
    """Diagonal plus low rank, persons by blocks; factored once, solved for several right sides.

        D ds + N z + A dπ = r          (one row for each atom)
        Nᵀds − E z − b dt = ρ          (features, accuracy, budget)
             −bᵀz         = τ          (where t is free)
        Aᵀds − F dπ       = σ          (persons; A has one entry in each row)

    ds and dπ are eliminated (D and AᵀD⁻¹A are diagonal), which leaves z and dt.
    """

    def __init__(self, here: Iterate) -> None:
        self.here = here
        self.atoms = here.atoms
        pairs = here.pairs
        accuracy = here.accuracy
        diagonal = here.atoms.gather(here.bend * here.worth)
        diagonal += pairs["lower"].dual / pairs["lower"].slack
        if "upper" in pairs:
            diagonal[here.atoms.capped] += pairs["upper"].dual / pairs["upper"].slack
        self.inverse = 1.0 / diagonal
        self.corner = accuracy.diagonal
        self.border = None
        if here.budget is not None:
            room = pairs["budget"].slack / pairs["budget"].dual
            self.corner = np.append(accuracy.diagonal, room)
            self.border = np.append(accuracy.border, 0.0)
        self.persons = np.zeros(0)
        if "persons" in pairs:
            self.persons = pairs["persons"].slack / pairs["persons"].dual
            self.own = here.atoms.per_person(here.atoms.share * self.inverse)
            self.whole = self.own + self.persons
        inner = self._inner()
        if not np.isfinite(inner).all():
            raise np.linalg.LinAlgError("the linear system is not finite")
        self.inner = _factored(inner)
        self.along = None if self.border is None else self.inner(self.border)

    def _inner(self) -> Array:
        """NᵀD⁻¹N + E, with N centred within each person; in blocks of rows."""
        here = self.here
        atoms = self.atoms
        features = here.accuracy.features
        c = len(self.corner)
        total = np.zeros((c, c))
        for rows, own, people in atoms.blocks():
            N = np.empty((c, rows.stop - rows.start))
            root = np.sqrt(here.slope[rows])[:, None]  # features are products of two entries
            features.of_rows(here.white[rows] * root, N[: len(features)])
            if atoms.first is not None:
                N = np.add.reduceat(N, atoms.first[own] - rows.start, axis=1)
            N[len(features) :] = 1.0  # of an atom, not of each of its measurements
            inverse = self.inverse[own]
            if len(self.persons):
                begin = atoms.begin[people] - own.start
                share = atoms.share[own]
                size = np.diff(begin, append=N.shape[1])
                each = self.own[people]
                slack = self.persons[people]
                mean = np.add.reduceat(N * (inverse * share), begin, axis=1) / each
                total += (mean * (each * slack / (each + slack))) @ mean.T
                N -= np.repeat(mean, size, axis=1) * share
            N *= np.sqrt(inverse)
            total += N @ N.T
        scale = np.ones(c)
        scale[len(features.mix) : len(features)] = features.scale
        return (total + total.T) / 2 * scale * scale[:, None] + np.diag(self.corner)

    def _times(self, z: Array) -> Array:
        """Nz (g,)."""
        here = self.here
        features = self.here.accuracy.features
        form = features.form(z[: len(features)])
        found = self.atoms.gather(here.slope * forms(here.white, form))
        return found if here.budget is None else found + z[-1]

    def _transposed(self, ds: Array) -> Array:
        """Nᵀds (c,)."""
        here = self.here
        total = gram(here.white, here.slope * self.atoms.spread(ds))
        found = here.accuracy.features.of_sum(total)
        return found if here.budget is None else np.append(found, ds.sum())

    def solve(self, r: Array, rho: Array, tau: float, sigma: Array) -> Step:
        start, _ = self._levels(r, sigma)
        solved = self.inner(self._transposed(start) - rho)
        goal = 0.0
        if self.border is not None and self.along is not None:
            goal = float(self.border @ solved + tau) / float(self.border @ self.along)
            solved = solved - self.along * goal
        atoms, persons = self._levels(r - self._times(solved), sigma)
        return Step(atoms, solved, goal, persons)

    def _levels(self, r: Array, sigma: Array) -> tuple[Array, Array]:
        """ds and dπ for z = 0."""
        ds = self.inverse * r
        if not len(sigma):
            return ds, sigma
        persons = (self.atoms.per_person(ds) - sigma) / self.whole
        return self.inverse * (r - self.atoms.to_atoms(persons)), persons


def _factored(matrix: Array) -> Callable[[Array], Array]:
    scale = 1.0 / np.sqrt(np.diagonal(matrix))
    scaled = matrix * scale * scale[:, None]
    lower, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if not failed:
        return lambda right: np.asarray(
            scale * scipy.linalg.lapack.dpotrs(lower, scale * right, lower=1)[0]
        )
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, SMALL * values[-1])
    return lambda right: np.asarray(scale * (vectors @ ((vectors.T @ (scale * right)) / values)))


# --- the method --------------------------------------------------------------------------------

Cross = dict[str, Array | float]  # products of the steps of slacks and duals


class Moves(NamedTuple):
    goal: float
    pairs: dict[str, Move]


class Iterate:
    """A point with its slacks and duals, and what the next step needs to know there."""

    def __init__(
        self, atoms: Atoms, aim: Aim, pairs: dict[str, Pair | MatrixPair], t: float,
        budget: float | None,
    ) -> None:  # fmt: skip
        self.atoms = atoms
        self.aim = aim
        self.t = t
        self.budget = budget
        self.every = pairs
        self.pairs = {name: pair for name, pair in pairs.items() if isinstance(pair, Pair)}
        self.pairs.pop("accuracy", None)
        self.e = self.pairs["lower"].slack
        x, self.slope, self.bend = atoms.precisions(self.e)
        self.accuracy = aim.at(gram(atoms.rows, x), t, pairs["accuracy"])
        self.white = atoms.rows @ self.accuracy.basis
        self.worth = forms(self.white, self.accuracy.pull)
        self.gap = sum(pair.gap for pair in pairs.values())
        self.mu = self.gap / sum(pair.count for pair in pairs.values())
        duals = {name: pair.dual for name, pair in self.pairs.items()}
        self.residual = self.price + self.limits(duals) - atoms.gather(self.slope * self.worth)

    @property
    def price(self) -> float:
        """ν, the price of the budget; 1 where the cost itself is minimised."""
        return 1.0 if self.budget is None else float(self.pairs["budget"].dual[0])

    @property
    def distance(self) -> float:
        objective = self.e.sum() if self.budget is None else abs(self.aim.mass * self.t)
        return (self.gap + self.infeasible(self)) / max(float(objective), 1e-300)

    def limits(self, duals: dict[str, Array]) -> Array:
        total = -duals["lower"]
        if "upper" in duals:
            total[self.atoms.capped] += duals["upper"]
        if "persons" in duals:
            total = total + self.atoms.to_atoms(duals["persons"])
        return total

    def infeasible(self, other: Iterate) -> float:
        """All residuals, in units of the objective, weighted as at `other`."""
        found = float(np.abs(self.residual) @ other.e)
        found += self.accuracy.infeasible(other.accuracy)  # type: ignore[arg-type]
        return found if self.budget is None else found + abs(self.accuracy.missing * other.t)

    def direction(self, system: System, mu: float, cross: Cross | None = None) -> Moves:
        pairs = self.pairs
        atoms = self.atoms
        cross = dict.fromkeys(self.every, 0.0) if cross is None else cross
        still: dict[str, Array] = {
            name: pairs[name].dual_move(0.0, mu, cross[name])
            for name in ("lower", "upper")
            if name in pairs
        }
        pull, rho, tau = self.accuracy.right(mu, cross["accuracy"])
        r = -self.residual - self.limits(still)
        if pull is not None:
            r = r + atoms.gather(self.slope * forms(self.white, pull))
        if self.budget is not None:
            rho = np.append(rho, self._short("budget", mu, cross))
        sigma = self._short("persons", mu, cross) if "persons" in pairs else np.zeros(0)
        step = system.solve(r, rho, tau, sigma)
        moves = {"accuracy": self.accuracy.move(step.solved, mu, cross["accuracy"])}
        for name, pair in pairs.items():
            change = self._slack_move(name, step.atoms)
            if name in ("budget", "persons"):
                moves[name] = change, step.solved[-1:] if name == "budget" else step.persons
            else:
                moves[name] = change, pair.dual_move(change, mu, cross[name])
        return Moves(step.goal, moves)

    def _short(self, name: str, mu: float, cross: Cross) -> Array:
        pair = self.pairs[name]
        return np.asarray(pair.slack - pair.wanted(mu, cross[name]))

    def _slack_move(self, name: str, ds: Array) -> Array:
        if name == "lower":
            return ds
        if name == "upper":
            return -ds[self.atoms.capped]
        return -ds.sum(keepdims=True) if name == "budget" else -self.atoms.per_person(ds)

    def rooms(self, moves: Moves) -> tuple[float, float]:
        every = [pair.rooms(moves.pairs[name]) for name, pair in self.every.items()]
        return min(primal for primal, _ in every), min(dual for _, dual in every)

    def moved(self, moves: Moves, primal: float, dual: float) -> Iterate | None:
        try:
            pairs = {
                name: pair.moved(moves.pairs[name], primal, dual)
                for name, pair in self.every.items()
            }
            t = self.t + primal * moves.goal
            return Iterate(self.atoms, self.aim, pairs, t, self.budget)
        except np.linalg.LinAlgError:
            return None


def _step(here: Iterate) -> Iterate | None:
    try:
        system = System(here)
        predictor = here.direction(system, 0.0)
        aim = float(np.clip((1.0 - min(here.rooms(predictor))) ** 3, LEAST, MOST))
        cross: Cross = {
            name: pair.cross(predictor.pairs[name]) for name, pair in here.every.items()
        }
        return _along(here, system, here.direction(system, aim * here.mu, cross), aim)
    except np.linalg.LinAlgError:
        return None


def _along(here: Iterate, system: System, moves: Moves, aim: float) -> Iterate | None:
    """As far as the merit (all products and residuals) falls; at last along the centred step."""
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
        primal = primal / 2
        dual = dual / 2
    return None


def _start(atoms: Atoms, e: Array, aim: Aim, goal: float, budget: float | None) -> Iterate:
    g = atoms.number
    criterion, size, mass = aim
    x, slope, _ = atoms.precisions(e)
    M = gram(atoms.rows, x)
    pair: Pair | MatrixPair
    if isinstance(criterion, Least):
        dual = np.linalg.inv(M / 2)
        dual *= mass * size / float(np.sum(dual * criterion.weight))
        pair = MatrixPair(M / 2, dual, max(1.0, g / len(M)))
    else:
        gains = criterion.gains(M, size)
        slack = np.maximum(gains - goal, 0.1 * abs(goal))
        pair = Pair(slack, np.full(len(gains), mass / len(gains)), max(1.0, g / len(gains)))
    there = aim.at(M, goal, pair)
    worth = atoms.gather(slope * forms(atoms.rows @ there.basis, there.pull))
    if budget is None:  # the duals are of a size at which atoms are worth what they cost
        mu = float(e.sum()) / g
        fitting = pair.dual * (float(e.sum()) / float(worth @ e))
        pairs: dict[str, Pair | MatrixPair] = {
            "accuracy": type(pair)(pair.slack, fitting, pair.weight)
        }
    else:
        dearest = float(worth[np.isinf(atoms.cap)].max(initial=0.0))
        price = max(ABOVE * dearest, float(worth @ e) / budget)
        mu = price * float(e.sum()) / g
        room = Pair(np.array([budget - float(e.sum())]), np.array([price]), float(g))
        pairs = {"accuracy": pair, "budget": room}
    pairs["lower"] = Pair(e, mu / e)
    if atoms.capped.any():
        left = (atoms.cap - e)[atoms.capped]
        pairs["upper"] = Pair(left, mu / left)
    if len(atoms.most):
        left = atoms.most - atoms.per_person(e)
        weight = max(1.0, g / len(atoms.most))
        pairs["persons"] = Pair(left, weight * mu / left, weight)
    return Iterate(atoms, aim, pairs, goal, budget)


@dataclass(eq=False)
class Search:
    problem: Problem
    criterion: Scaled
    atoms: Atoms
    size: float  # of the criterion where the shapes are 1
    spend: float  # what one unit of e costs
    budget: float | None
    target: float
    tol: float
    best: Point | None = None
    gap: float = np.inf
    steps: int = -1
    spare: int = 2  # steps for a better proof once this one is good enough

    def good(self, here: Iterate) -> bool:
        self.steps += 1
        if self.best is not None and here.distance > LOOK * self.tol:
            return False
        return self.look(here)

    def look(self, here: Iterate) -> bool:
        point = self._point(here)
        gap = self._gap(point)
        if self.best is None or gap < self.gap or np.isinf(self.gap):  # inf: the latest is nearest
            self.best = point
            self.gap = gap
        self.spare -= self.gap <= self.tol / 2  # what polishing rounds is in the other half
        return bool(self.gap <= self.tol / 10) or self.spare < 0

    def _point(self, here: Iterate) -> Point:
        levels = np.zeros(self.problem.atoms)
        levels[self.atoms.kept] = here.e * self.atoms.scale
        size, weights = self._in_units_of_the_criterion(here)
        persons = None
        if "persons" in here.pairs:
            persons = np.zeros(len(self.problem.most))
            persons[self.atoms.people] = here.pairs["persons"].dual * size
        prices = Prices(here.price / self.spend * size, persons)
        return Point(levels, self.steps, METHOD, prices, weights)

    def _in_units_of_the_criterion(self, here: Iterate) -> tuple[float, Array | None]:
        """By what prices are multiplied for the witness (here G = Σ w_j ∇g_j), and its weights."""
        side = here.accuracy
        if isinstance(side, Order):
            return 1.0, side.pair.dual
        if isinstance(self.criterion, LogDet):
            return self.problem.parameters / float(side.pair.dual @ side.values), None
        each = side.pair.dual * side.values**2 / self.size
        total = float(each.sum())
        return 1.0 / total, each / total

    def _gap(self, point: Point) -> float:
        problem = self.problem
        criterion = self.criterion
        levels = point.levels
        if self.budget is not None:
            levels = problem.within(levels, self.budget)
        M = problem.information(levels)
        witness = criterion.witness(M, point.weights)
        if self.budget is not None:
            proof = budget_floor(problem, witness, self.budget, point.prices)
            return relative_gap(criterion, criterion.value(M), proof.floor)
        proof = target_floor(problem, witness, self.target, point.prices)
        missed = criterion.value(M) - self.target
        spent = problem.spent(levels)
        if witness is not None and missed > 0:  # what it costs to meet the target, by the price
            assert point.prices is not None
            spent += missed / (point.prices.budget * criterion.per_unit(witness, self.target))
        return 1.0 - proof.floor / spent


def solve_budget(
    problem: Problem, criterion: Scaled, budget: float, tol: float, part: float = 0.9
) -> Point:
    return _solved(problem, criterion, tol, part * budget / problem.atoms / problem.cost, budget)


def solve_target(
    problem: Problem, criterion: Scaled, target: float, tol: float, part: float = 0.9
) -> Point:
    spend = part * float(problem.cost.mean())
    return _solved(problem, criterion, tol, spend / problem.cost, None, target)


def _solved(
    problem: Problem, criterion: Scaled, tol: float, levels: Array, budget: float | None,
    target: float = 0.0,
) -> Point:  # fmt: skip
    levels = np.minimum(levels, INSIDE * problem.cap)
    if problem.person is not None:
        used = problem.per_person(levels)
        allowed = INSIDE * problem.most
        part = np.divide(allowed, used, out=np.ones(len(used)), where=used > allowed)
        levels = levels * part[problem.person]
    spend = (problem.spent(levels) if budget is None else budget) / problem.atoms
    atoms = Atoms.of(problem, spend, np.inf if budget is None else budget)
    n = problem.parameters
    size = criterion.value(problem.information(levels))
    search = Search(problem, criterion, atoms, size, spend, budget, target, tol)
    goal = 0.5
    if budget is None:
        goal = float(np.exp((size - target) / n)) if criterion.logarithm else size / target
    with np.errstate(all="ignore"):  # what is not finite is never a better point
        try:
            room = None if budget is None else budget / spend
            aim = Aim(criterion, size, float(atoms.number))
            here = _start(atoms, levels[atoms.kept] / atoms.scale, aim, goal, room)
        except np.linalg.LinAlgError:
            return Point(levels, 0, METHOD)
        for _ in range(STEPS):
            if search.good(here):
                break
            ahead = _step(here)
            if ahead is None:
                search.look(here)  # also where the method itself thinks it is far
                break
            here = ahead
    assert search.best is not None
    return search.best

"""The problem of a design: which level for which readings, in units that suit numbers.

    minimise  f(M) ,  M = Σ_k x_k h_kh_kᵀ ,  x_k = s_k/(1 + v_k s_k)

over levels s ≥ 0. M is the information that the release carries about θ; x_k is concave in s_k, so
that every criterion f that is convex and decreasing in M is convex in s. An *atom* is one free
level: of one reading, or of a group of readings that share it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from privest.arrays import (
    EPS,
    Array,
    ArrayLike,
    Index,
    as_array,
    as_choice,
    as_number,
    as_positive,
    require_scales,
)
from privest.bounds import bound, in_range, require_seen
from privest.design._criteria import C, Criterion, Scaled, solved
from privest.errors import InvalidInput
from privest.linalg import weighted_roots
from privest.model import LinearModel
from privest.privacy import gdp
from privest.records import Record

Labels = Sequence[Hashable] | ArrayLike
BLOCK = 2**12  # rows in one pass
SUMMED = 64 * EPS  # relative rounding of a sum of many levels, in any order that halves
LEAST_GAP = 1e-13  # that can be told from rounding


@dataclass(frozen=True, eq=False)
class Persons(Record):
    """Whose readings they are, and what one person may give up at most.

    labels   (m,): the person of each reading; texts or numbers.
    most     the limit for one person: a number, inf for none.
    measure  "trace": Σ s_k of a person is limited, and the budget counts every reading. "largest":
             the largest level of a person is limited, and the budget counts it once; then one level
             for all of a person's readings is best.
    """

    labels: Labels
    most: float = np.inf
    measure: Literal["trace", "largest"] = "trace"

    def __post_init__(self) -> None:
        as_choice(self.measure, ("trace", "largest"), "measure of persons")
        most = as_array(self.most, "what a person gives up at most", ndim=0, infinite=True)
        if not most > 0:
            raise InvalidInput(f"what a person gives up at most must be > 0; received {self.most}.")
        require_scales(most, "what a person gives up at most")

    @classmethod
    def from_epsilon(
        cls,
        labels: Labels,
        epsilon: float,
        *,
        delta: float,
        move: float,
        measure: Literal["trace", "largest"] = "trace",
    ) -> Persons:
        """(ε, δ)-differential privacy for every person, by the level.

        `move` c: with "trace" every reading of a person may change by up to c at once, so that
        μ² = c² Σ s_k; with "largest" all of them together by c in length: μ² = c² max s_k.
        Of continuous noise: releases on a grid say what they keep (`privacy.grid_statement`).
        """
        length = as_positive(move, "move")
        return cls(labels, (gdp.mu_of(epsilon, delta) / length) ** 2, measure)


def passes(count: int) -> list[slice]:
    """Rows in passes whose numbers stay in the cache."""
    return [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]


def gram(rows: Array, weights: Array) -> Array:
    """Σ_k w_k h_kh_kᵀ (n, n)."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for part in passes(len(rows)):
        total += (rows[part].T * weights[part]) @ rows[part]
    return (total + total.T) / 2


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, noise and constraints, in units in which nothing is very large or small.

    rows      (m, n): HR⁻¹, RᵀR = Hᵀdiag(1/c)H/m, times the root of the unit of levels.
    variance  (m,): v_k ≥ 0 of the noise of each reading, in the unit of levels; zeros are allowed.
    cost      (g,): a level s_g of atom g costs cost_g·s_g of the budget; > 0.
    cap       (g,): s_g ≤ cap_g; inf for none.
    atom      (m,): the atom of each reading; None: every reading is an atom of its own (g = m).
    person    (g,): the person of each atom, 0 … p − 1, where persons have limits,
    share     (g,): what a level of the atom counts for the person,
    most      (p,): Σ_{g ∈ P} share_g s_g ≤ most_P. Without persons all three are empty.
    """

    rows: Array
    variance: Array
    cost: Array
    cap: Array
    atom: Index | None = None
    person: Index | None = None
    share: Array = field(default_factory=lambda: np.zeros(0))
    most: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def readings(self) -> int:
        return len(self.rows)

    @property
    def parameters(self) -> int:
        return int(self.rows.shape[1])

    @property
    def atoms(self) -> int:
        return len(self.cost)

    @cached_property
    def exact(self) -> bool:
        """Whether some reading has no noise: v_k = 0."""
        return bool((self.variance == 0).any())

    def per_reading(self, levels: Array) -> Array:
        """(m,) from (g,): the level of the atom of each reading."""
        return levels if self.atom is None else levels[self.atom]

    def per_atom(self, values: Array) -> Array:
        """(g,) from (m,): sums over the readings of each atom."""
        if self.atom is None:
            return values
        return np.asarray(np.bincount(self.atom, values, self.atoms), dtype=float)

    def per_person(self, levels: Array) -> Array:
        """(p,) from (g,): Σ share_g s_g of each person."""
        return np.asarray(np.bincount(self.person, self.share * levels, len(self.most)), float)  # type: ignore[arg-type]

    def precisions(self, levels: Array) -> Array:
        """x (m,): s/(1 + vs), with 1/v for a level without end."""
        s = self.per_reading(levels)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(np.isinf(s), 1.0 / self.variance, s / (1.0 + self.variance * s))

    def information(self, levels: Array) -> Array:
        """M (n, n)."""
        return self.gram(self.precisions(levels))

    def gram(self, weights: Array) -> Array:
        """Σ_k w_k h_kh_kᵀ."""
        return gram(self.rows, weights)

    def squares(self, factor: Array) -> Array:
        """q (m,): h_kᵀGh_k for G = FFᵀ, from the factor F (n, r)."""
        q = np.empty(self.readings)
        for part in passes(self.readings):
            block = self.rows[part] @ factor
            np.einsum("ij,ij->i", block, block, out=q[part])
        return q

    def spent(self, levels: Array) -> float:
        """Σ_g cost_g s_g."""
        return float(self.cost @ levels)

    def feasible(self, levels: Array) -> Array:
        """Levels within caps and persons' limits, nowhere above those given."""
        levels = np.clip(levels, 0.0, self.cap)
        if self.person is None:
            return levels
        used = self.per_person(levels)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(used > self.most, self.most / used, 1.0)
        return np.asarray(levels * part[self.person])

    def within(self, levels: Array, budget: float) -> Array:
        """Feasible levels that cost at most the budget, and all of it where scaling up can."""
        levels = self.feasible(levels)
        for _ in range(8):  # scaling up may meet caps, which leaves something for the others
            spent = self.spent(levels)
            if not 0 < spent < budget * (1 - 1e-15):
                break
            levels = self.times(levels, budget / spent)
        spent = self.spent(levels)
        return levels * (budget / spent) if spent > budget else levels

    def times(self, levels: Array, factor: float) -> Array:
        """Feasible levels times a factor, or as much of it as limits allow; > 1 lowers none."""
        if self.person is None:
            return np.asarray(np.minimum(levels * factor, self.cap))
        used = self.per_person(levels)
        rises = np.full(len(used), factor)
        np.divide(self.most, used, out=rises, where=used * factor > self.most)
        return np.asarray(
            np.minimum(levels * np.maximum(rises, min(factor, 1.0))[self.person], self.cap)
        )

    @cached_property
    def ceiling(self) -> Array:
        """(g,): no feasible level of an atom is above it."""
        if self.person is None:
            return self.cap
        return np.asarray(np.minimum(self.cap, self.most[self.person] / self.share))

    @cached_property
    def most_budget(self) -> float:
        """More than any feasible levels can spend; inf where there is no limit."""
        whole = float(self.cost @ self.ceiling)
        if self.person is None:
            return whole
        dearest = np.zeros(len(self.most))
        np.maximum.at(dearest, self.person, self.cost / self.share)
        return min(float(dearest @ self.most), whole)

    def in_units(self, unit: float) -> Problem:
        """The same problem with levels counted in multiples of `unit`; costs stay per level."""
        return replace(
            self,
            rows=self.rows * np.sqrt(unit),
            variance=self.variance * unit,
            cost=self.cost * unit,
            cap=self.cap / unit,
            most=self.most / unit,
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with its criterion in scaled coordinates, and the way back to the user's.

    triangle  R of the scaling; `unit`: of levels.
    stated    the problem in the user's unit of levels.
    whole     the task in all directions, where caps of 0 leave fewer to see.
    """

    problem: Problem
    criterion: Scaled
    asked: Criterion
    model: LinearModel
    triangle: Array
    stated: Problem
    unit: float = 1.0
    whole: Task | None = None

    def in_units(self, unit: float) -> Task:
        """With levels counted in multiples of `unit`."""
        return replace(self, problem=self.problem.in_units(unit), unit=self.unit * unit)

    def levels(self, found: Array, budget: float = np.inf) -> Array:
        """(m,): levels of readings in the user's unit, within the limits to the letter."""
        limits = self.stated
        levels = np.minimum(found * self.unit, limits.cap)
        if limits.person is not None:
            over = limits.per_person(levels) > (1 - SUMMED) * limits.most
            levels = np.where(over[limits.person], (1 - 2 * SUMMED) * levels, levels)
        if limits.spent(levels) > (1 - SUMMED) * budget:
            levels = (1 - 2 * SUMMED) * levels
        return limits.per_reading(levels)


def task_of(
    model: LinearModel,
    criterion: Criterion,
    *,
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    groups: Labels | None = None,
    persons: Persons | Labels | None = None,
) -> Task:
    """Everything that was asked for, checked and scaled."""
    if not isinstance(model, LinearModel):
        raise InvalidInput(
            f"model must be a LinearModel (of a nonlinear one: model.at(theta)); received "
            f"{type(model).__name__}."
        )
    sigma = in_range(model).inverse_information
    if sigma.pointwise is None:
        raise InvalidInput(
            "levels for each reading need noise that is independent between readings; this model's "
            "is correlated. Whiten the readings first, or use shape='full' (small models)."
        )
    m = model.readings
    costs = per_reading(cost, m, "cost", least_open=True)
    caps = per_reading(cap, m, "cap", least_open=False)
    small, asked = _estimable(model, criterion)
    root = weighted_roots(small.matrix, [1.0 / costs])[0]
    require_seen(small, root)
    triangle = root.triangle / np.sqrt(m)
    rows = np.ascontiguousarray(solved(triangle, small.matrix.T).T)
    variance = np.array(sigma.diagonal(), dtype=float)
    require_scales(variance, "the variance of the noise")
    require_scales(np.abs(np.diagonal(triangle)), "every column of H")
    problem = _with_atoms(rows, variance, costs, caps, groups, persons)
    scaled = asked.scaled(triangle, small.names)
    return Task(problem, scaled, criterion, model, triangle, stated=problem)


def _estimable(model: LinearModel, criterion: Criterion) -> tuple[LinearModel, Criterion]:
    """Both in coordinates of the row space of H, where one combination asks for no more than it."""
    if not isinstance(criterion, C):
        return model, criterion
    root = weighted_roots(model.matrix, [1.0])[0].with_tolerance(model.accuracy)
    if root.rank == model.parameters:
        return model, criterion
    if not bound(model, 1.0).contrast(criterion.vector).identifiable:
        return model, criterion
    scale, basis = root.row_space
    small = LinearModel(model.matrix / scale @ basis, model.noise)
    return small, C(basis.T @ (criterion.vector / scale))


def per_reading(given: ArrayLike, m: int, name: str, *, least_open: bool) -> Array:
    """One number for all readings or one for each; > 0, or ≥ 0 with inf for "no limit"."""
    values = as_array(given, name, ndim=(0, 1), infinite=not least_open)
    if values.ndim == 1 and len(values) != m:
        raise InvalidInput(f"{name} is one number or one for each of {m} readings; received shape "
                           f"{values.shape}.")  # fmt: skip
    bad = ~(values > 0) if least_open else ~(values >= 0)
    if bad.any():
        raise InvalidInput(f"{name} must be {'> 0' if least_open else '≥ 0'} everywhere.")
    require_scales(values, name)
    return np.broadcast_to(values, (m,)).astype(float)


def as_tolerance(tol: float) -> float:
    """A relative gap that rounding allows: 1e-13 to 1."""
    number = as_number(tol, "tol")
    if not LEAST_GAP <= number <= 1:
        raise InvalidInput(f"tol must lie between {LEAST_GAP:g} and 1; received {number:g}.")
    return number


def labels_of(labels: Labels, m: int, what: str) -> Index:
    """0, 1, …: the same number for equal labels. 1 and "1" differ; a missing label is refused."""
    try:
        given = np.asarray(labels)
    except ValueError:  # lists of different lengths
        given = np.zeros(0)
    if given.ndim != 1 or len(given) != m:
        raise InvalidInput(f"{what} are one label a reading, {m} of them; received shape "
                           f"{given.shape}.")  # fmt: skip
    if given.dtype.kind in "biuf":
        missing = bool(np.isnan(given).any()) if given.dtype.kind == "f" else False
        numbers = np.unique(given, return_inverse=True)[1]
    else:
        every: list[Any] = list(labels)  # type: ignore[arg-type]
        own = [None if label != label else label for label in every]
        missing = None in own
        first: dict[Hashable, int] = {}
        numbers = np.array([first.setdefault(label, len(first)) for label in own])
    if missing:
        raise InvalidInput(f"{what} are missing for some readings: say whose they are.")
    return np.asarray(numbers, dtype=np.intp)


def _with_atoms(
    rows: Array, variance: Array, cost: Array, cap: Array, groups: Labels | None,
    persons: Persons | Labels | None,
) -> Problem:  # fmt: skip
    """The problem with groups that share a level, and persons with a limit."""
    m = len(rows)
    single = Problem(rows, variance, cost, cap)
    if persons is not None and not isinstance(persons, Persons):
        persons = Persons(persons, measure="largest")
    if persons is None:
        return single if groups is None else _shared(single, labels_of(groups, m, "groups"))
    whose = labels_of(persons.labels, m, "labels of persons")
    if persons.measure == "largest":
        if groups is not None:
            raise InvalidInput(
                'persons measured by their "largest" level share it already: leave groups out, or '
                'measure persons by "trace".'
            )
        return _largest(replace(single, cap=np.minimum(cap, persons.most)), cap, whose)
    problem = single if groups is None else _shared(single, labels_of(groups, m, "groups"))
    return problem if np.isinf(persons.most) else _limited(problem, whose, persons.most)


def _shared(problem: Problem, atom: Index) -> Problem:
    """Readings of an atom share a level, and each of them is paid for."""
    g = int(atom.max()) + 1
    limit = np.full(g, np.inf)
    np.minimum.at(limit, atom, problem.cap)
    total = np.asarray(np.bincount(atom, problem.cost, g), dtype=float)
    return replace(problem, cost=total, cap=limit, atom=atom)


def _largest(problem: Problem, cap: Array, whose: Index) -> Problem:
    """One level a person, paid once, at the largest cost of the person's readings."""
    shared = _shared(problem, whose)
    low = np.full(shared.atoms, np.inf)
    np.minimum.at(low, whose, cap)
    if (low[whose] != cap).any():
        raise InvalidInput(
            'readings of one person have different caps: with persons measured by their "largest" '
            "level a cap is of the person, the same for all of the person's readings. Give it so, "
            'or measure persons by "trace".'
        )
    return replace(shared, cost=dearest(problem.cost, whose))


def dearest(cost: Array, atom: Index) -> Array:
    """(g,): the largest cost of a reading of each atom."""
    most = np.zeros(int(atom.max()) + 1)
    np.maximum.at(most, atom, cost)
    return most


def _limited(problem: Problem, whose: Index, most: float) -> Problem:
    """With Σ s_k of every person at most `most`."""
    count = problem.per_atom(np.ones(problem.readings))
    person = whose
    if problem.atom is not None:
        person = np.full(problem.atoms, -1, dtype=np.intp)
        person[problem.atom[::-1]] = whose[::-1]
        if (person[problem.atom] != whose).any():
            raise InvalidInput(
                "a group has readings of several persons: with a limit for each person groups must "
                "lie within persons."
            )
    people = int(whose.max()) + 1
    return replace(problem, person=person, share=count, most=np.full(people, float(most)))

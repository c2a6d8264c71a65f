"""The problem of a design: which level for which measurements, in units that suit numbers.

    minimise  f(M) ,  M = Σ_k x_k h_kh_kᵀ ,  x_k = s_k/(1 + v_k s_k)

over levels s ≥ 0; convex in s for every criterion f that is convex and decreasing in M. An *atom*
is one free level: of one measurement, or of a group that shares it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, Index, as_array, as_kind, as_scale, require_scales
from privest.bounds import bound, in_range, require_seen
from privest.design._criteria import Criterion, Scaled, solved
from privest.errors import InvalidInput
from privest.linalg import weighted_roots
from privest.model import LinearModel

Labels = Sequence[Hashable] | ArrayLike
BLOCK = 2**12  # rows in one pass
SUMMED = 64 * EPS  # relative rounding of a sum of many levels, in any order that halves


def passes(count: int) -> list[slice]:
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
    variance  (m,): v_k ≥ 0 of the noise of each measurement, in the unit of levels.
    cost, cap (g,): a level s_g ≤ cap_g of atom g costs cost_g·s_g of the budget.
    atom      (m,): the atom of each measurement; None: each is its own (g = m).
    person, share (g,), most (p,): Σ_{g ∈ P} share_g s_g ≤ most_P; empty without persons.
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
    def measurements(self) -> int:
        return len(self.rows)

    @property
    def parameters(self) -> int:
        return int(self.rows.shape[1])

    @property
    def atoms(self) -> int:
        return len(self.cost)

    @cached_property
    def exact(self) -> bool:
        return bool((self.variance == 0).any())

    def per_measurement(self, levels: Array) -> Array:
        return levels if self.atom is None else levels[self.atom]

    def per_atom(self, values: Array) -> Array:
        """(g,) from (m,): sums over the measurements of each atom."""
        if self.atom is None:
            return values
        return np.asarray(np.bincount(self.atom, values, self.atoms), dtype=float)

    def per_person(self, levels: Array) -> Array:
        return np.asarray(np.bincount(self.person, self.share * levels, len(self.most)), float)  # type: ignore[arg-type]

    def precisions(self, levels: Array) -> Array:
        """x (m,) = s/(1 + vs)."""
        s = self.per_measurement(levels)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(np.isinf(s), 1.0 / self.variance, s / (1.0 + self.variance * s))

    def information(self, levels: Array) -> Array:
        """M (n, n)."""
        return self.gram(self.precisions(levels))

    def gram(self, weights: Array) -> Array:
        """Σ_k w_k h_kh_kᵀ."""
        return gram(self.rows, weights)

    def squares(self, factor: Array) -> Array:
        """q (m,): h_kᵀGh_k for G = FFᵀ."""
        q = np.empty(self.measurements)
        for part in passes(self.measurements):
            block = self.rows[part] @ factor
            np.einsum("ij,ij->i", block, block, out=q[part])
        return q

    def spent(self, levels: Array) -> float:
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
        whole = float(self.cost @ self.ceiling)
        if self.person is None:
            return whole
        dearest = np.zeros(len(self.most))
        np.maximum.at(dearest, self.person, self.cost / self.share)
        return min(float(dearest @ self.most), whole)

    def in_units(self, unit: float) -> Problem:
        """With levels counted in multiples of `unit`; costs stay per level."""
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

    stated    the problem in the user's unit; `unit` of levels.
    whole     the task in all directions, where caps of 0 leave fewer to see.
    """

    problem: Problem
    criterion: Scaled
    asked: Criterion
    model: LinearModel
    stated: Problem
    unit: float = 1.0
    whole: Task | None = None

    def in_units(self, unit: float) -> Task:
        return replace(self, problem=self.problem.in_units(unit), unit=self.unit * unit)

    def levels(self, found: Array, budget: float = np.inf) -> Array:
        """(m,): levels of measurements in the user's unit, within the limits to the letter."""
        limits = self.stated
        levels = np.minimum(found * self.unit, limits.cap)
        if limits.person is not None:
            over = limits.per_person(levels) > (1 - SUMMED) * limits.most
            levels = np.where(over[limits.person], (1 - 2 * SUMMED) * levels, levels)
        if limits.spent(levels) > (1 - SUMMED) * budget:
            levels = (1 - 2 * SUMMED) * levels
        return limits.per_measurement(levels)


@dataclass(frozen=True, eq=False)
class Constraints:
    """The limits of levels that a user states, checked, one entry for each measurement.

    group (m,): equal numbers share a level; person (m,): the levels of one person add up to at most
    `person_cap`.
    """

    cost: Array
    cap: Array
    group: Index | None
    person: Index | None
    person_cap: float

    def budget(self, given: float) -> float:
        if isinstance(given, float) and np.isposinf(given):
            if not np.isfinite(self.cap).all():
                raise InvalidInput("a budget without end needs finite caps.")
            return float(self.cost @ self.cap) or 1.0  # of caps that are all 0 the caps say so
        return as_scale(given, "the budget")


def constraints_of(
    m: int, cost: ArrayLike = 1.0, cap: ArrayLike = np.inf, groups: Labels | None = None,
    persons: Labels | None = None, person_cap: float = np.inf,
) -> Constraints:  # fmt: skip
    """The limits of m measurements, checked."""
    most = as_array(person_cap, "person_cap", ndim=0, infinite=True)
    if not most > 0:
        raise InvalidInput(f"person_cap must be > 0; received {person_cap}.")
    require_scales(most, "person_cap")
    if persons is None and np.isfinite(most):
        raise InvalidInput("person_cap needs persons: a label for each measurement.")
    return Constraints(
        per_measurement(cost, m, "cost", least_open=True),
        per_measurement(cap, m, "cap", least_open=False),
        None if groups is None else labels_of(groups, m, "groups"),
        None if persons is None else labels_of(persons, m, "persons"),
        float(most),
    )


def linear(model: LinearModel) -> LinearModel:
    needed = "model must be a LinearModel (of a nonlinear one: model.at(theta))"
    return in_range(as_kind(model, LinearModel, needed))


def task_of(model: LinearModel, criterion: Criterion, limits: Constraints) -> Task:
    sigma = model.inverse_information
    if sigma.pointwise is None:
        raise InvalidInput(
            "levels for each measurement need noise that is independent between measurements; this "
            "model's is correlated. Whiten the measurements first, or use shape='full' (small "
            "models)."
        )
    small, asked = _estimable(model, criterion)
    root = weighted_roots(small.matrix, [1.0 / limits.cost])[0]
    require_seen(small, root)
    triangle = root.triangle / np.sqrt(len(limits.cost))
    rows = np.ascontiguousarray(solved(triangle, small.matrix.T).T)
    variance = np.array(sigma.diagonal(), dtype=float)
    require_scales(variance, "the variance of the noise")
    require_scales(np.abs(np.diagonal(triangle)), "every column of H")
    problem = _with_atoms(Problem(rows, variance, limits.cost, limits.cap), limits)
    return Task(problem, asked.scaled(triangle), criterion, model, stated=problem)


def _estimable(model: LinearModel, criterion: Criterion) -> tuple[LinearModel, Criterion]:
    """Both in coordinates of the row space of H, where one combination asks for no more than it."""
    if criterion.symbol != "C":
        return model, criterion
    root = weighted_roots(model.matrix, [1.0])[0].with_tolerance(model.accuracy)
    if root.rank == model.parameters:
        return model, criterion
    if not bound(model, 1.0).contrast(criterion.columns.T).identifiable:
        return model, criterion
    scale, basis = root.row_space
    small = LinearModel(model.matrix / scale @ basis, model.noise)
    return small, replace(criterion, columns=basis.T @ (criterion.columns / scale[:, None]))


def per_measurement(given: ArrayLike, m: int, name: str, *, least_open: bool) -> Array:
    values = as_array(given, name, ndim=(0, 1), infinite=not least_open)
    if values.ndim == 1 and len(values) != m:
        raise InvalidInput(
            f"{name} is one number or one for each of {m} measurements; received shape "
            f"{values.shape}."
        )
    bad = ~(values > 0) if least_open else ~(values >= 0)
    if bad.any():
        raise InvalidInput(f"{name} must be {'> 0' if least_open else '≥ 0'} everywhere.")
    require_scales(values, name)
    return np.broadcast_to(values, (m,)).astype(float)


def labels_of(labels: Labels, m: int, what: str) -> Index:
    """0, 1, …: the same number for equal labels. 1 and "1" differ; a missing label is refused."""
    try:
        given = np.asarray(labels)
    except ValueError:  # lists of different lengths
        given = np.zeros(0)
    if given.ndim != 1 or len(given) != m:
        raise InvalidInput(f"{what} are one label per measurement, {m} of them; received shape "
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
        raise InvalidInput(f"{what}: some labels are missing. Label every measurement.")
    return np.asarray(numbers, dtype=np.intp)


def _with_atoms(problem: Problem, limits: Constraints) -> Problem:
    """The problem with groups that share a level, each of them paid for, and persons' limits."""
    if limits.group is not None:
        g = int(limits.group.max()) + 1
        cap = np.full(g, np.inf)
        np.minimum.at(cap, limits.group, problem.cap)
        cost = np.asarray(np.bincount(limits.group, problem.cost, g), dtype=float)
        problem = replace(problem, cost=cost, cap=cap, atom=limits.group)
    if limits.person is None:
        return problem
    if np.isinf(limits.person_cap):
        raise InvalidInput("persons need person_cap: what the levels of one person may add up to.")
    person = limits.person
    if problem.atom is not None:
        person = np.full(problem.atoms, -1, dtype=np.intp)
        person[problem.atom[::-1]] = limits.person[::-1]
        if (person[problem.atom] != limits.person).any():
            raise InvalidInput("a group has measurements of several persons: divide it by person.")
    count = problem.per_atom(np.ones(problem.measurements))
    most = np.full(int(person.max()) + 1, limits.person_cap)
    return replace(problem, person=person, share=count, most=most)

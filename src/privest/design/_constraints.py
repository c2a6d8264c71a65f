"""From a model and what the user asks for to a `Problem`: costs, caps, groups, persons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
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
from privest.bounds import functional
from privest.bounds._classical import in_range, require_seen
from privest.design._criteria import C, Criterion
from privest.design._problem import Problem
from privest.design._scaled import Scaled
from privest.errors import InvalidInput
from privest.linalg import weighted_roots
from privest.linalg.batched import substitute
from privest.model import LinearModel
from privest.privacy import gdp
from privest.records import Record

SUMMED = 64 * EPS  # relative rounding of a sum of many levels, in any order that halves
LEAST_GAP = 1e-13  # that can be told from rounding
Labels = Sequence[Hashable] | ArrayLike


@dataclass(frozen=True, eq=False)
class Persons(Record):
    """Whose readings they are, and what one person may give up at most.

    labels   (m,): the person of each reading; texts or numbers.
    most     the limit for one person: a number, inf for none.
    measure  "trace": Σ s_k over the readings of a person is limited, and the budget counts every
             reading. "largest": a person's loss is the largest level of any of the person's
             readings, limited, and the budget counts it once; then one level for all of a person's
             readings is best.
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


@dataclass(frozen=True, eq=False)
class Posed:
    """A problem with its criterion in scaled coordinates, and the way back.

    unit: of levels; `triangle`: R of the scaling, for witnesses in the user's coordinates; `whole`:
    the same with all directions, where only those that the limits leave to see are in it.
    """

    problem: Problem
    criterion: Scaled
    asked: Criterion
    model: LinearModel
    triangle: Array
    unit: float = 1.0
    whole: Posed | None = None
    stated: Problem | None = None

    def in_units(self, unit: float) -> Posed:
        """With levels counted in multiples of `unit`; `stated` keeps the limits as they were."""
        return Posed(
            self.problem.in_units(unit), self.criterion, self.asked, self.model, self.triangle,
            self.unit * unit, self.whole, self.problem if self.stated is None else self.stated,
        )  # fmt: skip

    def levels(self, found: Array, budget: float = np.inf) -> Array:
        """(m,): levels of readings in the user's unit, from levels of atoms.

        Within the limits as they were stated, to the letter: what the change of units rounded up
        goes, and sums stay below theirs by more than their own rounding.
        """
        limits = self.problem if self.stated is None else self.stated
        levels = np.minimum(found * self.unit, limits.cap)
        if limits.person is not None:
            assert limits.share is not None
            assert limits.most is not None
            full = limits.per_person(limits.share * levels) > (1 - SUMMED) * limits.most
            levels = np.where(full[limits.person], (1 - 2 * SUMMED) * levels, levels)
        if limits.spent(levels) > (1 - SUMMED) * budget:
            levels = (1 - 2 * SUMMED) * levels
        return limits.per_reading(levels)


def posed(
    model: LinearModel,
    criterion: Criterion,
    *,
    cost: ArrayLike = 1.0,
    cap: ArrayLike = np.inf,
    groups: Labels | None = None,
    persons: Persons | Labels | None = None,
) -> Posed:
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
    rows = np.ascontiguousarray(substitute(triangle, small.matrix.T, transposed=True).T)
    variance = np.array(sigma.diagonal(), dtype=float)
    require_scales(variance, "the variance of the noise")
    require_scales(np.abs(np.diagonal(triangle)), "every column of H")
    problem = _with_atoms(rows, variance, costs, caps, groups, persons)
    return Posed(problem, asked.scaled(triangle, small.names), criterion, model, triangle)


def _estimable(model: LinearModel, criterion: Criterion) -> tuple[LinearModel, Criterion]:
    """Both in coordinates of the row space of H, where one combination asks for no more than it."""
    root = weighted_roots(model.matrix, [1.0])[0].with_tolerance(model.accuracy)
    if not isinstance(criterion, C) or root.rank == model.parameters:
        return model, criterion
    if not functional(model, 1.0, criterion.vector).identifiable:
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
    m = len(rows)
    if persons is not None and not isinstance(persons, Persons):
        persons = Persons(persons, measure="largest")
    whose = None if persons is None else labels_of(persons.labels, m, "labels of persons")
    if persons is not None and persons.measure == "largest":
        if groups is not None:
            raise InvalidInput(
                'persons measured by their "largest" level share it already: leave groups out, or '
                'measure persons by "trace".'
            )
        assert whose is not None
        _require_one_cap(cap, whose)
        return _shared(rows, variance, cost, np.minimum(cap, persons.most), whose, once=True)
    problem = (
        Problem(rows, variance, cost, cap)
        if groups is None
        else _shared(rows, variance, cost, cap, labels_of(groups, m, "groups"), once=False)
    )
    if persons is None or np.isinf(persons.most):
        return problem
    assert whose is not None
    return _limited(problem, whose, persons.most)


def _require_one_cap(cap: Array, whose: Index) -> None:
    """Refuse caps that differ within a person: one level for all readings is then not the best."""
    low = np.full(int(whose.max()) + 1, np.inf)
    np.minimum.at(low, whose, cap)
    if (low[whose] != cap).any():
        raise InvalidInput(
            'readings of one person have different caps: with persons measured by their "largest" '
            "level a cap is of the person, the same for all of the person's readings. Give it so, "
            'or measure persons by "trace".'
        )


def _shared(
    rows: Array, variance: Array, cost: Array, cap: Array, atom: Index, *, once: bool
) -> Problem:
    """Readings of an atom share a level; `once`: paid once, at the largest cost among them."""
    g = int(atom.max()) + 1
    limit = np.full(g, np.inf)
    np.minimum.at(limit, atom, cap)
    if once:
        total = np.zeros(g)
        np.maximum.at(total, atom, cost)
    else:
        total = np.asarray(np.bincount(atom, cost, g), dtype=float)
    return Problem(rows, variance, total, limit, atom)


def _limited(problem: Problem, whose: Index, most: float) -> Problem:
    """With Σ s_k of every person at most `most`."""
    count = problem.per_atom(np.ones(problem.readings))
    if problem.atom is None:
        person = whose
    else:
        first = np.full(problem.atoms, -1, dtype=np.intp)
        first[problem.atom[::-1]] = whose[::-1]
        if (first[problem.atom] != whose).any():
            raise InvalidInput(
                "a group has readings of several persons: with a limit for each person groups must "
                "lie within persons."
            )
        person = first
    people = int(whose.max()) + 1
    return replace(problem, person=person, share=count, most=np.full(people, float(most)))

"""The problem as the Newton engine sees it: every atom costs 1, and only atoms that can matter.

A level is counted by what it costs, e_g = cost_g s_g/unit, rows and variances accordingly, so that
prices are all alike; atoms that can have no level, or show nothing, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import Array, Index
from privest.design._problem import Problem


@dataclass(frozen=True, eq=False)
class Unit:
    """rows, variance (m,), cap (g,) (inf: none), person (g,), share (g,), most (p,) as in Problem.

    scale  (g,): level = scale · e.
    kept   (g,): indices of the atoms in the problem that was given.
    people (p,): indices of the persons in it.
    sums   (g, m) sparse: sums over the readings of each atom; None: each reading is an atom.
    by     (p, g) sparse: sums over the atoms of each person, with their shares.
    """

    rows: Array
    variance: Array
    cap: Array
    scale: Array
    kept: Index
    atom: Index | None = None
    sums: Any = None
    person: Index | None = None
    share: Array | None = None
    most: Array | None = None
    people: Index | None = None
    by: Any = None

    @property
    def atoms(self) -> int:
        return len(self.cap)

    def gather(self, values: Array) -> Array:
        """(g, …) from (m, …): sums over the readings of each atom."""
        return values if self.sums is None else np.asarray(self.sums @ values)

    def spread(self, e: Array) -> Array:
        """(m,) from (g,)."""
        return e if self.atom is None else e[self.atom]

    def per_person(self, values: Array) -> Array:
        """(p, …) from (g, …): sums weighted by the shares."""
        return np.asarray(self.by @ values)

    def to_atoms(self, values: Array) -> Array:
        """(g,) or (g, c) from (p,) or (p, c): what it is for each atom, times its share."""
        assert self.share is not None
        assert self.person is not None
        found = values[self.person]
        return np.asarray(found * (self.share if values.ndim == 1 else self.share[:, None]))

    def precisions(self, e: Array) -> tuple[Array, Array, Array]:
        """x, x′ and −x″ of every reading, x = e/(1 + ve)."""
        spread = self.spread(e)
        part = 1.0 / (1.0 + self.variance * spread)
        square = part * part
        return spread * part, square, 2.0 * self.variance * square * part


def unit_of(problem: Problem, unit: float, budget: float = np.inf) -> Unit:
    """`unit`: what an atom spends on average, about. Caps beyond the budget are none."""
    import scipy

    kept = np.flatnonzero((problem.ceiling > 0) & (_size(problem) > 0))
    scale = unit / problem.cost[kept]
    inside = np.zeros(problem.atoms, dtype=bool)
    inside[kept] = True
    name = np.cumsum(inside) - 1  # the new number of an atom
    atom, sums = None, None
    if problem.atom is None:
        rows, variance, each = problem.rows[kept], problem.variance[kept], scale
    else:
        chosen = inside[problem.atom]
        atom = name[problem.atom[chosen]]
        rows, variance, each = problem.rows[chosen], problem.variance[chosen], scale[atom]
        m = len(atom)
        sums = scipy.sparse.csr_array((np.ones(m), (atom, np.arange(m))), shape=(len(kept), m))
    cap = problem.cap[kept]
    cap = np.where(cap * problem.cost[kept] >= budget, np.inf, cap) / scale
    rows = rows * np.sqrt(each)[:, None]
    found = Unit(rows, variance * each, cap, scale, kept, atom, sums)
    return found if problem.person is None else _with_persons(problem, found)


def _size(problem: Problem) -> Array:
    """(g,): zero for atoms whose rows are all zero."""
    return problem.per_atom(np.abs(problem.rows).max(axis=1))


def _with_persons(problem: Problem, unit: Unit) -> Unit:
    """With the persons who have an atom left."""
    import scipy

    assert problem.person is not None
    assert problem.share is not None
    assert problem.most is not None
    people, person = np.unique(problem.person[unit.kept], return_inverse=True)
    share = problem.share[unit.kept] * unit.scale
    by = scipy.sparse.csr_array(
        (share, (person, np.arange(unit.atoms))), shape=(len(people), unit.atoms)
    )
    return Unit(
        unit.rows, unit.variance, unit.cap, unit.scale, unit.kept, unit.atom, unit.sums,
        np.asarray(person, dtype=np.intp), share, problem.most[people], people, by,
    )  # fmt: skip

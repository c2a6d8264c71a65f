"""The linear system of a Newton step: diagonal plus low rank, persons by blocks.

    D ds + N z + A dπ = r          (one row for each atom)
    Nᵀds − E z − b dt = ρ          (features, targets, budget)
         −bᵀz         = τ          (where t is free)
    Aᵀds − F dπ       = σ          (persons; A has one entry in each row)

ds is eliminated (D is diagonal), then dπ (AᵀD⁻¹A is diagonal), which leaves a few unknowns z, dt.
The elimination of persons centres N within each person, so that nothing is subtracted.
One refinement step. O(g c²) for c columns of N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.design._newton._side import gram
from privest.design._newton._unit import Unit

SMALL = 1e-15  # eigenvalues below this part of the largest are rounding (unit diagonal)


@dataclass(frozen=True, eq=False)
class Step:
    """ds (g,), z (c,), dt, dπ (p,) or None."""

    atoms: Array
    solved: Array
    goal: float
    persons: Array | None

    def plus(self, other: Step) -> Step:
        persons = None
        if self.persons is not None and other.persons is not None:
            persons = self.persons + other.persons
        return Step(
            self.atoms + other.atoms, self.solved + other.solved, self.goal + other.goal, persons
        )


class System:
    """Factored once, solved for several right sides."""

    def __init__(
        self, unit: Unit, diagonal: Array, columns: Array, corner: Array, border: Array | None,
        persons: Array | None,
    ) -> None:  # fmt: skip
        """`persons`: F (p,); `border`: b, None where t is fixed."""
        self.unit, self.diagonal, self.columns = unit, diagonal, columns
        self.corner, self.border, self.persons = corner, border, persons
        self.inverse = 1.0 / diagonal
        if persons is None:
            inner = gram(columns, self.inverse)
        else:
            assert unit.share is not None
            own = unit.per_person(unit.share * self.inverse)
            mean = unit.per_person(columns * self.inverse[:, None]) / own[:, None]
            centred = columns - unit.to_atoms(mean)
            inner = gram(centred, self.inverse)
            inner += (mean * (own * persons / (own + persons))[:, None]).T @ mean
            self.whole = own + persons
        inner[np.diag_indices_from(inner)] += corner
        if not np.isfinite(inner).all():
            raise np.linalg.LinAlgError("the linear system is not finite")
        self.inner = _factored(inner)
        self.along = None if border is None else self.inner(border)

    def solve(self, r: Array, rho: Array, tau: float, sigma: Array | None) -> Step:
        first = self._once(r, rho, tau, sigma)
        return first.plus(self._once(*self._left(first, r, rho, tau, sigma)))

    def _once(self, r: Array, rho: Array, tau: float, sigma: Array | None) -> Step:
        start, _ = self._atoms(r, sigma)
        solved = self.inner(self.columns.T @ start - rho)
        goal = 0.0
        if self.border is not None:
            assert self.along is not None
            goal = float(self.border @ solved + tau) / float(self.border @ self.along)
            solved = solved - self.along * goal
        atoms, persons = self._atoms(r - self.columns @ solved, sigma)
        return Step(atoms, solved, goal, persons)

    def _atoms(self, r: Array, sigma: Array | None) -> tuple[Array, Array | None]:
        """ds and dπ for z = 0."""
        atoms = self.inverse * r
        if sigma is None:
            return atoms, None
        persons = (self.unit.per_person(atoms) - sigma) / self.whole
        return self.inverse * (r - self.unit.to_atoms(persons)), persons

    def _left(
        self, step: Step, r: Array, rho: Array, tau: float, sigma: Array | None
    ) -> tuple[Array, Array, float, Array | None]:
        """What a step leaves of the right sides."""
        r = r - self.diagonal * step.atoms - self.columns @ step.solved
        rho = rho - self.columns.T @ step.atoms + self.corner * step.solved
        if self.border is not None:
            rho = rho + self.border * step.goal
            tau = tau + float(self.border @ step.solved)
        if sigma is not None:
            assert step.persons is not None
            assert self.persons is not None
            r = r - self.unit.to_atoms(step.persons)
            sigma = sigma - self.unit.per_person(step.atoms) + self.persons * step.persons
        return r, rho, tau, sigma


def _factored(matrix: Array) -> Callable[[Array], Array]:
    """x ↦ S⁻¹x of S > 0, scaled to a unit diagonal; tiny eigenvalues count as `SMALL`.

    The right side of the step decides only how fast the method is, never what it returns.
    """
    scale = 1.0 / np.sqrt(np.diagonal(matrix))
    scaled = matrix * scale * scale[:, None]
    lower, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if not failed:

        def by_triangles(right: Array) -> Array:
            return np.asarray(scale * scipy.linalg.lapack.dpotrs(lower, scale * right, lower=1)[0])

        return by_triangles
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, SMALL * values[-1])

    def by_directions(right: Array) -> Array:
        return np.asarray(scale * (vectors @ ((vectors.T @ (scale * right)) / values)))

    return by_directions

"""The problem that every engine of `design` solves: which level for which readings.

    minimise  f(M) ,  M = Σ_k x_k h_kh_kᵀ ,  x_k = s_k/(1 + v_k s_k)

over levels s ≥ 0. M is the information that the release carries about θ; x_k is concave in s_k, so
that every criterion f that is convex and decreasing in M is convex in s. An *atom* is one free
level: of one reading, or of a group of readings that share it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from privest.arrays import Array, Index

T = TypeVar("T")
LONG = 2_000_000  # numbers in the rows: a pass takes milliseconds, and two threads halve it
BLOCK = 2**14  # rows in one pass: what they need stays in the cache


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, noise and constraints, in units in which nothing is very large or small.

    rows      (m, n): HR⁻¹, RᵀR = Hᵀdiag(1/c)H/m, times the root of the unit of levels.
    variance  (m,): v_k ≥ 0 of the noise of each reading, in the unit of levels; zeros are allowed.
    cost      (g,): a level s_g of atom g costs cost_g·s_g of the budget; > 0.
    cap       (g,): s_g ≤ cap_g; inf for none.
    atom      (m,): the atom of each reading; None: every reading is an atom of its own (g = m).
    person    (g,): the person of each atom, 0 … p − 1; None: there are no persons.
    share     (g,): what a level of the atom counts for the person,
    most      (p,): Σ_{g ∈ P} share_g s_g ≤ most_P.
    """

    rows: Array
    variance: Array
    cost: Array
    cap: Array
    atom: Index | None = None
    person: Index | None = None
    share: Array | None = None
    most: Array | None = None

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

    def per_person(self, values: Array) -> Array:
        """(p,) from (g,): sums over the atoms of each person."""
        assert self.person is not None
        assert self.most is not None
        return np.asarray(np.bincount(self.person, values, len(self.most)), dtype=float)

    def precisions(self, levels: Array) -> Array:
        """x (m,): s/(1 + vs), with 1/v for a level without end."""
        s = self.per_reading(levels)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(np.isinf(s), 1.0 / self.variance, s / (1.0 + self.variance * s))

    def information(self, levels: Array) -> Array:
        """M (n, n)."""
        return self.gram(self.precisions(levels))

    def gram(self, weights: Array) -> Array:
        """Σ_k w_k h_kh_kᵀ, in one pass."""

        def part(starts: range) -> Array:
            total = np.zeros((self.parameters, self.parameters))
            for start in starts:
                block = self.rows[start : start + BLOCK]
                total += (block.T * weights[start : start + BLOCK]) @ block
            return total

        total = sum(self._passes(part), np.zeros((self.parameters, self.parameters)))
        return np.asarray((total + total.T) / 2)

    def squares(self, factor: Array) -> Array:
        """q (m,): h_kᵀGh_k for G = FFᵀ, from the factor F (n, r)."""
        q = np.empty(self.readings)

        def part(starts: range) -> None:
            for start in starts:
                block = self.rows[start : start + BLOCK] @ factor
                np.einsum("ij,ij->i", block, block, out=q[start : start + BLOCK])

        self._passes(part)
        return q

    def products(self, *matrices: Array) -> list[Array]:
        """hᵀGh (m,) for each of some symmetric G (n, n), in one pass."""
        found: list[Array] = [np.empty(self.readings) for _ in matrices]

        def part(starts: range) -> None:
            for start in starts:
                block = self.rows[start : start + BLOCK]
                for q, matrix in zip(found, matrices, strict=True):
                    np.einsum("ij,ij->i", block @ matrix, block, out=q[start : start + BLOCK])

        self._passes(part)
        return found

    def _passes(self, part: Callable[[range], T]) -> list[T]:
        """`part` of all blocks of rows; of two halves at once where there are many."""
        starts = range(0, self.readings, BLOCK)
        if self.rows.size < LONG:
            return [part(starts)]
        half = len(starts) // 2
        with ThreadPoolExecutor(2) as pool:  # NumPy lets go of the interpreter in its loops
            return list(pool.map(part, (starts[:half], starts[half:])))

    def spent(self, levels: Array) -> float:
        """Σ_g cost_g s_g."""
        return float(self.cost @ levels)

    def feasible(self, levels: Array) -> Array:
        """Levels within caps and persons' limits, nowhere above those given."""
        levels = np.clip(levels, 0.0, self.cap)
        if self.person is None:
            return levels
        assert self.share is not None
        assert self.most is not None
        used = self.per_person(self.share * levels)
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
        assert self.share is not None
        assert self.most is not None
        used = self.per_person(self.share * levels)
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
        assert self.share is not None
        assert self.most is not None
        return np.asarray(np.minimum(self.cap, self.most[self.person] / self.share))

    def in_units(self, unit: float) -> Problem:
        """The same problem with levels counted in multiples of `unit`; costs stay per level."""
        return replace(
            self,
            rows=self.rows * np.sqrt(unit),
            variance=self.variance * unit,
            cost=self.cost * unit,
            cap=self.cap / unit,
            most=None if self.most is None else self.most / unit,
        )

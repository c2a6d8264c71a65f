"""Least squares that rows are added to: the triangle of [G, ζ], updated by QR.

    [R  q]        orthogonally from   [R  q]
    [0  ρ]                            [0  ρ]
                                      [G  ζ]

R is the root of the information GᵀG, R θ̂ = q, and ρ² is the misfit ‖Gθ̂ − ζ‖². No information
matrix is inverted or even formed: digits are lost with cond R, not with its square.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import NumericalFailure
from privest.linalg._root import InformationRoot
from privest.linalg.tolerances import GROWTH


class RunningLeastSquares:
    """n parameters; rows are whitened (unit noise), one or many at a time.

    `natural` (n,) is the size each column of R would have if nothing had cancelled: the rank is
    decided against it (`InformationRoot`). It is kept up only until the rank is full, which it
    then stays in exact arithmetic. Rows so heavy that they drown what lighter ones showed are
    noticed whenever the rows have grown tenfold: `full` stays, and results are refused.
    """

    def __init__(self, parameters: int, tolerance: float) -> None:
        self.parameters, self.tolerance = parameters, tolerance
        self.triangle: Array = np.zeros((parameters + 1, parameters + 1), order="F")
        self.natural: Array = np.zeros(parameters)
        self.full = False
        self._per: Array = np.zeros(parameters)  # 1/size of the columns when last looked at
        self._growth = 0.0  # squared size of the rows since, in these units

    def state(self) -> dict[str, Array]:
        """Everything that the next rows need."""
        return {
            "triangle": self.triangle,
            "natural": self.natural,
            "full": np.array(self.full),
            "per": self._per,
            "growth": np.array(self._growth),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take up a state again."""
        self.triangle = np.array(state["triangle"], order="F")
        self.natural, self._per = state["natural"].copy(), state["per"].copy()
        self.full, self._growth = bool(state["full"]), float(state["growth"])

    def add(self, rows: Array, natural: Array | None) -> None:
        """Add whitened rows [G, ζ] (r, n + 1); natural (r, n): the size of G without cancellation,
        needed until the rank is full.

        Cost 2rn² flops; one LAPACK call of about a microsecond for one row.
        """
        self._merge(rows)
        if not self.full:
            assert natural is not None
            self._look(np.hypot.reduce(natural, axis=0))
        else:
            self._grow(rows)

    def add_row(self, row: Array) -> None:
        """Add one row [g, ζ] (1, n + 1) in which nothing cancelled."""
        self._merge(row)
        if not self.full:
            self._look(row[0, :-1])
        else:
            scaled = row[0, :-1] * self._per
            self._growth += scaled.dot(scaled)

    def add_triangle(self, triangle: Array) -> None:
        """Add rows that were reduced before, and in which nothing cancelled: their triangle."""
        self._merge(triangle)
        if not self.full:
            self._look(np.hypot.reduce(triangle[:, :-1], axis=0))
        else:
            self._grow(triangle)

    def _merge(self, rows: Array) -> None:
        n = self.parameters + 1
        self.triangle = scipy.linalg.lapack.dtpqrt(0, n, self.triangle, rows, overwrite_a=1)[0]

    def _look(self, natural: Array) -> None:
        self.natural = np.hypot(self.natural, natural)
        self.full = self.root().rank == self.parameters
        if self.full:
            self._measure()

    def _grow(self, rows: Array) -> None:
        scaled = (rows[:, :-1] * self._per).ravel()
        self._growth += float(scaled.dot(scaled))

    def _measure(self) -> Array:
        """The sizes of the columns now."""
        size: Array = np.hypot.reduce(self.triangle[:, :-1], axis=0)
        self._per, self._growth = 1.0 / size, 0.0
        return size

    def require_digits(self) -> None:
        """Raise if the rows have become so unequal that rounding hides a direction."""
        if self._growth <= GROWTH:
            return
        n = self.parameters
        grown = self._growth
        root = InformationRoot(self.triangle[:n, :n], self._measure(), self.tolerance)
        if root.rank < n:
            self._growth = grown  # look again next time
            raise NumericalFailure(
                "Some rows are so much heavier than others (beyond 1e11) that rounding hides what "
                "the light ones showed of θ. Scale or leave out the heavy readings."
            )

    def root(self) -> InformationRoot:
        """R, and against what its rank is decided."""
        n = self.parameters
        return InformationRoot(self.triangle[:n, :n], self.natural, self.tolerance)

    def inverse(self) -> Array:
        """(RᵀR)⁻¹. Only when `full`."""
        self.require_digits()
        n = self.parameters
        root: Array = scipy.linalg.lapack.dtrtri(self.triangle[:n, :n])[0]
        return np.asarray(root @ root.T)

    def solution(self) -> Array:
        """θ̂ = R⁻¹q. Only when `full`."""
        if self._growth > GROWTH:
            self.require_digits()
        n = self.parameters
        solved: Array = scipy.linalg.blas.dtrsv(self.triangle[:n, :n], self.triangle[:n, n])
        return solved

    @property
    def misfit(self) -> float:
        """‖Gθ̂ − ζ‖²."""
        return float(self.triangle[-1, -1] ** 2)

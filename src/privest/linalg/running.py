"""Running least squares: the triangle of [G, ζ], updated by QR.

    [R  q]        orthogonally from   [R  q]
    [0  ρ]                            [0  ρ]
                                      [G  ζ]

R is the root of the information GᵀG, R θ̂ = q, and ρ² = ‖Gθ̂ − ζ‖².
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Never

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.linalg._root import InformationRoot
from privest.linalg.tolerances import (
    GRAM_CONDITION,
    GROWTH,
    LARGEST,
    LARGEST_ROOT,
    SMALLEST,
    rounding,
)
from privest.reading import state_array, state_flag, state_number

CHUNK = 16384  # rows at a time: they stay in cache between the products


class RunningLeastSquares:
    """Least squares of n parameters from whitened rows (unit noise), one or many at a time.

    `natural` (n,), the size of each column of R had nothing cancelled, decides the rank until it is
    full. Where later rows drown what lighter ones revealed, `full` stays and results are refused.
    """

    full: bool

    def __init__(self, parameters: int, tolerance: float | None = None) -> None:
        self.parameters = parameters
        self.tolerance: float = rounding(parameters) if tolerance is None else tolerance
        self.triangle: Array = np.zeros((parameters + 1, parameters + 1), order="F")
        self.natural: Array = np.zeros(parameters)
        self.full = False
        self._per: Array = np.zeros(parameters)  # 1/size of the columns when last looked at
        self._growth = 0.0  # squared size of the rows since, in these units

    def state(self) -> dict[str, Array]:
        """The arrays that the next rows need."""
        return {
            "triangle": self.triangle, "natural": self.natural, "full": np.array(self.full),
            "per": self._per, "growth": np.array(self._growth),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Array]) -> None:
        """Restore a state. Raises InvalidInput for one of other sizes."""
        n = self.parameters
        triangle = state_array(state, "triangle", (n + 1, n + 1))
        natural, per = state_array(state, "natural", (n,)), state_array(state, "per", (n,))
        full, growth = state_flag(state, "full"), state_number(state, "growth")
        if full and not np.diagonal(triangle)[:n].all():
            raise InvalidInput("the state says that all directions are known; the triangle not.")
        self.triangle = np.asfortranarray(triangle)
        self.natural, self._per = natural, per
        self.full, self._growth = full, growth

    def mark(self) -> tuple[Array, Array, bool, Array, float]:
        return self.triangle.copy(order="F"), self.natural, self.full, self._per, self._growth

    def rollback(self, mark: tuple[Array, Array, bool, Array, float]) -> None:
        self.triangle, self.natural, self.full, self._per, self._growth = mark

    def add(self, rows: Array, natural: Array | None = None) -> None:
        """Add rows [G, ζ] (r, n + 1) or their triangle; `natural` (r, n): their uncancelled size.

        Raises NumericalFailure, and adds nothing, where squares would leave the range of doubles.
        """
        require_squares(rows)
        self._merge(rows)
        if self.full:
            scaled = (rows[:, :-1] * self._per).ravel(order="K")
            self._growth += float(scaled.dot(scaled))
        else:
            self._look(np.hypot.reduce(rows[:, :-1] if natural is None else natural, axis=0))

    def add_matrix(self, matrix: Array) -> None:
        """Add rows of H (r, n) without values."""
        for at in range(0, len(matrix), CHUNK):
            part = matrix[at : at + CHUNK]
            rows = np.zeros((len(part), self.parameters + 1), order="F")
            rows[:, :-1] = part
            self.add(rows)

    def add_row(self, row: Array) -> None:
        """Add one row [g, ζ] (1, n + 1) in which nothing cancelled, its range checked before."""
        self._merge(row)
        if not self.full:
            self._look(row[0, :-1])
        else:
            scaled = row[0, :-1] * self._per
            self._growth += scaled.dot(scaled)

    def _merge(self, rows: Array) -> None:
        n = self.parameters + 1
        self.triangle = scipy.linalg.lapack.dtpqrt(0, n, self.triangle, rows, overwrite_a=1)[0]

    def _look(self, natural: Array) -> None:
        self.natural = np.hypot(self.natural, natural)
        self.full = self.root().rank == self.parameters
        if self.full:
            self._measure()

    def _measure(self) -> Array:
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
                "the light ones showed of θ. Scale or leave out the heavy ones."
            )

    def root(self) -> InformationRoot:
        n = self.parameters
        return InformationRoot(self.triangle[:n, :n], self.natural, self.tolerance)

    def inverse(self) -> Array:
        """(RᵀR)⁻¹, when `full`. Raises NumericalFailure beyond the range of numbers."""
        self.require_digits()
        n = self.parameters
        root: Array = scipy.linalg.lapack.dtrtri(self.triangle[:n, :n])[0]
        if not np.abs(root).max() < LARGEST_ROOT:
            raise NumericalFailure(
                "the variances of the estimate are too large for numbers: rows, level or variance "
                "of the noise are out of range. Choose other units, or another level."
            )
        return np.asarray(root @ root.T)

    @property
    def upper(self) -> Array:
        return np.triu(self.triangle[:-1, :-1])

    def require_full(self, names: tuple[str, ...], where: str, rows: int) -> None:
        """Raise NotIdentifiable, naming the columns, where the rows do not determine θ."""
        if not self.full:
            refuse_hidden(self.root().hidden, self.natural, names, where, rows)

    def solution(self) -> Array:
        """θ̂ = R⁻¹q, when `full`."""
        if self._growth > GROWTH:
            self.require_digits()
        n = self.parameters
        solved: Array = scipy.linalg.blas.dtrsv(self.triangle[:n, :n], self.triangle[:n, n])
        return solved

    @property
    def misfit(self) -> float:
        """‖Gθ̂ − ζ‖²."""
        return float(self.triangle[-1, -1] ** 2)


def require_squares(rows: Array) -> None:
    """Raise NumericalFailure where the squares of whitened rows leave the range of doubles."""
    if not scipy.linalg.blas.dnrm2(rows.ravel(order="K")) < LARGEST_ROOT:  # NaN too
        raise NumericalFailure(
            f"rows of H or measurements reach {LARGEST_ROOT:.0e} deviations of their noise, or are "
            "not numbers: their squares leave the range of doubles. Scale H or leave the rows out; "
            "nothing was taken."
        )


def refuse_hidden(
    hidden: Array, sizes: Array, names: tuple[str, ...], where: str, rows: int
) -> Never:
    """Raise NotIdentifiable, naming the columns that take part in the hidden directions."""
    if rows < len(names):
        raise NotIdentifiable(
            f"{where}: {rows} row{'s' * (rows != 1)} cannot determine {len(names)} coefficients. "
            "More rows are needed, or fewer features.",
            hidden,
        )
    zero = [name for name, size in zip(names, sizes) if size == 0]
    if zero and "=" in zero[0]:
        raise NotIdentifiable(
            f"{where}: no row has {', '.join(map(repr, zero))}, so its coefficient cannot be "
            "estimated. Take the category off the list; that nobody has it is then public.",
            hidden,
        )
    raise NotIdentifiable(
        f"{where}: {_reason(zero, _tied(hidden, sizes, names))}. The coefficients cannot be told "
        "apart: leave one of the columns out.",
        hidden,
    )


def _tied(hidden: Array, sizes: Array, names: tuple[str, ...]) -> list[str]:
    part = np.linalg.norm(hidden * np.maximum(sizes, 1e-300)[:, None], axis=1)
    return [name for name, size in zip(names, part) if size > 1e-6 * part.max()]


def _reason(zero: list[str], tied: list[str]) -> str:
    if zero:
        return f"{', '.join(map(repr, zero))} {'is' if len(zero) == 1 else 'are'} 0 in every row"
    if "intercept" in tied and len(tied) == 2:
        return f"{next(name for name in tied if name != 'intercept')!r} is constant"
    return f"{', '.join(map(repr, tied))} are collinear"


def tall_triangle(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Array:
    """R of [g∘H, u∘z − v], (n + 1, n + 1), from very many rows in one pass.

    H (m, n), z (m,), weight g, unit u and shift v numbers or (m,). The Cholesky factor of the Gram
    matrix where the columns are well conditioned, else a QR of chunks.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.ndim(weight) or np.ndim(unit) or np.ndim(shift):
            gram = np.zeros((matrix.shape[1] + 1,) * 2)
            for rows in _weighted_chunks(matrix, right, weight, unit, shift):
                gram += rows.T @ rows
        else:
            gram = _plain_gram(matrix, right, float(weight), float(unit), float(shift))
        scale = np.sqrt(np.diagonal(gram))
    if (scale > SMALLEST**0.5).all() and (scale < LARGEST**0.5).all():
        correlation = gram / scale / scale[:, None]
        values = np.linalg.eigvalsh(correlation)
        if values[0] * GRAM_CONDITION > values[-1]:
            return np.asfortranarray(np.linalg.cholesky(correlation).T * scale)
    triangle = np.zeros(gram.shape, order="F")
    for rows in _weighted_chunks(matrix, right, weight, unit, shift):
        triangle = scipy.linalg.lapack.dtpqrt(0, len(gram), triangle, rows, overwrite_a=1)[0]
    return triangle


def _plain_gram(matrix: Array, right: Array, weight: float, unit: float, shift: float) -> Array:
    n = matrix.shape[1]
    gram = np.zeros((n + 1, n + 1))
    for at in range(0, len(matrix), CHUNK):
        rows, values = matrix[at : at + CHUNK], right[at : at + CHUNK]
        if shift:
            values = values - shift / unit
        gram[:n, :n] += rows.T @ rows
        gram[:n, n] += rows.T @ values
        gram[n, n] += values @ values
    gram[n, :n] = gram[:n, n]
    size = np.array([weight] * n + [unit])
    return np.asarray(gram * size * size[:, None])


def _weighted_chunks(
    matrix: Array, right: Array, weight: Array | float, unit: Array | float, shift: Array | float
) -> Iterator[Array]:
    vectors = [np.broadcast_to(value, len(matrix)) for value in (weight, unit, shift)]
    for at in range(0, len(matrix), CHUNK // 2):
        part = slice(at, at + CHUNK // 2)
        own = [vector[part] for vector in vectors]
        rows = np.empty((len(right[part]), matrix.shape[1] + 1))
        np.multiply(matrix[part].T, own[0], out=rows.T[:-1])
        np.multiply(right[part], own[1], out=rows[:, -1])
        rows[:, -1] -= own[2]
        yield rows

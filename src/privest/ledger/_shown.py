"""What was shown of one index, in exact numbers, and how they are written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from privest.arrays import Array
from privest.ledger._exact import Matrix, read_exact, written

MOST_RUNS = 256  # different levels along a range; beyond, the largest of them counts for all


@dataclass(frozen=True)
class Runs:
    """Levels along a range: (level, how many indices) one after another, and what they sum to.

    Of more than MOST_RUNS the largest level counts for all indices; the sum, rounded up to a
    double, stays theirs.
    """

    runs: tuple[tuple[Fraction, int], ...]
    total: Fraction

    @classmethod
    def of(cls, levels: Array) -> Runs:
        starts = np.flatnonzero(np.append(True, levels[1:] != levels[:-1]))
        if len(starts) > MOST_RUNS:
            total = Fraction(math.nextafter(math.fsum(levels.tolist()), math.inf))
            return cls(((Fraction(float(levels.max())), len(levels)),), total)
        counts = np.diff(np.append(starts, len(levels))).tolist()
        runs = tuple((Fraction(x), n) for x, n in zip(levels[starts].tolist(), counts))
        return cls(runs, sum((n * x for x, n in runs), Fraction(0)))

    @property
    def count(self) -> int:
        return sum(n for _, n in self.runs)


@dataclass(frozen=True)
class Shown:
    """What all releases so far show of one index; None: not known, because one did not say.

    `mu2` and `epsilon` are sums over Gaussian and over pure releases, `rest` is ρ of the others,
    `rho` is that of all.
    """

    level: Fraction | None = Fraction(0)
    mu2: Fraction = Fraction(0)
    epsilon: Fraction = Fraction(0)
    rest: Fraction = Fraction(0)
    rho: Fraction | None = Fraction(0)
    matrix: Matrix | None = ()

    def __add__(self, other: Shown) -> Shown:
        return Shown(
            _sum(self.level, other.level),
            self.mu2 + other.mu2,
            self.epsilon + other.epsilon,
            self.rest + other.rest,
            _sum(self.rho, other.rho),
            _matrix_sum(self.matrix, other.matrix),
        )

    def to_list(self) -> list[Any]:
        """As it is written in a ledger."""
        numbers = (self.level, self.mu2, self.epsilon, self.rest, self.rho, self.matrix)
        return [plain_exact(one) for one in numbers]

    @classmethod
    def from_list(cls, given: Sequence[Any]) -> Shown:
        level, mu2, epsilon, rest, rho, matrix = given
        return cls(
            read_number(level), read_exact(mu2), read_exact(epsilon), read_exact(rest),
            read_number(rho), read_matrix(matrix),
        )  # fmt: skip

    def peak(self, other: Shown) -> Shown:
        """The larger in every unit; of matrices that of the larger trace."""
        both = (self.matrix, other.matrix)
        matrix = None if None in both else max(cast("tuple[Matrix, Matrix]", both), key=trace_of)
        return Shown(
            None if None in (self.level, other.level) else max(self.level, other.level),  # type: ignore[type-var]
            max(self.mu2, other.mu2),
            max(self.epsilon, other.epsilon),
            max(self.rest, other.rest),
            None if None in (self.rho, other.rho) else max(self.rho, other.rho),  # type: ignore[type-var]
            matrix,
        )

    def without_privacy_units(self) -> Shown:
        """For a cost about another move: nothing is known in μ, ρ and ε."""
        zero = Fraction(0)
        return Shown(self.level, zero, zero, zero, None, self.matrix)


def trace_of(matrix: Matrix) -> Fraction:
    return sum((matrix[i][i] for i in range(len(matrix))), Fraction(0))


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def _matrix_sum(one: Matrix | None, other: Matrix | None) -> Matrix | None:
    if one is None or other is None:
        return None
    if not one or not other:
        return one or other
    if len(one) != len(other):
        return None
    return tuple(tuple(a + b for a, b in zip(*rows)) for rows in zip(one, other))


def plain_exact(value: Any) -> Any:  # noqa: ANN401 - None, a number, levels along a range, a matrix
    if isinstance(value, Runs):
        runs = [[written(level), count] for level, count in value.runs]
        return {"runs": runs, "total": written(value.total)}
    if isinstance(value, tuple):
        return [plain_exact(part) for part in value]
    return None if value is None else written(value)


def read_number(value: object) -> Fraction | None:
    """A number, or None where it is not known. Raises ValueError for anything else."""
    return None if value is None else read_exact(value)


def read_matrix(value: object) -> Matrix | None:
    """A square matrix; empty where nothing was shown. Raises ValueError for anything else."""
    if value is None:
        return None
    rows: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(row, list) and len(row) == len(rows) for row in rows):
        raise ValueError("not a square matrix")
    return tuple(tuple(read_exact(x) for x in row) for row in rows)


def read_information(value: object) -> Fraction | Runs | Matrix | None:
    """What `plain_exact` made. Raises ValueError or KeyError for anything else."""
    if isinstance(value, list):
        return read_matrix(value)
    if not isinstance(value, dict):
        return read_number(value)
    runs = tuple((read_exact(level), whole(count)) for level, count in value["runs"])
    return Runs(runs, read_exact(value["total"]))


def whole(value: object) -> int:
    """A whole number ≥ 0. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a whole number")
    return value

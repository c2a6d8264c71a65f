"""Exact numbers of the accounts: doubles are fractions m·2^e, and so are their sums and products.

A float total loses small spends (1 + 2⁻⁶⁰ = 1); here nothing is lost, not even a subnormal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_number
from privest.errors import InvalidInput

DYADIC = re.compile(r"(-?[0-9]{1,2000})p(-?[0-9]{1,4})")
MOST_RUNS = 256  # different levels along a range; beyond, the largest of them counts for all
Matrix = tuple[tuple[Fraction, ...], ...]


def as_exact(given: ArrayLike | Fraction, name: str) -> Fraction:
    """A number ≥ 0, exactly as it was given: a double, a whole number or a fraction m·2^e."""
    if isinstance(given, Fraction):
        found = given
        if found.denominator & (found.denominator - 1):
            raise InvalidInput(f"{name} must be a double or a fraction over a power of two.")
    else:
        found = Fraction(as_number(given, name))
    if found < 0:
        raise InvalidInput(f"{name} must be ≥ 0: a release cannot be taken back.")
    return found


def exact_text(number: Fraction) -> str:
    """m·2^e as a text, m odd or 0: one text per number.

    >>> exact_text(Fraction(0.375)), exact_text(Fraction(0)), exact_text(Fraction(12))
    ('3p-3', '0p0', '3p2')
    """
    top, down = number.numerator, number.denominator.bit_length() - 1
    if down == 0 and top:
        up = (top & -top).bit_length() - 1
        return f"{top >> up}p{up}"
    return f"{top}p{-down}"


def read_exact(text: object) -> Fraction:
    """The inverse of `exact_text`. Raises ValueError for anything else."""
    found = DYADIC.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("not a number of a ledger")
    top, power = int(found[1]), int(found[2])
    number = Fraction(top << power) if power >= 0 else Fraction(top, 1 << -power)
    if exact_text(number) != text:
        raise ValueError("not a number as a ledger writes it")
    return number


@dataclass(frozen=True)
class Runs:
    """Levels along a range: (level, number of indices) one after another, and their sum.

    Beyond MOST_RUNS the largest level counts for all indices; the sum, rounded up to a double,
    stays theirs.
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

    @property
    def largest(self) -> Fraction:
        return max(level for level, _ in self.runs)


@dataclass(frozen=True)
class Revealed:
    """What all releases so far reveal of one index; None: not known, because one did not say.

    `mu2` and `epsilon` are sums over Gaussian and over pure releases, `rest` is ρ of the others,
    `rho` is that of all.
    """

    level: Fraction | None = Fraction(0)
    mu2: Fraction = Fraction(0)
    epsilon: Fraction = Fraction(0)
    rest: Fraction = Fraction(0)
    rho: Fraction | None = Fraction(0)

    def __add__(self, other: Revealed) -> Revealed:
        return Revealed(
            _sum(self.level, other.level),
            self.mu2 + other.mu2,
            self.epsilon + other.epsilon,
            self.rest + other.rest,
            _sum(self.rho, other.rho),
        )

    def to_list(self) -> list[Any]:
        """As it is written in a ledger; its end was a matrix, a limit up to privest 0.2."""
        numbers = (self.level, self.mu2, self.epsilon, self.rest, self.rho)
        return [*map(plain_exact, numbers), None]

    @classmethod
    def from_list(cls, given: Sequence[Any]) -> Revealed:
        level, mu2, epsilon, rest, rho, _ = given
        sums = read_exact(mu2), read_exact(epsilon), read_exact(rest)
        return cls(read_number(level), *sums, read_number(rho))

    def peak(self, other: Revealed) -> Revealed:
        """The larger in every unit."""
        return Revealed(
            _largest(self.level, other.level),
            max(self.mu2, other.mu2),
            max(self.epsilon, other.epsilon),
            max(self.rest, other.rest),
            _largest(self.rho, other.rho),
        )


def trace_of(matrix: Matrix) -> Fraction:
    return sum((matrix[i][i] for i in range(len(matrix))), Fraction(0))


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def _largest(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else max(one, other)


# --- as entries hold them -------------------------------------------------------------------------


def plain_exact(value: Any) -> Any:  # noqa: ANN401 - None, a number, levels along a range, a matrix
    if isinstance(value, Runs):
        runs = [[exact_text(level), count] for level, count in value.runs]
        return {"runs": runs, "total": exact_text(value.total)}
    if isinstance(value, tuple):
        return [plain_exact(part) for part in value]
    return None if value is None else exact_text(value)


def read_number(value: object) -> Fraction | None:
    """A number, or None where it is not known. Raises ValueError for anything else."""
    return None if value is None else read_exact(value)


def read_information(value: object) -> Fraction | Runs | Matrix | None:
    """What `plain_exact` made. Raises ValueError, TypeError or KeyError for anything else."""
    if isinstance(value, list):
        if not value or not all(isinstance(r, list) and len(r) == len(value) for r in value):
            raise ValueError("not a square matrix")
        return tuple(tuple(read_exact(x) for x in row) for row in value)
    if not isinstance(value, dict):
        return read_number(value)
    runs = tuple((read_exact(level), read_whole(count)) for level, count in value["runs"])
    return Runs(runs, read_exact(value["total"]))


def read_whole(value: object) -> int:
    """A whole number ≥ 0. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a whole number")
    return value

"""Strategies of a plan: the distribution of its privacy noise, and the unit of privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privest.arrays import Array, Index
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin, literal_root
from privest.mechanism import RowMechanism
from privest.mechanism.source import Law
from privest.privacy import Adjacency, PrivacyLevel, Range, Statement, gdp
from privest.privacy.statement import (
    coin_of,
    grid_statement,
    person_level,
    person_root,
    person_statement,
    pure_epsilon,
    pure_level,
)
from privest.release import extra_variance

Ends = tuple[float, float]
Record = Sequence[tuple[float, float]]  # (level, sensitivity) of values that change together


# --- distributions --------------------------------------------------------------------------------


class _Added:
    """Noise added to z̃ = c·y with weights c = √level.

    pure    whether its ε needs no δ.
    normal  whether it is normal, as intervals of σ² and clipped likelihoods assume.
    bits    whether z is a yes or no.
    """

    name: ClassVar[Any]
    pure: ClassVar[bool] = False
    normal: ClassVar[bool] = False
    bits: ClassVar[bool] = False

    def law(self, level: float, limits: Range | None) -> Law:
        law: Law = self.name
        return law

    def mechanism(self, level: float, limits: Range | None, facts: str) -> RowMechanism:
        ends = None if limits is None else (limits.low, limits.high)
        return RowMechanism(self.law(level, limits), range=ends, facts=facts)

    def scale(self, level: float, limits: Range | None, grid: float) -> tuple[float, float]:
        """Slope and offset of value = slope·z + offset; grid 0: a simulation, already a value."""
        return (float(grid / np.sqrt(level)) if grid else 1.0), 0.0

    def simulated(self, z: Array, level: float) -> Array:
        return z * float(1.0 / np.sqrt(level))

    def require(self, z: Array, where: object) -> None:
        """Refuse released numbers that it cannot have drawn."""


class Gaussian(_Added):
    """z̃ = √s·y + N(0, 1): variance 1/s, ε with a δ."""

    name = "gaussian"
    normal = True

    def epsilon(self, record: Record, delta: float | None) -> float:
        """ε of exact noise on the grid where all values of a record change, to the safe side."""
        level, sensitivity = _together(record)
        return grid_statement(level, sensitivity=sensitivity, delta=_stated(delta)).epsilon

    def factor(self, epsilon: float, delta: float | None, record: Record) -> float:
        """The largest factor on the levels of a record that keeps ε."""
        shape, sensitivity = _together(record)
        found = PrivacyLevel.from_epsilon(
            epsilon, delta=_stated(delta), sensitivity=sensitivity, shape=shape
        )
        return _multiple(found, record)

    def factor_for_chance(self, chance: float, record: Record) -> float:
        """The largest factor at which an attacker tells such records apart with this chance."""
        shape, apart = _together(record)
        return _multiple(PrivacyLevel.from_attacker(apart, chance, shape=shape), record)

    def relative_level(self, epsilon: float, delta: float) -> float:
        """s·R² at an ε over the range R, without the grid: for curves."""
        return gdp.mu_of(epsilon, delta) ** 2

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        """Variance of a released value given the value: 1/s, and the part of the grid."""
        return (1.0 + extra_variance(0.0 if simulated else GRID)) / level


def _together(record: Record) -> tuple[PrivacyLevel, float | Adjacency]:
    levels, bounds = zip(*record, strict=True)
    if len(record) == 1:
        return PrivacyLevel(levels[0]), bounds[0]
    return PrivacyLevel(list(levels)), Adjacency.record(bounds)


def _multiple(found: PrivacyLevel, record: Record) -> float:
    first = found.number if len(record) == 1 else found.for_size(len(record)).diagonal()[0]
    assert first is not None
    return float(first / record[0][0])


def _stated(delta: float | None) -> float:
    if delta is None:
        raise InvalidInput("ε of Gaussian noise needs a delta.")
    return delta


class _Pure(_Added):
    """Noise with a pure ε, the sum over the values of a record; `kind` as `pure_epsilon` has it."""

    pure = True
    kind: ClassVar[Any]

    def epsilon(self, record: Record, delta: float | None) -> float:
        return sum(pure_epsilon(self.kind, level, width) for level, width in record)

    def factor(self, epsilon: float, delta: float | None, record: Record) -> float:
        ((level, width),) = record
        return pure_level(self.kind, epsilon, width) / level


class Laplace(_Pure):
    """z̃ = √s·y + Laplace(1): variance 2/s, pure ε = √s·sensitivity."""

    name = kind = "laplace"

    def relative_level(self, epsilon: float, delta: float) -> float:
        return epsilon**2

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        return (2.0 + (0.0 if simulated else 1.25 * GRID**2)) / level


class RandomisedResponse(_Pure):
    """A yes or no that is flipped with a public probability: pure ε."""

    name, kind = "randomised response", "coin"
    bits = True

    def relative_level(self, epsilon: float, delta: float) -> float:
        return 4 * math.sinh(epsilon / 2) ** 2

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        return 1.0 / float(self.law(level, limits).level)

    def law(self, level: float, limits: Range | None) -> Coin:
        assert limits is not None
        return coin_of(level, (limits.low, limits.high))

    def scale(self, level: float, limits: Range | None, grid: float) -> tuple[float, float]:
        coin = self.law(level, limits)
        return coin.unit, coin.zero

    def simulated(self, z: Array, level: float) -> Array:
        return z

    def require(self, z: Array, where: object) -> None:
        if not ((z == 0) | (z == 1)).all():
            raise InvalidInput(f"{where}: a value is neither 0 nor 1: the table was changed.")


Distribution = Gaussian | Laplace | RandomisedResponse
DISTRIBUTIONS: dict[str, Distribution] = {
    "gaussian": Gaussian(), "laplace": Laplace(), "randomised response": RandomisedResponse(),
}  # fmt: skip


# --- units ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Every row is a person of its own: its values, one per private column, change together."""

    def weights(self, level: float, rows: Index | None) -> Array:
        """The largest doubles c with c² ≤ level."""
        return literal_root(np.array([level]))

    def epsilon(
        self, distribution: Distribution, record: Record, delta: float | None, *, enforced: bool
    ) -> float:
        return distribution.epsilon(record, delta)

    def factor(
        self, distribution: Distribution, epsilon: float, delta: float | None, record: Record
    ) -> float:
        return distribution.factor(epsilon, delta, record)


@dataclass(frozen=True)
class Person(Row):
    """A person has several rows, of level s/r each: all of them together have the level s.

    most    the most rows that any person has.
    capped  every row has the level s/most.
    """

    most: int
    capped: bool = False

    def weights(self, level: float, rows: Index | None) -> Array:
        """The largest doubles c with r·c² ≤ level exactly; `rows` of the person of each row."""
        if self.capped or rows is None:
            return np.array([person_root(level, self.most)])
        counts, place = np.unique(rows, return_inverse=True)
        return np.array([person_root(level, int(r)) for r in counts])[place]

    def divided(self, rows: Index) -> Array:
        return (np.full_like(rows, self.most) if self.capped else rows).astype(float)

    def epsilon(
        self, distribution: Distribution, record: Record, delta: float | None, *, enforced: bool
    ) -> float:
        return self.statement(record, _stated(delta), enforced=enforced).epsilon

    def statement(self, record: Record, delta: float, *, enforced: bool) -> Statement:
        ((level, sensitivity),) = record
        return person_statement(
            level, self.most, sensitivity=sensitivity, capped=self.capped, delta=delta,
            enforced=enforced,
        )  # fmt: skip

    def factor(
        self, distribution: Distribution, epsilon: float, delta: float | None, record: Record
    ) -> float:
        ((level, sensitivity),) = record
        found = person_level(
            epsilon, delta=_stated(delta), rows=self.most, sensitivity=sensitivity,
            capped=self.capped,
        )  # fmt: skip
        return found / level

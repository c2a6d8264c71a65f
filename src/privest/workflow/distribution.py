"""Distributions of the privacy noise: how a level becomes noise, a variance and an ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from privest.errors import InvalidInput
from privest.lattice import GRID, Coin
from privest.mechanism import RowMechanism
from privest.mechanism.source import Law
from privest.privacy import (
    GridStatement,
    OneRecord,
    PrivacyLevel,
    Range,
    coin_of,
    grid_statement,
    level_for_attacker,
    level_on_grid,
    pure_epsilon,
    pure_level,
)
from privest.release import extra_variance

Ends = tuple[float, float]
Record = Sequence[tuple[float, float]]  # (level, sensitivity) of values that change together


class Distribution:
    """Noise added to z̃ = c·y with weights c = √level.

    pure    whether its ε needs no δ.
    """

    name: ClassVar[str]
    pure: ClassVar[bool] = False

    def epsilon(self, record: Record, delta: float | None) -> float:
        """ε where all values of a record change by at most their sensitivities."""
        raise NotImplementedError

    def factor(self, epsilon: float, delta: float | None, record: Record) -> float:
        """The largest factor on the levels of a record that keeps ε."""
        raise NotImplementedError

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        """Variance of a released value given the value itself."""
        raise NotImplementedError

    def law(self, level: float, limits: Range | None) -> Law:
        """As the mechanism draws it."""
        raise NotImplementedError

    def scale(self, level: float, limits: Range | None) -> tuple[float, float]:
        """Slope and offset of value = slope·z + offset, for z in units of 1/√level."""
        return 1.0, 0.0

    def mechanism(self, level: float, limits: Range | None, facts: str) -> RowMechanism:
        """What draws the noise of a column."""
        ends = None if limits is None else (limits.low, limits.high)
        return RowMechanism(self.law(level, limits), range=ends, facts=facts)


class Gaussian(Distribution):
    """z̃ = √s·y + N(0, 1): variance 1/s, ε with a δ."""

    name = "gaussian"

    def statement(self, record: Record, delta: float) -> GridStatement:
        """What a real release promises, with exact noise on its grid."""
        if len(record) == 1:
            level, sensitivity = record[0]
            return grid_statement(level, move=sensitivity, delta=delta)
        levels, moves = zip(*record, strict=True)
        return grid_statement(PrivacyLevel(list(levels)), move=OneRecord(moves), delta=delta)

    def epsilon(self, record: Record, delta: float | None) -> float:
        """That of exact noise on the grid, to the safe side."""
        if delta is None:
            raise InvalidInput("ε of Gaussian noise needs a delta.")
        return self.statement(record, delta).epsilon

    def factor(self, epsilon: float, delta: float | None, record: Record) -> float:
        if delta is None:
            raise InvalidInput("ε of Gaussian noise needs a delta.")
        levels, moves = zip(*record, strict=True)
        if len(record) == 1:
            found = level_on_grid(
                epsilon, delta=delta, move=moves[0], shape=PrivacyLevel(1.0)
            ).number
            assert found is not None
            return float(found / levels[0])
        shape = PrivacyLevel(list(levels))
        made = level_on_grid(epsilon, delta=delta, move=OneRecord(moves), shape=shape)
        return float(made.for_size(len(levels)).diagonal()[0] / levels[0])

    def factor_for_chance(self, chance: float, record: Record) -> float:
        """The largest factor at which an attacker tells such records apart with this chance."""
        levels, apart = zip(*record, strict=True)
        if len(record) == 1:
            found = level_for_attacker(apart[0], chance).number
            assert found is not None
            return float(found / levels[0])
        made = level_for_attacker(OneRecord(apart), chance, PrivacyLevel(list(levels)))
        return float(made.for_size(len(levels)).diagonal()[0] / levels[0])

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        """1/s, and what the grid adds to a real release."""
        return (1.0 + extra_variance(0.0 if simulated else GRID)) / level

    def law(self, level: float, limits: Range | None) -> Law:
        return "gaussian"


class Laplace(Distribution):
    """z̃ = √s·y + Laplace(1): variance 2/s, pure ε = √s·sensitivity."""

    name = "laplace"
    pure = True

    def epsilon(self, record: Record, delta: float | None) -> float:
        """Pure: of several values the sum."""
        return sum(pure_epsilon("laplace", level, move) for level, move in record)

    def factor(self, epsilon: float, delta: float | None, record: Record) -> float:
        ((level, move),) = record
        return pure_level("laplace", epsilon, move) / level

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        """2/s, and what the grid adds to a real release."""
        return (2.0 + (0.0 if simulated else 1.25 * GRID**2)) / level

    def law(self, level: float, limits: Range | None) -> Law:
        return "laplace"


class RandomisedResponse(Distribution):
    """A yes or no that is flipped with a public probability: pure ε."""

    name = "randomised response"
    pure = True

    def epsilon(self, record: Record, delta: float | None) -> float:
        """Pure: of several values the sum."""
        return sum(pure_epsilon("coin", level, move) for level, move in record)

    def factor(self, epsilon: float, delta: float | None, record: Record) -> float:
        ((level, move),) = record
        return pure_level("coin", epsilon, move) / level

    def variance(self, level: float, limits: Range | None, *, simulated: bool) -> float:
        """At both ends of the range."""
        return 1.0 / float(self.law(level, limits).level)

    def law(self, level: float, limits: Range | None) -> Coin:
        assert limits is not None
        return coin_of(level, (limits.low, limits.high))

    def scale(self, level: float, limits: Range | None) -> tuple[float, float]:
        """Of the bits 0 and 1, so that the mean is that of the values."""
        coin = self.law(level, limits)
        return coin.unit, coin.zero


DISTRIBUTIONS: dict[str, Distribution] = {
    one.name: one for one in (Gaussian(), Laplace(), RandomisedResponse())
}

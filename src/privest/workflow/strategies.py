"""The distributions of privacy noise on rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin
from privest.mechanism import RowMechanism
from privest.mechanism.source import Law
from privest.privacy import PrivacyLevel, Range, gdp
from privest.privacy.statement import coin_of, grid_statement, pure_epsilon, pure_level
from privest.release import extra_variance
from privest.workflow.rows_planner import (
    GAUSSIAN_VARIANCE,
    LAPLACE_VARIANCE,
    LOG_MARGIN,
    RowGrid,
    gaussian_rows,
    laplace_rows,
    level_that_keeps,
    response_rows,
)

Ends = tuple[float, float]


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

    def mechanism(self, level: float, limits: Range | None) -> RowMechanism:
        ends = None if limits is None else (limits.low, limits.high)
        return RowMechanism(self.law(level, limits), range=ends)

    def scale_before(self, level: float, limits: Range | None) -> tuple[float, float]:
        """Slope and offset of value = slope·z + offset, of a header of version 4."""
        return float(GRID / np.sqrt(level)), 0.0

    @abstractmethod
    def grid(self, level: float, limits: Range | None, by: float | None = None) -> RowGrid:
        """The steps and noise of rows at a level."""

    def level_at_door(
        self,
        epsilon: float,
        delta: float | None,
        width: float,
        limits: Range | None,
        by: float | None,
    ) -> float:
        """The level at which the whole steps of rows keep ε."""
        return level_that_keeps(
            epsilon, delta, width, lambda level: self.grid(level, limits, by).cost()
        )

    def require(self, z: Array, where: object) -> None:
        """Refuse released numbers that it cannot have drawn."""


class Gaussian(_Added):
    """z̃ = √s·y + N(0, 1): variance 1/s, ε with a δ."""

    name = "gaussian"
    normal = True

    def epsilon(self, level: float, sensitivity: float, delta: float | None) -> float:
        """ε of exact noise on the grid, to the safe side."""
        return grid_statement(level, sensitivity=sensitivity, delta=_stated(delta)).epsilon

    def level_of(self, epsilon: float, delta: float | None, sensitivity: float) -> float:
        """The largest level that keeps ε."""
        found = PrivacyLevel.from_epsilon(epsilon, delta=_stated(delta), sensitivity=sensitivity)
        assert found.number is not None
        return found.number

    def relative_level(self, epsilon: float, delta: float) -> float:
        """s·R² at an ε over the range R, without the grid: for curves."""
        return gdp.mu_of(epsilon, delta) ** 2

    def grid(self, level: float, limits: Range | None, by: float | None = None) -> RowGrid:
        return gaussian_rows(level, limits, by)

    def variance(self, level: float, limits: Range | None) -> float:
        """The most variance of a released value given the value: smooth in the level."""
        return GAUSSIAN_VARIANCE / level

    def variance_before(self, level: float, limits: Range | None) -> float:
        """The same of a header of version 4: 1/s, and the part of its grid."""
        return (1.0 + extra_variance(GRID)) / level


def _stated(delta: float | None) -> float:
    if delta is None:
        raise InvalidInput("ε of Gaussian noise needs a delta.")
    return delta


class _Pure(_Added):
    """Noise with a pure ε; `kind` as `pure_epsilon` has it."""

    pure = True
    kind: ClassVar[Any]

    def epsilon(self, level: float, sensitivity: float, delta: float | None) -> float:
        return pure_epsilon(self.kind, level, sensitivity)

    def level_of(self, epsilon: float, delta: float | None, sensitivity: float) -> float:
        return pure_level(self.kind, epsilon, sensitivity)


class Laplace(_Pure):
    """z̃ = √s·y + Laplace(1): variance 2/s, pure ε = √s·sensitivity."""

    name = kind = "laplace"

    def relative_level(self, epsilon: float, delta: float) -> float:
        return epsilon**2

    def grid(self, level: float, limits: Range | None, by: float | None = None) -> RowGrid:
        return laplace_rows(level, limits, by)

    def variance(self, level: float, limits: Range | None) -> float:
        return LAPLACE_VARIANCE / level

    def variance_before(self, level: float, limits: Range | None) -> float:
        return (2.0 + 1.25 * GRID**2) / level


class RandomisedResponse(_Pure):
    """A yes or no that is flipped with a public probability: pure ε."""

    name: ClassVar[str] = "randomised response"
    kind: ClassVar[str] = "coin"
    bits = True

    def relative_level(self, epsilon: float, delta: float) -> float:
        return 4 * math.sinh(epsilon / 2) ** 2

    def grid(self, level: float, limits: Range | None, by: float | None = None) -> RowGrid:
        return response_rows(level)

    def level_at_door(
        self,
        epsilon: float,
        delta: float | None,
        width: float,
        limits: Range | None,
        by: float | None,
    ) -> float:
        return pure_level("coin", epsilon * LOG_MARGIN, width)

    def variance(self, level: float, limits: Range | None) -> float:
        return 1.0 / float(self.law(level, limits).level)

    variance_before = variance

    def law(self, level: float, limits: Range | None) -> Coin:
        assert limits is not None
        return coin_of(level, (limits.low, limits.high))

    def scale_before(self, level: float, limits: Range | None) -> tuple[float, float]:
        coin = self.law(level, limits)
        return coin.unit, coin.zero

    def require(self, z: Array, where: object) -> None:
        if not ((z == 0) | (z == 1)).all():
            raise InvalidInput(f"{where}: a value is neither 0 nor 1: the table was changed.")


Distribution = Gaussian | Laplace | RandomisedResponse
DISTRIBUTIONS: dict[str, Distribution] = {
    "gaussian": Gaussian(), "laplace": Laplace(), "randomised response": RandomisedResponse(),
}  # fmt: skip

"""The scale of the privacy slider, and the difference between two values that is asked for.

The slider goes by multiplying: at its strict end an unbiased guess of one value has an sd of a
hundred times the public range, at its lax end of a thousandth of it.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, as_positive
from privest.errors import InvalidInput
from privest.workflow import Plan

POSITIONS = 1000
STRICT, LAX = 100.0, 1e-3  # sd of an unbiased guess, in widths of the range
BEYOND = 1e6  # times the ends of the slider: a level that is typed may be so far off
DEVIATIONS = 10.0  # of the noise of the readings, for a range where none is stated
TENTH = 0.1  # of the range: a difference between two values that matters


@dataclass(frozen=True)
class LevelScale:
    """Privacy levels on a slider with positions 0 (strictest) to `POSITIONS`."""

    low: float
    high: float

    def at(self, position: float) -> float:
        """The level there, in three digits."""
        share = min(max(position / POSITIONS, 0.0), 1.0)
        return float(f"{self.low * (self.high / self.low) ** share:.3g}")

    def position(self, level: float) -> int:
        """The nearest position of a level."""
        share = math.log(level / self.low) / math.log(self.high / self.low)
        return round(POSITIONS * min(max(share, 0.0), 1.0))

    def require(self, level: float) -> float:
        """A level that was typed; refused where it means nothing any more."""
        low, high = self.low / BEYOND, self.high * BEYOND
        if not low <= as_positive(level, "level") <= high:
            raise InvalidInput(
                f"the level {level:g} is far off: below {low:.1g} nothing is revealed, above "
                f"{high:.1g} everything. The slider goes from {self.low:.3g} to {self.high:.3g}."
            )
        return level

    def including(self, level: float) -> LevelScale:
        """A scale with this level on it."""
        return LevelScale(min(self.low, level), max(self.high, level))

    def levels(self, count: int = 41) -> Array:
        """Levels from end to end."""
        return np.geomspace(self.low, self.high, count)


def level_scale(plan: Plan) -> LevelScale:
    """From the public range; without one from the noise of the readings, or about the level."""
    now, several = chosen_level(plan), len(plan.columns)
    if several > 1:  # the budget of a record, in units of its columns
        low, high = several / STRICT**2, several / LAX**2
    else:
        width = _width(plan)
        if width is None:
            width = 1 / math.sqrt(10.0 ** round(math.log10(now)))
        low, high = 1 / (STRICT * width) ** 2, 1 / (LAX * width) ** 2
    return LevelScale(low, high).including(now)


def _width(plan: Plan) -> float | None:
    """How far readings lie from each other, as far as it is public."""
    sensitivity = plan.sensitivity(plan.column)
    if sensitivity is not None:
        limits = plan.limits(plan.column)
        return sensitivity if limits is None else limits.width
    variance = plan.column.residual_variance
    return None if variance is None else DEVIATIONS * math.sqrt(variance)


def chosen_level(plan: Plan) -> float:
    """What `Plan.at` takes: the level, or the budget of a record."""
    stated = plan.spec.privacy.level
    if stated is not None:
        return stated
    if len(plan.columns) > 1:
        return float(f"{plan.level:.12g}")
    return plan.level


def level_text(level: float) -> str:
    """A level to be typed again: six digits, never below it (an accuracy that was asked for).

    >>> level_text(0.123456789), level_text(4.0), level_text(2.5e-7)
    ('0.123457', '4', '2.5e-7')
    """
    context = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
    number = context.create_decimal(f"{level:.12g}").normalize()
    if -5 <= number.adjusted() < 7:
        return f"{number:f}"
    return str(number).replace("E+", "e").replace("E", "e")


# --- two values -----------------------------------------------------------------------------------


def takes_apart(plan: Plan) -> bool:
    """Whether it is asked how far apart two values are: of one column, that is no bit."""
    return len(plan.columns) == 1 and plan.distribution.name != "randomised response"


def apart_text(plan: Plan) -> str:
    """The difference to begin with: as stated, or a tenth of the range; after a log a factor."""
    if not takes_apart(plan):
        return ""
    stated, limits = plan.privacy.tolerance, plan.limits(plan.column)
    if stated is None and limits is None:
        return ""
    apart = stated if stated is not None else TENTH * (limits.width if limits else 0.0)
    return f"{math.exp(apart) if plan.model.transform == 'log' else apart:.3g}"


def apart_meant(plan: Plan, typed: float | None) -> float | None:
    """In the units in which readings are modelled; None: not stated."""
    if typed is None:
        return None
    if plan.model.transform == "log":
        if not typed > 1:
            raise InvalidInput("two values differ by a factor above 1: 1.5, say.")
        return math.log(typed)
    if not typed > 0:
        raise InvalidInput("two values that are to be told from each other are more than 0 apart.")
    return typed

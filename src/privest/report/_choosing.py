"""What a level means while one looks for it: the scale of a slider, headlines, a table of errors.

The slider goes by multiplying: at its strict end one reading is known to a hundred times its public
range (nothing is seen of it), at its lax end to a thousandth of it.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace

import numpy as np

from privest.arrays import Array, as_positive
from privest.errors import InvalidInput
from privest.report._canvas import BAND
from privest.report._digits import at_most, rounded, short
from privest.report._exposure import (
    Exposed,
    Headline,
    differs,
    exposed_by,
    exposure,
    headlines,
)
from privest.report._page import TableBlock
from privest.report._plan_words import differential_words
from privest.workflow import Plan, RecordPlan
from privest.workflow._law_plan import LawPlan
from privest.workflow._planning import Guess
from privest.workflow._record import record_statement

POSITIONS = 1000
STRICT, LAX = 100.0, 1e-3  # ± of one reading, in widths of its range
BEYOND = 1e6  # times the ends of the slider: a level that is typed may be so far off
DEVIATIONS = 10.0  # of the noise of the readings, for a range where none is stated
LARGE = 10.0  # an ε above it startles those who know it
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
                f"the level {level:g} is far off: below {low:.1g} nothing at all is seen, above "
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
    if plan.limits is not None:
        return plan.limits.width
    if plan.move is not None:
        return plan.move
    variance = plan.noise_variance
    return None if variance is None else DEVIATIONS * math.sqrt(variance)


def chosen_level(plan: Plan) -> float:
    """What `Plan.at` takes: the level, or the budget of a record."""
    stated = plan.spec.privacy.level
    if stated is not None:
        return stated
    if len(plan.columns) > 1:
        return float(f"{sum(c.level * (c.scale or 1.0) ** 2 for c in plan.columns):.12g}")
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
    return len(plan.columns) == 1 and plan.column.law in ("gaussian", "laplace")


def apart_text(plan: Plan) -> str:
    """The difference to begin with: as stated, or a tenth of the range; after a log a factor."""
    if not takes_apart(plan):
        return ""
    stated, limits = plan.spec.privacy.tolerance, plan.limits
    if stated is None and limits is None:
        return ""
    apart = stated if stated is not None else TENTH * (limits.width if limits else 0.0)
    return f"{math.exp(apart) if plan.transform == 'log' else apart:.3g}"


def apart_meant(plan: Plan, typed: float | None) -> float | None:
    """In the units in which readings are modelled; None: not stated."""
    if typed is None:
        return None
    if plan.transform == "log":
        if not typed > 1:
            raise InvalidInput("two values differ by a factor above 1: 1.5, say.")
        return math.log(typed)
    if not typed > 0:
        raise InvalidInput("two values that are to be told from each other are more than 0 apart.")
    return typed


# --- in words -------------------------------------------------------------------------------------


def choice_headlines(plan: Plan, apart: float | None) -> list[Headline]:
    """What others will know about one person, and ε as a consequence."""
    found = [line for one in _exposed(plan, apart) for line in headlines(one)]
    if plan.epsilon is not None:
        after = differential_words(plan)[0].split(f"ε = {at_most(plan.epsilon)}", 1)[1]
        after = " ".join([after.lstrip(", "), *_nearer_words(plan, plan.epsilon, apart)])
        found.append(Headline("As differential privacy", f"ε = {at_most(plan.epsilon)}", after))
    return found


def _nearer_words(plan: Plan, epsilon: float, apart: float | None) -> list[str]:
    """Of a large ε: of what it speaks, and what it is for values that are nearer to each other."""
    if epsilon <= LARGE:
        return []
    if len(plan.columns) > 1:
        return _nearer_records(plan)
    column, move = plan.column, plan.move
    if not takes_apart(plan) or apart is None or move is None or not apart < move:
        return []
    ends = column.limits is not None and move == column.limits.width
    far = "at the two ends of the range" if ends else f"that {differs(move, plan.transform)}"
    near = replace(column, move=apart).epsilon
    return [_speaks(f"values {far}", f"two that {differs(apart, plan.transform)}", near)]


def _nearer_records(plan: Plan) -> list[str]:
    """The same of whole records, a tenth of every range apart."""
    widths = [column.limits.width for column in plan.columns if column.limits is not None]
    if len(widths) < len(plan.columns):
        return []
    near = record_statement(
        tuple(replace(one, move=TENTH * width) for one, width in zip(plan.columns, widths))
    )
    return [
        _speaks(
            "records at the two ends of every range", "two that are a tenth of each range apart",
            None if near is None else near.epsilon,
        )
    ]  # fmt: skip


def _speaks(far: str, near: str, epsilon: float | None) -> str:
    assert epsilon is not None  # as that of the larger difference is not
    return f"So large an ε speaks of {far}; for {near} it is {at_most(epsilon)}."


def choice_words(plan: Plan, apart: float | None) -> list[str]:
    """The sentences behind the headlines: what `exposure` says besides."""
    said = [exposure(one) for one in _exposed(plan, apart)]
    return [line for lines in said for line in (lines[2:] if len(lines) > 1 else lines)]


def _exposed(plan: Plan, apart: float | None) -> list[Exposed]:
    if len(plan.columns) > 1:
        widths = [None if c.limits is None else TENTH * c.limits.width for c in plan.columns]
        return [replace(one, apart=w) for one, w in zip(exposed_by(plan), widths)]
    return [one if apart is None else replace(one, apart=apart) for one in exposed_by(plan)]


@dataclass(frozen=True)
class Half:
    """The ± (95 %) of one coefficient: without privacy (None: not known), and with it.

    alone  with privacy is by privacy alone: the noise of the readings is not known.
    guess  what it would be if σ² is the largest of the plan's guesses.
    """

    name: str
    open: float | None
    private: float
    alone: bool = False
    guess: float | None = None

    @property
    def times(self) -> float:
        """How much larger with privacy; 1 where that is not known."""
        return 1.0 if self.open is None else self.private / self.open


def parts_of(plan: Plan) -> tuple[Plan, ...]:
    """A plan for each private column."""
    return plan.plans if isinstance(plan, RecordPlan) else (plan,)


def halves(plan: Plan) -> list[Half]:
    """Of every coefficient (of every private column)."""
    found = []
    for part in parts_of(plan):
        open_, private, alone = part.classical_error, part.standard_error, False
        if part.noise_variance is None and not isinstance(part, LawPlan):
            private, alone = part.privacy_error, True
        guesses = _guesses(plan) if alone else ()
        for j, (name, one, two) in enumerate(zip(plan.names, open_.tolist(), private.tolist())):
            label = name if len(plan.columns) == 1 else f"{part.column.target}: {name}"
            known = math.isfinite(one) and not alone
            guess = BAND * float(guesses[-1].standard_error[j]) if guesses else None
            found.append(Half(label, BAND * one if known else None, BAND * two, alone, guess))
    return found


def choice_table(plan: Plan) -> TableBlock:
    """The ± (95 %) of every coefficient, with and without privacy."""
    every = halves(plan)
    if every[0].alone:
        return _guess_table(plan, every)
    rows: list[tuple[str, ...]] = [
        (one.name, "not known" if one.open is None else _pm(one.open), _pm(one.private),
         "" if one.open is None else f"{short(one.times)} ×")
        for one in every
    ]  # fmt: skip
    header = ("coefficient", "without privacy", "with privacy", "times")
    return TableBlock(
        header, rows,
        f"{_caption(plan)}: the truth lies within so much of the estimate in 95 of 100 such "
        "studies.",
    )  # fmt: skip


def _guess_table(plan: Plan, every: list[Half]) -> TableBlock:
    """Where nobody states the noise of the readings: what privacy adds, and three guesses."""
    guesses = _guesses(plan)
    header = ("coefficient", "by privacy alone", *(
        f"if σ² = {short(guess.noise_variance)}" for guess in guesses
    ))  # fmt: skip
    rows = [
        (one.name, _pm(one.private),
         *(_pm(BAND * float(guess.standard_error[j])) for guess in guesses))
        for j, one in enumerate(every)
    ]  # fmt: skip
    return TableBlock(
        header, rows,
        f"{_caption(plan)}. By privacy alone: what the noise of the release adds; how much "
        f"readings vary comes on top{', as in the guesses' if guesses else ''}.",
    )  # fmt: skip


def _caption(plan: Plan) -> str:
    """Of what the table is; after a logarithm in which units."""
    logarithms = plan.spec.transform == "log" or plan.spec.family != "gaussian"
    units = ", as logarithms (± 0.01 is about 1 %)" if logarithms else ""
    return f"± (95 %) of every coefficient{units}"


def _guesses(plan: Plan) -> tuple[Guess, ...]:
    """Of one column, of which nobody stated the noise variance."""
    return plan.guesses if len(plan.columns) == 1 else ()


def _pm(half: float) -> str:
    return f"± {rounded(half, half)}" if math.isfinite(half) else "not known"


def cost_words(plan: Plan) -> str:
    """What the level costs, in one sentence."""
    every = halves(plan)
    if every[0].alone:
        return (
            "How much readings vary where all features are equal (their noise variance σ²) is not "
            "stated: what privacy adds is exact, and the release itself will show the rest. "
            + ("Guesses: if σ² is a third of the noise that is added, the same, or three times it."
               if _guesses(plan) else "")
        ).strip()  # fmt: skip
    known = [one.times for one in every if one.open is not None]
    if not known:
        return "What errors would be without privacy is not known before the release."
    low, high = min(known), max(known)
    if high < 1.005:
        return "Errors are practically those without privacy."
    ends = short(low) if short(low) == short(high) else f"{short(low)} to {short(high)}"
    return f"Errors are {ends} times those without privacy."

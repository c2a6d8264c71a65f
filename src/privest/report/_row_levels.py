"""Who gives up how much, where every row has a level of its own: in sentences and one picture.

All of it is public: levels follow from features and from what was asked for, not from readings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import CONFIDENCE
from privest.records import quantile
from privest.report._canvas import INK, PRIVATE, narrow_figure, tidy
from privest.report._digits import at_least, at_most, short
from privest.report._exposure import level_number, level_words
from privest.report._page import Picture
from privest.workflow import AllocatedPlan

if TYPE_CHECKING:
    from privest.report._canvas import Figure

BARS = 24
# Gaps that are none to a reader.
CLOSE = {
    1e-6: "one part in a million", 1e-5: "one part in a hundred thousand",
    1e-4: "one part in ten thousand",
}  # fmt: skip
FRAGILE = 5  # degrees of freedom that a few missing readings use up
FEW = 25  # degrees of freedom from which on Student's t is near the normal law
SAME = 0.005  # of a total or an error: smaller differences are none to a reader


def levels_words(found: AllocatedPlan) -> list[str]:
    """From where to where the levels go, who bears them, what that saves, and how sure that is."""
    return [_range(found), *_few(found), *_who(found), *_saved(found), *_proved(found)]


def _range(found: AllocatedPlan) -> str:
    own = found.spread
    silent = f" Of {100 * own.silent:.3g} % of the rows nothing is shown." if own.silent else ""
    ends = f"from {level_number(own.least)} to {at_most(own.most)}"
    if own.least == own.most:
        return f"Every row has the {level_words(own.most)}."
    return (
        f"Rows have privacy levels of their own (larger shows more), by their public features: "
        f"{ends}, the middle one {level_number(own.median)}, the mean {level_number(own.mean)}."
        f"{silent} What is promised to everybody is the largest: no reading is known better than "
        f"to ± {at_least(own.most**-0.5)}, one standard deviation, in the units in which it is "
        "modelled."
    )


def _few(found: AllocatedPlan) -> list[str]:
    """Designs that show few rows: their intervals are wide, and a missing reading hurts."""
    shown = int(np.count_nonzero(found.row_levels()))
    freedom = shown - len(found.names)
    if freedom >= FEW or freedom < 1:
        return []
    wider = quantile(CONFIDENCE, float(freedom)) / quantile(CONFIDENCE)
    lines = [
        f"Only {shown} rows are shown, for {len(found.names)} coefficients. Intervals that do not "
        f"take the noise variance as known have {freedom} degree{'s' if freedom > 1 else ''} of "
        f"freedom: {short(wider)} times as wide as the ± above."
    ]
    if freedom < FRAGILE:
        lines.append(
            "If readings of these rows are missing, little or nothing is left to estimate from: a "
            "cap on the levels (--cap) spreads them over more rows."
        )
    return lines


def _who(found: AllocatedPlan) -> list[str]:
    """Who bears how much, and by what they stand out."""
    own = found.spread
    levels, leverage = found.row_levels(), found.leverage
    first = np.argsort(levels)[::-1][: max(1, round(len(levels) / 10))]
    out = float(leverage[first].mean() / leverage.mean())
    if own.least == own.most:
        return []
    why = (
        f"; by their features they stand out {short(out)} times as much as a row does on average "
        "(leverage)"
    )
    return [
        f"The tenth of the rows with the highest levels bears {100 * own.top:.3g} % of all that is "
        f"shown{why if out > 1 + SAME else ''}."
    ]


def _saved(found: AllocatedPlan) -> list[str]:
    """What levels of the rows save, against the same one for all."""
    own, asked = found.spread, found.column.levels
    if own.least == own.most:
        return []
    ratios = own.equal_error / found.standard_error
    listed = ", ".join(f"{name} {short(float(r))}" for name, r in zip(found.names, ratios))
    lines = []
    if asked is not None and asked.standard_error and np.isfinite(own.equal):
        saved = 1 - own.mean / own.equal
        lines.append(
            f"With the same level for every row these errors take s = {level_number(own.equal)}: "
            f"levels per row show {100 * saved:.3g} % less in total, and the row that shows most "
            f"{short(own.most / own.equal)} times as much."
        )
    lines.append(
        "With the same total, shared equally, standard errors would be so many times these: "
        f"{listed}."
    )
    return lines


def _proved(found: AllocatedPlan) -> list[str]:
    """How far from the best the levels are at most; a gap is said."""
    design = found.design
    if design is None:
        return []
    if design.direction == "equalised":
        return ["No levels give these errors with a lower largest one (proved)."]
    what = "show less in total" if design.direction == "target" else "do better"
    close = next((words for gap, words in CLOSE.items() if found.gap <= gap), None)
    if close is not None:
        return [f"No levels within the same limits {what} by more than {close} (proved)."]
    return [
        f"How far from the best these levels are is known to {at_most(100 * found.gap)} % only: "
        f"none within the same limits {what} by more than that (proved)."
    ]


def levels_picture(found: AllocatedPlan) -> Picture:
    """How many rows have which level; the words have the quartiles."""
    own = found.spread
    quartiles = ", ".join(level_number(float(one)) for one in own.quartiles)
    return Picture(
        levels_figure(found),
        f"How many rows have which privacy level: quartiles {quartiles}; "
        f"{100 * own.silent:.3g} % show nothing.",
        "Bars: rows by their privacy level (larger shows more). Dashed: the mean, which equal "
        "levels with the same total would have.",
    )


def levels_figure(found: AllocatedPlan) -> Figure:
    """A histogram of the levels, and the mean."""
    with narrow_figure(2.8) as figure:
        axes = figure.subplots()
        axes.hist(found.row_levels(), bins=BARS, color=PRIVATE, alpha=0.75)
        axes.axvline(found.spread.mean, color=INK, linestyle="--", linewidth=1.2)
        axes.set_xlabel("privacy level of a row")
        axes.set_ylabel("rows")
        tidy(axes)
    return figure

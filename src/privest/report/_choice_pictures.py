"""Two pictures that follow a slider: intervals with and without privacy, and errors against levels.

Before a release there is no estimate: intervals are drawn about the truth, whatever it is. Units of
coefficients differ, so every row is in its own, with the interval without privacy as the measure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.report._canvas import INK, OPEN, PRIVATE, shown
from privest.report._choosing import Half, LevelScale, chosen_level, halves, parts_of
from privest.report._digits import rounded, short, span
from privest.report._drawing import Drawn
from privest.report._svg import Sketch
from privest.report._tradeoff import COLOURS, alike, multiples
from privest.workflow import Plan
from privest.workflow._law_plan import LawPlan

WIDTH, MARGIN = 400, 10
ROW = 46
MOST_ROWS = 24
LEAST_TIMES = 2.5  # the narrow bar is never longer than this part of the picture
PALE = "#b8c4d0"
SVG_DASHES = ("", "8 3", "3 2", "9 3 3 3", "1.5 1.5")


class Sketched(NamedTuple):
    """A drawing, in words for those who do not see it, and the line below it."""

    drawn: Drawn
    alt: str
    caption: str


def intervals_sketch(plan: Plan) -> Sketched:
    """A row for each coefficient: the width of its 95 % interval with and without privacy."""
    every = halves(plan)
    drawn, known = every[:MOST_ROWS], not every[0].alone and every[0].open is not None
    full = max(LEAST_TIMES, *(1.04 * one.times for one in drawn)) if known else 1.0
    picture = Sketch(WIDTH, ROW * len(drawn) + 46)
    for place, one in enumerate(drawn):
        _row(picture, one, MARGIN + ROW * place, full)
    foot = MARGIN + ROW * len(drawn) + 12
    middle = WIDTH / 2
    picture.line([(middle, MARGIN + 18), (middle, foot - 16)], INK, 1, "3 3")
    _key(picture, foot, PRIVATE, 4, "by privacy alone" if every[0].alone else "with privacy", 0)
    if known:
        _key(picture, foot, OPEN, 11, "without privacy", 150)
    elif every[0].guess is not None:
        largest = short(plan.guesses[-1].noise_variance)
        _key(picture, foot, PALE, 11, f"if σ² is {largest}", 190)
    each = "; ".join(f"{one.name} {_numbers(one)}" for one in drawn)
    more = len(every) - len(drawn)
    caption = (
        "How far an estimate may lie from the truth (dashed line), 95 % of the time. Thin: with "
        "privacy. Thick: without. Every row is in units of its own."
        if known
        else "What privacy alone adds, each row in units of its own. How much readings vary (σ²) "
        "is not stated, and comes on top."
    )
    caption += f" {more} more are in the table." if more else ""
    return Sketched(picture.drawn(), f"± of the 95 % intervals: {each}.", caption)


def _row(picture: Sketch, one: Half, top: float, full: float) -> None:
    middle, reach = WIDTH / 2, WIDTH / 2 - MARGIN
    picture.text(MARGIN, top + 12, shown(one.name, 24).replace(r"\$", "$"), weight=650)
    picture.text(WIDTH - MARGIN, top + 12, _numbers(one), "end")
    if one.open is not None:
        half = reach / full
        picture.bar(middle - half, top + 21, 2 * half, 11, OPEN)
    share = one.times / full
    if one.guess is not None:
        picture.bar(middle - reach, top + 21, 2 * reach, 11, PALE)
        share = one.private / one.guess
    half = reach * share
    picture.bar(middle - half, top + 25, 2 * half, 3.5, PRIVATE)


def _numbers(one: Half) -> str:
    with_ = f"± {rounded(one.private, one.private)}"
    if one.open is None:
        return with_
    return f"± {rounded(one.open, one.open)} → {with_}"


def _key(picture: Sketch, y: float, colour: str, height: float, text: str, x: float) -> None:
    picture.bar(MARGIN + x, y - height / 2 - 4, 28, height, colour)
    picture.text(MARGIN + x + 36, y, text)


# --- errors against levels ------------------------------------------------------------------------


class _Frame:
    """Log axes: levels across, multiples up."""

    left, right, top, bottom = 58, WIDTH - 16, 40, 250

    def __init__(self, scale: LevelScale, low: float, high: float) -> None:
        self.scale, self.low, self.high = scale, low, high

    def x(self, level: float) -> float:
        share = np.log(level / self.scale.low) / np.log(self.scale.high / self.scale.low)
        return float(self.left + share * (self.right - self.left))

    def y(self, times: float) -> float:
        share = np.log(times / self.low) / np.log(self.high / self.low)
        return float(self.bottom - share * (self.bottom - self.top))


def curve_sketch(plan: Plan, scale: LevelScale) -> Sketched:
    """The errors at every level of the slider, and the chosen one."""
    now = chosen_level(plan)
    scale = scale.including(now)
    levels = np.unique(np.append(scale.levels(), now))
    ratios, known = _ratios(plan, levels / now)
    at = ratios[int(np.searchsorted(levels, now))]
    top = max(float(ratios.max()), 1.2)
    frame = _Frame(scale, 0.97 if known else float(ratios.min()), top * 1.1)
    picture = Sketch(WIDTH, 320)
    ticks = multiples(top) if known else [10.0**k for k in range(-6, 7)]
    _axes(picture, frame, ticks)
    what = "error compared with no privacy" if known else "what privacy adds, compared with now"
    picture.text(MARGIN, 16, what, weight=650)
    x = frame.x(now)
    picture.line([(x, frame.top), (x, frame.bottom)], INK, 1, "2 3")
    side, shift = ("start", 8) if x < WIDTH / 2 else ("end", -8)
    picture.text(x + shift, frame.top + 12, f"chosen: s = {short(now)}", side)
    groups = alike(ratios)
    for place, group in enumerate(groups):
        colour, dash = COLOURS[place % len(COLOURS)], SVG_DASHES[place % len(COLOURS)]
        line = ratios[:, group[0]]
        points = [(frame.x(s), frame.y(r)) for s, r in zip(levels.tolist(), line.tolist())]
        picture.line(points, colour, 2.5, dash)
        picture.dot(x, frame.y(float(at[group[0]])), colour, 6)
    alt = (
        f"Curve against the privacy level s, from {short(scale.low)} to {short(scale.high)}: "
        + (f"errors fall from {span(ratios[0])} to {span(ratios[-1])} those without privacy; at "
           f"the chosen level s = {short(now)} they are {span(at)}." if known else
           "what privacy adds halves when the level is four times as large.")
    )  # fmt: skip
    caption = (
        "To the left nearly nothing can be learnt about one reading, and errors grow; to the right "
        "they come down to 1×, the errors without privacy."
        if known
        else "Four times the level halves what privacy adds. With a noise variance of the readings "
        "(a guess from public knowledge) this would be errors compared with no privacy."
    )
    return Sketched(picture.drawn(), alt, caption)


def _ratios(plan: Plan, times: Array) -> tuple[Array, bool]:
    """(levels, coefficients): errors at these multiples of the level, over those without privacy.

    Where these are not known: of what privacy adds, over that of now.
    """
    found, known = [], True
    for part in parts_of(plan):
        levels = [float(part.level * one) for one in times]
        open_ = part.classical_error
        if part.noise_variance is None and not isinstance(part, LawPlan):
            known = False
            added = 1 / np.sqrt(times)
            found.append(np.repeat(added[:, None], len(part.names), axis=1))
        elif not np.isfinite(open_).all():
            known = False
            errors = np.array([part.errors_at(level) for level in levels])
            found.append(errors / part.standard_error)
        else:
            found.append(np.array([part.errors_at(level) for level in levels]) / open_)
    return np.concatenate(found, axis=1), known


def _axes(picture: Sketch, frame: _Frame, ticks: list[float]) -> None:
    for times in ticks:
        if not frame.low <= times <= frame.high:
            continue
        y = frame.y(times)
        picture.line([(frame.left, y), (frame.right, y)], PALE, 0.7)
        picture.text(frame.left - 7, y + 4, f"{times:,g}×", "end", 12)
    first, last = np.log10([frame.scale.low, frame.scale.high])
    powers = list(range(int(np.ceil(first)), int(np.floor(last)) + 1))
    for power in powers[:: max(1, -(-len(powers) // 6))]:
        x = frame.x(10.0**power)
        picture.line([(x, frame.bottom), (x, frame.bottom + 5)], INK)
        picture.text(x, frame.bottom + 20, short(10.0**power), "middle", 12)
    picture.line([(frame.left, frame.bottom), (frame.right, frame.bottom)], INK)
    picture.text(WIDTH / 2, frame.bottom + 46, "privacy level s   (stricter ←   → laxer)", "middle")

"""The three charts as SVG: intervals with and without privacy, errors against level, exposure.

No viewBox and x in percent: letters stay 15 px at every width. Blue is with privacy, grey is
without; bars never overlap. Colours are classes of the page's style sheet, so that a chart follows
the theme and a Content-Security-Policy without inline styles. Every label is a number that
`numbers` rounds.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from privest.report import numbers
from privest.report.findings import Coefficient
from privest.report.sections import Chart, Sentence, printable

ROW = 76  # pixels of a coefficient: name, blue bar, grey bar
LEFT, RIGHT = 16.0, 84.0  # percent: ends have room for their numbers
CURVE = 240  # pixels
TOP, BOTTOM = 12.0, 190.0  # of the curve
TICKS = [d * 10.0**p for p in range(-9, 10) for d in (1, 2, 5)]
MOST_NAME = 40


def svg(chart: Chart) -> str:
    """The chart as an element of a page."""
    body, height = DRAWN[chart.mark](chart.data)
    alt = escape(printable(chart.alt.text))
    return f'<svg class="chart" height="{height}" role="img" aria-label="{alt}">{body}</svg>'


def _text(x: str, y: float, said: str, *, anchor: str = "start", dx: int = 0, strong: bool = False,
          ) -> str:  # fmt: skip
    return (
        f'<text x="{x}" y="{y:g}"{f" dx={chr(34)}{dx}{chr(34)}" if dx else ""} '
        f'text-anchor="{anchor}"{" class=" + chr(34) + "strong" + chr(34) if strong else ""}>'
        f"{escape(printable(said))}</text>"
    )


def _bar(start: float, end: float, y: float, height: int, kind: str) -> str:
    width = max(end - start, 0.2)
    return (
        f'<rect class="{kind}" x="{start:.2f}%" y="{y:g}" width="{width:.2f}%" height="{height}" '
        'rx="2"/>'
    )


def intervals(every: Sequence[Coefficient]) -> tuple[str, int]:
    """A row for each coefficient on its own scale; all share the dashed line at zero."""
    zero = _zero_place(every)
    height = 20 + ROW * len(every)
    parts = [
        f'<line class="zero" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="18" y2="{height}"/>',
        _text(f"{zero:.2f}%", 14, numbers.end(0.0), anchor="middle"),
    ]
    for k, one in enumerate(every):
        y, place = 20 + ROW * k, _scale(one, zero)
        low, high = place(one.low), place(one.high)
        name = textwrap.shorten(one.name, MOST_NAME, placeholder=" …") or "?"
        size = one.error
        parts += [
            _text("0", y + 20, name, strong=True),
            _text("100%", y + 20, numbers.value((one.estimate, size)), anchor="end", strong=True),
            _bar(low, high, y + 32, 12, "with"),
            f'<circle class="dot" cx="{place(one.estimate):.2f}%" cy="{y + 38}" r="4"/>',
            _text(f"{low:.2f}%", y + 43, numbers.value((one.low, size)), anchor="end", dx=-6),
            _text(f"{high:.2f}%", y + 43, numbers.value((one.high, size)), dx=6),
        ]
        if one.low_open is not None and one.high_open is not None:
            parts.append(_bar(place(one.low_open), place(one.high_open), y + 48, 8, "without"))
    return "".join(parts), height


def _zero_place(every: Sequence[Coefficient]) -> float:
    """Where zero is, in percent: at an end if all intervals are on one side of it."""
    shares = [max(-one.low, 0.0) / (max(one.high, 0.0) - min(one.low, 0.0)) for one in every]
    middle = float(np.median(shares))
    if min(shares) < max(shares) or 0 < middle < 1:
        middle = min(max(middle, 0.2), 0.8)
    return LEFT + (RIGHT - LEFT) * middle


def _scale(one: Coefficient, zero: float) -> Callable[[float], float]:
    """The largest scale on which the interval fits beside the common zero."""
    room = []
    if one.high > 0:
        room.append((RIGHT - zero) / one.high)
    if one.low < 0:
        room.append((zero - LEFT) / -one.low)
    unit = min(room)
    return lambda x: zero + unit * x


def curve(data: Mapping[str, Any]) -> tuple[str, int]:
    """Errors as multiples of those without privacy against the level; both axes multiply."""
    levels, lines = np.asarray(data["levels"], float), list(data["lines"])
    top = max(float(np.max(line)) for line in lines)
    reach = math.log(max(top, 1.2))

    def x(level: float) -> float:
        share = math.log(level / levels[0]) / math.log(levels[-1] / levels[0])
        return LEFT / 2 + (100 - LEFT) * share

    def y(ratio: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * math.log(max(ratio, 1.0)) / reach

    parts = []
    for tick in _ticks(1.0, top, 5):
        place = y(tick)
        parts.append(f'<line class="sep" x1="{LEFT / 2}%" x2="100%" y1="{place:.1f}" '
                     f'y2="{place:.1f}"/>')  # fmt: skip
        parts.append(_text("0", place + 5, f"{numbers.near(tick)}×"))
    parts += [
        _text(f"{x(tick):.2f}%", BOTTOM + 24, numbers.near(tick), anchor="middle")
        for tick in _ticks(levels[0], levels[-1], 5)
    ]
    for line in lines:
        points = " ".join(f"{x(a):.3f},{y(b):.2f}" for a, b in zip(levels, np.asarray(line)))
        parts.append(
            f'<svg x="0" y="0" width="100%" height="{CURVE}" viewBox="0 0 100 {CURVE}" '
            'preserveAspectRatio="none"><polyline class="line" vector-effect="non-scaling-stroke" '
            f'points="{points}"/></svg>'
        )
        chosen = data["chosen"]
        ratio = math.exp(float(np.interp(math.log(chosen), np.log(levels), np.log(line))))
        parts += [
            f'<circle class="chosen" cx="{x(chosen):.2f}%" cy="{y(ratio):.1f}" r="6"/>',
            _text(f"{x(chosen):.2f}%", y(ratio) - 10, f"{numbers.near(ratio)}×", dx=8, strong=True),
        ]
    parts.append(_text("100%", BOTTOM + 46, Sentence("level_axis").text, anchor="end"))
    return "".join(parts), CURVE


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two, at most so many."""
    inside = [tick for tick in TICKS if low * 0.999 <= tick <= high * 1.001]
    return inside[:: max(1, math.ceil(len(inside) / most))]


def exposure(data: Mapping[str, float]) -> tuple[str, int]:
    """The reader's sd without that person's row (grey) and after the release (blue)."""
    before, after = data["before"], data["after"]
    unit = (RIGHT - 4) / before
    keys = (
        ("exposure_bar_after", after, 12, "with"),
        ("exposure_bar_before", before, 8, "without"),
    )
    parts = []
    for k, (key, number, height, kind) in enumerate(keys):
        y = 44 * k
        said = numbers.down(number) if kind == "with" else numbers.near(number)
        parts += [
            _text("0", y + 16, Sentence(key).text),
            _bar(0.0, unit * number, y + 24, height, kind),
            _text(f"{unit * number:.2f}%", y + 35, said, dx=6, strong=True),
        ]
    return "".join(parts), 92


DRAWN: dict[str, Callable[[Any], tuple[str, int]]] = {
    "intervals": intervals, "curve": curve, "exposure": exposure,
}  # fmt: skip

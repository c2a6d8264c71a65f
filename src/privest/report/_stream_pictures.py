"""Pictures of a stream as it goes: what others see of it. (`trail_picture` has its estimates.)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.report._canvas import BAND, PRIVATE, narrow_figure, shown, tidy
from privest.report._digits import plural, short
from privest.report._page import Picture

if TYPE_CHECKING:
    from privest.report._canvas import Figure

MOST_SHOWN = 160  # points beside each other that can still be told apart


def released_picture(numbers: Array, values: Array, error: float, name: str) -> Picture:
    """The last releases, each with the band in which 95 % of the noise lies.

    numbers  of the readings, from 1; values: what was released, as a reading with its noise, NaN
    where nothing was; error: the deviation of that noise.
    """
    numbers, values = numbers[-MOST_SHOWN:], values[-MOST_SHOWN:]
    there = np.isfinite(values)
    figure = released_figure(numbers, values, error, name)
    gone = len(values) - int(there.sum())
    none = f" {plural(gone, 'missing reading')} among them: nothing is shown." if gone else ""
    seen = ""
    if there.any():
        low, high = short(float(values[there].min())), short(float(values[there].max()))
        seen = f", from {low} to {high}"
    return Picture(
        figure,
        f"The last {plural(len(values), 'release')} of {name}{seen}, each with a bar of "
        f"± {short(BAND * error)} for its noise.{none}",
        f"Dot: a reading with its noise. Bar: ± {short(BAND * error)} about it, "
        "in which the true reading lies in 95 of 100 cases. The readings themselves are nowhere "
        "on this page.",
    )


def released_figure(numbers: Array, values: Array, error: float, name: str) -> Figure:
    """Dots with bars of the noise, against the number of the reading."""
    if not len(values) or len(values) != len(numbers):
        raise InvalidInput(
            f"a picture of releases needs one or more of them, and a number for each; received "
            f"{len(values)} values and {len(numbers)} numbers."
        )
    with narrow_figure(2.3) as figure:
        axes = figure.subplots()
        when, seen = np.asarray(numbers, dtype=float), np.asarray(values)
        there = np.isfinite(seen)
        axes.vlines(
            when[there], seen[there] - BAND * error, seen[there] + BAND * error, color=PRIVATE,
            alpha=0.25, lw=1.4,
        )  # fmt: skip
        axes.plot(when[there], seen[there], ".", color=PRIVATE, ms=4)
        axes.set_xlim(when[0] - 1, when[-1] + 1)
        axes.set_xlabel("reading")
        axes.set_title(shown(name), loc="left", pad=3, fontsize=11, fontweight="bold")
        axes.locator_params(nbins=5)
        tidy(axes, 0.3, lw=0.7)
    return figure

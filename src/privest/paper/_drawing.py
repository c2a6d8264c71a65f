"""What the four figures have in common: measured means with bands, and ratios to a bound below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.report.figures import BAND
from privest.report.figures import new_figure as new_figure
from privest.report.figures import save as save

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes

P = TypeVar("P")
BOUND: dict[str, Any] = {"color": "black", "lw": 2.0, "ls": "--"}
COLOURS = (
    "#1b9e77", "#d95f02", "#e6ab02", "#7570b3", "#66a61e", "#a6761d", "#e7298a", "#1f78b4",
    "#b2182b", "#17becf", "#666666",
)  # fmt: skip
MARKS = "osD^vPX<>pd*h"
# After every round of colours another dash; marks go round on their own: 429 styles.
DASHES = ("-", "-.", ":")
WORDS = (
    "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven",
    "Twelve",
)  # fmt: skip


def styles(count: int) -> list[dict[str, Any]]:
    """So many ways to draw a curve, told apart by colour, mark and dash."""
    return [
        {
            "colour": COLOURS[i % len(COLOURS)],
            "marker": MARKS[i % len(MARKS)],
            "ls": DASHES[i // len(COLOURS) % len(DASHES)],
        }
        for i in range(count)
    ]


def in_words(count: int) -> str:
    """How many mechanisms, as a sentence begins.

    >>> in_words(7), in_words(1), in_words(20)
    ('Seven mechanisms', 'One mechanism', '20 mechanisms')
    """
    number = WORDS[count - 1] if count <= len(WORDS) else str(count)
    return f"{number} mechanism{'s' if count > 1 else ''}"


def curves(
    points: Sequence[P], names: Iterable[str], *, by: str, along: str
) -> Iterator[tuple[str, list[P]]]:
    """The points of every name that has some, in order; none is left out in silence."""
    names = list(names)
    strange = {str(getattr(p, by)) for p in points} - set(names)
    if strange:
        raise InvalidInput(
            f"there is no curve for the points of {', '.join(sorted(strange))}; there are curves "
            f"for {', '.join(names)}."
        )
    for name in names:
        own = [p for p in points if getattr(p, by) == name]
        if own:
            yield name, sorted(own, key=lambda p: getattr(p, along))


def columns(points: Sequence[object], *names: str) -> list[Array]:
    """One field of all points a column."""
    return [np.array([float(getattr(p, name)) for p in points]) for name in names]


def mean(
    axes: Axes, x: Array, middle: Array, error: Array, *, unit: float | Array = 1.0, colour: str,
    shade: float = 0.2, **line: Any,  # noqa: ANN401 - what matplotlib takes
) -> None:  # fmt: skip
    """Measured means with their 95 % band, in some unit; for a log scale: it has no place for 0."""
    half = BAND * error
    low = np.maximum(middle - half, 0.5 * middle)
    axes.fill_between(x, low / unit, (middle + half) / unit, color=colour, alpha=shade, lw=0)
    axes.plot(x, middle / unit, color=colour, **line)


def floor(axes: Axes, points: Sequence[object], along: str, label: str, zorder: float = 2) -> None:
    """The private bound of the points, each place once."""
    places, bounds = columns(points, along, "bound")
    once = sorted(set(zip(places.tolist(), bounds.tolist())))
    axes.plot(*zip(*once), **BOUND, label=label, zorder=zorder)


def steps_and_ratios(above: Axes, below: Axes) -> None:
    """Axes of the recursive experiments: errors along a stream, and their ratios to the bound."""
    above.set_yscale("log")
    above.yaxis.set_major_formatter("{x:g}")
    above.set_ylabel("mean-square error of θ̂, summed\n(units of the response, squared)")
    above.legend(frameon=False, fontsize=9, loc="upper right")
    below.axhline(1.0, **BOUND)
    below.set_ylabel("ratio to the bound")
    below.set_xlabel("readings k of a stream")
    open_frame(above, below)


def open_frame(*every: Axes) -> None:
    """Light grids, no frame above and at the right."""
    for axes in every:
        axes.grid(which="major", alpha=0.3)
        axes.grid(which="minor", alpha=0.1)
        axes.spines[["top", "right"]].set_visible(False)

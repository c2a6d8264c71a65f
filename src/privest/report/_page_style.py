"""Narrow figures for a page: letters that stay readable when a phone shows them 330 pixels wide.

A figure is 4.3 inches (310 points) wide, so a type of 11 points is one of 11 pixels on the phone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privest.report._canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.3
PRIVATE = "#1f5fa8"
OPEN = "#e08214"
INK = "#2b3137"
# Apart in hue and in lightness; each line has a dash of its own besides.
COLOURS = ("#1f5fa8", "#c2410c", "#0f766e", "#7e3fa0", "#8a6d00")
DASHES = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (1, 1)))

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 11.5,
    "axes.labelsize": 11,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "legend.fontsize": 10.5,
    "axes.edgecolor": "#8a939c",
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
}


@contextmanager
def narrow_figure(height: float) -> Iterator[Figure]:
    """An empty figure, with letters of the right size for what is drawn inside the `with`."""
    figure = new_figure(WIDTH, height)
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield figure


def tidy(axes: Axes) -> None:
    """Light grid, open frame."""
    axes.grid(which="major", alpha=0.3, lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)


def shown(name: str, most: int = 34) -> str:
    """A name as matplotlib may draw it: one line, not too long, `$` as a plain sign."""
    readable = name.encode("utf-8", "replace").decode()
    return textwrap.shorten(readable, most, placeholder=" …").replace("$", r"\$") or "?"

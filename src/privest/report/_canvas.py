"""Figures to draw on, without a screen; matplotlib is loaded when the first one is made.

Those of a page are narrow: 4.3 inches (310 points) wide, so that a type of 11 points is one of 11
pixels when a phone shows them 330 pixels wide.
"""

from __future__ import annotations

import io
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import InvalidInput, MissingDependency
from privest.files import atomic_write, require_writable
from privest.report._letters import fit_to_fonts
from privest.report._words import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

PICTURES = (".png", ".pdf", ".svg")
BAND = 1.959964  # deviations: 95 % of a normal law
# 95 % of a two-dimensional Gaussian lies within √(χ²₂ quantile) = √(−2 ln 0.05) deviations.
RADIUS = float(np.sqrt(-2.0 * np.log(1.0 - CONFIDENCE)))

WIDTH = 4.3
PRIVATE = "#1f5fa8"
OPEN = "#e08214"
INK = "#2b3137"
# The same colours on dark paper, for readers who asked for it.
DARK = {
    "#ffffff": "#14181c", "#000000": "#e4e8ec", INK: "#e4e8ec", "#8a939c": "#7b858f",
    "#b0b0b0": "#6a747e", "#b8c4d0": "#4a5866", PRIVATE: "#6aaef2", OPEN: "#f0a040",
    "#c2410c": "#ff9068", "#0f766e": "#4fc4b8", "#7e3fa0": "#cf9bea", "#8a6d00": "#e0c050",
}  # fmt: skip
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

# Settings of matplotlib are of the whole process: two threads that draw at once would leave theirs
# to each other, and to whoever draws next. One at a time.
DRAWING = threading.RLock()


def require_files(data: Path | None, png: Path | None) -> None:
    """Refuse what cannot be written before hours of work: folders, unknown kinds of pictures."""
    for path in (data, png):
        if path is not None:
            require_writable(path)
    if png is not None and png.suffix.lower() not in PICTURES:
        raise InvalidInput(f"{png}: the figure can be {', '.join(PICTURES)}.")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingDependency(
            "Figures need matplotlib: install the extra 'plot', for example with "
            'pip install ".[plot]" in the source folder.'
        ) from missing
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def narrow_figure(height: float) -> Iterator[Figure]:
    """An empty figure, with letters of the right size for what is drawn inside the `with`."""
    figure = new_figure(WIDTH, height)
    from matplotlib import rc_context

    with DRAWING, rc_context(STYLE):
        yield figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure, whole or not at all, making its folder if need be."""
    picture = io.BytesIO()
    fit_to_fonts(figure)
    with DRAWING:
        figure.savefig(picture, format=path.suffix.lower().removeprefix("."), dpi=130)
    atomic_write(path, picture.getvalue())


def tidy(axes: Axes, alpha: float = 0.25, **grid: Any) -> None:  # noqa: ANN401
    """Light grid, open frame."""
    axes.grid(alpha=alpha, **grid)
    axes.spines[["top", "right"]].set_visible(False)


def draw_band(
    axes: Axes, x: Array, mean: Array, error: Array, colour: str, *, alpha: float, **line: Any,  # noqa: ANN401
) -> tuple[Array, Array]:  # fmt: skip
    """A line and its 95 % band; the two edges of the band."""
    low, high = mean - BAND * error, mean + BAND * error
    axes.fill_between(x, low, high, color=colour, alpha=alpha, lw=0)
    axes.plot(x, mean, color=colour, **line)
    return low, high


def ellipse_points(covariance: Array, count: int = 241) -> Array:
    """(count, 2) points on the boundary of the 95 % region of N(0, covariance), 2×2."""
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    points: Array = ((vectors * np.sqrt(np.maximum(values, 0.0))) @ circle * RADIUS).T
    return points


def shown(name: str, most: int = 34) -> str:
    """A name as matplotlib may draw it: one line, not too long, `$` as a plain sign."""
    line = textwrap.shorten(printable(name), most, placeholder=" …")
    return line.replace("$", r"\$") or "?"

"""Figures of streams, dynamic models and the paper's examples, by matplotlib."""

from __future__ import annotations

import io
import textwrap
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.files import atomic_write, require_writable
from privest.lazy import needed
from privest.report.numbers import BAND as BAND
from privest.report.sections import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

    from privest.dynamics import Diagnosis

PICTURES = (".png", ".pdf", ".svg")
COLOURS = ("#4c72b0", "#c44e52", "#55a868", "#8172b3")
PANELS = 50  # of a figure: a longer one is more than matplotlib draws
MOST = 3000  # points of a line: more than a screen has
DRAWING = threading.RLock()  # settings of matplotlib are of the whole process: one at a time


def require_files(data: Path | None, png: Path | None) -> None:
    """Refuse what cannot be written before hours of work: folders, unknown kinds of pictures."""
    for path in (data, png):
        if path is not None:
            require_writable(path)
    if png is not None and png.suffix.lower() not in PICTURES:
        raise InvalidInput(f"{png}: the figure can be {', '.join(PICTURES)}.")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    matplotlib = needed("matplotlib.figure", "Figures need matplotlib", "plot")
    figure: Figure = matplotlib.Figure(figsize=(width, height), layout="constrained")
    import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    picture = io.BytesIO()
    with DRAWING:
        figure.savefig(picture, format=path.suffix.lower().removeprefix("."), dpi=130)
    atomic_write(path, picture.getvalue())


def tidy(axes: Axes, **grid: Any) -> None:  # noqa: ANN401
    axes.grid(alpha=0.25, **grid)
    axes.spines[["top", "right"]].set_visible(False)


def shown(name: str, most: int = 34) -> str:
    """A name as matplotlib may draw it: one line, not too long, `$` as a plain sign."""
    line = textwrap.shorten(printable(name), most, placeholder=" …")
    return line.replace("$", r"\$") or "?"


# --- along time -----------------------------------------------------------------------------------


class Trail:
    """Estimates and standard errors along a stream of any length, thinned to `most` points.

    When it is full every other point is dropped, and from then on only every second one is taken.
    """

    most: int
    stride: int
    seen: int

    def __init__(self, most: int = 2000) -> None:
        self.most, self.stride, self.seen = most, 1, 0
        self.points: list[tuple[int, Array, Array]] = []

    def add(self, step: int, estimate: Array, error: Array) -> None:
        if self.seen % self.stride == 0:
            self.points.append((step, estimate, error))
        self.seen += 1
        if len(self.points) >= self.most:
            self.points = self.points[::2]
            self.stride *= 2

    def columns(self) -> tuple[Array, Array, Array]:
        """Measurements so far (P,), estimates and errors (P, n)."""
        steps, estimates, errors = zip(*self.points)
        return np.array(steps) + 1, np.array(estimates), np.array(errors)


@dataclass(frozen=True)
class Curve:
    """One estimate of a series: its times, its middle, and the edges of its band, each (K,)."""

    name: str
    times: Array
    middle: Array
    low: Array
    high: Array

    @classmethod
    def of_errors(cls, name: str, mean: Array, error: Array, times: Array | None = None) -> Curve:
        """With the 95% band of its standard errors."""
        when = np.arange(float(len(mean))) if times is None else times
        return cls(name, when, mean, mean - BAND * error, mean + BAND * error)


@dataclass(frozen=True)
class Panel:
    """Estimates of one series; `truth`: times and values, where they may be shown."""

    title: str
    curves: Sequence[Curve]
    truth: tuple[Array, Array] | None = None


def save_panels(
    panels: Sequence[Panel], path: Path, *, title: str, time_name: str = "step"
) -> None:
    """Write the figure: a panel for each series, a line and a band for each estimate of it."""
    figure = new_figure(8.5, 1.0 + 2.2 * len(panels))
    every = figure.subplots(len(panels), 1, squeeze=False, sharex=True).ravel()
    for axes, panel in zip(every, panels):
        for colour, one in zip(COLOURS, panel.curves):
            thin = _thinned(one.times)
            when = one.times[thin]
            axes.fill_between(when, one.low[thin], one.high[thin], color=colour, alpha=0.2, lw=0)
            axes.plot(when, one.middle[thin], color=colour, lw=1.3, label=one.name)
        if panel.truth is not None:
            axes.plot(*panel.truth, color="#222222", lw=0.9, ls="--", label="true")
        axes.set_title(shown(panel.title, 100), fontsize=10, loc="left")
        tidy(axes)
    every[0].legend(fontsize=8, frameon=False, ncols=4, loc="best")
    every[-1].set_xlabel(time_name)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def save_convergence(trail: Trail, names: Sequence[str], path: Path) -> None:
    """Write the figure: one panel per parameter, a line for θ̂_k and its 95% band.

    The first estimates are wild: they are left out, a tenth of the steps.
    """
    steps, estimates, errors = (one[len(one) // 10 :] for one in trail.columns())
    panels = [
        Panel(name, [Curve.of_errors("estimate", mean, error, steps)])
        for name, mean, error in zip(names[:PANELS], estimates.T, errors.T)
    ]
    few = "" if len(names) <= PANELS else f" (the first {PANELS} of {len(names)} parameters)"
    title = f"Private estimates and 95% intervals, from releases alone{few}"
    save_panels(panels, path, title=title, time_name="measurements")


def _thinned(points: Array) -> slice:
    return slice(None, None, max(1, len(points) // MOST))


# --- innovations ----------------------------------------------------------------------------------


def save_diagnosis(diagnosis: Diagnosis, path: Path) -> None:
    """Write the figure: ζ over time, and its autocorrelations with their bands."""
    figure = new_figure(9.0, 3.4)
    time, lags = figure.subplots(1, 2)
    drawn = min(len(COLOURS), diagnosis.innovations.shape[2])
    _draw_time(time, [diagnosis.innovations[0, :, j] for j in range(drawn)])
    _draw_lags(lags, diagnosis, drawn)
    for axes in (time, lags):
        tidy(axes)
    if drawn > 1:
        time.legend(fontsize=8, frameon=False, ncols=drawn, loc="upper right")
    # matplotlib's constrained layout keeps room for a title of several lines
    figure.suptitle("\n".join(textwrap.wrap(diagnosis.verdict, 115)), fontsize=9)
    save(figure, path)


def _draw_time(axes: Axes, entries: list[Array]) -> None:
    for j, own in enumerate(entries):
        thin = _thinned(own)
        axes.plot(
            np.arange(len(own))[thin], own[thin], ".-", color=COLOURS[j], lw=0.5, ms=2.5,
            alpha=0.8, label=f"innovation {j}",
        )  # fmt: skip
    for edge in (-BAND, BAND):
        axes.axhline(edge, color="#444444", lw=0.8, ls="--")
    axes.set_title("innovations, in standard deviations", fontsize=10, loc="left")
    axes.set_xlabel("step")


def _draw_lags(axes: Axes, diagnosis: Diagnosis, drawn: int) -> None:
    lags = np.arange(1, diagnosis.lags + 1)
    apart = 0.6 / drawn
    for j in range(drawn):
        own, band = diagnosis.autocorrelations[:, j, j], diagnosis.band[:, j, j]
        place = lags + apart * (j - (drawn - 1) / 2)
        axes.vlines(place, 0.0, own, color=COLOURS[j], lw=2.0)
        for side in (-1, 1):
            axes.plot(place, side * band, color=COLOURS[j], lw=0.9, ls="--")
    axes.axhline(0.0, color="#444444", lw=0.8)
    axes.set_title(
        f"autocorrelations, and {100 * diagnosis.confidence:g}% bands of white noise",
        fontsize=10, loc="left",
    )  # fmt: skip
    axes.set_xlabel("lag (steps)")

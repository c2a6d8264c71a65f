"""Figures of a series as releases show it, and as it is foreseen: lines with bands of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privest.arrays import Array
from privest.report._canvas import new_figure, save, shown, tidy
from privest.report._streams import COLOURS, MOST


@dataclass(frozen=True)
class Course:
    """One estimate of a series: its times, its middle, and the edges of its band, each (K,)."""

    name: str
    times: Array
    middle: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class CoursePanel:
    """Estimates of one series; `truth`: times and values, where they may be shown."""

    title: str
    courses: Sequence[Course]
    truth: tuple[Array, Array] | None = None


def save_courses(
    panels: Sequence[CoursePanel], path: Path, *, title: str, time_name: str = "step"
) -> None:
    """Write the figure: a panel for each series, a line and a band for each estimate of it."""
    figure = new_figure(8.5, 1.0 + 2.4 * len(panels))
    every = figure.subplots(len(panels), 1, squeeze=False, sharex=True).ravel()
    for axes, panel in zip(every, panels):
        for colour, course in zip(COLOURS, panel.courses):
            thin = slice(None, None, max(1, len(course.times) // MOST))
            when = course.times[thin]
            edges = course.low[thin], course.high[thin]
            axes.fill_between(when, *edges, color=colour, alpha=0.2, lw=0)
            axes.plot(when, course.middle[thin], color=colour, lw=1.3, label=course.name)
        if panel.truth is not None:
            axes.plot(*panel.truth, color="#222222", lw=0.8, ls="--", label="true")
        axes.set_title(shown(panel.title, 100), fontsize=10, loc="left")
        tidy(axes)
    every[0].legend(fontsize=8, frameon=False, ncols=4, loc="best")
    every[-1].set_xlabel(time_name)
    figure.suptitle(title, fontsize=11)
    save(figure, path)

"""Figures along time: estimates of a stream, states of a dynamic model, a track in the plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.report._canvas import draw_band, ellipse_points, new_figure, save, shown, tidy

COLOURS = ("#4c72b0", "#c44e52", "#55a868", "#8172b3")
MOST = 3000  # points of a line: more than a screen has


class Trail:
    """Estimates and standard errors along a stream of any length, thinned to `most` points.

    When it is full every other point is dropped and only every second one is taken from then on.
    """

    def __init__(self, most: int = 2000) -> None:
        self.most, self.stride, self.seen = most, 1, 0
        self.points: list[tuple[int, Array, Array]] = []

    def add(self, step: int, estimate: Array, error: Array) -> None:
        """One more point of the stream."""
        if self.seen % self.stride == 0:
            self.points.append((step, estimate, error))
        self.seen += 1
        if len(self.points) >= self.most:
            self.points = self.points[::2]
            self.stride *= 2

    def columns(self, most: int | None = None) -> tuple[Array, Array, Array]:
        """Readings so far (P,), estimates and errors (P, n); at most so many, the ends among them.

        The first estimates are wild: pictures have the scale of what comes after a tenth.
        """
        last = len(self.points) - 1
        kept = np.unique(np.linspace(0, last, min(most or last + 1, last + 1)).astype(int))
        steps, estimates, errors = zip(*(self.points[k] for k in kept))
        return np.array(steps) + 1, np.array(estimates), np.array(errors)


def save_convergence(trail: Trail, names: Sequence[str], path: Path) -> None:
    """Write the figure: one panel a parameter, a line for θ̂_k and its 95 % band."""
    columns = min(3, math.ceil(math.sqrt(len(names))))
    lines = -(-len(names) // columns)
    figure = new_figure(4.2 * columns, 2.9 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True).ravel()
    steps, estimates, errors = trail.columns()
    late = slice(len(steps) // 10, None)
    for j, (axes, name) in enumerate(zip(panels, names)):
        edges = draw_band(axes, steps, estimates[:, j], errors[:, j], COLOURS[0], alpha=0.2, lw=1.4)
        axes.axhline(estimates[-1, j], color="#444444", lw=0.7, ls=":")
        # Where there is no interval there is no band: the line alone then gives the scale.
        low = np.nanmin([edges[0][late], estimates[late, j]])
        high = np.nanmax([edges[1][late], estimates[late, j]])
        room = 0.1 * (high - low) or 1.0
        axes.set_ylim(low - room, high + room)
        axes.set_title(shown(name), fontsize=10, loc="left")
        tidy(axes)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(names) - columns) : len(names)]:
        axes.set_xlabel("readings")
        axes.tick_params(labelbottom=True)
    figure.suptitle("Private estimates and 95 % intervals, from releases alone", fontsize=11)
    save(figure, path)


@dataclass(frozen=True)
class Line:
    """One estimate of one state: mean and standard error (K,)."""

    name: str
    mean: Array
    error: Array


@dataclass(frozen=True)
class Panel:
    """One state: the estimates of it, and the truth where it is known (simulations)."""

    title: str
    lines: Sequence[Line]
    truth: Array | None = None


def save_states(
    panels: Sequence[Panel], path: Path, *, title: str, times: Array | None = None,
    time_name: str = "step",
) -> None:  # fmt: skip
    """Write the figure: one panel a state, a line and its 95 % band for each estimate."""
    figure = new_figure(8.5, 1.0 + 2.1 * len(panels))
    every = figure.subplots(len(panels), 1, squeeze=False, sharex=True).ravel()
    for axes, panel in zip(every, panels):
        steps = len(panel.lines[0].mean)
        thin = slice(None, None, max(1, steps // MOST))
        when = (np.arange(float(steps)) if times is None else times)[thin]
        for colour, line in zip(COLOURS, panel.lines):
            mean, error = line.mean[thin], line.error[thin]
            draw_band(axes, when, mean, error, colour, alpha=0.18, lw=1.3, label=line.name)
        if panel.truth is not None:
            axes.plot(when, panel.truth[thin], color="#222222", lw=0.9, ls="--", label="true")
        axes.set_title(shown(panel.title, 80), fontsize=10, loc="left")
        tidy(axes)
    every[0].legend(fontsize=8, frameon=False, ncols=4, loc="best")
    every[-1].set_xlabel(time_name)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


@dataclass(frozen=True)
class Track:
    """A path in the plane: positions (K, 2) and their covariances (K, 2, 2)."""

    name: str
    positions: Array
    covariances: Array


def save_plane(
    tracks: Sequence[Track], path: Path, *, title: str, truth: Array | None = None,
    points: Array | None = None, unit: str = "m", ellipses: int = 12,
) -> None:  # fmt: skip
    """Write the figure: tracks with some 95 % ellipses, released points, the true path."""
    figure = new_figure(7.5, 6.0)
    axes = figure.subplots()
    if points is not None:
        axes.plot(*points.T, ".", color="#999999", ms=3, alpha=0.6, label="released")
    for colour, track in zip(COLOURS, tracks):
        axes.plot(*track.positions.T, color=colour, lw=1.5, label=track.name)
        for k in np.linspace(0, len(track.positions) - 1, ellipses).astype(int):
            edge = track.positions[k] + ellipse_points(track.covariances[k], 60)
            axes.fill(*edge.T, color=colour, alpha=0.12, lw=0)
    if truth is not None:
        axes.plot(*truth.T, color="#222222", lw=0.9, ls="--", label="true")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"east ({unit})")
    axes.set_ylabel(f"north ({unit})")
    axes.legend(fontsize=8, frameon=False)
    tidy(axes)
    figure.suptitle(title, fontsize=11)
    save(figure, path)

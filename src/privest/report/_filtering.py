"""Figures of dynamic models: states along time, a track in the plane, and what privacy costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.report._canvas import new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND = 1.959964  # deviations: 95 % of a normal law
COLOURS = ("#4c72b0", "#c44e52", "#55a868", "#8172b3")
MOST = 3000  # points of a line: more than a screen has


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
        when = np.arange(float(steps)) if times is None else times
        thin = slice(None, None, max(1, steps // MOST))
        for colour, line in zip(COLOURS, panel.lines):
            _band(axes, when[thin], line.mean[thin], line.error[thin], colour, line.name)
        if panel.truth is not None:
            axes.plot(when[thin], panel.truth[thin], color="#222222", lw=0.9, ls="--", label="true")
        axes.set_title(panel.title, fontsize=10, loc="left")
        _plain(axes)
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
        shown = np.linspace(0, len(track.positions) - 1, ellipses).astype(int)
        for k in shown:
            axes.fill(
                *_ellipse(track.positions[k], track.covariances[k]),
                color=colour,
                alpha=0.12,
                lw=0,
            )
    if truth is not None:
        axes.plot(*truth.T, color="#222222", lw=0.9, ls="--", label="true")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"east ({unit})")
    axes.set_ylabel(f"north ({unit})")
    axes.legend(fontsize=8, frameon=False)
    _plain(axes)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def _band(axes: Axes, when: Array, mean: Array, error: Array, colour: str, name: str) -> None:
    axes.fill_between(
        when, mean - BAND * error, mean + BAND * error, color=colour, alpha=0.18, lw=0
    )
    axes.plot(when, mean, color=colour, lw=1.3, label=name)


def _ellipse(centre: Array, covariance: Array) -> tuple[Array, Array]:
    """The edge of the 95 % region of a plane normal law: χ²₂ at 95 % is 5.9915."""
    angle = np.linspace(0, 2 * np.pi, 60)
    values, vectors = np.linalg.eigh(covariance)
    half = vectors * np.sqrt(np.maximum(values, 0.0) * 5.991465)
    edge = centre[:, None] + half @ np.stack([np.cos(angle), np.sin(angle)])
    return edge[0], edge[1]


def _plain(axes: Axes) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)

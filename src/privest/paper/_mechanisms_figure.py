"""Figure: measured error of every mechanism against the privacy level, above one bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privest.paper._fig1 import METHODS, Point
from privest.report._canvas import new_figure, save

COLOURS = ("#1b9e77", "#d95f02", "#e6ab02", "#7570b3", "#66a61e", "#a6761d", "#e7298a")
MARKS = "osD^vPX"
BAND = 1.959964


def save_mechanisms(points: Sequence[Point], path: Path) -> None:
    """Write the figure: mean-square error with 95 % bands on a log scale, and the bound."""
    figure = new_figure(9.2, 6.0)
    axes = figure.subplots()
    for name, colour, mark in zip(METHODS, COLOURS, MARKS):
        own = sorted((p for p in points if p.mechanism == name), key=lambda p: p.s)
        if not own:
            continue
        s = np.array([p.s for p in own])
        mean = np.array([p.mse for p in own])
        half = BAND * np.array([p.standard_error for p in own])
        low = np.maximum(mean - half, 0.5 * mean)  # a band below zero has no place on this scale
        axes.fill_between(s, low, mean + half, color=colour, alpha=0.2, lw=0)
        axes.plot(
            s, mean, color=colour, lw=1.2, marker=mark, ms=4.5, label=METHODS[name].label,
            markevery=max(1, len(s) // 12),
        )  # fmt: skip
    floor = sorted({(p.s, p.bound) for p in points})
    axes.plot(
        [s for s, _ in floor], [b for _, b in floor], color="black", lw=2.0, ls="--",
        label="private bound: no expected error below", zorder=5,
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("privacy level s (Fisher information about each reading, S = sI)")
    axes.set_ylabel("mean-square error of θ̂, summed")
    trials = max(p.trials for p in points)
    axes.set_title(
        f"Seven mechanisms at the same privacy level, {trials:,} trials a point", loc="left"
    )
    axes.grid(which="major", alpha=0.3)
    axes.grid(which="minor", alpha=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    save(figure, path)

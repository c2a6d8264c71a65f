"""Figures: private estimates on real people, step by step, above the private bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.paper import _fig2 as fig2
from privest.paper import _fig3 as fig3
from privest.report._canvas import new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND = 1.959964  # deviations: 95 % of a normal law
OUTSIDE = 0.05
COLOURS = {"gaussian": "#1b9e77", "laplace": "#d95f02", "binary": "#7570b3"}
MARKS = {"gaussian": "o", "laplace": "s", "binary": "^"}
STYLES = {"data": ("#1b9e77", "o"), "synthetic": ("#7570b3", "^")}


def save_recursive(points: Sequence[fig2.Point], path: Path, source: str) -> None:
    """Write `fig:pprls-non-syms`: the error on a log scale, and its ratio to the bound with bands.

    A band is where the mean lies in 95 of 100 cases, at one k, if the bound is attained.
    """
    figure = new_figure(8.6, 7.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    names = {"data": source, "synthetic": "synthetic readings, same people"}
    for name, (colour, mark) in STYLES.items():
        own = sorted((p for p in points if p.series == name), key=lambda p: p.k)
        if not own:
            continue
        k, mse, bound = _columns(own, "k", "mse", "bound")
        low, high = fig2.chance_of(own).band(OUTSIDE)
        below.fill_between(k, low / bound, high / bound, color=colour, alpha=0.18, lw=0)
        few = max(1, len(k) // 16)
        for axes, values in ((above, mse), (below, mse / bound)):
            axes.plot(
                k, values, color=colour, lw=1.3, marker=mark, ms=4.5, markevery=few,
                label=f"private RLS, {names[name]}",
            )  # fmt: skip
        if name == "data":
            (expected,) = _columns(own, "expected")
            below.plot(
                k, expected / bound, color=colour, lw=1.2, ls=":",
                label="bound + error of the reference estimate",
            )  # fmt: skip
    floor = sorted({(p.k, p.bound) for p in points})
    above.plot(*zip(*floor), color="black", lw=2.0, ls="--", label="private bound tr Σ_PPCR")
    below.axhline(1.0, color="black", lw=2.0, ls="--")
    one = points[0]
    above.set_title(
        f"Private recursive least squares against its bound\n{source}: {one.blocks} streams, "
        f"{one.repetitions} repetitions",
        loc="left",
    )
    below.set_ylabel("ratio to the bound")
    below.set_title("shaded: 95 % of chance if the bound is attained", loc="left", fontsize=9)
    below.legend(frameon=False, fontsize=9, loc="upper right")
    _finish(above, below)
    save(figure, path)


def save_rivals(points: Sequence[fig3.Point], path: Path, source: str) -> None:
    """Write `fig:pprls-syms`: three pairs on a log scale with 95 % bands, and their ratios."""
    figure = new_figure(8.6, 7.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, label in fig3.SERIES.items():
        own = sorted((p for p in points if p.series == name), key=lambda p: p.k)
        if not own:
            continue
        k, mse, error, bound, theory = _columns(
            own, "k", "mse", "standard_error", "bound", "theory"
        )
        low = np.maximum(mse - BAND * error, 0.5 * mse)  # below zero has no place on this scale
        high, few = mse + BAND * error, max(1, len(k) // 16)
        for axes, unit in ((above, np.ones_like(bound)), (below, bound)):
            axes.fill_between(k, low / unit, high / unit, color=COLOURS[name], alpha=0.18, lw=0)
            axes.plot(
                k, mse / unit, color=COLOURS[name], lw=1.3, marker=MARKS[name], ms=4.5,
                markevery=few, label=label,
            )  # fmt: skip
        if name != fig3.OURS:
            below.plot(k, theory / bound, color=COLOURS[name], lw=1.2, ls=":")
    floor = sorted({(p.k, p.bound) for p in points})
    above.plot(
        *zip(*floor), color="black", lw=2.0, ls="--", label="private bound, for unbiased estimates"
    )
    below.axhline(1.0, color="black", lw=2.0, ls="--")
    one = points[0]
    above.set_title(
        f"Three mechanisms at the same privacy level\n{source}: {one.blocks} streams, "
        f"{one.repetitions} repetitions, 95 % bands",
        loc="left",
    )
    below.set_yscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10]
    below.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    below.set_yticks([], minor=True)
    below.set_ylabel("ratio to the bound")
    below.set_title("dotted: theory of each (one bit: for many readings)", loc="left", fontsize=9)
    _finish(above, below)
    save(figure, path)


def _columns(points: Sequence[fig2.Point] | Sequence[fig3.Point], *names: str) -> list[Array]:
    return [np.array([float(getattr(p, name)) for p in points]) for name in names]


def _finish(above: Axes, below: Axes) -> None:
    above.set_yscale("log")
    above.yaxis.set_major_formatter("{x:g}")
    above.set_ylabel("mean-square error of θ̂, summed\n(units of the response, squared)")
    above.legend(frameon=False, fontsize=9, loc="upper right")
    below.set_xlabel("readings k of a stream")
    for axes in (above, below):
        axes.grid(which="major", alpha=0.3)
        axes.grid(which="minor", alpha=0.1)
        axes.spines[["top", "right"]].set_visible(False)

"""Figure: the error ellipse growing as privacy tightens, beside the bound against the level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.paper._first import LevelCurve
from privest.report._canvas import new_figure, save
from privest.report._pair import ellipse_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_ellipses(curve: LevelCurve, shown: Array, path: Path, *, pair: tuple[int, int]) -> None:
    """Write the figure: ellipses of two parameters at the levels `shown`, and the whole curve."""
    figure = new_figure(12.5, 5.4)
    from matplotlib import colormaps

    left, right = figure.subplots(1, 2)
    colours = colormaps["viridis"](np.linspace(0.0, 0.85, len(shown)))
    _draw_ellipses(left, curve, shown, colours, pair)
    _draw_curve(right, curve, shown, colours)
    save(figure, path)


def _draw_ellipses(
    axes: Axes, curve: LevelCurve, shown: Array, colours: Array, pair: tuple[int, int]
) -> None:
    index = np.ix_(pair, pair)
    for s, colour in zip(shown, colours):
        at = int(np.abs(curve.levels - s).argmin())
        x, y = ellipse_points(curve.bounds[at].ppcrlb[index]).T
        axes.plot(x, y, color=colour, lw=1.8, label=f"s = {s:g}")
        axes.fill(x, y, color=colour, alpha=0.05)
    x, y = ellipse_points(curve.bounds[0].classical[index]).T
    axes.fill(x, y, color="black", alpha=0.85, label="no privacy")
    axes.set_aspect("equal", adjustable="datalim")
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)
    axes.set_xlabel(f"error of θ[{pair[0]}]")
    axes.set_ylabel(f"error of θ[{pair[1]}]")
    total = len(curve.bounds[0].classical)
    axes.set_title(f"Smallest possible 95 % error ellipse (2 of {total} parameters)")
    axes.legend(title="level S = sI", loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _draw_curve(axes: Axes, curve: LevelCurve, shown: Array, colours: Array) -> None:
    axes.loglog(curve.levels, curve.traces, color="black", lw=2, label="private bound  tr Σ_PPCR")
    axes.loglog(
        curve.levels,
        curve.costs,
        color="tab:red",
        lw=1.4,
        ls="--",
        label="of which privacy  tr (Σ_PPCR − Σ_CR)",
    )
    axes.axhline(
        curve.classical, color="0.4", lw=1.2, ls=":", label="no privacy  tr Σ_CR", zorder=0
    )
    for s, colour in zip(shown, colours):
        at = int(np.abs(curve.levels - s).argmin())
        axes.plot(s, curve.traces[at], "o", color=colour, ms=7)
    axes.set_xlabel("privacy level s   (strict  ←   →  lax)")
    axes.set_ylabel("least mean-square error, sum over θ")
    axes.set_title("What the privacy level costs")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(loc="upper right", fontsize=9)

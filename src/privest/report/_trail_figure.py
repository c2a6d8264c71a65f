"""Figure: how the private estimates settle as releases come in; one narrow panel a coefficient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privest.errors import InvalidInput
from privest.report._convergence import BAND, Trail
from privest.report._digits import tick_format
from privest.report._page_style import INK, PRIVATE, narrow_figure, shown, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 300  # a phone has no more pixels across
PANEL, REST = 1.25, 0.5  # inches


def trail_figure(trail: Trail, names: Sequence[str]) -> Figure:
    """θ̂_k (line) with its 95 % band, against the number of readings, for each coefficient.

    The last estimate is dotted. The first tenth of the trail may leave the panel: the earliest
    estimates are wild, and the scale is that of the rest.
    """
    if len(trail.points) < 2:
        raise InvalidInput(
            f"a picture of the stream needs two or more estimates; received {len(trail.points)}."
        )
    last = len(trail.points) - 1
    kept = np.unique(np.linspace(0, last, min(MOST_POINTS, last + 1)).astype(int))
    points = [trail.points[k] for k in kept]
    steps = np.array([step for step, _, _ in points]) + 1
    estimates = np.array([estimate for _, estimate, _ in points])
    halves = BAND * np.array([error for _, _, error in points])
    if estimates.shape[1] != len(names):
        raise InvalidInput(
            f"the trail has {estimates.shape[1]} coefficients; received {len(names)} names."
        )
    low, high = estimates - halves, estimates + halves
    late = slice(len(steps) // 10, None)
    with narrow_figure(PANEL * len(names) + REST) as figure:
        panels = figure.subplots(len(names), 1, squeeze=False, sharex=True).ravel()
        for j, (axes, name) in enumerate(zip(panels, names)):
            axes.fill_between(steps, low[:, j], high[:, j], color=PRIVATE, alpha=0.2, lw=0)
            axes.plot(steps, estimates[:, j], color=PRIVATE, lw=1.8)
            axes.axhline(estimates[-1, j], color=INK, lw=0.9, ls=":")
            bottom, top = low[late, j].min(), high[late, j].max()
            axes.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))
            axes.set_xlim(steps[0], steps[-1])
            axes.set_title(shown(name), loc="left", pad=3, fontsize=11, fontweight="bold")
            axes.locator_params(axis="y", nbins=4)
            axes.yaxis.set_major_formatter(tick_format(estimates[-1, j], (top - bottom) / 2))
            tidy(axes)
        panels[-1].set_xlabel("readings released")
    return figure

"""The picture of a diagnosis: innovations along time, their autocorrelations, their law."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from privest.arrays import Array
from privest.dynamics import Diagnosis
from privest.report._canvas import BAND, new_figure, save, tidy
from privest.report._streams import COLOURS, MOST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = len(COLOURS)  # entries of a vector, and series, that are drawn; the words are of all


def save_diagnosis(diagnosis: Diagnosis, path: Path) -> None:
    """Write the figure: ζ over time, autocorrelations with their bands, quantiles, histogram."""
    figure = new_figure(9.0, 6.4)
    ((time, lags), (quantiles, law)) = figure.subplots(2, 2)
    drawn = min(SHOWN, diagnosis.innovations.shape[2])
    entries = [diagnosis.innovations[:, :, j] for j in range(drawn)]
    _draw_time(time, [own[0] for own in entries])
    _draw_lags(lags, diagnosis, drawn)
    there = [np.sort(own[~np.isnan(own)]) for own in entries]
    _draw_quantiles(quantiles, there)
    _draw_law(law, np.concatenate(there))
    for axes in (time, lags, quantiles, law):
        tidy(axes)
    if drawn > 1:
        time.legend(fontsize=8, frameon=False, ncols=drawn, loc="upper right")
    # matplotlib's constrained layout keeps room for a title of several lines
    figure.suptitle("\n".join(textwrap.wrap(diagnosis.verdict, 115)), fontsize=9)
    save(figure, path)


def _draw_time(axes: Axes, entries: list[Array]) -> None:
    for j, own in enumerate(entries):
        thin = slice(None, None, max(1, len(own) // MOST))
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
        f"autocorrelations, and {100 * diagnosis.confidence:g} % bands of white noise",
        fontsize=10, loc="left",
    )  # fmt: skip
    axes.set_xlabel("lag (steps)")


def _draw_quantiles(axes: Axes, there: list[Array]) -> None:
    for j, own in enumerate(there):
        n = len(own)
        expected = scipy.special.ndtri((np.arange(1, n + 1) - 0.5) / n)
        thin = slice(None, None, max(1, n // MOST))
        axes.plot(expected[thin], own[thin], ".", color=COLOURS[j], ms=3)
    far = max(float(np.abs(own).max()) for own in there)
    axes.plot([-far, far], [-far, far], color="#444444", lw=0.8, ls="--")
    axes.set_title("quantiles against those of N(0, 1)", fontsize=10, loc="left")
    axes.set_xlabel("expected")


def _draw_law(axes: Axes, every: Array) -> None:
    edge = float(np.abs(every).max())
    bins = max(8, min(60, math.ceil(2 * len(every) ** (1 / 3))))  # Rice's rule
    axes.hist(every, bins=bins, density=True, color=COLOURS[0], alpha=0.35)
    place = np.linspace(-max(edge, 3.5), max(edge, 3.5), 400)
    axes.plot(
        place, np.exp(-(place**2) / 2) / math.sqrt(2 * math.pi), color="#444444", lw=1.0, ls="--"
    )
    axes.set_title("histogram, and the density of N(0, 1)", fontsize=10, loc="left")
    axes.set_xlabel("innovation")

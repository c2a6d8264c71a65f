"""Figure: mean-square error against the number of readings, for one non-Gaussian noise law."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privest.paper._fig4 import LABELS, Point
from privest.report._canvas import new_figure, save

STYLE = {
    "optimal": ("#1b9e77", "o"),
    "likelihood": ("#7570b3", "s"),
    "averaging-gaussian": ("#d95f02", "^"),
    "averaging-laplace": ("#e6ab02", "v"),
}
BAND = 1.959964
NAMES = {
    "laplace": "Laplacian noise of variance 1",
    "cauchy": "Cauchy noise",
    "student-t": "Student-t noise, 3 degrees of freedom",
    "logistic": "logistic noise",
    "skewed": "a skewed mixture as noise",
}


def save_likelihood(points: Sequence[Point], path: Path) -> None:
    """Write the figure: errors and bound on log scales; below, all divided by the bound."""
    figure = new_figure(9.0, 7.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
    own = sorted((p for p in points if p.method == "optimal"), key=lambda p: p.count)
    count = np.array([p.count for p in own])
    bound = np.array([p.bound for p in own])
    floor = np.array([p.floor for p in own])
    for name, (colour, mark) in STYLE.items():
        some = sorted((p for p in points if p.method == name), key=lambda p: p.count)
        if not some:
            continue
        mse = np.array([p.mse for p in some])
        half = BAND * np.array([p.standard_error for p in some])
        low = np.maximum(mse - half, 0.5 * mse)
        label = LABELS[name]
        if some[0].bandwidth is not None:
            label += (
                f",\nlikelihood smoothed, h = {some[0].bandwidth:.2g} … {some[-1].bandwidth:.2g}"
            )
        for axes, unit in ((above, 1.0), (below, bound)):
            axes.fill_between(count, low / unit, (mse + half) / unit, color=colour, alpha=0.2, lw=0)
            # Two methods may agree to the width of a line: the paper's is hollow, around ours.
            hollow = {"mfc": "none", "ms": 9} if name == "likelihood" else {"ms": 5}
            axes.plot(count, mse / unit, color=colour, lw=1.3, marker=mark, label=label, **hollow)
        predicted = np.array([p.predicted for p in some])
        below.plot(count, predicted / bound, color=colour, lw=0.9, ls=":")
    above.plot(
        count, bound, color="black", lw=2.0, ls="--", label="private bound: no expected error below"
    )
    above.plot(
        count, floor, color="#555555", lw=1.2, ls="-.", label="floor of estimates with added noise"
    )
    below.axhline(1.0, color="black", lw=2.0, ls="--")
    below.plot(count, floor / bound, color="#555555", lw=1.2, ls="-.")
    above.set_xscale("log")
    above.set_yscale("log")
    above.set_ylabel("mean-square error of the released mean")
    below.set_ylabel("divided by the private bound")
    below.set_xlabel("readings K (budget tr I = K); dotted: predicted for large K")
    # Heavy tails give single wild points: the lower panel shows what most of them say.
    shown = [p.mse / p.bound for p in points]
    below.set_ylim(0.93, min(max(shown) * 1.05, 1.3 * float(np.quantile(shown, 0.9))))
    trials = max(p.trials for p in points)
    above.set_title(
        f"A private mean under {NAMES[points[0].noise]}, {trials:,} trials a point", loc="left"
    )
    for axes in (above, below):
        axes.grid(which="major", alpha=0.3)
        axes.grid(which="minor", alpha=0.1)
        axes.spines[["top", "right"]].set_visible(False)
    above.legend(frameon=False, fontsize=9)
    save(figure, path)

"""Who gives up how much, and why: one picture of an allocation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from privest.design._allocation import Allocation
from privest.errors import MissingDependency
from privest.files import atomic_file

MOST = 4000  # points drawn: more are a blot
BLUE, GREY = "#2f6f9f", "#888888"


def draw(found: Allocation, path: Path) -> Path:
    """Left: levels in order beside equal ones. Right: level against leverage."""
    figure, left, right = two_panels()
    levels = found.levels
    ordered = np.sort(levels)[::-1]
    share = (np.arange(len(ordered)) + 0.5) / len(ordered) * 100
    keep = np.unique(np.linspace(0, len(ordered) - 1, MOST).astype(int))
    left.fill_between(share[keep], ordered[keep], color=BLUE, alpha=0.25, lw=0)
    left.plot(share[keep], ordered[keep], color=BLUE, lw=1.8, label="this design")
    left.axhline(levels.mean(), color=GREY, ls="--", lw=1.2, label="equal levels, same total")
    left.set(xlabel="readings, those that show most first (%)", xlim=(0, 100), ylim=(0, None))
    left.set(ylabel="privacy level s (larger shows more)", title="Who gives up how much")
    left.legend(frameon=False)
    leverage = found.leverage / found.leverage.mean()
    some = np.unique(np.linspace(0, len(levels) - 1, MOST).astype(int))
    order = np.argsort(leverage)[some]
    right.plot(leverage[order], levels[order], ".", ms=3, color=BLUE, alpha=0.5)
    right.axhline(levels.mean(), color=GREY, ls="--", lw=1.2)
    right.set(xlabel="leverage: what the reading alone says (1: the average)", ylim=(0, None))
    right.set(ylabel="privacy level s", title="and why")
    if leverage.max() > 50 * np.median(leverage):
        right.set_xscale("log")
    return saved(figure, path)


def two_panels() -> tuple[Any, Any, Any]:
    """A figure and its two axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingDependency(
            "a picture needs matplotlib: pip install 'privest[plot]'."
        ) from missing
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure, left, right


def saved(figure: Any, path: Path) -> Path:  # noqa: ANN401 - of matplotlib
    """The figure in a file whose ending says its kind."""
    with atomic_file(path) as target:
        figure.savefig(target, format=path.suffix.lstrip(".") or "png", dpi=160)
    return path

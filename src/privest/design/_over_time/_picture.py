"""One picture of a stream's budget over time: what is given up when, and what that buys."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from privest.design._over_time._spread import Spread
from privest.design._picture import BLUE, GREY, MOST, saved, two_panels


def draw_over_time(found: Spread, path: Path) -> Path:
    """Left: levels over time. Right: the error after each reading, beside that of equal levels."""
    figure, left, right = two_panels()
    levels, m = found.levels, len(found.levels)
    some = np.unique(np.linspace(0, m - 1, MOST).astype(int))
    number = np.arange(1, m + 1)
    power = number**-found.exponent
    left.fill_between(number[some], levels[some], color=BLUE, alpha=0.25, lw=0)
    left.plot(number[some], levels[some], color=BLUE, lw=1.8, label="this design")
    rule = (power * levels.sum() / power.sum())[some]
    left.plot(
        number[some], rule, color=BLUE, ls=":", label=f"the rule $k^{{-{found.exponent:.2f}}}$"
    )
    left.axhline(levels.mean(), color=GREY, ls="--", lw=1.2, label="equal levels, same total")
    left.set(xlabel="reading", xlim=(0, m + 1), ylim=(0, None), title="What is given up when")
    left.set(ylabel="privacy level s (larger shows more)")
    left.legend(frameon=False)
    there = some[np.isfinite(found.error[some])]
    right.plot(number[there], found.error[there], color=BLUE, lw=1.8)
    right.plot(number[there], found.equal_error[there], color=GREY, ls="--", lw=1.2)
    right.set(xlabel="reading", yscale="log", xlim=(0, m + 1), title="and what it buys")
    right.set(ylabel="squared error of the estimate so far")
    return saved(figure, path)

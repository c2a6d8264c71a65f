"""Figure: private estimates with their intervals, as the stream goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.report._canvas import new_figure, save

BAND = 1.959964  # deviations: 95 % of a normal law


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


def save_convergence(trail: Trail, names: Sequence[str], path: Path) -> None:
    """Write the figure: one panel a parameter, a line for θ̂_k and its 95 % band."""
    columns = min(3, math.ceil(math.sqrt(len(names))))
    lines = -(-len(names) // columns)
    figure = new_figure(4.2 * columns, 2.9 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True).ravel()
    steps = np.array([step for step, _, _ in trail.points]) + 1
    estimates = np.array([estimate for _, estimate, _ in trail.points])
    errors = np.array([error for _, _, error in trail.points])
    for j, (axes, name) in enumerate(zip(panels, names)):
        middle, half = estimates[:, j], BAND * errors[:, j]
        axes.fill_between(steps, middle - half, middle + half, color="#4c72b0", alpha=0.2, lw=0)
        axes.plot(steps, middle, color="#4c72b0", lw=1.4)
        axes.axhline(middle[-1], color="#444444", lw=0.7, ls=":")
        # The first estimates are wild: show the range that the later half of the stream needs.
        late = slice(len(steps) // 10, None)
        low, high = (middle - half)[late].min(), (middle + half)[late].max()
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        axes.set_title(name, fontsize=10, loc="left")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(names) - columns) : len(names)]:
        axes.set_xlabel("readings")
        axes.tick_params(labelbottom=True)
    figure.suptitle("Private estimates and 95 % intervals, from releases alone", fontsize=11)
    save(figure, path)

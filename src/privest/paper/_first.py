"""The set-up of the first experiment (`fig:ppcr`): the paper's, H 10×5, or any; its bound.

H is drawn uniformly from [−1, 1]^{10×5}; the paper does not print its draw, ours has a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import privest as pv
from privest.arrays import Array, as_array, as_positive, fingerprint_of
from privest.bounds import Sweep
from privest.errors import InvalidInput
from privest.report.figures import ellipse_points, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THETA = np.array([0.63, 0.81, -0.75, 0.83, 0.26])
READINGS = 10
NOISE_DEVIATION = 0.2
SEED = 2025


@dataclass(frozen=True, eq=False, repr=False)
class Setting:
    """y = Hθ + w, w ~ N(0, σ²I): H (m, n), the true θ (n,) and σ.

    >>> Setting([[1.0], [2.0]], [0.5], 0.1).model.readings
    2
    """

    matrix: Array
    theta: Array
    deviation: float = NOISE_DEVIATION

    def __post_init__(self) -> None:
        matrix = as_array(self.matrix, "H", ndim=2)
        theta = as_array(self.theta, "θ", ndim=1)
        if len(theta) != matrix.shape[1]:
            raise InvalidInput(
                f"H has {matrix.shape[1]} columns and θ {len(theta)} entries: θ needs one for "
                "every column."
            )
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "deviation", as_positive(self.deviation, "σ"))
        _ = self.model

    @property
    def model(self) -> pv.LinearModel:
        with np.errstate(over="ignore", under="ignore"):
            variance = as_positive(np.square(np.float64(self.deviation)), "σ²")
        return pv.LinearModel(self.matrix, noise=variance)

    def __repr__(self) -> str:
        """Tells settings apart, whatever the size of H: finished work is kept under it."""
        mark = fingerprint_of("setting", self.matrix, self.theta, np.array(self.deviation))
        return f"Setting({self.matrix.shape[0]}×{self.matrix.shape[1]}, {mark})"


def paper_setting() -> Setting:
    """The paper's θ and σ, and our draw of its H."""
    rng = np.random.default_rng(SEED)
    return Setting(rng.uniform(-1.0, 1.0, size=(READINGS, len(THETA))), THETA)


def first_model() -> pv.LinearModel:
    """y = Hθ + w, w ~ N(0, 0.2² I)."""
    return paper_setting().model


def paper_levels() -> Array:
    """s = 0.1, 0.2, …, 10 in S = sI."""
    return np.arange(1, 101) / 10


def save_ellipses(curve: Sweep, chosen: Sweep, path: Path, pair: tuple[int, int]) -> None:
    """Write the figure: ellipses of two parameters at the chosen levels, and the whole curve."""
    figure = new_figure(12.5, 5.4)
    from matplotlib import colormaps

    left, right = figure.subplots(1, 2)
    colours = colormaps["viridis"](np.linspace(0.0, 0.85, len(chosen)))
    _draw_ellipses(left, chosen, colours, pair)
    _draw_curve(right, curve)
    for s, trace, colour in zip(chosen.levels, chosen.trace, colours):
        right.plot(s, trace, "o", color=colour, ms=7)
    save(figure, path)


def _draw_ellipses(axes: Axes, chosen: Sweep, colours: Array, pair: tuple[int, int]) -> None:
    index = np.ix_(pair, pair)
    for s, covariance, colour in zip(chosen.levels, chosen.covariance, colours):
        x, y = ellipse_points(covariance[index]).T
        axes.plot(x, y, color=colour, lw=1.8, label=f"s = {s:g}")
        axes.fill(x, y, color=colour, alpha=0.05)
    x, y = ellipse_points(chosen.classical[index]).T
    axes.fill(x, y, color="black", alpha=0.85, label="no privacy")
    axes.set_aspect("equal", adjustable="datalim")
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)
    axes.set_xlabel(f"error of θ[{pair[0]}]")
    axes.set_ylabel(f"error of θ[{pair[1]}]")
    total = len(chosen.classical)
    axes.set_title(f"Smallest possible 95 % error ellipse (2 of {total} parameters)")
    axes.legend(title="level S = sI", loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _draw_curve(axes: Axes, curve: Sweep) -> None:
    floor = np.trace(curve.classical)
    axes.loglog(curve.levels, curve.trace, color="black", lw=2, label="private bound  tr Σ_PPCR")
    axes.loglog(
        curve.levels,
        curve.trace - floor,
        color="tab:red",
        lw=1.4,
        ls="--",
        label="of which privacy  tr (Σ_PPCR − Σ_CR)",
    )
    axes.axhline(floor, color="0.4", lw=1.2, ls=":", label="no privacy  tr Σ_CR", zorder=0)
    axes.set_xlabel("privacy level s   (strict  ←   →  lax)")
    axes.set_ylabel("least mean-square error, sum over θ")
    axes.set_title("What the privacy level costs")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(loc="upper right", fontsize=9)

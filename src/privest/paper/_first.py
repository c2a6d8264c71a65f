"""The set-up of the paper's first experiment (`fig:ppcr`): H 10×5, five parameters; its bound.

H is drawn uniformly from [−1, 1]^{10×5}; the paper does not print its draw, ours has a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array
from privest.bounds import Bound, bound
from privest.model import LinearModel
from privest.noise import Gaussian
from privest.privacy import PrivacyLevel
from privest.report import ellipse_points, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THETA = np.array([0.63, 0.81, -0.75, 0.83, 0.26])
READINGS = 10
NOISE_DEVIATION = 0.2
SEED = 2025


def first_model() -> LinearModel:
    """y = Hθ + w, w ~ N(0, 0.2² I)."""
    rng = np.random.default_rng(SEED)
    matrix = rng.uniform(-1.0, 1.0, size=(READINGS, len(THETA)))
    return LinearModel(matrix, noise=Gaussian(cov=NOISE_DEVIATION**2))


def paper_levels() -> Array:
    """s = 0.1, 0.2, …, 10 in S = sI."""
    return np.arange(1, 101) / 10


@dataclass(frozen=True, eq=False)
class LevelCurve:
    """The bound against the privacy level s, S = sI."""

    levels: Array
    bounds: list[Bound]

    def at(self, s: float) -> int:
        """Where the level nearest to s is."""
        return int(np.abs(self.levels - s).argmin())

    @property
    def traces(self) -> Array:
        """tr Σ_PPCR at each level."""
        return np.array([np.trace(b.ppcrlb) for b in self.bounds])

    @property
    def costs(self) -> Array:
        """tr (Σ_PPCR − Σ_CR) at each level."""
        return np.array([np.trace(b.privacy_cost) for b in self.bounds])

    @property
    def classical(self) -> float:
        """tr Σ_CR."""
        return float(np.trace(self.bounds[0].classical))


def level_curve(model: LinearModel, levels: Array) -> LevelCurve:
    """The bound at every level."""
    return LevelCurve(levels, [bound(model, PrivacyLevel(float(s))) for s in levels])


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
        at = curve.at(s)
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
        at = curve.at(s)
        axes.plot(s, curve.traces[at], "o", color=colour, ms=7)
    axes.set_xlabel("privacy level s   (strict  ←   →  lax)")
    axes.set_ylabel("least mean-square error, sum over θ")
    axes.set_title("What the privacy level costs")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(loc="upper right", fontsize=9)

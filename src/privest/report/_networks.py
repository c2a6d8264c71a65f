"""Figures of a network: agents on their way to the efficient estimate; rounds against the gap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array, Index
from privest.network import Fused
from privest.report._canvas import new_figure, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"plain": "#dd8452", "chebyshev": "#4c72b0"}


def distances(trace: Array, central: Fused) -> Array:
    """(rounds, N): how far each agent is from the efficient estimate, in standard errors."""
    half = np.linalg.cholesky(np.linalg.inv(central.covariance))
    found: Array = np.linalg.norm((trace - central.estimate) @ half, axis=-1)
    return found


def save_agents(
    path: Path,
    *,
    positions: Array,
    edges: Index,
    traces: Mapping[str, Array],
    central: Fused,
    parameter: int,
    name: str,
) -> None:
    """Write the figure: the map, every agent's estimate of one parameter, and the distances.

    traces: by method ("plain", "chebyshev"), (rounds + 1, N, n), NaN while an agent has no estimate
    (`consensus(..., trace=True).trace`); central: what one place that hears everyone estimates.
    """
    figure = new_figure(15.0, 4.8)
    left, middle, right = figure.subplots(1, 3)
    first = next(iter(traces))
    _draw_map(left, positions, edges, distances(traces[first], central), first)
    _draw_estimates(middle, traces[first], central, parameter, name, first)
    for method, trace in traces.items():
        _draw_distances(right, distances(trace, central), method)
    right.axhline(1.0, color="0.6", lw=0.8)
    right.set_xlabel("round")
    right.set_ylabel("distance from the efficient estimate (standard errors)")
    right.set_title("Every agent gets there", loc="left", fontsize=10)
    right.legend(fontsize=8)
    tidy(middle)
    tidy(right)
    save(figure, path)


def _draw_map(axes: Axes, positions: Array, edges: Index, far: Array, method: str) -> None:
    from matplotlib.collections import LineCollection

    lines = LineCollection(list(positions[edges]), colors="0.8", linewidths=0.8, zorder=1)
    axes.add_collection(lines)
    close = np.nan_to_num(far, nan=np.inf) <= 0.1
    # The round after which an agent stays within a tenth of a standard error.
    last_off = len(far) - 1 - (~close)[::-1].argmax(axis=0)
    arrived = np.where((~close).any(axis=0), last_off + 1, 0)
    east, north = positions.T
    dots = axes.scatter(east, north, c=arrived, cmap="viridis", s=60, zorder=2, edgecolors="white")
    bar = axes.figure.colorbar(dots, ax=axes, shrink=0.85)
    bar.set_label(f"rounds to 0.1 standard errors ({method})", fontsize=8)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(f"{len(positions)} sensors, {len(edges)} links", loc="left", fontsize=10)


def _draw_estimates(
    axes: Axes, trace: Array, central: Fused, parameter: int, name: str, method: str
) -> None:
    # From the round in which all agents have an estimate: earlier ones are wild.
    everyone = ~np.isnan(trace).any(axis=(1, 2))
    first = int(everyone.argmax())
    shown = max(first + 10, len(trace) // 4)
    steps = np.arange(first, shown)
    axes.plot(
        steps, trace[first:shown, :, parameter], color=COLOURS["chebyshev"], lw=0.6, alpha=0.6
    )
    value, error = central.estimate[parameter], central.standard_error[parameter]
    axes.axhline(value, color="black", lw=1.2, label="efficient estimate")
    axes.axhspan(value - error, value + error, color="0.5", alpha=0.15, lw=0, label="± its error")
    late = trace[first + (shown - first) // 4 : shown, :, parameter]
    low, high = np.nanmin(late), np.nanmax(late)
    room = max(high - low, 6 * error) * 0.1
    axes.set_ylim(min(low, value - 3 * error) - room, max(high, value + 3 * error) + room)
    axes.set_xlabel("round")
    axes.set_title(f"{name}, as every agent sees it ({method})", loc="left", fontsize=10)
    axes.legend(fontsize=8)


def _draw_distances(axes: Axes, far: Array, method: str) -> None:
    colour, steps = COLOURS.get(method, "#555555"), np.arange(len(far))
    unknown = np.isnan(far)
    farthest = np.where(unknown.any(axis=1), np.nan, far.max(axis=1))
    nearest = np.where(unknown, np.inf, far).min(axis=1)
    nearest = np.where(unknown.all(axis=1), np.nan, nearest)
    axes.semilogy(steps, farthest, color=colour, lw=1.8, label=f"{method}: the farthest agent")
    axes.semilogy(steps, nearest, color=colour, lw=0.8, ls=":", label=f"{method}: the nearest")


def save_rounds(path: Path, *, gaps: Array, rounds: Mapping[str, Array], tolerance: float) -> None:
    """Write the figure: certified rounds against the spectral gap, one dot a graph and method.

    Lines: ln(1/t)/gap and ln(2/t)/√(2 gap), what the error bounds say for a factor t (λ_N = −λ_2).
    """
    figure = new_figure(6.6, 4.8)
    axes = figure.subplots()
    line = np.geomspace(gaps.min(), gaps.max(), 50)
    drawn = {
        "plain": math.log(1 / tolerance) / line,
        "chebyshev": math.log(2 / tolerance) / np.sqrt(2 * line),
    }
    for method, counts in rounds.items():
        colour = COLOURS.get(method, "#555555")
        axes.loglog(gaps, counts, "o", color=colour, ms=4, alpha=0.7, label=method)
        if method in drawn:
            text = f"{method}: bound for a factor {tolerance:g}"
            axes.loglog(line, drawn[method], color=colour, lw=1.0, ls="--", label=text)
    axes.set_xlabel("spectral gap of the weights")
    axes.set_ylabel(f"rounds until all agents are certified to {tolerance:g}")
    axes.set_title("Rounds go with 1/gap, or with its root", loc="left", fontsize=10)
    tidy(axes, which="both")
    axes.legend(fontsize=8)
    save(figure, path)

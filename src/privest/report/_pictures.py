"""Pictures of the report, each with its words: the numbers that the drawing shows.

Coefficients have different units, so each has a row and a scale of its own. Without privacy only
the precision is drawn, around the *private* estimate: the other estimate is secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_array
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.report._canvas import (
    INK,
    OPEN,
    PRIVATE,
    draw_band,
    ellipse_points,
    narrow_figure,
    shown,
    tidy,
)
from privest.report._coefficients import FACTORS, INTERCEPT, Coefficient
from privest.report._digits import per_cent, plural, short, span, tick_format
from privest.report._page import Picture
from privest.report._streams import Trail

if TYPE_CHECKING:
    from privest.report._canvas import Axes, Figure

SECRET = "The estimate without privacy is secret and is not shown, only how precise it would be."
ACROSS = 44  # letters of a name and its numbers that fit beside each other
MOST_POINTS = 300  # a phone has no more pixels across


def require_larger(private: Array, plain: Array) -> None:
    """Errors must be positive, and none smaller with privacy than without."""
    if not (plain > 0).all() or (private < plain * (1 - 1e-6)).any():
        raise InvalidInput(
            "standard errors must be positive, and privacy cannot make one smaller than "
            "classical_error; are the two in the same units and order?"
        )


# --- intervals ------------------------------------------------------------------------------------


def intervals_picture(
    found: Sequence[Coefficient], scale: str = "none", confidence: float = CONFIDENCE
) -> Picture:
    """Estimates and their intervals; the alternative text lists them all, in the table's digits.

    `scale`: where coefficients are logarithms the intercept is none of a kind, and is not drawn.
    """
    drawn = drawable(found, scale)
    each = "; ".join(f"{one.name} {one.value_text}, {one.interval_text}" for one in drawn)
    known = any(one.low_open is not None for one in drawn)
    bar = (
        " Thick bar: the interval that the same data would give without privacy, drawn around the "
        f"same dot. {SECRET}"
    )
    return Picture(
        intervals_figure(drawn, confidence),
        f"Private estimates with their {per_cent(confidence)} intervals: {each}.",
        f"Dot: the private estimate. Thin bar: its {per_cent(confidence)} interval."
        f"{bar if known else ''} Every row has its own scale; a dashed line marks zero.",
    )


def drawable(found: Sequence[Coefficient], scale: str) -> list[Coefficient]:
    """What a figure of intervals shows: of per cents without the intercept."""
    slopes = [one for one in found if not (scale in FACTORS and one.name == INTERCEPT)]
    return slopes or list(found)


def intervals_figure(found: Sequence[Coefficient], confidence: float = CONFIDENCE) -> Figure:
    """A row for each: its interval, and around the same dot the one without privacy.

    Zero is marked where it is in or near an interval.
    """
    with narrow_figure(0.86 * len(found) + 0.7) as figure:
        rows = figure.subplots(len(found), 1, squeeze=False).ravel()
        figure.set_layout_engine("constrained", hspace=0.0, h_pad=0.055)
        for axes, one in zip(rows, found):
            _row(axes, one)
        known = found[0].low_open is not None
        figure.legend(
            handles=rows[0].get_lines()[: 2 if known else 1],
            labels=[f"{per_cent(confidence)} interval, with privacy", "its width without privacy"][
                : 2 if known else 1
            ],
            loc="outside lower left",
            frameon=False,
        )
    return figure


def _row(axes: Axes, one: Coefficient) -> None:
    low, high = one.low, one.high
    axes.plot([low, high], [0, 0], color=PRIVATE, lw=3, solid_capstyle="butt")
    if one.low_open is not None and one.high_open is not None:
        ends = [one.low_open, one.high_open]
        axes.plot(ends, [0, 0], color=OPEN, lw=9, solid_capstyle="butt")
    axes.plot(one.estimate, 0, "o", color="white", mec=INK, ms=6, mew=1.4)
    half = (high - low) / 2
    if low - half <= 0.0 <= high + half:  # near enough to be worth the room
        axes.axvline(0.0, color=INK, lw=0.9, ls=(0, (3, 2)), zorder=0)
        low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.06 * (high - low)
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(tick_format(one.estimate, half) + (" %" if one.percent else ""))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25, lw=0.7)
    number = f"{one.value_text}  ({one.interval_text})"
    name = shown(one.name, max(12, ACROSS - len(number)))
    axes.set_title(name, loc="left", pad=1, fontsize=11, fontweight="bold")
    axes.set_title(number, loc="right", pad=1, fontsize=10.5)


# --- two coefficients -----------------------------------------------------------------------------


def pair_picture(two: Result) -> Picture:
    """Two coefficients together."""
    figure = pair_figure(two)
    first, second = two.names
    assert two.classical is not None  # drawn
    areas = np.sqrt(np.linalg.det(two.covariance) / np.linalg.det(two.classical))
    alt = (
        f"Two ellipses around the private estimate of {first} (across) and {second} (up): where "
        "the two true coefficients lie with 95 % confidence. The outer one, with privacy, has "
        f"{short(areas)} times the area of the inner one, without privacy."
    )
    caption = (
        "The pair of true coefficients lies inside the outer ellipse in 95 of 100 such studies. "
        "A slanted ellipse means that the errors of the two go together. Inner ellipse: its size "
        f"without privacy, around the same dot. {SECRET}"
    )
    return Picture(figure, alt, caption)


def pair_figure(two: Result) -> Figure:
    """The 95 % regions (θ − θ̂)ᵀΣ⁻¹(θ − θ̂) ≤ −2 ln 0.05 of two coefficients."""
    middle = as_array(two.estimate, "estimate", ndim=1)
    if middle.shape != (2,):
        raise InvalidInput(f"an ellipse is of two coefficients; received {len(middle)}.")
    outer = middle + _edge("covariance", two.covariance)
    inner = middle + _edge("classical", two.classical)
    with narrow_figure(4.4) as figure:
        axes = figure.subplots()
        axes.fill(*outer.T, color=PRIVATE, alpha=0.14, lw=0)
        axes.plot(*outer.T, color=PRIVATE, lw=2.2, label="95 % region, with privacy")
        axes.fill(*inner.T, color=OPEN, alpha=0.35, lw=0)
        axes.plot(*inner.T, color=OPEN, lw=2.2, ls="--", label="its size without privacy")
        axes.plot(*middle, "o", color="white", mec=INK, ms=6, mew=1.4, label="private estimate")
        for j, line in enumerate((axes.axvline, axes.axhline)):
            if outer[:, j].min() <= 0.0 <= outer[:, j].max():
                line(0.0, color=INK, lw=0.9, ls=(0, (3, 2)), zorder=0)
        axes.set_xlabel(shown(two.names[0], 40))
        axes.set_ylabel(shown(two.names[1], 40))
        axes.locator_params(nbins=5)
        for axis, value, half in zip((axes.xaxis, axes.yaxis), middle, two.standard_error):
            axis.set_major_formatter(tick_format(float(value), float(half)))
        tidy(axes, 0.3, lw=0.7)
        figure.legend(loc="outside lower left", frameon=False)
    return figure


def _edge(name: str, covariance: Array | None) -> Array:
    """Boundary points, computed in units of the two errors: their units may differ greatly."""
    matrix = as_array(np.eye(0) if covariance is None else covariance, name, ndim=2)
    unit = np.sqrt(np.abs(np.diagonal(matrix)))
    if matrix.shape != (2, 2) or not unit.all():
        raise InvalidInput(f"{name} must be a 2×2 covariance, with positive variances.")
    scaled = matrix / np.outer(unit, unit)
    if np.abs(matrix - matrix.T).max() > 1e-9 * np.abs(matrix).max():
        raise InvalidInput(f"{name} must be a covariance: symmetric.")
    if np.linalg.eigvalsh(scaled)[0] <= 0:
        raise InvalidInput(f"{name} must be a covariance: positive definite.")
    points: Array = ellipse_points(scaled) * unit
    return points


# --- a stream -------------------------------------------------------------------------------------


def trail_picture(trail: Trail, names: Sequence[str]) -> Picture:
    """How the estimates settle."""
    alt = (
        f"One panel for each of {plural(len(names), 'coefficient')}: the private estimate with its "
        f"95 % band against the number of readings released.{_narrowing(trail)}"
    )
    caption = (
        "The estimates after each release, computed from the releases alone. Line: the estimate. "
        "Shaded: its 95 % interval, which narrows as readings come in. Dotted: the last estimate. "
        "The very first ones may lie outside the panel."
    )
    return Picture(trail_figure(trail, names), alt, caption)


def _narrowing(trail: Trail) -> str:
    """How much narrower the bands became, since there were some; few readings have none."""
    known = [(step, error) for step, _, error in trail.points if np.isfinite(error).all()]
    if len(known) < 2 or known[-1][0] != trail.points[-1][0]:
        return ""
    (early_step, early), (step, error) = known[len(known) // 10], known[-1]
    return (
        f" From {early_step + 1:,} to {step + 1:,} readings the bands become "
        f"{span(early / error)} narrower."
    )


def trail_figure(trail: Trail, names: Sequence[str]) -> Figure:
    """θ̂_k (line) with its 95 % band, against the number of readings, for each coefficient."""
    if len(trail.points) < 2:
        raise InvalidInput(
            f"a picture of the stream needs two or more estimates; received {len(trail.points)}."
        )
    steps, estimates, errors = trail.columns(MOST_POINTS)
    if estimates.shape[1] != len(names):
        raise InvalidInput(
            f"the trail has {estimates.shape[1]} coefficients; received {len(names)} names."
        )
    late = slice(len(steps) // 10, None)
    with narrow_figure(1.25 * len(names) + 0.5) as figure:
        panels = figure.subplots(len(names), 1, squeeze=False, sharex=True).ravel()
        for j, (axes, name) in enumerate(zip(panels, names)):
            low, high = draw_band(
                axes, steps, estimates[:, j], errors[:, j], PRIVATE, alpha=0.2, lw=1.8
            )
            axes.axhline(estimates[-1, j], color=INK, lw=0.9, ls=":")
            # Where there is no interval there is no band: the line alone then gives the scale.
            bottom = float(np.nanmin([low[late], estimates[late, j]]))
            top = float(np.nanmax([high[late], estimates[late, j]]))
            room = 0.05 * (top - bottom) or 1.0
            axes.set_ylim(bottom - room, top + room)
            axes.set_xlim(steps[0], steps[-1])
            axes.set_title(shown(name), loc="left", pad=3, fontsize=11, fontweight="bold")
            axes.locator_params(axis="y", nbins=4)
            axes.yaxis.set_major_formatter(tick_format(estimates[-1, j], (top - bottom) / 2))
            tidy(axes, 0.3, lw=0.7)
        panels[-1].set_xlabel("readings released")
    return figure

"""Figure: where two coefficients may lie together, with privacy and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array, as_array
from privest.errors import InvalidInput
from privest.report._digits import tick_format
from privest.report._page_style import INK, OPEN, PRIVATE, narrow_figure, shown, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# 95 % of a two-dimensional Gaussian lies within √(χ²₂ quantile) = √(−2 ln 0.05) deviations.
COVERAGE = 0.95
RADIUS = float(np.sqrt(-2.0 * np.log(1.0 - COVERAGE)))


def ellipse_points(covariance: Array, count: int = 241) -> Array:
    """(count, 2) points on the boundary of the 95 % region of N(0, covariance), 2×2."""
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    points: Array = ((vectors * np.sqrt(values)) @ circle * RADIUS).T
    return points


def pair_figure(
    names: tuple[str, str], estimate: Array, with_privacy: Array, without_privacy: Array
) -> Figure:
    """The 95 % regions (θ − θ̂)ᵀΣ⁻¹(θ − θ̂) ≤ −2 ln 0.05 of two coefficients.

    estimate (2,); with_privacy and without_privacy (2, 2): the blocks of the two covariances.
    Both ellipses stand around the private estimate: the other one is secret.
    """
    middle = as_array(estimate, "estimate", ndim=1)
    private = as_array(with_privacy, "with_privacy", ndim=2)
    plain = as_array(without_privacy, "without_privacy", ndim=2)
    if len(names) != 2 or middle.shape != (2,) or {private.shape, plain.shape} != {(2, 2)}:
        raise InvalidInput(
            "two names need two estimates and 2×2 covariances; received "
            f"{len(names)} names and shapes {middle.shape}, {private.shape} and {plain.shape}."
        )
    for name, matrix in (("with_privacy", private), ("without_privacy", plain)):
        unit = np.sqrt(np.abs(np.diagonal(matrix)))
        scaled = matrix / np.outer(unit, unit) if unit.all() else matrix
        if not unit.all() or np.abs(matrix - matrix.T).max() > 1e-9 * np.abs(matrix).max():
            raise InvalidInput(f"{name} must be a covariance: symmetric, with positive variances.")
        if np.linalg.eigvalsh(scaled)[0] <= 0:
            raise InvalidInput(f"{name} must be a covariance: positive definite.")
    with narrow_figure(4.4) as figure:
        axes = figure.subplots()
        outer = middle + _scaled_points(private)
        inner = middle + _scaled_points(plain)
        axes.fill(*outer.T, color=PRIVATE, alpha=0.14, lw=0)
        axes.plot(*outer.T, color=PRIVATE, lw=2.2, label="95 % region, with privacy")
        axes.fill(*inner.T, color=OPEN, alpha=0.35, lw=0)
        axes.plot(*inner.T, color=OPEN, lw=2.2, ls="--", label="its size without privacy")
        axes.plot(*middle, "o", color="white", mec=INK, ms=6, mew=1.4, label="private estimate")
        for j, line in enumerate((axes.axvline, axes.axhline)):
            if outer[:, j].min() <= 0.0 <= outer[:, j].max():
                line(0.0, color=INK, lw=0.9, ls=(0, (3, 2)), zorder=0)
        axes.set_xlabel(shown(names[0], 40))
        axes.set_ylabel(shown(names[1], 40))
        axes.locator_params(nbins=5)
        for axis, value, half in zip(
            (axes.xaxis, axes.yaxis), middle, np.sqrt(np.diagonal(private))
        ):
            axis.set_major_formatter(tick_format(float(value), float(half)))
        tidy(axes)
        figure.legend(loc="outside lower left", frameon=False)
    return figure


def _scaled_points(covariance: Array) -> Array:
    """Boundary points, computed in units of the two errors: their units may differ greatly."""
    unit = np.sqrt(np.diagonal(covariance))
    points: Array = ellipse_points(covariance / np.outer(unit, unit)) * unit
    return points

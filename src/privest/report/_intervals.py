"""Figure: the private estimates with their intervals, and how wide these were without privacy.

Coefficients have different units, so each has a row and a scale of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import scipy

from privest.arrays import Array, as_array, as_number
from privest.errors import InvalidInput
from privest.report._digits import rounded, tick_format
from privest.report._page_style import INK, OPEN, PRIVATE, narrow_figure, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, REST = 0.86, 0.7  # inches


def intervals_figure(
    names: Sequence[str],
    estimate: Array,
    with_privacy: Array,
    without_privacy: Array,
    confidence: float = 0.95,
) -> Figure:
    """Rows of θ̂_j ± q·(standard error), q the normal quantile of `confidence`.

    estimate, with_privacy, without_privacy: (n,). Both intervals are drawn around the *private*
    estimate: the estimate without privacy is secret, only its precision (a function of features
    and noise variance) is public. Zero is marked where it is in or near an interval.
    """
    estimate, private, plain = checked_errors(names, estimate, with_privacy, without_privacy)
    deviations = quantile(confidence)
    with narrow_figure(ROW * len(names) + REST) as figure:
        rows = figure.subplots(len(names), 1, squeeze=False).ravel()
        figure.set_layout_engine("constrained", hspace=0.0, h_pad=0.055)
        for axes, name, middle, wide, narrow in zip(rows, names, estimate, private, plain):
            _row(axes, shown(name, 26), middle, deviations * wide, deviations * narrow)
        handles = rows[0].get_lines()[:2]
        figure.legend(
            handles=handles,
            labels=[f"{100 * confidence:g} % interval, with privacy", "its width without privacy"],
            loc="outside lower left",
            frameon=False,
        )
    return figure


def quantile(confidence: float) -> float:
    """How many standard errors an interval of this confidence reaches to each side."""
    level = as_number(confidence, "confidence")
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"confidence must lie between 0 and 1; received {level:g}.")
    return float(scipy.special.ndtri(0.5 + 0.5 * level))


def checked_errors(
    names: Sequence[str], estimate: Array, with_privacy: Array, without_privacy: Array
) -> tuple[Array, Array, Array]:
    """The three as (n,) arrays; errors positive, and none smaller with privacy than without."""
    values = as_array(estimate, "estimate", ndim=1)
    private = as_array(with_privacy, "with_privacy", ndim=1)
    plain = as_array(without_privacy, "without_privacy", ndim=1)
    shapes = {a.shape for a in (values, private, plain)}
    if len(names) == 0 or shapes != {(len(names),)}:
        raise InvalidInput(
            f"{len(names)} names need that many estimates and errors (at least one); received "
            f"shapes {values.shape}, {private.shape} and {plain.shape}."
        )
    if not (plain > 0).all() or (private < plain * (1 - 1e-6)).any():
        raise InvalidInput(
            "standard errors must be positive, and privacy cannot make one smaller than "
            "without_privacy; are the two arguments in the same units and order?"
        )
    return values, private, plain


def _row(axes: Axes, name: str, middle: float, wide: float, narrow: float) -> None:
    axes.plot([middle - wide, middle + wide], [0, 0], color=PRIVATE, lw=3, solid_capstyle="butt")
    axes.plot([middle - narrow, middle + narrow], [0, 0], color=OPEN, lw=9, solid_capstyle="butt")
    axes.plot(middle, 0, "o", color="white", mec=INK, ms=6, mew=1.4)
    low, high = middle - wide, middle + wide
    if low - wide <= 0.0 <= high + wide:  # near enough to be worth the room
        axes.axvline(0.0, color=INK, lw=0.9, ls=(0, (3, 2)), zorder=0)
        low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.06 * (high - low)
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(tick_format(middle, wide))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25, lw=0.7)
    axes.set_title(name, loc="left", pad=1, fontsize=11, fontweight="bold")
    number = f"{rounded(middle, wide)} ± {rounded(wide, wide)}"
    axes.set_title(number, loc="right", pad=1, fontsize=10.5)

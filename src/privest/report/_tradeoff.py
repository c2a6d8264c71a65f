"""Figure: what privacy costs. Errors against the level, as multiples of the errors without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array, as_array, as_positive
from privest.errors import InvalidInput
from privest.report._digits import short
from privest.report._page_style import COLOURS, DASHES, INK, narrow_figure, shown, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAME = 0.01  # curves that agree to one in a hundred are one line to the eye
TICKS = [1.0, 1.1, 1.2, 1.5, *(d * 10.0**p for p in range(9) for d in (2, 3, 5, 10))]
EPSILONS = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]


def tradeoff_figure(
    levels: Array,
    with_privacy: Array,
    without_privacy: Array,
    names: Sequence[str],
    chosen: float,
    target: Mapping[str, float] | None = None,
    epsilons: Array | None = None,
) -> Figure:
    """Standard errors at each privacy level s, divided by those without privacy; log axes.

    levels (L,) increasing; with_privacy (L, n) and without_privacy (n,) standard errors; `chosen`
    within the levels is marked. `target` gives a wanted standard error for some names: a dashed
    line each. `epsilons` (L,), not decreasing, label the top axis.

    Coefficients whose curves agree to 1 % share a line (with S = sI and noise of one variance all
    do: the ratio is √(1 + 1/(sσ²)) for each). More groups than colours: the range is shaded and
    the ends are drawn.
    """
    levels, ratios = checked_curve(levels, with_privacy, without_privacy, names)
    if target is not None and (unknown := set(target) - set(names)):
        raise InvalidInput(f"target has {len(unknown)} names that are not among the coefficients.")
    goals = {name: as_positive(value, "target") for name, value in (target or {}).items()}
    at = ratios_at(levels, ratios, chosen)
    groups = alike(ratios)
    lines = min(len(groups), len(COLOURS)) + len(goals)  # of the legend below
    with narrow_figure(3.5 + 0.22 * lines + (0.0 if epsilons is None else 0.4)) as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        if len(groups) > len(COLOURS):
            low, high = ratios.min(axis=1), ratios.max(axis=1)
            axes.fill_between(
                levels, low, high, color="#b8c4d0", alpha=0.5, lw=0,
                label=f"all {len(names)} coefficients",
            )  # fmt: skip
            groups = [[int(at.argmax())], [int(at.argmin())]]
        for group, colour, dash in zip(groups, COLOURS, DASHES):
            label = _label(group, names)
            axes.plot(
                levels, ratios[:, group[0]], color=colour, ls=dash, lw=2.2, label=label, zorder=3
            )
            axes.plot(chosen, at[group[0]], "o", color=colour, ms=8, mec="white", zorder=5)
        _mark_goals(axes, goals, np.asarray(without_privacy), names, groups)
        axes.axvline(chosen, color=INK, lw=1.0, ls=":", zorder=1)
        wanted = [goals[n] / float(without_privacy[list(names).index(n)]) for n in goals]
        top = max(float(ratios.max()), *wanted, 1.2)
        axes.set_ylim(0.96, top * 1.15)
        _scale(axes, top)
        axes.set_xlim(levels[0], levels[-1])
        axes.set_xlabel("privacy level s   (stricter ←   → laxer)")
        axes.set_ylabel("error compared with no privacy")
        axes.annotate(
            f"chosen: s = {short(chosen)}", (chosen, 1.0), xycoords=("data", "axes fraction"),
            xytext=_beside(chosen, levels), textcoords="offset points", va="top",
            ha="left" if _beside(chosen, levels)[0] > 0 else "right", fontsize=10.5,
        )  # fmt: skip
        if epsilons is not None:
            _top_axis(axes, levels, as_array(epsilons, "epsilons", ndim=1))
        tidy(axes)
        figure.legend(loc="outside lower left", frameon=False, handlelength=3.0)
    return figure


def checked_curve(
    levels: Array, with_privacy: Array, without_privacy: Array, names: Sequence[str]
) -> tuple[Array, Array]:
    """The levels, and the (L, n) ratios of errors with privacy to errors without."""
    levels = as_array(levels, "levels", ndim=1)
    private = as_array(with_privacy, "with_privacy", ndim=2)
    plain = as_array(without_privacy, "without_privacy", ndim=1)
    if len(levels) < 2 or not (levels[0] > 0 and (np.diff(levels) > 0).all()):
        raise InvalidInput("levels must be two or more positive numbers in increasing order.")
    if private.shape != (len(levels), len(names)) or plain.shape != (len(names),):
        raise InvalidInput(
            f"with {len(levels)} levels and {len(names)} names, with_privacy must have the shape "
            f"{(len(levels), len(names))} and without_privacy {(len(names),)}; received "
            f"{private.shape} and {plain.shape}."
        )
    if not (plain > 0).all() or (private < plain * (1 - 1e-6)).any():
        raise InvalidInput(
            "standard errors must be positive, and privacy cannot make one smaller than "
            "without_privacy; are the two arguments in the same units and order?"
        )
    ratios: Array = private / plain
    return levels, ratios


def ratios_at(levels: Array, ratios: Array, chosen: float) -> Array:
    """The (n,) ratios at the chosen level: straight lines between the levels, on log axes."""
    if not levels[0] <= chosen <= levels[-1]:
        raise InvalidInput(
            f"the chosen level must lie within the levels of the curve, {levels[0]:g} to "
            f"{levels[-1]:g}; received {chosen:g}."
        )
    logs = [np.interp(np.log(chosen), np.log(levels), np.log(column)) for column in ratios.T]
    found: Array = np.exp(np.array(logs))
    return found


def alike(ratios: Array) -> list[list[int]]:
    """Groups of columns that agree to 1 % with the first of their group."""
    groups: list[list[int]] = []
    for j, column in enumerate(ratios.T):
        for group in groups:
            if (np.abs(column / ratios[:, group[0]] - 1.0) <= SAME).all():
                group.append(j)
                break
        else:
            groups.append([j])
    return groups


def _label(group: list[int], names: Sequence[str]) -> str:
    if len(group) == len(names) > 1:
        return f"each of the {len(names)} coefficients"
    if len(group) == 1:
        return f"error of {shown(names[group[0]], 30)}"
    few = group[:2]
    more = f" and {len(group) - 2} more" if len(group) > 2 else ""
    return "error of " + ", ".join(shown(names[j], 13) for j in few) + more


def _mark_goals(
    axes: Axes,
    goals: Mapping[str, float],
    plain: Array,
    names: Sequence[str],
    groups: list[list[int]],
) -> None:
    """A dashed line at each wanted error, in the colour of its coefficient where it has one."""
    colour_of = {j: colour for group, colour in zip(groups, COLOURS) for j in group}
    for name, goal in goals.items():
        j = list(names).index(name)
        axes.axhline(
            goal / plain[j], color=colour_of.get(j, INK), ls=(0, (8, 4)), lw=1.1,
            label=f"wanted for {shown(name, 26)}",
        )  # fmt: skip


def _scale(axes: Axes, top: float) -> None:
    """Plain multiples on the left, a handful of them."""
    from matplotlib.ticker import FixedLocator, NullLocator

    apart = (top * 1.15) ** (1 / 12)  # a twelfth of the height: room for a line of letters
    places = [1.0]
    for tick in TICKS:
        if places[-1] * apart <= tick <= top * 1.15:
            places.append(tick)
    axes.yaxis.set_major_locator(FixedLocator(places))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:,g}×")
    axes.xaxis.set_major_formatter("{x:g}")


def _beside(chosen: float, levels: Array) -> tuple[float, float]:
    """The words stand on the roomier side of the mark."""
    middle = np.sqrt(levels[0] * levels[-1])
    return (6.0, -2.0) if chosen <= middle else (-6.0, -2.0)


def _top_axis(axes: Axes, levels: Array, epsilons: Array) -> None:
    if epsilons.shape != levels.shape or (np.diff(epsilons) < 0).any():
        raise InvalidInput(
            f"epsilons must give one number for each of the {len(levels)} levels, not decreasing; "
            f"received shape {epsilons.shape}."
        )
    # Where ε does not rise (0 at the strictest levels) there is nothing to mark.
    rising = np.append(np.diff(epsilons) > 0, True) & (epsilons > 0)
    if not rising.any():
        return
    above = axes.twiny()
    above.set_xscale("log")
    above.set_xlim(levels[0], levels[-1])
    above.spines[["top", "right"]].set_visible(False)
    above.set_xlabel("ε of differential privacy", fontsize=10.5)
    levels, epsilons = levels[rising], epsilons[rising]
    inside = [value for value in EPSILONS if epsilons[0] <= value <= epsilons[-1]]
    inside = inside[:: max(1, -(-len(inside) // 6))]
    places = np.exp(np.interp(inside, epsilons, np.log(levels)))
    above.set_xticks(places, [short(value) for value in inside])
    above.set_xticks([], minor=True)

"""What privacy costs: errors against the level, as multiples of the errors without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import Array, as_array, as_positive
from privest.errors import InvalidInput
from privest.report._canvas import INK, narrow_figure, shown, tidy
from privest.report._digits import short, span
from privest.report._page import Picture
from privest.report._pictures import require_larger

if TYPE_CHECKING:
    from privest.report._canvas import Axes, Figure

# Apart in hue and in lightness; each line has a dash of its own besides.
COLOURS = ("#1f5fa8", "#c2410c", "#0f766e", "#7e3fa0", "#8a6d00")
DASHES = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (1, 1)))
SAME = 0.01  # curves that agree to one in a hundred are one line to the eye
TICKS = [1.0, 1.1, 1.2, 1.5, *(d * 10.0**p for p in range(9) for d in (2, 3, 5, 10))]
EPSILONS = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]


@dataclass(frozen=True, eq=False)
class Curve:
    """Standard errors (L, n) at the privacy levels (L,), increasing; (n,) without privacy.

    epsilons  (L,) of the levels, not decreasing; target: wanted errors of some names.
    """

    names: Sequence[str]
    levels: Array
    standard_error: Array
    classical_error: Array
    epsilons: Array | None = None
    target: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels = as_array(self.levels, "levels", ndim=1)
        private = as_array(self.standard_error, "standard_error", ndim=2)
        plain = as_array(self.classical_error, "classical_error", ndim=1)
        if len(levels) < 2 or not (levels[0] > 0 and (np.diff(levels) > 0).all()):
            raise InvalidInput("levels must be two or more positive numbers in increasing order.")
        shape = (len(levels), len(self.names))
        if private.shape != shape or plain.shape != shape[1:]:
            raise InvalidInput(
                f"with {shape[0]} levels and {shape[1]} names, standard_error must have the shape "
                f"{shape} and classical_error {shape[1:]}; received {private.shape} and "
                f"{plain.shape}."
            )
        require_larger(private, plain)
        if unknown := set(self.target) - set(self.names):
            raise InvalidInput(
                f"target has {len(unknown)} names that are not among the coefficients."
            )
        self._require_epsilons(shape[:1])

    def _require_epsilons(self, shape: tuple[int, ...]) -> None:
        if self.epsilons is None:
            return
        epsilons = as_array(self.epsilons, "epsilons", ndim=1)
        if epsilons.shape != shape or (np.diff(epsilons) < 0).any():
            raise InvalidInput(
                f"epsilons must give one number for each of the {shape[0]} levels, not "
                f"decreasing; received shape {epsilons.shape}."
            )

    @property
    def ratios(self) -> Array:
        """(L, n): errors with privacy over errors without."""
        return np.asarray(self.standard_error / self.classical_error)

    @property
    def goals(self) -> dict[int, float]:
        """The wanted errors as such ratios, by the place of the coefficient."""
        places = {list(self.names).index(name): wanted for name, wanted in self.target.items()}
        return {j: as_positive(e, "target") / self.classical_error[j] for j, e in places.items()}

    def ratios_at(self, chosen: float) -> Array:
        """The (n,) ratios at the chosen level: straight lines between the levels, on log axes."""
        levels = self.levels
        if not levels[0] <= chosen <= levels[-1]:
            raise InvalidInput(
                f"the chosen level must lie within the levels of the curve, {levels[0]:g} to "
                f"{levels[-1]:g}; received {chosen:g}."
            )
        x, at = np.log(levels), np.log(chosen)
        logs = [np.interp(at, x, np.log(column)) for column in self.ratios.T]
        return np.asarray(np.exp(logs))


def tradeoff_picture(curve: Curve, chosen: float) -> Picture:
    """Errors against the level."""
    levels, ratios = curve.levels, curve.ratios
    alt = (
        f"Curve of the standard errors against the privacy level s, from {short(levels[0])} to "
        f"{short(levels[-1])}, as multiples of the errors without privacy. They fall from "
        f"{span(ratios[0])} at the strictest level to {span(ratios[-1])} at the laxest; at the "
        f"chosen level s = {short(chosen)} they are {span(curve.ratios_at(chosen))}."
    )
    caption = (
        "The price of privacy. To the left nearly nothing can be learnt about a reading, and the "
        "errors grow; to the right they come down to 1×, the errors without privacy. Both scales "
        "go up by multiplying."
    )
    if curve.epsilons is not None:
        caption += " Above: the same levels as ε of differential privacy (small is strict)."
    if curve.target:
        caption += " Dashed lines across: the errors that were asked for."
    return Picture(tradeoff_figure(curve, chosen), alt, caption)


def tradeoff_figure(curve: Curve, chosen: float) -> Figure:
    """Standard errors at each privacy level s, divided by those without privacy; log axes.

    `chosen` within the levels is marked; a dashed line for each wanted error; ε on the top axis.
    Coefficients whose curves agree to 1 % share a line (with S = sI and noise of one variance all
    do: the ratio is √(1 + 1/(sσ²)) for each). More groups than colours: the range is shaded and
    the ends are drawn.
    """
    groups = alike(curve.ratios)
    lines = min(len(groups), len(COLOURS)) + len(curve.goals)  # of the legend below
    with narrow_figure(3.5 + 0.22 * lines + (0.0 if curve.epsilons is None else 0.4)) as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        _draw_groups(axes, curve, groups, chosen)
        axes.axvline(chosen, color=INK, lw=1.0, ls=":", zorder=1)
        top = max(float(curve.ratios.max()), *curve.goals.values(), 1.2)
        axes.set_ylim(0.96, top * 1.15)
        _scale(axes, top)
        axes.set_xlim(curve.levels[0], curve.levels[-1])
        axes.set_xlabel("privacy level s   (stricter ←   → laxer)")
        axes.set_ylabel("error compared with no privacy")
        # The words stand on the roomier side of the mark.
        right = chosen <= np.sqrt(curve.levels[0] * curve.levels[-1])
        axes.annotate(
            f"chosen: s = {short(chosen)}", (chosen, 1.0), xycoords=("data", "axes fraction"),
            xytext=(6.0 if right else -6.0, -2.0), textcoords="offset points", va="top",
            ha="left" if right else "right", fontsize=10.5,
        )  # fmt: skip
        if curve.epsilons is not None:
            _top_axis(axes, curve.levels, curve.epsilons)
        tidy(axes, 0.3, lw=0.7)
        figure.legend(loc="outside lower left", frameon=False, handlelength=3.0)
    return figure


def _draw_groups(axes: Axes, curve: Curve, groups: list[list[int]], chosen: float) -> None:
    """The curves, or their range and ends, and the wanted errors in the same colours."""
    levels, ratios, at = curve.levels, curve.ratios, curve.ratios_at(chosen)
    if len(groups) > len(COLOURS):
        axes.fill_between(
            levels, ratios.min(axis=1), ratios.max(axis=1), color="#b8c4d0", alpha=0.5, lw=0,
            label=f"all {len(curve.names)} coefficients",
        )  # fmt: skip
        groups = [[int(at.argmax())], [int(at.argmin())]]
    for group, colour, dash in zip(groups, COLOURS, DASHES):
        label = _label(group, curve.names)
        axes.plot(levels, ratios[:, group[0]], color=colour, ls=dash, lw=2.2, label=label, zorder=3)
        axes.plot(chosen, at[group[0]], "o", color=colour, ms=8, mec="white", zorder=5)
    colour_of = {j: colour for group, colour in zip(groups, COLOURS) for j in group}
    for j, goal in curve.goals.items():
        label = f"wanted for {shown(curve.names[j], 26)}"
        axes.axhline(goal, color=colour_of.get(j, INK), ls=(0, (8, 4)), lw=1.1, label=label)


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


def multiples(top: float) -> list[float]:
    """Round multiples from 1 up to `top`, as many as there is room for."""
    apart = (top * 1.15) ** (1 / 12)  # a twelfth of the height: room for a line of letters
    places = [1.0]
    for tick in TICKS:
        if places[-1] * apart <= tick <= top * 1.15:
            places.append(tick)
    return places


def _scale(axes: Axes, top: float) -> None:
    """Plain multiples on the left, a handful of them."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.yaxis.set_major_locator(FixedLocator(multiples(top)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:,g}×")
    axes.xaxis.set_major_formatter("{x:g}")


def _top_axis(axes: Axes, levels: Array, epsilons: Array) -> None:
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

"""The four pictures of the report, each with its text: the numbers that the drawing shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array
from privest.report._convergence import Trail
from privest.report._digits import plural, rounded, short, times
from privest.report._intervals import checked_errors, intervals_figure, quantile
from privest.report._page import Picture
from privest.report._pair import pair_figure
from privest.report._tradeoff import checked_curve, ratios_at, tradeoff_figure
from privest.report._trail_figure import trail_figure

SECRET = "The estimate without privacy is secret and is not shown, only how precise it would be."


@dataclass(frozen=True, eq=False)
class Curve:
    """Standard errors (L, n) at the privacy levels (L,); ε of each level, wanted errors by name."""

    levels: Array
    with_privacy: Array
    epsilons: Array | None = None
    target: Mapping[str, float] | None = None

    def through(self, level: float, errors: Array) -> Curve:
        """The curve with the exact errors (n,) at one level, so that its mark lies on it."""
        levels, private = np.asarray(self.levels, float), np.asarray(self.with_privacy, float)
        others = levels != level
        k = int(np.searchsorted(levels[others], level))
        epsilons = self.epsilons
        if epsilons is not None:
            here = np.interp(np.log(level), np.log(levels), epsilons)
            epsilons = np.insert(np.asarray(epsilons, float)[others], k, here)
        return Curve(
            np.insert(levels[others], k, level),
            np.insert(private[others], k, errors, axis=0),
            epsilons,
            self.target,
        )


@dataclass(frozen=True, eq=False)
class Pair:
    """Two coefficients, and the 2×2 blocks of the covariance with and without privacy."""

    names: tuple[str, str]
    estimate: Array
    with_privacy: Array
    without_privacy: Array


def tradeoff_picture(
    curve: Curve, without_privacy: Array, names: Sequence[str], chosen: float
) -> Picture:
    """Errors against the level."""
    levels, ratios = checked_curve(curve.levels, curve.with_privacy, without_privacy, names)
    at = ratios_at(levels, ratios, chosen)
    alt = (
        f"Curve of the standard errors against the privacy level s, from {short(levels[0])} to "
        f"{short(levels[-1])}, as multiples of the errors without privacy. They fall from "
        f"{_span(ratios[0])} at the strictest level to {_span(ratios[-1])} at the laxest; at the "
        f"chosen level s = {short(chosen)} they are {_span(at)}."
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
    figure = tradeoff_figure(
        levels,
        curve.with_privacy,
        without_privacy,
        names,
        chosen,
        target=curve.target,
        epsilons=curve.epsilons,
    )
    return Picture(figure, alt, caption)


def intervals_picture(
    names: Sequence[str],
    estimate: Array,
    with_privacy: Array,
    without_privacy: Array,
    confidence: float = 0.95,
) -> Picture:
    """Estimates and intervals; the alternative text lists them all."""
    values, private, plain = checked_errors(names, estimate, with_privacy, without_privacy)
    q = quantile(confidence)
    each = "; ".join(
        f"{name} {rounded(v, q * wide)} ± {rounded(q * wide, q * wide)} (without privacy "
        f"± {rounded(q * narrow, q * narrow)})"
        for name, v, wide, narrow in zip(names, values, private, plain)
    )
    percent = f"{100 * confidence:g} %"
    return Picture(
        intervals_figure(names, values, private, plain, confidence),
        f"Private estimates with their {percent} intervals: {each}.",
        f"Dot: the private estimate. Thin bar: its {percent} interval. Thick bar: the interval "
        f"that the same data would give without privacy, drawn around the same dot. {SECRET} "
        "Every row has its own scale; a dashed line marks zero.",
    )


def pair_picture(pair: Pair) -> Picture:
    """Two coefficients together."""
    figure = pair_figure(pair.names, pair.estimate, pair.with_privacy, pair.without_privacy)
    first, second = pair.names
    areas = np.sqrt(np.linalg.det(pair.with_privacy) / np.linalg.det(pair.without_privacy))
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


def trail_picture(trail: Trail, names: Sequence[str]) -> Picture:
    """How the estimates settle."""
    figure = trail_figure(trail, names)
    step, _, error = trail.points[-1]
    early_step, _, early = trail.points[len(trail.points) // 10]
    alt = (
        f"One panel for each of {plural(len(names), 'coefficient')}: the private estimate with its "
        f"95 % band against the number of readings released. From {early_step + 1:,} to "
        f"{step + 1:,} readings the bands become {_span(early / error)} narrower."
    )
    caption = (
        "The estimates after each release, computed from the releases alone. Line: the estimate. "
        "Shaded: its 95 % interval, which narrows as readings come in. Dotted: the last estimate. "
        "The very first ones may lie outside the panel."
    )
    return Picture(figure, alt, caption)


def _span(ratios: Array) -> str:
    return times(float(ratios.min()), float(ratios.max()))

"""The report in words, for a reader who knows neither Fisher information nor least squares.

Short and true: what was found, what privacy cost, what is promised, what is not, how to repeat it.
Nothing here reads a measurement: every number is a release, or a function of public inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from privest.arrays import Array, as_positive
from privest.errors import InvalidInput
from privest.report._convergence import Trail
from privest.report._digits import at_least, plural, rounded, times
from privest.report._intervals import checked_errors, quantile
from privest.report._page import Commands, Note, Part, Section, TableBlock
from privest.report._pictures import (
    Curve,
    Pair,
    intervals_picture,
    pair_picture,
    tradeoff_picture,
    trail_picture,
)
from privest.report._promise import not_promised, promised

CONFIDENCE = 0.95


def story(
    *,
    response: str,
    names: Sequence[str],
    estimate: Array,
    with_privacy: Array,
    without_privacy: Array,
    level: float,
    rows: int,
    noise_variance: float,
    simulated: bool,
    commands: Sequence[str],
    epsilon: float | None = None,
    delta: float | None = None,
    move: float | None = None,
    curve: Curve | None = None,
    pair: Pair | None = None,
    trail: Trail | None = None,
) -> list[Section]:
    """The sections of the report on one private linear regression at the level S = s·I.

    response: what was measured. estimate, with_privacy, without_privacy (n,): the private
    estimate, its standard errors, and those of the same rows without privacy. level: s. rows: K.
    epsilon, delta, move: together or not at all; for the Gaussian release when one reading moves
    by at most `move`. curve, pair and trail add the trade-off, the ellipses and the stream.
    """
    values, private, plain = checked_errors(names, estimate, with_privacy, without_privacy)
    s = as_positive(level, "level")
    variance = as_positive(noise_variance, "noise_variance")
    if rows < 1:
        raise InvalidInput(f"rows must be at least 1; received {rows}.")
    dp = (epsilon, delta, move)
    if any(x is None for x in dp) and any(x is not None for x in dp):
        raise InvalidInput("epsilon, delta and move belong together: give all three or none.")
    if len(commands) == 0:
        raise InvalidInput("commands must hold at least one line: how to repeat this report.")
    found = Section("What was found", _found(response, names, values, private, plain, rows))
    sections = [
        Section("In short", _in_short(response, private / plain, s, rows, simulated)),
        found,
        Section("What privacy cost", _cost(private / plain, plain, names, rows, s, curve)),
        Section("What is promised", promised(s, variance, response, epsilon, delta, move)),
        Section("What is not promised", not_promised(simulated)),
        Section(
            "Repeat it",
            (
                "These commands made this page. The second one is for the data holder, and once: "
                "every further release of the same readings, with new noise, spends their privacy "
                "again, and a release that exists is not written over.",
                Commands(tuple(commands)),
            ),
        ),
    ]
    more: list[Section] = []
    if pair is not None:
        more.append(Section("Two coefficients together", (_PAIR, pair_picture(pair))))
    if trail is not None:
        more.append(Section("How the estimates settled", (_TRAIL, trail_picture(trail, names))))
    return sections[:3] + more + sections[3:]


_PAIR = (
    "Errors of two coefficients may go together: if one is guessed too high, the other is then "
    "likely too low. Intervals one by one do not show that; the ellipse does."
)
_TRAIL = (
    "The readings were released one after another. An analyst who sees only the releases gets "
    "these estimates as they come in."
)


def _in_short(
    response: str, ratios: Array, s: float, rows: int, simulated: bool
) -> tuple[Part, ...]:
    lines: list[Part] = [
        f"This page reports how “{response}” depends on other quantities, estimated from "
        f"{plural(rows, 'row')} of data. The readings themselves were not handed over: noise was "
        "added first, as much as a chosen privacy level asks for, and the estimates were computed "
        "from what came out.",
        "The chosen level promises that nobody who sees the release can work out a single reading, "
        "by a method that is right on average, with a typical error below "
        f"{at_least(1 / math.sqrt(s))}. In return the errors of the estimates are "
        f"{_times(ratios)} what they would be without privacy.",
    ]
    if simulated:
        lines.append(
            Note(
                "The noise of this version is simulated. It gives no protection: use this page to "
                "plan and to learn, and do not publish the release itself.",
                "warning",
            )
        )
    return tuple(lines)


def _found(
    response: str, names: Sequence[str], values: Array, private: Array, plain: Array, rows: int
) -> tuple[Part, ...]:
    q = quantile(CONFIDENCE)
    table = TableBlock(
        ("coefficient", "private estimate", "standard error", "95 % interval", "error, no privacy"),
        [
            (
                name,
                rounded(v, e),
                rounded(e, e),
                f"{rounded(v - q * e, e)} to {rounded(v + q * e, e)}",
                rounded(e0, e0),
            )
            for name, v, e, e0 in zip(names, values, private, plain)
        ],
        caption=f"Coefficients for “{response}”, from the release of {plural(rows, 'row')}.",
    )
    return (
        f"A coefficient says by how much “{response}” changes when one quantity grows by one unit "
        "and the others stay as they are. (An intercept, if there is one, is the value when all "
        "others are zero.) The standard error is the typical distance of an estimate from the "
        "truth. If the model is right, 95 of 100 such intervals hold the true coefficient; an "
        "interval that holds zero leaves open which way the effect goes.",
        table,
        intervals_picture(names, values, private, plain, CONFIDENCE),
    )


def _cost(
    ratios: Array,
    plain: Array,
    names: Sequence[str],
    rows: int,
    s: float,
    curve: Curve | None,
) -> tuple[Part, ...]:
    left = rows / ratios**2  # variances go down as 1/rows
    low, high = (f"{x:,.0f}" if x >= 10 else f"{x:.2g}" for x in (left.min(), left.max()))
    many = low if low == high else f"{low} to {high}"
    parts: list[Part] = [
        f"With privacy the standard errors are {_times(ratios)} those without. Seen the other way: "
        f"{plural(rows, 'row')} with privacy tell about as much as {many} such rows would without.",
        "Both kinds of error follow from the features, the noise variance and the privacy level, "
        "never from the readings, so showing them gives nothing away.",
    ]
    if curve is not None:
        parts.append(tradeoff_picture(curve.through(s, plain * ratios), plain, names, s))
    return tuple(parts)


def _times(ratios: Array) -> str:
    return times(float(ratios.min()), float(ratios.max()))

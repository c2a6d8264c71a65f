"""The slider for ε: its scale, ε of a plan and the plan at an ε, and errors along the scale.

Every band of `privacy.exposures.band` has a quarter of the slider, on a logarithmic scale.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from privest.arrays import CONFIDENCE
from privest.errors import InvalidInput
from privest.privacy import Range, gdp
from privest.privacy.exposures import DELTA
from privest.report.numbers import BAND, down, end, half, most, near
from privest.report.planning import Errors, planned_errors, squares_sentence
from privest.report.sections import Section, Sentence
from privest.workflow.plan import Plan
from privest.workflow.strategies import Distribution
from privest.workflow.terms import Terms, split_of

BORDERS = (0.1, 1.0, 3.0, 10.0, 100.0)
WORDS = ("small", "moderate", "large", "very large")
POSITIONS = 400
LEAST, MOST = 0.01, 1000.0  # ε that may be asked for
EXACT = 1e-9  # relative, of an ε that is looked for
TINY = 1e-4  # the least ε that is written; smaller ones are rounded up to it
STEPS = 60  # of the curve
CUT = 6.0  # times the error without privacy: longer bars are cut
TOP, HIGH = 24.0, 190.0  # of the curve, pixels


def position_of(epsilon: float) -> float:
    """The place of an ε, from 0 to 1.

    >>> [round(position_of(x), 3) for x in (0.1, 1.0, 3.0, 10.0, 100.0, 1000.0)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """
    given = min(max(epsilon, BORDERS[0]), BORDERS[-1])
    for k, (low, high) in enumerate(pairwise(BORDERS)):
        if given <= high:
            return (k + math.log(given / low) / math.log(high / low)) / len(WORDS)
    return 1.0


def epsilon_at(position: float) -> float:
    place = min(max(position, 0.0), 1.0) * len(WORDS)
    k = min(int(place), len(WORDS) - 1)
    return float(BORDERS[k] * (BORDERS[k + 1] / BORDERS[k]) ** (place - k))


def epsilon_text(epsilon: float) -> str:
    """ε to be typed again: three digits, rounded up, no power of ten.

    >>> epsilon_text(1.0), epsilon_text(0.1234), epsilon_text(96.71), epsilon_text(1e-320)
    ('1', '0.124', '96.8', '0.0001')
    """
    epsilon = max(epsilon, TINY)
    digits = 2 - math.floor(math.log10(epsilon))
    rounded = math.ceil(round(epsilon * 10.0**digits, 6)) / 10.0**digits
    return end(rounded).replace(",", "")


def require_epsilon(epsilon: float, what: str) -> float:
    if not LEAST <= epsilon <= MOST:
        raise InvalidInput(f"{what} must be between {end(LEAST)} and {end(MOST)}.")
    return epsilon


# --- ε of a plan, and the plan at an ε ------------------------------------------------------------


def _delta(terms: Terms) -> float:
    return 0.0 if terms.distribution.pure else terms.privacy.delta or DELTA


def epsilon_of(terms: Terms) -> float | None:
    """ε over the whole range, as stated or by the level; None without a range."""
    if any(terms.limits(column) is None for column in terms.columns):
        return None
    if terms.privacy.epsilon is not None and terms.privacy.sensitivity is None:
        return terms.privacy.epsilon
    return terms.over_the_range(_delta(terms)).epsilon


def epsilon_of_amount(terms: Terms, amount: float, unit: str = "level") -> float | None:
    """ε of another release of one column that takes this much of its account (`Terms.counted`)."""
    delta = _delta(terms)
    if unit == "mu2":
        return gdp.epsilon_of(math.sqrt(amount), delta)
    if terms.splits:  # with the same squares
        own = terms.splits[0]
        return gdp.epsilon_of(own.stated * math.sqrt(amount / own.exposure), delta)
    whole = terms.over_the_range(delta)
    return replace(whole, columns=(replace(whole.column, level=amount),)).epsilon


def at_epsilon(plan: Plan, epsilon: float) -> Plan:
    delta = _delta(plan) or None
    stated = replace(plan.privacy, epsilon=epsilon, level=None, standard_error=None, delta=delta)
    return plan.under(stated)


def epsilon_for(plan: Plan, error: float, of: str) -> float:
    """The smallest ε at which a coefficient has this 95% error."""
    errors = planned_errors(plan)[0]
    level = plan.level_for(error, of, CONFIDENCE, alone=errors.alone)
    if not plan.splits:
        return max(epsilon_of_amount(plan, level) or 0.0, LEAST)
    least, most = LEAST, 2 * MOST  # beyond MOST it is refused
    while most / least > 1 + EXACT:
        middle = math.sqrt(least * most)
        try:
            enough = at_epsilon(plan, middle).column.level >= level
        except InvalidInput:  # too small for the grid
            enough = False
        least, most = (least, middle) if enough else (middle, most)
    return most


def level_sentence(plan: Plan) -> Sentence:
    if plan.splits:
        return squares_sentence(plan)
    limits = plan.limits(plan.column)
    assert limits is not None
    noise = plan.distribution.variance(plan.column.level, limits)
    values = {
        "relative": plan.column.level * limits.width**2, "width": limits.width,
        "sd": math.sqrt(noise),
    }  # fmt: skip
    if plan.distribution.bits:
        return Sentence("level_relative_answers", values)
    key = "level_relative" if plan.model.transform == "none" else "level_relative_log"
    return Sentence(key, values)


# --- pictures -------------------------------------------------------------------------------------


def error_rows(errors: Errors) -> list[dict[str, Any]]:
    """A row for each coefficient: half-widths of 95% intervals, and the widths of two bars."""
    found = []
    for j, name in enumerate(errors.names):
        error = float(errors.private[j])
        row: dict[str, Any] = {"name": name, "with": half(error)}
        if errors.open is not None:
            plain = float(errors.open[j])
            row |= {
                "without": half(plain), "times": near(error / plain), "cut": error > CUT * plain,
                "wide": 100 * min(1.0, error / plain / CUT), "narrow": 100 / CUT,
            }  # fmt: skip
        row["guesses"] = [half(float(one[j])) for one in errors.guesses.values()]
        found.append(row)
    return found


def guess_bars(values: Mapping[str, Any]) -> list[dict[str, str]]:
    before = values["sds"]
    after = values.get("after") or values.get("mean") or values["informed"]
    return [
        {
            "before": near(a), "after": down(b), "wide": f"{96 * a / max(before):.1f}",
            "narrow": f"{96 * b / max(before):.1f}",
        }
        for a, b in zip(before, after)
    ]  # fmt: skip


def ends_rate(panel: Section) -> dict[str, Any]:
    """How often an attacker is right between the two ends of the range, of 100 times.

    guess: without the release; for yes and no, by always saying the likelier one.
    """
    chance, guess = 1.0, 0.5
    for part in panel.parts:
        if isinstance(part, Sentence) and part.key.startswith("ends"):
            right, guess = part.values["right"], part.values.get("always", 0.5)
            if right.key == "right_most":
                chance = float(right.values["p"][0])
    found = {"right": min(100, math.ceil(100 * chance - 1e-9)), "guess": math.floor(100 * guess)}
    return found | {"said": most(chance)}


@dataclass(frozen=True)
class Axis:
    """Errors on a logarithmic axis in pixels, from `top` down to `bottom`."""

    top: float
    bottom: float

    def y(self, error: float) -> float:
        share = math.log(self.top / max(error, self.bottom)) / math.log(self.top / self.bottom)
        return TOP + HIGH * share

    def ticks(self, plain: float | None) -> list[tuple[str, str]]:
        """Round numbers, at most four, whose labels are free of the axis and the dashed line."""
        first, last = (math.floor(math.log10(x)) for x in (self.bottom, self.top))
        every = [d * 10.0**p for p in range(first, last + 2) for d in (1, 2, 5)]
        places = [(self.y(tick / BAND), tick) for tick in every if tick / BAND < self.top / 2.5]
        free = [
            (place, tick) for place, tick in places
            if place < TOP + HIGH - 18 and (plain is None or abs(place - self.y(plain)) > 40)
        ]  # fmt: skip
        some = free[:: max(1, math.ceil(len(free) / 4))]
        return [(f"{place:.1f}", f"± {near(tick)}") for place, tick in some]


@cache
def _relative_levels(distribution: Distribution, delta: float) -> list[float]:
    every = [epsilon_at(k / STEPS) for k in range(STEPS + 1)]
    return [distribution.relative_level(epsilon, delta) for epsilon in every]


def error_curve(plan: Plan, errors: Errors, of: int, epsilon: float) -> dict[str, Any]:
    """95% errors of one coefficient against ε, on the scale of the slider."""
    plan = plan.scenarios.get(errors.rarest, plan)
    limits = plan.limits(plan.column)
    assert limits is not None
    levels = _levels_of_sums(plan, limits) if plan.splits else {
        k: one / limits.width**2
        for k, one in enumerate(_relative_levels(plan.distribution, _delta(plan)))
    }  # fmt: skip
    xs = [k / STEPS for k in levels]
    ys = [_error(plan, level, of, alone=errors.alone) for level in levels.values()]
    plain = None if errors.open is None else float(errors.open[of])
    axis = Axis(1.15 * max(ys), 0.72 * (min(ys) if plain is None else plain))
    here, place = float(errors.private[of]), 100 * position_of(epsilon)
    return {
        "points": " ".join(f"{100 * x:.2f},{axis.y(error):.1f}" for x, error in zip(xs, ys)),
        "x": f"{place:.2f}", "y": f"{axis.y(here):.1f}", "here": half(here), "after": place < 60,
        "plain": None if plain is None else (f"{axis.y(plain):.1f}", half(plain)),
        "ticks": axis.ticks(plain), "ends": (half(ys[0]), half(ys[-1])),
        "axis": [(f"{100 * position_of(x):g}", end(x)) for x in BORDERS],
    }  # fmt: skip


@cache
def _mus(delta: float) -> list[float]:
    return [gdp.mu_of(epsilon_at(k / STEPS), delta) for k in range(STEPS + 1)]


def _levels_of_sums(plan: Plan, limits: Range) -> dict[int, float]:
    """c₁ along the slider, by the step; none where ε is too small for the grid of these sums."""
    design, found = plan.survey.sums, dict[int, float]()
    assert design is not None
    for k, mu in enumerate(_mus(_delta(plan))):
        with contextlib.suppress(InvalidInput):
            found[k] = split_of(plan.model, plan.privacy, limits, design, {"mu": mu}).level
    return found


def _error(plan: Plan, level: float, of: int, *, alone: bool) -> float:
    found = plan.errors(plan.column, level)
    return float((found.privacy if alone else found.total)[of])


def first_slope(names: Sequence[str], intercept: str) -> int:
    """The place of the first coefficient that is no intercept."""
    return next((k for k, name in enumerate(names) if name != intercept), 0)

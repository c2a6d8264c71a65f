"""Plans and estimates of yes or no, of counts and of pure laws, as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from rich.console import Console

from privest.cli._console import new_table, shown
from privest.estimator.inference._categorical import ENOUGH
from privest.report import BAND, at_most, exposed_by, exposure, level_words, rounded
from privest.report._plan_words import differential_words, left_out_words, size_words
from privest.workflow import Estimate, Plan
from privest.workflow._law_plan import LawPlan, offered
from privest.workflow._laws import YES_NO

SCALES = {"gaussian": "", "binomial": ", in log odds", "poisson": ", in logarithms of the mean"}


def print_law_plan(console: Console, found: LawPlan, rows: Mapping[str, int] | None = None) -> None:
    """The plan as tables and sentences."""
    left = left_out_words(found.dropped)
    head = f"{size_words(found)}: all of them can be estimated."
    console.print(shown(head + left))
    table = new_table(
        f"Standard errors to expect (± for 95 %){SCALES[found.spec.family]}",
        "coefficient", "without privacy", "with privacy",
    )  # fmt: skip
    for name, open_, private in zip(found.names, found.classical_error, found.standard_error):
        table.add_row(shown(name), _error(open_), _error(private))
    console.print(table)
    for line in [*_expected(found), *promised(found), *_worth(found)]:
        console.print(shown(line))
    print_offers(console, found)
    for want, count in (rows or {}).items():
        console.print(shown(f"For {want} at this level {count:,} rows like these are needed."))


def _error(error: float) -> str:
    return f"{error:.4g} (± {BAND * error:.3g})" if math.isfinite(error) else "not known"


def _expected(found: LawPlan) -> list[str]:
    """What was taken for granted."""
    if found.guess is None:
        return []
    what = {
        "binomial": f"a share of yes of {found.guess:.3g}",
        "poisson": f"a mean of {found.guess:.3g}",
    }[found.spec.family]
    whose = "as you expect" if found.stated else "a guess; state yours from public knowledge"
    return [f"For {what} in {found.target!r}, {whose} (--expect {found.target}={found.guess:.3g})."]


def promised(found: Plan) -> list[str]:
    """What whoever sees the release can do, and the promise in one sentence."""
    lines = [line for one in exposed_by(found) for line in exposure(one)]
    if found.epsilon is None:
        return [f"At {level_words(found.level)}.", *lines]
    column = found.column
    if column.law == "coin":
        wrong = float(column.coin.wrong)
        lines.insert(
            0,
            f"Every answer is turned into its opposite with probability {wrong:.4f}, by a coin of "
            "the operating system; what is neither 0 nor 1 counts as the nearer of both.",
        )
    if column.law == "gaussian":
        return [f"At {level_words(found.level)}.", *lines]
    return [*lines, *differential_words(found)]


def _worth(found: LawPlan) -> list[str]:
    lines = []
    share = found.effective_share
    if share is not None:
        lines.append(
            f"A row is worth {100 * share:.2g} % of a row without privacy: {found.rows:,} count as "
            f"{math.floor(found.rows * share):,}."
        )
    useful = found.usefulness
    if useful is not None and useful < ENOUGH:
        lines.append(
            f"That is few: a logistic regression from coins is of use from some "
            f"{math.ceil(ENOUGH / useful * found.rows):,} rows on at this ε (rows × (1 − 2q)² = "
            f"{useful:.3g}, of 200). With fewer there may be no finite fit."
        )
    if found.spec.family != "binomial" and found.range is not None:
        lines.append(clipped_words(*found.range))
    return lines


def clipped_words(low: float, high: float) -> str:
    """What least squares speaks of where readings are clipped and no likelihood undoes it."""
    return (
        f"Readings beyond {low:.6g} to {high:.6g} count as its ends: the estimate is of readings "
        "so clipped."
    )


def print_offers(console: Console, found: Plan) -> None:
    """Gaussian and Laplace noise at the same ε, and which promise each makes."""
    every = offered(found)
    if not every:
        return
    totals = {one.law: one.variance for one in every}
    least, apart = min(totals.values()), found.move
    table = new_table(
        f"One number a person at ε = {every[0].epsilon:g}, readings {apart:.4g} apart",
        "--law", "noise variance", "rows", "guess right", "promise",
    )  # fmt: skip
    for one in every:
        table.add_row(
            one.law,
            f"{one.variance:.3g} × {apart:.4g}²",
            f"{totals[one.law] / least:.3g} ×",
            f"{at_most(100 * one.guess)} %",
            f"ε but for δ = {one.delta:g}" if one.delta else "ε, always",
        )
    console.print(table)
    console.print(
        shown(
            "Rows: how many it takes for the same errors, where noise is most of them. Guess "
            f"right: between two readings {apart:.4g} apart, at most. Gaussian noise also keeps "
            "the level, and is best where that, or how often a guess is right, is what is wanted."
        )
    )
    best = min(totals, key=lambda law: totals[law])
    if best != found.column.law:
        console.print(
            shown(
                f"For this ε {best.capitalize()} noise (--law {best}) needs "
                f"{totals[found.column.law] / least:.2g} times fewer rows than this plan."
            )
        )


def yes_or_no(found: Plan) -> list[str]:
    """A sentence where a Gaussian release may be of a yes or no: its public range says so."""
    if found.spec.family != "gaussian" or found.column.law != "gaussian" or found.range != YES_NO:
        return []
    return [
        "The range is 0 to 1. If the readings are yes or no (1 or 0), say --family binomial: coins "
        "then hide each answer with a pure ε, and a logistic regression is estimated; ± says "
        "little of a yes or no."
    ]


def family_lines(found: Estimate, confidence: float) -> list[str]:
    """What the coefficients of a family mean; of clipped numbers what they speak of."""
    header = found.release
    if header.family == "gaussian":
        if header.column.law == "gaussian" or header.range is None:
            return []
        return [clipped_words(*header.range)]
    what = "the odds of a yes" if header.family == "binomial" else "the mean count"
    ends = found.interval(confidence)
    parts = []
    for name, value, (low, high) in zip(header.names, found.estimate, ends):
        if name == "intercept":
            continue
        times, below, above = (float(x) for x in np.exp(np.clip([value, low, high], -700, 700)))
        digits = [rounded(x, (above - below) / 4) for x in (times, below, above)]
        parts.append(f"{name} × {digits[0]} ({digits[1]} … {digits[2]})")
    lines = []
    if header.family == "poisson" and header.range is not None:
        lines.append(clipped_words(*header.range))
    if parts:
        lines.append(
            f"One unit more multiplies {what} ({100 * confidence:g} %): {'; '.join(parts)}."
        )
    return lines

"""What was found, in one sentence that a decision can be made on."""

from __future__ import annotations

from collections.abc import Sequence

from privest.arrays import CONFIDENCE
from privest.report._coefficients import INTERCEPT, Coefficient, coefficients
from privest.report._digits import per_cent
from privest.report._facts import Outcome

MOST_NAMED = 4  # of those that are not told in full


def finding(outcome: Outcome, confidence: float = CONFIDENCE) -> str:
    """The clearest effect with its interval, the other clear ones, and what is left open.

    Where the release bounds nothing, that alone.
    Per cent where coefficients are logarithms. Clear: the interval does not hold zero.
    """
    if not outcome.bounded:
        return f"No coefficient of “{outcome.response}” can be told. {outcome.ranged or ''}".strip()
    every = coefficients(outcome.result, outcome.scale, confidence)
    slopes = [one for one in every if one.name != INTERCEPT]
    if not slopes:
        return _level_of(outcome, every[0], confidence)
    clear = sorted((one for one in slopes if one.is_clear), key=_strength, reverse=True)
    open_ = [one.name for one in slopes if not one.is_clear]
    if not clear:
        return (
            f"No effect on “{outcome.response}” was found that can be told from none: the "
            f"{per_cent(confidence)} interval of {_listed(open_)} holds zero."
        )
    first = clear[0]
    text = f"{_subject(outcome)} {_effect(first, confidence)} {_where(first.name)}"
    if len(clear) > 1:
        others = [f"{one.name} ({_direction(one)})" for one in clear[1:]]
        text += f"; clear too: {_listed(others)}"
    if open_:
        text += f"; which way it goes with {_listed(open_)} is left open"
    return text + "."


def _strength(one: Coefficient) -> float:
    """How far zero is from the interval, in its half-widths."""
    return min(abs(one.low), abs(one.high)) / (one.high - one.low)


def _direction(one: Coefficient) -> str:
    return "higher" if one.estimate > 0 else "lower"


def _subject(outcome: Outcome) -> str:
    if outcome.family == "binomial":
        return f"The odds of “{outcome.response}” are"
    if outcome.family == "poisson":
        return f"The expected number of “{outcome.response}” is"
    return f"“{outcome.response}” is"


def _effect(one: Coefficient, confidence: float) -> str:
    """`5.1 % higher`, `higher by 0.05`, with the interval."""
    interval = f"({per_cent(confidence)} interval {one.interval_text})"
    if one.percent:
        return f"{one.size_text} {_direction(one)} {interval}"
    return f"{_direction(one)} by {one.size_text} {interval}"


def _where(name: str) -> str:
    """For one unit more of a number; for a category against its baseline."""
    column, equals, value = name.partition("=")
    if equals and value:
        return f"where {column} is {value} than at the baseline, other features equal"
    return f"for each unit more of {name}, other features equal"


def _level_of(outcome: Outcome, one: Coefficient, confidence: float) -> str:
    """Of a plain mean."""
    after = ", after the logarithm," if outcome.transform == "log" else ""
    return (
        f"The mean of “{outcome.response}”{after} is {one.value_text} "
        f"({per_cent(confidence)} interval {one.interval_text})."
    )


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c, d and 3 more`."""
    few = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        return f"{', '.join(few)} and {len(names) - MOST_NAMED} more"
    return few[0] if len(few) == 1 else f"{', '.join(few[:-1])} and {few[-1]}"

"""What one person is exposed to at a privacy level, in sentences: never by ε alone.

The same words for the terminal and for the page. Errors of an attacker are rounded down and chances
up: a sentence promises no more than the level does (`privacy.attacker` has the formulas).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privest.privacy import attacker
from privest.privacy._statement import grid_mu
from privest.report._digits import at_least, at_most, short
from privest.workflow import Terms
from privest.workflow._column import Column

COIN = "(a coin: 50 %)"
MOST_CHANCE = 0.999  # the next one has no three digits below 100 %


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """One reading of one person, in the units in which it is modelled.

    level       s of the release
    spread      σ: how readings scatter about what features and coefficients say; None: not known
    prior       τ: how well an attacker knows the reading beforehand, where `spread` is not known
    apart       c, a difference between two readings that matters; None: nobody stated one
    transform   of the reading: after a logarithm differences are factors
    law         of the noise; for "coin" `epsilon` says all there is to say
    epsilon     of a pure promise
    reading     what is guessed, with a capital letter
    """

    level: float
    spread: float | None = None
    prior: float | None = None
    apart: float | None = None
    transform: str = "none"
    law: str = "gaussian"
    epsilon: float | None = None
    reading: str = "One reading"


def exposed_by(terms: Terms) -> list[Exposed]:
    """One reading of each private column of a release; differences that matter as it states."""
    return [exposed_of(column, _tolerance(terms)) for column in terms.columns]


def _tolerance(terms: Terms) -> float | None:
    """The difference that was stated to matter; several columns have their own."""
    return terms.spec.privacy.tolerance if len(terms.columns) == 1 else None


def exposed_of(column: Column, apart: float | None = None) -> Exposed:
    """One reading of a private column."""
    # How a person's mean scatters is not what is stated, which is how single readings do.
    variance = None if column.person is not None else column.noise_variance
    return Exposed(
        level=column.level,
        spread=None if variance is None else math.sqrt(variance),
        apart=_apart(column) if apart is None else apart,
        transform=column.transform,
        law=column.law,
        epsilon=column.epsilon,
        reading=_what(column),
    )


def _what(column: Column) -> str:
    """What is guessed: of persons with several rows the level is that of their mean."""
    what = "One reading"
    if column.level_column is not None:
        what = "The reading of the row with the highest level"
    if column.person is not None:
        what = "The mean of one person's readings (where all of them are higher or lower alike)"
    return what if column.alone else f"{what} of {column.target!r}"


def _apart(column: Column) -> float | None:
    """What ε speaks of, where it is pure; else what was stated, or the range where it is narrow."""
    if column.law == "laplace":
        return column.counted_move
    width = None if column.limits is None else column.limits.width
    if column.move is None and width is not None and width * math.sqrt(column.level) < 4:
        return width  # values that are further apart do not exist
    return column.move


def exposure(exposed: Exposed) -> list[str]:
    """What an attacker can do, in plain sentences."""
    return LAWS[exposed.law](exposed)


@dataclass(frozen=True)
class Headline:
    """One number with the words around it, where there is room for no more."""

    before: str
    number: str
    after: str


def headlines(exposed: Exposed) -> list[Headline]:
    """The first things an attacker can do, each as a number to look at; `exposure` says it all."""
    return HEADLINES[exposed.law](exposed)


def _guess_headline(one: Exposed) -> Headline:
    whose = one.reading[0].lower() + one.reading[1:]
    whose = "one person’s value" if whose == "one reading" else whose
    return Headline(
        f"Somebody who knows everything else guesses {whose} to",
        about(attacker.reading_error(one.level), one.transform),
        "at best: one standard deviation, for a guess that is right on average.",
    )


def _between_headline(one: Exposed, chance: Callable[[float], float]) -> Headline:
    near = one.spread if one.apart is None else one.apart
    near = attacker.reading_error(one.level) if near is None else near
    return Headline(
        f"Who must tell two values that {differs(near, one.transform)} from each other is right in",
        often(chance(near)), f"{COIN}.",
    )  # fmt: skip


def _gaussian_headlines(one: Exposed) -> list[Headline]:
    return [
        _guess_headline(one),
        _between_headline(one, lambda c: attacker.chance_of_mu(_mu(one.level, c))),
    ]


def _laplace_headlines(one: Exposed) -> list[Headline]:
    root = math.sqrt(one.level)
    return [_between_headline(one, lambda c: attacker.laplace_chance(root * c))]


def _coin_headlines(one: Exposed) -> list[Headline]:
    assert one.epsilon is not None
    chance = often(attacker.coin_chance(one.epsilon))
    return [
        Headline("Who must tell a yes from a no, both as likely before, is right in", chance, COIN)
    ]


HEADLINES = {
    "gaussian": _gaussian_headlines, "laplace": _laplace_headlines, "coin": _coin_headlines
}  # fmt: skip


def often(chance: float) -> str:
    """How often at most, for people; what would be rounded to 100 % is said in words.

    >>> often(0.75), often(0.69146246), often(1 - 1e-6)
    ('at most 75 % of cases', 'at most 69.2 % of cases', 'practically all cases')
    """
    if chance > MOST_CHANCE:
        return "practically all cases"
    return f"at most {at_most(100 * chance)} % of cases"


def level_words(level: float) -> str:
    """`privacy level s = 4 (larger shows more)`, for where it first appears."""
    return f"privacy level s = {level_number(level)} (larger shows more)"


def level_number(level: float) -> str:
    """A level to four digits, without a power of ten where that can be.

    >>> level_number(4.0), level_number(1200.0), level_number(0.123456)
    ('4', '1,200', '0.1235')
    """
    return f"{float(f'{level:.4g}'):,.8g}"


def about(error: float, transform: str, digits: Callable[[float], str] = at_least) -> str:
    """`± 0.5`, or after a logarithm `a factor of 1.64`."""
    if transform != "log":
        return f"± {digits(error)}"
    return f"a factor of {_factor(error, digits)}"


def _factor(difference: float, digits: Callable[[float], str]) -> str:
    return digits(math.exp(difference)) if difference < 30 else "more than a million millions"


def _gaussian(one: Exposed) -> list[str]:
    error = attacker.reading_error(one.level)
    lines = [
        f"{one.reading}: whoever sees the release can tell it to "
        f"{about(error, one.transform)} at best (one standard deviation, for a guess that is right "
        "on average).",
        _between(one, lambda c: attacker.chance_of_mu(_mu(one.level, c))),
    ]
    if one.spread is None:
        before = error if one.prior is None else one.prior
        lines.append(
            f"Who knows it to {about(before, one.transform, short)} beforehand knows it to "
            f"{about(attacker.informed_error(one.level, before), one.transform)} afterwards, and "
            "guesses whether it is above or below what they thought in "
            f"{often(attacker.chance_of_side(one.level, before))}."
        )
        return lines
    lines.append(
        "Who also knows the features and the true coefficients knows it to "
        f"{about(one.spread, one.transform, short)} without the release and to "
        f"{about(attacker.informed_error(one.level, one.spread), one.transform)} with it, and "
        "guesses whether it is above or below what they predict in "
        f"{often(attacker.chance_of_side(one.level, one.spread))}."
    )
    return lines


def _mu(level: float, apart: float) -> float:
    """Of a real release, on its grid."""
    with np.errstate(over="ignore"):  # a move beyond the grid counts as all of it
        return grid_mu(level, apart)


def _between(one: Exposed, chance: Callable[[float], float]) -> str:
    """How often two values are told apart: as far apart as was stated, or as people are."""
    if one.apart is not None:
        return (
            f"Between two values that {differs(one.apart, one.transform)} an attacker picks the "
            f"right one in {often(chance(one.apart))} {COIN}."
        )
    if one.spread is not None:
        return (
            "Between two values as far apart as people with the same features typically are "
            f"({about(one.spread, one.transform, short).removeprefix('± ')}) an attacker picks the "
            f"right one in {often(chance(one.spread))} {COIN}."
        )
    near = attacker.reading_error(one.level)
    return (
        f"Between two values that {differs(near, one.transform)} an attacker picks the right one "
        f"in {often(chance(near))} {COIN}, between two that "
        f"{differs(4 * near, one.transform)} in {often(chance(4 * near))}."
    )


def differs(apart: float, transform: str) -> str:
    """`are 0.5 apart`, or after a logarithm `differ by a factor of 1.64`."""
    if transform == "log":
        return f"differ by a factor of {_factor(apart, short)}"
    return f"are {short(apart)} apart"


def _laplace(one: Exposed) -> list[str]:
    root = math.sqrt(one.level)  # the scale is 1/√s, so two values c apart have ε = c√s
    return [_between(one, lambda c: attacker.laplace_chance(root * c))]


def _coin(one: Exposed) -> list[str]:
    assert one.epsilon is not None
    return [
        f"{one.reading} is a yes or a no behind a coin: to whom both were equally likely before "
        "guesses the true answer from the release in "
        f"{often(attacker.coin_chance(one.epsilon))} {COIN}. Who knew more before knows more after."
    ]


LAWS = {"gaussian": _gaussian, "laplace": _laplace, "coin": _coin}

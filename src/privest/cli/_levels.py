"""`privest levels`: privacy levels by what an attacker can do, to choose one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from privest.arrays import as_positive
from privest.cli import _options as common
from privest.cli._console import new_table, print_json, shown, to_people
from privest.cli._options import option
from privest.privacy import attacker, grid_statement, level_for_attacker
from privest.privacy._statement import DELTA
from privest.records import Record
from privest.report import Exposed, at_least, at_most, exposure, level_words, short

CHANCES = (0.51, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.90, 0.99)
TOLERANCE = option(
    "A difference between two readings that matters, in their units (those after --transform): a "
    "range, or what a clinic cannot tell apart anyway.",
    "C",
    panel=common.PRIVACY,
)
ATTACKER = option(
    "How often an attacker may pick the right one of two values C apart; a coin does in 0.5.",
    "P",
    panel=common.PRIVACY,
)


@dataclass(frozen=True)
class Choice(Record):
    """One level: who guesses between two values `apart` is right with at most `chance`.

    reading_error   ± of a guess that is right on average, 1/√s
    informed_error  ± of one who knew the reading to ± `spread` before; None without one
    chance_of_side  how often that one guesses above or below the median
    epsilon         of a real release at δ, comparing readings that differ by `apart`
    """

    chance: float
    level: float
    reading_error: float
    informed_error: float | None
    chance_of_side: float | None
    epsilon: float


def choice(apart: float, chance: float, spread: float | None, delta: float) -> Choice:
    """The largest level of real releases that keeps a chance."""
    level = level_for_attacker(apart, chance).number
    assert level is not None
    return Choice(
        chance=chance,
        level=level,
        reading_error=attacker.reading_error(level),
        informed_error=None if spread is None else attacker.informed_error(level, spread),
        chance_of_side=None if spread is None else attacker.chance_of_side(level, spread),
        epsilon=grid_statement(level, move=apart, delta=delta).epsilon,
    )


def levels(
    tolerance: Annotated[float, TOLERANCE] = 1.0,
    attacker: Annotated[float | None, ATTACKER] = None,
    spread: Annotated[
        float | None,
        option(
            "How well an attacker knows the reading before: ± this, a standard deviation.",
            "τ",
            panel=common.PRIVACY,
        ),
    ] = None,
    delta: Annotated[float, option("δ of the column ε.", "δ", panel=common.PRIVACY)] = DELTA,
    json: common.Json = False,
) -> None:
    """Which privacy level? Levels by what an attacker can do with a release; no data are needed.

    For Gaussian noise, one reading a person. With --attacker the one level of that chance, as
    `privest plan --tolerance C --attacker P` takes it.

    Examples:

    privest levels --tolerance 0.5

    privest levels --tolerance 0.5 --attacker 0.75 --spread 1
    """  # fmt: skip
    apart = as_positive(tolerance, "--tolerance")
    if spread is not None:
        as_positive(spread, "--spread")
    found = [
        choice(apart, chance, spread, delta)
        for chance in (CHANCES if attacker is None else (attacker,))
    ]
    if json:
        record = {"tolerance": apart, "spread": spread, "delta": delta}
        print_json(record | {"levels": [one.to_dict() for one in found]})
    elif attacker is None:
        _print_table(found, apart, spread, delta)
    else:
        _print_one(found[0], apart, spread, delta)


def _print_table(found: list[Choice], apart: float, spread: float | None, delta: float) -> None:
    prior = () if spread is None else (f"± after ± {short(spread)}", "above/below")
    table = new_table(
        f"Privacy level s (larger shows more); two values {short(apart)} apart",
        *("right in", "level s", "one reading", *prior, "ε"),
    )
    for one in found:
        cells = [f"{at_most(100 * one.chance)} %", short(one.level), _error(one.reading_error)]
        if one.informed_error is not None and one.chance_of_side is not None:
            cells += [_error(one.informed_error), f"{at_most(100 * one.chance_of_side)} %"]
        table.add_row(*cells, at_most(one.epsilon))
    console = to_people()
    console.print(table)
    for line in _explained(apart, spread, delta):
        console.print(shown(line))


def _error(value: float) -> str:
    return f"± {at_least(value)}"


def _explained(apart: float, spread: float | None, delta: float) -> list[str]:
    lines = [
        f"right in: how often at most an attacker picks the right one of two values {short(apart)} "
        "apart; a coin does in 50 %.",
        "one reading: nobody can tell it better by the release alone (one standard deviation, for "
        "a guess that is right on average).",
    ]
    if spread is not None:
        lines.append(
            f"± after ± {short(spread)}: of one who knew it to ± {short(spread)} beforehand; "
            "above/below: how often that one guesses on which side of the middle it is."
        )
    lines.append(
        f"ε: of differential privacy at δ = {delta:g}, comparing data in which one reading differs "
        f"by at most {short(apart)}. It is large where an attacker can do little: Gaussian noise "
        "and ε match badly for one number a person."
    )
    return lines


def _print_one(one: Choice, apart: float, spread: float | None, delta: float) -> None:
    words = level_words(one.level)
    lines = [
        f"{words[:1].upper()}{words[1:]}.",
        *exposure(Exposed(level=one.level, apart=apart, prior=spread)),
        f"As differential privacy: ε = {at_most(one.epsilon)} at δ = {delta:g}, comparing data in "
        f"which one reading differs by at most {short(apart)}.",
    ]
    for line in lines:
        to_people().print(shown(line))

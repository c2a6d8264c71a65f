"""`privest levels`: privacy levels by what an attacker can do, to choose one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from privest.arrays import as_positive
from privest.cli import _options as common
from privest.cli._console import print_json, to_people
from privest.cli._options import option
from privest.privacy import attacker, grid_statement, level_for_attacker
from privest.privacy.reader import DELTA
from privest.records import Record
from privest.report import print_sections
from privest.report.describe import levels_section, one_level

CHANCES = (0.51, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.90, 0.99)
TOLERANCE = option(
    "A difference between two values that matters, in their units (those after --transform): the "
    "width of a range, or what a clinic cannot tell apart anyway.",
    "C",
    panel=common.PRIVACY,
)
ATTACKER = option(
    "How often an attacker may pick the right one of two equally likely values C apart; guessing "
    "gives 0.5.",
    "P",
    panel=common.PRIVACY,
)


@dataclass(frozen=True)
class Choice(Record):
    """One level: an attacker is right between two values `apart` with at most `chance`.

    reading_error   1/√s, the least sd of an unbiased guess
    informed_error  sd of a reader's guess, where values vary with sd `spread`; None without one
    chance_of_side  how often that reader guesses above or below the median
    epsilon         of a real release at δ, where a range of width `apart` is enforced
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
            "Residual sd: how much values vary around the prediction.",
            "SD",
            panel=common.PRIVACY,
        ),
    ] = None,
    delta: Annotated[float, option("δ of the column ε.", "δ", panel=common.PRIVACY)] = DELTA,
    json: common.Json = False,
) -> None:
    """Which privacy level? Levels by what an attacker can do with a release; no data are needed.

    For Gaussian noise, one value per person. With --attacker the one level of that chance, as
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
        print_sections(to_people(), [levels_section(found, apart, spread, delta)])
    else:
        one = found[0]
        print_sections(to_people(), one_level(one.level, apart, spread, one.epsilon, delta))

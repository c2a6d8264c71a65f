"""Where to begin when nobody has said how much privacy is wanted: a level to move from."""

from __future__ import annotations

import math
from collections.abc import Mapping

from privest.arrays import as_choice
from privest.errors import InvalidInput
from privest.privacy import pure_level
from privest.workflow._laws import DELTA
from privest.workflow._modelled import level_for_chance, modelled_range
from privest.workflow._record import record_shares
from privest.workflow._sections import Ends, Privacy, read_transform
from privest.workflow._spec import FAMILIES

APART = 0.1  # of the range: two values so far apart
CHANCE = 0.75  # are told from each other so often: half way between a coin and certainty
DIGITS = 3


def starting_privacy(
    ranges: Mapping[str, Ends], *, transform: str = "none", family: str = "gaussian"
) -> Privacy:
    """A level at which a guess between two values a tenth of the range apart is right in 75 %.

    ranges: the public range of each private column, in the units of the file; with several columns
    all of them are a tenth apart. After a `transform` it is a tenth of the transformed range. Of a
    yes or no, which has nothing between its ends, the two ends are told from each other so often.
    The level is rounded down; ε is stated at δ = 1e-6.

    >>> starting_privacy({"ldl": (0.0, 10.0)}).level
    1.81
    >>> starting_privacy({"sick": (0.0, 1.0)}, family="binomial").level
    1.33
    """
    if not ranges:
        raise InvalidInput("a level to begin with needs the public range of each private column.")
    read_transform(transform)
    as_choice(family, FAMILIES, "family")
    targets = tuple(ranges)
    ends = ranges[targets[0]] if len(targets) == 1 else dict(ranges)
    if family == "binomial":
        width = max(high - low for low, high in ranges.values())
        level = pure_level("coin", math.log(CHANCE / (1 - CHANCE)), width)
        return Privacy(level=_rounded_down(level), range=ends)
    limits = [modelled_range(transform, ranges[name]) for name in targets]
    asked = Privacy(tolerance=APART, attacker=CHANCE, range=ends)
    if len(targets) > 1:
        shares = record_shares(asked, targets, limits)
        level = sum(share.level * (share.scale or 0.0) ** 2 for share in shares)
    else:
        assert limits[0] is not None
        level = level_for_chance(APART * limits[0].width, CHANCE)
    return Privacy(level=_rounded_down(level), range=ends, delta=DELTA)


def _rounded_down(level: float) -> float:
    """To some digits, so that a plan can be read; never up, which would show more."""
    text = f"{level:.{DIGITS - 1}e}"
    if float(text) > level:
        mantissa, exponent = text.split("e")
        text = f"{float(mantissa) - 10.0 ** (1 - DIGITS):.{DIGITS - 1}f}e{exponent}"
    return float(text)

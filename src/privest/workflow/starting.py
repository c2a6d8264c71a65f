"""A level to start from when nobody has stated how much privacy is wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from privest.errors import InvalidInput
from privest.privacy import pure_level
from privest.workflow.distribution import Ends
from privest.workflow.spec import Model, Privacy
from privest.workflow.terms import Known, modelled_range, solve

APART = 0.1  # of the range: two values so far apart
CHANCE = 0.75  # are told apart with this probability: half way between guessing and certainty
DELTA = 1e-6
DIGITS = 3


def starting_privacy(
    ranges: Mapping[str, Ends], *, transform: str = "none", family: str = "gaussian"
) -> Privacy:
    """A level at which an attacker tells apart two values a tenth of the range apart in 75%.

    ranges: the public range of each private column, in the units of the file. Of a yes/no outcome
    the two ends are told apart so often. The level is rounded down; ε is stated at δ = 1e-6.

    >>> starting_privacy({"ldl": (0.0, 10.0)}).level
    1.81
    >>> starting_privacy({"sick": (0.0, 1.0)}, family="binomial").level
    1.33
    """
    if not ranges:
        raise InvalidInput("a level to start from needs the public range of each private column.")
    model = Model(tuple(ranges), transform=transform, family=family)  # type: ignore[arg-type]
    if family == "binomial":
        width = max(high - low for low, high in ranges.values())
        level = pure_level("coin", math.log(CHANCE / (1 - CHANCE)), width)
        return Privacy(level=_rounded_down(level), range=ranges)
    apart = APART
    if len(ranges) == 1:
        limits = modelled_range(transform, next(iter(ranges.values())))
        assert limits is not None
        apart *= limits.width
    asked = Privacy(tolerance=apart, attacker=CHANCE, range=ranges)
    known = (Known(),) * len(ranges)
    terms = solve(model, asked, known, most=None, shape=np.zeros((0, 0)))
    return Privacy(level=_rounded_down(float(terms.information)), range=ranges, delta=DELTA)


def _rounded_down(level: float) -> float:
    """To some digits, so that a plan can be read; never up, which would show more."""
    text = f"{level:.{DIGITS - 1}e}"
    if float(text) > level:
        mantissa, exponent = text.split("e")
        text = f"{float(mantissa) - 10.0 ** (1 - DIGITS):.{DIGITS - 1}f}e{exponent}"
    return float(text)

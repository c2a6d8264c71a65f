"""Families by name: "ar2", "arma2,1+noise", "trend+seasonal12", …"""

from __future__ import annotations

import re

from privest.dynamics._identification._arx import ARX
from privest.dynamics._identification._autoregressions import AR, ARMA, RegressionAR
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._structural import LocalLevel, LocalTrend, Seasonal
from privest.errors import InvalidInput

EXAMPLES = (
    '"ar2", "ar2+noise", "ar2-mean" (mean known to be 0), "arma2,1", "arx1", "regression1" '
    '(regression with AR(1) errors), "level", "level-noise", "trend", "seasonal12", '
    '"trend+seasonal12"'
)
STRUCTURAL = (("level",), ("trend",), ("seasonal",), ("level", "seasonal"), ("seasonal", "trend"))
WORD = re.compile(r"(ar|arma|arx|regression|seasonal|level|trend|noise|mean)([0-9]*)(?:,([0-9]+))?")


def as_family(family: str | Family, *, inputs: int = 0) -> Family:
    """A family as it is, or the one that a short text names.

    "ar2", "arma2,1", "arx1", "regression1" (AR errors); "level", "trend", "seasonal12" (with a
    level that moves), "trend+seasonal12". "+noise" adds a white error of the readings (beside
    release noise), "-noise" leaves that of a level, trend or season out; "-mean" says that the mean
    of an autoregression is 0, "+mean" adds one to "arx" and "regression". `inputs`: columns of
    public inputs, for "arx" and "regression".

    >>> as_family("ar2+noise"), as_family("trend+seasonal12"), as_family("arx1", inputs=2)
    (AR(2, noise=True), Seasonal(12, trend="trend"), ARX(1, 2))
    """
    if isinstance(family, Family):
        return family
    if not isinstance(family, str):
        raise InvalidInput(
            f"a family must be a family or a text as {EXAMPLES}; received a "
            f"{type(family).__name__}."
        )
    words, options = _words(family)
    kinds = tuple(sorted(word for word, _, _ in words))
    if kinds in STRUCTURAL:
        choices = _only(family, options, "noise")
        if "seasonal" not in kinds:
            return (LocalTrend if "trend" in kinds else LocalLevel)(**choices)
        period = next(int(number) for word, number, _ in words if word == "seasonal")
        return Seasonal(period, trend="trend" if "trend" in kinds else "level", **choices)
    if len(words) == 1:
        (kind, first, second), choices = words[0], _only(family, options, "noise", "mean")
        if kind == "arma":
            return ARMA(int(first), int(second), **choices)
        if kind == "ar":
            return AR(int(first), **choices)
        made = ARX if kind == "arx" else RegressionAR
        return made(int(first), inputs or 1, **choices)
    raise _unknown(family)


def _words(text: str) -> tuple[list[tuple[str, str, str]], dict[str, bool]]:
    """(kind, number, second number) of every term, and what is switched on or off."""
    words, options = [], {}
    for sign, term in re.findall(r"([+-]?)([^+-]*)", re.sub(r"\s", "", text.lower())):
        if not sign and not term:
            continue
        found = WORD.fullmatch(term)
        if not found:
            raise _unknown(text)
        kind, first, second = found.group(1), found.group(2), found.group(3) or ""
        if kind in ("noise", "mean") and sign and not first:
            options[kind] = sign == "+"
            continue
        plain = kind in ("level", "trend")
        if sign == "-" or plain == bool(first) or kind in ("noise", "mean"):
            raise _unknown(text)
        if (kind == "arma") != bool(second):
            raise _ambiguous(text, first) if kind == "arma" else _unknown(text)
        words.append((kind, first, second))
    return words, options


def _only(text: str, options: dict[str, bool], *allowed: str) -> dict[str, bool]:
    for name in options:
        if name not in allowed:
            raise InvalidInput(
                f"{text!r}: a level, trend or season has no mean of its own (its level is that)."
            )
    return options


def _unknown(text: str) -> InvalidInput:
    return InvalidInput(f"{text!r} names no family. Families are {EXAMPLES}.")


def _ambiguous(text: str, number: str) -> InvalidInput:
    between = f"arma{number[:1]},{number[1:] or 1}"
    return InvalidInput(
        f'{text!r} does not say where the two orders part: write "{between}" for {number[:1]} '
        f"coefficients of the past and {number[1:] or 1} of the moving average."
    )

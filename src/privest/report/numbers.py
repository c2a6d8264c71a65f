"""Numbers for people: the only place that rounds. A template names the kind of each number.

    {sd:down}      three digits, rounded down: what something is promised not to fall below
    {sd:up}        three digits, rounded up: what something is promised not to exceed
    {sd:near}      three digits (no kind: the same); se: the same, of a standard error
    {se:half}      ±, half of a 95% interval
    {ends:interval}
                   (low, high) or (low, high, error) as `−2.61 to 1.42`, to the second digit of
                   the error, or of a quarter of its width
    {pair:value}   (estimate, standard error): the estimate to the second digit of its error
    {p:percent}    a share as `65.1%`; most, rounded up; share, of values: `less than 0.001%`
    {e:epsilon}    rounded up; delta: as it was stated; level: four digits
    {n:count}      1,234; rows, people and so on: `1 row`, `442 rows`
    {x:end}        a number as it was stated, six digits; exact: all of its digits

Powers of ten appear only where a plain number would be longer than ten digits.
"""

from __future__ import annotations

import decimal
import math
import string
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

BAND = 1.959964  # deviations: 95% of a normal distribution
NEXT_TO_NONE = 1e-5  # of the values: a smaller share is not worth its digits
SURE = 1e-4  # a p-value below it is printed as that
MINUS = "\N{MINUS SIGN}"


def near(value: float, rounding: str = decimal.ROUND_HALF_EVEN, digits: int = 3) -> str:
    """A number of this many digits, without a power of ten where that can be."""
    if not math.isfinite(value):
        return "unlimited" if value > 0 else "unknown"
    # 12 digits first: 0.1 as a float is a little more than 0.1, and is not to become 0.101.
    context = decimal.Context(prec=digits, rounding=rounding)
    number = context.create_decimal(f"{value:.12g}").normalize()
    if number == 0:
        return "0"
    plain = -5 <= number.adjusted() < 10
    text = f"{number:,f}" if plain else f"{number:e}".lower().replace("e+", "e")
    return text.replace("-", MINUS)


down: partial[str] = partial(near, rounding=decimal.ROUND_FLOOR)
up: partial[str] = partial(near, rounding=decimal.ROUND_CEILING)
level: partial[str] = partial(near, digits=4)
end: partial[str] = partial(near, digits=6)  # a number as somebody stated it


def value(pair: tuple[float, float]) -> str:
    """An estimate to the second digit of its error; what would vanish keeps a digit."""
    number, error = pair
    if not (math.isfinite(number) and math.isfinite(error)) or error <= 0:
        return near(number)
    place = 1 - math.floor(math.log10(error))
    size = max(abs(number), error)
    if error < 1e-4 or size >= 1e7:
        figures = max(1, math.floor(math.log10(size)) + place + 1)
        return f"{number:.{figures - 1}e}".replace("e+0", "e").replace("e-0", "e-").replace(
            "-", MINUS
        )  # fmt: skip
    nearest = round(number, place) + 0.0
    if nearest == 0 and number != 0:
        return f"{number:.1g}".replace("-", MINUS)
    return f"{nearest:,.{max(0, place)}f}".replace("-", MINUS)


def interval(ends: tuple[float, ...]) -> str:
    """The one style of an interval: (low, high), or (low, high, standard error)."""
    low, high = float(ends[0]), float(ends[1])
    if not (math.isfinite(low) and math.isfinite(high)):
        return "unlimited"
    size = float(ends[2]) if len(ends) > 2 else (high - low) / 4
    return f"{value((low, size))} to {value((high, size))}"


def half(error: float) -> str:
    return f"± {near(BAND * error)}" if math.isfinite(error) else "unknown"


def percent(share: float) -> str:
    return f"{near(100 * share)}%"


def change(share: float) -> str:
    return f"{'+' if share > 0 else ''}{near(100 * share)}%"


def most(share: float) -> str:
    return f"{up(100 * share)}%"


def clipped(share: float) -> str:
    if 0 < share < NEXT_TO_NONE:
        return f"less than {near(100 * NEXT_TO_NONE)}%"
    return f"{near(100 * share, digits=2)}%"


def delta(given: float) -> str:
    return f"{given:g}".replace("e-0", "e-")


def chance(p: float) -> str:
    return f"p < {end(SURE)}" if p < SURE else f"p = {near(p, digits=2)}"


def ratio(t: float) -> str:
    """A t or z in a table: two decimals."""
    return f"{t:.2f}".replace("-", MINUS) if abs(t) < 1e4 else near(t)


def short(p: float) -> str:
    """A p-value in a table: three decimals."""
    if math.isnan(p):
        return near(p)
    return "<0.001" if p < 1e-3 else f"{p:.3f}"


def count(number: float) -> str:
    """A whole number with its thousands; a fraction of one has two digits."""
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.2g}"


def _counted(one: str, several: str | None = None) -> Callable[[float], str]:
    return lambda number: f"{count(number)} {one if number == 1 else several or f'{one}s'}"


def freedom(ends: tuple[float, float]) -> str:
    """Degrees of freedom, from the least to the most; those of many rows are not rounded."""
    return _from_to(f"{x:,.0f}" if x >= 100 else near(x) for x in ends)


def times(ends: tuple[float, float]) -> str:
    """Multiples from the least to the largest: `1.5`, `1.2 to 3.46`."""
    return _from_to(map(near, ends))


def _from_to(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


KINDS: dict[str, Callable[[Any], str]] = {
    "": near, "near": near, "down": down, "up": up, "se": near, "half": half, "value": value,
    "interval": interval, "percent": percent, "change": change, "most": most, "share": clipped,
    "epsilon": up, "delta": delta, "level": level, "end": end, "p": chance, "t": ratio,
    "short_p": short, "count": count, "rows": _counted("row"),
    "people": _counted("person", "people"), "coefficients": _counted("coefficient"),
    "columns": _counted("private column"),
    "freedom": freedom, "times": times, "exact": repr,
}  # fmt: skip


class _Template(string.Formatter):
    """`{name:kind}`. A text or a sentence is itself; a list is of such, or of numbers of a kind."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401
        if isinstance(value, str):
            return value
        if hasattr(value, "text"):
            return str(value.text)
        if isinstance(value, list):
            word = format_spec if format_spec in ("and", "or") else "or"
            return listed([self.format_field(one, format_spec) for one in value], word)
        return KINDS[format_spec](value)


def said(template: str, values: Mapping[str, Any]) -> str:
    return _Template().vformat(template, (), values)


def listed(texts: list[str], word: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"

"""Numbers for people: as many digits as their error leaves meaningful."""

from __future__ import annotations

import decimal
import math

import numpy as np

from privest.arrays import Array
from privest.arrays import plural as plural


def rounded(value: float, error: float) -> str:
    """`value` to the second digit of `error`, with a true minus sign.

    What would be rounded to nothing keeps a digit, and so its side of zero.

    >>> rounded(3.14159, 0.026), rounded(-1234.5, 170.0), rounded(2.5e-7, 1.1e-8)
    ('3.142', '−1230', '2.50e−07')
    >>> rounded(-0.0028, 0.26), rounded(-0.0, 0.26)
    ('−0.003', '0.00')
    """
    return _rounded(value, error).replace("-", "−")


def _rounded(value: float, error: float) -> str:
    if error <= 0.0 or not math.isfinite(error):
        return f"{value:.4g}"
    place = 1 - math.floor(math.log10(error))  # digits behind the point; < 0: before it
    size = max(abs(value), error)
    if error >= 1e-4 and size < 1e7:
        nearest = round(value, place)
        if nearest == 0.0 and value != 0.0:
            return f"{value:.1g}"
        return f"{nearest + 0.0:.{max(0, place)}f}"  # + 0.0: no "-0"
    figures = math.floor(math.log10(size)) + place
    return f"{value:.{max(1, figures)}e}"


def short(value: float) -> str:
    """Three digits, without a power of ten where that can be.

    >>> short(2000.4), short(0.33333), short(1.5), short(3.2e-9)
    ('2,000', '0.333', '1.5', '3.2e−09')
    """
    return _short(value, decimal.ROUND_HALF_EVEN)


def at_least(value: float) -> str:
    """Like `short`, rounded down: for a number that something is promised not to fall below.

    >>> at_least(2 / 3), at_least(0.5), at_least(1 / math.sqrt(100.0))
    ('0.666', '0.5', '0.1')
    """
    return _short(value, decimal.ROUND_FLOOR)


def at_most(value: float) -> str:
    """Like `short`, rounded up: for a number that something is promised not to exceed.

    >>> at_most(2.001), at_most(2.0), at_most(59874.1)
    ('2.01', '2', '59,900')
    """
    return _short(value, decimal.ROUND_CEILING)


def _short(value: float, rounding: str) -> str:
    exact = decimal.Decimal(f"{value:.12g}")  # 0.3 is no 0.29999999999999998
    number = float(decimal.Context(prec=3, rounding=rounding).create_decimal(exact))
    plain = number == 0.0 or 1e-4 <= abs(number) < 1e7
    return (f"{number:,.8g}" if plain else f"{number:.3g}").replace("-", "−")


def times(low: float, high: float) -> str:
    """`1.4 times`, or `1.2 to 3.5 times` where the two differ in their first three digits.

    >>> times(1.5, 1.5001), times(1.2, 3.456)
    ('1.5 times', '1.2 to 3.46 times')
    """
    ends = short(low), short(high)
    return f"{ends[0]} times" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} times"


def span(ratios: Array) -> str:
    """All of these, from the least to the largest, in words."""
    return times(float(ratios.min()), float(ratios.max()))


def tick_format(value: float, half: float) -> str:
    """A format for ticks about `value` that tells points apart at a tenth of `half`."""
    size = max(abs(value), half)
    figures = math.ceil(math.log10(size / half)) + 3 if half > 0 else 6
    return f"{{x:.{min(15, max(3, figures))}g}}"


def per_cent(confidence: float) -> str:
    """`95 %`.

    >>> per_cent(0.95), per_cent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * confidence:.6g} %"


def out_of(confidence: float) -> str:
    """How many intervals hold the truth, counted.

    >>> out_of(0.95), out_of(0.999)
    ('95 of 100', '999 of 1,000')
    """
    whole = 100
    while whole < 10**6 and abs(whole * confidence - round(whole * confidence)) > 1e-9 * whole:
        whole *= 10
    return f"{round(whole * confidence):,} of {whole:,}"


def freedom_text(freedom: float | Array | None) -> str:
    """`, 2,535 degrees of freedom`, or from the least to the most of them; nothing if not known.

    Those of many rows are not rounded: 2,540 would be taken for the number of rows.

    >>> freedom_text(2535.0), freedom_text(np.array([11.94, 38.2])), freedom_text(None)
    (', 2,535 degrees of freedom', ', 11.9 to 38.2 degrees of freedom', '')
    """
    known = np.asarray([] if freedom is None else freedom, float)
    known = known[np.isfinite(known)]
    if known.size == 0:
        return ""
    low, high = (f"{f:,.0f}" if f >= 100 else f"{f:.3g}" for f in (known.min(), known.max()))
    return f", {low if low == high else f'{low} to {high}'} degrees of freedom"
